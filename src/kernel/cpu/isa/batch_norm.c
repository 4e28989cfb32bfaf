/* Reductions over images and pixels: batch norm in both directions, gradients of biases. */
#include <math.h>
#include <string.h>

#include "kernel/cpu/isa/floats.h"

/* A tensor is processed in slices: SLICE_ROWS pixels, or the rest, of one channel block of one image. Sums
 * within a slice are f32, sums of slices double. Sums over all slices are made in pieces, at most
 * MOST_PIECES, whose number follows from the shape: threads take whole pieces, so bits do not depend on their
 * number. */
enum { SLICE_ROWS = 128, TILE = 64, MOST_PIECES = 8 };

/* Returns the number of slices of a channel block of one image. */
static int64_t slices_per_image(struct activation a) { return (pixels_of(a) + SLICE_ROWS - 1) / SLICE_ROWS; }

/* Returns the number of pieces of all images; a tensor of one pixel has its images in the place of pixels. */
static int pieces_of(struct activation a) {
  const int64_t slices =
      pixels_of(a) == 1 ? (a.images + SLICE_ROWS - 1) / SLICE_ROWS : a.images * slices_per_image(a);
  return (int)(slices < MOST_PIECES ? slices : MOST_PIECES);
}

struct slice {
  int64_t offset, rows; /* of its first element; pixels */
};

/* Returns slice i of a channel block, counted as [images, slices]. */
static struct slice slice_at(struct activation a, int64_t block, int64_t i) {
  const int64_t per_image = slices_per_image(a), image = i / per_image, first = i % per_image * SLICE_ROWS,
                left = pixels_of(a) - first;
  return (struct slice){((image * blocks_of(a) + block) * pixels_of(a) + first) * a.lanes,
                        left < SLICE_ROWS ? left : SLICE_ROWS};
}

/* Some channels of a slice: `rows` pixels, `stride` elements apart, `width` channels each. */
struct columns {
  int64_t rows, stride, width;
};

/* Returns whether the columns are a whole block of 16 channels. This case is the most frequent and is
 * compiled separately, with constant width and stride. */
INLINE bool is_block(struct columns at) { return at.width == 16 && at.stride == 16; }
INLINE struct columns block_of(int64_t rows) { return (struct columns){rows, 16, 16}; }

/* Returns the number of channels that fill vectors. */
INLINE int64_t whole_vectors(struct columns at) { return at.width / FLOATS * FLOATS; }

INLINE float element(neap_dtype storage, const void *x, int64_t i) {
  float value;
  widen_run(storage, 1, element_at(x, storage, i), &value);
  return value;
}
INLINE void set_element(neap_dtype storage, void *y, int64_t i, float value) {
  narrow_run(storage, 1, &value, (void *)element_at(y, storage, i));
}
INLINE floats elements(neap_dtype storage, const void *x, int64_t i) {
  return load_stored(storage, element_at(x, storage, i));
}
INLINE void set_elements(neap_dtype storage, void *y, int64_t i, floats values) {
  store_stored(storage, (void *)element_at(y, storage, i), values);
}

/* Terms of each channel: values are centred, scaled and shifted by them, and clipped at the ceiling. */
struct channel_terms {
  float centre[TILE], scale[TILE], shift[TILE], ceiling;
};

/* Returns x * scale + shift. Both directions use this form alone, so that ReLU sees the same sign in both. */
static inline float normalised(float x, float scale, float shift) { return multiply_add(x, scale, shift); }
INLINE floats normalised_vector(floats x, floats scale, floats shift) {
  return multiply_add_vector(x, scale, shift);
}

