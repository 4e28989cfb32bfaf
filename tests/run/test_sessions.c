/* Every model x planner x budget gives the bits of keeping everything: weights, optimizer states and running
 * statistics; the measured peak is the planned one; budgets at, just above and just below the least. */
#include <omp.h>
#include <pthread.h>

#include "effort.h"
#include "session_help.h"

struct model_case {
  const char *name;
  neap_model_options shape;
  bool large; /* left out under sanitizers */
};

static const struct model_case models[] = {
    {"mlp", {.batch = 8}, false},
    {"dlr-2x24x4x3", {.batch = 8}, false},
    {"lenet", {.batch = 4}, false},
    {"wrn-10-1", {.batch = 4, .image = {3, 16, 16}}, false},
    {"preresnet-20", {.batch = 2, .image = {3, 16, 16}}, true},
    {"unet-4", {.batch = 1, .image = {1, 188, 188}}, true},
    {"resnet18", {.batch = 2, .image = {3, 64, 64}, .classes = 10}, true},
    {"resnet50", {.batch = 2, .image = {3, 64, 64}, .classes = 10}, true},
};

static neap_status open_with(const neap_graph *graph, const char *planner, uint64_t budget,
                             uint64_t *smallest, neap_session **s) {
  const neap_session_options options = {
      .budget = budget, .planner = planner, .momentum = 0.9f, .weight_decay = 5e-4f, .threads = 2, .seed = 1};
  return neap_session_create(graph, &options, smallest, s);
}

/* From what no plan needs less than to keeping everything: fifths of the way. */
enum { FIFTHS = 5 };

static void find_budgets(const neap_graph *graph, uint64_t budgets[FIFTHS + 1]) {
  const neap_session_options options = {.momentum = 0.9f, .weight_decay = 5e-4f, .threads = 2};
  neap_step *step;
  neap_plan *plan;
  neap_plan_info info;
  ASSERT_OK(neap_step_from_graph(graph, &options, &step));
  ASSERT_OK(neap_plan_make(step, NEAP_BUDGET_MAX, "keep-all", NULL, &plan));
  neap_plan_describe(plan, &info);
  neap_plan_free(plan);
  neap_step_free(step);
  for (int i = 0; i <= FIFTHS; i++)
    budgets[i] = info.lower_bound_bytes + (info.peak_bytes - info.lower_bound_bytes) * (uint64_t)i / FIFTHS;
}

static bool takes_any_graph(const char *planner) {
  neap_row row;
  for (int32_t p = 0; neap_planner_at(p, &row); p++)
    if (strcmp(row.name, planner) == 0) return strcmp(row.graphs, "any") == 0;
  return true; /* auto */
}

static struct run_result run_with(const neap_graph *graph, const char *planner, uint64_t budget,
                                  bool *feasible) {
  neap_session *s = NULL;
  const neap_status status = open_with(graph, planner, budget, NULL, &s);
  *feasible = status == NEAP_OK;
  if (status == NEAP_OVER_BUDGET) return (struct run_result){0};
  ASSERT_OK(status);
  const struct run_result r = run_steps(s, 2, 0.05f, 10);
  neap_session_free(s);
  return r;
}

static void test_every_plan_gives_the_same_bits(void **state) {
  (void)state;
  for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
    if (models[m].large && quick_pass()) continue;
    neap_graph *graph;
    bool feasible;
    uint64_t budgets[FIFTHS + 1];
    ASSERT_OK(build_named(models[m].name, &models[m].shape, &graph));
    find_budgets(graph, budgets);
    const struct run_result kept = run_with(graph, "keep-all", NEAP_BUDGET_MAX, &feasible);
    assert_true(feasible);
    neap_row row;
    for (int32_t p = 0; neap_planner_at(p, &row); p++) {
      if (quick_pass() && (p + (int32_t)m) % 2 == 1) continue; /* each planner on every other model */
      int met = 0;
      for (int i = FIFTHS; i > (quick_pass() ? 2 : 0); i -= 2) {
        const struct run_result r = run_with(graph, row.name, budgets[i], &feasible);
        if (!feasible) continue;
        met++;
        assert_string_equal(r.digest, kept.digest);
        assert_true(r.last.loss == kept.last.loss);
      }
      assert_true(met > 0 || !takes_any_graph(row.name)); /* keeping everything, at least */
      if (strcmp(row.name, "neap") == 0) assert_true(met > 1);
    }
    const struct run_result least =
        run_with(graph, quick_pass() ? "evict" : "auto", NEAP_BUDGET_MIN, &feasible);
    assert_true(feasible);
    assert_string_equal(least.digest, kept.digest);
    neap_graph_free(graph);
  }
}

static void test_at_the_least_budget(void **state) {
  (void)state;
  static const char *const names[] = {"mlp", "lenet", "wrn-10-1"};
  for (size_t m = 0; m < sizeof names / sizeof *names; m++) {
    if (m >= (sanitized() ? 1 : quick_pass() ? 2 : 3)) continue; /* many searches for the least */
    neap_graph *graph;
    neap_session *s = NULL;
    uint64_t smallest = 0, again = 0;
    ASSERT_OK(build_named(names[m], &(neap_model_options){.batch = 4}, &graph));
    assert_int_equal(open_with(graph, NULL, 1, &smallest, &s), NEAP_OVER_BUDGET);
    assert_true(smallest > 1);
    assert_int_equal(open_with(graph, NULL, smallest - 1, &again, &s), NEAP_OVER_BUDGET);
    assert_int_equal(again, smallest);
    for (uint64_t budget = smallest; budget <= smallest + 1; budget++) {
      ASSERT_OK(open_with(graph, NULL, budget, &again, &s));
      run_steps(s, 1, 0.1f, 10);
      neap_session_free(s);
    }
    neap_graph_free(graph);
  }
}

