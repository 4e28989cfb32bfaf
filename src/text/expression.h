/* Regular expressions as Oniguruma and Ruby write them, which tokenizer.json has. On PCRE2. */
#ifndef NEAP_TEXT_EXPRESSION_H
#define NEAP_TEXT_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct expression; /* may be used by several threads */
struct matcher;    /* what one thread needs while it looks for matches */

/* Compiles an expression, or where `literal` a text that is looked for as it is. Free with expression_free.
 * NEAP_UNSUPPORTED: it is wrong, or says what PCRE2 cannot do; the message is the reason alone. */
neap_status expression_compile(const char *expression, size_t length, bool literal, struct expression **out);
void expression_free(struct expression *pattern);

neap_status matcher_create(struct matcher **out);
void matcher_free(struct matcher *matcher);

/* The matches in a text of UTF-8, one after the other, leftmost first. An empty one right behind the last is
 * none. */
struct expression_walk {
  const struct expression *pattern;
  struct matcher *matcher;
  const char *bytes;
  size_t length;
  size_t from, last; /* private, 0 at first: where to look on; 1 + the end of the last match */
};

/* The bytes [start, end) of the next match, or `found` is false. NEAP_UNSUPPORTED: the search takes more
 * steps than a tokenizer's pattern may. */
neap_status expression_next(struct expression_walk *walk, size_t *start, size_t *end, bool *found);

#endif
