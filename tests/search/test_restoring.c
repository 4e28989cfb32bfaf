/* Plans of steps whose values may be restored: valid by the checker, of the cost that both clocks give, no
 * more expensive than without; what the checker refuses; files. */
#include "effort.h"
#include "random_step.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static int steps(void) { return quick_pass() ? 8 : 60; }

/* Runs both clocks over a schedule by the rules of docs/formats.md: the lane takes whichever job began first.
 */
static double clocks(const neap_step *step, const int32_t *schedule, int32_t length) {
  struct {
    int32_t position, at;
  } jobs[4096];
  static double ended[4096], ready[2 * STEP_LIMIT];
  int32_t count = 0, next = 0;
  double now = 0, lane = 0;
  for (int32_t behind = 0; behind < length; behind++) /* in the order in which they begin */
    for (int32_t at = behind; at < length; at++) {
      const struct step_node *node = &step->nodes[schedule[at]];
      if (!node->transfers) continue;
      const bool restores = step->tensors[node->outputs[0]].producer != schedule[at];
      int32_t begins = at;
      for (int32_t p = 0; !restores && p < at; p++)
        if (step->nodes[schedule[p]].output_count > 0 &&
            step->nodes[schedule[p]].outputs[0] == node->inputs[0])
          begins = p;
      if (begins == behind) jobs[count].position = behind, jobs[count++].at = at;
    }
  memset(ready, 0, sizeof ready);
  for (int32_t at = 0; at < length; at++) {
    const struct step_node *node = &step->nodes[schedule[at]];
    const bool restores = node->output_count > 0 && step->tensors[node->outputs[0]].producer != schedule[at];
    for (int32_t i = 0; i < node->input_count; i++) now = fmax(now, ready[node->inputs[i]]);
    if (!node->transfers) now += node->cost;
    if (node->transfers && !restores) now = fmax(now, ended[at]);
    for (; next < count && jobs[next].position == at; next++) {
      lane = fmax(lane, now) + step->nodes[schedule[jobs[next].at]].cost;
      ended[jobs[next].at] = lane;
    }
    for (int32_t o = 0; o < node->output_count; o++) ready[node->outputs[o]] = restores ? ended[at] : 0;
  }
  return now;
}

static int32_t restored(const neap_step *step, const neap_plan *plan) {
  int32_t count = 0;
  for (int32_t i = 0; i < plan->length; i++)
    count += plan->schedule[i] >= step->required_count && step->nodes[plan->schedule[i]].repeatable;
  return count;
}

static void test_plans(void **state) {
  (void)state;
  int used = 0, cheaper = 0, lower = 0;
  for (int i = 0; i < steps(); i++) {
    neap_step *step = with_restorers(
        random_step((enum family)(i % FAMILY_COUNT), 6 + i % 40, (uint32_t)i + 1), true, (uint32_t)i);
    neap_step *plain;
    uint64_t everything;
    assert_int_equal(step_create_plain(step, &plain), NEAP_OK);
    assert_int_equal(neap_step_keep_all_bytes(step, &everything), NEAP_OK);
    const uint64_t values = everything - step->resident_bytes,
                   budget = step->resident_bytes + values / 100 * (45 + (uint64_t)(i * 7 % 50));
    neap_plan *with = NULL, *without = NULL;
    const neap_status one = neap_plan_make(step, budget, "auto", NULL, &with),
                      other = neap_plan_make(plain, budget, "auto", NULL, &without);
    if (one != NEAP_OK && one != NEAP_OVER_BUDGET) fail_msg("step %d: %s", i, neap_error_message());
    if (other == NEAP_OK) assert_int_equal(one, NEAP_OK);
    lower += other != NEAP_OK && one == NEAP_OK;
    if (one == NEAP_OK) {
      expect_valid(step, with);
      assert_true(plan_bytes(with) <= budget);
      assert_true(fabs(clocks(step, with->schedule, with->length) - with->cost) < 1e-9 * with->cost);
      used += restored(step, with) > 0;
    }
    if (one == NEAP_OK && other == NEAP_OK) {
      assert_true(with->cost <= without->cost * (1 + 1e-9));
      cheaper += with->cost < without->cost * (1 - 1e-9);
    }
    neap_plan_free(with);
    neap_plan_free(without);
    neap_step_free(plain);
    neap_step_free(step);
  }
  assert_true(used > steps() / 4 && cheaper > steps() / 8 && (lower > 0 || quick_pass()));
}

