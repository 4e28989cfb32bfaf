/* The metrics of a run: a file with one JSON object, on one line, for each step. */
#ifndef NEAP_TRAIN_METRICS_H
#define NEAP_TRAIN_METRICS_H

#include <jansson.h>
#include <stdio.h>

#include "base/status.h"

struct metrics {
  FILE *file;       /* NULL: none is kept, and the other functions do nothing */
  const char *path; /* borrowed */
};

/* Fails with NEAP_INVALID_ARGUMENT if a new file would replace one that is not empty. `path` may be NULL. */
neap_status metrics_check_new(const char *path);

/* Begins a new file. With a `resumed_step` of 0 or more, continues the existing one: cuts off lines of later
 * steps and an incomplete last one. Fails on a line that is not of metrics, and then leaves the file
 * unchanged. `path` may be NULL. */
neap_status metrics_open(const char *path, int64_t resumed_step, struct metrics *metrics);

/* Writes {"step", "epoch", "loss", "accuracy", "learning_rate", "seconds"} and, if they exist,
 * "test_accuracy", "test_loss", "test_mae", "test_rmse", "test_r2", "bits_per_byte", "gradient_norm",
 * "loss_scale" and "skipped". */
neap_status metrics_write(struct metrics *metrics, const neap_train_progress *progress);

/* Returns when all that was written is on the disk. */
neap_status metrics_sync(struct metrics *metrics);

neap_status metrics_close(struct metrics *metrics);

/* Returns a number, or null for one that JSON cannot have. NULL when out of memory. */
json_t *json_number(double value);

#endif
