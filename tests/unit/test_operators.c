/* Every operator, by the one list of cases: the cpu backend against the reference one, gradients against central differences in
 * double, the same bits again and in other places, in place and not. */
#include "session_help.h"

#include <math.h>
#include <unistd.h>

#include "cases.h"

enum { CLASSES = 5 };

static neap_session *open_session(const neap_graph *graph, neap_session_options options) {
  neap_session *s = NULL;
  options.budget = NEAP_BUDGET_MAX;
  options.threads = 2;
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  return s;
}

/* All variables after a step, side by side. */
static void compare_variables(const neap_session *a, const neap_session *b, double tolerance, const char *name) {
  assert_int_equal(neap_session_variable_count(a), neap_session_variable_count(b));
  for (int32_t i = 0; i < neap_session_variable_count(a); i++) {
    neap_variable v;
    ASSERT_OK(neap_session_variable(a, i, &v));
    float *x = malloc((size_t)v.elements * sizeof *x), *y = malloc((size_t)v.elements * sizeof *y);
    ASSERT_OK(neap_session_read(a, i, x));
    ASSERT_OK(neap_session_read(b, i, y));
    double worst = 0, scale = 1e-2; /* what is 0 in exact arithmetic is measured against ordinary gradients */
    for (int64_t k = 0; k < v.elements; k++) {
      worst = fmax(worst, fabs((double)x[k] - (double)y[k]));
      scale = fmax(scale, fabs((double)y[k]));
    }
    if (worst > tolerance * scale) print_error("%s: %s differs by %g of %g\n", name, v.name, worst, scale);
    assert_true(worst <= tolerance * scale);
    free(x);
    free(y);
  }
}

static const neap_session_options sgd = {.momentum = 0.9f, .weight_decay = 0.01f, .seed = 3};
static const neap_session_options optimizers[] = {
    {.momentum = 0.9f, .weight_decay = 0.01f, .seed = 3},
    {.seed = 3},
    {.momentum = 0.5f, .nesterov = true, .seed = 4},
    {.optimizer = NEAP_ADAMW, .weight_decay = 0.02f, .seed = 5},
};

static void compare_backends(const neap_graph *graph, neap_session_options options, const char *name) {
  neap_session *fast = open_session(graph, options);
  options.backend = NEAP_REFERENCE;
  neap_session *reference = open_session(graph, options);
  for (int step = 0; step < 2; step++) {
    neap_step_result a, b;
    fill_inputs(fast, 7, CLASSES);
    fill_inputs(reference, 7, CLASSES);
    ASSERT_OK(neap_session_evaluate(fast, &a));
    ASSERT_OK(neap_session_evaluate(reference, &b));
    if (!(fabs(a.loss - b.loss) <= 2e-4 * fabs(b.loss))) print_error("%s: evaluation %g and %g\n", name, a.loss, b.loss);
    assert_true(fabs(a.loss - b.loss) <= 2e-4 * fabs(b.loss));
    ASSERT_OK(neap_session_step(fast, 0.01f, &a));
    ASSERT_OK(neap_session_step(reference, 0.01f, &b));
    if (!(fabs(a.loss - b.loss) <= 1e-4 * fabs(b.loss))) print_error("%s: loss %g and %g\n", name, a.loss, b.loss);
    assert_true(fabs(a.loss - b.loss) <= 1e-4 * fabs(b.loss));
    assert_int_equal(a.correct, b.correct);
    /* AdamW divides by the size of a gradient, however small: what is nearly 0 may go either way. */
    compare_variables(fast, reference, options.optimizer == NEAP_ADAMW ? 2e-2 : 2e-4, name);
  }
  neap_session_free(fast);
  neap_session_free(reference);
}

static void test_values(void **state) {
  (void)state;
  for (int i = 0; i < OPERATOR_CASES; i++) {
    neap_graph *graph;
    ASSERT_OK(build_case(&operator_cases[i], i % 2 == 0 ? 0 : 0.1f, &graph));
    compare_backends(graph, sgd, operator_cases[i].name);
    neap_graph_free(graph);
  }
}

static void test_optimizers(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
    neap_graph *graph;
    ASSERT_OK(build_case(&operator_cases[0], 0, &graph));
    compare_backends(graph, optimizers[i], "optimizer");
    neap_graph_free(graph);
  }
}

/* Loss of the batch in training mode; nothing changes but the running statistics, which training does not read. */
static double loss_of(neap_session *s) {
  neap_step_result r;
  s->steps = 0; /* the same dropout each time */
  ASSERT_OK(neap_session_step(s, 0, &r));
  return r.loss;
}

