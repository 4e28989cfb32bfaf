/* Everything that plans, on random steps: plans are valid, fit and cost what they say, by the independent
 * checker; the simulator, the checker and the layout agree on random schedules; small steps against
 * exhaustive search. */
#include "effort.h"
#include "random_step.h"

#include <math.h>

#include "layout/layout.h"
#include "plan/planners.h"
#include "step/lower_bound.h"

/* Sanitizers make everything twenty times slower: fewer steps then. */
static neap_step *make(int i, int32_t *forward) {
  *forward = 3 + i % 23;
  return random_step((enum family)(i % FAMILY_COUNT), *forward, (uint32_t)i + 1);
}

static uint64_t peak(const neap_plan *plan) {
  neap_plan_info info;
  neap_plan_describe(plan, &info);
  return info.peak_bytes;
}

static void test_plans(void **state) {
  (void)state;
  int met = 0;
  for (int i = 0; i < shorten(30); i++) {
    int32_t forward;
    neap_step *step = make(i, &forward);
    neap_plan *keep;
    assert_int_equal(neap_plan_make(step, NEAP_BUDGET_MAX, "keep-all", NULL, &keep), NEAP_OK);
    expect_valid(step, keep);
    const uint64_t lowest = plan_lower_bound(step), most = peak(keep);
    assert_true(lowest <= keep->live_peak_bytes);
    for (int part = 0; part <= 4; part++) {
      const uint64_t budget = lowest + (most - lowest) * (uint64_t)part / 4;
      double best = INFINITY;
      for (int32_t p = -1; p < planner_count; p++) { /* -1: auto, last */
        const int32_t row = p + 1 < planner_count ? p + 1 : -1;
        if (row >= 0 && planners[row].auto_limit < step->node_count) continue;
        neap_plan *plan = NULL;
        const neap_status status =
            neap_plan_make(step, budget, row < 0 ? "auto" : planners[row].name, NULL, &plan);
        if (status != NEAP_OK && status != NEAP_OVER_BUDGET)
          print_error("%s: %s\n", row < 0 ? "auto" : planners[row].name, neap_error_message());
        assert_true(status == NEAP_OK || status == NEAP_OVER_BUDGET);
        if (status == NEAP_OVER_BUDGET) continue;
        met++;
        expect_valid(step, plan);
        assert_true(peak(plan) <= budget);
        if (row < 0) assert_true(plan->cost <= best);
        if (row >= 0 && step->node_count <= planners[row].auto_limit) best = fmin(best, plan->cost);
        neap_plan_free(plan);
      }
    }
    neap_plan_free(keep);
    neap_step_free(step);
  }
  assert_true(met > shorten(450));
}

/* The order itself with nodes run again here and there, where that is allowed. */
static int32_t random_schedule(const neap_step *step, uint32_t *random, int32_t *schedule) {
  bool run[STEP_LIMIT] = {false}, updated[STEP_LIMIT] = {false};
  int32_t length = 0;
  for (int32_t v = 0; v < step->node_count; v++) {
    schedule[length++] = v;
    run[v] = true;
    for (int32_t i = 0; i < step->nodes[v].update_count; i++) updated[step->nodes[v].updates[i]] = true;
    for (int tries = (int)draw(random, 3); tries > 0; tries--) {
      const int32_t again = (int32_t)draw(random, (uint32_t)v + 1);
      bool can = run[again] && step->nodes[again].repeatable && step->nodes[again].update_count == 0;
      for (int32_t i = 0; i < step->nodes[again].input_count; i++)
        can = can && !updated[step->nodes[again].inputs[i]];
      if (can) schedule[length++] = again;
    }
  }
  return length;
}

