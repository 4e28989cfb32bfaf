/* Conversions of whole tensors between types of storage. */
#include "kernel/cpu/isa/storage.h"

#include "base/random.h"

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

/* A counter serves eight elements, with 16 bits each. */
void ISA(narrow_randomly)(enum storage storage, int64_t count, const float *x, void *y, struct random_key key,
                          int64_t first) {
  uint16_t *half = y;
#pragma omp parallel for if (count >= PARALLEL_FROM)
  for (int64_t group = first / 8; group < (first + count + 7) / 8; group++) {
    uint32_t word[4];
    random_philox(key.seed, key.stream, (uint64_t)group, word);
    for (int64_t k = 0; k < 8; k++) {
      const int64_t i = 8 * group + k - first;
      const uint32_t random = word[k / 2] >> 16 * (k & 1) & 0xFFFF;
      if (i < 0 || i >= count) continue;
      half[i] = storage == STORAGE_BF16 ? bf16_from_float_randomly(x[i], random)
                                        : f16_from_float_randomly(x[i], random);
    }
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
