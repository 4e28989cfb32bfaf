/* Strings of bytes, numbered 0, 1, 2, ... in the order in which they first occur. */
#ifndef NEAP_TEXT_WORD_TABLE_H
#define NEAP_TEXT_WORD_TABLE_H

#include "base/index.h"
#include "base/vector.h"

struct word {
  const char *bytes; /* borrowed */
  size_t length;
  uint64_t hash;
};

struct word_table {
  VECTOR(struct word) words; /* by number */
  struct index index;        /* private */
};

/* Gives the number of a word, which is the next one if the word is new. The table keeps the address of its
 * bytes. A failure leaves the table unchanged. NEAP_TOO_LARGE: it has 2^31 - 1 words. */
neap_status word_table_add(struct word_table *table, const char *bytes, size_t length, int32_t *number);

/* Empties the table, which stays usable. A zeroed table is empty. */
void word_table_free(struct word_table *table);

#endif
