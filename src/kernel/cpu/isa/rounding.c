/* Stochastic rounding of whole tensors. */
#include "kernel/cpu/isa/rounding.h"

void ISA(narrow_randomly)(neap_dtype storage, int64_t count, const float *x, void *y, struct random_key key,
                          int64_t begin) {
  FOR_RUNS(count)
  narrow_run_randomly(storage, run_length(first, count), x + first, (void *)element_at(y, storage, first),
                      key, begin + first);
}

/* Elements that a counter serves, 16 bits each. */
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

void ISA(narrow_randomly_at)(neap_dtype storage, int64_t count, const float *x, void *y,
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
