/* Settings. A setting is a row: one field of neap_train_options
 * with a name, a range and a usual value. The options of the command, settings files, state.json, checks of
 * ranges, shell completion and the manual page are made from the rows. */
#ifndef NEAP_SETTINGS_H
#define NEAP_SETTINGS_H

#include "neap_train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The type of the field, and how a value is written. */
typedef enum neap_setting_kind {
  NEAP_SETTING_SWITCH,    /* bool; "true" or "false" */
  NEAP_SETTING_CHOICE,    /* bool; one of two words, "on|off", where the first is false */
  NEAP_SETTING_WORD,      /* an enum or int; one of several words, "a|b|c", counted from 0 */
  NEAP_SETTING_DTYPE,     /* neap_dtype; its name */
  NEAP_SETTING_TEXT,      /* const char *, borrowed */
  NEAP_SETTING_INT,       /* int32_t */
  NEAP_SETTING_INTEGER,   /* int64_t; or the word after | in `value`, which is -1 */
  NEAP_SETTING_SEED,      /* uint64_t */
  NEAP_SETTING_NUMBER,    /* double */
  NEAP_SETTING_FLOAT,     /* float */
  NEAP_SETTING_SCALE,     /* float and after it a bool: the word after | in `value` */
  NEAP_SETTING_IMAGE,     /* int64_t[3]; "CxHxW" */
  NEAP_SETTING_BYTES,     /* uint64_t; a number of bytes, "96MiB" */
  NEAP_SETTING_BUDGET,    /* uint64_t and after it a double: as neap_budget_parse gives them */
  NEAP_SETTING_TECHNIQUES /* unsigned NEAP_ALLOW_..., and session.sparse_density: "micro,f16,sparse=0.3" */
} neap_setting_kind;

/* Properties of a setting. */
enum {
  NEAP_SETTING_BITS = 1,         /* it changes the bits of the weights; state.json has it as `key` */
  NEAP_SETTING_ALWAYS = 2,       /* state.json always has it; otherwise only if the field is not zero */
  NEAP_SETTING_STEP = 4,         /* describes the training step of a model; a graph file has it already */
  NEAP_SETTING_PATH = 8,         /* a file or folder */
  NEAP_SETTING_SOURCE_PATH = 16, /* a file or folder after the colon, "text:FILE" */
  NEAP_SETTING_ONE_RUN = 32,     /* a resumed run does not take it over */
  NEAP_SETTING_ZERO = 64,        /* a field of 0 is the usual value; NEAP_ZERO is 0 */
  NEAP_SETTING_OPTIMIZER = 128,  /* a field of NAN is the usual value of the optimizer */
  NEAP_SETTING_LIST = 256,       /* a text with commas: the option may be given several times */
  NEAP_SETTING_WRITES = 512,     /* the run writes to this path, which its folder has or the user gives */
  NEAP_SETTING_NONE = 1024       /* the text "none" is the usual value, NULL */
};

/* Verbs of the command that take a setting. */
enum {
  NEAP_VERB_TRAIN = 1,
  NEAP_VERB_EVALUATE = 2,
  NEAP_VERB_PREDICT = 4,
  NEAP_VERB_GENERATE = 8,
  NEAP_VERB_TRANSLATE = 16,
  NEAP_VERB_PLAN = 32,
  NEAP_VERB_CURVE = 64,
  NEAP_VERB_SHOW = 128,
  NEAP_VERB_GRAPH = 256,
  NEAP_VERB_BENCH = 512,
  NEAP_VERB_LR = 1024,
  NEAP_VERB_EXPORT = 2048,
  NEAP_VERB_REPLAY = 4096
};

/* Kinds of models. */
enum { NEAP_OF_IMAGES = 1, NEAP_OF_TOKENS = 2, NEAP_OF_VECTORS = 4, NEAP_OF_PAIRS = 8 };

typedef struct neap_setting {
  const char *name;       /* "micro-batch": --micro-batch, and the key in a settings file */
  const char *value;      /* its value in a help text, or its words; NULL: takes no value */
  const char *usual;      /* its default in words; NULL: not described */
  const char *help;       /* one line */
  neap_setting_kind kind; /* of the field */
  size_t offset;          /* of the field in neap_train_options */
  double least, below;    /* a number is at least `least` and below `below`; below 0: any finite one */
  unsigned flags, verbs;  /* NEAP_SETTING_..., NEAP_VERB_... */
  unsigned models;        /* NEAP_OF_...: models for which it has an effect; 0: all */
  /* It has an effect only with one of these: "schedule=step|allow", and with one of those after &, too;
   * "optimizer=*": with the update rules that read it. NULL: always. */
  const char *with;
  const char *unless;     /* it has no effect together with this setting; NULL: does not apply */
  const char *instead_of; /* "a|b": only one of these and this setting can be given; NULL: does not apply */
  const char *key;        /* its name in state.json; NULL: not stored there */
} neap_setting;

/* Gives setting `index`, from 0; returns false past the end. */
bool neap_setting_at(int32_t index, neap_setting *setting);
/* Returns the index of the setting of this name; -1: no such setting. */
int32_t neap_setting_find(const char *name);

/* Returns the options of `neap train` if only model and data are given: budget `max`, a cosine schedule, seed
 * 1; numbers of the optimizer are NAN. */
neap_train_options neap_train_options_usual(void);

/* Replaces numbers that are NAN by the optimizer's usual values; also replaces 0 where it means the usual
 * value, except for the learning rate. NEAP_ZERO stays. A run does this itself. */
void neap_train_options_resolve(neap_train_options *options);

/* Replaces a total_budget: session.budget becomes the part of one of the processes of session.collective, at
 * least a byte, and total_budget 0. A run does this itself. */
void neap_train_options_divide_budget(neap_train_options *options);

/* Sets the field of a setting from a text. `options` is the struct that `offset` refers to; a TEXT is
 * borrowed. NEAP_INVALID_ARGUMENT: the text is not a valid value; the message names the setting, the text and
 * the range. The field is then unchanged. */
neap_status neap_setting_read(const neap_setting *setting, const char *text, void *options);

/* Gives the text from which neap_setting_read makes the same field; "" if the field means no value.
 * NEAP_TOO_LARGE: the text does not fit. */
neap_status neap_setting_write(const neap_setting *setting, const void *options, char *text, size_t size);

/* A line of a settings file. Texts are borrowed while the function that takes it runs. */
typedef struct neap_setting_entry {
  const char *file, *name, *text;
  int64_t line; /* from 1 */
  bool quoted;  /* the text was in quotation marks or in a block */
} neap_setting_entry;
typedef neap_status neap_setting_entry_function(void *context, const neap_setting_entry *entry);

/* Reads a settings file: a YAML document that is one mapping of names to single values. Calls `take` for each
 * entry, in the order of the file, until a status is not NEAP_OK. Does not check whether names exist.
 * NEAP_IO_FAILED: the file cannot be read. NEAP_BAD_FORMAT: it is not such a document; a name occurs twice; a
 * value is missing, nested, an alias, or has an anchor or a tag. The message begins with FILE:LINE. A
 * byte-order mark is skipped. */
neap_status neap_settings_read_file(const char *path, neap_setting_entry_function *take, void *context);

/* Fails with NEAP_INVALID_ARGUMENT if the setting does not have its usual value, but has no effect with the
 * other options: by `with`, `unless`, `instead_of`, or the kind of options->model. The message says which
 * option it needs. */
neap_status neap_setting_check_use(const neap_setting *setting, const neap_train_options *options);

#ifdef __cplusplus
}
#endif

#endif
