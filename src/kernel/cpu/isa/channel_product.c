/* Convolutions of each channel alone, described as products whose items are channels of pixels: too little
 * for tiles. Vectors run over channels. */
#include "kernel/cpu/isa/pack.h"

static int64_t taps_of(const struct product *p) { return p->a_turned ? p->rows : p->depth; }

/* Returns the pixel that a tap of a window reads; NULL: it is outside of the image. */
static const float *tapped(const struct product_matrix *m, const float *data, int64_t row, int64_t tap) {
  const int64_t line = row / m->grid_width, image = line / m->grid_height,
                y = line % m->grid_height * m->step + m->taps[tap].y,
                x = row % m->grid_width * m->step + m->taps[tap].x;
  const bool inside = y >= 0 && y < m->height && x >= 0 && x < m->width;
  return inside ? data + ((image * m->height + y) * m->width + x) * m->pixel : NULL;
}

static void convolve_channels(const struct product *p, const float *a, const float *b, const float *bias,
                              float *c, float *weights) {
  const int64_t channels = p->dims[0], taps = taps_of(p);
  for (int64_t t = 0; t < taps; t++)
    for (int64_t i = 0; i < channels; i++)
      weights[t * channels + i] = b[i * p->b_item[0] + row_start(&p->b, t)];
#pragma omp parallel for if (p->rows * channels * taps >= PARALLEL_FROM)
  for (int64_t r = 0; r < p->rows; r++) {
    float *to = c + row_start(&p->c, r);
    if (!p->add) memset(to, 0, (size_t)channels * sizeof *to);
    for (int64_t i = 0; bias != NULL && i < channels; i++) to[i] += bias[i];
    for (int64_t t = 0; t < taps; t++) {
      const float *from = tapped(&p->a, a, r, t), *w = weights + t * channels;
      for (int64_t i = 0; from != NULL && i < channels; i++) to[i] = multiply_add(from[i], w[i], to[i]);
    }
  }
}

enum { CHANNELS_TOGETHER = 32 };

/* Adds to sums[t][i] what a line of pixels gives for channels [first, first + count). */
static void add_line(const struct product *p, const float *a, const float *b, int64_t line, int64_t first,
                     int64_t count, float *sums) {
  for (int64_t t = 0; t < p->rows; t++) {
    float part[CHANNELS_TOGETHER] = {0};
    for (int64_t x = 0; x < p->a.grid_width; x++) {
      const int64_t row = line * p->a.grid_width + x;
      const float *from = tapped(&p->a, a, row, t), *by = b + row_start(&p->b, row) + first;
      for (int64_t i = 0; from != NULL && i < count; i++)
        part[i] = multiply_add(from[first + i], by[i], part[i]);
    }
    for (int64_t i = 0; i < count; i++) sums[t * p->dims[0] + first + i] += part[i];
  }
}

/* Sums the gradient of the kernels by lines of pixels. */
static void multiply_channels(const struct product *p, const float *a, const float *b, float *c,
                              float *sums) {
  const int64_t channels = p->dims[0], lines = p->depth / p->a.grid_width;
  memset(sums, 0, (size_t)(p->rows * channels) * sizeof *sums);
#pragma omp parallel for if (p->depth * channels * p->rows >= PARALLEL_FROM)
  for (int64_t first = 0; first < channels; first += CHANNELS_TOGETHER)
    for (int64_t line = 0; line < lines; line++)
      add_line(p, a, b, line, first, least(channels - first, CHANNELS_TOGETHER), sums);
  for (int64_t t = 0; t < p->rows; t++)
    for (int64_t i = 0; i < channels; i++) {
      float *to = c + i * p->c_item[0] + row_start(&p->c, t);
      *to = p->add ? *to + sums[t * channels + i] : sums[t * channels + i];
    }
}

/* The addend, if there is one, lies in c. */
void ISA(channel_product)(const struct product *p, const struct product_operands *o, void *workspace) {
  if (p->a_turned)
    multiply_channels(p, o->a, o->b, o->c, workspace);
  else
    convolve_channels(p, o->a, o->b, o->bias, o->c, workspace);
}

size_t ISA(channel_product_workspace)(const struct product *p) {
  return (size_t)(taps_of(p) * p->dims[0]) * sizeof(float);
}
