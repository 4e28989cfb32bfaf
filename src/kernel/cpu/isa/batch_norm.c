/* Reductions over images and pixels, and what hangs on them: batch norm in both directions, bias gradients.
 */
#include <math.h>
#include <string.h>

#include "kernel/cpu/isa/storage.h"

/* A tensor is walked in slices: some pixels of one channel block of one image. */
enum { SLICE_ROWS = 128, TILE = 64 };

/* Pixels that are summed in f32 before the sum goes to double. */
static int64_t slices_per_image(struct activation a) { return (pixels_of(a) + SLICE_ROWS - 1) / SLICE_ROWS; }

struct slice {
  int64_t offset, rows; /* of its first element; pixels */
};

/* Slice i of a channel block: images x slices in order. */
static struct slice slice_at(struct activation a, int64_t block, int64_t i) {
  const int64_t per_image = slices_per_image(a), image = i / per_image, first = i % per_image * SLICE_ROWS,
                left = pixels_of(a) - first;
  return (struct slice){((image * blocks_of(a) + block) * pixels_of(a) + first) * a.lanes,
                        left < SLICE_ROWS ? left : SLICE_ROWS};
}

/* Columns of a slice as floats: where they lie, or converted, side by side, in `buffer`. */
struct columns {
  const float *data;
  int64_t stride; /* between rows */
};

enum { BUFFER = SLICE_ROWS * TILE };

static inline struct columns columns_at(struct activation a, const void *x, int64_t at, int64_t rows,
                                        int64_t width, float *buffer) {
  if (a.storage == STORAGE_F32) return (struct columns){(const float *)x + at, a.lanes};
  const int64_t runs = width == a.lanes ? 1 : rows, length = width == a.lanes ? rows * width : width;
  for (int64_t r = 0; r < runs; r++)
    widen_run(a.storage, length, element_at(x, a.storage, at + r * a.lanes), buffer + r * width);
  return (struct columns){buffer, width};
}

/* Where columns of a slice are to be made: where they belong, or in `buffer`; and back from there. */
static inline float *made_at(struct activation a, void *y, int64_t at, float *buffer) {
  return a.storage == STORAGE_F32 ? (float *)y + at : buffer;
}
static inline void finish_columns(struct activation a, void *y, int64_t at, int64_t rows, int64_t width,
                                  const float *buffer) {
  if (a.storage == STORAGE_F32) return;
  const int64_t runs = width == a.lanes ? 1 : rows, length = width == a.lanes ? rows * width : width;
  for (int64_t r = 0; r < runs; r++)
    narrow_run(a.storage, length, buffer + r * width, (void *)element_at(y, a.storage, at + r * a.lanes));
}

/* What a channel's values are measured against and scaled with, and where they are cut. */
struct channel_terms {
  float centre[TILE], scale[TILE], shift[TILE], ceiling;
};

/* y = x * scale + shift in this one form everywhere, so that the sign that ReLU sees is the same in both
 * directions. */
static inline float normalised(float x, float scale, float shift) { return multiply_add(x, scale, shift); }

/* ReLU, also with a ceiling, and where it lets a gradient through. */
static inline float cut(float v, float ceiling) {
  const float above = v > 0 ? v : 0; /* 0 for NaN, too */
  return above < ceiling ? above : ceiling;
}
static inline bool inside(float v, float ceiling) { return v > 0 && v < ceiling; }

static void affine_terms(const float *mean, const float *variance, const float *gamma, const float *beta,
                         float epsilon, float ceiling, int64_t channel, int64_t count,
                         struct channel_terms *t) {
  t->ceiling = ceiling;
  for (int64_t c = 0; c < count; c++) {
    const float deviation = sqrtf(variance[channel + c] + epsilon);
    t->centre[c] = mean[channel + c];
    t->scale[c] = gamma[channel + c] / deviation;
    t->shift[c] = multiply_add(-mean[channel + c], t->scale[c], beta[channel + c]);
  }
}

/* ---- Sums of one column of a slice ---- */

/* The two sums over a slice's pixels for the channels [column, column + width) of a block whose rows are
 * `stride` apart. */
typedef void column_sums(const float *x, const float *dy, int64_t rows, int64_t stride, int64_t width,
                         const struct channel_terms *t, double *first, double *second);

static inline __attribute__((always_inline)) vector vector_normalised(vector x, vector scale, vector shift) {
  vector y;
  for (int i = 0; i < VECTOR_WIDTH; i++) y[i] = normalised(x[i], scale[i], shift[i]);
  return y;
}

