/* Lightweight and dynamic convolution over time (Wu et al. 2019).
 *
 * Forward and the gradient of x are products of a band matrix and a sequence: a time of the result is a
 * weighted sum of rows near it. The gradient of the weights consists of dot products of a row of dy and rows
 * of x near it. Channels of a head are contiguous and share their weights: vectors run over them. */
#include <string.h>

#include "kernel/cpu/isa/floats.h"

enum {
  TILE_TIMES = 4,   /* times of a result computed together, so that a row is read once for all */
  TILE_VECTORS = 2, /* vectors of channels computed together */
  LANES = 16,       /* in which gradients are summed, whatever the width of vectors */
  PARTS = LANES / FLOATS,
  TILE_TAPS = FLOATS == LANES ? 8 : 4, /* taps whose gradients are computed together */
  BLOCK_TIMES = 32, /* times that a thread takes at once: sums are divided by these, not by threads */
  WEIGHT_PARTS = 64 /* parts of the blocks for the gradient of lightweight weights; their number is fixed */
};

static int64_t blocks_in(int64_t times) { return (times + BLOCK_TIMES - 1) / BLOCK_TIMES; }
static int64_t work_of(const struct sequence_conv *s) {
  return s->sequences * s->times * s->channels * s->taps;
}

/* Return the number of weights of a time, and the stride from one time's to the next's: 0 if all times share
 * them. */
static int64_t weights_in(const struct sequence_conv *s) { return s->heads * s->taps; }
static int64_t weight_step(const struct sequence_conv *s) { return s->dynamic ? weights_in(s) : 0; }

/* ---- Products of a band and a sequence ---- */

/* to[t] = sum of w[t * by_time + r * by_row] from[r] over the `taps` rows r from t - before on that exist. */
struct band {
  int64_t times, rows, channels, taps, before, by_time, by_row;
};

static int64_t first_row(const struct band *b, int64_t t) { return most(0, t - b->before); }
static int64_t end_row(const struct band *b, int64_t t) { return least(b->rows, t - b->before + b->taps); }

/* Adds the weighted rows [r, end) to the sums of a time. */
INLINE void add_rows(const struct band *b, int vectors, const float *w, const float *from, int64_t t,
                     int64_t r, int64_t end, floats *sums) {
  for (; r < end; r++) {
    const float weight = w[t * b->by_time + r * b->by_row];
    for (int j = 0; j < vectors; j++)
      sums[j] = multiply_add_vector(weight - (floats){0}, load(from + r * b->channels + j * FLOATS), sums[j]);
  }
}

/* Computes `times` times of the result from t on, in `vectors` vectors of channels. Rows that all these
 * times use are read once; rows before and after them once for each time that uses them. */
INLINE void tile(const struct band *b, int times, int vectors, const float *w, const float *from, float *to,
                 int64_t t) {
  floats sums[TILE_TIMES * TILE_VECTORS];
  for (int i = 0; i < times * vectors; i++) sums[i] = (floats){0};
  int64_t begin = first_row(b, t + times - 1), end = end_row(b, t);
  if (begin >= end) begin = end = b->rows;
  for (int i = 0; i < times; i++)
    add_rows(b, vectors, w, from, t + i, first_row(b, t + i), least(begin, end_row(b, t + i)),
             sums + i * vectors);
  for (int64_t r = begin; r < end; r++) {
    const float *weight = w + t * b->by_time + r * b->by_row;
    floats x[TILE_VECTORS];
    for (int j = 0; j < vectors; j++) x[j] = load(from + r * b->channels + j * FLOATS);
    for (int i = 0; i < times; i++)
      for (int j = 0; j < vectors; j++)
        sums[i * vectors + j] =
            multiply_add_vector(weight[i * b->by_time] - (floats){0}, x[j], sums[i * vectors + j]);
  }
  for (int i = 0; i < times; i++) {
    add_rows(b, vectors, w, from, t + i, end, end_row(b, t + i), sums + i * vectors);
    for (int j = 0; j < vectors; j++) store(to + (t + i) * b->channels + j * FLOATS, sums[i * vectors + j]);
  }
}