/* ReLU, also with a ceiling, and where it passes a gradient. NaN stays NaN and passes it. */
static inline float cut(float v, float ceiling) {
  const float above = v <= 0 ? 0 : v;
  return above > ceiling ? ceiling : above;
}
INLINE floats cut_vector(floats v, float ceiling) {
#if defined(__AVX512F__)
  const __mmask16 above = _mm512_cmp_ps_mask((__m512)v, _mm512_setzero_ps(), _CMP_NLE_UQ);
  return (floats)_mm512_maskz_min_ps(above, _mm512_set1_ps(ceiling), (__m512)v); /* NaN if v is */
#elif defined(__AVX2__)
  const __m256 above = _mm256_cmp_ps((__m256)v, _mm256_setzero_ps(), _CMP_NLE_UQ);
  return (floats)_mm256_and_ps(above, _mm256_min_ps(_mm256_set1_ps(ceiling), (__m256)v));
#else
  for (int i = 0; i < FLOATS; i++) v[i] = cut(v[i], ceiling);
  return v;
#endif
}
static inline bool inside(float v, float ceiling) { return !(v <= 0 || v >= ceiling); }
INLINE floats where_inside(floats condition, float ceiling, floats value) {
  return (floats)((ints)value & ~((condition <= 0.0f) | (condition >= ceiling)));
}

static void norm_terms(const void *context, int64_t channel, int64_t count, struct channel_terms *t) {
  const struct batch_norm *n = context;
  t->ceiling = n->ceiling;
  for (int64_t c = 0; c < count; c++) {
    const float deviation = sqrtf(n->variance[channel + c] + n->epsilon);
    t->centre[c] = n->mean[channel + c];
    t->scale[c] = n->gamma[channel + c] / deviation;
    t->shift[c] = multiply_add(-n->mean[channel + c], t->scale[c], n->beta[channel + c]);
  }
}

/* ---- Sums of some columns of a slice ---- */

/* Adds two sums over a slice's pixels, by channel. */
typedef void column_sums(neap_dtype storage, const void *x, const void *dy, struct columns at,
                         const struct channel_terms *t, double *first, double *second);

static void add_to(floats sums, double *total) {
  for (int i = 0; i < FLOATS; i++) total[i] += (double)sums[i];
}

/* Adds the two terms of a pixel to the sums of a channel: x - centre and its square. */
INLINE void add_moments(float x, float centre, float *first, float *second) {
  const float d = x - centre;
  *first += d;
  *second = multiply_add(d, d, *second);
}

/* sum (x - centre), sum (x - centre)^2. A channel's pixels are added one by one, or in lanes if they lie next
 * to each other. */
INLINE void moments_of(neap_dtype storage, const void *x, struct columns at, const struct channel_terms *t,
                       double *first, double *second) {
  const int64_t whole = whole_vectors(at);
  for (int64_t c = 0; c < whole; c += FLOATS) {
    const floats centre = load(t->centre + c);
    floats a = {0}, b = {0};
    for (int64_t r = 0; r < at.rows; r++) {
      const floats d = elements(storage, x, r * at.stride + c) - centre;
      a += d;
      b = multiply_add_vector(d, d, b);
    }
    add_to(a, first + c);
    add_to(b, second + c);
  }
  for (int64_t c = whole; c < at.width; c++) {
    const float centre = t->centre[c];
    float a[SUM_LANES] = {0}, b[SUM_LANES] = {0};
    if (at.stride == 1)
      IN_LANES(r, lane, at.rows, add_moments(element(storage, x, r), centre, &a[lane], &b[lane]));
    else
      for (int64_t r = 0; r < at.rows; r++)
        add_moments(element(storage, x, r * at.stride + c), centre, &a[0], &b[0]);
    first[c] += (double)sum_of_float_lanes(a);
    second[c] += (double)sum_of_float_lanes(b);
  }
}

/* Adds the two terms of a pixel: g and g (x - centre), where g is dy or, with ReLU, dy where the forward
 * result was not clipped. */
INLINE void add_gradients(bool relu, float x, float dy, const struct channel_terms *t, int64_t c,
                          float *first, float *second) {
  const float g = !relu || inside(normalised(x, t->scale[c], t->shift[c]), t->ceiling) ? dy : 0;
  *first += g;
  *second = multiply_add(g, x - t->centre[c], *second);
}

