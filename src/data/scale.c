#include "data/scale.h"

#include <math.h>
#include <string.h>

#include "data/encoding.h"

/* Sums over records the distance to the first number of an element, and its square; counts its numbers. */
static neap_status add_records(struct source *source, int field, double *numbers, double *first,
                               double *counts, struct scale *sums) {
  for (int64_t i = 0; i < source->records[SPLIT_TRAIN]; i++) {
    TRY(source->read_numbers(source, SPLIT_TRAIN, i, field, numbers));
    for (int64_t k = 0; k < sums->count; k++) {
      if (isnan(numbers[k])) continue;
      if (counts[k]++ == 0) first[k] = numbers[k];
      const double distance = numbers[k] - first[k];
      sums->mean[k] += distance;
      sums->deviation[k] += distance * distance;
    }
  }
  return NEAP_OK;
}

/* Reads the test records, so that a bad one is reported before training. */
static neap_status read_test(const struct source *source, int field, float *values) {
  const struct draw plain = {0};
  void *fields[FIELD_LIMIT] = {0};
  int64_t lengths[FIELD_LIMIT];
  fields[field] = values;
  for (int64_t i = 0; i < source->records[SPLIT_TEST]; i++)
    TRY(source->read(source, SPLIT_TEST, i, &plain, fields, lengths));
  return NEAP_OK;
}

/* Takes an encoding's scale, for the input field and for the label. */
static neap_status scale_adopt(struct source *source, int field, const struct encoding *e) {
  const bool input = strcmp(source->fields[field].name, e->input) == 0;
  const struct scale *scale = input ? &e->input_scale : &e->label_scale;
  RETURN_IF(scale->count > 0 && scale->count != field_elements(&source->fields[field]), NEAP_BAD_FORMAT,
            "data '%s': '%s' has %lld numbers a record, but the model was trained with %lld", source->name,
            source->fields[field].name, (long long)field_elements(&source->fields[field]),
            (long long)scale->count);
  source->scales[field] = *scale;
  return NEAP_OK;
}

neap_status scale_take(struct source *source, int field) {
  const struct encoding *before = source->task.before;
  if (source->task.encoding != NULL) return scale_adopt(source, field, source->task.encoding);
  if (before != NULL && before->input != NULL) return scale_adopt(source, field, before);
  struct scale scale = {.count = field_elements(&source->fields[field])};
  const size_t count = (size_t)scale.count;
  scale.mean = region_alloc(&source->region, count, sizeof *scale.mean);
  scale.deviation = region_alloc(&source->region, count, sizeof *scale.deviation);
  double *first = region_alloc(&source->region, count, sizeof *first);
  double *counts = region_alloc(&source->region, count, sizeof *counts);
  double *numbers = region_alloc(&source->region, count, sizeof *numbers);
  RETURN_IF(scale.mean == NULL || scale.deviation == NULL || first == NULL || counts == NULL ||
                numbers == NULL,
            NEAP_OUT_OF_MEMORY, "data '%s': out of memory for means", source->name);
  TRY(add_records(source, field, numbers, first, counts, &scale));
  for (size_t k = 0; k < count; k++) {
    const double n = counts[k] > 0 ? counts[k] : 1, mean = scale.mean[k] / n,
                 variance = scale.deviation[k] / n - mean * mean;
    scale.mean[k] = first[k] + mean;
    scale.deviation[k] = variance > 0 ? sqrt(variance) : 1;
  }
  source->scales[field] = scale;
  return read_test(source, field, (float *)(void *)numbers);
}

float scale_apply(const struct scale *scale, int64_t k, double number) {
  if (scale->count == 0) return isnan(number) ? 0 : (float)number;
  return isnan(number) ? 0 : (float)((number - scale->mean[k]) / scale->deviation[k]);
}

double scale_restore(const struct scale *scale, int64_t k, double value) {
  return scale->count > 0 ? value * scale->deviation[k] + scale->mean[k] : value;
}
