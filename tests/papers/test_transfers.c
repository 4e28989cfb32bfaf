/* The planners that move values elsewhere, on random steps with restorers: plans are valid, fit, cost what
 * clocks of the test's own say, and are never cheaper than the least, nor than auto's. */
#include "effort.h"
#include "random_step.h"
#include "restoring_oracle.h"
#include "restoring_step.h"

#include "plan/planners.h"
#include "step/lower_bound.h"

/* The checker says the bytes of the values whose stores and restorers run. */
static void expect_bytes(const neap_step *step, const neap_plan *plan) {
  neap_check_result check;
  uint64_t stored = 0, restored = 0;
  ASSERT_OK(neap_plan_check(step, plan, &check));
  for (int32_t v = 0; v < step->required_count; v++)
    for (int32_t p = 0; p < plan->length && step->store[v] >= 0; p++)
      for (int32_t i = 0; i < step->nodes[v].output_count; i++) {
        const uint64_t bytes = step->tensors[step->nodes[v].outputs[i]].bytes;
        stored += plan->schedule[p] == step->store[v] ? bytes : 0;
        restored += plan->schedule[p] == step->restorer[v] ? bytes : 0;
      }
  assert_int_equal(check.stored_bytes, stored);
  assert_int_equal(check.restored_bytes, restored);
}

static neap_plan *plan_of(const neap_step *step, uint64_t budget, const char *planner) {
  neap_plan *plan = NULL;
  const neap_status status = neap_plan_make(step, budget, planner, NULL, &plan);
  if (status != NEAP_OVER_BUDGET && status != NEAP_OK) fail_msg("%s: %s", planner, neap_error_message());
  if (status != NEAP_OK) return NULL;
  expect_valid(step, plan);
  expect_bytes(step, plan);
  assert_true(plan_bytes(plan) <= budget);
  assert_true(fabs(clocked_cost(step, plan->schedule, plan->length) - plan->cost) <= 1e-9 * plan->cost);
  return plan;
}

static uint64_t keep_all_bytes(const neap_step *step) {
  uint64_t all = 0;
  ASSERT_OK(neap_step_keep_all_bytes(step, &all));
  return all;
}

static int32_t count_runs(const neap_plan *plan, int32_t first, int32_t end) {
  int32_t count = 0;
  for (int32_t p = 0; p < plan->length; p++) count += plan->schedule[p] >= first && plan->schedule[p] < end;
  return count;
}

/* Nothing is recomputed, in the step's own order. */
static void expect_order(const neap_step *step, const neap_plan *plan) {
  int32_t next = 0;
  for (int32_t p = 0; p < plan->length; p++)
    if (plan->schedule[p] < step->required_count) assert_int_equal(plan->schedule[p], next++);
  assert_int_equal(next, step->required_count);
}

/* ---- TeraIO ---- */

static neap_step *step_at(int i) {
  const int transfers = i / 2 % TRANSFERS_COUNT;
  return i % 2 ? restoring_graph(4 + i % 11, transfers, (uint32_t)i + 1)
               : restoring_chain(3 + i % 4, transfers, (uint32_t)i + 1);
}

/* Plans random steps within random budgets. */
static void expect_plans(const char *planner, bool chains_alone) {
  int met = 0, stored = 0, waiting = 0;
  uint32_t random = 3;
  const int rounds = shorten(200);
  for (int i = 0; i < rounds; i++) {
    neap_step *step = step_at(chains_alone ? 2 * i : i);
    const uint64_t least = plan_lower_bound(step), all = keep_all_bytes(step),
                   budget = least + draw(&random, (uint32_t)(all - least) + 1);
    neap_plan *plan = plan_of(step, budget, planner);
    if (plan != NULL) {
      neap_plan *best = plan_of(step, budget, "auto");
      if (strcmp(planner, "teraio") == 0) expect_order(step, plan);
      assert_true(best != NULL && best->cost <= plan->cost * (1 + 1e-9));
      assert_true(budget < all || plan->cost == step->base_cost);
      if (chains_alone || i % 2 == 0) {
        int32_t schedule[4 * RESTORING_LIMIT], length;
        const uint64_t limit = budget - step->resident_bytes;
        assert_true(oracle_least(step, limit, plan->cost, schedule, &length) >= 0);
      }
      met++;
      stored += count_runs(plan, step->required_count, step->node_count) > 0;
      waiting += plan->cost > step->base_cost;
      neap_plan_free(best);
    }
    neap_plan_free(plan);
    neap_step_free(step);
  }
  print_message("%s meets %d of %d budgets, %d plans store, %d cost more\n", planner, met, rounds, stored,
                waiting);
  assert_true(met > rounds / 2 && stored > rounds / 6 && waiting > rounds / 10);
}

