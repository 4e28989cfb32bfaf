/* Gradients of residual branches at a share of the positions: which these are, that computing with them alone
 * gives the gradients of whole branches that are masked, that every plan gives the same bits, what is
 * refused. */
#include <omp.h>

#include "effort.h"
#include "models_by_name.h"
#include "op/kept_rows.h"
#include "op_cases.h"
#include "session_help.h"

static const struct optimizer sgd = {.kind = NEAP_SGD};
static const struct run_context context = {.seed = 7, .step = 3, .learning_rate = 1000};

static const struct model_case {
  const char *name;
  neap_model_options shape;
} models[] = {
    {"gpt-2x32x4", {.batch = 4, .classes = OP_CASE_CLASSES, .length = 24, .dropout = 0.1f}},
    {"llama-2x32x4x2", {.batch = 4, .classes = OP_CASE_CLASSES, .length = 23}},
    {"bert-1x32x4", {.batch = 4, .classes = OP_CASE_CLASSES, .length = 70}},
    {"gpt-1x32x4", {.batch = 2, .classes = OP_CASE_CLASSES, .length = 150, .window = 9}},
    {"gpt-1x32x4", {.batch = 4, .classes = OP_CASE_CLASSES, .length = 24, .attention = "strided:4"}},
    {"gpt-1x32x4", {.batch = 4, .classes = OP_CASE_CLASSES, .length = 24, .packed = true}},
    {"gpt-1x32x4", {.batch = 4, .classes = OP_CASE_CLASSES, .length = 24, .side = 2}}};
enum { MODELS = sizeof models / sizeof *models };
static const float shares[] = {0.5f, 0.25f, 0.7f};
enum { SHARES = sizeof shares / sizeof *shares };

static struct neap_graph *build(const struct model_case *c) {
  struct neap_graph *graph = NULL;
  assert_ok(build_named(c->name, &c->shape, &graph));
  return graph;
}

/* ---- Which rows ---- */

/* The number does not depend on the start; numbers rise; the first rows are kept; each other one is kept
 * about as often as the share says. */
static void test_which_rows(void **state) {
  (void)state;
  enum { MOST = 300, STARTS = 256 };
  static const struct kept_rows_attributes cases[] = {
      {24, 0, 1, 0.5f},  {23, 0, 1, 0.25f}, {65, 1, 8, 0.5f}, {50, 1, 7, 0.5f},   {197, 1, 14, 0.25f},
      {37, 1, 6, 0.75f}, {16, 1, 3, 0.4f},  {2, 0, 1, 0.5f},  {300, 0, 1, 0.01f}, {2, 1, 1, 0.9f}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    const struct kept_rows_attributes *a = &cases[c];
    const int64_t count = kept_row_count(a);
    int32_t times[MOST] = {0};
    assert_true(count > a->first && count <= a->length);
    for (uint32_t s = 0; s < STARTS; s++) {
      int32_t rows[MOST + 1];
      rows[count] = -7;
      kept_rows_find(a, s << 24 | 0x123456, rows);
      assert_int_equal(rows[count], -7);
      for (int64_t i = 0; i < count; i++) {
        assert_true(rows[i] >= 0 && rows[i] < a->length && (i == 0 || rows[i] > rows[i - 1]));
        times[rows[i]]++;
      }
    }
    for (int64_t i = 0; i < a->length; i++) {
      const double share = (double)(count - a->first) / (double)(a->length - a->first),
                   got = times[i] / (double)STARTS;
      if (i < a->first) assert_int_equal(times[i], STARTS);
      if (i >= a->first && fabs(got - share) > 0.3)
        fail_msg("row %d of case %zu: %g of %g", (int)i, c, got, share);
    }
  }
}

/* With whole strides the rows are those of the publication: (row + column) mod stride is one number, or all
 * but one. */
static void test_diagonals(void **state) {
  (void)state;
  static const struct kept_rows_attributes half = {64, 0, 8, 0.5f}, quarter = {65, 1, 8, 0.25f},
                                           most = {64, 0, 8, 0.75f};
  int32_t rows[65];
  for (uint32_t s = 0; s < 8; s++) {
    const uint32_t start = s << 29 | 0x1234;
    kept_rows_find(&half, start, rows);
    for (int i = 0; i < 32; i++)
      assert_int_equal((rows[i] / 8 + rows[i] % 8) % 2, (rows[0] / 8 + rows[0] % 8) % 2);
    kept_rows_find(&quarter, start, rows);
    assert_int_equal(rows[0], 0);
    for (int i = 1; i < 17; i++)
      assert_int_equal(((rows[i] - 1) / 8 + (rows[i] - 1) % 8) % 4,
                       ((rows[1] - 1) / 8 + (rows[1] - 1) % 8) % 4);
    kept_rows_find(&most, start, rows);
    bool kept[4] = {false};
    for (int i = 0; i < 48; i++) kept[(rows[i] / 8 + rows[i] % 8) % 4] = true;
    assert_int_equal(kept[0] + kept[1] + kept[2] + kept[3], 3);
  }
}

