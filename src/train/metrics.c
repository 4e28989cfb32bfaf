#include "train/metrics.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

json_t *json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

/* Gives the step of a line; 0 for one that is cut short, at the end of the file. */
static neap_status step_of_line(const char *path, int64_t number, const char *line, size_t length,
                                int64_t *step) {
  *step = 0;
  if (length == 0 || line[length - 1] != '\n') return NEAP_OK;
  json_t *object = json_loadb(line, length, 0, NULL);
  const json_t *value = json_object_get(object, "step");
  const bool valid = json_is_integer(value) && json_integer_value(value) > 0;
  *step = json_integer_value(value);
  json_decref(object);
  RETURN_IF(!valid, NEAP_BAD_FORMAT, "%s: line %lld is not a line of metrics; name another file", path,
            (long long)number);
  return NEAP_OK;
}

/* Finds the end of the lines up to `resumed_step`. */
static neap_status find_end(FILE *file, const char *path, int64_t resumed_step, off_t *end) {
  neap_status status = NEAP_OK;
  char *line = NULL;
  size_t capacity = 0;
  ssize_t length;
  *end = 0;
  for (int64_t number = 1; (length = getline(&line, &capacity, file)) >= 0; number++) {
    int64_t step;
    TRY_DONE(step_of_line(path, number, line, (size_t)length, &step));
    if (step == 0 || step > resumed_step) break;
    *end += length;
  }
  if (ferror(file)) status = neap_fail(NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
done:
  free(line);
  return status;
}

/* Cuts the file after the lines up to `resumed_step`, and goes to its end. */
static neap_status cut(FILE *file, const char *path, int64_t resumed_step) {
  off_t end;
  TRY(find_end(file, path, resumed_step, &end));
  RETURN_IF(ftruncate(fileno(file), end) != 0 || fseeko(file, end, SEEK_SET) != 0, NEAP_IO_FAILED,
            "%s: cannot be cut to %lld bytes: %s", path, (long long)end, strerror(errno));
  return NEAP_OK;
}

neap_status metrics_check_new(const char *path) {
  struct stat status;
  if (path == NULL || stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return NEAP_OK;
  RETURN_IF(status.st_size > 0, NEAP_INVALID_ARGUMENT,
            "%s: is not empty; name another file for the metrics, or replace it (--force)", path);
  return NEAP_OK;
}

neap_status metrics_open(const char *path, int64_t resumed_step, struct metrics *metrics) {
  *metrics = (struct metrics){.path = path};
  if (path == NULL) return NEAP_OK;
  FILE *file = resumed_step >= 0 ? fopen(path, "r+be") : NULL;
  const bool goes_on = file != NULL;
  if (!goes_on) file = fopen(path, "wbe");
  RETURN_IF(file == NULL, NEAP_IO_FAILED, "%s: cannot be written: %s", path, strerror(errno));
  const neap_status status = goes_on ? cut(file, path, resumed_step) : NEAP_OK;
  if (status == NEAP_OK)
    metrics->file = file;
  else
    fclose(file);
  return status;
}

neap_status metrics_write(struct metrics *metrics, const neap_train_progress *progress) {
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
  char *text = json_dumps(line, JSON_REAL_PRECISION(9));
  json_decref(line);
  RETURN_IF(text == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", metrics->path);
  /* Given to the system line by line: of a process that is killed only the last one may be lost. */
  const bool written = fprintf(metrics->file, "%s\n", text) > 0 && fflush(metrics->file) == 0;
  free(text);
  RETURN_IF(!written, NEAP_IO_FAILED, "%s: cannot be written: %s", metrics->path, strerror(errno));
  return NEAP_OK;
}

neap_status metrics_sync(struct metrics *metrics) {
  if (metrics->file == NULL) return NEAP_OK;
  /* A pipe or a terminal cannot be synced, and need not be. */
  const bool synced =
      fdatasync(fileno(metrics->file)) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS;
  RETURN_IF(!synced, NEAP_IO_FAILED, "%s: cannot be written: %s", metrics->path, strerror(errno));
  return NEAP_OK;
}

neap_status metrics_close(struct metrics *metrics) {
  FILE *file = metrics->file;
  metrics->file = NULL;
  RETURN_IF(file != NULL && fclose(file) != 0, NEAP_IO_FAILED, "%s: cannot be written: %s", metrics->path,
            strerror(errno));
  return NEAP_OK;
}
