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

void ISA(sequence_lengths)(int64_t sequences, int64_t times, const int32_t *ids, int32_t *lengths) {
  for (int64_t n = 0; n < sequences; n++) {
    int64_t t = 0;
    while (t < times && ids[n * times + t] >= 0) t++;
    lengths[n] = (int32_t)t;
  }
}
