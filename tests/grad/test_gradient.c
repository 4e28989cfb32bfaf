/* Gradients against central differences in double, on the reference backend, and fused against unfused. */
#include <math.h>

#include "op_cases.h"

static const struct run_context context = {.seed = 7, .step = 3, .learning_rate = 1};
static const struct optimizer plain_sgd = {.kind = NEAP_SGD};

static struct lowered *lower_for_reference(struct neap_graph *graph) {
  struct lowered *lowered = NULL;
  assert_ok(lower(graph, &reference_backend, &(struct lower_options){.threads = 1}, NULL, &lowered));
  neap_graph_free(graph);
  return lowered;
}

static double loss_of(const struct interpreter *m) {
  interpreter_run(m, &context);
  return *(const double *)m->data[m->lowered->graph->loss];
}

/* Central differences over two steps h and 2h, and what both say when the error of order h^2 is taken out.
 * They differ where a kink of ReLU or of a maximum lies between the points: there is no derivative to
 * compare. */
static double difference(const struct interpreter *forward, double *parameter, double tolerance,
                         bool *smooth) {
  const double h = 1e-5, w = *parameter;
  double slope[2];
  for (int i = 0; i < 2; i++) {
    const double step = h * (i + 1);
    *parameter = w + step;
    slope[i] = loss_of(forward);
    *parameter = w - step;
    slope[i] = (slope[i] - loss_of(forward)) / (2 * step);
  }
  *parameter = w;
  *smooth = fabs(slope[0] - slope[1]) <= tolerance;
  return (4 * slope[0] - slope[1]) / 3;
}

/* Gradients of all trained parameters, one after the other, by a step of SGD with rate 1. The caller frees
 * them. */
static double *training_gradients(const struct op_case *c, bool fuse, int64_t *count) {
  struct lowered *lowered = lower_for_reference(op_case_training(c, fuse, &plain_sgd));
  struct interpreter before = interpreter_create(lowered, 0, 0xFF),
                     after = interpreter_create(lowered, 0, 0xFF);
  op_case_fill(&before);
  op_case_fill(&after);
  interpreter_run(&after, &context);
  *count = neap_graph_parameters(lowered->graph);
  double *gradients = malloc((size_t)*count * sizeof *gradients), *next = gradients;
  assert_non_null(gradients);
  for (int32_t id = 0; id < (int32_t)lowered->graph->tensors.count; id++) {
    const struct tensor *t = &lowered->graph->tensors.data[id];
    if (t->role != NEAP_ROLE_PARAMETER || t->frozen) continue;
    const double *old = before.data[id], *new = after.data[id];
    for (int64_t i = 0; i < t->elements; i++) *next++ = old[i] - new[i];
  }
  interpreter_free(&before);
  interpreter_free(&after);
  lowered_free(lowered);
  return gradients;
}

static double largest(const double *values, int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < count; i++) most = fmax(most, fabs(values[i]));
  return most;
}

static void check_case(const struct op_case *c) {
  enum { TRIED = 3 }; /* elements of each parameter */
  int64_t count;
  double *gradients = training_gradients(c, false, &count);
  const double *gradient = gradients;
  struct lowered *lowered = lower_for_reference(op_case_quantised(c, op_case_graph(c, false)));
  struct interpreter forward = interpreter_create(lowered, 0, 0xFF);
  op_case_fill(&forward);
  for (int32_t id = 0; id < (int32_t)lowered->graph->tensors.count; id++) {
    const struct tensor *t = &lowered->graph->tensors.data[id];
    if (t->role != NEAP_ROLE_PARAMETER || t->frozen) continue;
    const double tolerance = 1e-6 * fmax(largest(gradient, t->elements), 1e-3);
    int checked = 0;
    for (int64_t k = 0; k < TRIED; k++) {
      const int64_t i = k * (t->elements - 1) / (TRIED - 1);
      bool smooth;
      const double expected = difference(&forward, (double *)forward.data[id] + i, tolerance, &smooth);
      if (smooth && !(fabs(gradient[i] - expected) <= tolerance))
        fail_msg("%s: d loss / d %s[%lld] is %.12g, by differences %.12g", c->name, t->name, (long long)i,
                 gradient[i], expected);
      checked += smooth;
    }
    if (checked < TRIED - 1) fail_msg("%s: the loss is not smooth in %s", c->name, t->name);
    gradient += t->elements;
  }
  interpreter_free(&forward);
  lowered_free(lowered);
  free(gradients);
}

