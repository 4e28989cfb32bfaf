/* Evaluation of every operator case: the cpu backend gives the reference backend's loss, before and after
 * steps, with running statistics and without dropout, in an arena that is no larger than training's. */
#include "session_help.h"

#include <math.h>

#include "op_cases.h"

static neap_session *open_session(const neap_graph *graph, neap_backend backend) {
  neap_session *s = NULL;
  const neap_session_options options = {
      .budget = NEAP_BUDGET_MAX, .backend = backend, .momentum = 0.9f, .threads = 2, .seed = 3};
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  return s;
}

static double evaluate(neap_session *s) {
  neap_step_result r;
  fill_inputs(s, 7, OP_CASE_CLASSES);
  ASSERT_OK(neap_session_evaluate(s, &r));
  return r.loss;
}

static void test_against_reference(void **state) {
  (void)state;
  for (int i = 0; i < OP_CASES; i++) {
    neap_graph *graph = op_case_graph(&op_cases[i], false);
    neap_session *fast = open_session(graph, NEAP_CPU), *reference = open_session(graph, NEAP_REFERENCE);
    for (int step = 0; step < 3; step++) {
      const double a = evaluate(fast), b = evaluate(reference);
      if (!(fabs(a - b) <= 1e-3 * fabs(b)))
        print_error("%s, after %d steps: %g and %g\n", op_cases[i].name, step, a, b);
      assert_true(fabs(a - b) <= 1e-3 * fabs(b));
      ASSERT_OK(neap_session_step(fast, 0.01f, NULL));
      ASSERT_OK(neap_session_step(reference, 0.01f, NULL));
    }
    neap_session_free(fast);
    neap_session_free(reference);
    neap_graph_free(graph);
  }
}

/* ---- Smoothing of labels is a means of training ---- */

enum { ROWS = 6, CLASSES = 5, WIDTH = 4 };

/* Logits of a linear layer and their loss: whole logits, or in blocks of classes. */
static neap_graph *smoothed(bool blocks, float smoothing) {
  neap_builder *b = neap_builder_create("smoothed");
  const neap_tensor x = neap_input(b, "x", NEAP_F32, 2, (int64_t[]){ROWS, WIDTH}),
                    label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){ROWS}),
                    weight = neap_parameter(b, "w", 2, (int64_t[]){CLASSES, WIDTH},
                                            (neap_parameter_options){.initial = NEAP_INITIAL_NORMAL}),
                    logits = neap_linear_with(b, x, weight, -1);
  neap_output(b, "logits", logits);
  neap_graph *graph = NULL;
  ASSERT_OK(neap_builder_finish(
      b,
      blocks ? neap_linear_cross_entropy(b, x, weight, -1, label,
                                         (neap_linear_cross_entropy_options){.smoothing = smoothing})
             : neap_softmax_cross_entropy(b, logits, label, smoothing),
      &graph));
  neap_builder_free(b);
  return graph;
}

static double plain_entropy(const float *logits, const int32_t *labels) {
  double loss = 0;
  for (int i = 0; i < ROWS; i++) {
    double sum = 0;
    for (int c = 0; c < CLASSES; c++) sum += exp((double)logits[i * CLASSES + c]);
    loss += (log(sum) - (double)logits[i * CLASSES + labels[i]]) / ROWS;
  }
  return loss;
}

static void test_without_smoothing(void **state) {
  (void)state;
  for (int k = 0; k < 4; k++) {
    neap_graph *graph = smoothed(k % 2 == 1, 0.2f);
    neap_session *s = open_session(graph, k < 2 ? NEAP_CPU : NEAP_REFERENCE);
    neap_step_result held_out, step;
    float logits[ROWS * CLASSES];
    int32_t labels[ROWS];
    fill_inputs(s, 7, CLASSES);
    memcpy(labels, neap_session_input(s, "label"), sizeof labels);
    ASSERT_OK(neap_session_evaluate(s, &held_out));
    ASSERT_OK(neap_session_output(s, "logits", NULL, logits));
    ASSERT_OK(neap_session_step(s, 0, &step));
    assert_true(fabs(held_out.loss - plain_entropy(logits, labels)) < 1e-5);
    assert_true(fabs(step.loss - held_out.loss) > 1e-3); /* the loss of training has it */
    neap_session_free(s);
    neap_graph_free(graph);
  }
}

/* ---- Labels that count, and numbers that are refused ---- */

static void test_counted_labels(void **state) {
  (void)state;
  for (int k = 0; k < 4; k++) {
    neap_graph *graph = smoothed(k % 2 == 1, 0);
    neap_session *s = open_session(graph, k < 2 ? NEAP_CPU : NEAP_REFERENCE);
    neap_step_result r;
    fill_inputs(s, 7, CLASSES);
    int32_t *labels = neap_session_input(s, "label");
    ASSERT_OK(neap_session_step(s, 0, &r));
    assert_int_equal(r.counted, ROWS);
    labels[0] = -1;
    labels[1] = CLASSES;
    labels[2] = INT32_MAX;
    ASSERT_OK(neap_session_step(s, 0, &r));
    assert_int_equal(r.counted, ROWS - 3);
    ASSERT_OK(neap_session_evaluate(s, &r));
    assert_int_equal(r.counted, ROWS - 3);
    neap_session_free(s);
    neap_graph_free(graph);
  }
}

static void test_ranges(void **state) {
  (void)state;
  neap_graph *graph = smoothed(false, 0);
  neap_session *s = NULL;
  static const float bad[] = {-0.1f, 1, 1.5f, 2, INFINITY}; /* NAN is the usual one */
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(neap_session_create(graph, &(neap_session_options){.momentum = bad[i]}, NULL, &s),
                     NEAP_INVALID_ARGUMENT);
  s = open_session(graph, NEAP_CPU);
  fill_inputs(s, 7, CLASSES);
  static const float rates[] = {-0.1f, -INFINITY, INFINITY, NAN};
  for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
    assert_int_equal(neap_session_step(s, rates[i], NULL), NEAP_INVALID_ARGUMENT);
  neap_session_free(s);
  neap_graph_free(graph);
}

int run_test_evaluation(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_reference),
                                     cmocka_unit_test(test_without_smoothing),
                                     cmocka_unit_test(test_counted_labels), cmocka_unit_test(test_ranges)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
