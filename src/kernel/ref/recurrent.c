/* Recurrent layers over the times of a sequence [T, N, ...]. */
#include <math.h>
#include <string.h>

#include "kernel/ref/ref.h"

/* The sizes of tensors that begin with a sequence's dimensions. */
struct sequence {
  int64_t times, rows, width; /* width: of the state */
};

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* Return row `n` at time `t` of a tensor of this width; and the row of the state before time t: of y, or of
 * the first state, NULL if that is zeros. */
static double *row_at(struct sequence s, void *data, int64_t t, int64_t n, int64_t width) {
  return (double *)data + (t * s.rows + n) * width;
}
static const double *state_before(struct sequence s, void *y, const double *h0, int64_t t, int64_t n) {
  if (t > 0) return row_at(s, y, t - 1, n, s.width);
  return h0 != NULL ? h0 + n * s.width : NULL;
}

/* Returns row j of w [..., width] times a state. */
static double product(const double *w, int64_t j, const double *h, int64_t width) {
  double sum = 0;
  if (h != NULL) FOR(k, width) sum += w[j * width + k] * h[k];
  return sum;
}

/* dh[k] += sum over j of dgates[j] w[j, k] */
static void add_product_backward(const double *dgates, const double *w, int64_t count, int64_t width,
                                 double *dh) {
  FOR(j, count) FOR(k, width) dh[k] += dgates[j] * w[j * width + k];
}

/* Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000. */
RUN(run_lstm) {
  UNUSED;
  const struct tensor *x = kernel_input(kernel, 0);
  const struct sequence s = {x->dims[0], x->dims[1], x->dims[2] / 4};
  const double *w = in[1], *c0 = in[3];
  double *c = out[1];
  FOR(i, s.rows * s.width) c[i] = c0 != NULL ? c0[i] : 0;
  FOR(t, s.times) FOR(n, s.rows) {
    const double *from = row_at(s, in[0], t, n, 4 * s.width), *h = state_before(s, out[0], in[2], t, n);
    double *a = row_at(s, out[2], t, n, 4 * s.width), *y = row_at(s, out[0], t, n, s.width);
    FOR(j, 4 * s.width) {
      const double sum = from[j] + product(w, j, h, s.width);
      a[j] = j / s.width == 2 ? tanh(sum) : sigmoid(sum);
    }
    FOR(j, s.width) {
      double *cell = &c[n * s.width + j];
      *cell = a[s.width + j] * *cell + a[j] * a[2 * s.width + j];
      y[j] = a[3 * s.width + j] * tanh(*cell);
    }
  }
  return NEAP_OK;
}

/* Replaces the gates of one row at one time by the gradients before their activations; dc becomes that of the
 * time before. */
static void lstm_backward(int64_t width, const double *a, const double *before, const double *c,
                          const double *dh, double *dc, double *da) {
  FOR(j, width) {
    const double i = a[j], f = a[width + j], g = a[2 * width + j], o = a[3 * width + j], tanh_c = tanh(c[j]),
                 d = dc[j] + dh[j] * o * (1 - tanh_c * tanh_c);
    da[j] = d * g * i * (1 - i);
    da[width + j] = d * before[j] * f * (1 - f);
    da[2 * width + j] = d * i * (1 - g * g);
    da[3 * width + j] = dh[j] * tanh_c * o * (1 - o);
    dc[j] = d * f;
  }
}

/* Works row by row. `workspace`: the row's cell states before and after each time, then dh and dc. */
RUN(run_lstm_backward) {
  UNUSED;
  const struct tensor *gates = kernel_input(kernel, 0);
  const struct sequence s = {gates->dims[0], gates->dims[1], gates->dims[2] / 4};
  const double *w = in[1], *c0 = in[2], *last = in[4];
  double *c = workspace, *dh = c + (s.times + 1) * s.width, *dc = dh + s.width;
  FOR(n, s.rows) {
    FOR(j, s.width) c[j] = c0 != NULL ? c0[n * s.width + j] : 0;
    FOR(t, s.times) FOR(j, s.width) {
      const double *a = row_at(s, in[0], t, n, 4 * s.width);
      c[(t + 1) * s.width + j] = a[s.width + j] * c[t * s.width + j] + a[j] * a[2 * s.width + j];
    }
    FOR(j, s.width) dh[j] = 0;
    FOR(j, s.width) dc[j] = last != NULL ? last[n * s.width + j] : 0;
    for (int64_t t = s.times - 1; t >= 0; t--) {
      double *da = row_at(s, out[0], t, n, 4 * s.width);
      if (in[3] != NULL) FOR(j, s.width) dh[j] += row_at(s, in[3], t, n, s.width)[j];
      lstm_backward(s.width, row_at(s, in[0], t, n, 4 * s.width), c + t * s.width, c + (t + 1) * s.width, dh,
                    dc, da);
      FOR(j, s.width) dh[j] = 0;
      add_product_backward(da, w, 4 * s.width, s.width, dh);
    }
    const int32_t outputs = kernel_node(kernel)->output_count;
    if (outputs > 1) memcpy(row_at(s, out[1], 0, n, s.width), dh, (size_t)s.width * sizeof *dh);
    if (outputs > 2) memcpy(row_at(s, out[2], 0, n, s.width), dc, (size_t)s.width * sizeof *dc);
  }
  return NEAP_OK;
}

