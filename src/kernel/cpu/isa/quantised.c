/* Quantised tensors as numbers. */
#include "base/quantised.h"

#include "kernel/cpu/isa/storage.h"

void ISA(dequantise)(neap_dtype dtype, int64_t count, const void *blocks, struct stored y) {
  FOR_RUNS(count) {
    float buffer[STORED_RUN];
    const int64_t length = run_length(first, count);
    float *x = made_floats(y, first, buffer);
    dequantise(dtype, length, (const unsigned char *)blocks + dtype_bytes(dtype, (uint64_t)first), x);
    store_floats(y, first, length, x);
  }
}
