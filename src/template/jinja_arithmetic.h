/* Arithmetic of values of a program in Jinja. Integers beyond 64 bits are refused. */
#ifndef NEAP_TEMPLATE_JINJA_ARITHMETIC_H
#define NEAP_TEMPLATE_JINJA_ARITHMETIC_H

#include "template/jinja_value.h"

/* Gives a OPERATOR b: + - * / // % ** of numbers, + of strings and of lists, * of a string and a number. */
neap_status jinja_arithmetic(struct jinja_run *run, const char *operator, struct jinja_value a,
                             struct jinja_value b, struct jinja_value *out);

/* Gives -value, or +value. */
neap_status jinja_sign(struct jinja_run *run, struct jinja_value value, bool negate, struct jinja_value *out);

#endif
