/* Networks that classify pixels: a step on the cpu backend is one on the reference backend, every budget
 * gives the same bits, and on shapes that are drawn they learn. */
#include <math.h>

#include "effort.h"
#include "session_help.h"

enum { CLASSES = 3 };

static const struct model_case {
  const char *name;
  neap_model_options shape;
  bool large; /* left out under sanitizers */
} models[] = {
    {"unet-4", {.batch = 1, .image = {1, 188, 204}, .classes = CLASSES}, false},
    {"pspnet-18", {.batch = 2, .image = {3, 41, 41}, .classes = CLASSES}, true},
};
enum { MODELS = sizeof models / sizeof *models };

static neap_graph *build(const struct model_case *c) {
  neap_graph *graph;
  ASSERT_OK(build_named(c->name, &c->shape, &graph));
  return graph;
}

static neap_session *open_session(const neap_graph *graph, neap_backend backend, uint64_t budget) {
  neap_session *s = NULL;
  const neap_session_options options = {.budget = budget,
                                        .planner = quick_pass() ? "evict" : NULL, /* which plans at once */
                                        .backend = backend,
                                        .momentum = 0.9f,
                                        .threads = 2,
                                        .seed = 5};
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  return s;
}

/* Images of noise whose brightness differs: means over whole images must not be equal up to rounding, or
 * batch norm over them, and ReLU behind it, decide by the last bit. */
static void fill(neap_session *s, const neap_model_options *shape) {
  fill_inputs(s, 1, CLASSES);
  float *image = neap_session_input(s, "image");
  const int64_t each = shape->image[0] * shape->image[1] * shape->image[2];
  for (int64_t i = 0; i < shape->batch * each; i++) image[i] += (float)(i / each);
}

/* Momentum after the first step is the gradient. Differences by the size of all gradients: of a million
 * values a few are so near 0 that ReLU takes another side, which is some thousandths of a gradient. */
static double gradient_error(const neap_session *a, const neap_session *b) {
  double squares = 0, errors = 0;
  for (int32_t i = 0; i < neap_session_variable_count(a); i++) {
    neap_variable variable;
    int64_t elements;
    ASSERT_OK(neap_session_variable(a, i, &variable));
    if (variable.kind != NEAP_VARIABLE_STATE) continue;
    float *x = read_variable(a, i, &elements), *y = read_variable(b, i, &elements);
    for (int64_t k = 0; k < elements; k++) {
      squares += (double)y[k] * (double)y[k];
      errors += pow((double)x[k] - (double)y[k], 2);
    }
    free(x);
    free(y);
  }
  assert_true(squares > 1e-6);
  return sqrt(errors / squares);
}

static void test_against_reference(void **state) {
  (void)state;
  for (int m = 0; m < MODELS; m++) {
    if (models[m].large && quick_pass()) continue;
    neap_graph *graph = build(&models[m]);
    neap_session *fast = open_session(graph, NEAP_CPU, NEAP_BUDGET_MAX),
                 *reference = open_session(graph, NEAP_REFERENCE, NEAP_BUDGET_MAX);
    neap_step_result a, b;
    fill(fast, &models[m].shape);
    fill(reference, &models[m].shape);
    ASSERT_OK(neap_session_step(fast, 0.01f, &a));
    ASSERT_OK(neap_session_step(reference, 0.01f, &b));
    const double error = gradient_error(fast, reference);
    if (!(fabs(a.loss - b.loss) <= 1e-5 * b.loss && error <= 2e-2))
      fail_msg("%s: loss %.9g and %.9g, gradients differ by %g", models[m].name, a.loss, b.loss, error);
    neap_session_free(fast);
    neap_session_free(reference);
    neap_graph_free(graph);
  }
}

static struct run_result run_within(const neap_graph *graph, uint64_t budget) {
  neap_session *s = open_session(graph, NEAP_CPU, budget);
  const struct run_result r = run_steps(s, 2, 0.01f, CLASSES);
  neap_session_free(s);
  return r;
}

static void test_every_budget_gives_the_same_bits(void **state) {
  (void)state;
  for (int m = 0; m < MODELS; m++) {
    if (models[m].large && quick_pass()) continue;
    neap_graph *graph = build(&models[m]);
    const struct run_result all = run_within(graph, NEAP_BUDGET_MAX),
                            least = run_within(graph, NEAP_BUDGET_MIN);
    assert_true(least.memory.planned_peak < all.memory.planned_peak);
    const uint64_t between = (least.memory.planned_peak + all.memory.planned_peak) / 2;
    assert_string_equal(least.digest, all.digest);
    assert_string_equal(run_within(graph, between).digest, all.digest);
    neap_graph_free(graph);
  }
}

int run_test_pixel_models(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_reference),
                                     cmocka_unit_test(test_every_budget_gives_the_same_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
