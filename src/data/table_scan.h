/* Finds out which columns of a table's file hold numbers, and which hold words. */
#ifndef NEAP_DATA_TABLE_SCAN_H
#define NEAP_DATA_TABLE_SCAN_H

#include "data/csv.h"
#include "data/source.h"
#include "data/table.h"

/* The words of the source's name. */
struct table_words {
  const char *file, *label, *task, *test, *ignore, *holdout, *seed, *text; /* NULL: not given */
};

/* Reads all of the file and describes it; with `text`, only that column and the label. The description is in
 * the source's region. `*rows`: the number of records. Rows with another number of fields than the header are
 * added to the problems. NEAP_BAD_FORMAT: a column has too many words, or is named twice; the label has
 * fractions where classes are wanted. */
neap_status table_scan(struct source *source, const struct table_words *words, struct csv *csv,
                       struct table *table, int64_t *rows);

/* Returns true for a finite number with nothing but blanks around it. */
bool table_number(const char *text, double *value);

/* Returns true for an empty text, or a word that means the same: NA, NaN, null, ?. */
bool table_is_missing(const char *text);

#endif
