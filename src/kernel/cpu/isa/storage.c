/* Conversions of whole tensors between types of storage. */
#include "kernel/cpu/isa/storage.h"

#include "kernel/cpu/isa/draw.h"

enum { RUN = 4096, LANES = 32 };

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

static void round_randomly(enum storage storage, int64_t count, const float *x, const uint16_t *random,
                           uint16_t *y) {
  if (storage == STORAGE_BF16) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = bf16_from_float_randomly(x[i], random[i]);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) y[i] = f16_from_float_randomly(x[i], random[i]);
  }
}

/* A counter serves eight elements, with 16 bits each, the lower half of a word first. */
void ISA(narrow_randomly)(enum storage storage, int64_t count, const float *x, void *y, struct random_key key,
                          int64_t first) {
  enum { ELEMENTS = 8 * DRAW_COUNTERS };
  const int64_t end = first + count;
#pragma omp parallel for if (count >= PARALLEL_FROM)
  for (int64_t run = first / ELEMENTS; run < (end + ELEMENTS - 1) / ELEMENTS; run++) {
    uint32_t draws[4 * DRAW_COUNTERS];
    uint16_t random[ELEMENTS];
    const int64_t here = run * ELEMENTS, from = here > first ? here : first,
                  to = here + ELEMENTS < end ? here + ELEMENTS : end;
    draw_words(key, (uint64_t)here / 8, DRAW_COUNTERS, draws);
    for (int i = 0; i < ELEMENTS; i++) random[i] = (uint16_t)(draws[i / 2] >> 16 * (i & 1));
    round_randomly(storage, to - from, x + (from - first), random + (from - here),
                   (uint16_t *)y + (from - first));
  }
}

/* Counters of some elements side by side, so that their rounds are vectors. */
static void draw_at(struct random_key key, const int64_t *at, int64_t count, uint32_t random[LANES]) {
  uint32_t word[4][LANES] = {{0}};
  for (int64_t k = 0; k < count; k++) {
    const uint64_t counter = (uint64_t)at[k] / 8;
    word[0][k] = (uint32_t)counter, word[1][k] = (uint32_t)(counter >> 32);
  }
  for (int64_t k = 0; k < LANES; k++)
    word[2][k] = (uint32_t)key.stream, word[3][k] = (uint32_t)(key.stream >> 32);
  for (uint32_t round = 0; round < RANDOM_ROUNDS; round++) {
#pragma omp simd
    for (int64_t k = 0; k < LANES; k++)
      random_philox_round(key.seed, round, &word[0][k], &word[1][k], &word[2][k], &word[3][k]);
  }
  for (int64_t k = 0; k < count; k++) random[k] = word[at[k] % 8 / 2][k] >> 16 * (at[k] & 1) & 0xFFFF;
}

void ISA(narrow_randomly_at)(enum storage storage, int64_t count, const float *x, void *y,
                             struct random_key key, const int64_t *at) {
  uint16_t *half = y;
#pragma omp parallel for if (count >= PARALLEL_FROM)
  for (int64_t first = 0; first < count; first += LANES) {
    const int64_t length = count - first < LANES ? count - first : LANES;
    uint32_t random[LANES];
    draw_at(key, at + first, length, random);
    for (int64_t k = 0; k < length; k++)
      half[first + k] = storage == STORAGE_BF16 ? bf16_from_float_randomly(x[first + k], random[k])
                                                : f16_from_float_randomly(x[first + k], random[k]);
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
