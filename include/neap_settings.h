/* Settings. A setting is a row: one field of neap_train_options
 * with a name, a range and a usual value. The options of the command, settings files, state.json, the checks
 * of ranges, shell completion and the manual page are made from the rows. */
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
  NEAP_SETTING_INTEGER,   /* int64_t; or the word behind | in `value`, which is -1 */
  NEAP_SETTING_SEED,      /* uint64_t */
  NEAP_SETTING_NUMBER,    /* double */
  NEAP_SETTING_FLOAT,     /* float */
  NEAP_SETTING_SCALE,     /* float and, behind it, a bool: the word behind | in `value` */
  NEAP_SETTING_IMAGE,     /* int64_t[3]; "CxHxW" */
  NEAP_SETTING_BYTES,     /* uint64_t; a number of bytes, "96MiB" */
  NEAP_SETTING_BUDGET,    /* uint64_t and, behind it, a double: as neap_budget_parse gives them */
  NEAP_SETTING_TECHNIQUES /* unsigned NEAP_ALLOW_..., and session.sparse_density: "micro,f16,sparse=0.3" */
} neap_setting_kind;

/* Properties of a setting. */
enum {
  NEAP_SETTING_BITS = 1,         /* it changes the bits of the weights; state.json has it as `key` */
  NEAP_SETTING_ALWAYS = 2,       /* state.json has it always; without this, where the field is not zero */
  NEAP_SETTING_STEP = 4,         /* a graph file has it already: it describes the training step of a model */
  NEAP_SETTING_PATH = 8,         /* a file or folder */
  NEAP_SETTING_SOURCE_PATH = 16, /* a file or folder behind the colon, "text:FILE" */
  NEAP_SETTING_ONE_RUN = 32,     /* a run that goes on does not take it over */
  NEAP_SETTING_ZERO = 64,        /* a field of 0 is the usual value; NEAP_ZERO is 0 */
  NEAP_SETTING_OPTIMIZER = 128,  /* a field of NAN is the usual value of the optimizer */
  NEAP_SETTING_LIST = 256        /* a text with commas: the option may be given several times */
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
  NEAP_VERB_EXPORT = 2048
};

/* Kinds of models. */
enum { NEAP_OF_IMAGES = 1, NEAP_OF_TOKENS = 2, NEAP_OF_VECTORS = 4, NEAP_OF_PAIRS = 8 };

typedef struct neap_setting {
  const char *name;       /* "micro-batch": --micro-batch, and the key in a settings file */
  const char *value;      /* its value in a help, or its words; NULL: it takes no value */
  const char *usual;      /* what holds where it is not given, for people; NULL: nothing */
  const char *help;       /* a line */
  neap_setting_kind kind; /* of the field */
  size_t offset;          /* of the field in neap_train_options */
  double least, below;    /* a number is at least the one and below the other; below 0: any finite one */
  unsigned flags, verbs;  /* NEAP_SETTING_..., NEAP_VERB_... */
  unsigned models;        /* NEAP_OF_...: where it does something; 0: everywhere */
  /* It does something only with one of these: "optimizer=sgd,rmsprop|allow", and behind & with one of those,
   * too. NULL: in any case. */
  const char *with;
  const char *unless;     /* it does nothing beside this setting; NULL: none */
  const char *instead_of; /* only one of the two can be given; NULL: none */
  const char *key;        /* its name in state.json; NULL: it has none there */
} neap_setting;

/* Setting `index`, from 0; false past the end. */
bool neap_setting_at(int32_t index, neap_setting *setting);
/* The index of the setting of this name; -1: no setting has it. */
int32_t neap_setting_find(const char *name);

/* The options of `neap train` where nothing is given but model and data: budget `max`, a cosine schedule,
 * seed 1; numbers of the optimizer are NAN. */
neap_train_options neap_train_options_usual(void);

/* Replaces numbers that are NAN by those that are usual for the optimizer; and 0 where that means the
 * usual value, but for the learning rate. NEAP_ZERO stays. A run does the same by itself. */
void neap_train_options_resolve(neap_train_options *options);

/* Sets the field of a setting by a text. `options` is what `offset` counts from; a TEXT is borrowed.
 * NEAP_INVALID_ARGUMENT: the text is no such value; the message names the setting, the text and the range.
 * The field is then as it was. */
neap_status neap_setting_read(const neap_setting *setting, const char *text, void *options);

/* The text that neap_setting_read makes the same field of; "" where the field means no value.
 * NEAP_TOO_LARGE: it has no room. */
neap_status neap_setting_write(const neap_setting *setting, const void *options, char *text, size_t size);

/* A line of a settings file. Texts are borrowed until the function that is given it returns. */
typedef struct neap_setting_entry {
  const char *file, *name, *text;
  int64_t line; /* from 1 */
  bool quoted;  /* the text stood in quotation marks, or in a block */
} neap_setting_entry;
typedef neap_status neap_setting_entry_function(void *context, const neap_setting_entry *entry);

/* Reads a settings file: a YAML document that is one mapping of names to single values. Calls `take` for each
 * entry, in the order of the file, and ends with the first status that is not NEAP_OK. It does not know
 * which names there are. NEAP_IO_FAILED: the file cannot be read. NEAP_BAD_FORMAT: it is no such document; a
 * name is there twice; a value is missing, nested, an alias, or has an anchor or a tag. The message begins
 * with FILE:LINE. A byte-order mark is skipped. */
neap_status neap_settings_read_file(const char *path, neap_setting_entry_function *take, void *context);

/* Fails with NEAP_INVALID_ARGUMENT where the setting has another value than the usual one, but does nothing
 * beside the other options: `with`, `unless`, `instead_of`, or the kind of options->model. The message says
 * what it goes with. */
neap_status neap_setting_check_use(const neap_setting *setting, const neap_train_options *options);

#ifdef __cplusplus
}
#endif

#endif
