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

/* A counter serves eight elements, with 16 bits each. */
enum { COUNTER_ELEMENTS = 8, BLOCK = COUNTERS * COUNTER_ELEMENTS };

static inline __attribute__((always_inline)) uint16_t rounded(enum storage storage, float x,
                                                              uint32_t random) {
  return storage == STORAGE_BF16 ? bf16_from_float_randomly(x, random) : f16_from_float_randomly(x, random);
}

/* Elements 0 to BLOCK, the first of which begins a counter. */
static inline __attribute__((always_inline)) void round_block(enum storage storage, const uint32_t *words,
                                                              const float *x, uint16_t *y) {
#pragma omp simd
  for (int i = 0; i < BLOCK / 2; i++) {
    y[2 * i] = rounded(storage, x[2 * i], words[i] & 0xFFFF);
    y[2 * i + 1] = rounded(storage, x[2 * i + 1], words[i] >> 16);
  }
}

void ISA(narrow_randomly)(enum storage storage, int64_t count, const float *x, void *y, struct random_key key,
                          int64_t first) {
  const int64_t begin = first / BLOCK, end = (first + count + BLOCK - 1) / BLOCK;
#pragma omp parallel for if (count >= PARALLEL_FROM)
  for (int64_t block = begin; block < end; block++) {
    const int64_t at = block * BLOCK - first;
    uint32_t words[4 * COUNTERS];
    uint16_t *half = (uint16_t *)y + at;
    random_words(key, (uint64_t)block * COUNTERS, words);
    if (at >= 0 && at + BLOCK <= count && storage == STORAGE_BF16)
      round_block(STORAGE_BF16, words, x + at, half);
    else if (at >= 0 && at + BLOCK <= count)
      round_block(STORAGE_F16, words, x + at, half);
    else
      for (int i = 0; i < BLOCK; i++)
        if (at + i >= 0 && at + i < count)
          half[i] = rounded(storage, x[at + i], words[i / 2] >> 16 * (i & 1) & 0xFFFF);
  }
}

/* The bits of some elements. */
static void draw_at(struct random_key key, const int64_t *at, int64_t count, uint32_t random[COUNTERS]) {
  uint32_t words[4][COUNTERS] = {{0}};
  for (int64_t k = 0; k < count; k++) {
    const uint64_t counter = (uint64_t)at[k] / COUNTER_ELEMENTS;
    words[0][k] = (uint32_t)counter, words[1][k] = (uint32_t)(counter >> 32);
    words[2][k] = (uint32_t)key.stream, words[3][k] = (uint32_t)(key.stream >> 32);
  }
  random_rounds(key.seed, words);
  for (int64_t k = 0; k < count; k++)
    random[k] = words[at[k] % COUNTER_ELEMENTS / 2][k] >> 16 * (at[k] & 1) & 0xFFFF;
}

void ISA(narrow_randomly_at)(enum storage storage, int64_t count, const float *x, void *y,
                             struct random_key key, const int64_t *at) {
  uint16_t *half = y;
#pragma omp parallel for if (count >= PARALLEL_FROM)
  for (int64_t first = 0; first < count; first += COUNTERS) {
    const int64_t length = count - first < COUNTERS ? count - first : COUNTERS;
    uint32_t random[COUNTERS];
    draw_at(key, at + first, length, random);
    for (int64_t k = 0; k < length; k++) half[first + k] = rounded(storage, x[first + k], random[k]);
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
