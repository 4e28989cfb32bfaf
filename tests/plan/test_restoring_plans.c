/* Plans of steps whose values may be restored: chains against exhaustive search with clocks of the test's
 * own, graphs against the plan of the step without optional nodes, the checker against schedules with one
 * thing wrong, and graph files. */
#include "effort.h"
#include "random_step.h"
#include "restoring_oracle.h"
#include "restoring_step.h"

#include <stdio.h>
#include <unistd.h>

#include "step/lower_bound.h"

/* Checks the plan; its cost must be that of the test's clocks. */
static void expect_clocked(const neap_step *step, const neap_plan *plan, uint64_t budget) {
  expect_valid(step, plan);
  assert_true(plan_bytes(plan) <= budget);
  const double clocked = clocked_cost(step, plan->schedule, plan->length);
  if (fabs(clocked - plan->cost) > 1e-9 * clocked) fail_msg("cost %g, by the clocks %g", plan->cost, clocked);
}

static bool restores(const neap_step *step, const neap_plan *plan) {
  for (int32_t p = 0; p < plan->length; p++)
    if (plan->schedule[p] >= step->required_count) return true;
  return false;
}

static neap_plan *plan_of(const neap_step *step, uint64_t budget) {
  neap_plan *plan = NULL;
  const neap_status status = neap_plan_make(step, budget, "auto", NULL, &plan);
  if (status != NEAP_OVER_BUDGET && status != NEAP_OK) fail_msg("%s", neap_error_message());
  return status == NEAP_OK ? plan : NULL;
}

/* Draws a budget between the least that any schedule needs and what keeps everything. */
static uint64_t draw_budget(const neap_step *step, uint32_t *random) {
  uint64_t all = 0;
  ASSERT_OK(neap_step_keep_all_bytes(step, &all));
  const uint64_t least = plan_lower_bound(step);
  return least + (all > least ? draw(random, (uint32_t)(all - least)) : 0);
}

/* ---- Chains against the optimum ---- */

/* By how much plans cost more than the least. */
struct gaps {
  int met, missed, equal, restored;
  double sum, worst;
};

/* Compares a plan with the optimum, whose own schedule the simulator must score as the search did. */
static void compare(const neap_step *step, uint64_t budget, const neap_plan *plan, struct gaps *gaps) {
  int32_t schedule[4 * RESTORING_LIMIT], length = 0;
  const double most = plan != NULL ? plan->cost : 9 * step->base_cost;
  const double least = oracle_least(step, budget - step->resident_bytes, most, schedule, &length);
  if (plan == NULL) {
    gaps->missed += least >= 0;
    return;
  }
  if (least < 0) fail_msg("cost %g, and by the search there is no plan as cheap", plan->cost);
  struct simulation score;
  ASSERT_OK(simulate(step, schedule, length, &score));
  assert_true(score.peak_bytes <= budget && score.cost == least);
  assert_true(clocked_cost(step, schedule, length) == least);
  gaps->met++;
  gaps->equal += plan->cost == least;
  gaps->restored += restores(step, plan);
  gaps->sum += plan->cost / least - 1;
  gaps->worst = fmax(gaps->worst, plan->cost / least - 1);
}

static void test_chains(void **state) {
  (void)state;
  struct gaps gaps = {0};
  uint32_t random = 5;
  const int rounds = shorten(400);
  for (int i = 0; i < rounds; i++) {
    neap_step *step = restoring_chain(3 + i % 4, i / 4 % TRANSFERS_VAIN, (uint32_t)i + 1);
    const uint64_t budget = draw_budget(step, &random);
    neap_plan *plan = plan_of(step, budget);
    if (plan != NULL) expect_clocked(step, plan, budget);
    compare(step, budget, plan, &gaps);
    neap_plan_free(plan);
    neap_step_free(step);
  }
  print_message("auto meets %d of %d budgets, %d at the least cost, on average %.2f %% above it, at worst "
                "%.1f %%; %d plans restore\n",
                gaps.met, gaps.met + gaps.missed, gaps.equal, 100 * gaps.sum / gaps.met, 100 * gaps.worst,
                gaps.restored);
  assert_true(gaps.missed == 0 && gaps.restored > rounds / 4);
  assert_true(gaps.sum < 0.01 * gaps.met && gaps.equal > gaps.met * 4 / 5 && gaps.worst < 0.25);
}

