#include "train/prediction_rows.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "data/scale.h"

enum prediction_form prediction_form_of(const char *path) {
  const char *point = strrchr(path, '.');
  if (point != NULL && strcmp(point, ".csv") == 0) return PREDICTION_CSV;
  return point != NULL && strcmp(point, ".jsonl") == 0 ? PREDICTION_JSON_LINES : PREDICTION_NPY;
}

struct name {
  char text[32];
};

/* Returns the name of a class, or its number. */
static const char *class_name(const struct source *source, int64_t class, struct name *number) {
  if (source->class_names != NULL && class < source->classes) return source->class_names[class];
  snprintf(number->text, sizeof number->text, "%lld", (long long)class);
  return number->text;
}

/* Returns the name of a record, or its number, from 1. */
static const char *record_name(const struct source *source, enum split split, int64_t record,
                               struct name *number) {
  if (source->record_name != NULL) return source->record_name(source, split, record);
  snprintf(number->text, sizeof number->text, "%lld", (long long)record + 1);
  return number->text;
}

/* Returns the class with the largest logit, and the sum of exp of the logits less it. */
static int64_t best_class(const float *logits, int64_t classes, double *sum) {
  int64_t best = 0;
  *sum = 0;
  for (int64_t c = 1; c < classes; c++)
    if (logits[c] > logits[best]) best = c;
  for (int64_t c = 0; c < classes; c++) *sum += exp((double)logits[c] - (double)logits[best]);
  return best;
}

/* Returns a value in the units of the data. */
static double value_of(const struct prediction_rows *rows, int64_t k, float output) {
  return rows->scale != NULL ? scale_restore(rows->scale, k, (double)output) : (double)output;
}

/* Returns the digits that are written: 9 tell any f32 apart, 12 keep the hundredths of seconds since 1970. */
static int digits_of(const struct prediction_rows *rows) {
  return rows->scale != NULL && rows->scale->count > 0 ? 12 : 9;
}

/* ---- CSV ---- */

static void put_field(FILE *file, const char *text) {
  if (strpbrk(text, ",\"\r\n") == NULL) {
    fputs(text, file);
    return;
  }
  putc('"', file);
  for (; *text != '\0'; text++) {
    if (*text == '"') putc('"', file);
    putc(*text, file);
  }
  putc('"', file);
}

void prediction_rows_begin(FILE *file, const struct prediction_rows *rows) {
  struct name number;
  if (rows->form != PREDICTION_CSV) return;
  fputs("record,prediction", file);
  if (rows->values) {
    for (int64_t k = 1; k < rows->count; k++) fprintf(file, ",prediction_%lld", (long long)k + 1);
  } else {
    fputs(",probability", file);
    for (int64_t c = 0; c < rows->count; c++)
      putc(',', file), put_field(file, class_name(rows->source, c, &number));
  }
  putc('\n', file);
}

static void put_csv(FILE *file, const struct prediction_rows *rows, const char *record,
                    const float *outputs) {
  struct name number;
  double sum;
  put_field(file, record);
  if (rows->values) {
    for (int64_t k = 0; k < rows->count; k++)
      fprintf(file, ",%.*g", digits_of(rows), value_of(rows, k, outputs[k]));
  } else {
    const int64_t best = best_class(outputs, rows->count, &sum);
    putc(',', file), put_field(file, class_name(rows->source, best, &number));
    fprintf(file, ",%.9g", 1 / sum);
    for (int64_t c = 0; c < rows->count; c++)
      fprintf(file, ",%.9g", exp((double)outputs[c] - (double)outputs[best]) / sum);
  }
  putc('\n', file);
}

/* ---- JSON ---- */

static json_t *values_json(const struct prediction_rows *rows, const float *values) {
  if (rows->count == 1) return json_real(value_of(rows, 0, values[0]));
  json_t *array = json_array();
  for (int64_t k = 0; k < rows->count; k++)
    json_array_append_new(array, json_real(value_of(rows, k, values[k])));
  return array;
}

static json_t *row_json(const struct prediction_rows *rows, const char *record, const float *outputs) {
  struct name number;
  double sum;
  if (rows->values)
    return json_pack("{s:s, s:o}", "record", record, "prediction", values_json(rows, outputs));
  const int64_t best = best_class(outputs, rows->count, &sum);
  json_t *probabilities = json_object();
  for (int64_t c = 0; c < rows->count; c++)
    json_object_set_new(probabilities, class_name(rows->source, c, &number),
                        json_real(exp((double)outputs[c] - (double)outputs[best]) / sum));
  return json_pack("{s:s, s:s, s:f, s:o}", "record", record, "prediction",
                   class_name(rows->source, best, &number), "probability", 1 / sum, "probabilities",
                   probabilities);
}

bool prediction_rows_add(FILE *file, const struct prediction_rows *rows, int64_t record,
                         const float *outputs) {
  struct name number;
  const char *name = record_name(rows->source, rows->split, record, &number);
  if (rows->form == PREDICTION_CSV) {
    put_csv(file, rows, name, outputs);
    return true;
  }
  json_t *row = row_json(rows, name, outputs);
  const bool good =
      row != NULL && json_dumpf(row, file, JSON_COMPACT | JSON_REAL_PRECISION(digits_of(rows))) == 0;
  json_decref(row);
  putc('\n', file);
  return good;
}
