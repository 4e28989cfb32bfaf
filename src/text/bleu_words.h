/* Splits texts into the words that BLEU counts. */
#ifndef NEAP_TEXT_BLEU_WORDS_H
#define NEAP_TEXT_BLEU_WORDS_H

#include <stddef.h>

#include "base/status.h"

/* Characters, a vector (base/vector.h). */
struct characters {
  char *data;
  size_t count, capacity;
};

/* Finds the first word from `*at` on, in UTF-8: a longest run without white space, as in Python's
 * str.split(). Returns its length, 0 if none exists, and sets `*at` to its start. */
size_t bleu_word(const char *bytes, size_t length, size_t *at);

/* Writes UTF-8 with blanks where words end, by the rules of sacreBLEU's tokenizer "13a", into `out`; `spare`
 * holds the steps between. Both are vectors of the caller, with any content. */
neap_status bleu_split_13a(const char *bytes, size_t length, struct characters *out,
                           struct characters *spare);

#endif
