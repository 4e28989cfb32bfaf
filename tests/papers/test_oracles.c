/* Planners against exact optima on small random steps of all families: no plan beats the least cost or the
 * least peak, the lower bound lies below every plan, and the 0-1 program finds exactly the best schedule of
 * its shape. The exact search itself stands against plain enumeration. */
#include "effort.h"
#include "optima.h"
#include "papers/checkmate.h"
#include "plan/planners.h"
#include "step/lower_bound.h"
#include "step/plan.h"
#include "step_families.h"

#if defined(__SANITIZE_ADDRESS__)
/* Presolving some programs, CBC loses some kilobytes (libCoinUtils, implied_free_action::presolve). */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:implied_free_action"; }
#endif

/* Sanitizers make everything twenty times slower: fewer steps then. */
/* All families in turn, one step in four plain; every other one of odd sizes. */
static neap_step *make(int i, int32_t nodes) {
  const struct step_shape shape = {.family = (enum step_family)(i % STEP_FAMILY_COUNT),
                                   .nodes = nodes,
                                   .seed = (uint32_t)i + 1,
                                   .plain = i / STEP_FAMILY_COUNT % 4 == 0,
                                   .odd = i / STEP_FAMILY_COUNT % 2 == 1};
  neap_step *step = NULL;
  expect_done(step_of_family(&shape, &step));
  return step;
}

static struct simulation score_of(const neap_step *step, const struct schedule *schedule) {
  struct simulation score;
  expect_done(simulate(step, schedule->nodes.data, (int32_t)schedule->nodes.count, &score));
  return score;
}

static uint64_t keep_all_peak(const neap_step *step) {
  struct schedule order = {0};
  for (int32_t v = 0; v < step->node_count; v++) expect_done(vector_push(&order.nodes, v));
  const struct simulation score = score_of(step, &order);
  schedule_free(&order);
  return score.peak_bytes;
}

/* With its layout. */
static uint64_t keep_all_bytes(const neap_step *step) {
  uint64_t bytes = 0;
  expect_done(neap_step_keep_all_bytes(step, &bytes));
  return bytes;
}

/* The least cost within a budget; infinite: none. What is found is what the simulator says it is. */
static double optimum(const neap_step *step, uint64_t budget, enum exhaustive_kind kind) {
  struct exhaustive_result result = {0};
  expect_done(exhaustive_search(step, budget, kind, STATE_LIMIT, &result));
  assert_true(result.proven);
  const double cost = result.feasible ? result.cost : INFINITY;
  if (result.feasible) {
    const struct simulation score = score_of(step, &result.schedule);
    assert_true(score.peak_bytes <= budget);
    assert_true(score.cost == cost);
  }
  schedule_free(&result.schedule);
  return cost;
}

/* ---- The exact search against enumeration ---- */

struct enumeration {
  const neap_step *step;
  struct schedule prefix;
  int32_t limit;
  uint64_t budget, least_peak;
  double best_cost;
};

static void enumerate(struct enumeration *e) {
  const neap_step *step = e->step;
  const int32_t *nodes = e->prefix.nodes.data;
  struct simulation score;
  if (simulate(step, nodes, (int32_t)e->prefix.nodes.count, &score) == NEAP_OK) {
    if (score.peak_bytes < e->least_peak) e->least_peak = score.peak_bytes;
    if (score.peak_bytes <= e->budget && score.cost < e->best_cost) e->best_cost = score.cost;
  }
  if ((int32_t)e->prefix.nodes.count == e->limit) return;
  for (int32_t v = 0; v < step->node_count; v++) {
    bool can = true; /* its inputs have been made; the simulator judges all else */
    for (int32_t i = 0; can && i < step->nodes[v].input_count; i++) {
      const int32_t producer = step->tensors[step->nodes[v].inputs[i]].producer;
      can = producer < 0;
      for (size_t k = 0; !can && k < e->prefix.nodes.count; k++) can = nodes[k] == producer;
    }
    if (!can) continue;
    expect_done(vector_push(&e->prefix.nodes, v));
    enumerate(e);
    e->prefix.nodes.count--;
    nodes = e->prefix.nodes.data;
  }
}

static void test_exact_search(void **state) {
  (void)state;
  int repeats = 0;
  for (int i = 0; i < shorten(120); i++) {
    neap_step *step = make(i, 4 + i % 2);
    struct enumeration e = {
        .step = step, .limit = step->node_count + 2, .least_peak = UINT64_MAX, .best_cost = INFINITY};
    const uint64_t least = least_peak(step);
    e.budget = (least + keep_all_peak(step)) / 2;
    enumerate(&e);
    /* Enumeration sees only schedules with two repeats at most. */
    assert_true(least <= e.least_peak);
    const double best = optimum(step, e.budget, EXHAUSTIVE_LEAST_COST);
    assert_true(best <= e.best_cost);
    struct exhaustive_result result = {0};
    expect_done(exhaustive_search(step, least, EXHAUSTIVE_LEAST_COST, STATE_LIMIT, &result));
    if ((int32_t)result.schedule.nodes.count <= e.limit) assert_int_equal(least, e.least_peak);
    if (e.budget == least || best == step->base_cost)
      assert_true(best == e.best_cost || best > step->base_cost);
    repeats += (int32_t)result.schedule.nodes.count > step->node_count;
    schedule_free(&result.schedule);
    vector_free(&e.prefix.nodes);
    neap_step_free(step);
  }
  assert_true(repeats > 0);
}