static void test_random_schedules(void **state) {
  (void)state;
  for (int i = 0; i < shorten(1000); i++) {
    int32_t forward, count, schedule[4 * STEP_LIMIT];
    neap_step *step = make(i, &forward);
    uint32_t random = (uint32_t)i + 77;
    const int32_t length = random_schedule(step, &random, schedule);
    struct simulation score;
    struct instance *instances;
    struct layout layout;
    const struct layout_limits limits = {.closest = i % 2 == 0};
    assert_int_equal(simulate_instances(step, schedule, length, &score, &instances, &count), NEAP_OK);
    assert_int_equal(layout_instances(instances, count, &limits, &layout), NEAP_OK);
    struct placed *placed = calloc((size_t)count + 1, sizeof *placed);
    for (int32_t k = 0; k < count; k++)
      placed[k] =
          (struct placed){instances[k].at, instances[k].tensor, layout.offsets[k], instances[k].bytes};
    const struct neap_plan draft = {.graph = "random",
                                    .planner = "random",
                                    .length = length,
                                    .schedule = schedule,
                                    .instance_count = count,
                                    .instances = placed,
                                    .resident_bytes = step->resident_bytes,
                                    .live_peak_bytes = score.peak_bytes,
                                    .arena_bytes = layout.arena_bytes,
                                    .cost = score.cost,
                                    .base_cost = step->base_cost};
    neap_plan *plan;
    assert_int_equal(plan_create(&draft, &plan), NEAP_OK);
    expect_valid(step, plan);
    /* One instance moved onto another that lives with it, one reader before its producer, one byte less: all
     * refused. */
    neap_check_result result;
    struct neap_plan broken = *plan;
    broken.live_peak_bytes--;
    assert_int_equal(neap_plan_check(step, &broken, &result), NEAP_INVALID_PLAN);
    broken = *plan;
    broken.length--;
    assert_int_equal(neap_plan_check(step, &broken, &result), NEAP_INVALID_PLAN);
    assert_true(result.reason[0] != '\0');
    neap_plan_free(plan);
    free(placed);
    free(layout.offsets);
    free(instances);
    neap_step_free(step);
  }
}

/* ---- The least ---- */

/* The step as it is, in odd sizes of some bytes, or with all of them 64 times as large. */
static neap_step *make_large(int i, bool large) {
  int32_t forward;
  neap_step *step = make(i, &forward);
  const uint64_t factor = large ? 64 : 1;
  step->resident_bytes *= factor;
  for (int32_t t = 0; t < step->tensor_count; t++) step->tensors[t].bytes *= factor;
  for (int32_t v = 0; v < step->node_count; v++) step->nodes[v].workspace *= factor;
  return step;
}

/* A quick look gives a plan within the budget or says nothing of what would do; with room enough, a plan. */
static void expect_quick_looks(const neap_step *step, uint64_t least) {
  const neap_plan_options quick = {.quick = true};
  uint64_t everything;
  assert_int_equal(neap_step_keep_all_bytes(step, &everything), NEAP_OK);
  const uint64_t budgets[] = {plan_lower_bound(step) - 1, least, (least + everything) / 2, everything};
  for (int i = 0; i < 4; i++) {
    neap_plan *plan = NULL;
    uint64_t smallest = 1;
    const neap_status status = neap_plan_make_with(step, budgets[i], &quick, &smallest, &plan);
    assert_true(status == NEAP_OK ? i > 0 : status == NEAP_OVER_BUDGET && i < 3);
    assert_int_equal(smallest, 0);
    if (status == NEAP_OVER_BUDGET) continue;
    expect_valid(step, plan);
    assert_true(peak(plan) <= budgets[i]);
    neap_plan_free(plan);
  }
}

/* With little work, what is said to be the least is met too, and is the same each time. */
static void expect_brief_least(const neap_step *step, int64_t work) {
  const neap_plan_options brief = {.least_work = work};
  neap_plan *least = NULL, *same = NULL, *again = NULL;
  uint64_t smallest = 0;
  assert_int_equal(neap_plan_make_with(step, NEAP_BUDGET_MIN, &brief, NULL, &least), NEAP_OK);
  expect_valid(step, least);
  assert_int_equal(neap_plan_make_with(step, NEAP_BUDGET_MIN, &brief, NULL, &same), NEAP_OK);
  assert_int_equal(peak(same), peak(least));
  assert_true(same->cost == least->cost);
  assert_int_equal(neap_plan_make_with(step, peak(least), &brief, NULL, &again), NEAP_OK);
  expect_valid(step, again);
  assert_true(peak(again) <= peak(least));
  neap_plan_free(again);
  again = NULL;
  const uint64_t none = plan_lower_bound(step) - 1;
  assert_int_equal(neap_plan_make_with(step, none, &brief, &smallest, &again), NEAP_OVER_BUDGET);
  assert_int_equal(smallest, peak(least));
  neap_plan_free(least);
  neap_plan_free(same);
}

