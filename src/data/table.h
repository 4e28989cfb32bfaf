/* What a table's columns become: a number each, or a word of some as a 1 among zeros. */
#ifndef NEAP_DATA_TABLE_H
#define NEAP_DATA_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct table_column {
  const char *name;   /* of a label; NULL: no label */
  bool text;          /* it is made tokens, and the only column */
  int64_t word_count; /* 0: numbers */
  const char **words; /* in the order of bytes, or of numbers where a label has such */
  int64_t first;      /* of its elements among the features */
};

struct table {
  struct table_column *columns;
  int64_t column_count, width; /* width: features of a record */
  struct table_column label;   /* words: the classes; numbers: values */
};

/* Whether its records are texts. */
bool table_is_text(const struct table *table);

/* The place of a word of a column, whose words are sorted; that of a class, whose words may be in the order
 * of numbers. -1: no such word. */
int64_t table_find_word(const struct table_column *column, const char *word);
int64_t table_find_class(const struct table_column *label, const char *word);

#endif
