/* The planners that choose what stays of the forward pass, and DTR, on random training steps: schedules are
 * valid, fit and cost what they say; the dynamic programmes against brute force written from the papers'
 * definitions. */
#include "effort.h"
#include "random_step.h"

#include <math.h>

#include "papers/max_term.h"
#include "papers/strategy_search.h"
#include "plan/planners.h"
#include "step/lower_bound.h"

/* Sanitizers make everything twenty times slower: fewer steps then. */
static neap_step *training_step(int32_t nodes, uint32_t seed, bool plain) {
  neap_step *step;
  const struct step_shape shape = {.family = STEP_TRAINING, .nodes = nodes, .seed = seed, .plain = plain};
  assert_int_equal(step_of_family(&shape, &step), NEAP_OK);
  return step;
}

/* ---- Canonical strategies by brute force, over masks ---- */

enum { SMALL = 8 };

struct masks {
  int32_t count;
  uint32_t before[SMALL], after[SMALL], pinned, all;
  uint64_t bytes[SMALL];
  double cost[SMALL];
};

/* From the step alone. */
static struct masks masks_of(const neap_step *step, const struct forward_graph *graph) {
  struct masks m = {.count = graph->count, .all = (1u << graph->count) - 1};
  for (int32_t v = 0; v < graph->count; v++) {
    const struct step_node *node = &step->nodes[graph->node[v]];
    m.cost[v] = node->cost;
    if (!node->repeatable) m.pinned |= 1u << v;
    for (int32_t i = 0; i < node->output_count; i++) {
      m.bytes[v] += step->tensors[node->outputs[i]].bytes;
      if (step->tensors[node->outputs[i]].is_output) m.pinned |= 1u << v;
      for (int32_t u = 0; u < graph->count; u++)
        for (int32_t k = 0; k < step->nodes[graph->node[u]].input_count; k++)
          if (step->nodes[graph->node[u]].inputs[k] == node->outputs[i])
            m.after[v] |= 1u << u, m.before[u] |= 1u << v;
    }
  }
  return m;
}

static uint64_t bytes_of(const struct masks *m, uint32_t set) {
  uint64_t bytes = 0;
  for (int32_t v = 0; v < m->count; v++) bytes += set >> v & 1 ? m->bytes[v] : 0;
  return bytes;
}

static double cost_of(const struct masks *m, uint32_t set) {
  double cost = 0;
  for (int32_t v = 0; v < m->count; v++) cost += set >> v & 1 ? m->cost[v] : 0;
  return cost;
}

static uint32_t neighbours(const struct masks *m, uint32_t set, const uint32_t *of) {
  uint32_t found = 0;
  for (int32_t v = 0; v < m->count; v++) found |= set >> v & 1 ? of[v] : 0;
  return found;
}

static bool is_lower(const struct masks *m, uint32_t set) { return !(neighbours(m, set, m->before) & ~set); }

static uint32_t boundary_of(const struct masks *m, uint32_t set) {
  return set & (neighbours(m, m->all & ~set, m->before) | m->pinned);
}

struct outcome {
  uint64_t need; /* the programme's budget that it fits in */
  double overhead;
  uint64_t kept;
};

/* A strategy with one segment more. */
static struct outcome with_segment(const struct masks *m, struct outcome o, uint32_t *stays, uint32_t from,
                                   uint32_t to) {
  const uint32_t successors = neighbours(m, to, m->after), beyond = neighbours(m, successors, m->before);
  const uint64_t need = bytes_of(m, *stays) + 2 * bytes_of(m, to & ~from) + bytes_of(m, successors & ~to) +
                        bytes_of(m, beyond & ~to);
  if (need > o.need) o.need = need;
  o.overhead += cost_of(m, to & ~from & ~boundary_of(m, to));
  *stays |= boundary_of(m, to);
  o.kept = bytes_of(m, *stays);
  return o;
}

enum { BUDGETS = 4 };

