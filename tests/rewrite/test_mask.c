/* ReLU that keeps bits for its gradient: which ones do, that every result keeps its bits, what it saves. And
 * ReLU in a max pool, which keeps nothing. */
#include <math.h>

#include "models_by_name.h"
#include "op_cases.h"

static const struct optimizer momentum = {.kind = NEAP_SGD, .momentum = 0.9f, .weight_decay = 0.01f};
static const struct run_context context = {.seed = 7, .step = 3, .learning_rate = 0.1f};

/* Every seventh number of the image is NaN. */
static void spoil(const struct interpreter *m) {
  const struct neap_graph *graph = m->lowered->graph;
  for (int32_t id = 0; id < (int32_t)graph->tensors.count; id++) {
    const struct tensor *t = &graph->tensors.data[id];
    if (t->role != NEAP_ROLE_INPUT || t->dtype != NEAP_F32) continue;
    for (int64_t i = 0; i < t->elements; i += 7) ((float *)m->data[id])[i] = NAN;
  }
}

static struct lowered *run(const struct neap_graph *graph, const struct backend *backend, bool spoiled,
                           struct interpreter *m) {
  struct lowered *lowered = NULL;
  assert_ok(lower(graph, backend, &(struct lower_options){.threads = 1}, NULL, &lowered));
  *m = interpreter_create(lowered, 0, 0xFF);
  op_case_fill(m);
  if (spoiled) spoil(m);
  interpreter_run(m, &context);
  return lowered;
}

/* Everything that a step leaves behind: variables, loss and right answers. */
static void expect_same_bits(const char *name, const struct neap_graph *graph,
                             const struct neap_graph *other_graph, const struct backend *backend,
                             bool spoiled) {
  struct interpreter m[2];
  struct lowered *l[2] = {run(graph, backend, spoiled, &m[0]), run(other_graph, backend, spoiled, &m[1])};
  for (int32_t id = 0; id < (int32_t)l[0]->graph->tensors.count; id++) {
    const struct tensor *t = &l[0]->graph->tensors.data[id];
    if (t->view_of >= 0 || (t->role == NEAP_ROLE_VALUE && id != l[0]->graph->loss)) continue;
    const int32_t other = t->role == NEAP_ROLE_VALUE ? l[1]->graph->loss : id;
    if (memcmp(m[0].data[id], m[1].data[other], interpreter_bytes(&m[0], id)) != 0)
      fail_msg("%s, %s: '%s' has other bits", name, backend->name, t->name);
  }
  for (int i = 0; i < 2; i++) {
    interpreter_free(&m[i]);
    lowered_free(l[i]);
  }
}

static void test_same_bits(void **state) {
  (void)state;
  for (int i = 0; i < OP_CASES; i++) {
    struct neap_graph *graph = op_case_training(&op_cases[i], true, &momentum),
                      *masked = op_case_masked(&op_cases[i], &momentum);
    assert_int_equal(graph->nodes.count, masked->nodes.count);
    if (count_nodes(masked, OP_RELU_MASK) > 0) {
      expect_same_bits(op_cases[i].name, graph, masked, &reference_backend, false);
      expect_same_bits(op_cases[i].name, graph, masked, &cpu_backend, false);
    }
    neap_graph_free(graph);
    neap_graph_free(masked);
  }
}

static int32_t count_pools_with_relu(const struct neap_graph *graph) {
  int32_t count = 0;
  for (size_t v = 0; v < graph->nodes.count; v++)
    count += graph->nodes.data[v].op == OP_MAX_POOL && graph->nodes.data[v].attributes.pool.relu;
  return count;
}

/* The same bits as ReLU and then the pool, also of windows without a number or one above 0. */
static void test_relu_in_a_pool(void **state) {
  (void)state;
  int found = 0;
  for (int i = 0; i < OP_CASES; i++) {
    if (op_cases[i].apply != apply_relu_pool) continue;
    struct neap_graph *graph = op_case_training(&op_cases[i], false, &momentum),
                      *fused = op_case_training(&op_cases[i], true, &momentum);
    assert_int_equal(count_pools_with_relu(graph), 0);
    assert_int_equal(count_pools_with_relu(fused), 1);
    assert_int_equal(count_nodes(fused, OP_RELU) + count_nodes(fused, OP_RELU_BACKWARD), 0);
    for (int spoiled = 0; spoiled < 2; spoiled++) {
      expect_same_bits(op_cases[i].name, graph, fused, &reference_backend, spoiled != 0);
      expect_same_bits(op_cases[i].name, graph, fused, &cpu_backend, spoiled != 0);
    }
    found++;
    neap_graph_free(graph);
    neap_graph_free(fused);
  }
  assert_true(found > 0);
}

static uint64_t kept_bytes(const struct neap_graph *graph) {
  struct lowered *lowered = NULL;
  struct neap_plan *plan = NULL;
  neap_plan_info info;
  assert_ok(lower(graph, &cpu_backend, &(struct lower_options){.threads = 1}, NULL, &lowered));
  assert_ok(neap_plan_make(lowered->step, NEAP_BUDGET_MAX, "keep-all", NULL, &plan));
  neap_plan_describe(plan, &info);
  neap_plan_free(plan);
  lowered_free(lowered);
  return info.peak_bytes;
}

/* VGG-16: the last ReLU of each of five stages is in its max pool, two more stand before a dropout; the eight
 * others before a convolution, which reads them again. */
static void test_what_is_masked(void **state) {
  (void)state;
  struct neap_graph *graph = NULL, *fused = NULL, *masked = NULL;
  assert_ok(build_named("vgg16", &(neap_model_options){.batch = 2, .image = {3, 64, 64}}, &graph));
  assert_ok(rewrite_fuse(graph, false, &fused));
  assert_ok(graph_add_training(fused, &momentum));
  assert_ok(rewrite_mask(fused, &masked));
  assert_int_equal(count_pools_with_relu(fused), 5);
  assert_int_equal(count_nodes(masked, OP_RELU_MASK), 2);
  assert_int_equal(count_nodes(masked, OP_RELU_MASK_BACKWARD), 2);
  assert_int_equal(count_nodes(masked, OP_RELU), 8);
  assert_int_equal(count_nodes(masked, OP_RELU_BACKWARD), 8);
  assert_true(kept_bytes(masked) < kept_bytes(fused));
  neap_graph_free(masked);
  neap_graph_free(fused);
  neap_graph_free(graph);
}

int run_test_mask(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits), cmocka_unit_test(test_relu_in_a_pool),
                                     cmocka_unit_test(test_what_is_masked)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