/* Three layers, in bytes for which the middle one must leave. */
static neap_step *make_small(double transfer) {
  static struct step_tensor tensors[] = {{.name = "a", .bytes = 4},
                                         {.name = "b", .bytes = 4},
                                         {.name = "c", .bytes = 4},
                                         {.name = "d", .bytes = 1},
                                         {.name = "token"}};
  static const int32_t id[] = {0, 1, 2, 3, 4}, last[] = {2, 0};
  struct step_node nodes[] = {
      {.name = "a", .op = "F", .repeatable = true, .cost = 10, .outputs = &id[0], .output_count = 1},
      {.name = "b",
       .op = "F",
       .repeatable = true,
       .cost = 1,
       .inputs = &id[0],
       .input_count = 1,
       .outputs = &id[1],
       .output_count = 1},
      {.name = "c",
       .op = "F",
       .cost = 1,
       .inputs = &id[1],
       .input_count = 1,
       .outputs = &id[2],
       .output_count = 1},
      {.name = "d",
       .op = "B",
       .cost = 1,
       .inputs = last,
       .input_count = 2,
       .outputs = &id[3],
       .output_count = 1},
      {.name = "s",
       .op = "Store",
       .transfers = true,
       .cost = transfer,
       .inputs = &id[0],
       .input_count = 1,
       .outputs = &id[4],
       .output_count = 1},
      {.name = "r",
       .op = "Restore",
       .repeatable = true,
       .transfers = true,
       .cost = transfer,
       .inputs = &id[4],
       .input_count = 1,
       .outputs = &id[0],
       .output_count = 1}};
  struct neap_step draft = {.name = "small",
                            .tensor_count = 5,
                            .node_count = 6,
                            .output_count = 1,
                            .tensors = tensors,
                            .nodes = nodes,
                            .outputs = &id[3]};
  neap_step *step;
  for (int t = 0; t < 5; t++) tensors[t].role = NEAP_ROLE_VALUE;
  ASSERT_OK(step_create(&draft, &step));
  return step;
}

static neap_status checked(const neap_step *step, const int32_t *schedule, int32_t length) {
  struct simulation score;
  return simulate(step, schedule, length, &score);
}

static void test_rules(void **state) {
  (void)state;
  neap_step *step = make_small(2);
  struct simulation score;
  const int32_t good[] = {0, 1, 4, 2, 5, 3}, late[] = {0, 1, 5, 4, 2, 3}, early[] = {4, 0, 1, 2, 5, 3},
                twice[] = {0, 4, 1, 4, 2, 5, 3}, without[] = {0, 1, 2, 3};
  assert_int_equal(step->required_count, 4);
  assert_true(step->base_cost == 13);
  ASSERT_OK(simulate(step, good, 6, &score));
  /* a 10, b 11; the store ends at 12, where its position waits; c 13; restored at 15; d 16. */
  assert_true(score.cost == 16);
  ASSERT_OK(simulate(step, without, 4, &score));
  assert_true(score.cost == 13);
  assert_int_equal(checked(step, late, 6), NEAP_INVALID_PLAN);
  assert_int_equal(checked(step, early, 6), NEAP_INVALID_PLAN);
  assert_int_equal(checked(step, twice, 7), NEAP_INVALID_PLAN);
  neap_step_free(step);
}

static void test_files(void **state) {
  (void)state;
  char path[64];
  snprintf(path, sizeof path, "/tmp/neap-restoring-%d.json", (int)getpid());
  neap_step *step = make_small(0.5), *read;
  ASSERT_OK(neap_step_write(step, path));
  ASSERT_OK(neap_step_read(path, &read));
  assert_true(neap_step_is_alike(step, read));
  assert_int_equal(read->required_count, 4);
  assert_true(read->has_lane && read->nodes[4].transfers && read->restorer[0] == 5 && read->store[0] == 4);
  neap_step_free(read);
  unlink(path);
  neap_step_free(step);
}

/* Free transfers cost nothing where each node fits alone; dear ones are never taken. */
static void test_prices(void **state) {
  (void)state;
  for (int dear = 0; dear < 2; dear++) {
    neap_step *step = make_small(dear ? 1000 : 0);
    neap_plan *plan;
    uint64_t least;
    ASSERT_OK(neap_plan_make(step, 9, "auto", &least, &plan));
    expect_valid(step, plan);
    assert_true(dear ? plan->cost > step->base_cost : plan->cost == step->base_cost);
    assert_int_equal(restored(step, plan), dear ? 0 : 1);
    neap_plan_free(plan);
    neap_step_free(step);
  }
}

int run_test_restoring(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans), cmocka_unit_test(test_rules),
                                     cmocka_unit_test(test_files), cmocka_unit_test(test_prices)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