/* Each row that takes any graph says what it needs at least. */
static void test_the_least_of_each_row(void **state) {
  (void)state;
  neap_graph *graph;
  neap_row row;
  ASSERT_OK(build_named("lenet", &(neap_model_options){.batch = 4}, &graph));
  for (int32_t p = 0; neap_planner_at(p, &row); p++) {
    neap_session *s = NULL;
    uint64_t smallest = 0;
    assert_int_equal(open_with(graph, row.name, 1, &smallest, &s), NEAP_OVER_BUDGET);
    assert_true(smallest > 0 || !takes_any_graph(row.name));
  }
  neap_graph_free(graph);
}

/* Evaluation changes nothing, whatever the budget. */
static void test_evaluation_changes_nothing(void **state) {
  (void)state;
  neap_graph *graph;
  ASSERT_OK(build_named("wrn-10-1", &(neap_model_options){.batch = 4, .image = {3, 16, 16}}, &graph));
  neap_session *s = NULL;
  ASSERT_OK(open_with(graph, "evict", NEAP_BUDGET_MIN, NULL, &s));
  const struct run_result before = run_steps(s, 2, 0.05f, 10);
  neap_step_result first, second;
  char digest[65];
  ASSERT_OK(neap_session_evaluate(s, &first));
  ASSERT_OK(neap_session_evaluate(s, &second));
  ASSERT_OK(neap_session_digest(s, digest));
  assert_string_equal(digest, before.digest);
  assert_true(first.loss == second.loss && first.correct == second.correct);
  neap_session_free(s);
  neap_graph_free(graph);
}

/* ---- Threads ---- */

static neap_session *open_for(const neap_graph *graph, int threads) {
  const neap_session_options options = {
      .budget = NEAP_BUDGET_MAX, .momentum = 0.9f, .threads = threads, .seed = 1};
  neap_session *s = NULL;
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  return s;
}

static void expect_digest(neap_session *s, const char *digest) {
  assert_string_equal(run_steps(s, 2, 0.05f, 10).digest, digest);
  neap_session_free(s);
}

struct elsewhere {
  neap_session *session;
  struct ending ending;
};

static void *step_elsewhere(void *context) {
  struct elsewhere *e = context;
  for (int i = 0; i < 2 && e->ending.status == NEAP_OK; i++) {
    fill_inputs(e->session, (uint64_t)i + 1, 10);
    ending_keep(&e->ending, neap_session_step(e->session, 0.05f, NULL));
  }
  return NULL;
}

/* A session has the threads that it was made for, whichever thread steps it, whatever others are made for and
 * whatever the caller's own parallel regions have. */
static void test_threads_are_of_the_session(void **state) {
  (void)state;
  enum { MOST = 3 };
  neap_graph *graph;
  char digests[MOST + 1][65], digest[65];
  const int own = omp_get_max_threads();
  ASSERT_OK(build_named("wrn-10-1", &(neap_model_options){.batch = 16}, &graph));
  for (int threads = 1; threads <= MOST; threads++) {
    neap_session *s = open_for(graph, threads);
    memcpy(digests[threads], run_steps(s, 2, 0.05f, 10).digest, sizeof *digests);
    neap_session_free(s);
  }
  for (int threads = 1; threads <= MOST; threads++) {
    neap_session *s = open_for(graph, threads), *other = open_for(graph, MOST + 1 - threads);
    expect_digest(s, digests[threads]);
    expect_digest(other, digests[MOST + 1 - threads]);

    struct elsewhere e = {.session = open_for(graph, threads)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, step_elsewhere, &e), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    ASSERT_OK(ending_tell(&e.ending));
    ASSERT_OK(neap_session_digest(e.session, digest));
    assert_string_equal(digest, digests[threads]);
    neap_session_free(e.session);

    s = open_for(graph, threads);
    omp_set_num_threads(MOST + 2);
    const struct run_result r = run_steps(s, 2, 0.05f, 10);
    assert_int_equal(omp_get_max_threads(), MOST + 2);
    omp_set_num_threads(own);
    assert_string_equal(r.digest, digests[threads]);
    neap_session_free(s);
  }
  neap_graph_free(graph);
}

/* Inside a parallel region OpenMP has one thread for a session: enough for one that was made for one. */
static void test_threads_that_cannot_be_had(void **state) {
  (void)state;
  neap_graph *graph;
  ASSERT_OK(build_named("lenet", &(neap_model_options){.batch = 4}, &graph));
  neap_session *sessions[] = {open_for(graph, 1), open_for(graph, 2)};
  neap_status status[2];
#pragma omp parallel for num_threads(2)
  for (int i = 0; i < 2; i++) status[i] = neap_session_step(sessions[i], 0.05f, NULL);
  assert_int_equal(status[0], NEAP_OK);
  assert_int_equal(status[1], NEAP_INVALID_ARGUMENT);
  for (int i = 0; i < 2; i++) neap_session_free(sessions[i]);
  const int own = omp_get_max_threads();
  neap_session *none = NULL;
  assert_int_equal(neap_session_create(graph, &(neap_session_options){.threads = 100000}, NULL, &none),
                   NEAP_INVALID_ARGUMENT);
  assert_null(none);
  assert_int_equal(omp_get_max_threads(), own);
  neap_graph_free(graph);
}

int run_test_sessions(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_plan_gives_the_same_bits),
                                     cmocka_unit_test(test_at_the_least_budget),
                                     cmocka_unit_test(test_the_least_of_each_row),
                                     cmocka_unit_test(test_evaluation_changes_nothing),
                                     cmocka_unit_test(test_threads_are_of_the_session),
                                     cmocka_unit_test(test_threads_that_cannot_be_had)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
