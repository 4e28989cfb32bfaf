/* Lightweight and dynamic convolution against products with explicit banded matrices in double, on both
 * backends. */
#include <math.h>

#include "interpreter.h"

enum { SEQUENCES = 2, CHANNELS = 12, HEADS = 3 };

struct sequence_case {
  int64_t times, taps, padding; /* of x */
  bool dynamic;
  int64_t first; /* of x's times, that y has */
};

static int64_t made(const struct sequence_case *c) { return c->times - c->first; }

/* Numbers that floats hold exactly, whose products and sums they do, too. */
static double *numbers(int64_t count, uint32_t state) {
  double *values = malloc((size_t)count * sizeof *values);
  assert_non_null(values);
  for (int64_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    values[i] = (double)(state >> 24) / 64 - 2;
  }
  return values;
}

/* The matrix [T - first, T] that a head multiplies a sequence by. */
static void band_of(const struct sequence_case *c, const double *w, int64_t n, int64_t h, double *band) {
  for (int64_t t = 0; t < made(c); t++)
    for (int64_t r = 0; r < c->times; r++) {
      const int64_t k = r - t - c->first + c->padding;
      const double *of_time = w + (c->dynamic ? (n * made(c) + t) * HEADS * c->taps : 0) + h * c->taps;
      band[t * c->times + r] = k >= 0 && k < c->taps ? of_time[k] : 0;
    }
}

/* y = B x, or the product with the transpose of B: what dy gives x. */
static double *multiply(const struct sequence_case *c, const double *w, const double *x, bool transposed) {
  const int64_t rows = transposed ? c->times : made(c), columns = transposed ? made(c) : c->times;
  double *y = calloc((size_t)(SEQUENCES * rows * CHANNELS), sizeof *y),
         *band = malloc((size_t)(rows * columns) * sizeof *band);
  assert_true(y != NULL && band != NULL);
  for (int64_t n = 0; n < SEQUENCES; n++)
    for (int64_t i = 0; i < CHANNELS; i++) {
      band_of(c, w, n, i / (CHANNELS / HEADS), band);
      for (int64_t t = 0; t < rows; t++)
        for (int64_t r = 0; r < columns; r++)
          y[(n * rows + t) * CHANNELS + i] +=
              (transposed ? band[r * rows + t] : band[t * columns + r]) * x[(n * columns + r) * CHANNELS + i];
    }
  free(band);
  return y;
}

/* dw: what the products of dy[t] and x[r] of the channels of a head give the weight of t and r. */
static double *weight_gradient(const struct sequence_case *c, const double *x, const double *dy) {
  double *dw = calloc((size_t)((c->dynamic ? SEQUENCES * made(c) : 1) * HEADS * c->taps), sizeof *dw);
  assert_non_null(dw);
  for (int64_t n = 0; n < SEQUENCES; n++)
    for (int64_t t = 0; t < made(c); t++)
      for (int64_t r = 0; r < c->times; r++) {
        const int64_t k = r - t - c->first + c->padding;
        double *of_time = dw + (c->dynamic ? (n * made(c) + t) * HEADS * c->taps : 0);
        for (int64_t i = 0; k >= 0 && k < c->taps && i < CHANNELS; i++)
          of_time[i / (CHANNELS / HEADS) * c->taps + k] +=
              dy[(n * made(c) + t) * CHANNELS + i] * x[(n * c->times + r) * CHANNELS + i];
      }
  return dw;
}

static void expect(const struct sequence_case *c, const char *what, const struct interpreter *m, int32_t id,
                   const double *expected) {
  double *got = interpreter_read(m, id);
  for (int64_t i = 0; i < m->lowered->graph->tensors.data[id].elements; i++)
    if (got[i] != expected[i])
      fail_msg("%s of %s, %d times from %d on, %d taps, padding %d: %s[%d] is %g, not %g", what,
               m->lowered->backend->name, (int)c->times, (int)c->first, (int)c->taps, (int)c->padding,
               c->dynamic ? "dynamic" : "lightweight", (int)i, got[i], expected[i]);
  free(got);
}

