/* Sparse weights: between values at nonzeros, one after the other, and dense tensors. */
#include <string.h>

#include "kernel/cpu/isa/storage.h"

/* Parts of a tensor; each finds where its values begin by counting the bits before it. */
enum { PARTS = 32, WORD = 64 /* bits */ };

/* Bits [64 i, 64 i + 64) of `count`; 0 behind the end. */
static inline uint64_t word_at(const uint8_t *bits, int64_t count, int64_t i) {
  uint64_t word = 0;
  const int64_t left = count - WORD * i;
  if (left >= WORD) {
    memcpy(&word, bits + 8 * i, sizeof word);
    return word;
  }
  memcpy(&word, bits + 8 * i, (size_t)(left + 7) / 8);
  return word & (((uint64_t)1 << left) - 1);
}

static int64_t count_words(const uint8_t *bits, int64_t count, struct range words) {
  int64_t set = 0;
  for (int64_t i = words.begin; i < words.end; i++) set += __builtin_popcountll(word_at(bits, count, i));
  return set;
}

/* x[k] = the next of `values` where bit k is set, else 0. */
#define SPREAD(name, type)                                                                                   \
  static int64_t name(uint64_t word, int64_t length, const type *values, type *x) {                          \
    int64_t used = 0;                                                                                        \
    memset(x, 0, (size_t)length * sizeof *x);                                                                \
    for (; word != 0; word &= word - 1) x[__builtin_ctzll(word)] = values[used++];                           \
    return used;                                                                                             \
  }
SPREAD(spread_32, uint32_t)
SPREAD(spread_16, uint16_t)

void ISA(densify)(enum storage storage, int64_t count, const uint8_t *bits, const void *values, void *x) {
  const int64_t words = (count + WORD - 1) / WORD;
#pragma omp parallel for if (count >= PARALLEL_FROM)
  for (int part = 0; part < PARTS; part++) {
    const struct range mine = part_of(words, part, PARTS);
    int64_t next = count_words(bits, count, (struct range){0, mine.begin});
    for (int64_t i = mine.begin; i < mine.end; i++) {
      const uint64_t word = word_at(bits, count, i);
      const int64_t length = count - WORD * i < WORD ? count - WORD * i : WORD;
      next += storage == STORAGE_F32
                  ? spread_32(word, length, (const uint32_t *)values + next, (uint32_t *)x + WORD * i)
                  : spread_16(word, length, (const uint16_t *)values + next, (uint16_t *)x + WORD * i);
    }
  }
}

/* The elements at set bits, one after the other, times `unit`. */
static int64_t gather_word(uint64_t word, int64_t length, enum storage of_g, const void *g, int64_t first,
                           float unit, float *taken) {
  float dense[WORD];
  int64_t used = 0;
  widen_run(of_g, length, element_at(g, of_g, first), dense);
  for (; word != 0; word &= word - 1) {
    const float value = dense[__builtin_ctzll(word)];
    taken[used++] = unit == 1 ? value : value * unit;
  }
  return used;
}

void ISA(accumulate_sparse)(enum storage storage, enum storage of_g, int64_t count, const uint8_t *bits,
                            const void *g, float unit, void *sum, struct random_key key, int64_t first) {
  const int64_t words = (count + WORD - 1) / WORD;
#pragma omp parallel for if (count >= PARALLEL_FROM)
  for (int part = 0; part < PARTS; part++) {
    const struct range mine = part_of(words, part, PARTS);
    int64_t next = count_words(bits, count, (struct range){0, mine.begin});
    for (int64_t i = mine.begin; i < mine.end; i++) {
      float taken[WORD], sums[WORD];
      const int64_t length = count - WORD * i < WORD ? count - WORD * i : WORD;
      const int64_t used = gather_word(word_at(bits, count, i), length, of_g, g, WORD * i, unit, taken);
      void *out = (void *)element_at(sum, storage, next);
      widen_run(storage, used, out, sums);
      for (int64_t k = 0; k < used; k++) sums[k] += taken[k];
      if (storage == STORAGE_F32)
        memcpy(out, sums, (size_t)used * sizeof *sums);
      else
        ISA(narrow_randomly)(storage, used, sums, out, key, first + next);
      next += used;
    }
  }
}