static inline __attribute__((always_inline)) vector where_inside(vector condition, float ceiling,
                                                                 vector value) {
  return (vector)((mask)value & (condition > 0.0f) & (condition < ceiling));
}

static void add_to(vector sums, double *total) {
  for (int i = 0; i < VECTOR_WIDTH; i++) total[i] += (double)sums[i];
}

/* sum (x - centre), sum (x - centre)^2 */
static void moments(const float *x, const float *dy, int64_t rows, int64_t stride, int64_t width,
                    const struct channel_terms *t, double *first, double *second) {
  (void)dy;
  int64_t c = 0;
  for (; c + VECTOR_WIDTH <= width; c += VECTOR_WIDTH) {
    const vector centre = load_vector(t->centre + c);
    vector a = {0}, b = {0};
    for (int64_t r = 0; r < rows; r++) {
      const vector d = load_vector(x + r * stride + c) - centre;
      a += d;
      b += d * d;
    }
    add_to(a, first + c);
    add_to(b, second + c);
  }
  for (; c < width; c++) {
    float a = 0, b = 0;
#pragma omp simd reduction(+ : a, b)
    for (int64_t r = 0; r < rows; r++) {
      const float d = x[r * stride + c] - t->centre[c];
      a += d;
      b += d * d;
    }
    first[c] += (double)a;
    second[c] += (double)b;
  }
}

/* sum g, sum g (x - centre); g = dy, or dy where the forward result was not cut. */
static inline __attribute__((always_inline)) void gradients(const float *x, const float *dy, int64_t rows,
                                                            int64_t stride, int64_t width,
                                                            const struct channel_terms *t, double *first,
                                                            double *second, bool relu) {
  int64_t c = 0;
  for (; c + VECTOR_WIDTH <= width; c += VECTOR_WIDTH) {
    const vector centre = load_vector(t->centre + c), scale = load_vector(t->scale + c),
                 shift = load_vector(t->shift + c);
    vector a = {0}, b = {0};
    for (int64_t r = 0; r < rows; r++) {
      const vector v = load_vector(x + r * stride + c);
      vector g = load_vector(dy + r * stride + c);
      if (relu) g = where_inside(vector_normalised(v, scale, shift), t->ceiling, g);
      a += g;
      b += g * (v - centre);
    }
    add_to(a, first + c);
    add_to(b, second + c);
  }
  for (; c < width; c++) {
    float a = 0, b = 0;
#pragma omp simd reduction(+ : a, b)
    for (int64_t r = 0; r < rows; r++) {
      const float v = x[r * stride + c];
      float g = dy[r * stride + c];
      if (relu) g = inside(normalised(v, t->scale[c], t->shift[c]), t->ceiling) ? g : 0;
      a += g;
      b += g * (v - t->centre[c]);
    }
    first[c] += (double)a;
    second[c] += (double)b;
  }
}

static void plain_gradients(const float *x, const float *dy, int64_t rows, int64_t stride, int64_t width,
                            const struct channel_terms *t, double *first, double *second) {
  gradients(x, dy, rows, stride, width, t, first, second, false);
}

static void relu_gradients(const float *x, const float *dy, int64_t rows, int64_t stride, int64_t width,
                           const struct channel_terms *t, double *first, double *second) {
  gradients(x, dy, rows, stride, width, t, first, second, true);
}

/* ---- Sums of a channel block over a team of threads ---- */

/* Workspace: for each thread, two sums for each channel. */
static double *thread_sums(void *workspace, struct activation a, int thread) {
  return (double *)workspace + (int64_t)thread * 2 * blocks_of(a) * a.lanes;
}

size_t ISA(reduction_workspace)(int64_t channels, int threads) {
  return (size_t)channels * 2 * sizeof(double) * (size_t)threads;
}

static int64_t tile_width(struct activation a, int64_t block, int64_t column) {
  const int64_t in_block = a.lanes - column, channels = a.channels - block * a.lanes - column;
  const int64_t width = in_block < channels ? in_block : channels;
  return width < TILE ? width : TILE;
}

typedef void tile_terms(const void *context, int64_t channel, int64_t count, struct channel_terms *t);