static void test_central_differences(void **state) {
  (void)state;
  for (int i = 0; i < OP_CASES; i++)
    if (!op_cases[i].rounds) check_case(&op_cases[i]); /* a step function has no differences */
}

/* The gradients before an operator are not all zero, or the differences above would compare nothing. */
static void test_gradients_arrive(void **state) {
  (void)state;
  for (int i = 0; i < OP_CASES; i++) {
    int64_t count;
    double *gradients = training_gradients(&op_cases[i], false, &count);
    const double stem = largest(gradients, op_cases[i].dims[1] * (op_cases[i].dims[2] > 0 ? 3 : 7));
    if (!(stem > 1e-3)) fail_msg("%s: no gradient reaches the stem (%g)", op_cases[i].name, stem);
    free(gradients);
  }
}

static void test_fused_equals_unfused(void **state) {
  (void)state;
  int fused_cases = 0;
  for (int i = 0; i < OP_CASES; i++) {
    if (!op_case_fuses(&op_cases[i])) continue;
    fused_cases++;
    int64_t count, same_count;
    double *unfused = training_gradients(&op_cases[i], false, &count),
           *fused = training_gradients(&op_cases[i], true, &same_count);
    assert_int_equal(count, same_count);
    for (int64_t k = 0; k < count; k++)
      if (!(fabs(fused[k] - unfused[k]) <= 1e-13 * fmax(1, fabs(unfused[k]))))
        fail_msg("%s: gradient %lld is %.17g fused, %.17g unfused", op_cases[i].name, (long long)k, fused[k],
                 unfused[k]);
    free(unfused);
    free(fused);
  }
  assert_true(fused_cases >= 8); /* batch norm with relu and convolution with sum, each in several shapes */
}

/* A frozen batch norm whose addend is trained has no gradient of its own: what its sum gets goes to the
 * addend. */
static void test_frozen_norm_with_addend(void **state) {
  (void)state;
  neap_builder *b = neap_builder_create("frozen");
  const neap_tensor image = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){2, 3, 4, 4}),
                    label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){2});
  const neap_conv_options conv = {.filters = 16, .size = 1};
  const neap_tensor trained = neap_conv(b, image, conv);
  neap_freeze(b, true);
  const neap_tensor frozen = neap_batch_norm(b, neap_conv(b, image, conv), (neap_batch_norm_options){0});
  neap_freeze(b, false);
  const neap_tensor sum = neap_relu(b, neap_add(b, frozen, trained));
  const neap_tensor logits = neap_linear(b, neap_global_average_pool(b, sum), 2, false);
  struct neap_graph *graph, *fused;
  assert_ok(neap_builder_finish(b, neap_softmax_cross_entropy(b, logits, label, 0), &graph));
  neap_builder_free(b);
  assert_ok(rewrite_fuse(graph, false, &fused));
  assert_ok(graph_add_training(fused, &plain_sgd));
  assert_int_equal(count_nodes(fused, OP_ADD) + count_nodes(fused, OP_RELU), 0); /* batch norm's */
  assert_int_equal(count_nodes(fused, OP_BATCH_NORM_BACKWARD), 0);
  assert_int_equal(count_nodes(fused, OP_CONV_BACKWARD_WEIGHTS), 1);
  neap_graph_free(graph);
  neap_graph_free(fused);
}

int run_test_gradient(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_central_differences), cmocka_unit_test(test_gradients_arrive),
      cmocka_unit_test(test_fused_equals_unfused), cmocka_unit_test(test_frozen_norm_with_addend)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
