/* One spelling for programs in Jinja, so that marks can be looked for in them. */
#ifndef NEAP_TEXT_CHAT_JINJA_H
#define NEAP_TEXT_CHAT_JINJA_H

#include "base/vector.h"

/* The program without comments, without white space outside of literals and without the signs that trim
 * around tags; literals in single quotes, with line feeds as \n, and joined where a plus stands between two;
 * fields of a message as message['role']. For the caller to free; a 0 follows it. */
neap_status chat_jinja_normalise(const char *jinja, char **out);

/* The text of what lies between `before` and `after` in a normalised program, where it is the middle of one
 * literal and not empty; for the caller to free. NULL: it has none. */
neap_status chat_jinja_literal(const char *normalised, const char *before, const char *after, char **out);

#endif
