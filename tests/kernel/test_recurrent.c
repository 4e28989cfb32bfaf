/* Recurrent layers: against their formulas, in any parts, in any budget, and time by time. */
#include <math.h>

#include "op/op.h"
#include "session_help.h"

enum { TIMES = 7, ROWS = 3, INPUTS = 5, WIDTH = 9, MOST_GATES = 4 };

static const int64_t in_one[] = {0, TIMES}, in_three[] = {0, 2, 3, TIMES},
                     in_seven[] = {0, 1, 2, 3, 4, 5, 6, 7};

struct layer {
  bool gru, states; /* states: the first is an input, and the last an output */
  int parts;
  const int64_t *begin; /* of each part, and the end of the last */
};

/* x [times, ROWS, INPUTS] -> y, and the squared distance from a target. */
static neap_graph *build(const struct layer *l) {
  neap_graph *graph = NULL;
  neap_builder *b = neap_builder_create("recurrent");
  const int64_t times = l->begin[l->parts], state[] = {ROWS, WIDTH};
  const neap_tensor x = neap_input(b, "x", NEAP_F32, 3, (int64_t[]){times, ROWS, INPUTS}),
                    target = neap_input(b, "target", NEAP_F32, 3, (int64_t[]){times, ROWS, WIDTH});
  neap_recurrent_state initial, last;
  neap_tensor parts[TIMES], y[TIMES];
  if (l->states)
    initial = (neap_recurrent_state){neap_input(b, "h0", NEAP_F32, 2, state),
                                     neap_input(b, "c0", NEAP_F32, 2, state)};
  for (int i = 0; i < l->parts; i++)
    parts[i] = neap_slice(b, x, 0, l->begin[i], l->begin[i + 1] - l->begin[i]);
  const neap_recurrent_options o = {
      .width = WIDTH, .initial = l->states ? &initial : NULL, .last = l->states ? &last : NULL};
  (l->gru ? neap_gru : neap_lstm)(b, parts, l->parts, o, y);
  const neap_tensor all = neap_concat(b, y, l->parts, 0);
  neap_output(b, "y", all);
  if (l->states) neap_output(b, "h", last.h);
  if (l->states && !l->gru) neap_output(b, "c", last.c);
  ASSERT_OK(neap_builder_finish(b, neap_mse_loss(b, all, target), &graph));
  neap_builder_free(b);
  return graph;
}

static neap_session *open_session(const neap_graph *graph, neap_session_options options) {
  neap_session *session;
  options.planner = "evict"; /* which plans at once: what the least is does not matter here */
  options.threads = 2;
  options.seed = 5;
  ASSERT_OK(neap_session_create(graph, &options, NULL, &session));
  return session;
}

static void read_output(const neap_session *s, const char *name, float *data) {
  ASSERT_OK(neap_session_output(s, name, NULL, data));
}

/* ---- The formulas ---- */

enum { PARAMETERS = MOST_GATES * WIDTH * (INPUTS + WIDTH + 2) };

union parameters {
  struct {
    float weight_ih[MOST_GATES * WIDTH][INPUTS], weight_hh[MOST_GATES * WIDTH][WIDTH];
    float bias_ih[MOST_GATES * WIDTH], bias_hh[MOST_GATES * WIDTH];
  };
  float all[PARAMETERS];
};

