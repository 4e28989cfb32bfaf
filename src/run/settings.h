/* Settings inside the library: neap_settings.h. The rows stand in setting_rows.c; setting_values.c reads and
 * writes their fields. */
#ifndef NEAP_RUN_SETTINGS_H
#define NEAP_RUN_SETTINGS_H

#include <jansson.h>

#include "base/status.h"

extern const neap_setting setting_rows[];
extern const int32_t setting_count;

/* The setting that state.json has under this name; NULL: no setting has it. */
const neap_setting *setting_of_key(const char *key);

/* The value, without a sign where it is NEAP_ZERO; or the usual one where it is NAN or 0. */
double setting_given_or(double value, double usual);

/* Checks the range of each setting whose field lies within `session`, or within the rest of `options`. A
 * field of 0 is in range, and NAN where that means the optimizer's value. NEAP_INVALID_ARGUMENT: the
 * message names the setting, its value and its range. */
neap_status settings_check_session(const neap_session_options *session);
neap_status settings_check_run(const neap_train_options *options);

/* Puts the settings that change the bits into a JSON object, each under its key. NEAP_OUT_OF_MEMORY;
 * NEAP_INVALID_ARGUMENT: a text is not UTF-8 or a number not finite. */
neap_status settings_add_json(json_t *object, const neap_train_options *options);

/* Replaces numbers of 0 in a saved object by what they stood for when it was written: where a setting's 0 is
 * its usual value, a 0 that was given has a sign. Saved objects of before have the 0 itself. */
void settings_name_usual(json_t *saved);

#endif
