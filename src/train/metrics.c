#include "train/metrics.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

json_t *json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

neap_status metrics_check_new(const char *path) {
  struct stat status;
  const bool there = path != NULL && stat(path, &status) == 0;
  RETURN_IF(path != NULL && !there && errno != ENOENT, NEAP_IO_FAILED, "%s: cannot be read: %s", path,
            strerror(errno));
  if (!there || !S_ISREG(status.st_mode)) return NEAP_OK;
  RETURN_IF(status.st_size > 0, NEAP_INVALID_ARGUMENT,
            "%s: is not empty; name another file for the metrics, or replace it (`force`)", path);
  return NEAP_OK;
}

neap_status metrics_write(struct json_lines *metrics, const neap_train_progress *progress) {
  if (metrics->file == NULL) return NEAP_OK;
  json_t *line = json_pack("{s:I, s:I, s:o, s:o, s:f, s:f}", "step", (json_int_t)progress->step, "epoch",
                           (json_int_t)progress->epoch, "loss", json_number(progress->loss), "accuracy",
                           progress->accuracy < 0 ? json_null() : json_real(progress->accuracy),
                           "learning_rate", progress->learning_rate, "seconds", progress->seconds);
  bool whole = line != NULL;
  if (whole && progress->test_accuracy >= 0)
    whole = json_object_set_new(line, "test_accuracy", json_real(progress->test_accuracy)) == 0 &&
            json_object_set_new(line, "test_loss", json_number(progress->test_loss)) == 0;
  if (whole && progress->accuracy < 0 && progress->test_mae >= 0)
    whole = json_object_set_new(line, "test_loss", json_number(progress->test_loss)) == 0 &&
            json_object_set_new(line, "test_mae", json_number(progress->test_mae)) == 0 &&
            json_object_set_new(line, "test_rmse", json_number(progress->test_rmse)) == 0 &&
            json_object_set_new(line, "test_r2", json_number(progress->test_r2)) == 0;
  if (whole && progress->bits_per_byte >= 0)
    whole = json_object_set_new(line, "bits_per_byte", json_number(progress->bits_per_byte)) == 0;
  if (whole && progress->gradient_norm >= 0)
    whole = json_object_set_new(line, "gradient_norm", json_number(progress->gradient_norm)) == 0;
  if (whole && progress->loss_scale > 0)
    whole = json_object_set_new(line, "loss_scale", json_real(progress->loss_scale)) == 0 &&
            json_object_set_new(line, "skipped", json_integer((json_int_t)progress->skipped)) == 0;
  if (!whole) {
    json_decref(line);
    line = NULL;
  }
  return json_lines_write(metrics, line);
}