/* sum g, sum g (x - centre). */
INLINE void gradients_of(neap_dtype storage, bool relu, const void *x, const void *dy, struct columns at,
                         const struct channel_terms *t, double *first, double *second) {
  const int64_t whole = whole_vectors(at);
  for (int64_t c = 0; c < whole; c += FLOATS) {
    const floats centre = load(t->centre + c), scale = load(t->scale + c), shift = load(t->shift + c);
    floats a = {0}, b = {0};
    for (int64_t r = 0; r < at.rows; r++) {
      const floats v = elements(storage, x, r * at.stride + c);
      floats g = elements(storage, dy, r * at.stride + c);
      if (relu) g = where_inside(normalised_vector(v, scale, shift), t->ceiling, g);
      a += g;
      b = multiply_add_vector(g, v - centre, b);
    }
    add_to(a, first + c);
    add_to(b, second + c);
  }
  for (int64_t c = whole; c < at.width; c++) {
    float a[SUM_LANES] = {0}, b[SUM_LANES] = {0};
    if (at.stride == 1)
      IN_LANES(
          r, lane, at.rows,
          add_gradients(relu, element(storage, x, r), element(storage, dy, r), t, c, &a[lane], &b[lane]));
    else
      for (int64_t r = 0; r < at.rows; r++)
        add_gradients(relu, element(storage, x, r * at.stride + c), element(storage, dy, r * at.stride + c),
                      t, c, &a[0], &b[0]);
    first[c] += (double)sum_of_float_lanes(a);
    second[c] += (double)sum_of_float_lanes(b);
  }
}

static void moments(neap_dtype storage, const void *x, const void *dy, struct columns at,
                    const struct channel_terms *t, double *first, double *second) {
  (void)dy;
  if (is_block(at))
    BY_STORAGE(storage, moments_of, x, block_of(at.rows), t, first, second);
  else
    BY_STORAGE(storage, moments_of, x, at, t, first, second);
}

static void plain_gradients(neap_dtype storage, const void *x, const void *dy, struct columns at,
                            const struct channel_terms *t, double *first, double *second) {
  if (is_block(at))
    BY_STORAGE(storage, gradients_of, false, x, dy, block_of(at.rows), t, first, second);
  else
    BY_STORAGE(storage, gradients_of, false, x, dy, at, t, first, second);
}

static void relu_gradients(neap_dtype storage, const void *x, const void *dy, struct columns at,
                           const struct channel_terms *t, double *first, double *second) {
  if (is_block(at))
    BY_STORAGE(storage, gradients_of, true, x, dy, block_of(at.rows), t, first, second);
  else
    BY_STORAGE(storage, gradients_of, true, x, dy, at, t, first, second);
}

/* ---- Sums of a channel block over a team of threads ---- */

/* A thread of a team, and the workspace of the team: for each piece, two sums for each channel. */
struct member {
  int thread, threads;
  void *workspace;
};
static struct member member_of_team(void *workspace) {
  return (struct member){omp_get_thread_num(), omp_get_num_threads(), workspace};
}
static double *sums_of_piece(void *workspace, struct activation a, int64_t piece) {
  return (double *)workspace + piece * 2 * blocks_of(a) * a.lanes;
}

size_t ISA(reduction_workspace)(struct activation a) {
  return (size_t)(blocks_of(a) * a.lanes) * 2 * sizeof(double) * (size_t)pieces_of(a);
}

static int64_t tile_width(struct activation a, int64_t block, int64_t column) {
  const int64_t in_block = a.lanes - column, channels = a.channels - block * a.lanes - column;
  const int64_t width = in_block < channels ? in_block : channels;
  return width < TILE ? width : TILE;
}

/* As element_at; NULL stays NULL. */
static const void *element_or_null(struct activation a, const void *x, int64_t i) {
  return x == NULL ? NULL : element_at(x, a.storage, i);
}

typedef void tile_terms(const void *context, int64_t channel, int64_t count, struct channel_terms *t);

