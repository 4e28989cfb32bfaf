/* Dequantisation, and values in blocks of few bits. */
#include "base/quantised.h"

#include "kernel/cpu/isa/rounding.h"

/* Turns up to STORED_RUN numbers, of which `blocks` has the first, into those of y from number `to` on. */
static void expand(neap_dtype dtype, int64_t count, const void *blocks, struct stored y, int64_t to) {
  const int64_t block = dtype_rows[dtype].block_elements, whole = (count + block - 1) / block * block;
  float buffer[STORED_RUN];
  float *x = whole == count ? made_floats(y, to, buffer) : buffer;
  dequantise(dtype, whole, blocks, x);
  if (x == buffer) narrow_run(y.storage, count, x, (void *)element_at(y.data, y.storage, to));
}

static const void *block_of(neap_dtype dtype, const void *blocks, int64_t number) {
  return (const unsigned char *)blocks + dtype_bytes(dtype, (uint64_t)number);
}

void ISA(dequantise)(neap_dtype dtype, int64_t count, const void *blocks, struct stored y) {
  FOR_RUNS(count) expand(dtype, run_length(first, count), block_of(dtype, blocks, first), y, first);
}

void ISA(dequantise_columns)(neap_dtype dtype, int64_t rows, int64_t columns, int64_t first, int64_t count,
                             const void *blocks, struct stored y) {
#pragma omp parallel for schedule(static) if (rows * count >= PARALLEL_FROM)
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < count; c += STORED_RUN)
      expand(dtype, run_length(c, count), block_of(dtype, blocks, r * columns + first + c), y, r * count + c);
}

/* Returns the spacing of a block. */
static struct spacing measure(neap_dtype dtype, const float *x) {
  float low = x[0], high = x[0];
  uint32_t infinite = 0;
#pragma omp simd reduction(min : low) reduction(max : high) reduction(| : infinite)
  for (int i = 0; i < COMPRESSED_BLOCK; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
    infinite |= (half_bits_of(x[i]) & 0x7F800000) == 0x7F800000 ? 1 : 0;
  }
  return spacing_of(dtype, infinite == 0, low, high);
}

/* Writes a whole block; x[0] is number `first` of its tensor. */
static void compress_block(neap_dtype dtype, const float *x, struct random_key key, int64_t first,
                           void *block) {
  uint32_t words[COMPRESSED_BLOCK / 2];
  uint16_t halves[COMPRESSED_BLOCK];
  struct c8 made = {.q = {0}};
  const struct spacing s = measure(dtype, x);
  made.step = s.step, made.least = s.least;
  for (int part = 0; part < COMPRESSED_BLOCK / ROUNDED_BLOCK; part++)
    random_words(key, (uint64_t)(first / 8 + part * COUNTERS), words + part * 4 * COUNTERS);
  memcpy(halves, words, sizeof halves);
  if (s.step != NOT_FINITE) {
#pragma omp simd
    for (int i = 0; i < COMPRESSED_BLOCK; i++)
      made.q[i] = (uint8_t)compressed_number(s, x[i], half_of(halves, i));
  }
  if (dtype == NEAP_C4)
#pragma omp simd
    for (int i = 0; i < COMPRESSED_BLOCK / 2; i++)
      made.q[i] = (uint8_t)(made.q[i] | made.q[COMPRESSED_BLOCK / 2 + i] << 4);
  memcpy(block, &made, (size_t)dtype_rows[dtype].block_bytes);
}

/* The last block repeats its first number where it has none. */
static void compress_rest(neap_dtype dtype, int64_t count, const float *x, struct random_key key,
                          int64_t first, void *block) {
  float whole[COMPRESSED_BLOCK];
  for (int64_t i = 0; i < COMPRESSED_BLOCK; i++) whole[i] = x[i < count ? i : 0];
  compress_block(dtype, whole, key, first, block);
}

void ISA(compress)(neap_dtype dtype, int64_t count, struct random_key key, struct stored x, void *blocks) {
  FOR_RUNS(count) {
    float buffer[STORED_RUN];
    const int64_t length = run_length(first, count);
    const float *from = floats_at(x, first, length, buffer);
    for (int64_t i = 0; i < length; i += COMPRESSED_BLOCK) {
      unsigned char *block = (unsigned char *)blocks + dtype_bytes(dtype, (uint64_t)(first + i));
      if (length - i >= COMPRESSED_BLOCK)
        compress_block(dtype, from + i, key, first + i, block);
      else
        compress_rest(dtype, length - i, from + i, key, first + i, block);
    }
  }
}
