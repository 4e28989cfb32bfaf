#include "data/own.h"

#include <string.h>

static neap_status read_record(const struct source *source, enum split split, int64_t record,
                               const struct draw *draw, void *const *fields, int64_t *lengths) {
  (void)draw, (void)lengths;
  const neap_data_source *own = source->context;
  RETURN_IF(own->read(own->context, split == SPLIT_TEST, record, fields) != 0, NEAP_IO_FAILED,
            "data '%s': %s record %lld could not be read", source->name,
            split == SPLIT_TEST ? "test" : "training", (long long)record);
  return NEAP_OK;
}

static neap_status add_field(const neap_data_field *given, struct source *source) {
  struct field field = {.name = given->name, .dtype = given->dtype, .rank = given->rank};
  RETURN_IF(given->name == NULL || given->rank < 0 || given->rank > NEAP_MAX_RANK, NEAP_INVALID_ARGUMENT,
            "data '%s': a field has no name, or its rank is not 0 to %d", source->name, NEAP_MAX_RANK);
  RETURN_IF(given->dtype != NEAP_U8 && given->dtype != NEAP_I32 && given->dtype != NEAP_F32,
            NEAP_INVALID_ARGUMENT, "data '%s': field '%s' must have the type u8, i32 or f32", source->name,
            given->name);
  int64_t elements = 1;
  for (int i = 0; i < given->rank; i++) {
    field.dims[i] = given->dims[i];
    RETURN_IF(given->dims[i] < 1 || __builtin_mul_overflow(elements, given->dims[i], &elements) ||
                  elements > (int64_t)1 << 31,
              NEAP_INVALID_ARGUMENT,
              "data '%s': field '%s' has a dimension below 1, or more than 2^31 elements", source->name,
              given->name);
  }
  RETURN_IF(given->dtype == NEAP_U8 && (given->rank != 3 || given->dims[0] > SOURCE_MAX_CHANNELS),
            NEAP_INVALID_ARGUMENT,
            "data '%s': field '%s' has type u8, so it must be an image [C, H, W] of 1 to %d channels",
            source->name, given->name, SOURCE_MAX_CHANNELS);
  return source_add_field(source, field);
}

/* Finds the kind of task whose input is among the fields. */
static neap_status find_kind(struct source *source) {
  static const neap_task kinds[] = {NEAP_TASK_IMAGES, NEAP_TASK_FEATURES, NEAP_TASK_VECTORS};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const int input = source_find_field(source, task_rows[kinds[i]].input);
    if (input < 0) continue;
    source->kind = kinds[i];
    if (kinds[i] == NEAP_TASK_VECTORS) source->sequence_length = source->fields[input].dims[0];
    return NEAP_OK;
  }
  return neap_fail(NEAP_INVALID_ARGUMENT,
                   "data '%s': a field must be named 'image', 'features' or 'sequence'", source->name);
}

neap_status own_open(const neap_data_source *own, struct source *source) {
  source->name = own->name != NULL ? own->name : "own";
  RETURN_IF(own->read == NULL || own->fields == NULL || own->field_count < 2, NEAP_INVALID_ARGUMENT,
            "data '%s': must have a read function and two fields or more", source->name);
  RETURN_IF(own->training_records < 1 || own->test_records < 1 || own->training_records > INT32_MAX ||
                own->test_records > INT32_MAX || own->classes < 1,
            NEAP_INVALID_ARGUMENT,
            "data '%s': must have 1 to %d records in both parts, and at least 1 class or value", source->name,
            INT32_MAX);
  source->context = (void *)(uintptr_t)own;
  source->read = read_record;
  source->classes = own->classes;
  source->records[SPLIT_TRAIN] = own->training_records;
  source->records[SPLIT_TEST] = own->test_records;
  for (int32_t i = 0; i < own->field_count; i++) TRY(add_field(&own->fields[i], source));
  TRY(find_kind(source));
  RETURN_IF(source_find_field(source, task_rows[source->kind].label) < 0, NEAP_INVALID_ARGUMENT,
            "data '%s': a field must be named '%s'", source->name, task_rows[source->kind].label);
  return NEAP_OK;
}
