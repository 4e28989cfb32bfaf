/* Verbs and their arguments: settings, which are rows of the library, and options of a verb's own. A function
 * that returns an exit status has written the message of any other than EXIT_DONE. */
#ifndef NEAP_CLI_OPTIONS_H
#define NEAP_CLI_OPTIONS_H

#include "shared/exit_status.h"
#include "shared/verb.h"

struct operands {
  int count;
  const char *values[OPERAND_LIMIT];
};

/* The arguments of one command line. */
struct arguments {
  neap_train_options options;       /* the usual ones, with the settings that were given */
  const char *given[SETTING_LIMIT]; /* the text of each setting, by its index; NULL: it was not given */
  bool now[SETTING_LIMIT];          /* given on this command line, not taken from the resumed run */
  bool own_given[OWN_LIMIT];        /* by the row of the verb's own options */
  struct operands operands;
  const char *config; /* a settings file; NULL: none */
  bool json;
};

/* Prints how a budget was read if its unit is ambiguous ("96M"), or the value of "available". Returns the
 * budget: in bytes if it is "available". */
uint64_t tell_budget(const char *text, uint64_t bytes);

/* Prints the smallest budget that can be met, as the kind of budget that was given; `smallest`: of the
 * process. */
void tell_smallest(const struct arguments *a, uint64_t smallest);

/* The path that `-o -` stands for. Compare by address: no other spelling gives it. */
extern const char standard_output[];

/* Fails with EXIT_USAGE if both a file and a JSON object would go to standard output. */
int check_output(const struct verb *verb, const char *out, bool json);

/* Reads a verb's arguments: settings into `a`, whose contents do not matter before, other options into `own`,
 * in which an option that is not given leaves its field unchanged. The last of equal options counts. Returns
 * false after a message.
 */
bool read_arguments(const struct verb *verb, int count, char **arguments, void *own, struct arguments *a);

/* Sets one setting by a text, which is borrowed. NEAP_INVALID_ARGUMENT: see neap_setting_read. */
neap_status set_setting(struct arguments *a, int32_t index, const char *text);

/* Returns the text of a setting; NULL: it was not given. */
const char *given_text(const struct arguments *a, const char *name);

/* Returns whether the setting was given, or another that takes its place. */
bool is_given(const struct arguments *a, int32_t index);

/* Opens the model that the options name, unless it is open. It stays open until the command exits. Returns an
 * exit status.
 */
int open_model(const struct verb *verb, neap_train_options *options);

/* Opens the model, if one is named, and checks that each setting of this command line has an effect beside
 * the others. Returns an exit status. */
int check_use(const struct verb *verb, struct arguments *a);

/* Keeps a text until the command exits. Returns NULL if `text` is NULL, which means that memory is out. */
const char *keep_text(char *text);

/* Frees the texts and closes the models that were kept. */
void free_kept(void);

/* The name of an option on a command line: "--batch", "-o". */
struct option_name {
  char text[40];
};
struct option_name option_name(const neap_setting *option);

/* Gives option `at` of a verb, in the order of its help, without --help. Returns false past the last. */
bool verb_option_at(const struct verb *verb, int at, neap_setting *row);

/* Returns the value of an option that is not given to the verb; NULL: none. */
const char *usual_of(const struct verb *verb, const neap_setting *option);

void print_verb_help(const struct verb *verb);

#endif