/* Computes a piece of a block's sums. */
static void sum_piece(struct activation a, int64_t block, int64_t piece, const void *x, const void *dy,
                      column_sums *sums, tile_terms *terms, const void *context, void *workspace) {
  double *first = sums_of_piece(workspace, a, piece) + block * a.lanes,
         *second = first + blocks_of(a) * a.lanes;
  memset(first, 0, (size_t)a.lanes * sizeof *first);
  memset(second, 0, (size_t)a.lanes * sizeof *second);
  const struct range slices = part_of(a.images * slices_per_image(a), (int)piece, pieces_of(a));
  int64_t width;
  for (int64_t column = 0; (width = tile_width(a, block, column)) > 0 && column < a.lanes; column += width) {
    struct channel_terms t;
    terms(context, block * a.lanes + column, width, &t);
    for (int64_t i = slices.begin; i < slices.end; i++) {
      const struct slice s = slice_at(a, block, i);
      sums(a.storage, element_at(x, a.storage, s.offset + column), element_or_null(a, dy, s.offset + column),
           (struct columns){s.rows, a.lanes, width}, &t, first + column, second + column);
    }
  }
}

/* Computes this thread's share of a block's sums. */
static void sum_block(struct activation a, int64_t block, const void *x, const void *dy, column_sums *sums,
                      tile_terms *terms, const void *context, struct member own) {
  const struct range mine = part_of(pieces_of(a), own.thread, own.threads);
  for (int64_t piece = mine.begin; piece < mine.end; piece++)
    sum_piece(a, block, piece, x, dy, sums, terms, context, own.workspace);
}

static void total(struct activation a, int64_t channel, void *workspace, double *first, double *second) {
  *first = *second = 0;
  for (int piece = 0; piece < pieces_of(a); piece++) {
    const double *sums = sums_of_piece(workspace, a, piece);
    *first += sums[channel];
    *second += sums[blocks_of(a) * a.lanes + channel];
  }
}

/* ---- Statistics ---- */

/* Differences from the channel's first element are small, so that the sum of their squares keeps its
 * precision. */
struct first_elements {
  struct activation a;
  const void *x;
};

static void centre_on_first(const void *context, int64_t channel, int64_t count, struct channel_terms *t) {
  const struct first_elements *f = context;
  for (int64_t c = 0; c < count; c++) {
    const int64_t k = channel + c;
    const int64_t at = k / f->a.lanes * pixels_of(f->a) * f->a.lanes + k % f->a.lanes;
    widen_run(f->a.storage, 1, element_at(f->x, f->a.storage, at), &t->centre[c]);
  }
}

void ISA(batch_norm_statistics)(struct activation a, const void *x, float *mean, float *variance,
                                void *workspace) {
  const struct first_elements first = {a, x};
#pragma omp parallel if (stored_elements(a) >= PARALLEL_FROM)
  {
    const struct member own = member_of_team(workspace);
    for (int64_t block = 0; block < blocks_of(a); block++)
      sum_block(a, block, x, NULL, moments, centre_on_first, &first, own);
#pragma omp barrier
    const struct range mine = part_of(a.channels, own.thread, own.threads);
    const double count = (double)(a.images * pixels_of(a));
    for (int64_t c = mine.begin; c < mine.end; c++) {
      struct channel_terms t;
      double sum, squares;
      centre_on_first(&first, c, 1, &t);
      total(a, c, workspace, &sum, &squares);
      const double shifted = sum / count, spread = squares / count - shifted * shifted;
      mean[c] = (float)((double)t.centre[0] + shifted);
      variance[c] = spread < 0 ? 0 : (float)spread;
    }
  }
}

/* ---- Forward ---- */

/* Loads the terms of channels before the loop over rows: for the compiler, y may alias them. */
INLINE void apply_rows(neap_dtype storage, bool relu, bool sum, const void *x, const void *addend, void *y,
                       struct columns at, const struct channel_terms *t) {
  const int64_t whole = whole_vectors(at);
  const float ceiling = t->ceiling;
  for (int64_t c = 0; c < whole; c += FLOATS) {
    const floats scale = load(t->scale + c), shift = load(t->shift + c);
    for (int64_t r = 0; r < at.rows; r++) {
      const int64_t i = r * at.stride + c;
      floats v = normalised_vector(elements(storage, x, i), scale, shift);
      if (sum) v += elements(storage, addend, i);
      set_elements(storage, y, i, relu ? cut_vector(v, ceiling) : v);
    }
  }
  for (int64_t c = whole; c < at.width; c++) {
    const float scale = t->scale[c], shift = t->shift[c];
    for (int64_t r = 0; r < at.rows; r++) {
      const int64_t i = r * at.stride + c;
      float v = normalised(element(storage, x, i), scale, shift);
      if (sum) v += element(storage, addend, i);
      set_element(storage, y, i, relu ? cut(v, ceiling) : v);
    }
  }
}

