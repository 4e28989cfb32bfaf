/* Dequantisation. */
#include "base/quantised.h"

#include "kernel/cpu/isa/storage.h"

/* Turns up to STORED_RUN numbers, of which `blocks` has the first, into those of y from number `to` on. */
static void expand(neap_dtype dtype, int64_t count, const void *blocks, struct stored y, int64_t to) {
  float buffer[STORED_RUN];
  float *x = made_floats(y, to, buffer);
  dequantise(dtype, count, blocks, x);
  store_floats(y, to, count, x);
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
