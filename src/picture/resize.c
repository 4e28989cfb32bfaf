#include "picture/resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PRECISION = 32 - 8 - 2 };

/* A filter along one side: output i is the sum of weights[i * most ...] times inputs from first[i] on. */
struct filter {
  int64_t most;
  int32_t *first, *count, *weights;
};

/* Returns the most weights of an output; a side that shrinks has a scale of more than 1. */
static int64_t most_weights(int64_t from, int64_t to) {
  const double scale = (double)from / (double)to;
  return (int64_t)ceil(scale < 1 ? 1 : scale) * 2 + 1;
}

static int64_t filter_elements(int64_t from, int64_t to) { return to * (2 + most_weights(from, to)); }

static double triangle(double x) { return x < 0 ? (x > -1 ? 1 + x : 0) : (x < 1 ? 1 - x : 0); }

/* Makes a bilinear filter whose triangle is as wide as the scale. */
static void make_filter(int64_t from, int64_t to, int32_t *memory, struct filter *f) {
  const double scale = (double)from / (double)to, wide = scale < 1 ? 1 : scale;
  *f = (struct filter){most_weights(from, to), memory, memory + to, memory + 2 * to};
  for (int64_t i = 0; i < to; i++) {
    const double centre = ((double)i + 0.5) * scale;
    int64_t begin = (int64_t)(centre - wide + 0.5), end = (int64_t)(centre + wide + 0.5);
    double sum = 0;
    if (begin < 0) begin = 0;
    if (end > from) end = from;
    for (int64_t x = begin; x < end; x++) sum += triangle(((double)x - centre + 0.5) * (1 / wide));
    f->first[i] = (int32_t)begin;
    f->count[i] = (int32_t)(end - begin);
    for (int64_t x = begin; x < end; x++) {
      const double weight = triangle(((double)x - centre + 0.5) * (1 / wide)) / (sum != 0 ? sum : 1);
      f->weights[i * f->most + x - begin] = (int32_t)(0.5 + weight * (1 << PRECISION));
    }
  }
}

static uint8_t rounded(int32_t sum) {
  const int32_t value = sum >> PRECISION;
  return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* Filters the rows of a box to `out` [box.height, kept.width, channels]. */
static void filter_rows(const struct filter *f, const struct picture *p, struct box box, struct box kept,
                        uint8_t *out) {
  const int channels = p->channels;
  for (int64_t y = 0; y < box.height; y++) {
    const uint8_t *row = p->pixels + ((box.top + y) * p->width + box.left) * channels;
    for (int64_t x = kept.left; x < kept.left + kept.width; x++) {
      const int32_t *weights = f->weights + x * f->most;
      const uint8_t *in = row + (int64_t)f->first[x] * channels;
      for (int c = 0; c < channels; c++) {
        int32_t sum = 1 << (PRECISION - 1);
        for (int32_t k = 0; k < f->count[x]; k++) sum += in[k * channels + c] * weights[k];
        *out++ = rounded(sum);
      }
    }
  }
}

/* Filters the columns of in [., kept.width, channels] to planes. */
static void filter_columns(const struct filter *f, const uint8_t *in, int channels, struct box kept,
                           uint8_t *out) {
  const int64_t row = kept.width * channels;
  for (int64_t y = 0; y < kept.height; y++) {
    const int32_t *weights = f->weights + (kept.top + y) * f->most;
    const int32_t count = f->count[kept.top + y];
    const uint8_t *from = in + f->first[kept.top + y] * row;
    for (int64_t i = 0; i < row; i++) {
      int32_t sum = 1 << (PRECISION - 1);
      for (int32_t k = 0; k < count; k++) sum += from[k * row + i] * weights[k];
      out[(i % channels * kept.height + y) * kept.width + i / channels] = rounded(sum);
    }
  }
}

static void copy_box(const struct picture *p, struct box box, struct box kept, uint8_t *out) {
  for (int c = 0; c < p->channels; c++)
    for (int64_t y = 0; y < kept.height; y++) {
      const uint8_t *row =
          p->pixels + ((box.top + kept.top + y) * p->width + box.left + kept.left) * p->channels + c;
      for (int64_t x = 0; x < kept.width; x++) *out++ = row[x * p->channels];
    }
}

size_t resize_bytes(int64_t picture_height, int64_t picture_width, int64_t height, int64_t width) {
  return (size_t)(filter_elements(picture_width, width) + filter_elements(picture_height, height)) *
             sizeof(int32_t) +
         (size_t)(picture_height * width * 3);
}

neap_status resize_reserve(struct resizer *resizer, size_t bytes) {
  if (bytes <= resizer->capacity) return NEAP_OK;
  unsigned char *memory = realloc(resizer->memory, bytes);
  RETURN_IF(memory == NULL, NEAP_OUT_OF_MEMORY, "out of memory for resizing a picture");
  resizer->memory = memory;
  resizer->capacity = bytes;
  return NEAP_OK;
}

neap_status resize_box(struct resizer *resizer, const struct picture *picture, struct box box,
                       const struct target *target, uint8_t *out) {
  const int64_t height = target->height, width = target->width;
  struct filter across, down;
  if (box.height == height && box.width == width) {
    copy_box(picture, box, target->kept, out);
    return NEAP_OK;
  }
  TRY(resize_reserve(resizer, resize_bytes(box.height, box.width, height, width)));
  int32_t *weights = (int32_t *)(void *)resizer->memory;
  make_filter(box.width, width, weights, &across);
  weights += filter_elements(box.width, width);
  make_filter(box.height, height, weights, &down);
  weights += filter_elements(box.height, height);
  uint8_t *rows = (uint8_t *)weights;
  filter_rows(&across, picture, box, target->kept, rows);
  filter_columns(&down, rows, picture->channels, target->kept, out);
  return NEAP_OK;
}

void resize_free(struct resizer *resizer) {
  free(resizer->memory);
  *resizer = (struct resizer){0};
}
