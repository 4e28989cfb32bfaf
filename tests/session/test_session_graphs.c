/* A session that runs several graphs over the same variables: each step is that of a session of its own graph
 * alone, in the memory of the first. */
#include <unistd.h>

#include "effort.h"
#include "session_help.h"

enum { CLASSES = 30, SHAPES = 3 };
static const int64_t batches[SHAPES] = {4, 7, 3}, lengths[SHAPES] = {21, 12, 5};

static neap_graph *build(const char *model, int64_t batch, int64_t length) {
  neap_graph *graph = NULL;
  const neap_model_options shape = {.batch = batch, .classes = CLASSES, .length = length, .dropout = 0.1f};
  ASSERT_OK(build_named(model, &shape, &graph));
  return graph;
}

static neap_session_options options(uint64_t budget, neap_dtype precision) {
  return (neap_session_options){.budget = budget,
                                .planner = quick_planner(),
                                .threads = 2,
                                .seed = 9,
                                .precision = precision,
                                .master = true};
}

/* Fills the inputs of the graph that is selected. */
static void fill(neap_session *s, int64_t batch, int64_t length, int seed) {
  int32_t *tokens = neap_session_input(s, "tokens"), *labels = neap_session_input(s, "label");
  for (int64_t i = 0; i < batch * length; i++) {
    tokens[i] = (int32_t)((i * 7 + seed) % CLASSES);
    labels[i] = (int32_t)((i * 11 + 3 * seed) % CLASSES);
  }
}

/* Steps with several graphs, one after the other; each again in a session of its own that begins with the
 * weights that the others left. */
static void compare(const char *model, uint64_t budget, neap_dtype precision) {
  static const int order[] = {1, 0, 2, 2, 1, 0};
  neap_graph *graphs[SHAPES];
  neap_session *s, *alone[SHAPES];
  char path[] = "/tmp/neap-graphs-XXXXXX";
  close(mkstemp(path));
  for (int i = 0; i < SHAPES; i++) graphs[i] = build(model, batches[i], lengths[i]);
  neap_session_options o = options(budget, precision);
  ASSERT_OK(neap_session_create(graphs[0], &o, NULL, &s));
  o.budget = NEAP_BUDGET_MAX;
  for (int i = 0; i < SHAPES; i++) ASSERT_OK(neap_session_create(graphs[i], &o, NULL, &alone[i]));
  for (int i = 1; i < SHAPES; i++) {
    int index;
    ASSERT_OK(neap_session_add_graph(s, graphs[i], &index));
    assert_int_equal(index, i);
  }
  for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
    const int i = order[k];
    neap_step_result x, y;
    char expected[65], got[65];
    ASSERT_OK(neap_session_save(s, path));
    ASSERT_OK(neap_session_load(alone[i], path));
    ASSERT_OK(neap_session_select(s, i));
    fill(s, batches[i], lengths[i], (int)k);
    fill(alone[i], batches[i], lengths[i], (int)k);
    ASSERT_OK(neap_session_evaluate(s, &x));
    ASSERT_OK(neap_session_evaluate(alone[i], &y));
    assert_true(x.loss == y.loss && x.correct == y.correct);

    ASSERT_OK(neap_session_step(s, 0.1f, &x));
    ASSERT_OK(neap_session_step(alone[i], 0.1f, &y));
    assert_true(x.loss == y.loss);
    ASSERT_OK(neap_session_digest(s, got));
    ASSERT_OK(neap_session_digest(alone[i], expected));
    assert_string_equal(got, expected);
  }
  neap_memory memory;
  neap_session_memory(s, &memory);
  assert_true(memory.measured_peak <= memory.planned_peak);
  neap_session_free(s);
  for (int i = 0; i < SHAPES; i++) {
    neap_session_free(alone[i]);
    neap_graph_free(graphs[i]);
  }
  unlink(path);
}

static void test_graphs(void **state) {
  (void)state;
  compare("llama-2x16x2x1", NEAP_BUDGET_MAX, NEAP_F32);
  compare("llama-2x16x2x1", NEAP_BUDGET_MIN, NEAP_F32);
  compare("llama-1x16x2x1", NEAP_BUDGET_MAX, NEAP_BF16);
}

static void test_refused(void **state) {
  (void)state;
  neap_graph *graph = build("llama-2x16x2x1", 4, 21), *wide = build("llama-2x16x2x1", 8, 21),
             *other = build("llama-1x16x2x1", 4, 21);
  const neap_session_options o = options(NEAP_BUDGET_MAX, NEAP_F32);
  neap_session *s;
  int index = -1;
  ASSERT_OK(neap_session_create(graph, &o, NULL, &s));
  assert_int_equal(neap_session_select(s, 1), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_session_add_graph(s, wide, &index), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_session_add_graph(s, other, &index), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_session_add_graph(NULL, graph, &index), NEAP_INVALID_ARGUMENT);
  assert_int_equal(index, -1);
  ASSERT_OK(neap_session_select(s, 0));
  fill(s, 4, 21, 1);
  ASSERT_OK(neap_session_step(s, 0.1f, NULL));
  neap_session_free(s);
  neap_graph_free(graph);
  neap_graph_free(wide);
  neap_graph_free(other);
}

int run_test_session_graphs(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_graphs), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
