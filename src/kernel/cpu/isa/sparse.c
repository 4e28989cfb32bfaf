/* Sparse weights: values at nonzeros, packed one after the other, to dense tensors and back. */
#include <string.h>

#include "base/dtype.h"
#include "kernel/cpu/isa/storage.h"

/* A tensor is divided into a fixed number of parts of whole words of bits. A part finds its first value by
 * counting the bits set before it, or by a binary search of the indices of a block. */
enum { PARTS = 32, WORD = 64 /* bits */ };

/* Returns the bits [64 i, 64 i + 64) of `count`; 0 after the end. */
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

/* Returns the first of the values [from, to) of a block whose element is at least `element`. */
static int64_t first_from(const uint16_t *indices, int64_t from, int64_t to, int64_t element) {
  while (from < to) {
    const int64_t middle = from + (to - from) / 2;
    if (indices[middle] < element)
      from = middle + 1;
    else
      to = middle;
  }
  return from;
}

/* Returns the values of block `b` whose elements are in `elements`. */
static struct range values_of(struct positions at, int64_t b, struct range elements) {
  const int64_t base = b * INDEX_BLOCK, from = b > 0 ? at.ends[b - 1] : 0;
  const int64_t begin = first_from(at.indices, from, at.ends[b], elements.begin - base);
  return (struct range){begin, first_from(at.indices, begin, at.ends[b], elements.end - base)};
}

static struct range elements_of(int64_t count, struct range words) {
  return (struct range){WORD * words.begin, WORD * words.end < count ? WORD * words.end : count};
}

/* ---- To a dense tensor ---- */

/* x[k] = the next of `values` where bit k is set. */
#define SPREAD(name, type)                                                                                   \
  static int64_t name(uint64_t word, const type *values, type *x) {                                          \
    int64_t used = 0;                                                                                        \
    for (; word != 0; word &= word - 1) x[__builtin_ctzll(word)] = values[used++];                           \
    return used;                                                                                             \
  }
SPREAD(spread_32, uint32_t)
SPREAD(spread_16, uint16_t)

static void spread_bits(neap_dtype storage, int64_t count, const uint8_t *bits, struct range words,
                        const void *values, void *x) {
  int64_t next = count_words(bits, count, (struct range){0, words.begin});
  for (int64_t i = words.begin; i < words.end; i++) {
    const uint64_t word = word_at(bits, count, i);
    next += storage == NEAP_F32 ? spread_32(word, (const uint32_t *)values + next, (uint32_t *)x + WORD * i)
                                : spread_16(word, (const uint16_t *)values + next, (uint16_t *)x + WORD * i);
  }
}

static void spread_indices(neap_dtype storage, struct positions at, struct range elements, const void *values,
                           void *x) {
  for (int64_t b = elements.begin / INDEX_BLOCK; b * INDEX_BLOCK < elements.end; b++) {
    const struct range mine = values_of(at, b, elements);
    void *block = (void *)element_at(x, storage, b * INDEX_BLOCK);
    for (int64_t k = mine.begin; k < mine.end; k++)
      if (storage == NEAP_F32)
        ((uint32_t *)block)[at.indices[k]] = ((const uint32_t *)values)[k];
      else
        ((uint16_t *)block)[at.indices[k]] = ((const uint16_t *)values)[k];
  }
}

void ISA(densify)(neap_dtype storage, int64_t count, struct positions at, const void *values, void *x) {
  const int64_t words = (count + WORD - 1) / WORD;
#pragma omp parallel for if (count >= PARALLEL_FROM)
  for (int part = 0; part < PARTS; part++) {
    const struct range mine = part_of(words, part, PARTS), elements = elements_of(count, mine);
    if (mine.begin == mine.end) continue;
    memset((void *)element_at(x, storage, elements.begin), 0,
           (size_t)(elements.end - elements.begin) * bytes_of(storage));
    if (at.bits != NULL)
      spread_bits(storage, count, at.bits, mine, values, x);
    else
      spread_indices(storage, at, elements, values, x);
  }
}

/* ---- From a dense tensor ---- */

/* Consecutive values, and the elements of the dense tensor that they belong to. */
struct run {
  int64_t first, count;
  int64_t elements[WORD];
};

