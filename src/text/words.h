/* The words that byte-pair codes are made of: no token crosses from one into the next. */
#ifndef NEAP_TEXT_WORDS_H
#define NEAP_TEXT_WORDS_H

#include <stddef.h>

/* The length of the word that `length` bytes, 1 or more, begin with. A word is a longest run of one class,
 * with the space (0x20) before it, if there is one:
 *
 *   white space   ASCII space, tab, line feed, vertical tab, form feed, carriage return
 *   digits        ASCII 0-9
 *   punctuation   the rest of ASCII but letters; controls, punctuation, symbols and emoji of Unicode, by
 * block letters       all other code points, and bytes that are not UTF-8
 *
 * A run of white space takes no space before it, and leaves its last space to the word that follows. So
 * "two  dogs, 12" is "two", " ", " dogs", ",", " 12". Words are cut one after the other from the beginning of
 * a text; together they are the text. */
size_t word_length(const char *bytes, size_t length);

#endif
