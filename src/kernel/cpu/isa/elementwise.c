/* Elementwise kernels, optimizers, dropout, and changes of layout. */
#include <math.h>
#include <string.h>

#include "base/elementary.h"
#include "base/quantised.h"
#include "kernel/cpu/isa/noise.h"
#include "kernel/cpu/isa/rounding.h"

#define FOR_ELEMENTS(count)                                                                                  \
  _Pragma("omp parallel for simd if (parallel : count >= PARALLEL_FROM)") for (int64_t i = 0; i < count; i++)

#define FOR_RUN(count) _Pragma("omp simd") for (int64_t i = 0; i < count; i++)

/* ---- One tensor: op/elementwise_list.h ---- */

typedef float real;
#define EXP(x)      exponential(x)
#define LOG(x)      logarithm(x)
#define TANH(x)     hyperbolic_tangent(x)
#define ERF(x)      error_function(x)
#define SQRT(x)     __builtin_sqrtf(x)
#define POWER(x, a) real_power(x, a)
#include "op/elementwise_math.h"
#define KEPT_X       const real x = kept[i], dy = given[i];
#define KEPT_Y       const real y = kept[i], dy = given[i];
#define KEPT_NOTHING const real dy = given[i];

#define UNARY(NAME, id, text, about, KEEPS, READS, value, slope)                                             \
  static void id##_run(int64_t count, struct scalars s, const float *given, float *out) {                    \
    const real a = s.a, b = s.b;                                                                             \
    (void)a, (void)b;                                                                                        \
    FOR_RUN(count) {                                                                                         \
      const real x = given[i];                                                                               \
      out[i] = value;                                                                                        \
    }                                                                                                        \
  }                                                                                                          \
  static void id##_backward_run(int64_t count, struct scalars s, const float *kept, const float *given,      \
                                float *out) {                                                                \
    const real a = s.a, b = s.b;                                                                             \
    (void)a, (void)b, (void)kept;                                                                            \
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) { KEPT_##KEEPS out[i] = slope; }                 \
  }                                                                                                          \
  void ISA(id)(int64_t count, struct scalars s, struct stored x, struct stored y) {                          \
    FOR_RUNS(count) {                                                                                        \
      float in[STORED_RUN], out[STORED_RUN];                                                                 \
      const int64_t length = run_length(first, count);                                                       \
      id##_run(length, s, floats_at(x, first, length, in), made_floats(y, first, out));                      \
      store_floats(y, first, length, out);                                                                   \
    }                                                                                                        \
  }                                                                                                          \
  void ISA(id##_backward)(int64_t count, struct scalars s, struct stored kept, struct stored dy,             \
                          struct stored dx) {                                                                \
    FOR_RUNS(count) {                                                                                        \
      float of_kept[STORED_RUN], in[STORED_RUN], out[STORED_RUN];                                            \
      const int64_t length = run_length(first, count);                                                       \
      id##_backward_run(length, s, kept.data != NULL ? floats_at(kept, first, length, of_kept) : NULL,       \
                        floats_at(dy, first, length, in), made_floats(dx, first, out));                      \
      store_floats(dx, first, length, out);                                                                  \
    }                                                                                                        \
  }
#include "op/elementwise_list.h"

/* ---- Two halves of rows: op/gated_list.h ---- */

#define FOR_HALVES                                                                                           \
  _Pragma("omp parallel for if (rows * width >= PARALLEL_FROM)") for (int64_t r = 0; r < rows; r++)          \
      _Pragma("omp simd") for (int64_t i = 0; i < width; i++)

#define GATED(NAME, id, text, about, value, slope_a, slope_b)                                                \
  void ISA(id)(int64_t rows, int64_t width, const float *x, float *y) {                                      \
    FOR_HALVES {                                                                                             \
      const real a = x[2 * r * width + i], b = x[(2 * r + 1) * width + i];                                   \
      y[r * width + i] = value;                                                                              \
    }                                                                                                        \
  }                                                                                                          \
  void ISA(id##_backward)(int64_t rows, int64_t width, const float *x, const float *given, float *dx) {      \
    FOR_HALVES {                                                                                             \
      const real a = x[2 * r * width + i], b = x[(2 * r + 1) * width + i], dy = given[r * width + i];        \
      dx[2 * r * width + i] = slope_a;                                                                       \
      dx[(2 * r + 1) * width + i] = slope_b;                                                                 \
    }                                                                                                        \
  }
