#include "data/scale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/encoding.h"

/* Sums over records the distance to the first one, and its square. */
static neap_status add_records(struct source *source, int field, float *values, double *first,
                               struct scale *sums) {
  const struct draw plain = {0};
  void *fields[FIELD_LIMIT] = {0};
  int64_t lengths[FIELD_LIMIT];
  fields[field] = values;
  for (int64_t i = 0; i < source->records[SPLIT_TRAIN]; i++) {
    TRY(source->read(source, SPLIT_TRAIN, i, &plain, fields, lengths));
    for (int64_t k = 0; k < sums->count; k++) {
      if (i == 0) first[k] = (double)values[k];
      const double distance = (double)values[k] - first[k];
      sums->mean[k] += distance;
      sums->deviation[k] += distance * distance;
    }
  }
  for (int64_t i = 0; i < source->records[SPLIT_TEST]; i++) /* a bad one is reported before training */
    TRY(source->read(source, SPLIT_TEST, i, &plain, fields, lengths));
  return NEAP_OK;
}

/* Takes the encoding's scale, for the input field and for the label. */
static neap_status scale_adopt(struct source *source, int field) {
  const struct encoding *e = source->task.encoding;
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
  if (source->task.encoding != NULL) return scale_adopt(source, field);
  struct scale scale = {.count = field_elements(&source->fields[field])};
  const size_t count = (size_t)scale.count;
  const double records = (double)source->records[SPLIT_TRAIN];
  scale.mean = region_alloc(&source->region, count, sizeof *scale.mean);
  scale.deviation = region_alloc(&source->region, count, sizeof *scale.deviation);
  double *first = region_alloc(&source->region, count, sizeof *first);
  float *values = region_alloc(&source->region, count, sizeof *values);
  RETURN_IF(scale.mean == NULL || scale.deviation == NULL || first == NULL || values == NULL,
            NEAP_OUT_OF_MEMORY, "data '%s': out of memory for means", source->name);
  TRY(add_records(source, field, values, first, &scale));
  for (size_t k = 0; k < count; k++) {
    const double mean = scale.mean[k] / records, variance = scale.deviation[k] / records - mean * mean;
    scale.mean[k] = first[k] + mean;
    scale.deviation[k] = variance > 0 ? sqrt(variance) : 1;
  }
  source->scales[field] = scale;
  return NEAP_OK;
}

static neap_status prepare(struct stage *stage, const struct field *wanted, int wanted_count, int *slots,
                           bool *applies) {
  (void)wanted, (void)wanted_count, (void)slots;
  *applies = false;
  for (int f = 0; f < stage->source->field_count; f++)
    if (stage->source->scales[f].count > 0) *applies = true;
  return NEAP_OK;
}

static void apply(const struct stage *stage, const int *slots, struct sample *s) {
  (void)slots;
  for (int f = 0; f < stage->source->field_count; f++) { /* fields have the first slots */
    const struct scale *scale = &stage->source->scales[f];
    float *values = s->values[f];
    if (s->record < 0 || values == NULL) continue;
    for (int64_t k = 0; k < scale->count; k++)
      values[k] = (float)(((double)values[k] - scale->mean[k]) / scale->deviation[k]);
  }
}

const struct transform transform_standardise = {
    "standardise", "numbers minus their mean, divided by their deviation", prepare, apply};
