/* Values that the backward pass reads in few bits: which ones, that every plan gives the same bits, and that
 * gradients are those of the numbers that the blocks stand for. */
#include "effort.h"
#include "models_by_name.h"
#include "op_cases.h"
#include "session_help.h"

/* A rate by which updates are nearly the gradients. */
static const struct optimizer sgd = {.kind = NEAP_SGD};
static const struct run_context context = {.seed = 7, .step = 3, .learning_rate = 1000};

static const struct model_case {
  const char *name;
  neap_model_options shape;
} models[] = {{"gpt-1x32x4", {.batch = 4, .classes = OP_CASE_CLASSES, .length = 24, .dropout = 0.1f}},
              {"wrn-10-1", {.batch = 4, .image = {3, 16, 16}, .classes = OP_CASE_CLASSES}},
              {"llama-1x32x4x2", {.batch = 4, .classes = OP_CASE_CLASSES, .length = 24}},
              {"char-lstm-1x48", {.batch = 4, .classes = OP_CASE_CLASSES, .length = 12}}};
enum { MODELS = sizeof models / sizeof *models };

static struct neap_graph *build(const struct model_case *c) {
  struct neap_graph *graph = NULL;
  assert_ok(build_named(c->name, &c->shape, &graph));
  return graph;
}

/* The training graph; `text` NULL: with exact values. */
static struct neap_graph *training(const struct model_case *c, const char *text) {
  struct neap_graph *graph = build(c), *fused = NULL, *made = NULL;
  assert_ok(rewrite_fuse(graph, text != NULL, &fused));
  assert_ok(graph_add_training(fused, &sgd));
  neap_graph_free(graph);
  if (text == NULL) return fused;
  assert_ok(rewrite_compress(fused, text, &made));
  neap_graph_free(fused);
  return made;
}

/* ---- Which values ---- */

/* A gradient reads nothing that was rounded as it was before, and nothing rounded where it must be exact. */
static void expect_reads(const struct neap_graph *graph, const struct node *node, const bool *rounded) {
  for (int32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == NO_TENSOR) continue;
    const int32_t storage = graph_storage(graph, node->inputs[i]),
                  producer = graph->tensors.data[storage].producer;
    const bool numbers = producer >= 0 && graph->nodes.data[producer].op == OP_DEQUANTISE;
    assert_false(rounded[storage]);
    if ((node_exact(node) | node_row(node)->sign) >> i & 1) assert_false(numbers);
  }
}

/* No gradient reads a large value of the forward pass as it was, but where its row says so; no value is
 * rounded twice. */
static void test_what_is_rounded(void **state) {
  (void)state;
  static const struct model_case relu6 = {"mobilenet-v2", {.batch = 2, .image = {3, 32, 32}}};
  for (int m = 0; m <= MODELS; m++) {
    struct neap_graph *graph = training(m < MODELS ? &models[m] : &relu6, "8");
    bool *rounded = calloc(graph->tensors.count, sizeof *rounded);
    assert_non_null(rounded);
    assert_true(count_nodes(graph, OP_COMPRESS) > 0);
    assert_int_equal(count_nodes(graph, OP_COMPRESS), count_nodes(graph, OP_DEQUANTISE));
    for (size_t v = 0; v < graph->nodes.count; v++) {
      const struct node *node = &graph->nodes.data[v];
      if (node->op == OP_COMPRESS) {
        assert_false(rounded[node->inputs[0]]);
        assert_true(graph->tensors.data[node->inputs[0]].view_of < 0);
        rounded[node->inputs[0]] = true;
      }
      if (node->pass == NEAP_PASS_BACKWARD) expect_reads(graph, node, rounded);
    }
    free(rounded);
    neap_graph_free(graph);
  }
}

/* ReLU keeps bits, in a batch norm too; statistics stay. */
static void test_relu_and_statistics(void **state) {
  (void)state;
  struct neap_graph *graph = training(&models[1], "4");
  assert_int_equal(count_nodes(graph, OP_RELU_BACKWARD), 0);
  assert_true(count_nodes(graph, OP_RELU_MASK) > 4);
  assert_int_equal(count_nodes(graph, OP_RELU_MASK), count_nodes(graph, OP_RELU_MASK_BACKWARD));
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    if (node->op != OP_BATCH_NORM_BACKWARD) continue;
    assert_false(node->attributes.batch_norm.relu);
    assert_int_equal(graph->nodes.data[graph->tensors.data[node->inputs[0]].producer].op, OP_DEQUANTISE);
    assert_int_equal(graph->nodes.data[graph->tensors.data[node->inputs[2]].producer].op,
                     OP_BATCH_NORM_STATISTICS);
  }
  neap_graph_free(graph);
}

