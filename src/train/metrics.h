/* The metrics of a run: a file with one JSON object, on one line, for each step. */
#ifndef NEAP_TRAIN_METRICS_H
#define NEAP_TRAIN_METRICS_H

#include "train/json_lines.h"

/* The lines of a file of metrics, for messages. */
#define METRICS "metrics"

/* Fails with NEAP_INVALID_ARGUMENT if a new file would replace one that is not empty. `path` may be NULL. */
neap_status metrics_check_new(const char *path);

/* Writes {"step", "epoch", "loss", "accuracy", "learning_rate", "seconds"} and, if they exist,
 * "test_accuracy", "test_loss", "test_mae", "test_rmse", "test_r2", "bits_per_byte", "gradient_norm",
 * "loss_scale" and "skipped". */
neap_status metrics_write(struct json_lines *metrics, const neap_train_progress *progress);

/* Returns a number, or null for one that JSON cannot have. NULL when out of memory. */
json_t *json_number(double value);

#endif