struct brute {
  struct masks masks;
  uint64_t least;
  uint64_t budget[BUDGETS];
  double low[BUDGETS], high[BUDGETS]; /* overheads within the budgets */
  long strategies;
};

static void enumerate(struct brute *b, uint32_t set, uint32_t stays, struct outcome o) {
  if (set == b->masks.all) {
    b->strategies++;
    if (o.need < b->least) b->least = o.need;
    for (int i = 0; i < BUDGETS; i++)
      if (o.need <= b->budget[i]) {
        b->low[i] = fmin(b->low[i], o.overhead);
        b->high[i] = fmax(b->high[i], o.overhead);
      }
    return;
  }
  const uint32_t rest = b->masks.all & ~set;
  for (uint32_t more = rest; more > 0; more = (more - 1) & rest) {
    if (!is_lower(&b->masks, set | more)) continue;
    uint32_t with = stays;
    const struct outcome next = with_segment(&b->masks, o, &with, set, set | more);
    enumerate(b, set | more, with, next);
  }
}

/* The outcome of a strategy that was traced. */
static struct outcome outcome_of(const struct masks *m, const struct strategy_search *search) {
  struct outcome o = {0};
  uint32_t set = 0, stays = 0;
  for (size_t i = 0; i < search->chain.count; i++) {
    const uint32_t next =
        (uint32_t)search->sets->members[(size_t)search->chain.data[i] * (size_t)search->sets->words];
    assert_true(is_lower(m, next) && (set & ~next) == 0 && set != next);
    o = with_segment(m, o, &stays, set, next);
    set = next;
  }
  assert_int_equal(set, m->all);
  return o;
}

/* What one family finds within the brute force's budgets. */
static void compare(const struct brute *b, const struct lower_sets *sets, bool all) {
  struct region region = {0};
  struct strategy_search search;
  enum { BUCKETS = 1 << 14 }; /* more than any sum of costs */
  uint64_t least;
  assert_int_equal(strategy_search_create(sets, BUCKETS, &region, &search), NEAP_OK);
  assert_int_equal(strategy_search_least(&search, &least), NEAP_OK);
  assert_true(least >= b->least);
  if (all) assert_true(least <= b->least + b->least / 400 + 2);
  for (int i = 0; i < BUDGETS; i++)
    for (int most = 0; most < 2; most++) {
      int32_t low, high;
      assert_int_equal(strategy_search_run(&search, b->budget[i], most == 1, &low, &high), NEAP_OK);
      if (all) assert_int_equal(low < high, b->low[i] < INFINITY);
      for (int32_t point = low; point < high; point++) {
        assert_int_equal(strategy_search_trace(&search, point), NEAP_OK);
        const struct outcome o = outcome_of(&b->masks, &search);
        assert_true(o.need <= b->budget[i]);
        assert_int_equal(o.kept, search.points.data[point].kept);
        assert_true(fabs(o.overhead - search.points.data[point].overhead) < 1e-6);
        assert_true(o.overhead >= b->low[i] && o.overhead <= b->high[i]);
        if (all && point == high - 1) assert_true(o.overhead == (most ? b->high[i] : b->low[i]));
      }
    }
  strategy_search_free(&search);
  region_free(&region);
}