static void test_brief_least(void **state) {
  (void)state;
  for (int i = 0; i < 1 + shorten(4); i++) {
    neap_step *step = make_large(i, true);
    const neap_plan_options negative = {.least_work = -1};
    neap_plan *plan = NULL;
    expect_brief_least(step, 1);
    expect_brief_least(step, 1000000);
    assert_int_equal(neap_plan_make_with(step, NEAP_BUDGET_MIN, &negative, NULL, &plan),
                     NEAP_INVALID_ARGUMENT);
    neap_step_free(step);
  }
}

/* What is said to be the least is met when it is asked for, and said again for a byte less; it does not hang
 * on the unit in which sizes are counted. */
static void test_least(void **state) {
  (void)state;
  uint64_t sums[2] = {0, 0};
  for (int i = 0; i < 2 * (1 + shorten(4)); i++) {
    neap_step *step = make_large(i / 2, i % 2);
    neap_plan *least = NULL, *again = NULL, *less = NULL;
    uint64_t smallest = 0;
    assert_int_equal(neap_plan_make(step, NEAP_BUDGET_MIN, "auto", NULL, &least), NEAP_OK);
    expect_valid(step, least);
    assert_int_equal(neap_plan_make(step, peak(least), "auto", NULL, &again), NEAP_OK);
    expect_valid(step, again);
    assert_int_equal(peak(again), peak(least));
    assert_true(again->cost <= least->cost);
    assert_int_equal(neap_plan_make(step, peak(least) - 1, "auto", &smallest, &less), NEAP_OVER_BUDGET);
    assert_int_equal(smallest, peak(least));
    expect_quick_looks(step, peak(least));
    sums[i % 2] += peak(least);
    neap_plan_free(least);
    neap_plan_free(again);
    neap_step_free(step);
  }
  assert_true(sums[0] * 64 <= sums[1] + sums[1] / 100 && sums[0] * 64 >= sums[1] - sums[1] / 100);
}

/* ---- Exhaustive search ---- */

struct exhaustive {
  const neap_step *step;
  int32_t schedule[16], limit;
  uint64_t least_peak; /* over all schedules */
  double best_cost;    /* within the budget */
  uint64_t budget;
};

static void search(struct exhaustive *x, int32_t length) {
  struct simulation score;
  if (length >= x->step->node_count && simulate(x->step, x->schedule, length, &score) == NEAP_OK) {
    if (score.peak_bytes < x->least_peak) x->least_peak = score.peak_bytes;
    if (score.peak_bytes <= x->budget && score.cost < x->best_cost) x->best_cost = score.cost;
  }
  if (length == x->limit) return;
  for (int32_t v = 0; v < x->step->node_count; v++) {
    /* Only what could run now: its inputs have been made. */
    bool can = true;
    for (int32_t i = 0; can && i < x->step->nodes[v].input_count; i++) {
      const int32_t producer = x->step->tensors[x->step->nodes[v].inputs[i]].producer;
      bool made = producer < 0;
      for (int32_t k = 0; k < length; k++) made = made || x->schedule[k] == producer;
      can = made;
    }
    for (int32_t k = 0; can && k < length; k++) can = x->schedule[k] != v || x->step->nodes[v].repeatable;
    if (!can || (length > 0 && x->schedule[length - 1] == v)) continue;
    x->schedule[length] = v;
    search(x, length + 1);
  }
}

