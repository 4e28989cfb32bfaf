/* The columns of a table's file: which hold numbers, which hold words. */
#ifndef NEAP_DATA_TABLE_SCAN_H
#define NEAP_DATA_TABLE_SCAN_H

#include "data/csv.h"
#include "data/source.h"
#include "data/table.h"

/* As the name says. */
struct table_words {
  const char *file, *label, *task, *test, *ignore, *holdout, *seed, *text; /* NULL: not given */
};

/* Reads the whole file and describes it, with `text` that column and the label alone; what is kept lies in
 * the source's region. `*rows`: records. Rows of another number of fields than the header are problems.
 * NEAP_BAD_FORMAT: a column has too many words, or is named twice; the label has fractions where classes are
 * wanted. */
neap_status table_scan(struct source *source, const struct table_words *words, struct csv *csv,
                       struct table *table, int64_t *rows);

/* A finite number, and nothing else but blanks around it. */
bool table_number(const char *text, double *value);

/* Nothing, or a word that means it: NA, NaN, null, ?. */
bool table_is_missing(const char *text);

#endif