static void test_strategies_against_brute_force(void **state) {
  (void)state;
  int met = 0;
  for (int i = 0; i < shorten(400); i++) {
    const bool plain = i % 2 == 0;
    neap_step *step = training_step(6 + i % 11, (uint32_t)i + 1, plain);
    struct region region = {0};
    struct forward_graph graph;
    struct lower_sets sets;
    struct brute b = {.least = UINT64_MAX};
    assert_int_equal(forward_graph_create(step, &region, &graph), NEAP_OK);
    assert_true(graph.count > 0 && graph.count <= SMALL);
    b.masks = masks_of(step, &graph);
    const uint64_t everything = 2 * bytes_of(&b.masks, b.masks.all);
    for (int k = 0; k < BUDGETS; k++) {
      b.budget[k] = everything * (uint64_t)(k + 1) / BUDGETS;
      b.low[k] = INFINITY;
      b.high[k] = -INFINITY;
    }
    enumerate(&b, 0, 0, (struct outcome){0});
    assert_true(b.least <= everything);
    int32_t lower = 0;
    for (uint32_t set = 0; set <= b.masks.all; set++) lower += is_lower(&b.masks, set);
    assert_int_equal(lower_sets_all(&graph, 1 << SMALL, &region, &sets), NEAP_OK);
    assert_int_equal(sets.count, lower);
    compare(&b, &sets, true);
    assert_int_equal(lower_sets_all(&graph, lower - 1, &region, &sets), NEAP_OVER_BUDGET);
    assert_int_equal(lower_sets_of_ancestors(&graph, SMALL + 1, &region, &sets), NEAP_OK);
    assert_true(sets.count <= graph.count + 2);
    compare(&b, &sets, false);
    assert_int_equal(lower_sets_of_ancestors(&graph, 3, &region, &sets), NEAP_OK); /* they share */
    assert_true(sets.count <= 5);
    compare(&b, &sets, false);
    met += b.strategies > 1 << (graph.count - 1); /* more than a chain has */
    region_free(&region);
    neap_step_free(step);
  }
  assert_true(met > shorten(50));
}

/* ---- Max terms ---- */

static uint64_t weight(const struct forward_graph *graph, int32_t v) {
  return graph->pinned[v] ? 0 : graph->bytes[v];
}

static void test_max_terms_on_chains(void **state) {
  (void)state;
  for (int i = 0; i < shorten(400); i++) {
    const int32_t forward = 2 + i % 11;
    neap_step *step = random_step(FAMILY_CHAIN, forward, (uint32_t)i + 1);
    struct region region = {0};
    struct forward_graph graph;
    struct division division = {0};
    struct max_term_search search;
    uint64_t best = UINT64_MAX, term, kept, largest;
    assert_int_equal(forward_graph_create(step, &region, &graph), NEAP_OK);
    assert_int_equal(graph.count, forward);
    for (uint32_t stays = 0; stays < 1u << forward; stays++) {
      uint64_t sum = 0, run = 0, most = 0;
      for (int32_t v = 0; v < forward; v++) {
        if (stays >> v & 1) sum += weight(&graph, v);
        run = stays >> v & 1 ? 0 : run + weight(&graph, v);
        most = run > most ? run : most;
      }
      best = sum + most < best ? sum + most : best;
    }
    assert_int_equal(division_create(&graph, &region, &division), NEAP_OK);
    assert_int_equal(max_term_create(&division, &region, &search), NEAP_OK);
    assert_int_equal(max_term_find_best(&search, &term), NEAP_OK);
    max_term_solve(&search, term, &kept, &largest);
    assert_int_equal(kept + largest, best);
    division_free(&division);
    region_free(&region);
    neap_step_free(step);
  }
}

static int32_t root_of(const int32_t *part, int32_t v) {
  while (part[v] != v) v = part[v];
  return v;
}

/* What is left when that which stays is taken out hangs together in pieces no larger than the max term. */
static void expect_pieces(const struct forward_graph *graph, const bool *stays, uint64_t kept,
                          uint64_t largest) {
  int32_t part[STEP_LIMIT];
  uint64_t bytes[STEP_LIMIT] = {0}, sum = 0;
  for (int32_t v = 0; v < graph->count; v++) part[v] = v;
  for (int32_t v = 0; v < graph->count; v++)
    for (int32_t k = graph->before_start[v]; !stays[v] && k < graph->before_start[v + 1]; k++)
      if (!stays[graph->before[k]]) part[root_of(part, v)] = root_of(part, graph->before[k]);
  for (int32_t v = 0; v < graph->count; v++) {
    if (stays[v])
      sum += weight(graph, v);
    else
      bytes[root_of(part, v)] += weight(graph, v);
  }
  assert_int_equal(sum, kept);
  for (int32_t v = 0; v < graph->count; v++) assert_true(bytes[v] <= largest);
}

