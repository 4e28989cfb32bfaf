#include "base/normal.h"

#include <math.h>

#include "base/elementary.h"
#include "base/random.h"

void random_normals(uint64_t seed, uint64_t stream, double deviation, int64_t first, int64_t count,
                    float *data) {
  for (int64_t i = 0; i < count; i += 2) {
    uint32_t word[4];
    random_philox(seed, stream, (uint64_t)(first + i), word);
    const double radius = sqrt(-2 * natural_logarithm(((double)word[0] + 1) * 0x1p-32)),
                 angle = 6.283185307179586 * (double)word[1] * 0x1p-32;
    data[i] = (float)(deviation * radius * cosine(angle));
    if (i + 1 < count) data[i + 1] = (float)(deviation * radius * sine(angle));
  }
}