INLINE void apply_columns(neap_dtype storage, bool relu, bool sum, const void *x, const void *addend, void *y,
                          struct columns at, const struct channel_terms *t) {
  if (is_block(at))
    apply_rows(storage, relu, sum, x, addend, y, block_of(at.rows), t);
  else
    apply_rows(storage, relu, sum, x, addend, y, at, t);
}

INLINE void apply_stored(neap_dtype storage, bool relu, const void *x, const void *addend, void *y,
                         struct columns at, const struct channel_terms *t) {
  if (relu && addend != NULL)
    apply_columns(storage, true, true, x, addend, y, at, t);
  else if (relu)
    apply_columns(storage, true, false, x, NULL, y, at, t);
  else if (addend != NULL)
    apply_columns(storage, false, true, x, addend, y, at, t);
  else
    apply_columns(storage, false, false, x, NULL, y, at, t);
}

/* Writes zeros to the padding lanes of a blocked tensor. */
static void clear_padding(struct activation a, int64_t block, struct slice s, void *y) {
  const int64_t used = a.channels - block * a.lanes;
  for (int64_t r = 0; used < a.lanes && r < s.rows; r++)
    memset((void *)element_at(y, a.storage, s.offset + r * a.lanes + used), 0,
           (size_t)(a.lanes - used) * bytes_of(a.storage));
}

void ISA(batch_norm)(struct activation a, struct batch_norm n, const void *x, const void *addend, void *y) {
  const int64_t per_block = a.images * slices_per_image(a);
#pragma omp parallel if (stored_elements(a) >= PARALLEL_FROM)
  {
    const struct range mine = part_of(per_block, omp_get_thread_num(), omp_get_num_threads());
    for (int64_t block = 0; block < blocks_of(a); block++) {
      int64_t width;
      for (int64_t column = 0; (width = tile_width(a, block, column)) > 0 && column < a.lanes;
           column += width) {
        struct channel_terms t;
        norm_terms(&n, block * a.lanes + column, width, &t);
        for (int64_t i = mine.begin; i < mine.end; i++) {
          const struct slice s = slice_at(a, block, i);
          const int64_t at = s.offset + column;
          BY_STORAGE(a.storage, apply_stored, n.ceiling != 0, element_at(x, a.storage, at),
                     element_or_null(a, addend, at), (void *)element_at(y, a.storage, at),
                     ((struct columns){s.rows, a.lanes, width}), &t);
        }
      }
      for (int64_t i = mine.begin; i < mine.end; i++) clear_padding(a, block, slice_at(a, block, i), y);
    }
  }
}

/* ---- Backward ---- */

/* dx = scale * (g - average) + tilt * (x - mean) (+ addend), by channel. */
struct backward_terms {
  struct channel_terms norm;
  float average[TILE], tilt[TILE];
};

/* The first elements of the columns that the gradient reads and writes. */
struct backward_columns {
  const void *x, *dy, *addend;
  void *dx;
};

