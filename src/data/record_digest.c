#include "data/record_digest.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/fast_digest.h"
#include "data/statistics.h"

/* Memory for the fields of one record. */
struct record {
  void *fields[FIELD_LIMIT];
  double *numbers;
  unsigned char *memory;
};

static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

static neap_status record_create(const struct source *source, struct record *r) {
  size_t bytes = 0, longest = 0, place[FIELD_LIMIT];
  for (int f = 0; f < source->field_count; f++) {
    const size_t elements = (size_t)field_elements(&source->fields[f]);
    place[f] = bytes;
    bytes += rounded(dtype_bytes(source->fields[f].dtype, elements));
    if (elements > longest) longest = elements;
  }
  r->memory = malloc(bytes + longest * sizeof(double) + 64);
  RETURN_IF(r->memory == NULL, NEAP_OUT_OF_MEMORY, "out of memory for a record");
  for (int f = 0; f < source->field_count; f++) r->fields[f] = r->memory + place[f];
  r->numbers = (double *)(void *)(r->memory + bytes);
  return NEAP_OK;
}

/* Adds a field's numbers as they are in the file; gaps are all alike. */
static neap_status add_numbers(const struct source *source, enum split split, int64_t record, int field,
                               double *numbers, uint64_t *digest) {
  const size_t count = (size_t)field_elements(&source->fields[field]);
  TRY(source->read_numbers(source, split, record, field, numbers));
  for (size_t i = 0; i < count; i++)
    if (isnan(numbers[i])) numbers[i] = (double)NAN;
  *digest = digest_bytes(*digest, numbers, count * sizeof *numbers);
  return NEAP_OK;
}

static neap_status digest_record(const struct source *source, enum split split, int64_t record,
                                 struct record *r, uint64_t *digest) {
  const struct draw plain = {0};
  int64_t lengths[FIELD_LIMIT] = {0};
  TRY(source->read(source, split, record, &plain, r->fields, lengths));
  for (int f = 0; f < source->field_count; f++) {
    const struct field *field = &source->fields[f];
    size_t elements = (size_t)field_elements(field);
    if (source->scales[f].count > 0 && source->read_numbers != NULL) {
      TRY(add_numbers(source, split, record, f, r->numbers, digest));
      continue;
    }
    if (field->ragged && field->dims[0] > 0)
      elements = elements / (size_t)field->dims[0] * (size_t)lengths[f];
    *digest = digest_bytes(*digest, r->fields[f], dtype_bytes(field->dtype, elements));
  }
  return NEAP_OK;
}

/* Adds up the records of a part; 0: one of them is damaged. */
static neap_status digest_part(const struct source *source, enum split split, uint64_t *digest) {
  uint64_t sum = 0;
  bool no_memory = false;
  struct ending first = {0};
#pragma omp parallel num_threads(source_threads(source)) reduction(+ : sum) reduction(|| : no_memory)
  {
    struct record r = {0};
    neap_status status = record_create(source, &r);
    if (status != NEAP_OK) no_memory = true;
#pragma omp for
    for (int64_t i = 0; i < source->records[split]; i++) {
      uint64_t own = 0;
      if (status != NEAP_OK) continue;
      status = digest_record(source, split, i, &r, &own);
      sum += digest_share(own, i);
#pragma omp critical
      if (status != NEAP_OK && (first.status == NEAP_OK || status == NEAP_IO_FAILED))
        ending_keep(&first, status);
    }
    free(r.memory);
  }
  RETURN_IF(no_memory, NEAP_OUT_OF_MEMORY, "out of memory for one record per thread");
  if (first.status == NEAP_IO_FAILED) return ending_tell(&first);
  *digest = first.status == NEAP_OK ? sum : 0;
  return NEAP_OK;
}

neap_status record_digests_take(struct source *source) {
  if (source->slow || source->drawn) return NEAP_OK;
  for (enum split split = SPLIT_TRAIN; split < SPLITS; split++) {
    if (source->digests[split] != 0 || source->records[split] == 0) continue;
    TRY(digest_part(source, split, &source->digests[split]));
  }
  return NEAP_OK;
}