/* By definition: edges of what is inside lead to what is inside or to the ends, and what is inside is cut or
 * inside one child. */
static void expect_closed(const struct division *division, const struct closed_set *set) {
  const struct forward_graph *graph = division->graph;
  int8_t where[STEP_LIMIT] = {0}; /* 1: inside, 2: and in a part */
  int32_t parts = 0;
  for (int32_t i = set->begin; i < set->end; i++) where[division->inside[i]] = 1;
  for (int32_t i = set->begin; i < set->end; i++) {
    const int32_t v = division->inside[i];
    for (int32_t k = graph->before_start[v]; k < graph->before_start[v + 1]; k++)
      assert_true(where[graph->before[k]] > 0 || graph->before[k] == set->source);
    for (int32_t k = graph->after_start[v]; k < graph->after_start[v + 1]; k++)
      assert_true(where[graph->after[k]] > 0 || graph->after[k] == set->target);
    if (graph->before_start[v] == graph->before_start[v + 1]) assert_int_equal(set->source, -1);
    if (graph->after_start[v] == graph->after_start[v + 1]) assert_int_equal(set->target, graph->count);
  }
  for (int32_t k = set->cut_begin; k < set->cut_end; k++, parts++) {
    assert_int_equal(where[division->cuts.data[k]], 1);
    where[division->cuts.data[k]] = 2;
  }
  for (int32_t k = set->child_begin; k < set->child_end; k++) {
    if (division->children.data[k] < 0) continue;
    const struct closed_set *child = &division->sets.data[division->children.data[k]];
    assert_true(child->begin < child->end);
    for (int32_t i = child->begin; i < child->end; i++, parts++) {
      assert_int_equal(where[division->inside[i]], 1);
      where[division->inside[i]] = 2;
    }
  }
  assert_int_equal(parts, set->end - set->begin);
}

static void test_max_terms_on_any_graph(void **state) {
  (void)state;
  int branches = 0, others = 0, inside_others = 0;
  for (int i = 0; i < shorten(400); i++) {
    neap_step *step = training_step(8 + i % 90, (uint32_t)i + 1, i % 3 == 0);
    struct region region = {0};
    struct forward_graph graph;
    struct division division = {0};
    struct max_term_search search;
    assert_int_equal(forward_graph_create(step, &region, &graph), NEAP_OK);
    assert_int_equal(division_create(&graph, &region, &division), NEAP_OK);
    assert_int_equal(max_term_create(&division, &region, &search), NEAP_OK);
    for (size_t s = 0; s < division.sets.count; s++) {
      expect_closed(&division, &division.sets.data[s]);
      branches += division.sets.data[s].kind == DIVISION_BRANCHES;
      others += division.sets.data[s].kind == DIVISION_OTHER;
      inside_others += division.sets.data[s].kind == DIVISION_OTHER &&
                       division.sets.data[s].child_begin < division.sets.data[s].child_end;
    }
    const uint64_t total = division.sets.data[0].bytes;
    uint64_t before = UINT64_MAX;
    for (int part = 0; part <= 12; part++) {
      uint64_t kept, largest;
      max_term_solve(&search, total * (uint64_t)part / 12, &kept, &largest);
      assert_true(largest <= total * (uint64_t)part / 12);
      assert_true(kept <= before); /* a larger max term never keeps more */
      expect_pieces(&graph, search.stays, kept, largest);
      before = kept;
    }
    assert_int_equal(before, 0);
    division_free(&division);
    region_free(&region);
    neap_step_free(step);
  }
  assert_true(branches > shorten(200) && others > shorten(50) && inside_others > shorten(20));
}

/* ---- Updates ---- */