struct addition {
  neap_dtype storage, of_g;
  const void *g;
  float unit;
  void *sum;
  struct random_key key;
};

static void gather(neap_dtype storage, const struct run *r, const void *x, float *taken) {
  uint16_t half[WORD];
  if (storage == NEAP_F32) {
    for (int64_t k = 0; k < r->count; k++) taken[k] = ((const float *)x)[r->elements[k]];
    return;
  }
  for (int64_t k = 0; k < r->count; k++) half[k] = ((const uint16_t *)x)[r->elements[k]];
  widen_run(storage, r->count, half, taken);
}

static void add_run(const struct addition *a, const struct run *r) {
  float taken[WORD], sums[WORD];
  void *out = (void *)element_at(a->sum, a->storage, r->first);
  gather(a->of_g, r, a->g, taken);
  widen_run(a->storage, r->count, out, sums);
  for (int64_t k = 0; k < r->count && a->unit != 1; k++) taken[k] *= a->unit;
  for (int64_t k = 0; k < r->count; k++) sums[k] += taken[k];
  if (a->storage == NEAP_F32)
    memcpy(out, sums, (size_t)r->count * sizeof *sums);
  else
    ISA(narrow_randomly_at)(a->storage, r->count, sums, out, a->key, r->elements);
}

static void add_at_bits(const struct addition *a, int64_t count, const uint8_t *bits, struct range words) {
  struct run r = {.first = count_words(bits, count, (struct range){0, words.begin})};
  for (int64_t i = words.begin; i < words.end; i++, r.first += r.count) {
    r.count = 0;
    for (uint64_t word = word_at(bits, count, i); word != 0; word &= word - 1)
      r.elements[r.count++] = WORD * i + __builtin_ctzll(word);
    add_run(a, &r);
  }
}

static void add_at_indices(const struct addition *a, struct positions at, struct range elements) {
  for (int64_t b = elements.begin / INDEX_BLOCK; b * INDEX_BLOCK < elements.end; b++) {
    const struct range mine = values_of(at, b, elements);
    struct run r = {.first = mine.begin};
    for (; r.first < mine.end; r.first += r.count) {
      r.count = mine.end - r.first < WORD ? mine.end - r.first : WORD;
      for (int64_t k = 0; k < r.count; k++) r.elements[k] = b * INDEX_BLOCK + at.indices[r.first + k];
      add_run(a, &r);
    }
  }
}

void ISA(accumulate_sparse)(neap_dtype storage, neap_dtype of_g, int64_t count, struct positions at,
                            const void *g, float unit, void *sum, struct random_key key) {
  const struct addition a = {storage, of_g, g, unit, sum, key};
  const int64_t words = (count + WORD - 1) / WORD;
#pragma omp parallel for if (count >= PARALLEL_FROM)
  for (int part = 0; part < PARTS; part++) {
    const struct range mine = part_of(words, part, PARTS);
    if (mine.begin == mine.end) continue;
    if (at.bits != NULL)
      add_at_bits(&a, count, at.bits, mine);
    else
      add_at_indices(&a, at, elements_of(count, mine));
  }
}

/* ---- Elements of values ---- */

void ISA(sparse_elements)(int64_t count, struct positions at, int64_t first, int64_t values,
                          int64_t *elements) {
  const int64_t words = (count + WORD - 1) / WORD, blocks = (count + INDEX_BLOCK - 1) / INDEX_BLOCK;
  int64_t found = 0;
  for (int64_t i = 0; at.bits != NULL && i < words && found < values; i++) {
    uint64_t word = word_at(at.bits, count, i);
    const int64_t set = __builtin_popcountll(word);
    if (first >= set) {
      first -= set;
      continue;
    }
    for (; first > 0; first--) word &= word - 1;
    for (; word != 0 && found < values; word &= word - 1)
      elements[found++] = WORD * i + __builtin_ctzll(word);
  }
  for (int64_t b = 0; at.bits == NULL && b < blocks && found < values; b++)
    for (; found < values && first + found < at.ends[b]; found++)
      elements[found] = b * INDEX_BLOCK + at.indices[first + found];
  for (; found < values; found++) elements[found] = count;
}