/* This thread's share of a block's sums. */
static void sum_block(struct activation a, int64_t block, const void *x, const void *dy, column_sums *sums,
                      tile_terms *terms, const void *context, int thread, int threads, void *workspace) {
  double *first = thread_sums(workspace, a, thread) + block * a.lanes,
         *second = first + blocks_of(a) * a.lanes;
  memset(first, 0, (size_t)a.lanes * sizeof *first);
  memset(second, 0, (size_t)a.lanes * sizeof *second);
  const struct range mine = part_of(a.images * slices_per_image(a), thread, threads);
  int64_t width;
  for (int64_t column = 0; (width = tile_width(a, block, column)) > 0 && column < a.lanes; column += width) {
    struct channel_terms t;
    float x_buffer[BUFFER], dy_buffer[BUFFER];
    terms(context, block * a.lanes + column, width, &t);
    for (int64_t i = mine.begin; i < mine.end; i++) {
      const struct slice s = slice_at(a, block, i);
      const int64_t at = s.offset + column;
      const struct columns from = columns_at(a, x, at, s.rows, width, x_buffer);
      sums(from.data, dy != NULL ? columns_at(a, dy, at, s.rows, width, dy_buffer).data : NULL, s.rows,
           from.stride, width, &t, first + column, second + column);
    }
  }
}

static void total(struct activation a, int64_t channel, int threads, void *workspace, double *first,
                  double *second) {
  *first = *second = 0;
  for (int t = 0; t < threads; t++) {
    const double *sums = thread_sums(workspace, a, t);
    *first += sums[channel];
    *second += sums[blocks_of(a) * a.lanes + channel];
  }
}

/* ---- Statistics ---- */

/* The channel's first element stands near its values: differences from it lose nothing when squares are
 * summed. */
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
    const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
    for (int64_t block = 0; block < blocks_of(a); block++)
      sum_block(a, block, x, NULL, moments, centre_on_first, &first, thread, threads, workspace);
#pragma omp barrier
    const struct range mine = part_of(a.channels, thread, threads);
    const double count = (double)(a.images * pixels_of(a));
    for (int64_t c = mine.begin; c < mine.end; c++) {
      struct channel_terms t;
      double sum, squares;
      centre_on_first(&first, c, 1, &t);
      total(a, c, threads, workspace, &sum, &squares);
      const double shifted = sum / count, spread = squares / count - shifted * shifted;
      mean[c] = (float)((double)t.centre[0] + shifted);
      variance[c] = spread > 0 ? (float)spread : 0;
    }
  }
}

/* ---- Forward ---- */

static inline __attribute__((always_inline)) void apply_rows(const float *x, const float *addend, float *y,
                                                             int64_t rows, int64_t stride, int64_t width,
                                                             const struct channel_terms *t, bool relu) {
  if (width == 1) { /* one channel: its pixels lie side by side, or are few */
    const float scale = t->scale[0], shift = t->shift[0];
#pragma omp simd
    for (int64_t r = 0; r < rows; r++) {
      const float n = normalised(x[r * stride], scale, shift),
                  v = addend != NULL ? n + addend[r * stride] : n;
      y[r * stride] = relu ? cut(v, t->ceiling) : v;
    }
    return;
  }
  for (int64_t r = 0; r < rows; r++)
#pragma omp simd
    for (int64_t c = 0; c < width; c++) {
      const int64_t i = r * stride + c;
      const float n = normalised(x[i], t->scale[c], t->shift[c]), v = addend != NULL ? n + addend[i] : n;
      y[i] = relu ? cut(v, t->ceiling) : v;
    }
}

/* The shapes that matter get code of their own: 16 lanes. */
static void apply_slice(const float *x, const float *addend, float *y, int64_t rows, int64_t stride,
                        int64_t width, const struct channel_terms *t, bool relu) {
  const bool usual = width == 16 && stride == 16;
  if (usual && addend != NULL && relu)
    apply_rows(x, addend, y, rows, 16, 16, t, true);
  else if (usual && addend == NULL && relu)
    apply_rows(x, NULL, y, rows, 16, 16, t, true);
  else if (usual && addend != NULL)
    apply_rows(x, addend, y, rows, 16, 16, t, false);
  else if (usual)
    apply_rows(x, NULL, y, rows, 16, 16, t, false);
  else if (addend != NULL)
    apply_rows(x, addend, y, rows, stride, width, t, relu);
  else if (relu)
    apply_rows(x, NULL, y, rows, stride, width, t, true);
  else
    apply_rows(x, NULL, y, rows, stride, width, t, false);
}

