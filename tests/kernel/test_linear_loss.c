/* A linear layer with cross-entropy behind it, in blocks of classes, against the layer and the loss one after
 * the other; and rows in parts against all at once. */
#include <math.h>

#include "session_help.h"

enum { ROWS = 2100, CLASSES = 5001, WIDTH = 6 }; /* three blocks, the last one smaller */

enum form { WHOLE, BLOCKS, PARTS };

static neap_graph *build(enum form form, bool biased, float smoothing) {
  const neap_parameter_options normal = {NEAP_INITIAL_NORMAL, 0.5f, false, NEAP_F32};
  neap_graph *graph = NULL;
  neap_builder *b = neap_builder_create("loss");
  const neap_tensor image = neap_input(b, "image", NEAP_F32, 2, (int64_t[]){ROWS, WIDTH}),
                    label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){ROWS}),
                    x = neap_tanh(b, neap_linear(b, image, WIDTH, true)),
                    w = neap_parameter(b, "head.weight", 2, (int64_t[]){CLASSES, WIDTH}, normal),
                    bias = biased ? neap_parameter(b, "head.bias", 1, (int64_t[]){CLASSES}, normal) : -1;
  neap_tensor loss = -1;
  if (form == WHOLE) loss = neap_softmax_cross_entropy(b, neap_linear_with(b, x, w, bias), label, smoothing);
  for (int64_t part = 0; form != WHOLE && part < (form == PARTS ? 3 : 1); part++) {
    static const int64_t first[] = {0, 500, 1900, ROWS};
    const neap_tensor rows =
        form == PARTS ? neap_slice(b, x, 0, first[part], first[part + 1] - first[part]) : x;
    loss = neap_linear_cross_entropy(
        b, rows, w, bias, label,
        (neap_linear_cross_entropy_options){.smoothing = smoothing, .first = first[part], .before = loss});
  }
  ASSERT_OK(neap_builder_finish(b, loss, &graph));
  neap_builder_free(b);
  return graph;
}

static void compare(bool biased, float smoothing, neap_dtype precision, double tolerance) {
  neap_graph *graphs[3];
  neap_session *sessions[3];
  struct run_result results[3];
  for (int form = WHOLE; form <= PARTS; form++) {
    const neap_session_options options = {.budget = NEAP_BUDGET_MAX,
                                          .threads = 2,
                                          .seed = 3,
                                          .momentum = 0.9f,
                                          .precision = precision,
                                          .master = true};
    graphs[form] = build((enum form)form, biased, smoothing);
    ASSERT_OK(neap_session_create(graphs[form], &options, NULL, &sessions[form]));
    results[form] = run_steps(sessions[form], 3, 0.5f, CLASSES);
    if (form == WHOLE) continue;
    assert_true(fabs(results[form].last.loss - results[WHOLE].last.loss) <=
                tolerance * fabs(results[WHOLE].last.loss));
    if (precision == NEAP_F32) assert_int_equal(results[form].last.correct, results[WHOLE].last.correct);
    expect_alike(NULL, sessions[WHOLE], sessions[form], "loss", tolerance);
  }
  for (int form = WHOLE; form <= PARTS; form++) {
    neap_session_free(sessions[form]);
    neap_graph_free(graphs[form]);
  }
}

static void test_blocks(void **state) {
  (void)state;
  compare(false, 0, NEAP_F32, 1e-5);
  compare(true, 0.1f, NEAP_F32, 1e-5);
}

static void test_types(void **state) {
  (void)state;
  compare(true, 0.1f, NEAP_BF16, 2e-2);
  compare(false, 0, NEAP_F16, 1e-2);
}

/* What a budget is held against: neither the logits nor their gradient are whole. */
static void test_memory(void **state) {
  (void)state;
  neap_graph *graph = build(BLOCKS, true, 0);
  neap_session *s = NULL;
  neap_memory memory;
  ASSERT_OK(
      neap_session_create(graph, &(neap_session_options){.budget = NEAP_BUDGET_MAX, .threads = 2}, NULL, &s));
  neap_session_memory(s, &memory);
  assert_true(memory.planned_peak < (uint64_t)ROWS * CLASSES * sizeof(float));
  neap_session_free(s);
  neap_graph_free(graph);
}

int run_test_linear_loss(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks), cmocka_unit_test(test_types),
                                     cmocka_unit_test(test_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
