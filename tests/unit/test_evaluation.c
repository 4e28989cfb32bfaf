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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_reference)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
