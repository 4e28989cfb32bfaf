/* Conversions of whole tensors between types of storage. */
#include "kernel/cpu/isa/storage.h"

#include "kernel/cpu/isa/random.h"

enum { RUN = 4096 };

static inline int64_t run_at(int64_t first, int64_t count) {
  return count - first < RUN ? count - first : RUN;
}

void ISA(widen)(enum storage storage, int64_t count, const void *x, float *y) {
#pragma omp parallel for if (count >= PARALLEL_FROM)
  for (int64_t first = 0; first < count; first += RUN)
    widen_run(storage, run_at(first, count), element_at(x, storage, first), y + first);
}

void ISA(narrow)(enum storage storage, int64_t count, const float *x, void *y) {
#pragma omp parallel for if (count >= PARALLEL_FROM)
  for (int64_t first = 0; first < count; first += RUN)
    narrow_run(storage, run_at(first, count), x + first, (void *)element_at(y, storage, first));
}

void ISA(convert)(int64_t count, struct stored x, struct stored y) {
  FOR_RUNS(count) {
    float buffer[STORED_RUN];
    const int64_t length = run_length(first, count);
    if (y.storage == STORAGE_F32)
      widen_run(x.storage, length, element_at(x.data, x.storage, first), (float *)y.data + first);
    else
      narrow_run(y.storage, length, floats_at(x, first, length, buffer),
                 (void *)element_at(y.data, y.storage, first));
  }
}

void ISA(narrow_randomly)(enum storage storage, int64_t count, const float *x, void *y, struct random_key key,
                          int64_t begin) {
  FOR_RUNS(count)
  narrow_run_randomly(storage, run_length(first, count), x + first, (void *)element_at(y, storage, first),
                      key, begin + first);
}

/* The bits of some elements: a counter serves eight. */
enum { ELEMENTS = 8 };

static void draw_at(struct random_key key, const int64_t *at, int64_t count, uint32_t random[COUNTERS]) {
  uint32_t words[4][COUNTERS] = {{0}};
  for (int64_t k = 0; k < count; k++) {
    const uint64_t counter = (uint64_t)at[k] / ELEMENTS;
    words[0][k] = (uint32_t)counter, words[1][k] = (uint32_t)(counter >> 32);
    words[2][k] = (uint32_t)key.stream, words[3][k] = (uint32_t)(key.stream >> 32);
  }
  for (uint32_t round = 0; round < RANDOM_ROUNDS; round++)
#pragma omp simd
    for (int k = 0; k < COUNTERS; k++)
      random_philox_round(key.seed, round, &words[0][k], &words[1][k], &words[2][k], &words[3][k]);
  for (int64_t k = 0; k < count; k++) random[k] = words[at[k] % ELEMENTS / 2][k] >> 16 * (at[k] & 1) & 0xFFFF;
}

void ISA(narrow_randomly_at)(enum storage storage, int64_t count, const float *x, void *y,
                             struct random_key key, const int64_t *at) {
  uint16_t *half = y;
#pragma omp parallel for if (count >= PARALLEL_FROM)
  for (int64_t first = 0; first < count; first += COUNTERS) {
    const int64_t length = count - first < COUNTERS ? count - first : COUNTERS;
    uint32_t random[COUNTERS];
    draw_at(key, at + first, length, random);
    for (int64_t k = 0; k < length; k++) half[first + k] = rounded_randomly(storage, x[first + k], random[k]);
  }
}

bool ISA(reaches)(enum storage storage, int64_t count, const void *x, float size) {
  bool any = false;
#pragma omp parallel for reduction(|| : any) if (count >= PARALLEL_FROM)
  for (int64_t first = 0; first < count; first += RUN) {
    float values[RUN];
    const int64_t length = run_at(first, count);
    int larger = 0;
    widen_run(storage, length, element_at(x, storage, first), values);
    for (int64_t i = 0; i < length; i++) larger |= !(__builtin_fabsf(values[i]) < size);
    any = any || larger;
  }
  return any;
}