static void test_patterns(void **state) {
  (void)state;
  static const char *const wrong[] = {"", "5", "16", "4x", "4:", "84", "4:nothing*"};
  struct neap_graph *all = training(&models[0], "4"), *some = training(&models[0], "4:*ttention*"),
                    *others = training(&models[0], "4:*,!*ttention*"), *exact = training(&models[0], NULL);
  const int32_t count = count_nodes(some, OP_COMPRESS);
  assert_true(count > 0 && count < count_nodes(all, OP_COMPRESS));
  assert_int_equal(count + count_nodes(others, OP_COMPRESS), count_nodes(all, OP_COMPRESS));
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct neap_graph *made = NULL;
    expect_failure(rewrite_compress(exact, wrong[i], &made), NEAP_INVALID_ARGUMENT, "compress: '");
  }
  neap_graph_free(all);
  neap_graph_free(some);
  neap_graph_free(others);
  neap_graph_free(exact);
}

/* ---- Gradients ---- */

/* Gives the numbers that gradients read as inputs in place of those of blocks. */
static void give_numbers(struct neap_graph *graph) {
  for (size_t v = 0; v < graph->nodes.count; v++) {
    struct node *node = &graph->nodes.data[v];
    if (node->op != OP_DEQUANTISE) continue;
    struct tensor given = graph->tensors.data[node->outputs[0]];
    int32_t *inputs = region_alloc(&graph->region, 1, sizeof *inputs);
    assert_non_null(inputs);
    given.role = NEAP_ROLE_INPUT;
    given.name = "given";
    assert_ok(graph_add_tensor(graph, given, inputs));
    node->op = OP_CAST;
    node->inputs = inputs;
  }
}

static struct lowered *lowered_of(const struct neap_graph *graph, const struct backend *backend,
                                  struct interpreter *m) {
  struct lowered *lowered = NULL;
  assert_ok(lower(graph, backend, &(struct lower_options){.threads = 1}, NULL, &lowered));
  *m = interpreter_create(lowered, 0, 0xFF);
  op_case_fill(m);
  return lowered;
}

/* Writes the numbers of the blocks of one run to the inputs of the other. */
static void hand_on(const struct interpreter *from, const struct interpreter *to) {
  const struct neap_graph *graph = from->lowered->graph;
  int32_t id = 0;
  for (size_t v = 0; v < graph->nodes.count; v++) {
    if (graph->nodes.data[v].op != OP_DEQUANTISE) continue;
    while (strcmp(to->lowered->graph->tensors.data[id].name, "given") != 0) id++;
    double *numbers = interpreter_read(from, graph->nodes.data[v].outputs[0]);
    interpreter_write(to, id++, numbers);
    free(numbers);
  }
}

