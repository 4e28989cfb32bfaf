/* Converts a table's columns to numbers: one number each, or a 1 among zeros for a word. */
#ifndef NEAP_DATA_TABLE_H
#define NEAP_DATA_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/region.h"
#include "base/status.h"
#include "data/table_cell.h"

struct table_column {
  const char *name;     /* of a label: NULL if there is no label */
  bool text;            /* converted to tokens; then the only column */
  int64_t word_count;   /* 0: a column of numbers */
  const char **words;   /* sorted by bytes, or by value if a label's words are numbers */
  const double *values; /* of a label's words that are numbers; NaN: a word is no number. NULL: not known */
  int64_t first;        /* of its elements within the features */
};

struct table {
  struct table_column *columns;
  int64_t column_count, width; /* width: features of a record */
  struct table_column label;   /* with words: classes; with numbers: values */
  struct table_form form;
};

/* Returns true if the table's records are texts. */
bool table_is_text(const struct table *table);

/* Finds the values of a label's words, so that table_find_class compares numbers. */
neap_status table_take_values(struct region *region, const struct table_form *form,
                              struct table_column *label);

/* Returns the place of a word of a column, whose words are sorted; -1: no such word. */
int64_t table_find_word(const struct table_column *column, const char *word);

/* Returns the place of a class, whose words may be in the order of numbers: of that word, or else of an equal
 * number. -1: no such class. */
int64_t table_find_class(const struct table *table, const char *word);

#endif