#include "op/gated_list.h"

/* ---- Two tensors ---- */

/* Computes `statement` over a row of `length` elements, whose operands have the strides sx and sy. Common
 * strides are constants. */
#define ROW_LOOP(sx, sy, statement)                                                                          \
  _Pragma("omp simd") for (int64_t i = 0; i < length; i++) {                                                 \
    const real x = px[i * (sx)], y = py[i * (sy)];                                                           \
    z[i] = statement;                                                                                        \
  }

#define BINARY(NAME, id, text, about, value)                                                                 \
  void ISA(id)(int64_t count, const float *px, const float *py, float *z) {                                  \
    FOR_ELEMENTS(count) {                                                                                    \
      const real x = px[i], y = py[i];                                                                       \
      z[i] = value;                                                                                          \
    }                                                                                                        \
  }                                                                                                          \
  static void id##_row(int64_t length, int64_t sx, int64_t sy, const float *px, const float *py, float *z) { \
    if (sx == 1 && sy == 1)                                                                                  \
      ROW_LOOP(1, 1, value)                                                                                  \
    else if (sx == 1 && sy == 0)                                                                             \
      ROW_LOOP(1, 0, value)                                                                                  \
    else if (sx == 0 && sy == 1)                                                                             \
      ROW_LOOP(0, 1, value)                                                                                  \
    else                                                                                                     \
      ROW_LOOP(sx, sy, value)                                                                                \
  }                                                                                                          \
  void ISA(id##_stored)(int64_t count, struct stored x, struct stored y, struct stored z) {                  \
    FOR_RUNS(count) {                                                                                        \
      float of_x[STORED_RUN], of_y[STORED_RUN], out[STORED_RUN];                                             \
      const int64_t length = run_length(first, count);                                                       \
      id##_row(length, 1, 1, floats_at(x, first, length, of_x), floats_at(y, first, length, of_y),           \
               made_floats(z, first, out));                                                                  \
      store_floats(z, first, length, out);                                                                   \
    }                                                                                                        \
  }                                                                                                          \
  void ISA(id##_broadcast)(struct strides s, const float *px, const float *py, float *z) {                   \
    const int64_t length = s.dims[s.rank - 1], rows = rows_of(&s);                                           \
    _Pragma("omp parallel for if (rows * length >= PARALLEL_FROM)") for (int64_t r = 0; r < rows; r++)       \
        id##_row(length, s.x[s.rank - 1], s.y[s.rank - 1], px + offset_of(&s, s.x, r),                       \
                 py + offset_of(&s, s.y, r), z + r * length);                                                \
  }
#include "op/elementwise_list.h"

/* ---- Optimizers ---- */

/* Returns the gradient g * unit. A unit of 1 adds no product: it would change how the compiler fuses the
 * others. */
static inline float in_units(float g, float unit) { return unit == 1 ? g : g * unit; }

static inline bool has_dynamic_blocks(neap_dtype storage) {
  return storage == NEAP_DYN8S || storage == NEAP_DYN8U;
}

/* changed_floats returns the elements from `first` on as floats to change: in place if they are f32, else
 * converted in `buffer`. store_changed rounds them back from `buffer`. Blocks are in whole runs. */
static inline float *changed_floats(struct updated x, int64_t first, int64_t count, float *buffer) {
  if (has_dynamic_blocks(x.storage)) {
    dequantise(x.storage, count, (const unsigned char *)x.data + dtype_bytes(x.storage, (uint64_t)first),
               buffer);
    return buffer;
  }
  return x.data == NULL ? NULL : (float *)floats_at((struct stored){x.storage, x.data}, first, count, buffer);
}
static inline void store_changed(struct updated x, int64_t first, int64_t count, const float *buffer) {
  if (x.data == NULL || x.storage == NEAP_F32) return;
  unsigned char *block = (unsigned char *)x.data + dtype_bytes(x.storage, (uint64_t)first);
  for (int64_t i = 0; has_dynamic_blocks(x.storage) && i < count; i += 256, block += sizeof(struct dyn8s))
    dyn8_from_floats(x.storage, buffer + i, block);
  if (!has_dynamic_blocks(x.storage))
    narrow_run_randomly(x.storage, count, buffer, (void *)element_at(x.data, x.storage, first), x.key,
                        x.first + first);
}

