/* The records of a table as numbers, in a temporary file: a number for each column, with the place of the
 * word in one of words, and the label. */
#ifndef NEAP_DATA_TABLE_RECORDS_H
#define NEAP_DATA_TABLE_RECORDS_H

#include "data/csv.h"
#include "data/source.h"
#include "data/table.h"

struct table_records {
  const char *path; /* for messages */
  int descriptor;
  bool rounded; /* numbers are rounded to f32, as by READING_FIRST */
  struct table_tally {
    int64_t unseen, line; /* cells with a word that is none of the column's, and the line of the first */
    const char *text;     /* of that */
  } * tallies;            /* [columns] */
};

/* Opens the temporary file for a table of a source. */
neap_status table_records_open(struct source *source, const char *path, const struct table *table,
                               struct table_records *records);

/* Makes a label's cell a number: the place of its class, or its value. NEAP_BAD_FORMAT: it is neither; the
 * message names line, column and cell, and what to do. */
neap_status table_put_label(const struct csv *csv, const struct table *table, const char *text,
                            double *number);

/* Appends the record that was read; field map[i] is that of column i. `label`: its number. numbers [columns +
 * 1] is overwritten. NEAP_BAD_FORMAT: a cell of a column of numbers is not a number. */
neap_status table_records_add(struct source *source, struct table_records *records, const struct csv *csv,
                              const struct table *table, const size_t *map, double label, double *numbers);

/* Reads the label of the record at a place. */
neap_status table_records_label(const struct table_records *records, const struct table *table, int64_t place,
                                double *label);

/* Reads the features [width], standardised. NEAP_BAD_FORMAT: one is then not finite. */
neap_status table_records_features(const struct table_records *records, const struct table *table,
                                   int64_t place, const struct scale *scale, float *features);

/* Reads the features as they are; NaN: a gap. */
neap_status table_records_numbers(const struct table_records *records, const struct table *table,
                                  int64_t place, double *numbers);

/* Adds to the source's report how many words were not seen in training, by column. */
neap_status table_records_tell(struct source *source, const struct table_records *records,
                               const struct table *table);

#endif