INLINE void columns(const struct band *b, int vectors, const float *w, const float *from, float *to,
                    int64_t begin, int64_t end) {
  int64_t t = begin;
  for (; t + TILE_TIMES <= end; t += TILE_TIMES) tile(b, TILE_TIMES, vectors, w, from, to, t);
  for (; t < end; t++) tile(b, 1, vectors, w, from, to, t);
}

/* The same for fewer channels than a vector has. */
static void narrow_columns(const struct band *b, int64_t width, const float *w, const float *from, float *to,
                           int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; t++) {
    float sums[FLOATS] = {0};
    for (int64_t r = first_row(b, t); r < end_row(b, t); r++) {
      const float weight = w[t * b->by_time + r * b->by_row];
#pragma omp simd
      for (int64_t c = 0; c < width; c++) sums[c] = multiply_add(weight, from[r * b->channels + c], sums[c]);
    }
    memcpy(to + t * b->channels, sums, (size_t)width * sizeof *to);
  }
}

/* Computes the times [begin, end) in the `width` channels of a head. The last vector may compute some
 * channels again. */
static void band_of_head(const struct band *b, int64_t width, const float *w, const float *from, float *to,
                         int64_t begin, int64_t end) {
  int64_t c = 0;
  if (width < FLOATS) {
    narrow_columns(b, width, w, from, to, begin, end);
    return;
  }
  for (; c + TILE_VECTORS * FLOATS <= width; c += TILE_VECTORS * FLOATS)
    columns(b, TILE_VECTORS, w, from + c, to + c, begin, end);
  for (; c < width; c += FLOATS) {
    const int64_t at = least(c, width - FLOATS);
    columns(b, 1, w, from + at, to + at, begin, end);
  }
}

/* Computes the whole result. w: the weight of the first row in the first time of the first sequence. */
static void multiply_band(const struct sequence_conv *s, const struct band *b, const float *w,
                          const float *from, float *to) {
  const int64_t blocks = blocks_in(b->times), width = s->channels / s->heads;
#pragma omp parallel for collapse(2) if (work_of(s) >= PARALLEL_FROM)
  for (int64_t n = 0; n < s->sequences; n++)
    for (int64_t block = 0; block < blocks; block++) {
      const int64_t begin = block * BLOCK_TIMES, end = least(begin + BLOCK_TIMES, b->times);
      const float *of_sequence = from + n * b->rows * s->channels;
      for (int64_t h = 0; h < s->heads; h++)
        band_of_head(b, width, w + n * s->times * weight_step(s) + h * s->taps, of_sequence + h * width,
                     to + n * b->times * s->channels + h * width, begin, end);
    }
}

void ISA(sequence_conv)(struct sequence_conv s, const float *x, const float *w, float *y) {
  const struct band b = {s.times, s.rows, s.channels, s.taps, s.padding, weight_step(&s) - 1, 1};
  multiply_band(&s, &b, w + s.padding, x, y);
}

/* ---- Gradient of the weights ---- */

/* The operands of a head's gradient: x and dy from its first channel on. */
struct head {
  int64_t rows, channels, width, padding;
  const float *x, *dy;
  ints fresh[PARTS]; /* lanes of the last LANES that those before, which overlap them, do not have */
};

static struct head head_of(const struct sequence_conv *s, const float *x, const float *dy, int64_t n,
                           int64_t h) {
  const int64_t width = s->channels / s->heads;
  struct head head = {.rows = s->rows,
                      .channels = s->channels,
                      .width = width,
                      .padding = s->padding,
                      .x = x + n * s->rows * s->channels + h * width,
                      .dy = dy + n * s->times * s->channels + h * width};
  for (int l = 0; l < LANES; l++) head.fresh[l / FLOATS][l % FLOATS] = l >= LANES - width % LANES ? -1 : 0;
  return head;
}

INLINE floats load_fresh(const struct head *h, int part, const float *p) {
  return (floats)((ints)load(p + h->width - LANES + part * FLOATS) & h->fresh[part]);
}

INLINE float sum_of(const floats *parts) {
  float lanes[LANES];
  for (int p = 0; p < PARTS; p++) store(lanes + p * FLOATS, parts[p]);
  return sum_of_float_lanes(lanes);
}

/* Adds the products of dy[t] and x[t + k + i - padding] to the sums of each tap i, for the times [begin,
 * end). All their rows of x must exist. */