static void test_against_exhaustive_search(void **state) {
  (void)state;
  int met = 0, possible = 0;
  for (int i = 0; i < shorten(60); i++) {
    neap_step *step =
        random_step((enum family)(i % FAMILY_COUNT), 2 + i % 2, (uint32_t)i + 500); /* 5 to 8 nodes */
    struct exhaustive x = {
        .step = step, .limit = step->node_count + 1, .least_peak = UINT64_MAX, .best_cost = INFINITY};
    neap_plan *keep;
    assert_int_equal(neap_plan_make(step, NEAP_BUDGET_MAX, "keep-all", NULL, &keep), NEAP_OK);
    x.budget = (plan_lower_bound(step) + keep->live_peak_bytes) / 2;
    if (step->node_count <= 7) {
      search(&x, 0);
      assert_true(plan_lower_bound(step) <= x.least_peak); /* no schedule is below the bound */
      struct schedule found = {0};
      const struct planner_options options = {0};
      const neap_status status = planner_find("evict")->plan(step, x.budget, &options, &found);
      struct simulation score;
      if (status == NEAP_OK) {
        assert_int_equal(simulate(step, found.nodes.data, (int32_t)found.nodes.count, &score), NEAP_OK);
        assert_true(score.peak_bytes <= x.budget);
        if (found.nodes.count <= (size_t)x.limit) assert_true(score.cost >= x.best_cost);
      }
      possible += x.best_cost < INFINITY;
      met += status == NEAP_OK && x.best_cost < INFINITY;
      schedule_free(&found);
    }
    neap_plan_free(keep);
    neap_step_free(step);
  }
  print_message("within half-way budgets: %d of %d that exhaustive search meets\n", met, possible);
  assert_true(possible > 0 && 2 * met >= possible);
}

/* One node makes this many values, which the backward pass reads one by one: a few of the node's inputs can
 * be made again, whatever their number. */
static void test_wide_node(void **state) {
  (void)state;
  enum { BEFORE = 10, WIDE = 100, NODES = BEFORE + 1 + WIDE, TENSORS = 1 + BEFORE + 2 * WIDE };
  uint64_t bytes[TENSORS];
  neap_pass passes[NODES] = {0};
  int64_t read_start[NODES + 1] = {0}, made_start[NODES + 1] = {0};
  int32_t reads[4 * NODES], made[TENSORS], node = 0, tensor = 1;
  int64_t read = 0;
  for (int32_t t = 0; t < TENSORS; t++) bytes[t] = 1024, made[t] = t + 1; /* made in the order of their ids */
  for (; node < NODES; node++) {
    const int32_t back = node - BEFORE - 1; /* of the backward pass */
    if (back < 0) {
      reads[read++] = tensor - 1;
    } else {
      passes[node] = NEAP_PASS_BACKWARD;
      reads[read++] = BEFORE + WIDE - back;
      if (back < BEFORE) reads[read++] = BEFORE - back;
      if (back > 0) reads[read++] = tensor - 1;
    }
    tensor += node == BEFORE ? WIDE : 1;
    read_start[node + 1] = read;
    made_start[node + 1] = tensor - 1;
  }
  const int32_t output = tensor - 1;
  const neap_step_arrays arrays = {.name = "wide",
                                   .tensor_count = tensor,
                                   .node_count = NODES,
                                   .tensor_bytes = bytes,
                                   .node_passes = passes,
                                   .inputs = {read_start, reads},
                                   .outputs = {made_start, made},
                                   .step_outputs = &output,
                                   .step_output_count = 1};
  neap_step *step = NULL;
  neap_plan *plan = NULL;
  uint64_t everything;
  assert_int_equal(neap_step_create(&arrays, &step), NEAP_OK);
  assert_int_equal(neap_step_keep_all_bytes(step, &everything), NEAP_OK);
  assert_int_equal(neap_plan_make(step, everything / 100 * 95, "evict", NULL, &plan), NEAP_OK);
  neap_plan_free(plan);
  neap_step_free(step);
}

int run_test_planners(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans),
                                     cmocka_unit_test(test_random_schedules),
                                     cmocka_unit_test(test_least),
                                     cmocka_unit_test(test_brief_least),
                                     cmocka_unit_test(test_brief_least),
                                     cmocka_unit_test(test_wide_node),
                                     cmocka_unit_test(test_against_exhaustive_search)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
