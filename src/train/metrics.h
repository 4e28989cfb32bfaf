/* The metrics of a run: a file with a JSON object a line, a line a step. */
#ifndef NEAP_TRAIN_METRICS_H
#define NEAP_TRAIN_METRICS_H

#include <jansson.h>
#include <stdio.h>

#include "base/status.h"

struct metrics {
  FILE *file;       /* NULL: none is kept, and the other functions do nothing */
  const char *path; /* borrowed */
};

/* Whether a new file would take the place of one with something in it: NEAP_INVALID_ARGUMENT. `path` may be
 * NULL. */
neap_status metrics_check_new(const char *path);

/* Begins a new file; or, with a `resumed_step` of 0 or more, goes on with the one that is there: lines of
 * later steps and a last one that is not whole are cut off. A line that is no metrics line is an error, and
 * the file stays as it is. `path` may be NULL. */
neap_status metrics_open(const char *path, int64_t resumed_step, struct metrics *metrics);

/* Writes {"step", "epoch", "loss", "accuracy", "learning_rate", "seconds"} and, where there is one,
 * "test_accuracy", "test_loss", "test_mae", "test_rmse", "test_r2", "bits_per_byte", "gradient_norm",
 * "loss_scale" and "skipped". */
neap_status metrics_write(struct metrics *metrics, const neap_train_progress *progress);

/* What was written is on the disk when this returns. */
neap_status metrics_sync(struct metrics *metrics);

neap_status metrics_close(struct metrics *metrics);

/* A number, or null for one that JSON does not have. NULL when out of memory. */
json_t *json_number(double value);

#endif
