/* What no plan can do better than, against exact optima on small random steps of all families: the bounds lie
 * below every optimum, and often at it. */
#include "effort.h"
#include "optima.h"
#include "plan/cost_bound.h"
#include "plan/memory_bound.h"
#include "step/lower_bound.h"
#include "step_families.h"

/* Sanitizers make everything twenty times slower: fewer steps then. */
/* All families in turn. */
static neap_step *make(int i, int32_t nodes, bool plain) {
  const struct step_shape shape = {.family = (enum step_family)(i % STEP_FAMILY_COUNT),
                                   .nodes = nodes,
                                   .seed = (uint32_t)i + 1,
                                   .plain = plain};
  neap_step *step = NULL;
  expect_done(step_of_family(&shape, &step));
  return step;
}

static uint64_t memory_bound(const neap_step *step) {
  uint64_t bytes = 0;
  expect_done(plan_memory_bound(step, &bytes));
  return bytes;
}

/* Where all nodes may be repeated and nothing is updated the bound is the optimum. */
static void test_memory(void **state) {
  (void)state;
  int exact[2] = {0}, simple[2] = {0}, count[2] = {0};
  for (int i = 0; i < shorten(3000); i++) {
    const bool plain = i % 8 < 2;
    neap_step *step = make(i, 5 + i % 8, plain);
    const uint64_t bound = memory_bound(step), least = least_peak(step);
    assert_true(bound <= least);
    assert_true(bound >= plan_lower_bound(step));
    count[plain]++;
    exact[plain] += bound == least;
    simple[plain] += plan_lower_bound(step) == least;
    neap_step_free(step);
  }
  for (int plain = 0; plain < 2; plain++)
    print_message("%s: the bound is the least peak for %d of %d steps, the largest node for %d\n",
                  plain ? "plain" : "others", exact[plain], count[plain], simple[plain]);
  assert_int_equal(exact[true], count[true]);
  assert_true(exact[false] > simple[false]);
}

/* The least cost within the budget; there is such a schedule. */
static double least_cost(const neap_step *step, uint64_t budget) {
  struct exhaustive_result result = {0};
  expect_done(exhaustive_search(step, budget, EXHAUSTIVE_LEAST_COST, STATE_LIMIT, &result));
  schedule_free(&result.schedule);
  assert_true(result.proven && result.feasible);
  return result.cost;
}

static uint64_t keep_all_peak(const neap_step *step) {
  neap_plan *plan;
  neap_plan_info info;
  expect_done(neap_plan_make(step, NEAP_BUDGET_MAX, "keep-all", NULL, &plan));
  neap_plan_describe(plan, &info);
  assert_true(info.cost_lower_bound == info.cost);
  neap_plan_free(plan);
  return info.peak_bytes;
}

static void test_cost(void **state) {
  (void)state;
  int repeats = 0, seen = 0, exact = 0;
  double gap = 0, base_gap = 0;
  for (int i = 0; i < shorten(1000); i++) {
    neap_step *step = make(i, 5 + i % 8, i % 8 < 2);
    const uint64_t least = least_peak(step), most = keep_all_peak(step);
    for (int part = 0; part <= 3; part++) {
      const uint64_t budget = least + (most - least) * (uint64_t)part / 3;
      const double best = least_cost(step, budget);
      double bound = 0;
      expect_done(plan_cost_bound(step, budget, &bound));
      assert_true(bound <= best);
      assert_true(bound >= step->base_cost);
      if (best == step->base_cost) continue;
      repeats++;
      seen += bound > step->base_cost;
      exact += bound > best * (1 - 1e-6);
      gap += best / bound - 1;
      base_gap += best / step->base_cost - 1;
    }
    neap_step_free(step);
  }
  print_message(
      "of %d budgets with repeats the bound sees %d, %d exactly; the least cost is %.2f %% above it, "
      "%.2f %% above no repeats\n",
      repeats, seen, exact, 100 * gap / repeats, 100 * base_gap / repeats);
  assert_true(3 * seen > 2 * repeats);
  assert_true(gap < 0.7 * base_gap);
}

/* A chain there and back whose nodes cost this much; the last of the way there may not run twice. */
static neap_step *chain_of_cost(double cost) {
  enum { LENGTH = 6, NODES = 2 * LENGTH };
  struct step_tensor tensors[NODES];
  struct step_node nodes[NODES];
  int32_t inputs[NODES][2], outputs[NODES];
  for (int32_t v = 0; v < NODES; v++) {
    tensors[v] =
        (struct step_tensor){.name = "", .bytes = v == 0 ? 64 : (uint64_t)1 << 40, .role = NEAP_ROLE_VALUE};
    inputs[v][0] = v - 1;
    inputs[v][1] = NODES - 1 - v;
    outputs[v] = v;
    nodes[v] = (struct step_node){.name = "",
                                  .op = "",
                                  .cost = cost,
                                  .inputs = inputs[v],
                                  .input_count = v == 0       ? 0
                                                 : v < LENGTH ? 1
                                                              : 2,
                                  .outputs = &outputs[v],
                                  .output_count = 1,
                                  .repeatable = v != LENGTH - 2};
  }
  const struct neap_step draft = {.name = "",
                                  .tensor_count = NODES,
                                  .tensors = tensors,
                                  .node_count = NODES,
                                  .nodes = nodes,
                                  .output_count = 1,
                                  .outputs = &outputs[NODES - 1]};
  neap_step *step = NULL;
  expect_done(step_create(&draft, &step));
  return step;
}

/* At both ends of the numbers too. */
static void test_extreme_costs(void **state) {
  (void)state;
  static const double costs[] = {1, 5e-324, 1e-300, 1e-290, 1e280, 1e298};
  for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
    neap_step *step = chain_of_cost(costs[i]);
    const uint64_t least = least_peak(step);
    const double best = least_cost(step, least);
    double bound = 0;
    expect_done(plan_cost_bound(step, least, &bound));
    assert_true(best > step->base_cost);
    assert_true(bound >= step->base_cost && bound <= best);
    if (i == 0) assert_true(bound > step->base_cost);
    neap_step_free(step);
  }
}

int run_test_bounds(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory), cmocka_unit_test(test_cost),
                                     cmocka_unit_test(test_extreme_costs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
