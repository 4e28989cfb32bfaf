/* Predictions as text: one line for each record, with names and probabilities. */
#ifndef NEAP_TRAIN_PREDICTION_ROWS_H
#define NEAP_TRAIN_PREDICTION_ROWS_H

#include <stdio.h>

#include "data/source.h"

/* The form of the file, by its name's ending: .csv, .jsonl, or else NumPy's. */
enum prediction_form { PREDICTION_NPY, PREDICTION_CSV, PREDICTION_JSON_LINES };
enum prediction_form prediction_form_of(const char *path);

struct prediction_rows {
  enum prediction_form form;
  const struct source *source;
  enum split split;
  bool values;               /* of the records; false: logits of classes */
  int64_t count;             /* of them. Classes beyond those of the source are named by their numbers */
  const struct scale *scale; /* by which values are restored; NULL: they are written as they are */
};

/* Writes the first line of a CSV: record, prediction and, for classes, their probability and one column
 * each. */
void prediction_rows_begin(FILE *file, const struct prediction_rows *rows);

/* Writes a record's line, from outputs [count]. Returns false if memory is out or a name is not UTF-8. */
bool prediction_rows_add(FILE *file, const struct prediction_rows *rows, int64_t record,
                         const float *outputs);

#endif
