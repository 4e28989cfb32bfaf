/* Conversions of whole tensors between types of storage. */
#include "kernel/cpu/isa/storage.h"

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
