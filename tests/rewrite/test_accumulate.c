/* Gradients that are added to the momentum itself: the same step as with buffers of their own, up to the
 * order of sums, and nothing of the size of a weight beside it. */
#include <math.h>

#include "models_by_name.h"
#include "op_cases.h"

static const struct optimizer momentum = {.kind = NEAP_SGD, .momentum = 0.9f, .weight_decay = 0.01f};
static const struct run_context context = {.seed = 7, .step = 3, .learning_rate = 0.1f};

static const struct {
  const char *name;
  int64_t batch, length;
} models[] = {{"lstm-2x24", 4, 512}, {"char-lstm-2x16", 4, 512}, {"bert-2x32x2", 2, 16}};
enum { MODELS = sizeof models / sizeof *models };

static struct neap_graph *training_graph(int i, const struct optimizer *optimizer) {
  struct neap_graph *graph = NULL, *fused = NULL;
  assert_ok(build_named(models[i].name,
                        &(neap_model_options){.batch = models[i].batch, .length = models[i].length}, &graph));
  assert_ok(rewrite_fuse(graph, false, &fused));
  assert_ok(graph_add_training(fused, optimizer));
  neap_graph_free(graph);
  return fused;
}

static struct lowered *run(const struct neap_graph *graph, const struct backend *backend,
                           struct interpreter *m) {
  struct lowered *lowered = NULL;
  assert_ok(lower(graph, backend, &(struct lower_options){0}, NULL, &lowered));
  *m = interpreter_create(lowered, 0, 0xFF);
  op_case_fill(m);
  interpreter_run(m, &context);
  return lowered;
}

/* The largest difference in a variable, in units of its root mean square. */
static double difference(const struct interpreter m[2], int32_t id) {
  const struct tensor *t = &m[0].lowered->graph->tensors.data[id];
  double *values[2], largest = 0, squares = 0;
  for (int k = 0; k < 2; k++) values[k] = interpreter_read(&m[k], id);
  for (int64_t i = 0; i < t->elements; i++) {
    largest = fmax(largest, fabs(values[0][i] - values[1][i]));
    squares += values[0][i] * values[0][i];
  }
  for (int k = 0; k < 2; k++) free(values[k]);
  return largest == 0 ? 0 : largest / sqrt(squares / (double)t->elements);
}

static void expect_same_step(int i, const struct neap_graph *graph, const struct neap_graph *other,
                             const struct backend *backend, double tolerance) {
  struct interpreter m[2];
  struct lowered *l[2] = {run(graph, backend, &m[0]), run(other, backend, &m[1])};
  int compared = 0;
  for (int32_t id = 0; id < (int32_t)l[0]->graph->tensors.count; id++) {
    const struct tensor *t = &l[0]->graph->tensors.data[id];
    if (t->view_of >= 0 || (t->role != NEAP_ROLE_PARAMETER && t->role != NEAP_ROLE_STATE)) continue;
    assert_string_equal(t->name, l[1]->graph->tensors.data[id].name);
    const double d = difference(m, id);
    if (!(d <= tolerance)) fail_msg("%s, %s: '%s' differs by %g", models[i].name, backend->name, t->name, d);
    compared++;
  }
  assert_true(compared > 0);
  for (int k = 0; k < 2; k++) {
    interpreter_free(&m[k]);
    lowered_free(l[k]);
  }
}

static void test_same_step(void **state) {
  (void)state;
  for (int i = 0; i < MODELS; i++) {
    struct neap_graph *graph = training_graph(i, &momentum), *other = NULL;
    assert_ok(rewrite_accumulate(graph, &other));
    assert_true(count_nodes(other, OP_MOMENTUM_BEGIN) > 0);
    assert_int_equal(count_nodes(other, OP_MOMENTUM_BEGIN), count_nodes(other, OP_MOMENTUM_END));
    assert_int_equal(count_nodes(other, OP_MOMENTUM_END) + count_nodes(other, OP_SGD),
                     count_nodes(graph, OP_SGD));
    expect_same_step(i, graph, other, &reference_backend, 1e-12);
    expect_same_step(i, graph, other, &cpu_backend, 1e-5);
    neap_graph_free(graph);
    neap_graph_free(other);
  }
}

/* The bytes of values in the step. */
static uint64_t value_bytes(const struct neap_graph *graph) {
  struct lowered *lowered = NULL;
  uint64_t bytes = 0;
  assert_ok(lower(graph, &cpu_backend, &(struct lower_options){0}, NULL, &lowered));
  for (int32_t t = 0; t < lowered->step->tensor_count; t++)
    if (lowered->step->tensors[t].role == NEAP_ROLE_VALUE) bytes += lowered->step->tensors[t].bytes;
  lowered_free(lowered);
  return bytes;
}

/* What lies in a momentum takes no bytes of its own, and what makes it runs once. */
static void test_no_buffers(void **state) {
  (void)state;
  for (int i = 0; i < MODELS; i++) {
    struct neap_graph *graph = training_graph(i, &momentum), *other = NULL;
    struct lowered *lowered = NULL;
    assert_ok(rewrite_accumulate(graph, &other));
    assert_true(value_bytes(other) < value_bytes(graph));
    assert_ok(lower(other, &cpu_backend, &(struct lower_options){0}, NULL, &lowered));
    int found = 0;
    for (size_t t = 0; t < lowered->graph->tensors.count; t++) {
      const struct tensor *tensor = &lowered->graph->tensors.data[t];
      if (tensor->lies_in == 0) continue;
      assert_int_equal(lowered->step->tensors[lowered->step_tensor[t]].bytes, 0);
      assert_int_equal(lowered->home[t], lowered->step_tensor[tensor->lies_in - 1]);
      assert_false(lowered->step->nodes[tensor->producer].repeatable);
      found++;
    }
    assert_true(found > 0);
    lowered_free(lowered);
    neap_graph_free(graph);
    neap_graph_free(other);
  }
}

/* Where there is no momentum to add to, or no second share, nothing changes. */
static void test_left_alone(void **state) {
  (void)state;
  static const struct optimizer others[] = {
      {.kind = NEAP_SGD},
      {.kind = NEAP_SGD, .momentum = 0.9f, .nesterov = true},
      {.kind = NEAP_SGD, .momentum = 0.9f, .clip_norm = 1},
      {.kind = NEAP_ADAM, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-8f},
      {.kind = NEAP_SGD, .momentum = 0.9f, .micro_batches = 2},
  };
  for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
    struct neap_graph *graph = training_graph(0, &others[k]), *other = NULL;
    assert_ok(rewrite_accumulate(graph, &other));
    assert_int_equal(count_nodes(other, OP_MOMENTUM_BEGIN), 0);
    assert_int_equal(other->nodes.count, graph->nodes.count);
    neap_graph_free(graph);
    neap_graph_free(other);
  }
}

int run_test_accumulate(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_step),
      cmocka_unit_test(test_no_buffers),
      cmocka_unit_test(test_left_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
