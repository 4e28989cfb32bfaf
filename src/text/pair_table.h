/* Pairs of ids, numbered 0, 1, 2, ... in the order in which they first occur. */
#ifndef NEAP_TEXT_PAIR_TABLE_H
#define NEAP_TEXT_PAIR_TABLE_H

#include "base/index.h"
#include "base/vector.h"

struct pair {
  int32_t left, right;
};

struct pair_table {
  VECTOR(struct pair) pairs; /* by number */
  struct index index;        /* private */
};

/* Returns the number of a pair; -1: it is missing. */
int32_t pair_table_find(const struct pair_table *table, struct pair pair);

/* Gives the number of a pair, which is the next one if the pair is new. A failure leaves the table unchanged.
 * NEAP_TOO_LARGE: it has 2^31 - 1 pairs. */
neap_status pair_table_add(struct pair_table *table, struct pair pair, int32_t *number);

/* Empties the table, which stays usable. A zeroed table is empty. */
void pair_table_free(struct pair_table *table);

#endif
