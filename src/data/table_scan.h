/* Finds out which columns of a table's file hold numbers, and which hold words. */
#ifndef NEAP_DATA_TABLE_SCAN_H
#define NEAP_DATA_TABLE_SCAN_H

#include "data/csv.h"
#include "data/source.h"
#include "data/table.h"

/* The words of the source's name. */
struct table_words {
  const char *file, *label, *task, *test, *ignore, *holdout, *seed, *text, *missing, *words,
      *decimal; /* NULL: not given */
};

/* Sets what `missing` and `decimal` say, in the source's region; what is not given stays.
 * NEAP_INVALID_ARGUMENT: decimal is neither comma nor point. */
neap_status table_read_form(struct source *source, const struct table_words *words, struct table_form *form);

/* Reads all of the file and describes it by the form in `table`; with `text`, only that column and the label.
 *
 * A column has numbers where at least nine tenths of its cells, gaps aside, are numbers: any other cell is
 * then a problem of its record. Else its cells are words; a column without any cell is left out. Classes that
 * are equal as numbers are one. Each column has a row in the source's report. The description is in the
 * source's region. `*rows`: the number of records. Rows with another number of fields than the header are
 * added to the problems. NEAP_BAD_FORMAT: a column has too many words, or is named twice; it would have
 * numbers with a decimal comma; the label has fractions where classes are wanted. */
neap_status table_scan(struct source *source, const struct table_words *words, struct csv *csv,
                       struct table *table, int64_t *rows);

#endif
