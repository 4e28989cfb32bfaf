/* Images of bytes as normalised numbers. */
#include "kernel/cpu/isa/storage.h"

enum { RUN = 256 };

/* Normalises the columns `range` of a row of one channel. */
static void normalise(struct range range, const uint8_t *x, float mean, float deviation, neap_dtype storage,
                      void *y) {
  for (int64_t first = range.begin; first < range.end; first += RUN) {
    const int64_t count = range.end - first < RUN ? range.end - first : RUN;
    float values[RUN];
#pragma omp simd
    for (int64_t i = 0; i < count; i++) values[i] = ((float)x[first + i] - mean) / deviation;
    narrow_run(storage, count, values, (void *)element_at(y, storage, first));
  }
}

static inline struct range within(int32_t begin, int32_t end, int64_t count) {
  const int64_t first = begin < 0       ? 0
                        : begin < count ? begin
                                        : count,
                last = end < first   ? first
                       : end < count ? end
                                     : count;
  return (struct range){first, last};
}

void ISA(pixels)(struct activation a, const uint8_t *x, const int32_t *windows, const float *mean,
                 const float *deviation, void *y) {
  const int64_t planes = a.images * a.channels;
#pragma omp parallel for if (planes * pixels_of(a) >= PARALLEL_FROM)
  for (int64_t plane = 0; plane < planes; plane++) {
    const int32_t *window = windows + 4 * (plane / a.channels);
    const int64_t channel = plane % a.channels, at = plane * pixels_of(a);
    const struct range rows = within(window[0], window[1], a.height),
                       columns = within(window[2], window[3], a.width);
    memset((void *)element_at(y, a.storage, at), 0, (size_t)pixels_of(a) * bytes_of(a.storage));
    for (int64_t row = rows.begin; row < rows.end; row++)
      normalise(columns, x + at + row * a.width, mean[channel], deviation[channel], a.storage,
                (void *)element_at(y, a.storage, at + row * a.width));
  }
}