/* ---- Planners ---- */

/* A row by itself, without a layout. */
static bool check_row(const neap_step *step, const struct planner *planner, uint64_t budget, double best) {
  const struct planner_options options = {0};
  struct schedule schedule = {0};
  const neap_status status = planner->plan(step, budget, &options, &schedule);
  if (status != NEAP_OVER_BUDGET) expect_done(status);
  if (status == NEAP_OK) {
    const struct simulation score = score_of(step, &schedule);
    assert_true(score.peak_bytes <= budget);
    if (score.cost < best)
      print_error("%s: %.17g is below the optimum, %.17g\n", planner->name, score.cost, best);
    assert_true(score.cost >= best);
  }
  schedule_free(&schedule);
  return status == NEAP_OK;
}

/* "auto" as it is asked for, layout and all. Infinite: the budget is not met. */
static double check_auto(const neap_step *step, uint64_t budget, double best) {
  neap_plan *plan = NULL;
  neap_check_result result;
  const neap_status status = neap_plan_make(step, budget, "auto", NULL, &plan);
  if (status == NEAP_OVER_BUDGET) return INFINITY;
  expect_done(status);
  expect_done(neap_plan_check(step, plan, &result));
  assert_true(result.live_peak_bytes <= budget);
  assert_true(plan->resident_bytes + plan->arena_bytes <= budget);
  assert_true(result.cost == plan->cost); /* costs are whole numbers */
  assert_true(plan->cost >= best);
  const double cost = plan->cost;
  neap_plan_free(plan);
  for (int32_t p = 0; p < planner_count; p++) {
    if (planners[p].auto_limit < step->node_count) continue;
    const neap_status row = neap_plan_make(step, budget, planners[p].name, NULL, &plan);
    if (row == NEAP_OVER_BUDGET) continue;
    expect_done(row);
    assert_true(cost <= plan->cost);
    neap_plan_free(plan);
  }
  return cost;
}

static void test_planners(void **state) {
  (void)state;
  int possible = 0, met = 0, costlier = 0;
  double gap = 0;
  for (int i = 0; i < shorten(300); i++) {
    neap_step *step = make(i, 5 + i % 7);
    const uint64_t least = least_peak(step), most = keep_all_bytes(step);
    double cost_before = INFINITY;
    assert_true(plan_lower_bound(step) <= least);
    assert_true(optimum(step, least - 1, EXHAUSTIVE_LEAST_COST) == INFINITY);
    for (int part = 0; part <= 3; part++) {
      const uint64_t budget = least + (most - least) * (uint64_t)part / 3;
      const double best = optimum(step, budget, EXHAUSTIVE_LEAST_COST);
      assert_true(best < INFINITY);
      for (int32_t p = 0; p < planner_count; p++)
        if (planners[p].auto_limit >= step->node_count) check_row(step, &planners[p], budget, best);
      const double cost = check_auto(step, budget, best);
      costlier += cost > cost_before;
      cost_before = cost;
      possible++;
      met += cost < INFINITY;
      if (cost < INFINITY) gap += cost / best - 1;
    }
    assert_true(cost_before == step->base_cost);
    neap_step_free(step);
  }
  print_message(
      "auto meets %d of %d budgets that can be met, at %.2f %% above the least cost; %d cost more than a "
      "smaller one\n",
      met, possible, 100 * gap / met, costlier);
  assert_true(100 * met >= 98 * possible);
  assert_true(100 * costlier <= possible);
  assert_true(gap / met < 0.05);
}

/* ---- The 0-1 program ---- */

static void test_checkmate(void **state) {
  (void)state;
  int proofs = 0, repeats = 0;
  if (milp_missing() != NULL) skip();
  for (int i = 0; i < shorten(120); i++) {
    neap_step *step = make(i, 6 + i % 8);
    const uint64_t least = plan_lower_bound(step), most = keep_all_peak(step);
    for (int part = 0; part <= 2; part++) {
      const uint64_t budget = least + (most - least) * (uint64_t)part / 3;
      const double best = optimum(step, budget, EXHAUSTIVE_IN_ORDER);
      const struct milp_limits limits = {.nodes = 2000, .cutoff = INFINITY};
      struct schedule schedule = {0};
      bool proved;
      double bound;
      const neap_status status = checkmate_solve(step, budget, &limits, &schedule, &proved, &bound);
      if (status != NEAP_OVER_BUDGET) expect_done(status);
      const double cost = status == NEAP_OK ? score_of(step, &schedule).cost : INFINITY;
      if (status == NEAP_OK) assert_true(score_of(step, &schedule).peak_bytes <= budget);
      assert_true(cost >= best);
      if (best < INFINITY) assert_true(bound <= best * (1 + 1e-9));
      if (proved) assert_true(cost == best);
      proofs += proved;
      repeats += proved && best < INFINITY && best > step->base_cost;
      if (i % 4 == 0) {
        const double any_order = optimum(step, budget, EXHAUSTIVE_LEAST_COST);
        assert_true(any_order <= best);
        assert_int_equal(check_row(step, planner_find("checkmate"), budget, any_order), best < INFINITY);
      }
      schedule_free(&schedule);
    }
    neap_step_free(step);
  }
  assert_true(proofs >= 3 * shorten(120) * 9 / 10 && repeats > 0);
}

int run_test_oracles(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_exact_search), cmocka_unit_test(test_planners),
                                     cmocka_unit_test(test_checkmate)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