/* A few elements of a variable: (loss(w + h) - loss(w - h)) / 2h in double. */
static void check_gradient(neap_session *s, int32_t index, const char *name) {
  static const float rate = 1024; /* the step is the gradient times this: exact, and large against what f32 rounds off */
  neap_variable v;
  ASSERT_OK(neap_session_variable(s, index, &v));
  if (v.kind != 0) return;
  float *before = malloc((size_t)v.elements * sizeof *before), *after = malloc((size_t)v.elements * sizeof *after);
  float *all[64];
  const int32_t count = neap_session_variable_count(s);
  assert_true(count <= 64);
  for (int32_t i = 0; i < count; i++) { /* a step moves every variable */
    neap_variable other;
    ASSERT_OK(neap_session_variable(s, i, &other));
    all[i] = malloc((size_t)other.elements * sizeof(float));
    ASSERT_OK(neap_session_read(s, i, all[i]));
  }
  neap_step_result r;
  s->steps = 0;
  ASSERT_OK(neap_session_read(s, index, before));
  ASSERT_OK(neap_session_step(s, rate, &r));
  ASSERT_OK(neap_session_read(s, index, after));
  for (int32_t i = 0; i < count; i++) {
    ASSERT_OK(neap_session_write(s, i, all[i]));
    free(all[i]);
  }
  for (int64_t k = 0; k < v.elements; k += v.elements / 5 + 1) {
    const double gradient = ((double)before[k] - (double)after[k]) / (double)rate;
    const float middle = before[k], up = middle + 2e-6f, down = middle - 2e-6f;
    before[k] = up;
    ASSERT_OK(neap_session_write(s, index, before));
    const double above = loss_of(s);
    before[k] = down;
    ASSERT_OK(neap_session_write(s, index, before));
    const double below = loss_of(s);
    before[k] = middle;
    ASSERT_OK(neap_session_write(s, index, before));
    const double difference = (above - below) / ((double)up - (double)down);
    const bool good = fabs(gradient - difference) <= 1e-4 * fabs(difference) + 1e-6;
    if (!good) print_error("%s: %s[%lld]: gradient %.9g, difference %.9g\n", name, v.name, (long long)k, gradient, difference);
    assert_true(good);
  }
  free(before);
  free(after);
}

static void test_gradients(void **state) {
  (void)state;
  for (int i = 0; i < OPERATOR_CASES; i++) {
    neap_graph *graph;
    ASSERT_OK(build_case(&operator_cases[i], 0.05f, &graph));
    neap_session *s = open_session(graph, (neap_session_options){.backend = NEAP_REFERENCE, .seed = 1});
    fill_inputs(s, 2, CLASSES);
    for (int32_t k = 0; k < neap_session_variable_count(s); k++) check_gradient(s, k, operator_cases[i].name);
    neap_session_free(s);
    neap_graph_free(graph);
  }
}

/* A plan in which no two instances share a byte: nothing is in place, everything lies elsewhere. */
static void write_spread_plan(const neap_graph *graph, const char *path) {
  neap_step *step;
  neap_plan *plan, *spread;
  neap_session_options options = sgd;
  options.threads = 2;
  ASSERT_OK(neap_step_from_graph(graph, &options, &step));
  ASSERT_OK(neap_plan_make(step, NEAP_BUDGET_MAX, "keep-all", NULL, &plan));
  struct neap_plan draft = *plan;
  struct placed *placed = malloc(((size_t)plan->instance_count + 1) * sizeof *placed);
  uint64_t end = 0;
  for (int32_t i = plan->instance_count; i-- > 0;) {
    placed[i] = plan->instances[i];
    placed[i].offset = end;
    end += placed[i].bytes;
  }
  draft.instances = placed;
  draft.arena_bytes = end;
  ASSERT_OK(plan_create(&draft, &spread));
  ASSERT_OK(neap_plan_write(spread, path));
  free(placed);
  neap_plan_free(spread);
  neap_plan_free(plan);
  neap_step_free(step);
}

static void test_same_bits(void **state) {
  (void)state;
  char path[64];
  snprintf(path, sizeof path, "/tmp/neap-test-%ld.json", (long)getpid());
  for (int i = 0; i < OPERATOR_CASES; i++) {
    neap_graph *graph;
    ASSERT_OK(build_case(&operator_cases[i], 0, &graph));
    write_spread_plan(graph, path);
    neap_session_options options = sgd;
    neap_session *usual = open_session(graph, options), *again = open_session(graph, options);
    options.plan_file = path;
    neap_session *spread = open_session(graph, options);
    const struct run_result a = run_steps(usual, 3, 0.05f, CLASSES), b = run_steps(again, 3, 0.05f, CLASSES),
                            c = run_steps(spread, 3, 0.05f, CLASSES);
    assert_string_equal(a.digest, b.digest);
    assert_string_equal(a.digest, c.digest);
    neap_session_free(usual);
    neap_session_free(again);
    neap_session_free(spread);
    neap_graph_free(graph);
  }
  remove(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_optimizers), cmocka_unit_test(test_gradients),
                                     cmocka_unit_test(test_same_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