/* Padding lanes of a blocked tensor hold zeros. */
static void clear_padding(struct activation a, int64_t block, struct slice s, void *y) {
  const int64_t used = a.channels - block * a.lanes;
  for (int64_t r = 0; used < a.lanes && r < s.rows; r++)
    memset((void *)element_at(y, a.storage, s.offset + r * a.lanes + used), 0,
           (size_t)(a.lanes - used) * bytes_of(a.storage));
}

void ISA(batch_norm)(struct activation a, const void *x, const float *mean, const float *variance,
                     const float *gamma, const float *beta, float epsilon, const void *addend, float ceiling,
                     void *y) {
  const int64_t per_block = a.images * slices_per_image(a);
#pragma omp parallel if (stored_elements(a) >= PARALLEL_FROM)
  {
    const struct range mine = part_of(per_block, omp_get_thread_num(), omp_get_num_threads());
    for (int64_t block = 0; block < blocks_of(a); block++) {
      int64_t width;
      for (int64_t column = 0; (width = tile_width(a, block, column)) > 0 && column < a.lanes;
           column += width) {
        struct channel_terms t;
        float buffer[BUFFER], addend_buffer[BUFFER]; /* y is made in `buffer`, over x */
        affine_terms(mean, variance, gamma, beta, epsilon, ceiling, block * a.lanes + column, width, &t);
        for (int64_t i = mine.begin; i < mine.end; i++) {
          const struct slice s = slice_at(a, block, i);
          const int64_t at = s.offset + column;
          const struct columns from = columns_at(a, x, at, s.rows, width, buffer);
          apply_slice(from.data,
                      addend != NULL ? columns_at(a, addend, at, s.rows, width, addend_buffer).data : NULL,
                      made_at(a, y, at, buffer), s.rows, from.stride, width, &t, ceiling != 0);
          finish_columns(a, y, at, s.rows, width, buffer);
        }
      }
      for (int64_t i = mine.begin; i < mine.end; i++) clear_padding(a, block, slice_at(a, block, i), y);
    }
  }
}

/* ---- Backward ---- */

struct norm {
  const float *mean, *variance, *gamma, *beta;
  float epsilon, ceiling;
};

static void norm_terms(const void *context, int64_t channel, int64_t count, struct channel_terms *t) {
  const struct norm *n = context;
  affine_terms(n->mean, n->variance, n->gamma, n->beta, n->epsilon, n->ceiling, channel, count, t);
}

/* dx = slope * (g - mean g) + tilt * (x - mean) (+ addend), by channel. */
struct backward_terms {
  struct channel_terms norm;
  float average[TILE], tilt[TILE];
};

static inline __attribute__((always_inline)) void backward_rows(const float *x, const float *dy,
                                                                const float *addend, float *dx, int64_t rows,
                                                                int64_t stride, int64_t width,
                                                                const struct backward_terms *b, bool relu) {
  const struct channel_terms *t = &b->norm;
  for (int64_t r = 0; r < rows; r++) {
    const int64_t row = r * stride;
#pragma omp simd
    for (int64_t c = 0; c < width; c++) {
      const float v = x[row + c];
      float g = dy[row + c];
      if (relu) g = inside(normalised(v, t->scale[c], t->shift[c]), t->ceiling) ? g : 0;
      const float d = multiply_add(b->tilt[c], v - t->centre[c], t->scale[c] * (g - b->average[c]));
      dx[row + c] = addend != NULL ? d + addend[row + c] : d;
    }
  }
}

/* The shapes that matter get code of their own: 16 lanes, with and without addend and ReLU. */
static void backward_slice(const float *x, const float *dy, const float *addend, float *dx, int64_t rows,
                           int64_t stride, int64_t width, const struct backward_terms *b, bool relu) {
  if (stride == 16 && width == 16 && relu && addend != NULL)
    backward_rows(x, dy, addend, dx, rows, 16, 16, b, true);
  else if (stride == 16 && width == 16 && relu)
    backward_rows(x, dy, NULL, dx, rows, 16, 16, b, true);
  else if (stride == 16 && width == 16 && addend == NULL)
    backward_rows(x, dy, NULL, dx, rows, 16, 16, b, false);
  else if (addend == NULL)
    backward_rows(x, dy, NULL, dx, rows, stride, width, b, relu);
  else
    backward_rows(x, dy, addend, dx, rows, stride, width, b, relu);
}

