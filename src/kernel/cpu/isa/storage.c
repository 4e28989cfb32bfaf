/* Conversions of whole tensors between types of storage. */
#include "kernel/cpu/isa/storage.h"

enum { RUN = 4096 };

static inline int64_t run_at(int64_t first, int64_t count) {
  return count - first < RUN ? count - first : RUN;
}

void ISA(widen)(neap_dtype storage, int64_t count, const void *x, float *y) {
#pragma omp parallel for if (count >= PARALLEL_FROM)
  for (int64_t first = 0; first < count; first += RUN)
    widen_run(storage, run_at(first, count), element_at(x, storage, first), y + first);
}

void ISA(narrow)(neap_dtype storage, int64_t count, const float *x, void *y) {
#pragma omp parallel for if (count >= PARALLEL_FROM)
  for (int64_t first = 0; first < count; first += RUN)
    narrow_run(storage, run_at(first, count), x + first, (void *)element_at(y, storage, first));
}

void ISA(convert)(int64_t count, struct stored x, struct stored y) {
  FOR_RUNS(count) {
    float buffer[STORED_RUN];
    const int64_t length = run_length(first, count);
    if (x.storage == y.storage)
      memcpy((void *)element_at(y.data, y.storage, first), element_at(x.data, x.storage, first),
             (size_t)length * bytes_of(x.storage));
    else if (y.storage == NEAP_F32)
      widen_run(x.storage, length, element_at(x.data, x.storage, first), (float *)y.data + first);
    else
      narrow_run(y.storage, length, floats_at(x, first, length, buffer),
                 (void *)element_at(y.data, y.storage, first));
  }
}

bool ISA(reaches)(neap_dtype storage, int64_t count, const void *x, float size) {
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