INLINE void backward_rows(neap_dtype storage, bool relu, bool sum, struct backward_columns of,
                          struct columns at, const struct backward_terms *b) {
  const void *x = of.x, *dy = of.dy, *addend = of.addend;
  void *dx = of.dx;
  const int64_t whole = whole_vectors(at);
  const struct channel_terms *t = &b->norm;
  const float ceiling = t->ceiling;
  for (int64_t c = 0; c < whole; c += FLOATS) {
    const floats centre = load(t->centre + c), scale = load(t->scale + c), shift = load(t->shift + c),
                 average = load(b->average + c), tilt = load(b->tilt + c);
    for (int64_t r = 0; r < at.rows; r++) {
      const int64_t i = r * at.stride + c;
      const floats v = elements(storage, x, i);
      floats g = elements(storage, dy, i);
      if (relu) g = where_inside(normalised_vector(v, scale, shift), ceiling, g);
      floats d = multiply_add_vector(tilt, v - centre, scale * (g - average));
      if (sum) d += elements(storage, addend, i);
      set_elements(storage, dx, i, d);
    }
  }
  for (int64_t c = whole; c < at.width; c++) {
    const float centre = t->centre[c], scale = t->scale[c], shift = t->shift[c], average = b->average[c],
                tilt = b->tilt[c];
    for (int64_t r = 0; r < at.rows; r++) {
      const int64_t i = r * at.stride + c;
      const float v = element(storage, x, i);
      float g = element(storage, dy, i);
      if (relu) g = inside(normalised(v, scale, shift), ceiling) ? g : 0;
      const float d = multiply_add(tilt, v - centre, scale * (g - average));
      set_element(storage, dx, i, sum ? d + element(storage, addend, i) : d);
    }
  }
}

INLINE void backward_by_width(neap_dtype storage, bool relu, bool sum, struct backward_columns of,
                              struct columns at, const struct backward_terms *b) {
  if (is_block(at))
    backward_rows(storage, relu, sum, of, block_of(at.rows), b);
  else
    backward_rows(storage, relu, sum, of, at, b);
}

INLINE void backward_stored(neap_dtype storage, bool relu, struct backward_columns of, struct columns at,
                            const struct backward_terms *b) {
  if (relu && of.addend != NULL)
    backward_by_width(storage, true, true, of, at, b);
  else if (relu)
    backward_by_width(storage, true, false, of, at, b);
  else if (of.addend != NULL)
    backward_by_width(storage, false, true, of, at, b);
  else
    backward_by_width(storage, false, false, of, at, b);
}

static void backward_tile_terms(struct activation a, const struct batch_norm *n, int64_t channel,
                                int64_t width, struct member own, struct backward_terms *b, float *dgamma,
                                float *dbeta) {
  const double count = n->fixed ? INFINITY : (double)(a.images * pixels_of(a));
  norm_terms(n, channel, width, &b->norm);
  for (int64_t c = 0; c < width; c++) {
    double sum, product;
    total(a, channel + c, own.workspace, &sum, &product);
    const double deviation = sqrt((double)n->variance[channel + c] + (double)n->epsilon);
    b->average[c] = (float)(sum / count);
    b->tilt[c] = (float)(-(double)b->norm.scale[c] * product / (deviation * deviation * count));
    if (dgamma != NULL) {
      dgamma[channel + c] = (float)(product / deviation);
      dbeta[channel + c] = (float)sum;
    }
  }
}

void ISA(batch_norm_backward)(struct activation a, struct batch_norm n, const void *x, const void *dy,
                              const void *addend, struct norm_gradients d, void *workspace) {
  const bool relu = n.ceiling != 0;
  const int64_t per_block = a.images * slices_per_image(a);
#pragma omp parallel if (stored_elements(a) >= PARALLEL_FROM)
  {
    const struct member own = member_of_team(workspace);
    const struct range mine = part_of(per_block, own.thread, own.threads);
    /* Works block by block, so that the second pass finds x and dy in the cache. */
    for (int64_t block = 0; block < blocks_of(a); block++) {
      sum_block(a, block, x, dy, relu ? relu_gradients : plain_gradients, norm_terms, &n, own);
#pragma omp barrier
      int64_t width;
      for (int64_t column = 0; (width = tile_width(a, block, column)) > 0 && column < a.lanes;
           column += width) {
        struct backward_terms b;
        backward_tile_terms(a, &n, block * a.lanes + column, width, own, &b,
                            own.thread == 0 ? d.dgamma : NULL, d.dbeta);
        for (int64_t i = mine.begin; i < mine.end; i++) {
          const struct slice s = slice_at(a, block, i);
          const int64_t at = s.offset + column;
          const struct backward_columns of = {element_at(x, a.storage, at), element_at(dy, a.storage, at),
                                              element_or_null(a, addend, at),
                                              (void *)element_at(d.dx, a.storage, at)};
          BY_STORAGE(a.storage, backward_stored, relu, of, ((struct columns){s.rows, a.lanes, width}), &b);
        }
      }
      for (int64_t i = mine.begin; i < mine.end; i++) clear_padding(a, block, slice_at(a, block, i), d.dx);
    }
  }
}