INLINE void add_products(const struct head *h, int taps, int64_t k, int64_t begin, int64_t end,
                         floats (*sums)[PARTS]) {
  for (int64_t t = begin; t < end; t++) {
    const float *dy = h->dy + t * h->channels, *x = h->x + (t + k - h->padding) * h->channels;
    for (int64_t c = 0; c + LANES <= h->width; c += LANES)
      for (int p = 0; p < PARTS; p++) {
        const floats g = load(dy + c + p * FLOATS);
        for (int i = 0; i < taps; i++)
          sums[i][p] = multiply_add_vector(g, load(x + i * h->channels + c + p * FLOATS), sums[i][p]);
      }
    if (h->width % LANES == 0) continue;
    for (int p = 0; p < PARTS; p++) {
      const floats g = load_fresh(h, p, dy);
      for (int i = 0; i < taps; i++)
        sums[i][p] = multiply_add_vector(g, load_fresh(h, p, x + i * h->channels), sums[i][p]);
    }
  }
}

/* Computes the sums over the times [begin, end) of `taps` taps from k on. inside: the rows of all taps exist
 * at all times. Else a row of dy is read once for all taps at the times where their rows exist. */
INLINE void tile_sums(const struct head *h, int taps, bool inside, int64_t k, int64_t begin, int64_t end,
                      float *sums) {
  floats lanes[TILE_TAPS][PARTS];
  for (int i = 0; i < taps; i++)
    for (int p = 0; p < PARTS; p++) lanes[i][p] = (floats){0};
  int64_t first = begin, last = end;
  if (!inside) {
    first = least(end, most(begin, h->padding - k));
    last = most(first, least(end, h->rows + h->padding - k - taps + 1));
  }
  for (int i = 0; i < taps && !inside; i++)
    add_products(h, 1, k + i, most(begin, h->padding - k - i), least(first, h->rows + h->padding - k - i),
                 lanes + i);
  add_products(h, taps, k, first, last, lanes);
  for (int i = 0; i < taps; i++) {
    if (!inside)
      add_products(h, 1, k + i, most(last, h->padding - k - i), least(end, h->rows + h->padding - k - i),
                   lanes + i);
    sums[i] = sum_of(lanes[i]);
  }
}

/* The same for one tap and fewer than LANES channels. */
static void narrow_sums(const struct head *h, int64_t k, int64_t begin, int64_t end, float *sums) {
  double sums_of_channels[LANES] = {0}, sum = 0;
  for (int64_t t = most(begin, h->padding - k); t < least(end, h->rows + h->padding - k); t++) {
    const float *dy = h->dy + t * h->channels, *x = h->x + (t + k - h->padding) * h->channels;
#pragma omp simd
    for (int64_t c = 0; c < h->width; c++) sums_of_channels[c] += (double)dy[c] * (double)x[c];
  }
  for (int64_t c = 0; c < h->width; c++) sum += sums_of_channels[c];
  *sums = (float)sum;
}

/* Returns the number of taps that are summed together. The last tile of a kernel may compute some taps
 * again. */
static int64_t tile_of(const struct head *h, int64_t taps) {
  if (h->width < LANES) return 1;
  return taps >= TILE_TAPS ? TILE_TAPS : taps >= 4 ? 4 : taps >= 2 ? 2 : 1;
}

INLINE void sum_taps(const struct head *h, int64_t tile, bool inside, int64_t k, int64_t begin, int64_t end,
                     float *sums) {
  if (h->width < LANES)
    narrow_sums(h, k, begin, end, sums);
  else if (tile == TILE_TAPS)
    tile_sums(h, TILE_TAPS, inside, k, begin, end, sums);
  else if (tile == 4)
    tile_sums(h, 4, inside, k, begin, end, sums);
  else if (tile == 2)
    tile_sums(h, 2, inside, k, begin, end, sums);
  else
    tile_sums(h, 1, inside, k, begin, end, sums);
}

/* Computes dw of each of the times [begin, end), for `tile` taps from k on; 0 if a tap's row is missing. The
 * inner loop runs over times: the rows of x that a tile reads stay in the first-level cache. */
