/* The words that BLEU counts. */
#ifndef NEAP_TEXT_BLEU_WORDS_H
#define NEAP_TEXT_BLEU_WORDS_H

#include <stddef.h>

#include "base/status.h"

/* Characters, a vector (base/vector.h). */
struct characters {
  char *data;
  size_t count, capacity;
};

/* Finds the first word from `*at` on, in UTF-8: a longest run without white space, which is that of Python's
 * str.split(). Gives its length, 0 if none exists, and `*at` where it begins. */
size_t bleu_word(const char *bytes, size_t length, size_t *at);

/* Sets blanks where the words of UTF-8 end, by the rules of sacreBLEU's tokenizer "13a", into `out`; `spare`
 * is for the steps between. Both are vectors of the caller, whatever they hold. */
neap_status bleu_split_13a(const char *bytes, size_t length, struct characters *out,
                           struct characters *spare);

#endif
