/* Values of a program in Jinja, as Python has them: what they are, how they compare and how they print.
 *
 * A string remembers which of its bytes came from which source (a message's content): each piece that is cut
 * from it, joined with it or changed keeps that as marks. So a rendered text tells where each content is. */
#ifndef NEAP_TEMPLATE_JINJA_VALUE_H
#define NEAP_TEMPLATE_JINJA_VALUE_H

#include <stdio.h>

#include "base/region.h"
#include "base/status.h"

enum { JINJA_DEPTH = 200 }; /* of values, expressions and blocks inside each other, and of calls */

/* The limits of one rendering. */
struct jinja_limits {
  size_t steps;  /* parts of the program that are run */
  size_t memory; /* bytes of values, in all */
  size_t output; /* bytes of one text */
};
extern const struct jinja_limits jinja_usual_limits;

/* A program that runs, or is read: its memory, and the place that messages name. */
struct jinja_run {
  struct region region; /* of values */
  struct jinja_limits left;
  size_t output;    /* the limit of a text */
  const char *name; /* of the program, for messages */
  int line, column; /* of the part that runs, from 1 */
  int depth;
  char message[512];
};

/* Fails with "NAME: line L, column C: " and the message. NEAP_UNSUPPORTED: of Jinja or Python, but not here.
 * NEAP_INVALID_ARGUMENT: Jinja fails, too. NEAP_TOO_LARGE: a limit. */
#define JINJA_FAIL(run, status, ...)                                                                         \
  (snprintf((run)->message, sizeof(run)->message, __VA_ARGS__),                                              \
   neap_fail(status, "%s: line %d, column %d: %s", (run)->name, (run)->line, (run)->column, (run)->message))

/* Gives zeroed memory of the run. NEAP_TOO_LARGE: it would be more than the limit. */
neap_status jinja_alloc(struct jinja_run *run, size_t count, size_t size, void *out);

/* Counts one step, one level deeper; jinja_leave goes back up. */
neap_status jinja_enter(struct jinja_run *run);
void jinja_leave(struct jinja_run *run);

enum { JINJA_GENERATED = -1 }; /* source of what a {% generation %} block has */

struct jinja_mark {
  int source;
  size_t begin, end; /* bytes; may be empty */
};

/* UTF-8. */
struct jinja_string {
  const char *bytes;
  size_t length;
  const struct jinja_mark *marks;
  size_t mark_count;
};

enum jinja_kind {
  JINJA_UNDEFINED, /* `name` tells of what; NULL: of no name */
  JINJA_NONE,
  JINJA_BOOL,
  JINJA_INT,
  JINJA_FLOAT,
  JINJA_STRING,
  JINJA_LIST,
  JINJA_DICT,
  JINJA_NAMESPACE, /* a dict whose fields can be set */
  JINJA_FUNCTION,  /* a macro, a method or a global: of the evaluator */
};

/* The form that a sequence has in Python. */
enum jinja_form {
  JINJA_IN_LIST,
  JINJA_IN_TUPLE,
  JINJA_IN_RANGE,
  JINJA_IN_VIEW,  /* dict.keys() and its like: has a length, but no places */
  JINJA_IN_STREAM /* a generator: read once, always true, without a length */
};

struct jinja_value {
  enum jinja_kind kind;
  union {
    const char *name;
    bool truth;
    int64_t integer;
    double real;
    const struct jinja_string *string;
    struct jinja_list *list;
    struct jinja_dict *dict;
    struct jinja_function *function;
  };
};

struct jinja_list {
  enum jinja_form form;
  struct jinja_value *items;
  size_t count, at; /* `at`: items of a stream that were read */
};

struct jinja_pair {
  struct jinja_value key, value;
};

struct jinja_dict {
  struct jinja_pair *pairs; /* in the order in which they came */
  size_t count, capacity;
};

static inline struct jinja_value jinja_undefined(const char *name) {
  return (struct jinja_value){.kind = JINJA_UNDEFINED, .name = name};
}
static inline struct jinja_value jinja_none(void) { return (struct jinja_value){.kind = JINJA_NONE}; }
static inline struct jinja_value jinja_bool(bool truth) {
  return (struct jinja_value){.kind = JINJA_BOOL, .truth = truth};
}
static inline struct jinja_value jinja_int(int64_t integer) {
  return (struct jinja_value){.kind = JINJA_INT, .integer = integer};
}
static inline struct jinja_value jinja_float(double real) {
  return (struct jinja_value){.kind = JINJA_FLOAT, .real = real};
}
static inline bool jinja_is_sequence(struct jinja_value v, enum jinja_form form) {
  return v.kind == JINJA_LIST && v.list->form == form;
}

/* Make a string of bytes, which stay borrowed; `source` marks all of them, JINJA_GENERATED - 1 or less: none.
 * A list of `count` items, to be filled. An empty dict. */
enum { JINJA_UNMARKED = JINJA_GENERATED - 1 };
neap_status jinja_new_string(struct jinja_run *run, const char *bytes, size_t length, int source,
                             struct jinja_value *out);
neap_status jinja_new_list(struct jinja_run *run, enum jinja_form form, size_t count,
                           struct jinja_value *out);
neap_status jinja_new_dict(struct jinja_run *run, enum jinja_kind kind, struct jinja_value *out);

/* Sets a field, or adds it. */
neap_status jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key,
                           struct jinja_value value);
/* Gives the field of a key, or NULL. */
neap_status jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict, struct jinja_value key,
                            struct jinja_value **out);
struct jinja_value *jinja_dict_field(const struct jinja_dict *dict, const char *key);

/* Tests whether a value is a string of these bytes. */
bool jinja_string_is(struct jinja_value value, const char *text);

/* Returns what Python calls the type of a value. */
const char *jinja_type_name(struct jinja_value value);

bool jinja_truth(struct jinja_value value);
bool jinja_is_number(struct jinja_value value); /* a bool is one, too */
double jinja_real(struct jinja_value number);
neap_status jinja_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool *equal);
/* Gives -1, 0 or 1; of numbers, and of strings. */
neap_status jinja_order(struct jinja_run *run, struct jinja_value a, struct jinja_value b, int *order);

/* ---- Texts that are made ---- */

struct jinja_builder {
  struct jinja_run *run;
  char *bytes;
  size_t length, capacity;
  struct jinja_mark *marks;
  size_t mark_count, mark_capacity;
};

neap_status jinja_put(struct jinja_builder *b, const char *bytes, size_t length);
/* Appends the bytes from `begin` to before `end` of a string, with their marks. */
neap_status jinja_put_part(struct jinja_builder *b, const struct jinja_string *s, size_t begin, size_t end);
neap_status jinja_put_string(struct jinja_builder *b, const struct jinja_string *s);
/* Appends other bytes for those of a part: they have its marks. */
neap_status jinja_put_changed(struct jinja_builder *b, const struct jinja_string *s, size_t begin, size_t end,
                              const char *bytes, size_t length);
/* Marks what was appended from `begin` on. */
neap_status jinja_put_mark(struct jinja_builder *b, int source, size_t begin);
/* Appends str(value). */
neap_status jinja_print(struct jinja_builder *b, struct jinja_value value);
neap_status jinja_built(struct jinja_builder *b, struct jinja_value *out);
/* Gives str(value) as a string. */
neap_status jinja_text_of(struct jinja_run *run, struct jinja_value value, struct jinja_value *out);

/* Appends a float as Python's repr does. */
neap_status jinja_put_real(struct jinja_builder *b, double real);

#endif