void ISA(running_statistics)(int64_t channels, struct running_averages running, const float *mean,
                             const float *variance) {
  const float momentum = running.momentum,
              unbiased = running.count > 1 ? (float)((double)running.count / (double)(running.count - 1)) : 1;
  float *running_mean = running.mean, *running_variance = running.variance;
  if (running.micro_batches > 1) {
    const float kept = running.micro_batch > 0 ? 1 : 1 - momentum,
                share = momentum / (float)running.micro_batches;
    for (int64_t c = 0; c < channels; c++) {
      running_mean[c] = kept * running_mean[c] + share * mean[c];
      running_variance[c] = kept * running_variance[c] + share * (variance[c] * unbiased);
    }
    return;
  }
  for (int64_t c = 0; c < channels; c++) {
    running_mean[c] += momentum * (mean[c] - running_mean[c]);
    running_variance[c] += momentum * (variance[c] * unbiased - running_variance[c]);
  }
}

/* ---- Bias ---- */

static void no_terms(const void *context, int64_t channel, int64_t count, struct channel_terms *t) {
  (void)context, (void)channel;
  memset(t->centre, 0, (size_t)count * sizeof *t->centre);
}

/* Computes a piece for an activation of one pixel: rows of all channels, summed in double. */
static void sum_rows(struct activation a, int64_t piece, const void *dy, void *workspace) {
  const struct range rows = part_of(a.images, (int)piece, pieces_of(a));
  const int64_t row = blocks_of(a) * a.lanes;
  double *sums = sums_of_piece(workspace, a, piece);
  memset(sums, 0, (size_t)row * sizeof *sums);
  for (int64_t r = rows.begin; r < rows.end; r++)
    for (int64_t c = 0; c < row; c += STORED_RUN) {
      float buffer[STORED_RUN];
      const int64_t length = run_length(c, row);
      const float *x = floats_at((struct stored){a.storage, (void *)dy}, r * row + c, length, buffer);
      double *to = sums + c;
#pragma omp simd
      for (int64_t i = 0; i < length; i++) to[i] += (double)x[i];
    }
}

void ISA(bias_backward)(struct activation a, const void *dy, float *dbias, void *workspace) {
#pragma omp parallel if (stored_elements(a) >= PARALLEL_FROM)
  {
    const struct member own = member_of_team(workspace);
    const struct range pieces = part_of(pieces_of(a), own.thread, own.threads);
    if (pixels_of(a) == 1)
      for (int64_t piece = pieces.begin; piece < pieces.end; piece++) sum_rows(a, piece, dy, workspace);
    else
      for (int64_t block = 0; block < blocks_of(a); block++)
        sum_block(a, block, dy, NULL, moments, no_terms, NULL, own);
#pragma omp barrier
    const struct range mine = part_of(a.channels, own.thread, own.threads);
    for (int64_t c = mine.begin; c < mine.end; c++) {
      double sum = 0;
      for (int piece = 0; piece < pieces_of(a); piece++) sum += sums_of_piece(workspace, a, piece)[c];
      dbias[c] = (float)sum;
    }
  }
}

void ISA(bias_add)(struct activation a, const float *bias, float *y) {
  const int64_t slabs = a.images * blocks_of(a);
#pragma omp parallel for if (stored_elements(a) >= PARALLEL_FROM)
  for (int64_t i = 0; i < slabs; i++) {
    const int64_t first = i % blocks_of(a) * a.lanes, left = a.channels - first,
                  used = left < a.lanes ? left : a.lanes;
    for (int64_t p = 0; p < pixels_of(a); p++)
#pragma omp simd
      for (int64_t c = 0; c < used; c++) y[(i * pixels_of(a) + p) * a.lanes + c] += bias[first + c];
  }
}
