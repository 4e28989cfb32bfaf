/* Attention by its formula, one query at a time, and rotary embedding. */
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "kernel/random_stream.h"
#include "kernel/ref/ref.h"
#include "op/attention.h"

struct attention {
  struct attention_shape s;
  const struct attention_attributes *a;
  const double *q, *k, *v;
  int64_t query_row, key_row; /* elements from one row of a sequence to the next */
  const int32_t *lengths, *places;
  const int32_t *rows; /* numbers of the queries that are given; NULL: all are */
  bool packed;
  uint64_t seed, stream;
};

/* Returns the attention of a node; `places`: the slot. */
static struct attention attention_of(const struct kernel *kernel, void *const *in, int32_t places,
                                     const struct run_context *context) {
  struct attention t = {.s = attention_shape_of(kernel->graph, kernel_node(kernel)),
                        .a = &ATTRIBUTES->attention,
                        .q = in[0],
                        .k = in[1],
                        .v = in[2],
                        .lengths = in[3],
                        .packed = in[1] == NULL,
                        .seed = context->seed,
                        .stream = random_stream(run_draw(context), ATTRIBUTES->attention.stream)};
  if (places < kernel_node(kernel)->input_count)
    *(ATTRIBUTES->attention.length > 0 ? &t.rows : &t.places) = in[places];
  t.query_row = t.s.heads * t.s.depth;
  t.key_row = t.s.key_heads * t.s.depth;
  if (in[1] != NULL) return t;
  t.k = t.q + t.query_row;
  t.v = t.k + t.key_row;
  t.query_row = t.key_row = t.query_row + 2 * t.key_row;
  return t;
}

/* Returns the row of its sequence that query i is. */
static int64_t row_of(const struct attention *t, int64_t i) { return t->rows != NULL ? t->rows[i] : i; }

/* Return where row i of a head of queries begins, and row j of the head of keys that it reads. */
static int64_t query_at(const struct attention *t, int64_t n, int64_t h, int64_t i) {
  return (t->packed ? n * t->s.length + row_of(t, i) : n * t->s.queries + i) * t->query_row + h * t->s.depth;
}
static int64_t key_at(const struct attention *t, int64_t n, int64_t h, int64_t j) {
  return (n * t->s.keys + j) * t->key_row + h / (t->s.heads / t->s.key_heads) * t->s.depth;
}
static int64_t result_at(const struct attention *t, int64_t n, int64_t h, int64_t i) {
  return ((n * t->s.queries + i) * t->s.heads + h) * t->s.depth;
}

static bool sees(const struct attention *t, int64_t n, int64_t h, int64_t i, int64_t j) {
  const int64_t place = row_of(t, i) + t->s.keys - t->s.length;
  return !(t->lengths != NULL && j >= t->lengths[n]) &&
         attention_sees(attention_of_head(&t->a->patterns, h), t->a->causal, place, j) &&
         !(t->places != NULL && place - j > t->places[n * t->s.queries + i]);
}

static double product(int64_t count, const double *x, const double *y) {
  double sum = 0;
  FOR(d, count) sum += x[d] * y[d];
  return sum;
}

static double score(const struct attention *t, int64_t n, int64_t h, int64_t i, int64_t j) {
  const double s = (double)t->s.scale *
                   product(t->s.depth, t->q + query_at(t, n, h, i), t->k + key_at(t, n, h, j)),
               cap = (double)t->a->cap;
  return cap > 0 ? cap * tanh(s / cap) : s;
}

/* Returns the derivative of a score by its value before the cap. */
static double score_slope(const struct attention *t, double score) {
  const double cap = (double)t->a->cap;
  return cap > 0 ? 1 - score / cap * (score / cap) : 1;
}

/* Returns the factor of a weight after dropout. */
static double kept(const struct attention *t, int64_t n, int64_t h, int64_t i, int64_t j) {
  const double p = (double)t->a->probability;
  if (p == 0) return 1;
  const uint64_t at = (uint64_t)(((n * t->s.heads + h) * t->s.length + row_of(t, i)) * t->s.keys + j);
  uint32_t word[4];
  random_philox(t->seed, t->stream, at / 4, word);
  return (double)random_uniform(word[at % 4]) >= p ? 1 / (1 - p) : 0;
}