static void tile_gradient(const struct head *h, int64_t tile, int64_t k, int64_t begin, int64_t end,
                          int64_t step, float *dw) {
  for (int64_t t = begin; t < end; t++) {
    float sums[TILE_TAPS];
    if (t + k >= h->padding && t + k + tile <= h->rows + h->padding)
      sum_taps(h, tile, true, k, t, t + 1, sums);
    else
      for (int64_t i = 0; i < tile; i++) sum_taps(h, 1, false, k + i, t, t + 1, sums + i);
    memcpy(dw + t * step, sums, (size_t)tile * sizeof *sums);
  }
}

static void dynamic_gradient(const struct sequence_conv *s, const float *x, const float *dy, float *dw) {
  const int64_t blocks = blocks_in(s->times);
#pragma omp parallel for collapse(2) if (work_of(s) >= PARALLEL_FROM)
  for (int64_t n = 0; n < s->sequences; n++)
    for (int64_t block = 0; block < blocks; block++) {
      const int64_t begin = block * BLOCK_TIMES, end = least(begin + BLOCK_TIMES, s->times);
      float *of_sequence = dw + n * s->times * weights_in(s);
      for (int64_t h = 0; h < s->heads; h++) {
        const struct head head = head_of(s, x, dy, n, h);
        const int64_t tile = tile_of(&head, s->taps);
        for (int64_t done = 0; done < s->taps; done += tile) {
          const int64_t k = least(done, s->taps - tile);
          tile_gradient(&head, tile, k, begin, end, weights_in(s), of_sequence + h * s->taps + k);
        }
      }
    }
}

/* Adds a block's part of dw to the sums of its part. */
static void add_block(const struct sequence_conv *s, const float *x, const float *dy, int64_t n,
                      int64_t block, double *own) {
  const int64_t begin = block * BLOCK_TIMES, end = least(begin + BLOCK_TIMES, s->times);
  for (int64_t h = 0; h < s->heads; h++) {
    const struct head head = head_of(s, x, dy, n, h);
    const int64_t tile = tile_of(&head, s->taps);
    for (int64_t done = 0; done < s->taps; done += tile) {
      const int64_t k = least(done, s->taps - tile);
      float sums[TILE_TAPS];
      sum_taps(&head, tile, false, k, begin, end, sums);
      for (int64_t i = done - k; i < tile; i++) own[h * s->taps + k + i] += (double)sums[i];
    }
  }
}

size_t ISA(sequence_conv_workspace)(struct sequence_conv s) {
  return s.dynamic ? 0 : (size_t)(WEIGHT_PARTS * weights_in(&s)) * sizeof(double);
}

/* Computes dw, summed over all times of all sequences. The sums of parts do not depend on the number of
 * threads. */
static void lightweight_gradient(const struct sequence_conv *s, const float *x, const float *dy, float *dw,
                                 double *parts) {
  const int64_t blocks = blocks_in(s->times), count = weights_in(s);
#pragma omp parallel for if (work_of(s) >= PARALLEL_FROM)
  for (int part = 0; part < WEIGHT_PARTS; part++) {
    const struct range mine = part_of(s->sequences * blocks, part, WEIGHT_PARTS);
    memset(parts + part * count, 0, (size_t)count * sizeof *parts);
    for (int64_t i = mine.begin; i < mine.end; i++)
      add_block(s, x, dy, i / blocks, i % blocks, parts + part * count);
  }
  for (int64_t i = 0; i < count; i++) {
    double sum = 0;
    for (int part = 0; part < WEIGHT_PARTS; part++) sum += parts[part * count + i];
    dw[i] = (float)sum;
  }
}

/* Computes dw first, since dx may be in place of x. dx is a sum over the times that read a row of x: a band
 * in reverse order. */
void ISA(sequence_conv_backward)(struct sequence_conv s, const float *x, const float *w, const float *dy,
                                 float *dx, float *dw, void *workspace) {
  const struct band b = {s.rows, s.times, s.channels, s.taps, s.taps - 1 - s.padding, 1, weight_step(&s) - 1};
  if (dw != NULL && s.dynamic) dynamic_gradient(&s, x, dy, dw);
  if (dw != NULL && !s.dynamic) lightweight_gradient(&s, x, dy, dw, workspace);
  multiply_band(&s, &b, w + s.padding, dy, dx);
}