/* The most that a parameter differs after a step, over the largest number of its kind. */
static double difference(const struct interpreter *a, const struct interpreter *b) {
  const struct neap_graph *graph = a->lowered->graph;
  double most = 0;
  for (int32_t id = 0; id < (int32_t)graph->tensors.count; id++) {
    const struct tensor *t = &graph->tensors.data[id];
    if (t->role != NEAP_ROLE_PARAMETER || t->view_of >= 0) continue;
    double *x = interpreter_read(a, id), *y = interpreter_read(b, id), size = 0, off = 0;
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

/* Gradients in f32 are those that the reference backend computes in f64 from the same numbers; those of exact
 * values are others. */
static void test_gradients(void **state) {
  (void)state;
  static const char *const texts[] = {"8", "4"};
  for (int m = 0; m < MODELS; m++)
    for (int bits = 0; bits < 2; bits++) {
      if (leaves_out((size_t)m, (size_t)bits, 2)) continue;
      struct neap_graph *graph = training(&models[m], texts[bits]),
                        *given = training(&models[m], texts[bits]), *exact = training(&models[m], NULL);
      struct interpreter run[3];
      give_numbers(given);
      struct lowered *lowered[] = {lowered_of(graph, &cpu_backend, &run[0]),
                                   lowered_of(given, &reference_backend, &run[1]),
                                   lowered_of(exact, &cpu_backend, &run[2])};
      interpreter_run(&run[0], &context);
      hand_on(&run[0], &run[1]);
      interpreter_run(&run[1], &context);
      interpreter_run(&run[2], &context);
      const double off = difference(&run[0], &run[1]), rounding = difference(&run[0], &run[2]);
      if (off > 2e-4 || rounding < 10 * off)
        fail_msg("%s, %s bits: gradients are off by %g; by rounding %g", models[m].name, texts[bits], off,
                 rounding);
      for (int i = 0; i < 3; i++) {
        interpreter_free(&run[i]);
        lowered_free(lowered[i]);
      }
      neap_graph_free(graph);
      neap_graph_free(given);
      neap_graph_free(exact);
    }
}

/* Adds the parameters after a step to `sums`, by tensor. */
static void add_parameters(const struct interpreter *m, double **sums) {
  const struct neap_graph *graph = m->lowered->graph;
  for (int32_t id = 0; id < (int32_t)graph->tensors.count; id++) {
    const struct tensor *t = &graph->tensors.data[id];
    if (t->role != NEAP_ROLE_PARAMETER || t->view_of >= 0) continue;
    double *x = interpreter_read(m, id);
    if (sums[id] == NULL) sums[id] = calloc((size_t)t->elements, sizeof **sums);
    assert_non_null(sums[id]);
    for (int64_t i = 0; i < t->elements; i++) sums[id][i] += x[i];
    free(x);
  }
}

/* Returns how far x / count is from y. */
static double distance(const double *x, double count, const double *y, int64_t elements) {
  double squares = 0;
  for (int64_t i = 0; i < elements; i++) squares += pow(x[i] / count - y[i], 2);
  return sqrt(squares);
}

/* The mean of the gradients of many draws comes as near to the exact gradient as that of numbers that are
 * right on average: over the root of their count. Batch norms and ReLU are in between. */
static void test_mean_of_gradients(void **state) {
  (void)state;
  enum { DRAWS = 64, TENSORS = 1024 };
  struct neap_graph *graphs[] = {training(&models[1], "4"), training(&models[1], NULL)};
  struct interpreter run[2];
  struct lowered *lowered[2];
  double *sums[2][TENSORS] = {{NULL}}, *one[TENSORS] = {NULL};
  for (int i = 0; i < 2; i++) lowered[i] = lowered_of(graphs[i], &cpu_backend, &run[i]);
  assert_true(lowered[0]->graph->tensors.count <= TENSORS);
  for (uint64_t draw = 0; draw < DRAWS; draw++) {
    struct run_context at = context;
    at.step += draw;
    op_case_fill(&run[0]);
    interpreter_run(&run[0], &at);
    add_parameters(&run[0], sums[0]);
    if (draw == 0) add_parameters(&run[0], one);
  }
  interpreter_run(&run[1], &context);
  add_parameters(&run[1], sums[1]);
  for (int32_t id = 0; id < TENSORS; id++) {
    if (one[id] == NULL) continue;
    const int64_t count = lowered[0]->graph->tensors.data[id].elements;
    const double off = distance(one[id], 1, sums[1][id], count),
                 mean_off = distance(sums[0][id], DRAWS, sums[1][id], count);
    if (mean_off > 2 * off / sqrt(DRAWS))
      fail_msg("'%s' is off by %g in one draw and by %g in the mean of %d",
               lowered[0]->graph->tensors.data[id].name, off, mean_off, DRAWS);
    free(one[id]), free(sums[0][id]), free(sums[1][id]);
  }
  for (int i = 0; i < 2; i++) {
    interpreter_free(&run[i]);
    lowered_free(lowered[i]);
    neap_graph_free(graphs[i]);
  }
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

/* Values kept, made again from blocks, and blocks made again from values that are made again: the same bits,
 * and others than without. */
static void test_plans(void **state) {
  (void)state;
  static const neap_session_options kinds[] = {{.compress = "8"},
                                               {.compress = "4", .precision = NEAP_BF16},
                                               {.compress = "4:*,!*2*", .micro_batches = 2},
                                               {.compress = "4", .clip_norm = 0.5f, .ema = 0.9f}};
  enum { KINDS = sizeof kinds / sizeof *kinds };
  for (int m = 0; m < MODELS; m++) {
    neap_graph *graph = build(&models[m]);
    for (size_t k = 0; k < KINDS; k++) {
      if (leaves_out((size_t)m, k, KINDS)) continue;
      neap_session_options o = kinds[k];
      const struct run_result most = trained(graph, o);
      o.budget = NEAP_BUDGET_MIN;
      const struct run_result least = trained(graph, o);
      o.budget = least.memory.planned_peak + (most.memory.planned_peak - least.memory.planned_peak) / 2;
      const struct run_result half = trained(graph, o);
      assert_true(least.memory.planned_peak <= most.memory.planned_peak);
      assert_string_equal(least.digest, most.digest);
      assert_string_equal(half.digest, most.digest);
      o.compress = NULL;
      o.budget = NEAP_BUDGET_MAX;
      const struct run_result exact = trained(graph, o);
      assert_string_not_equal(exact.digest, most.digest);
      assert_true(exact.memory.planned_peak > most.memory.planned_peak);
    }
    neap_graph_free(graph);
  }
}

static void test_refusals(void **state) {
  (void)state;
  neap_graph *graph = build(&models[0]);
  neap_step *step = NULL;
  neap_session_options o = {.compress = "4", .mezo = true};
  expect_failure(neap_step_from_graph(graph, &o, &step), NEAP_UNSUPPORTED, "mezo: it does not take compress");
  o = (neap_session_options){.compress = "7"};
  expect_failure(neap_step_from_graph(graph, &o, &step), NEAP_INVALID_ARGUMENT, "compress: '7' is neither");
  neap_graph_free(graph);
}

int run_test_compress(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_rounded),   cmocka_unit_test(test_relu_and_statistics),
      cmocka_unit_test(test_patterns),          cmocka_unit_test(test_gradients),
      cmocka_unit_test(test_mean_of_gradients), cmocka_unit_test(test_plans),
      cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