/* Cho et al. 2014, with the reset gate after the product, as in PyTorch. */
RUN(run_gru) {
  UNUSED;
  const struct tensor *x = kernel_input(kernel, 0);
  const struct sequence s = {x->dims[0], x->dims[1], x->dims[2] / 3};
  const double *w = in[1], *bias = in[2];
  FOR(t, s.times) FOR(n, s.rows) {
    const double *from = row_at(s, in[0], t, n, 3 * s.width), *h = state_before(s, out[0], in[3], t, n);
    double *a = row_at(s, out[1], t, n, 4 * s.width), *y = row_at(s, out[0], t, n, s.width);
    FOR(j, s.width) {
      double sum[3]; /* of r, z, n */
      FOR(k, 3) sum[k] = product(w, k * s.width + j, h, s.width) + (bias ? bias[k * s.width + j] : 0);
      const double r = sigmoid(from[j] + sum[0]), z = sigmoid(from[s.width + j] + sum[1]),
                   new = tanh(from[2 * s.width + j] + r * sum[2]);
      a[j] = r;
      a[s.width + j] = z;
      a[2 * s.width + j] = new;
      a[3 * s.width + j] = sum[2];
      y[j] = (1 - z) * new + z *(h != NULL ? h[j] : 0);
    }
  }
  return NEAP_OK;
}

/* The same for a GRU: gradients of the input's part and of the state's part; dh becomes its direct share in
 * the state before, without the part through the product with the weights. */
static void gru_backward(int64_t width, const double *a, const double *before, double *dh, double *dx,
                         double *dgates) {
  FOR(j, width) {
    const double r = a[j], z = a[width + j], new = a[2 * width + j], inner = a[3 * width + j],
                 h = before != NULL ? before[j] : 0, dnew = dh[j] * (1 - z) * (1 - new *new);
    dx[j] = dgates[j] = dnew * inner * r * (1 - r);
    dx[width + j] = dgates[width + j] = dh[j] * (h - new) * z * (1 - z);
    dx[2 * width + j] = dnew;
    dgates[2 * width + j] = dnew * r;
    dh[j] *= z;
  }
}

/* `workspace`: dh of a row. */
RUN(run_gru_backward) {
  UNUSED;
  const struct tensor *gates = kernel_input(kernel, 0);
  const struct sequence s = {gates->dims[0], gates->dims[1], gates->dims[2] / 4};
  const double *w = in[1];
  double *dh = workspace;
  FOR(n, s.rows) {
    FOR(j, s.width) dh[j] = 0;
    for (int64_t t = s.times - 1; t >= 0; t--) {
      double *dgates = row_at(s, out[1], t, n, 3 * s.width);
      FOR(j, s.width) dh[j] += row_at(s, in[4], t, n, s.width)[j];
      gru_backward(s.width, row_at(s, in[0], t, n, 4 * s.width), state_before(s, in[2], in[3], t, n), dh,
                   row_at(s, out[0], t, n, 3 * s.width), dgates);
      add_product_backward(dgates, w, 3 * s.width, s.width, dh);
    }
    if (kernel_node(kernel)->output_count > 2)
      memcpy(row_at(s, out[2], 0, n, s.width), dh, (size_t)s.width * sizeof *dh);
  }
  return NEAP_OK;
}

RUN(run_recurrent_backward_weights) {
  UNUSED;
  const struct tensor *y = kernel_input(kernel, RECURRENT_Y), *dw = kernel_output(kernel, 0);
  const struct sequence s = {y->dims[0], y->dims[1], y->dims[2]};
  const double *addend = in[RECURRENT_ADDEND];
  double *sum = out[0];
  FOR(i, dw->elements) sum[i] = addend != NULL ? addend[i] : 0;
  FOR(t, s.times) FOR(n, s.rows) {
    const double *h = state_before(s, in[RECURRENT_Y], in[RECURRENT_H0], t, n),
                 *d = row_at(s, in[RECURRENT_GRADIENT], t, n, dw->dims[0]);
    if (h != NULL) FOR(j, dw->dims[0]) FOR(k, s.width) sum[j * s.width + k] += d[j] * h[k];
  }
  return NEAP_OK;
}
