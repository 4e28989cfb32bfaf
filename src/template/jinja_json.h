/* Writes values of a program in Jinja as JSON, as Python's json.dumps does. */
#ifndef NEAP_TEMPLATE_JINJA_JSON_H
#define NEAP_TEMPLATE_JINJA_JSON_H

#include "template/jinja_value.h"

struct jinja_json_form {
  const struct jinja_string *indent;      /* NULL: all on one line */
  const struct jinja_string *item, *pair; /* separators; NULL: Python's */
  bool ascii, sorted;
};

/* NEAP_INVALID_ARGUMENT: the value has a part that JSON has not. */
neap_status jinja_json(struct jinja_run *run, struct jinja_value value, const struct jinja_json_form *form,
                       struct jinja_value *out);

#endif