/* Each stands where it may, and would not be valid one position earlier; also where nodes run again at the
 * end, for which updates of what they read have to wait. */
static void test_updates_are_early(void **state) {
  (void)state;
  int early = 0;
  for (int i = 0; i < shorten(300); i++) {
    neap_step *step = training_step(8 + i % 60, (uint32_t)i + 1, false);
    struct schedule schedule = {0};
    struct simulation score;
    for (int32_t v = 0; v < step->node_count; v++)
      if (!is_plain_update(&step->nodes[v])) assert_int_equal(vector_push(&schedule.nodes, v), NEAP_OK);
    uint32_t random = (uint32_t)i + 1;
    for (int k = 0; k < i % 4; k++) {
      const int32_t again = (int32_t)draw(&random, (uint32_t)step->node_count);
      if (step->nodes[again].repeatable && step->nodes[again].update_count == 0)
        assert_int_equal(vector_push(&schedule.nodes, again), NEAP_OK);
    }
    assert_int_equal(schedule_add_updates(step, &schedule), NEAP_OK);
    int32_t *nodes = schedule.nodes.data;
    assert_int_equal(simulate(step, nodes, (int32_t)schedule.nodes.count, &score), NEAP_OK);
    for (size_t at = 1; at < schedule.nodes.count; at++) {
      const int32_t update = nodes[at], before = nodes[at - 1];
      if (!is_plain_update(&step->nodes[update]) || is_plain_update(&step->nodes[before])) continue;
      nodes[at] = before;
      nodes[at - 1] = update;
      assert_int_equal(simulate(step, nodes, (int32_t)schedule.nodes.count, &score), NEAP_INVALID_PLAN);
      nodes[at] = update;
      nodes[at - 1] = before;
      early++;
    }
    schedule_free(&schedule);
    neap_step_free(step);
  }
  assert_true(early > shorten(300));
}

/* ---- The rows ---- */

static const char *const rows[] = {"kusumoto-exact", "kusumoto", "feng-huang", "dtr"};
enum { EXACT, ANCESTORS, FENG_HUANG, DTR, ROWS };

struct result {
  neap_status status;
  struct simulation score;
};

static struct result run_row(const neap_step *step, uint64_t budget, int row, bool quick) {
  struct schedule found = {0};
  struct result result = {0};
  const struct planner_options options = {.effort = quick ? EFFORT_QUICK : EFFORT_USUAL};
  result.status = planner_find(rows[row])->plan(step, budget, &options, &found);
  if (result.status != NEAP_OK) assert_int_equal(result.status, NEAP_OVER_BUDGET);
  if (found.nodes.count > 0)
    assert_int_equal(simulate(step, found.nodes.data, (int32_t)found.nodes.count, &result.score), NEAP_OK);
  if (result.status == NEAP_OK) assert_true(found.nodes.count > 0 && result.score.peak_bytes <= budget);
  if (result.status != NEAP_OK && found.nodes.count > 0) assert_true(result.score.peak_bytes > budget);
  schedule_free(&found);
  return result;
}

/* With more the exact row takes seconds. */
static bool has_few_lower_sets(const neap_step *step) {
  struct region region = {0};
  struct forward_graph graph;
  struct lower_sets sets;
  assert_int_equal(forward_graph_create(step, &region, &graph), NEAP_OK);
  const neap_status status = lower_sets_all(&graph, 150, &region, &sets);
  assert_true(status == NEAP_OK || status == NEAP_OVER_BUDGET);
  region_free(&region);
  return status == NEAP_OK;
}

static double forward_cost(const neap_step *step) {
  double cost = 0;
  for (int32_t v = 0; v < step->node_count; v++)
    cost += step->nodes[v].pass == NEAP_PASS_FORWARD ? step->nodes[v].cost : 0;
  return cost;
}

