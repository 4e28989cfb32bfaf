/* Cells of recurrent layers: a time step without its matrix products. */
#include "kernel/cpu/isa/math.h"

/* Elements of a row that a thread takes at once: there may be a single row. */
enum { CHUNK = 256 };

#define PRAGMA(text) _Pragma(#text)
/* Loops over the chunks [begin, end_of(begin, width)) of the rows n of [rows, width]. An element takes as
 * long as `work` ordinary ones. */
#define FOR_CHUNKS(rows, width, work)                                                                        \
  PRAGMA(omp parallel for collapse(2) if (rows * width * work >= PARALLEL_FROM))                             \
  for (int64_t n = 0; n < rows; n++)                                                                         \
    for (int64_t begin = 0; begin < width; begin += CHUNK)

static inline int64_t end_of(int64_t begin, int64_t width) {
  return width - begin < CHUNK ? width : begin + CHUNK;
}

INLINE float logistic(float x) { return 1 / (1 + exponential(-x)); }

void ISA(lstm_cell)(int64_t rows, int64_t width, float *gates, float *c, float *y) {
  FOR_CHUNKS(rows, width, 4) {
    float *i = gates + 4 * n * width, *f = i + width, *g = f + width, *o = g + width, *cell = c + n * width,
          *state = y + n * width;
#pragma omp simd
    for (int64_t j = begin; j < end_of(begin, width); j++) {
      i[j] = logistic(i[j]);
      f[j] = logistic(f[j]);
      g[j] = hyperbolic_tangent(g[j]);
      o[j] = logistic(o[j]);
      cell[j] = multiply_add(f[j], cell[j], i[j] * g[j]);
      state[j] = o[j] * hyperbolic_tangent(cell[j]);
    }
  }
}

void ISA(lstm_state)(int64_t rows, int64_t width, const float *gates, const float *before, float *c) {
  FOR_CHUNKS(rows, width, 1) {
    const float *i = gates + 4 * n * width, *f = i + width, *g = f + width, *was = before + n * width;
    float *cell = c + n * width;
#pragma omp simd
    for (int64_t j = begin; j < end_of(begin, width); j++) cell[j] = multiply_add(f[j], was[j], i[j] * g[j]);
  }
}

void ISA(lstm_cell_backward)(int64_t rows, int64_t width, const float *gates, const float *before,
                             const float *c, const float *dh, float *dc, float *dgates) {
  FOR_CHUNKS(rows, width, 4) {
    const float *gate = gates + 4 * n * width, *was = before + n * width, *cell = c + n * width,
                *dstate = dh + n * width;
    float *di = dgates + 4 * n * width, *df = di + width, *dg = df + width, *dout = dg + width,
          *dcell = dc + n * width;
#pragma omp simd
    for (int64_t j = begin; j < end_of(begin, width); j++) {
      const float i = gate[j], f = gate[width + j], g = gate[2 * width + j], o = gate[3 * width + j],
                  squashed = hyperbolic_tangent(cell[j]),
                  d = multiply_add(dstate[j] * o, 1 - squashed * squashed, dcell[j]);
      di[j] = d * g * i * (1 - i);
      df[j] = d * was[j] * f * (1 - f);
      dg[j] = d * i * (1 - g * g);
      dout[j] = dstate[j] * squashed * o * (1 - o);
      dcell[j] = d * f;
    }
  }
}

void ISA(gru_cell)(int64_t rows, int64_t width, const float *gates_x, const float *product, const float *bias,
                   const float *before, float *gates, float *y) {
  FOR_CHUNKS(rows, width, 4) {
    const float *x = gates_x + 3 * n * width, *p = product + 3 * n * width, *was = before + n * width;
    float *reset = gates + 4 * n * width, *update = reset + width, *new = update + width,
          *inner = new + width, *state = y + n *width;
#pragma omp simd
    for (int64_t j = begin; j < end_of(begin, width); j++) {
      const float r = logistic(x[j] + (p[j] + bias[j])),
                  z = logistic(x[width + j] + (p[width + j] + bias[width + j])),
                  h = p[2 * width + j] + bias[2 * width + j],
                  made = hyperbolic_tangent(multiply_add(r, h, x[2 * width + j]));
      reset[j] = r;
      update[j] = z;
      new[j] = made;
      inner[j] = h;
      state[j] = multiply_add(z, was[j] - made, made);
    }
  }
}

void ISA(gru_cell_backward)(int64_t rows, int64_t width, const float *gates, const float *before, float *dh,
                            float *dgates_x, float *dgates_h) {
  FOR_CHUNKS(rows, width, 2) {
    const float *gate = gates + 4 * n * width, *was = before + n * width;
    float *dx = dgates_x + 3 * n * width, *dp = dgates_h + 3 * n * width, *dstate = dh + n * width;
#pragma omp simd
    for (int64_t j = begin; j < end_of(begin, width); j++) {
      const float r = gate[j], z = gate[width + j], made = gate[2 * width + j], h = gate[3 * width + j],
                  d = dstate[j], dnew = d * (1 - z) * (1 - made * made), dreset = dnew * h * r * (1 - r),
                  dupdate = d * (was[j] - made) * z * (1 - z);
      dx[j] = dreset;
      dx[width + j] = dupdate;
      dx[2 * width + j] = dnew;
      dp[j] = dreset;
      dp[width + j] = dupdate;
      dp[2 * width + j] = dnew * r;
      dstate[j] = d * z;
    }
  }
}