/* Returns a run of a gradient; where none is given, of the noise. */
static inline const float *gradient_run(struct stored g, const struct noise *noise, int64_t first,
                                        int64_t count, float *buffer) {
  if (g.data != NULL) return floats_at(g, first, count, buffer);
  add_noise(noise, first, count, NULL, buffer);
  return buffer;
}

static const struct noise no_noise;

/* Runs `step`, a loop over i below `length`, on the floats of w, of the states m and v and of g. */
#define UPDATE_RUNS(w_, m_, v_, g_, noise_, step)                                                            \
  FOR_RUNS(count) {                                                                                          \
    float of_w[STORED_RUN], of_m[STORED_RUN], of_v[STORED_RUN], of_g[STORED_RUN];                            \
    const int64_t length = run_length(first, count);                                                         \
    float *w = changed_floats(w_, first, length, of_w), *m = changed_floats(m_, first, length, of_m),        \
          *v = changed_floats(v_, first, length, of_v);                                                      \
    const float *g = gradient_run(g_, noise_, first, length, of_g);                                          \
    (void)m, (void)v;                                                                                        \
    step;                                                                                                    \
    store_changed(w_, first, length, of_w);                                                                  \
    store_changed(m_, first, length, of_m);                                                                  \
    store_changed(v_, first, length, of_v);                                                                  \
  }

static const struct updated no_state;

/* Runs a formula of op/update_list.h; `with_first`, `with_second`: whether there are such states. */
#define RULE_RUN(with_first, with_second, ...)                                                               \
  FOR_RUN(count) {                                                                                           \
    enum { has_first = with_first, has_second = with_second };                                               \
    real w = ws[i], first = has_first ? firsts[i] : 0, second = has_second ? seconds[i] : 0;                 \
    const real g = in_units(gs[i], unit);                                                                    \
    __VA_ARGS__                                                                                              \
    ws[i] = w;                                                                                               \
    if (has_first) firsts[i] = first;                                                                        \
    if (has_second) seconds[i] = second;                                                                     \
  }

