/* A session that only predicts gives what evaluation gives, in less memory than training's least. */
#include <math.h>
#include <unistd.h>

#include "session_help.h"

enum { BATCH = 8, CLASSES = 5 };

/* Dropout and batch norm, whose evaluation differs from training; two outputs, one of them in the middle. */
static neap_graph *build(bool with_loss) {
  neap_graph *graph = NULL;
  neap_builder *b = neap_builder_create("two outputs");
  neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){BATCH, 3, 9, 9}), hidden;
  const neap_tensor label = with_loss ? neap_input(b, "label", NEAP_I32, 1, (int64_t[]){BATCH}) : -1;
  x = neap_conv(b, x, (neap_conv_options){.filters = 16, .size = 3, .padding = 1});
  x = hidden = neap_relu(b, neap_batch_norm(b, x, (neap_batch_norm_options){0}));
  neap_output(b, "hidden", hidden);
  x = neap_dropout(b, neap_flatten(b, neap_max_pool(b, x, (neap_pool_options){.size = 3})), 0.5f);
  x = neap_linear(b, x, CLASSES, true);
  neap_output(b, "logits", x);
  ASSERT_OK(neap_builder_finish(b, with_loss ? neap_softmax_cross_entropy(b, x, label, 0) : -1, &graph));
  neap_builder_free(b);
  return graph;
}

static float *read_output(neap_session *s, const char *name, int64_t *count) {
  neap_variable shape;
  ASSERT_OK(neap_session_output(s, name, &shape, NULL));
  float *data = malloc((size_t)shape.elements * sizeof *data);
  assert_non_null(data);
  ASSERT_OK(neap_session_output(s, name, NULL, data));
  *count = shape.elements;
  return data;
}

/* The file has f32: what the reference backend computes in double goes through it rounded. */
static void check_backend(neap_backend backend, float tolerance, const char *file) {
  static const char *const names[] = {"hidden", "logits"};
  neap_graph *graph = build(true), *alone = build(false);
  neap_session *training, *predictions[2];
  const neap_session_options options = {
      .budget = NEAP_BUDGET_MAX, .backend = backend, .momentum = 0.9f, .threads = 2, .seed = 3};
  neap_session_options predict = options;
  predict.predict = true;
  ASSERT_OK(neap_session_create(graph, &options, NULL, &training));
  for (int step = 0; step < 3; step++) {
    fill_inputs(training, (uint64_t)step, CLASSES);
    ASSERT_OK(neap_session_step(training, 0.05f, NULL));
  }
  ASSERT_OK(neap_session_save(training, file));
  fill_inputs(training, 9, CLASSES);
  ASSERT_OK(neap_session_evaluate(training, NULL));
  neap_memory trains;
  neap_session_memory(training, &trains);
  ASSERT_OK(neap_session_create(graph, &predict, NULL, &predictions[0]));
  ASSERT_OK(neap_session_create(alone, &options, NULL,
                                &predictions[1])); /* without a loss it can do nothing else */
  for (int p = 0; p < 2; p++) {
    neap_memory memory;
    ASSERT_OK(neap_session_load(predictions[p], file));
    assert_null(neap_session_input(predictions[p], "label"));
    fill_inputs(predictions[p], 9, CLASSES);
    ASSERT_OK(neap_session_predict(predictions[p]));
    for (int i = 0; i < 2; i++) {
      int64_t count, other;
      float *expected = read_output(training, names[i], &count),
            *got = read_output(predictions[p], names[i], &other);
      assert_int_equal(count, other);
      for (int64_t k = 0; k < count; k++)
        if (!(fabsf(expected[k] - got[k]) <= tolerance))
          fail_msg("backend %d, session %d: element %d of '%s' is %.9g, not %.9g", (int)backend, p, (int)k,
                   names[i], (double)got[k], (double)expected[k]);
      free(expected);
      free(got);
    }
    neap_session_memory(predictions[p], &memory);
    assert_int_equal(memory.measured_peak, memory.planned_peak);
    assert_true(memory.planned_peak < trains.planned_peak);
    assert_true(memory.resident < trains.resident); /* no momentum, no labels */
    assert_int_equal(neap_session_step(predictions[p], 0.1f, NULL), NEAP_INVALID_ARGUMENT);
    assert_int_equal(neap_session_output(predictions[p], "nothing", NULL, NULL), NEAP_INVALID_ARGUMENT);
    neap_session_free(predictions[p]);
  }
  /* What a digest or a step has written over cannot be read. */
  char digest[65];
  float data[BATCH * CLASSES];
  ASSERT_OK(neap_session_digest(training, digest));
  assert_int_equal(neap_session_output(training, "logits", NULL, data), NEAP_INVALID_ARGUMENT);
  ASSERT_OK(neap_session_predict(training));
  ASSERT_OK(neap_session_output(training, "logits", NULL, data));
  ASSERT_OK(neap_session_step(training, 0.05f, NULL));
  assert_int_equal(neap_session_output(training, "logits", NULL, data), NEAP_INVALID_ARGUMENT);
  neap_session_free(training);
  neap_graph_free(graph);
  neap_graph_free(alone);
}