static void read_parameters(const neap_session *s, const char *name, union parameters *p) {
  const struct {
    const char *part;
    float *data;
  } parts[] = {{"weight_ih", p->weight_ih[0]},
               {"weight_hh", p->weight_hh[0]},
               {"bias_ih", p->bias_ih},
               {"bias_hh", p->bias_hh}};
  for (int i = 0; i < 4; i++) {
    char full[64];
    snprintf(full, sizeof full, "%s.%s", name, parts[i].part);
    ASSERT_OK(neap_session_read(s, find_variable(s, full), parts[i].data));
  }
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* Gate j of the input, and of the state. */
static double of_input(const union parameters *p, int j, const float *x) {
  double sum = (double)p->bias_ih[j];
  for (int k = 0; k < INPUTS; k++) sum += (double)p->weight_ih[j][k] * (double)x[k];
  return sum;
}
static double of_state(const union parameters *p, int j, const double *h) {
  double sum = (double)p->bias_hh[j];
  for (int k = 0; k < WIDTH; k++) sum += (double)p->weight_hh[j][k] * h[k];
  return sum;
}

/* One row, one time, as the documentation of PyTorch's LSTM and GRU writes it. */
static void step_formula(const union parameters *p, bool gru, const float *x, double *h, double *c) {
  double next[WIDTH];
  for (int j = 0; j < WIDTH; j++) {
    double in[MOST_GATES], state[MOST_GATES];
    for (int g = 0; g < (gru ? 3 : 4); g++) {
      in[g] = of_input(p, g * WIDTH + j, x);
      state[g] = of_state(p, g * WIDTH + j, h);
    }
    if (gru) {
      const double r = sigmoid(in[0] + state[0]), z = sigmoid(in[1] + state[1]),
                   n = tanh(in[2] + r * state[2]);
      next[j] = (1 - z) * n + z * h[j];
    } else {
      const double i = sigmoid(in[0] + state[0]), f = sigmoid(in[1] + state[1]), g = tanh(in[2] + state[2]),
                   o = sigmoid(in[3] + state[3]);
      c[j] = f * c[j] + i * g;
      next[j] = o * tanh(c[j]);
    }
  }
  memcpy(h, next, sizeof next);
}

/* What a session's parameters make of its inputs: y [TIMES, ROWS, WIDTH] and the last states. */
static void formula(neap_session *s, const struct layer *l, double *y, double h[ROWS][WIDTH],
                    double c[ROWS][WIDTH]) {
  union parameters p;
  read_parameters(s, l->gru ? "gru1" : "lstm1", &p);
  const float *x = neap_session_input(s, "x"), *h0 = l->states ? neap_session_input(s, "h0") : NULL,
              *c0 = l->states && !l->gru ? neap_session_input(s, "c0") : NULL;
  for (int n = 0; n < ROWS; n++)
    for (int j = 0; j < WIDTH; j++) {
      h[n][j] = h0 != NULL ? (double)h0[n * WIDTH + j] : 0;
      c[n][j] = c0 != NULL ? (double)c0[n * WIDTH + j] : 0;
    }
  for (int t = 0; t < TIMES; t++)
    for (int n = 0; n < ROWS; n++) {
      step_formula(&p, l->gru, x + (t * ROWS + n) * INPUTS, h[n], c[n]);
      memcpy(y + (t * ROWS + n) * WIDTH, h[n], sizeof h[n]);
    }
}

static void expect_near(const char *what, const double *expected, const float *got, int count,
                        double tolerance) {
  for (int i = 0; i < count; i++)
    if (!(fabs(expected[i] - (double)got[i]) <= tolerance))
      fail_msg("%s: element %d is %g, not %g", what, i, (double)got[i], expected[i]);
}

static void check_formula(const struct layer *l, neap_backend backend, neap_dtype precision,
                          double tolerance) {
  static double y[TIMES * ROWS * WIDTH], h[ROWS][WIDTH], c[ROWS][WIDTH];
  static float got[TIMES * ROWS * WIDTH];
  neap_graph *graph = build(l);
  neap_session *s = open_session(
      graph, (neap_session_options){.budget = NEAP_BUDGET_MAX, .backend = backend, .precision = precision});
  fill_inputs(s, 11, 1);
  ASSERT_OK(neap_session_evaluate(s, NULL));
  formula(s, l, y, h, c);
  read_output(s, "y", got);
  expect_near("y", y, got, TIMES * ROWS * WIDTH, tolerance);
  if (l->states) {
    read_output(s, "h", got);
    expect_near("h", h[0], got, ROWS * WIDTH, tolerance);
  }
  if (l->states && !l->gru) {
    read_output(s, "c", got);
    expect_near("c", c[0], got, ROWS * WIDTH, 2 * tolerance);
  }
  neap_session_free(s);
  neap_graph_free(graph);
}

static void test_formulas(void **state) {
  (void)state;
  for (int gru = 0; gru < 2; gru++)
    for (int states = 0; states < 2; states++) {
      const struct layer one = {gru, states, 1, in_one}, three = {gru, states, 3, in_three};
      check_formula(&one, NEAP_REFERENCE, NEAP_F32, 1e-7);
      check_formula(&three, NEAP_REFERENCE, NEAP_F32, 1e-7);
      check_formula(&one, NEAP_CPU, NEAP_F32, 1e-6);
      check_formula(&three, NEAP_CPU, NEAP_F32, 1e-6);
      check_formula(&three, NEAP_CPU, NEAP_BF16, 0x1p-6);
      check_formula(&three, NEAP_CPU, NEAP_F16, 0x1p-9);
    }
}

/* ---- In parts ---- */

struct step_result {
  float y[TIMES * ROWS * WIDTH], h[ROWS * WIDTH], c[ROWS * WIDTH];
  union parameters change; /* by a step of gradient descent with a rate of 1 */
};

static void run_step(const struct layer *l, neap_dtype precision, struct step_result *r) {
  union parameters after;
  const char *name = l->gru ? "gru1" : "lstm1";
  neap_graph *graph = build(l);
  neap_session *s = open_session(graph, (neap_session_options){.budget = NEAP_BUDGET_MAX,
                                                               .precision = precision,
                                                               .master = precision != NEAP_F32});
  memset(r, 0, sizeof *r);
  memset(&after, 0, sizeof after);
  fill_inputs(s, 12, 1);
  ASSERT_OK(neap_session_evaluate(s, NULL));
  read_output(s, "y", r->y);
  read_output(s, "h", r->h);
  if (!l->gru) read_output(s, "c", r->c);
  read_parameters(s, name, &r->change);
  ASSERT_OK(neap_session_step(s, 1, NULL));
  read_parameters(s, name, &after);
  for (int i = 0; i < PARAMETERS; i++) r->change.all[i] -= after.all[i];
  neap_session_free(s);
  neap_graph_free(graph);
}

static void check_parts(bool gru, const struct step_result *whole, int parts, const int64_t *begin,
                        neap_dtype precision, float tolerance) {
  static struct step_result some;
  const struct layer l = {gru, true, parts, begin};
  run_step(&l, precision, &some);
  assert_memory_equal(whole->y, some.y, sizeof some.y);
  assert_memory_equal(whole->h, some.h, sizeof some.h);
  assert_memory_equal(whole->c, some.c, sizeof some.c);
  const float *a = whole->change.all, *b = some.change.all;
  float most = 0;
  for (int i = 0; i < PARAMETERS; i++) most = fmaxf(most, fabsf(a[i]));
  assert_true(most > 1e-3f);
  for (int i = 0; i < PARAMETERS; i++)
    if (!(fabsf(a[i] - b[i]) <= tolerance * most))
      fail_msg("%d parts: gradient %d is %g, in one part %g", parts, i, (double)b[i], (double)a[i]);
}

static void test_parts(void **state) {
  (void)state;
  static const neap_dtype types[] = {NEAP_F32, NEAP_BF16, NEAP_F16};
  static const float tolerances[] = {1e-5f, 0x1p-6f, 0x1p-9f};
  static struct step_result whole;
  for (int gru = 0; gru < 2; gru++)
    for (int i = 0; i < 3; i++) {
      run_step(&(struct layer){gru, true, 1, in_one}, types[i], &whole);
      check_parts(gru, &whole, 3, in_three, types[i], tolerances[i]);
      check_parts(gru, &whole, TIMES, in_seven, types[i], tolerances[i]);
    }
}

/* What comes to a weight from several parts is added up in place: no node adds matrices. */
static void test_gradients_add_up_in_place(void **state) {
  (void)state;
  for (int gru = 0; gru < 2; gru++) {
    neap_graph *graph = build(&(struct layer){gru, false, TIMES, in_seven});
    neap_session *s = open_session(graph, (neap_session_options){.budget = NEAP_BUDGET_MAX});
    const struct neap_graph *step = s->main->graph;
    int products = 0;
    for (size_t v = 0; v < step->nodes.count; v++) {
      const struct node *node = &step->nodes.data[v];
      products += node->op == OP_RECURRENT_BACKWARD_WEIGHTS || node->op == OP_LINEAR_BACKWARD_WEIGHTS;
      if (node->op == OP_ADD) assert_int_not_equal(step->tensors.data[node->outputs[0]].rank, 2);
    }
    assert_int_equal(products, 2 * TIMES - 1); /* the first part begins with a state of zeros */
    neap_session_free(s);
    neap_graph_free(graph);
  }
}

/* ---- Any budget, and one time after the other ---- */

static void test_budgets(void **state) {
  (void)state;
  for (int gru = 0; gru < 2; gru++)
    for (int precision = 0; precision < 2; precision++) {
      neap_graph *graph = build(&(struct layer){gru, true, TIMES, in_seven});
      struct run_result r[2];
      for (int i = 0; i < 2; i++) {
        neap_session *s =
            open_session(graph, (neap_session_options){.budget = i == 0 ? NEAP_BUDGET_MAX : NEAP_BUDGET_MIN,
                                                       .optimizer = NEAP_ADAM,
                                                       .precision = precision ? NEAP_BF16 : NEAP_F32});
        r[i] = run_steps(s, 3, 0.01f, 1);
        neap_session_free(s);
      }
      assert_string_equal(r[0].digest, r[1].digest);
      assert_true(r[1].memory.measured_peak < r[0].memory.measured_peak);
      neap_graph_free(graph);
    }
}

/* A session for one time, given the last state of the time before. */
static void test_generation(void **state) {
  (void)state;
  static float y[TIMES * ROWS * WIDTH];
  static const int64_t one_time[] = {0, 1};
  for (int gru = 0; gru < 2; gru++) {
    neap_graph *whole = build(&(struct layer){gru, true, 1, in_one}),
               *single = build(&(struct layer){gru, true, 1, one_time});
    neap_session *s = open_session(whole, (neap_session_options){.predict = true, .precision = NEAP_BF16}),
                 *one = open_session(single, (neap_session_options){.predict = true, .precision = NEAP_BF16});
    fill_inputs(s, 13, 1);
    ASSERT_OK(neap_session_predict(s));
    read_output(s, "y", y);
    const size_t state_bytes = ROWS * WIDTH * sizeof(float);
    float *h = neap_session_input(one, "h0"), *c = gru ? NULL : neap_session_input(one, "c0");
    memcpy(h, neap_session_input(s, "h0"), state_bytes);
    if (c != NULL) memcpy(c, neap_session_input(s, "c0"), state_bytes);
    for (int t = 0; t < TIMES; t++) {
      float got[ROWS * WIDTH];
      memcpy(neap_session_input(one, "x"), (float *)neap_session_input(s, "x") + t * ROWS * INPUTS,
             ROWS * INPUTS * sizeof(float));
      ASSERT_OK(neap_session_predict(one));
      read_output(one, "y", got);
      assert_memory_equal(got, y + t * ROWS * WIDTH, sizeof got);
      read_output(one, "h", h);
      if (c != NULL) read_output(one, "c", c);
    }
    neap_session_free(s);
    neap_session_free(one);
    neap_graph_free(whole);
    neap_graph_free(single);
  }
}

/* ---- What is refused ---- */

typedef void layer_function(neap_builder *b, const neap_tensor *x, int count, neap_recurrent_options options,
                            neap_tensor *y);

static void expect_refused(layer_function *layer, const int64_t *first, const int64_t *second, int64_t width,
                           const int64_t *h, const int64_t *c, const char *message) {
  neap_builder *b = neap_builder_create("refused");
  neap_graph *graph = NULL;
  const neap_tensor x[] = {neap_input(b, "first", NEAP_F32, first[2] ? 3 : 2, first),
                           neap_input(b, "second", NEAP_F32, 3, second)};
  neap_recurrent_state initial, last;
  if (h != NULL)
    initial = (neap_recurrent_state){neap_input(b, "h", NEAP_F32, 2, h), neap_input(b, "c", NEAP_F32, 2, c)};
  neap_tensor y[2] = {0, 0};
  layer(b, x, 2,
        (neap_recurrent_options){.width = width, .initial = h != NULL ? &initial : NULL, .last = &last}, y);
  assert_true(y[1] < 0 && last.h < 0 && last.c < 0);
  assert_int_equal(neap_builder_finish(b, y[0], &graph), NEAP_INVALID_ARGUMENT);
  if (strstr(neap_error_message(), message) == NULL)
    fail_msg("'%s' is not in '%s'", message, neap_error_message());
  neap_builder_free(b);
}

static void test_refused(void **state) {
  (void)state;
  static const int64_t good[] = {2, 3, 5}, more_rows[] = {2, 4, 5}, wider[] = {2, 3, 6}, flat[] = {6, 5, 0},
                       states[] = {3, 9}, other[] = {4, 9}, longer[] = {3, 8};
  layer_function *const layers[] = {neap_lstm, neap_gru};
  for (int i = 0; i < 2; i++) {
    expect_refused(layers[i], good, more_rows, 9, NULL, NULL, "with one N, one K and one type");
    expect_refused(layers[i], good, wider, 9, NULL, NULL, "with one N, one K and one type");
    expect_refused(layers[i], flat, good, 9, NULL, NULL, "'first' is [6, 5] of f32");
    expect_refused(layers[i], good, good, 0, NULL, NULL, "a width of 0");
    expect_refused(layers[i], good, good, 9, other, states, "the state must be [3, 9], but 'h' is [4, 9]");
  }
  expect_refused(neap_lstm, good, good, 9, states, longer, "must be [3, 9] of f32, but 'c' is [3, 8] of f32");
  neap_builder *b = neap_builder_create("refused");
  neap_tensor y = 0;
  const neap_tensor x = neap_input(b, "x", NEAP_F32, 3, good);
  neap_gru(b, &x, 0, (neap_recurrent_options){.width = 4}, &y);
  neap_gru(b, NULL, 1, (neap_recurrent_options){.width = 4}, &y);
  neap_lstm(b, &x, 1, (neap_recurrent_options){.width = 4}, NULL);
  neap_lstm(NULL, &x, 1, (neap_recurrent_options){.width = 4}, &y);
  assert_true(y < 0);
  neap_builder_free(b);
}

int run_test_recurrent(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_formulas),   cmocka_unit_test(test_parts),
      cmocka_unit_test(test_budgets),    cmocka_unit_test(test_gradients_add_up_in_place),
      cmocka_unit_test(test_generation), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
