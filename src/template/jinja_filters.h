/* Filters and tests of programs in Jinja. */
#ifndef NEAP_TEMPLATE_JINJA_FILTERS_H
#define NEAP_TEMPLATE_JINJA_FILTERS_H

#include "template/jinja_access.h"

/* Gives value | name(arguments). NEAP_UNSUPPORTED: the filter is not one of those here. */
neap_status jinja_filter(struct jinja_run *run, const char *name, struct jinja_value value,
                         struct jinja_arguments given, struct jinja_value *out);

/* Gives `value is name(arguments)`. */
neap_status jinja_test(struct jinja_run *run, const char *name, struct jinja_value value,
                       struct jinja_arguments given, bool *out);

#endif
