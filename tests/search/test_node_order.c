/* Lean and mirrored orders: valid for any step in whatever order it comes, and lower where they are called
 * that; one branch after the other where they are given side by side. */
#include "effort.h"
#include "random_step.h"

#include "search/node_order.h"
#include "search/plan_neap.h"
#include "step/planner.h"
#include "step/simulate.h"

static int steps(void) { return quick_pass() ? 60 : 600; }

static struct schedule as_given(const neap_step *step) {
  struct schedule order = {0};
  for (int32_t v = 0; v < step->node_count; v++) assert_int_equal(vector_push(&order.nodes, v), NEAP_OK);
  return order;
}

/* ---- Any order that a step may come in ---- */

/* All that it reads is made, and who reads what it updates has run. */
static bool may_run(const neap_step *step, int32_t node, const bool *ran) {
  const struct step_node *n = &step->nodes[node];
  for (int32_t i = 0; i < n->input_count; i++) {
    const int32_t producer = step->tensors[n->inputs[i]].producer;
    if (producer >= 0 && !ran[producer]) return false;
  }
  for (int32_t i = 0; i < n->update_count; i++)
    for (int32_t r = step->reader_start[n->updates[i]]; r < step->reader_start[n->updates[i] + 1]; r++)
      if (step->readers[r] != node && !ran[step->readers[r]]) return false;
  return true;
}

static neap_step *shuffled(const neap_step *step, uint32_t seed) {
  const int32_t n = step->node_count;
  bool *ran = calloc((size_t)n, sizeof *ran);
  struct step_node *nodes = malloc((size_t)n * sizeof *nodes);
  assert_true(ran != NULL && nodes != NULL);
  for (int32_t done = 0; done < n;) {
    const int32_t v = (int32_t)draw(&seed, (uint32_t)n);
    if (ran[v] || !may_run(step, v, ran)) continue;
    ran[v] = true;
    nodes[done++] = step->nodes[v];
  }
  neap_step draft = *step, *out;
  draft.nodes = nodes;
  assert_int_equal(step_create(&draft, &out), NEAP_OK);
  free(ran);
  free(nodes);
  return out;
}

/* The same step under other names: its own order is a schedule of the step that was given, whose peak is
 * lower than that of the order that was given. */
static void expect_lower(const neap_step *step, const struct reordered_step *reordered) {
  struct schedule there = as_given(reordered->step), given = as_given(step);
  const struct simulation in_order = score_of(reordered->step, &there);
  reordered_step_rename(reordered, &there);
  const struct simulation renamed = score_of(step, &there);
  assert_int_equal(in_order.peak_bytes, renamed.peak_bytes);
  assert_true(in_order.cost == renamed.cost && renamed.recomputed == 0);
  assert_true(renamed.peak_bytes < score_of(step, &given).peak_bytes);
  assert_int_equal(reordered->step->resident_bytes, step->resident_bytes);
  struct schedule back = {0};
  assert_int_equal(reordered_step_take(reordered, &there, &back), NEAP_OK);
  assert_int_equal(back.nodes.count, there.nodes.count);
  for (size_t i = 0; i < back.nodes.count; i++) assert_int_equal(back.nodes.data[i], i);
  schedule_free(&back);
  schedule_free(&there);
  schedule_free(&given);
}

typedef neap_status order_function(const neap_step *step, struct schedule *out);
typedef neap_status reorder_function(const neap_step *step, struct reordered_step *out);

static void expect_orders(order_function *order, reorder_function *reorder) {
  int reordered_steps = 0, lower = 0;
  for (int i = 0; i < steps(); i++) {
    const struct step_shape shape = {
        .family = (enum step_family)(i % STEP_FAMILY_COUNT), .nodes = 6 + i % 90, .seed = (uint32_t)i + 1};
    neap_step *given;
    assert_int_equal(step_of_family(&shape, &given), NEAP_OK);
    neap_step *step = shuffled(given, (uint32_t)i + 1);
    struct schedule other = {0}, kept = as_given(step);
    assert_int_equal(order(step, &other), NEAP_OK);
    assert_int_equal(other.nodes.count, step->node_count);
    const struct simulation score = score_of(step, &other);
    assert_int_equal(score.recomputed, 0);
    lower += score.peak_bytes < score_of(step, &kept).peak_bytes;
    struct reordered_step reordered;
    assert_int_equal(reorder(step, &reordered), NEAP_OK);
    if (reordered.step != NULL) expect_lower(step, &reordered);
    reordered_steps += reordered.step != NULL;
    reordered_step_free(&reordered);
    schedule_free(&other);
    schedule_free(&kept);
    neap_step_free(step);
    neap_step_free(given);
  }
  print_message("%d of %d lower, %d clearly\n", lower, steps(), reordered_steps);
  assert_true(lower > steps() / 20 && reordered_steps > steps() / 50);
}

static void test_lean(void **state) {
  (void)state;
  expect_orders(lean_order, leaner_step_create);
}

static void test_mirrored(void **state) {
  (void)state;
  expect_orders(mirrored_order, mirrored_step_create);
}

/* ---- Branches ---- */

enum { BRANCHES = 40, LENGTH = 8, NODES = BRANCHES * LENGTH + 1, BIG = 1 << 20, SMALL = 64 };

