/* The gradient of gathered rows has the bits of sums in the order of ids, whatever they are sorted by: for
 * every instruction set, type of storage and number of threads, with what is there already and without. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/cpu/dispatch.h"
#include "testing.h"

struct gather_case {
  int64_t rows, width, count;
};

static void *allocate(size_t bytes) {
  void *data = aligned_alloc(64, bytes / 64 * 64 + 64);
  assert_non_null(data);
  memset(data, 0xFF, bytes);
  return data;
}

static uint32_t next(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

static float *numbers(int64_t count, uint32_t state) {
  float *values = allocate((size_t)count * sizeof *values);
  for (int64_t i = 0; i < count; i++) values[i] = (float)(next(&state) >> 8) * 0x1p-23f - 1;
  return values;
}

/* Half of them few rows, some of them none. */
static int32_t *row_numbers(const struct gather_case *c) {
  int32_t *ids = allocate((size_t)c->count * sizeof *ids);
  uint32_t state = 3;
  for (int64_t i = 0; i < c->count; i++) {
    const int64_t any = next(&state) >> 4;
    ids[i] = (int32_t)(i % 2 == 0 ? any % (c->rows + 2) - 1 : c->rows - 1 - any % c->rows / 1000);
  }
  return ids;
}

/* What `values` are in a type of storage, and what is left of them. */
static void *stored(const struct cpu_kernels *k, neap_dtype storage, int64_t count, float *values) {
  void *data = allocate((size_t)count * sizeof(float));
  k->narrow(storage, count, values, data);
  k->widen(storage, count, data, values);
  return data;
}

/* One after the other. */
static float *expected(const struct gather_case *c, const int32_t *ids, const float *dy,
                       const float *addend) {
  float *sums = calloc((size_t)(c->rows * c->width), sizeof *sums);
  bool *occurs = calloc((size_t)c->rows, sizeof *occurs);
  assert_true(sums != NULL && occurs != NULL);
  for (int64_t i = 0; i < c->count; i++) {
    if (ids[i] < 0 || ids[i] >= c->rows) continue;
    occurs[ids[i]] = true;
    for (int64_t j = 0; j < c->width; j++) sums[ids[i] * c->width + j] += dy[i * c->width + j];
  }
  for (int64_t i = 0; addend != NULL && i < c->rows * c->width; i++)
    sums[i] = occurs[i / c->width] ? addend[i] + sums[i] : addend[i];
  free(occurs);
  return sums;
}

enum way { ALONE, ADDED, ADDED_IN_PLACE, WAYS };

static void check(const struct cpu_kernels *k, const struct gather_case *c, neap_dtype storage,
                  enum way way) {
  const int64_t elements = c->rows * c->width;
  const size_t bytes = (size_t)elements * (storage == NEAP_F32 ? 4 : 2);
  int32_t *ids = row_numbers(c);
  float *dy = numbers(c->count * c->width, 1), *addend = numbers(elements, 2);
  void *given = stored(k, storage, c->count * c->width, dy), *there = stored(k, storage, elements, addend),
       *workspace = allocate(k->gather_workspace(c->count)),
       *got = way == ADDED_IN_PLACE ? there : allocate(bytes);
  float *sums = expected(c, ids, dy, way == ALONE ? NULL : addend);
  void *wanted = stored(k, storage, elements, sums);
  const struct gather g = {storage, c->rows, c->width, c->count, ids};
  k->gather_backward(g, given, way == ALONE ? NULL : there, got, workspace);
  assert_memory_equal(got, wanted, bytes);
  if (got != there) free(got);
  free(ids), free(dy), free(addend), free(given), free(there), free(workspace), free(sums), free(wanted);
}

static void test_gather_backward(void **state) {
  (void)state;
  static const struct gather_case cases[] = {
      {1, 1, 5}, {4, 8, 9}, {300, 130, 500}, {70000, 3, 4000}, {2000, 256, 1}};
  static const neap_dtype types[] = {NEAP_F32, NEAP_BF16, NEAP_F16};
  enum { TYPES = sizeof types / sizeof *types };
  const struct cpu_kernels *k;
  for (int threads = 1; threads <= 3; threads += 2) {
    omp_set_num_threads(threads);
    for (int table = 0; (k = cpu_kernels_at(table)) != NULL; table++)
      for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int type = 0; type < TYPES; type++)
          for (int way = ALONE; way < WAYS; way++) check(k, &cases[i], types[type], (enum way)way);
  }
}

int run_test_gather(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_gather_backward)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