/* ---- Gradients ---- */

/* The training graph. `share` 1: of all positions; `short`: with rows alone, else whole values are masked. */
static struct neap_graph *training(const struct model_case *c, float share, bool rows) {
  struct neap_graph *graph = build(c), *marked = NULL, *made = NULL;
  if (share < 1) {
    assert_ok(rewrite_mark_branches(graph, share, &marked));
    neap_graph_free(graph);
    graph = marked;
  }
  assert_ok(graph_add_training(graph, &sgd));
  if (!rows) return graph;
  assert_ok(rewrite_keep_rows(graph, &made));
  neap_graph_free(graph);
  return made;
}

static void train(const struct neap_graph *graph, const struct backend *backend, struct lowered **lowered,
                  struct interpreter *m) {
  assert_ok(lower(graph, backend, &(struct lower_options){.threads = omp_get_max_threads()}, NULL, lowered));
  *m = interpreter_create(*lowered, 0, 0xFF);
  op_case_fill(m);
  interpreter_run(m, &context);
}

/* The most that a parameter differs after a step, over the largest number of its kind. */
static double difference(const struct interpreter *a, const struct interpreter *b) {
  const struct neap_graph *of_a = a->lowered->graph, *of_b = b->lowered->graph;
  double most = 0;
  int32_t other = 0;
  for (int32_t id = 0; id < (int32_t)of_a->tensors.count; id++) {
    const struct tensor *t = &of_a->tensors.data[id];
    if (t->role != NEAP_ROLE_PARAMETER || t->view_of >= 0) continue;
    while (of_b->tensors.data[other].role != NEAP_ROLE_PARAMETER || of_b->tensors.data[other].view_of >= 0)
      other++;
    assert_string_equal(t->name, of_b->tensors.data[other].name);
    double *x = interpreter_read(a, id), *y = interpreter_read(b, other++), size = 0, off = 0;
    for (int64_t i = 0; i < t->elements; i++) {
      size = fmax(size, fabs(x[i]));
      off = fmax(off, fabs(x[i] - y[i]));
    }
    most = fmax(most, off / size);
    free(x);
    free(y);
  }
  return most;
}

/* Both backends give, with rows alone, the gradients that the reference backend gives with masked values;
 * those of all positions are others. */
static void test_gradients(void **state) {
  (void)state;
  static const struct backend *const backends[] = {&reference_backend, &cpu_backend, &reference_backend,
                                                   &reference_backend};
  for (int m = 0; m < MODELS; m++)
    for (int k = 0; k < SHARES; k++) {
      if (leaves_out((size_t)m, (size_t)k, SHARES)) continue;
      struct neap_graph *graphs[] = {training(&models[m], shares[k], false),
                                     training(&models[m], shares[k], true),
                                     training(&models[m], shares[k], true), training(&models[m], 1, false)};
      struct lowered *lowered[4];
      struct interpreter run[4];
      for (int i = 0; i < 4; i++) train(graphs[i], backends[i], &lowered[i], &run[i]);
      const double cpu = difference(&run[1], &run[0]), reference = difference(&run[2], &run[0]),
                   all = difference(&run[3], &run[0]);
      if (cpu > 2e-4 || reference > 1e-9 || all < 100 * cpu)
        fail_msg("%s, a share of %g: off by %g and %g; gradients of all positions by %g", models[m].name,
                 (double)shares[k], cpu, reference, all);
      for (int i = 0; i < 4; i++) {
        interpreter_free(&run[i]);
        lowered_free(lowered[i]);
        neap_graph_free(graphs[i]);
      }
    }
}

/* ---- What is kept ---- */

