/* Settings inside the library: neap_settings.h. setting_rows.c has the rows; setting_values.c reads and
 * writes their fields. */
#ifndef NEAP_SETTINGS_SETTINGS_H
#define NEAP_SETTINGS_SETTINGS_H

#include <jansson.h>

#include "base/status.h"

extern const neap_setting setting_rows[];
extern const int32_t setting_count;

/* Returns the setting that state.json has under this name; NULL: none has it. */
const neap_setting *setting_of_key(const char *key);

/* Returns the value, as 0 without a sign if it is NEAP_ZERO; or the usual value if it is NAN or 0. */
double setting_given_or(double value, double usual);

/* Checks the range of each setting with a field in `session`, or in the rest of `options`. A field of 0 is in
 * range; so is NAN if it means the optimizer's value. NEAP_INVALID_ARGUMENT: the message names the setting,
 * its value and its range. */
neap_status settings_check_session(const neap_session_options *session);
neap_status settings_check_run(const neap_train_options *options);

/* Adds the settings that change the bits to a JSON object, each under its key. NEAP_OUT_OF_MEMORY;
 * NEAP_INVALID_ARGUMENT: a text is not UTF-8 or a number not finite. */
neap_status settings_add_json(json_t *object, const neap_train_options *options);

/* Replaces each 0 in a saved object by the usual value that it meant when it was written, if the setting has
 * one; there a given 0 has a sign. Objects of older versions have the 0 itself. */
void settings_name_usual(json_t *saved);

#endif