/* Transfers that cost nothing: whatever a node does not need may lie elsewhere, so nothing is recomputed
 * within the least budget that any schedule needs. Transfers that cost more than all nodes change nothing. */
static void test_extremes(void **state) {
  (void)state;
  int in_vain = 0;
  for (int i = 0; i < shorten(100); i++) {
    neap_step *step = restoring_chain(3 + i % 4, TRANSFERS_FREE, (uint32_t)i + 7000), *plain = NULL;
    const uint64_t least = plan_lower_bound(step);
    for (uint64_t budget = least; budget < least + 3; budget++) {
      neap_plan *plan = plan_of(step, budget);
      assert_non_null(plan);
      expect_clocked(step, plan, budget);
      assert_true(plan->cost == step->base_cost);
      neap_plan_free(plan);
    }
    neap_step_free(step);
    step = restoring_chain(3 + i % 4, TRANSFERS_VAIN, (uint32_t)i + 7000);
    ASSERT_OK(step_create_plain(step, &plain));
    uint32_t random = (uint32_t)i;
    const uint64_t budget = draw_budget(step, &random);
    neap_plan *plan = plan_of(step, budget), *without = plan_of(plain, budget);
    assert_true(without == NULL || plan != NULL);
    if (without != NULL) {
      expect_clocked(step, plan, budget);
      assert_true(plan->cost == without->cost && !restores(step, plan));
      in_vain += plan->cost > step->base_cost;
    }
    neap_plan_free(plan);
    neap_plan_free(without);
    neap_step_free(plain);
    neap_step_free(step);
  }
  assert_true(in_vain > shorten(100) / 4);
}

/* ---- Graphs, and one thing wrong ---- */

/* Returns the plan of a schedule that need not be valid: each instance has bytes of its own, so that only the
 * schedule can be at fault. */
static neap_plan *plan_apart(const neap_step *step, const neap_plan *of, const int32_t *schedule,
                             int32_t length) {
  static struct placed instances[8 * RESTORING_LIMIT];
  struct neap_plan draft = *of;
  neap_plan *plan = NULL;
  draft.schedule = schedule;
  draft.length = length;
  draft.instances = instances;
  draft.instance_count = 0;
  draft.arena_bytes = 0;
  for (int32_t p = 0; p < length; p++) {
    const struct step_node *node = &step->nodes[schedule[p]];
    for (int32_t i = 0; i <= node->output_count; i++) {
      const bool output = i < node->output_count;
      const uint64_t bytes = output ? step->tensors[node->outputs[i]].bytes : node->workspace;
      if (!output && bytes == 0) continue;
      instances[draft.instance_count++] =
          (struct placed){p, output ? node->outputs[i] : -1, draft.arena_bytes, bytes};
      draft.arena_bytes += bytes;
    }
  }
  ASSERT_OK(plan_create(&draft, &plan));
  return plan;
}

static void expect_refused(const neap_step *step, const neap_plan *of, const int32_t *schedule,
                           int32_t length, const char *reason) {
  neap_plan *plan = plan_apart(step, of, schedule, length);
  neap_check_result result;
  struct simulation score;
  assert_int_equal(neap_plan_check(step, plan, &result), NEAP_INVALID_PLAN);
  if (strstr(result.reason, reason) == NULL) fail_msg("not refused for '%s': %s", reason, result.reason);
  assert_int_equal(simulate(step, schedule, length, &score), NEAP_INVALID_PLAN);
  neap_plan_free(plan);
}

static int32_t position_of(const neap_plan *plan, int32_t node) {
  for (int32_t p = 0; p < plan->length; p++)
    if (plan->schedule[p] == node) return p;
  return -1;
}

/* Copies a schedule with the node at `from` moved to `to`, where others make room. */
static void move(const neap_plan *plan, int32_t from, int32_t to, int32_t *out) {
  int32_t count = 0;
  for (int32_t p = 0; p < plan->length; p++)
    if (p != from) out[count++] = plan->schedule[p];
  memmove(out + to + 1, out + to, (size_t)(count - to) * sizeof *out);
  out[to] = plan->schedule[from];
}

