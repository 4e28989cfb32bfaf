/* Normalises programs in Jinja to one spelling, so that marks can be found in them. */
#ifndef NEAP_TEXT_CHAT_JINJA_H
#define NEAP_TEXT_CHAT_JINJA_H

#include "base/vector.h"

/* Gives the program without comments, without white space outside of literals and without the signs that trim
 * around tags. Literals are in single quotes, with line feeds as \n, and joined at a plus between two; fields
 * of a message are message['role']. The caller frees it; a 0 follows it. */
neap_status chat_jinja_normalise(const char *jinja, char **out);

/* Gives the text between `before` and `after` in a normalised program, if it is the middle of one literal and
 * not empty; NULL otherwise. The caller frees it. */
neap_status chat_jinja_literal(const char *normalised, const char *before, const char *after, char **out);

#endif