static void attend(const struct attention *t, int64_t n, int64_t h, int64_t i, double *y, double *log_sum) {
  double highest = -INFINITY, sum = 0;
  FOR(j, t->s.keys) if (sees(t, n, h, i, j)) highest = fmax(highest, score(t, n, h, i, j));
  FOR(j, t->s.keys) if (sees(t, n, h, i, j)) sum += exp(score(t, n, h, i, j) - highest);
  memset(y, 0, (size_t)t->s.depth * sizeof *y);
  *log_sum = sum == 0 ? -INFINITY : highest + log(sum);
  FOR(j, t->s.keys) {
    if (!sees(t, n, h, i, j)) continue;
    const double weight = exp(score(t, n, h, i, j) - *log_sum) * kept(t, n, h, i, j);
    FOR(d, t->s.depth) y[d] += weight * t->v[key_at(t, n, h, j) + d];
  }
}

RUN(run_attention) {
  UNUSED;
  const struct attention t = attention_of(kernel, in, ATTENTION_PLACES, context);
  FOR(n, t.s.sequences) FOR(h, t.s.heads) FOR(i, t.s.queries) {
    attend(&t, n, h, i, (double *)out[0] + result_at(&t, n, h, i),
           (double *)out[1] + (n * t.s.heads + h) * t.s.queries + i);
  }
  return NEAP_OK;
}

/* Adds the contributions of query i to the gradients of queries, keys and values, `sums`. */
static void attend_backward(const struct attention *t, int64_t n, int64_t h, int64_t i, const double *y,
                            double log_sum, const double *dy, double *const sums[3]) {
  double *dq = sums[0], *dk = sums[1], *dv = sums[2];
  const int64_t depth = t->s.depth;
  const double *q = t->q + query_at(t, n, h, i), mean = product(depth, y, dy);
  FOR(j, t->s.keys) {
    if (!sees(t, n, h, i, j)) continue;
    const int64_t at = key_at(t, n, h, j);
    const double s = score(t, n, h, i, j), weight = exp(s - log_sum), keep = kept(t, n, h, i, j),
                 slope = (double)t->s.scale * score_slope(t, s) * weight *
                         (keep * product(depth, dy, t->v + at) - mean);
    FOR(d, depth) {
      dv[at + d] += weight * keep * dy[d];
      dq[query_at(t, n, h, i) + d] += slope * t->k[at + d];
      dk[at + d] += slope * q[d];
    }
  }
}

/* Adds up the gradients in the workspace, as they may be in the operands' place. */
RUN(run_attention_backward) {
  const struct attention t = attention_of(kernel, in, ATTENTION_BACK_PLACES, context);
  const double *y = in[4], *log_sum = in[5], *dy = in[6];
  const int32_t outputs = kernel_node(kernel)->output_count;
  double *sums[3] = {workspace};
  for (int32_t i = 1; i < outputs; i++) sums[i] = sums[i - 1] + kernel_output(kernel, i - 1)->elements;
  for (int32_t i = 0; i < outputs; i++)
    memset(sums[i], 0, (size_t)kernel_output(kernel, i)->elements * sizeof(double));
  if (outputs == 1) {
    sums[1] = sums[0] + (t.k - t.q);
    sums[2] = sums[0] + (t.v - t.q);
  }
  FOR(n, t.s.sequences) FOR(h, t.s.heads) FOR(i, t.s.queries) {
    const int64_t at = result_at(&t, n, h, i);
    attend_backward(&t, n, h, i, y + at, log_sum[(n * t.s.heads + h) * t.s.length + row_of(&t, i)], dy + at,
                    sums);
  }
  for (int32_t i = 0; i < outputs; i++)
    memcpy(out[i], sums[i], (size_t)kernel_output(kernel, i)->elements * sizeof(double));
  return NEAP_OK;
}

RUN(run_rotary) {
  UNUSED;
  const struct rotary_attributes *a = &ATTRIBUTES->rotary;
  const struct tensor *x = kernel_input(kernel, 0);
  const int64_t heads = x->dims[2], depth = x->dims[3], turned = a->heads != 0 ? a->heads : heads,
                width = a->width != 0 ? a->width : depth,
                before = in[ROTARY_POSITION] != NULL ? *(const int32_t *)in[ROTARY_POSITION] : 0;
  memmove(out[0], in[0], (size_t)x->elements * sizeof(double));
  FOR(row, x->dims[0] * x->dims[1]) FOR(h, turned) FOR(d, width / 2) {
    const double angle = ((double)(row % x->dims[1]) + (double)(before + a->first)) *
                         rotary_frequency(a->base, &a->scaling, kernel_node(kernel)->numbers, width, d),
                 amplitude = rotary_amplitude(&a->scaling), c = amplitude * cos(angle),
                 s = amplitude * (a->back ? -sin(angle) : sin(angle));
    double *one = (double *)out[0] + (row * heads + h) * depth + d, *two = one + width / 2;
    const double first = *one, second = *two;
    *one = first * c - second * s;
    *two = second * c + first * s;
  }
  return NEAP_OK;
}