/* Spoils what the plan stores first: no store, two, one before its maker, a restorer before its store. */
static void spoil_store(const neap_step *step, const neap_plan *plan, int32_t maker) {
  int32_t changed[4 * RESTORING_LIMIT];
  const int32_t store = position_of(plan, step->store[maker]),
                restorer = position_of(plan, step->restorer[maker]), made = position_of(plan, maker);
  neap_plan *apart = plan_apart(step, plan, plan->schedule, plan->length);
  expect_valid(step, apart);
  neap_plan_free(apart);
  move(plan, restorer, store, changed);
  expect_refused(step, plan, changed, plan->length, "before it is made");
  move(plan, store, made, changed);
  expect_refused(step, plan, changed, plan->length, "before it is made");
  move(plan, store, plan->length - 1, changed);
  expect_refused(step, plan, changed, plan->length - 1, "before it is made");
  memcpy(changed, plan->schedule, (size_t)store * sizeof *changed);
  memcpy(changed + store + 1, plan->schedule + store, (size_t)(plan->length - store) * sizeof *changed);
  changed[store] = plan->schedule[store];
  expect_refused(step, plan, changed, plan->length + 1, "runs a second time");
}

static void test_graphs(void **state) {
  (void)state;
  int met = 0, restored = 0, cheaper = 0;
  uint32_t random = 11;
  const int rounds = shorten(200);
  for (int i = 0; i < rounds; i++) {
    neap_step *step = restoring_graph(4 + i % 9, i % TRANSFERS_COUNT, (uint32_t)i + 1), *plain = NULL;
    ASSERT_OK(step_create_plain(step, &plain));
    const uint64_t budget = draw_budget(step, &random);
    neap_plan *plan = plan_of(step, budget), *without = plan_of(plain, budget);
    assert_true(without == NULL || plan != NULL);
    if (plan != NULL) {
      expect_clocked(step, plan, budget);
      assert_true(without == NULL || plan->cost <= without->cost);
      met++;
      restored += restores(step, plan);
      cheaper += without == NULL || plan->cost < without->cost;
      for (int32_t v = 0; v < step->required_count; v++)
        if (step->restorer[v] >= 0 && position_of(plan, step->restorer[v]) >= 0) spoil_store(step, plan, v);
    }
    neap_plan_free(plan);
    neap_plan_free(without);
    neap_step_free(plain);
    neap_step_free(step);
  }
  print_message("%d plans of %d graphs, %d restore, %d are cheaper for it\n", met, rounds, restored, cheaper);
  assert_true(met > rounds / 2 && restored > rounds / 8 && cheaper > rounds / 8);
}

/* ---- Files ---- */

static void test_files(void **state) {
  (void)state;
  char path[] = "/tmp/neap_restoring_XXXXXX", text[1 << 16];
  const int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  for (int i = 0; i < 20; i++) {
    neap_step *step = restoring_graph(5 + i, i % TRANSFERS_COUNT, (uint32_t)i + 1), *read = NULL;
    ASSERT_OK(neap_step_write(step, path));
    ASSERT_OK(neap_step_read(path, &read));
    assert_true(neap_step_is_alike(step, read));
    assert_int_equal(read->required_count, step->required_count);
    assert_true(read->base_cost == step->base_cost && read->has_lane == step->has_lane);
    const size_t nodes = (size_t)step->node_count * sizeof(int32_t);
    assert_memory_equal(read->maker, step->maker, nodes);
    assert_memory_equal(read->restorer, step->restorer, nodes);
    assert_memory_equal(read->store, step->store, nodes);
    neap_step_free(read);
    FILE *stream = fopen(path, "r+");
    assert_non_null(stream);
    text[fread(text, 1, sizeof text - 1, stream)] = '\0';
    char *version = strstr(text, "\"version\": 2");
    assert_non_null(version);
    fseek(stream, version - text + (long)strlen("\"version\": "), SEEK_SET);
    fputc('1', stream);
    fclose(stream);
    assert_int_equal(neap_step_read(path, &read),
                     step->has_lane || step->node_count > step->required_count ? NEAP_BAD_FORMAT : NEAP_OK);
    assert_non_null(strstr(neap_error_message(), "version"));
    neap_step_free(step);
  }
  unlink(path);
}

int run_test_restoring_plans(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chains),
      cmocka_unit_test(test_extremes),
      cmocka_unit_test(test_graphs),
      cmocka_unit_test(test_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