#define UPDATE(NAME, id, word, text, stream, about, numbers, fields, ...)                                    \
  static void id##_run(int64_t count, struct update u, real first_correction, real second_correction,        \
                       float *ws, float *firsts, float *seconds, const float *gs) {                          \
    const real unit = u.unit, rate = u.rate, momentum = u.momentum, weight_decay = u.weight_decay,           \
               beta1 = u.beta1, beta2 = u.beta2, epsilon = u.epsilon, origin = u.origin;                     \
    const bool nesterov = u.nesterov;                                                                        \
    (void)momentum, (void)weight_decay, (void)origin, (void)beta1, (void)beta2, (void)epsilon,               \
        (void)nesterov;                                                                                      \
    (void)first_correction, (void)second_correction;                                                         \
    if (seconds != NULL)                                                                                     \
      RULE_RUN(true, true, __VA_ARGS__)                                                                      \
    else if (firsts != NULL)                                                                                 \
      RULE_RUN(true, false, __VA_ARGS__)                                                                     \
    else                                                                                                     \
      RULE_RUN(false, false, __VA_ARGS__)                                                                    \
  }                                                                                                          \
  void ISA(id)(int64_t count, struct update u, struct updated w_, struct updated first_,                     \
               struct updated second_, struct stored g_) {                                                   \
    const real first_correction = (real)(1 / (1 - power((double)u.beta1, (double)u.step))),                  \
               second_correction = (real)(1 / sqrt(1 - power((double)u.beta2, (double)u.step)));             \
    UPDATE_RUNS(w_, first_, second_, g_, &u.noise,                                                           \
                id##_run(length, u, first_correction, second_correction, w, m, v, g))                        \
  }
#include "op/update_list.h"

static void accumulate_run(int64_t count, float *sum, const float *g, float unit) {
  FOR_RUN(count) sum[i] += in_units(g[i], unit);
}

void ISA(accumulate)(int64_t count, struct updated sum, struct stored g_, float unit) {
  UPDATE_RUNS(sum, no_state, no_state, g_, &no_noise, accumulate_run(length, w, g, unit))
}

void ISA(clear)(int64_t count, struct updated sum) {
  FOR_RUNS(count)
  memset((void *)element_at(sum.data, sum.storage, first), 0,
         (size_t)run_length(first, count) * bytes_of(sum.storage));
}

static void momentum_begin_run(int64_t count, const float *w, float *m, float momentum, float weight_decay,
                               float origin) {
  FOR_RUN(count) m[i] = momentum * m[i] + weight_decay * (w[i] - origin);
}

void ISA(momentum_begin)(int64_t count, struct stored of_weights, struct updated state, float momentum,
                         float weight_decay, float origin) {
  UPDATE_RUNS(state, no_state, no_state, of_weights, &no_noise,
              momentum_begin_run(length, g, w, momentum, weight_decay, origin))
}

static void momentum_end_run(int64_t count, float *w, const float *m, float rate) {
  FOR_RUN(count) w[i] -= rate * m[i];
}

void ISA(momentum_end)(int64_t count, struct updated w_, struct stored state, float rate) {
  UPDATE_RUNS(w_, no_state, no_state, state, &no_noise, momentum_end_run(length, w, g, rate))
}

void ISA(squares)(int64_t whole, int64_t begin, int64_t count, const float *x, double *parts) {
#pragma omp parallel for if (count >= PARALLEL_FROM)
  for (int part = 0; part < SQUARE_PARTS; part++) {
    const struct range mine = part_of(whole, part, SQUARE_PARTS);
    if (mine.begin < begin || mine.end > begin + count) continue;
    double squares[SUM_LANES] = {0};
    const float *from = x + (mine.begin - begin);
    IN_LANES(i, lane, mine.end - mine.begin, squares[lane] += (double)from[i] * (double)from[i]);
    parts[part] = sum_of_lanes(squares);
  }
}

void ISA(clip_gradient)(int64_t count, float limit, const float *coefficient, const float *x, float *y) {
  const float scale = coefficient != NULL ? *coefficient : 1;
  const float bound = limit != 0 ? limit : __builtin_inff();
  FOR_ELEMENTS(count) {
    const float cut = x[i] > bound ? bound : x[i] < -bound ? -bound : x[i];
    y[i] = cut * scale;
  }
}

/* ---- Dropout ---- */

static inline float dropped(float x, uint32_t word, float probability, float kept) {
  return random_uniform(word) >= probability ? x * kept : 0;
}

/* Drops elements in row-major order: a counter serves four elements. */
static void dropout_row_major(int64_t count, struct random_key key, int64_t first, float probability,
                              const float *x, float *y) {
  enum { BLOCK = 4 * COUNTERS };
  const float kept = 1 / (1 - probability);
#pragma omp parallel for if (count >= PARALLEL_FROM)
  for (int64_t block = first / BLOCK; block < (first + count + BLOCK - 1) / BLOCK; block++) {
    uint32_t words[BLOCK];
    const int64_t at = block * BLOCK - first, begin = at < 0 ? -at : 0,
                  end = count - at < BLOCK ? count - at : BLOCK;
    random_words(key, (uint64_t)block * COUNTERS, words);
#pragma omp simd
    for (int64_t i = begin; i < end; i++) y[at + i] = dropped(x[at + i], words[i], probability, kept);
  }
}

/* Drops elements of a slab, the pixels of `a.lanes` channels of an image. first: the number of the first
 * channel's first pixel, in row-major order. Each channel begins a counter, so that the counters of
 * neighbouring channels are drawn together. */
static void dropout_slab(struct activation a, struct random_key key, int64_t first, int64_t channels,
                         float probability, const float *x, float *y) {
  const int64_t pixels = pixels_of(a);
  const float kept = 1 / (1 - probability);
  for (int64_t l = 0; l < channels; l += COUNTERS) {
    const int64_t lanes = channels - l < COUNTERS ? channels - l : COUNTERS;
    for (int64_t p = 0; p < pixels; p += 4) {
      uint32_t words[4][COUNTERS];
      random_counters(key, (uint64_t)(first + l * pixels + p) / 4, (uint64_t)pixels / 4, words);
      for (int64_t k = 0; k < 4; k++) {
        const int64_t at = (p + k) * a.lanes + l;
#pragma omp simd
        for (int64_t i = 0; i < lanes; i++) y[at + i] = dropped(x[at + i], words[k][i], probability, kept);
      }
    }
  }
}

static void dropout_slab_unaligned(struct activation a, struct random_key key, int64_t first,
                                   int64_t channels, float probability, const float *x, float *y) {
  const int64_t pixels = pixels_of(a);
  const float kept = 1 / (1 - probability);
  for (int64_t l = 0; l < channels; l++) {
    uint32_t word[4];
    for (int64_t p = 0; p < pixels; p++) {
      const int64_t at = p * a.lanes + l, i = first + l * pixels + p;
      if (p == 0 || i % 4 == 0) random_philox(key.seed, key.stream, (uint64_t)i / 4, word);
      y[at] = dropped(x[at], word[i % 4], probability, kept);
    }
  }
}

void ISA(dropout)(struct activation a, struct random_key key, int64_t begin, float probability,
                  const float *x, float *y) {
  const int64_t pixels = pixels_of(a), slabs = a.images * blocks_of(a);
  if (a.lanes == 1 || (pixels == 1 && a.lanes == a.channels)) {
    dropout_row_major(stored_elements(a), key, begin, probability, x, y);
    return;
  }
  const bool aligned = begin % 4 == 0 && pixels % 4 == 0;
#pragma omp parallel for if (stored_elements(a) >= PARALLEL_FROM)
  for (int64_t slab = 0; slab < slabs; slab++) {
    const int64_t channel = slab % blocks_of(a) * a.lanes, at = slab * pixels * a.lanes,
                  channels = a.channels - channel < a.lanes ? a.channels - channel : a.lanes,
                  first = begin + (slab / blocks_of(a) * a.channels + channel) * pixels;
    (aligned ? dropout_slab : dropout_slab_unaligned)(a, key, first, channels, probability, x + at, y + at);
    for (int64_t p = 0; channels < a.lanes && p < pixels; p++)
      memset(y + at + p * a.lanes + channels, 0, (size_t)(a.lanes - channels) * sizeof *y);
  }
}

/* ---- Layouts ---- */

/* Copies elements of any type to another layout. */
#define PRAGMA(text) _Pragma(#text)
#define REORDER(name, type)                                                                                  \
  void ISA(name)(struct activation from, struct activation to, const type *x, type *y) {                     \
    enum { PIXELS = 64 }; /* stay in the cache while all their channels are copied */                        \
    const int64_t pixels = pixels_of(from), stored = blocks_of(to) * to.lanes;                               \
    PRAGMA(omp parallel for collapse(2) if (stored_elements(to) >= PARALLEL_FROM))                           \
    for (int64_t n = 0; n < to.images; n++)                                                                  \
      for (int64_t begin = 0; begin < pixels; begin += PIXELS) {                                             \
        const int64_t count = pixels - begin < PIXELS ? pixels - begin : PIXELS;                             \
        for (int64_t c = 0; c < stored; c++) {                                                               \
          type *out = y + ((n * blocks_of(to) + c / to.lanes) * pixels + begin) * to.lanes + c % to.lanes;   \
          if (c < from.channels) {                                                                           \
            const type *in =                                                                                 \
                x + ((n * blocks_of(from) + c / from.lanes) * pixels + begin) * from.lanes + c % from.lanes; \
            for (int64_t p = 0; p < count; p++) out[p * to.lanes] = in[p * from.lanes];                      \
          } else {                                                                                           \
            for (int64_t p = 0; p < count; p++) out[p * to.lanes] = 0;                                       \
          }                                                                                                  \
        }                                                                                                    \
      }                                                                                                      \
  }
REORDER(reorder, float)
REORDER(reorder_half, uint16_t)