/* Both operators on x, w and dy. */
static struct neap_graph *both_operators(const struct sequence_case *c, int32_t *outputs) {
  struct neap_graph *graph = NULL;
  struct tensor x = {.name = "x",
                     .role = NEAP_ROLE_INPUT,
                     .rank = 3,
                     .dims = {SEQUENCES, c->times, CHANNELS},
                     .view_of = -1},
                w = {.name = "w",
                     .role = NEAP_ROLE_INPUT,
                     .rank = 2,
                     .dims = {HEADS, c->taps},
                     .view_of = -1},
                dy = x;
  if (c->dynamic) {
    const int64_t dims[] = {SEQUENCES, made(c), HEADS, c->taps};
    w.rank = 4;
    memcpy(w.dims, dims, sizeof dims);
  }
  dy.name = "dy";
  dy.dims[1] = made(c);
  int32_t in[3];
  const union attributes a = {.sequence_conv = {c->padding, c->first}};
  assert_ok(graph_create("sequence", &graph));
  assert_ok(graph_add_tensor(graph, x, &in[0]));
  assert_ok(graph_add_tensor(graph, w, &in[1]));
  assert_ok(graph_add_tensor(graph, dy, &in[2]));
  assert_ok(graph_apply(graph, OP_SEQUENCE_CONV, "y", &a, in, 2, outputs));
  assert_ok(graph_add_like(graph, in[0], "dx", &outputs[1]));
  assert_ok(graph_add_like(graph, in[1], "dw", &outputs[2]));
  assert_ok(graph_add_node(graph, (struct node){.name = "backward",
                                                .op = OP_SEQUENCE_CONV_BACKWARD,
                                                .pass = NEAP_PASS_BACKWARD,
                                                .attributes = a,
                                                .inputs = in,
                                                .input_count = 3,
                                                .outputs = outputs + 1,
                                                .output_count = 2}));
  return graph;
}

static void check(const struct sequence_case *c) {
  const struct backend *const backends[] = {&reference_backend, &cpu_backend};
  const int64_t count = SEQUENCES * c->times * CHANNELS;
  double *x = numbers(count, 1), *dy = numbers(count, 2),
         *w = numbers((c->dynamic ? SEQUENCES * made(c) : 1) * HEADS * c->taps, 3);
  double *y = multiply(c, w, x, false), *dx = multiply(c, w, dy, true), *dw = weight_gradient(c, x, dy);
  for (int i = 0; i < 2; i++) {
    int32_t outputs[3];
    struct neap_graph *graph = both_operators(c, outputs);
    struct lowered *lowered = NULL;
    assert_ok(lower(graph, backends[i], &(struct lower_options){.threads = 2}, NULL, &lowered));
    struct interpreter m = interpreter_create(lowered, 0, 0xFF);
    const double *const given[] = {x, w, dy};
    for (int32_t k = 0; k < 3; k++) interpreter_write(&m, k, given[k]);
    interpreter_run(&m, &(struct run_context){0});
    const struct node *nodes = lowered->graph->nodes.data;
    const int32_t last = (int32_t)lowered->graph->nodes.count - 1;
    expect(c, "y", &m, nodes[last - 1].outputs[0], y);
    expect(c, "dx", &m, nodes[last].outputs[0], dx);
    expect(c, "dw", &m, nodes[last].outputs[1], dw);
    interpreter_free(&m);
    lowered_free(lowered);
    neap_graph_free(graph);
  }
  free(x), free(dy), free(w), free(y), free(dx), free(dw);
}

/* Odd times, more of them than a block has; kernels longer than the sequence; causal, and in the middle; all
 * times of the result, the last half of them, the last one. */
static void test_banded_matrices(void **state) {
  (void)state;
  static const int64_t times[] = {1, 5, 37, 71}, taps[] = {1, 3, 8, 31};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    for (size_t k = 0; k < sizeof taps / sizeof *taps; k++)
      for (int dynamic = 0; dynamic < 2; dynamic++) {
        check(&(struct sequence_case){times[i], taps[k], taps[k] - 1, dynamic, 0});
        check(&(struct sequence_case){times[i], taps[k], taps[k] / 2, dynamic, 0});
        check(&(struct sequence_case){times[i], taps[k], 0, dynamic, 0});
        for (int padding = 0; padding < 2; padding++) {
          check(&(struct sequence_case){times[i], taps[k], padding * (taps[k] - 1), dynamic, times[i] - 1});
          check(&(struct sequence_case){times[i], taps[k], padding * (taps[k] - 1), dynamic, times[i] / 2});
        }
      }
}

int run_test_sequence_convolution(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_banded_matrices)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
