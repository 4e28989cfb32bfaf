/* Regular expressions in the syntax of Oniguruma and Ruby, which tokenizer.json uses, run by PCRE2. */
#ifndef NEAP_TEXT_EXPRESSION_H
#define NEAP_TEXT_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct expression; /* may be used by several threads */
struct matcher;    /* one thread's memory while it looks for matches */

/* Compiles an expression or, if `literal`, a text to find as it is. Free with expression_free.
 * NEAP_UNSUPPORTED: it is invalid, or PCRE2 cannot do it; the message is only the reason. */
neap_status expression_compile(const char *expression, size_t length, bool literal, struct expression **out);
void expression_free(struct expression *pattern);

neap_status matcher_create(struct matcher **out);
void matcher_free(struct matcher *matcher);

/* The matches in a text of UTF-8, one after the other, leftmost first. An empty match right after the last
 * one does not count. */
struct expression_walk {
  const struct expression *pattern;
  struct matcher *matcher;
  const char *bytes;
  size_t length;
  size_t from, last; /* private, 0 at first: where to continue; 1 + the end of the last match */
};

/* Finds the bytes [start, end) of the next match, or sets `found` to false. NEAP_UNSUPPORTED: the search
 * takes more steps than a tokenizer's pattern may. */
neap_status expression_next(struct expression_walk *walk, size_t *start, size_t *end, bool *found);

#endif
