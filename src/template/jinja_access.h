/* Fields, items and methods of values of a program in Jinja, and arguments of what it calls. */
#ifndef NEAP_TEMPLATE_JINJA_ACCESS_H
#define NEAP_TEMPLATE_JINJA_ACCESS_H

#include "template/jinja_value.h"

enum jinja_function_type {
  JINJA_A_MACRO,
  JINJA_A_METHOD, /* of `self` */
  JINJA_A_GLOBAL,
  JINJA_A_LOOP, /* what `loop` is */
};

struct jinja_function {
  enum jinja_function_type type;
  const char *name;
  struct jinja_value self;
  const struct jinja_node *macro;
  struct jinja_scope *scope; /* of a macro: where it stands */
  const struct jinja_list *items;
  size_t index; /* of a loop */
};

struct jinja_argument {
  const char *name; /* NULL: it has its place */
  struct jinja_value value;
};

struct jinja_arguments {
  struct jinja_argument *list;
  size_t count;
};

enum { JINJA_PARAMETERS = 6 };

/* Gives the arguments by parameter; `parameters` are their names with spaces between. Those that are not
 * given are jinja_is_missing. `what` is for messages. */
neap_status jinja_bind(struct jinja_run *run, const char *what, struct jinja_arguments given,
                       const char *parameters, struct jinja_value bound[JINJA_PARAMETERS]);
bool jinja_is_missing(struct jinja_value value);

/* Take an argument of a kind, or a usual value where it is missing. `what` names it in messages. */
neap_status jinja_take_string(struct jinja_run *run, struct jinja_value value, const char *what,
                              const struct jinja_string **out);
neap_status jinja_take_int(struct jinja_run *run, struct jinja_value value, int64_t usual, const char *what,
                           int64_t *out);

/* Gives the items that a loop over the value has. A stream is read to its end. */
neap_status jinja_iterate(struct jinja_run *run, struct jinja_value value, const struct jinja_list **out);

/* Give value.name and value[key]; undefined where Jinja has it so. */
neap_status jinja_attribute(struct jinja_run *run, struct jinja_value value, const char *name,
                            struct jinja_value *out);
neap_status jinja_index(struct jinja_run *run, struct jinja_value value, struct jinja_value key,
                        struct jinja_value *out);
/* Gives value[start:stop:step]; each may be none. */
neap_status jinja_slice(struct jinja_run *run, struct jinja_value value, const struct jinja_value bounds[3],
                        struct jinja_value *out);
/* Tests `item in value`. */
neap_status jinja_contains(struct jinja_run *run, struct jinja_value value, struct jinja_value item,
                           bool *out);

neap_status jinja_call_method(struct jinja_run *run, const struct jinja_function *method,
                              struct jinja_arguments given, struct jinja_value *out);

#endif
