/* Networks that are not chains: a training step gives what the reference backend gives, and the same bits
 * under plans that recompute. */
#include <math.h>

#include "effort.h"
#include "session_help.h"

static const struct model_case {
  const char *name;
  neap_model_options shape;
  double tolerance; /* of a step against the reference */
  bool large;       /* left out under sanitizers */
} models[] = {
    {"densenet121", {.batch = 2, .image = {3, 64, 64}, .classes = 10}, 0.1, true},
    {"googlenet", {.batch = 2, .image = {3, 64, 64}, .classes = 10}, 0.02, false},
    {"googlenet-lrn", {.batch = 2, .image = {3, 64, 64}, .classes = 10}, 1e-5, false},
    {"inception-v3", {.batch = 3, .image = {3, 75, 139}, .classes = 10}, 0.1, true},
    {"mobilenet-v2", {.batch = 2, .image = {3, 64, 64}, .classes = 10}, 1e-3, false},
};
enum { MODELS = sizeof models / sizeof *models };

/* Without Winograd, whose workspaces would be larger than all values of images so small. */
static neap_status open_with(const neap_graph *graph, neap_backend backend, const char *planner,
                             uint64_t budget, uint64_t *smallest, neap_session **s) {
  const neap_session_options options = {.budget = budget,
                                        .planner = planner,
                                        .backend = backend,
                                        .convolution = NEAP_CONV_DIRECT,
                                        .momentum = 0.9f,
                                        .threads = 1,
                                        .seed = 1};
  return neap_session_create(graph, &options, smallest, s);
}

/* ---- Against the reference ---- */

/* How far two sessions' variables are apart, by how far the first has come from `before`: Euclidean, over all
 * together. Deep networks whose last batch norms have a handful of values magnify what rounds at the front a
 * thousandfold and more; a wrong value anywhere they magnify to something like 1. */
static double distance(const neap_session *before, const neap_session *a, const neap_session *b) {
  double moved = 0, apart = 0;
  for (int32_t v = 0; v < neap_session_variable_count(before); v++) {
    int64_t elements;
    float *x = read_variable(before, v, &elements), *y = read_variable(a, v, &elements),
          *z = read_variable(b, v, &elements);
    for (int64_t i = 0; i < elements; i++) {
      moved += pow((double)y[i] - (double)x[i], 2);
      apart += pow((double)y[i] - (double)z[i], 2);
    }
    free(x);
    free(y);
    free(z);
  }
  assert_true(moved > 0);
  return sqrt(apart / moved);
}

static void test_step_against_reference(void **state) {
  (void)state;
  if (sanitized()) skip(); /* plain loops over doubles: minutes */
  for (int m = 0; m < (quick_pass() ? 1 : MODELS); m++) {
    neap_graph *graph;
    neap_session *before, *reference, *fast;
    neap_step_result expected, got;
    ASSERT_OK(build_named(models[m].name, &models[m].shape, &graph));
    ASSERT_OK(open_with(graph, NEAP_REFERENCE, "keep-all", NEAP_BUDGET_MAX, NULL, &reference));
    ASSERT_OK(open_with(graph, NEAP_CPU, "keep-all", NEAP_BUDGET_MAX, NULL, &before));
    ASSERT_OK(open_with(graph, NEAP_CPU, "keep-all", NEAP_BUDGET_MAX, NULL, &fast));
    fill_inputs(reference, 1, 10);
    fill_inputs(fast, 1, 10);
    ASSERT_OK(neap_session_step(reference, 1, &expected));
    ASSERT_OK(neap_session_step(fast, 1, &got));
    const double error = distance(before, reference, fast);
    if (!(error <= models[m].tolerance) || !(fabs(expected.loss - got.loss) <= 1e-4 * expected.loss))
      fail_msg("%s: variables are off by %g, the loss is %g, not %g", models[m].name, error, got.loss,
               expected.loss);
    assert_int_equal(got.correct, expected.correct);
    neap_session_free(before);
    neap_session_free(reference);
    neap_session_free(fast);
    neap_graph_free(graph);
  }
}

/* ---- Under several plans ---- */

/* Where the budget cannot be met, which depends on the workspaces that the processor's kernels take: within
 * the smallest that can. */
static struct run_result run_within(const neap_graph *graph, const char *planner, uint64_t budget) {
  neap_session *s;
  uint64_t smallest;
  neap_status status = open_with(graph, NEAP_CPU, planner, budget, &smallest, &s);
  if (status == NEAP_OVER_BUDGET) status = open_with(graph, NEAP_CPU, planner, smallest, &smallest, &s);
  ASSERT_OK(status);
  const struct run_result r = run_steps(s, 2, 0.05f, 10);
  neap_session_free(s);
  return r;
}

static void test_plans_give_the_same_bits(void **state) {
  (void)state;
  static const char *const planners[] = {"chen-greedy", "evict"};
  for (int m = 0; m < MODELS; m++) {
    if (models[m].large && quick_pass()) continue;
    neap_graph *graph;
    ASSERT_OK(build_named(models[m].name, &models[m].shape, &graph));
    const struct run_result kept = run_within(graph, "keep-all", NEAP_BUDGET_MAX);
    const uint64_t budget = kept.memory.resident + kept.memory.arena / 4 * 3;
    for (size_t p = 0; p < sizeof planners / sizeof *planners; p++) {
      const struct run_result r = run_within(graph, planners[p], budget);
      assert_true(r.memory.cost > r.memory.base_cost); /* something is recomputed */
      assert_string_equal(r.digest, kept.digest);
      assert_true(r.last.loss == kept.last.loss);
    }
    neap_graph_free(graph);
  }
}

int run_test_models(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_step_against_reference),
                                     cmocka_unit_test(test_plans_give_the_same_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
