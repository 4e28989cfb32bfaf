/* A verb of the command, and the rows of its own options. */
#ifndef NEAP_CLI_VERB_H
#define NEAP_CLI_VERB_H

#include <stddef.h>

#include "neap.h"

enum { USUAL_LIMIT = 6, SETTING_LIMIT = 128, OWN_LIMIT = 16, OPERAND_LIMIT = 2 };

struct verb {
  const char *name, *usage, *summary;
  unsigned settings;       /* NEAP_VERB_...: takes the settings of neap_settings.h that have it */
  const neap_setting *own; /* further options, whose offsets are in a structure of the verb; ends with {0} */
  int operands;            /* the most arguments besides options, up to OPERAND_LIMIT */
  int (*run)(const struct verb *verb, int count, char **arguments);
  /* The values of settings that are not given, if they differ from those of the settings' rows. "*": of any.
   */
  struct {
    const char *setting, *text;
  } usual[USUAL_LIMIT];
};

/* A row of a verb's own options; further arguments are further fields of the row. */
#define OWN_OPTION(type, name_, value_, usual_, help_, kind_, field, ...)                                    \
  {                                                                                                          \
    .name = name_, .value = value_, .usual = usual_, .help = help_, .kind = NEAP_SETTING_##kind_,            \
    .offset = offsetof(type, field), __VA_ARGS__                                                             \
  }

#endif