static void test_teraio(void **state) {
  (void)state;
  expect_plans("teraio", false);
}

static void test_pofo(void **state) {
  (void)state;
  expect_plans("pofo", true);
}

/* Free transfers: each budget that it meets costs nothing, and it meets what no layout forbids. A chain
 * whose values are stored needs no more than its largest node. */
static void test_free_transfers(void **state) {
  (void)state; /* of teraio: POFO's transfers of a stage are all or none */
  const int rounds = shorten(100);
  int met = 0;
  for (int i = 0; i < rounds; i++) {
    neap_step *step = restoring_chain(3 + i % 6, TRANSFERS_FREE, (uint32_t)i + 50);
    neap_plan *plan = plan_of(step, plan_lower_bound(step) + 4, "teraio");
    met += plan != NULL;
    if (plan != NULL) assert_true(plan->cost == step->base_cost);
    neap_plan_free(plan);
    neap_step_free(step);
  }
  print_message("teraio meets %d of %d budgets just above the largest node\n", met, rounds);
  assert_true(met > rounds * 3 / 4);
}

/* Without optional nodes everything is kept, or nothing is found. */
static void test_plain(void **state) {
  (void)state;
  for (int i = 0; i < shorten(50); i++) {
    neap_step *step = random_step((enum family)(i % FAMILY_COUNT), 3 + i % 20, (uint32_t)i + 1);
    const uint64_t all = keep_all_bytes(step);
    neap_plan *plan = plan_of(step, all, "teraio");
    assert_non_null(plan);
    assert_true(plan->cost == step->base_cost);
    neap_plan_free(plan);
    plan = plan_of(step, all - 1, "teraio");
    if (plan != NULL) expect_order(step, plan); /* in a smaller arena */
    neap_plan_free(plan);
    neap_step_free(step);
  }
}

/* By hand. Nodes of cost 4: a (3 bytes), b (3) and c (2) of the input; d (6) of c; e (1) of d; then 1 byte of
 * a, b and e. At d 14 bytes live, at e 13, elsewhere at most 8. Moving a or b removes the same bytes; one's
 * transfers cost 1 each, the other's 2, so the cheaper goes. It is written beside the node behind it and read
 * beside e, so with room for 13 nothing waits. With room for 11 it must be away at e, too, and is read while
 * the last node waits. */
static void test_by_hand(void **state) {
  (void)state;
  static const uint64_t bytes[] = {3, 3, 2, 6, 1, 1};
  static const int32_t reads[][3] = {{0}, {0}, {0}, {3}, {4}, {1, 2, 5}};
  for (int32_t cheap = 0; cheap < 2; cheap++) {
    static struct restoring_draft d;
    memset(&d, 0, sizeof d);
    restoring_tensor(&d, 0, NEAP_ROLE_INPUT);
    for (int32_t v = 0; v < 6; v++) {
      memcpy(d.reads[v], reads[v], sizeof reads[v]);
      d.makes[v][0] = restoring_tensor(&d, bytes[v], NEAP_ROLE_VALUE);
      restoring_node(&d, v == 5 ? 3 : 1, 4)->output_count = 1;
    }
    for (int32_t v = 0; v < 2; v++) restoring_pair(&d, v, v == cheap ? 1 : 2);
    d.outputs[d.step.output_count++] = 6;
    neap_step *step = restoring_made(&d);
    for (uint64_t budget = 11; budget <= 14; budget++) {
      neap_plan *plan = plan_of(step, budget, "teraio");
      assert_non_null(plan);
      assert_true(plan->cost == (budget < 13 ? 25 : 24));
      const int32_t moved = budget < 14;
      assert_int_equal(count_runs(plan, step->store[cheap], step->store[cheap] + 1), moved);
      assert_int_equal(count_runs(plan, step->restorer[cheap], step->restorer[cheap] + 1), moved);
      assert_int_equal(count_runs(plan, 6, 10), 2 * moved);
      neap_plan_free(plan);
    }
    neap_step_free(step);
  }
}

int run_test_transfers(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_teraio), cmocka_unit_test(test_pofo),    cmocka_unit_test(test_free_transfers),
      cmocka_unit_test(test_plain),  cmocka_unit_test(test_by_hand),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