/* No gradient of a hidden layer reads all rows; what gathers rows stands in the forward pass. */
static void test_what_is_read(void **state) {
  (void)state;
  struct neap_graph *graph = training(&models[0], 0.5f, true);
  int32_t early = 0;
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    if (node->op == OP_GELU_BACKWARD) {
      for (int32_t i = 0; i < node->input_count; i++)
        assert_int_equal(node_input(graph, node, i)->elements, 4 * 12 * 4 * 32);
    }
    if (node->op != OP_GATHER_ROWS) continue;
    const int32_t x = graph_storage(graph, node->inputs[ROWS_X]), producer = graph->tensors.data[x].producer;
    assert_true(producer >= 0 && producer < (int32_t)v);
    early += node->pass == NEAP_PASS_FORWARD;
    if (node->pass == NEAP_PASS_FORWARD)
      assert_int_equal(graph->nodes.data[producer].pass, NEAP_PASS_FORWARD);
  }
  assert_true(early >= 2 * 3);
  neap_graph_free(graph);
}

/* ---- Plans ---- */

static struct run_result trained(const neap_graph *graph, neap_session_options options) {
  neap_session *s = NULL;
  options.threads = 2;
  options.seed = 5;
  options.momentum = 0.9f;
  options.planner = quick_planner();
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  const struct run_result r = run_steps(s, 4, 0.05f, OP_CASE_CLASSES);
  neap_session_free(s);
  return r;
}

/* Every budget gives the same bits, others than all positions do, in fewer bytes; a share of 1 gives those of
 * none. */
static void test_plans(void **state) {
  (void)state;
  static const neap_session_options kinds[] = {{.backprop_share = 0.5f},
                                               {.backprop_share = 0.25f, .precision = NEAP_BF16},
                                               {.backprop_share = 0.5f, .micro_batches = 2},
                                               {.backprop_share = 0.6f, .compress = "4"},
                                               {.backprop_share = 0.5f, .clip_norm = 0.5f, .ema = 0.9f},
                                               {.backprop_share = 0.5f, .lora = 4}};
  enum { KINDS = sizeof kinds / sizeof *kinds };
  for (int m = 0; m < 3; m++) {
    neap_graph *graph = build(&models[m]);
    for (size_t k = 0; k < KINDS; k++) {
      if (leaves_out((size_t)m, k, KINDS)) continue;
      neap_session_options o = kinds[k];
      const struct run_result most = trained(graph, o);
      o.budget = NEAP_BUDGET_MIN;
      const struct run_result least = trained(graph, o);
      o.budget = least.memory.planned_peak + (most.memory.planned_peak - least.memory.planned_peak) * 6 / 10;
      const struct run_result some = trained(graph, o);
      assert_true(least.memory.planned_peak <= most.memory.planned_peak);
      assert_string_equal(least.digest, most.digest);
      assert_string_equal(some.digest, most.digest);
      o.backprop_share = 0;
      o.budget = NEAP_BUDGET_MAX;
      const struct run_result plain = trained(graph, o);
      assert_string_not_equal(plain.digest, most.digest);
      assert_true(plain.memory.planned_peak > most.memory.planned_peak);
      o.backprop_share = 1;
      assert_string_equal(trained(graph, o).digest, plain.digest);
    }
    neap_graph_free(graph);
  }
}

static void test_refusals(void **state) {
  (void)state;
  static const struct model_case others[] = {{"wrn-10-1", {.batch = 2, .image = {3, 16, 16}}},
                                             {"char-lstm-1x48", {.batch = 2, .classes = 5, .length = 6}}};
  neap_graph *graph = build(&models[0]);
  neap_step *step = NULL;
  neap_session_options o = {.backprop_share = 0.5f, .mezo = true};
  expect_failure(neap_step_from_graph(graph, &o, &step), NEAP_UNSUPPORTED,
                 "mezo: it does not take backprop share");
  o = (neap_session_options){.backprop_share = 1.5f};
  expect_failure(neap_step_from_graph(graph, &o, &step), NEAP_INVALID_ARGUMENT,
                 "backprop-share: the share of the positions must be above 0 and at most 1 (got 1.5)");
  neap_graph_free(graph);
  for (int i = 0; i < 2; i++) {
    graph = build(&others[i]);
    o = (neap_session_options){.backprop_share = 0.5f};
    expect_failure(neap_step_from_graph(graph, &o, &step), NEAP_UNSUPPORTED, "backprop-share: '");
    neap_graph_free(graph);
  }
}

int run_test_kept_rows(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_which_rows), cmocka_unit_test(test_diagonals),
                                     cmocka_unit_test(test_gradients),  cmocka_unit_test(test_what_is_read),
                                     cmocka_unit_test(test_plans),      cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