/* This many branches whose ends one node reads, given level by level: as many values live as there are
 * branches. One after the other they need two, and the ends. */
static neap_step *branches_side_by_side(void) {
  static struct step_tensor tensors[NODES + 1];
  static struct step_node nodes[NODES];
  static int32_t ids[NODES + 1], ends[BRANCHES];
  for (int32_t t = 0; t <= NODES; t++) {
    ids[t] = t;
    tensors[t] = (struct step_tensor){.name = "value", .bytes = BIG, .role = NEAP_ROLE_VALUE};
  }
  tensors[NODES] = (struct step_tensor){.name = "image", .bytes = SMALL, .role = NEAP_ROLE_INPUT};
  for (int32_t v = 0; v < NODES; v++)
    nodes[v] = (struct step_node){.name = "node",
                                  .op = "op",
                                  .repeatable = true,
                                  .cost = 1,
                                  .input_count = 1,
                                  .inputs = v < BRANCHES ? &ids[NODES] : &ids[v - BRANCHES],
                                  .output_count = 1,
                                  .outputs = &ids[v]};
  for (int32_t b = 0; b < BRANCHES; b++) {
    ends[b] = NODES - 1 - BRANCHES + b;
    tensors[ends[b]].bytes = SMALL;
  }
  nodes[NODES - 1].inputs = ends;
  nodes[NODES - 1].input_count = BRANCHES;
  tensors[NODES - 1].bytes = SMALL;
  neap_step *step;
  const neap_step draft = {.name = "branches",
                           .tensor_count = NODES + 1,
                           .tensors = tensors,
                           .node_count = NODES,
                           .nodes = nodes,
                           .output_count = 1,
                           .outputs = &ids[NODES - 1]};
  assert_int_equal(step_create(&draft, &step), NEAP_OK);
  return step;
}

static void test_branches(void **state) {
  (void)state;
  const uint64_t needed = 2 * (uint64_t)BIG + (BRANCHES + 2) * SMALL;
  neap_step *step = branches_side_by_side();
  struct schedule order = {0}, given = as_given(step);
  assert_true(score_of(step, &given).peak_bytes > (uint64_t)BRANCHES * BIG);
  assert_int_equal(lean_order(step, &order), NEAP_OK);
  assert_true(score_of(step, &order).peak_bytes <= needed);
  struct reordered_step leaner;
  assert_int_equal(leaner_step_create(step, &leaner), NEAP_OK);
  assert_non_null(leaner.step);
  neap_plan *plan;
  assert_int_equal(neap_plan_make(step, needed, "neap", NULL, &plan), NEAP_OK);
  expect_valid(step, plan);
  assert_int_equal(plan->recomputed, 0);
  assert_true(plan_bytes(plan) <= needed);
  neap_plan_free(plan);
  reordered_step_free(&leaner);
  schedule_free(&order);
  schedule_free(&given);
  neap_step_free(step);
}

/* ---- On from a schedule ---- */

static double cost_within(const neap_step *step, uint64_t budget, const struct planner_options *options,
                          struct schedule *out) {
  const neap_status status = plan_neap(step, budget, options, out);
  assert_true(status == NEAP_OK || status == NEAP_OVER_BUDGET);
  if (status == NEAP_OVER_BUDGET) return INFINITY;
  const struct simulation score = score_of(step, out);
  assert_true(score.peak_bytes <= budget);
  return score.cost;
}

/* With a little less memory the planner goes on from what it found, whichever order it plans in, and that is
 * about as good as to begin anew. */
static void test_near(void **state) {
  (void)state;
  double near_cost = 0, fresh_cost = 0;
  int compared = 0;
  for (int i = 0; i < steps() / 30; i++) {
    const struct step_shape shape = {
        .family = (enum step_family)(i % STEP_FAMILY_COUNT), .nodes = 70 + 3 * i, .seed = (uint32_t)i + 1};
    neap_step *given;
    assert_int_equal(step_of_family(&shape, &given), NEAP_OK);
    neap_step *step = shuffled(given, (uint32_t)i + 1);
    struct schedule kept = as_given(step), found = {0}, near = {0}, fresh = {0};
    const uint64_t most = score_of(step, &kept).peak_bytes - step->resident_bytes;
    const uint64_t budget = step->resident_bytes + most / 4 * 3, less = budget - most / 400;
    struct planner_options options = {0};
    if (cost_within(step, budget, &options, &found) < INFINITY) {
      const double cost = cost_within(step, less, &options, &fresh);
      options.near = &found;
      const double from_near = cost_within(step, less, &options, &near);
      assert_true(from_near < INFINITY || cost == INFINITY);
      if (cost < INFINITY) near_cost += from_near / step->base_cost, fresh_cost += cost / step->base_cost;
      compared += cost < INFINITY;
    }
    schedule_free(&kept);
    schedule_free(&found);
    schedule_free(&near);
    schedule_free(&fresh);
    neap_step_free(step);
    neap_step_free(given);
  }
  print_message("%d steps: %.4f of the step from near, %.4f anew\n", compared, near_cost / compared,
                fresh_cost / compared);
  assert_true(compared > steps() / 60 && near_cost < fresh_cost * 1.02);
}

int run_test_node_order(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lean), cmocka_unit_test(test_mirrored),
                                     cmocka_unit_test(test_branches), cmocka_unit_test(test_near)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