/* Promises, at five budgets between the bound and keeping everything. `exact`: the row takes the graph. */
static void expect_promises(const neap_step *step, bool exact, int *met) {
  struct simulation keep;
  struct schedule all = {0};
  const struct planner_options options = {0};
  assert_int_equal(planner_find("keep-all")->plan(step, UINT64_MAX, &options, &all), NEAP_OK);
  assert_int_equal(simulate(step, all.nodes.data, (int32_t)all.nodes.count, &keep), NEAP_OK);
  schedule_free(&all);
  bool before[ROWS] = {false};
  const uint64_t lowest = plan_lower_bound(step);
  for (int part = 0; part <= 4; part++) {
    const uint64_t budget = lowest + (keep.peak_bytes - lowest) * (uint64_t)part / 4;
    struct result result[ROWS];
    for (int row = 0; row < ROWS; row++) {
      if (row == EXACT && !exact) continue;
      result[row] = run_row(step, budget, row, false);
      assert_int_equal(run_row(step, budget, row, true).status, result[row].status);
      met[row] += result[row].status == NEAP_OK;
      if (result[row].status != NEAP_OK) {
        if (row != DTR) assert_false(before[row]); /* met with less, and now not */
        continue;
      }
      before[row] = true;
      if (row != DTR) assert_true(result[row].score.cost <= step->base_cost + forward_cost(step) + 1e-6);
    }
    if (!exact || result[ANCESTORS].status != NEAP_OK) continue;
    assert_int_equal(result[EXACT].status, NEAP_OK);
    assert_true(result[EXACT].score.cost <= result[ANCESTORS].score.cost);
  }
}

static void test_rows(void **state) {
  (void)state;
  int met[ROWS] = {0}, exact_steps = 0;
  for (int i = 0; i < shorten(200); i++) {
    neap_step *step = training_step(6 + i % 60, (uint32_t)i + 1, i % 3 == 0);
    const bool exact = has_few_lower_sets(step);
    exact_steps += exact;
    expect_promises(step, exact, met);
    neap_step_free(step);
  }
  print_message("met: kusumoto-exact %d (of %d steps), kusumoto %d, feng-huang %d, dtr %d of %d\n",
                met[EXACT], exact_steps, met[ANCESTORS], met[FENG_HUANG], met[DTR], 5 * shorten(200));
  for (int row = 0; row < ROWS; row++) assert_true(met[row] > shorten(200));
}

/* By way of the library, with layout, by the independent checker. */
static void test_plans_are_valid(void **state) {
  (void)state;
  int met = 0;
  for (int i = 0; i < shorten(100); i++) {
    neap_step *step = i % 2 == 0 ? training_step(6 + i % 50, (uint32_t)i + 1000, i % 4 == 0)
                                 : random_step((enum family)(i % FAMILY_COUNT), 3 + i % 23, (uint32_t)i + 1);
    for (int row = has_few_lower_sets(step) ? 0 : 1; row < ROWS; row++) {
      neap_plan *plan;
      neap_check_result result;
      const neap_status status = neap_plan_make(step, NEAP_BUDGET_MIN, rows[row], NULL, &plan);
      if (status == NEAP_OVER_BUDGET) continue;
      assert_int_equal(status, NEAP_OK);
      met++;
      if (neap_plan_check(step, plan, &result) != NEAP_OK) print_error("%s\n", neap_error_message());
      assert_true(result.valid);
      assert_int_equal(result.live_peak_bytes, plan->live_peak_bytes);
      assert_true(fabs(result.cost - plan->cost) < 1e-9 * result.cost);
      neap_plan_free(plan);
    }
    neap_step_free(step);
  }
  assert_true(met > shorten(300));
}

int run_test_lower_set_planners(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_strategies_against_brute_force),
                                     cmocka_unit_test(test_max_terms_on_chains),
                                     cmocka_unit_test(test_max_terms_on_any_graph),
                                     cmocka_unit_test(test_updates_are_early),
                                     cmocka_unit_test(test_rows),
                                     cmocka_unit_test(test_plans_are_valid)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