static void backward_tile_terms(struct activation a, const struct norm *n, int64_t channel, int64_t width,
                                int threads, void *workspace, struct backward_terms *b, float *dgamma,
                                float *dbeta) {
  const double count = (double)(a.images * pixels_of(a));
  norm_terms(n, channel, width, &b->norm);
  for (int64_t c = 0; c < width; c++) {
    double sum, product;
    total(a, channel + c, threads, workspace, &sum, &product);
    const double deviation = sqrt((double)n->variance[channel + c] + (double)n->epsilon);
    b->average[c] = (float)(sum / count);
    b->tilt[c] = (float)(-(double)b->norm.scale[c] * product / (deviation * deviation * count));
    if (dgamma != NULL) {
      dgamma[channel + c] = (float)(product / deviation);
      dbeta[channel + c] = (float)sum;
    }
  }
}

void ISA(batch_norm_backward)(struct activation a, const void *x, const void *dy, const float *mean,
                              const float *variance, const float *gamma, const float *beta, float epsilon,
                              float ceiling, const void *addend, void *dx, float *dgamma, float *dbeta,
                              void *workspace) {
  const struct norm n = {mean, variance, gamma, beta, epsilon, ceiling};
  const bool relu = ceiling != 0;
  const int64_t per_block = a.images * slices_per_image(a);
#pragma omp parallel if (stored_elements(a) >= PARALLEL_FROM)
  {
    const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
    const struct range mine = part_of(per_block, thread, threads);
    /* Block by block, so that the second pass finds x and dy in the cache. */
    for (int64_t block = 0; block < blocks_of(a); block++) {
      sum_block(a, block, x, dy, relu ? relu_gradients : plain_gradients, norm_terms, &n, thread, threads,
                workspace);
#pragma omp barrier
      int64_t width;
      for (int64_t column = 0; (width = tile_width(a, block, column)) > 0 && column < a.lanes;
           column += width) {
        struct backward_terms b;
        backward_tile_terms(a, &n, block * a.lanes + column, width, threads, workspace, &b,
                            thread == 0 ? dgamma : NULL, dbeta);
        float x_buffer[BUFFER], dy_buffer[BUFFER], addend_buffer[BUFFER];
        for (int64_t i = mine.begin; i < mine.end; i++) {
          const struct slice s = slice_at(a, block, i);
          const int64_t at = s.offset + column;
          const struct columns from = columns_at(a, x, at, s.rows, width, x_buffer);
          backward_slice(from.data, columns_at(a, dy, at, s.rows, width, dy_buffer).data,
                         addend != NULL ? columns_at(a, addend, at, s.rows, width, addend_buffer).data : NULL,
                         made_at(a, dx, at, dy_buffer), s.rows, from.stride, width, &b, relu);
          finish_columns(a, dx, at, s.rows, width, dy_buffer);
        }
      }
      for (int64_t i = mine.begin; i < mine.end; i++) clear_padding(a, block, slice_at(a, block, i), dx);
    }
  }
}

void ISA(running_statistics)(int64_t channels, float *running_mean, float *running_variance,
                             const float *mean, const float *variance, float momentum, int64_t count,
                             int32_t micro_batch, int32_t micro_batches) {
  const float unbiased = count > 1 ? (float)((double)count / (double)(count - 1)) : 1;
  if (micro_batches > 1) {
    const float kept = micro_batch > 0 ? 1 : 1 - momentum, share = momentum / (float)micro_batches;
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

/* This thread's share where there is one pixel: rows of all channels, whose elements go to double at once. */
static void sum_rows(struct activation a, const void *dy, int thread, int threads, void *workspace) {
  const struct range mine = part_of(a.images, thread, threads);
  const int64_t row = blocks_of(a) * a.lanes;
  double *sums = thread_sums(workspace, a, thread);
  memset(sums, 0, (size_t)row * sizeof *sums);
  for (int64_t r = mine.begin; r < mine.end; r++)
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
    const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
    if (pixels_of(a) == 1)
      sum_rows(a, dy, thread, threads, workspace);
    else
      for (int64_t block = 0; block < blocks_of(a); block++)
        sum_block(a, block, dy, NULL, moments, no_terms, NULL, thread, threads, workspace);
#pragma omp barrier
    const struct range mine = part_of(a.channels, thread, threads);
    for (int64_t c = mine.begin; c < mine.end; c++) {
      double sum = 0;
      for (int t = 0; t < threads; t++) sum += thread_sums(workspace, a, t)[c];
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