static void test_prediction(void **state) {
  (void)state;
  char file[] = "/tmp/neap-prediction-XXXXXX";
  const int descriptor = mkstemp(file);
  assert_true(descriptor >= 0);
  close(descriptor);
  check_backend(NEAP_CPU, 0, file);
  check_backend(NEAP_REFERENCE, 1e-5f, file);
  unlink(file);
}

/* Weights without the running statistics predict nothing. */
static void test_missing_statistics(void **state) {
  (void)state;
  static const char header[] = "{\"norm1.gamma\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
  char file[] = "/tmp/neap-prediction-XXXXXX";
  const int descriptor = mkstemp(file);
  const uint64_t length = sizeof header - 1;
  const float one = 1;
  assert_int_equal(write(descriptor, &length, sizeof length), sizeof length);
  assert_int_equal(write(descriptor, header, length), length);
  assert_int_equal(write(descriptor, &one, sizeof one), sizeof one);
  close(descriptor);
  neap_graph *graph = build(false);
  neap_session *s;
  ASSERT_OK(neap_session_create(graph, &(neap_session_options){.threads = 1}, NULL, &s));
  assert_int_equal(neap_session_load(s, file), NEAP_BAD_FORMAT);
  neap_session_free(s);
  neap_graph_free(graph);
  unlink(file);
}

/* In training's least arena the large output has no place; the small one has, and both have shapes. */
static void test_outputs_that_fit(void **state) {
  (void)state;
  neap_graph *graph = NULL;
  neap_session *s = NULL;
  neap_variable shape;
  float small[4 * 3];
  neap_builder *b = neap_builder_create("outputs");
  const neap_tensor x = neap_input(b, "x", NEAP_F32, 2, (int64_t[]){4, 8});
  const neap_tensor large =
      neap_expand(b, neap_reshape(b, x, 3, (int64_t[]){4, 8, 1}), 3, (int64_t[]){4, 8, 5000});
  const neap_tensor y = neap_linear(b, x, 3, true);
  neap_output(b, "large", large);
  neap_output(b, "small", y);
  ASSERT_OK(neap_builder_finish(b, neap_mean(b, y, NULL, 0, false), &graph));
  neap_builder_free(b);
  ASSERT_OK(neap_session_create(graph, &(neap_session_options){.threads = 1}, NULL, &s));
  ASSERT_OK(neap_session_predict(s));
  ASSERT_OK(neap_session_output(s, "small", &shape, small));
  ASSERT_OK(neap_session_output(s, "large", &shape, NULL));
  assert_int_equal(shape.elements, 4 * 8 * 5000);
  neap_session_free(s);
  neap_graph_free(graph);
}

/* A column that is broadcast has as many bytes as the result, both padded: the result must not lie in it. */
static void test_small_broadcasts(void **state) {
  (void)state;
  enum { ROWS = 3, COLUMNS = 4 };
  neap_graph *graph = NULL;
  neap_session *s = NULL;
  neap_variable shape;
  float y[ROWS * COLUMNS];
  neap_builder *b = neap_builder_create("broadcast");
  const neap_tensor x = neap_input(b, "x", NEAP_F32, 2, (int64_t[]){ROWS, COLUMNS});
  neap_output(b, "y", neap_divide(b, x, neap_scale(b, neap_sum(b, x, (int[]){1}, 1, true), 2, 0)));
  ASSERT_OK(neap_builder_finish(b, -1, &graph));
  neap_builder_free(b);
  ASSERT_OK(neap_session_create(graph, &(neap_session_options){.predict = true}, NULL, &s));
  float *in = neap_session_input(s, "x");
  for (int i = 0; i < ROWS * COLUMNS; i++) in[i] = (float)(i + 1);
  ASSERT_OK(neap_session_predict(s));
  ASSERT_OK(neap_session_output(s, "y", &shape, y));
  for (int i = 0; i < ROWS * COLUMNS; i++) {
    float sum = 0;
    for (int k = 0; k < COLUMNS; k++) sum += in[i / COLUMNS * COLUMNS + k];
    assert_true(fabsf(y[i] - in[i] / (2 * sum)) < 1e-6f);
  }
  neap_session_free(s);
  neap_graph_free(graph);
}

static void test_what_is_refused(void **state) {
  (void)state;
  neap_graph *graph = NULL;
  for (int i = 0; i < 3; i++) {
    neap_builder *b = neap_builder_create("refused");
    const neap_tensor x = neap_input(b, "x", NEAP_F32, 2, (int64_t[]){2, 3});
    if (i == 1) neap_output(b, "y", x), neap_output(b, "y", x); /* two of a name */
    if (i == 2) neap_output(b, "", x);
    assert_int_equal(neap_builder_finish(b, -1, &graph), NEAP_INVALID_ARGUMENT);
    neap_builder_free(b);
  }
}

int run_test_prediction(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_prediction), cmocka_unit_test(test_missing_statistics),
      cmocka_unit_test(test_outputs_that_fit), cmocka_unit_test(test_small_broadcasts),
      cmocka_unit_test(test_what_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
