/* Positions and lengths of sequences. */
#include <string.h>

#include "base/elementary.h"
#include "kernel/cpu/isa/math.h"

/* Computes each rate once for all rows. Angles are in double, since positions may be large. */
void ISA(positions)(int64_t rows, int64_t half, int64_t first, float *y) {
#pragma omp parallel for if (2 * rows * half >= PARALLEL_FROM)
  for (int64_t d = 0; d < half; d++) {
    const double rate = half > 1 ? power(10000, -(double)d / ((double)half - 1)) : 1;
    for (int64_t t = 0; t < rows; t++) {
      const double angle = ((double)t + (double)first) * rate;
      y[2 * half * t + d] = (float)sine(angle);
      y[2 * half * t + half + d] = (float)cosine(angle);
    }
  }
}

void ISA(sequence_mask)(int64_t sequences, int64_t rows, size_t row, const int32_t *lengths, const void *x,
                        void *y) {
  const size_t sequence = (size_t)rows * row;
#pragma omp parallel for if ((size_t)sequences * sequence >= PARALLEL_FROM * sizeof(float))
  for (int64_t n = 0; n < sequences; n++) {
    const int64_t length = lengths[n] < 0 ? 0 : lengths[n] < rows ? lengths[n] : rows;
    const size_t at = (size_t)n * sequence, kept = (size_t)length * row;
    if (y != x) memcpy((unsigned char *)y + at, (const unsigned char *)x + at, kept);
    memset((unsigned char *)y + at + kept, 0, sequence - kept);
  }
}

void ISA(gather_rows)(struct kept_rows k, size_t row, const void *x, void *y) {
#pragma omp parallel for if ((size_t)(k.sequences * k.kept) * row >= PARALLEL_FROM * sizeof(float))
  for (int64_t n = 0; n < k.sequences; n++) {
    const unsigned char *from = (const unsigned char *)x + (size_t)(n * k.length) * row;
    unsigned char *to = (unsigned char *)y + (size_t)(n * k.kept) * row;
    for (int64_t i = 0; i < k.kept; i++) memcpy(to + (size_t)i * row, from + (size_t)k.rows[i] * row, row);
  }
}

void ISA(scatter_rows)(struct kept_rows k, int64_t row, const float *x, const float *addend, float *y) {
  const int64_t sequence = k.length * row;
#pragma omp parallel for if (k.sequences * sequence >= PARALLEL_FROM)
  for (int64_t n = 0; n < k.sequences; n++) {
    float *to = y + n * sequence;
    if (addend == NULL) memset(to, 0, (size_t)sequence * sizeof *to);
    if (addend != NULL && addend != y) memcpy(to, addend + n * sequence, (size_t)sequence * sizeof *to);
    for (int64_t i = 0; i < k.kept; i++) {
      const float *from = x + (n * k.kept + i) * row;
      float *at = to + k.rows[i] * row;
#pragma omp simd
      for (int64_t d = 0; d < row; d++) at[d] += from[d];
    }
  }
}

void ISA(sequence_lengths)(int64_t sequences, int64_t times, const int32_t *ids, int32_t *lengths) {
  for (int64_t n = 0; n < sequences; n++) {
    int64_t t = 0;
    while (t < times && ids[n * times + t] >= 0) t++;
    lengths[n] = (int32_t)t;
  }
}
