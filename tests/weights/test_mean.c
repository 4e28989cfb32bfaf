/* The mean of files of weights, beside the mean of what they have. */
#include <unistd.h>

#include "session_help.h"

enum { FILES = 3, BATCH = 4, CLASSES = 5 };
static const char *const files[FILES] = {"test_mean-0.safetensors", "test_mean-1.safetensors",
                                         "test_mean-2.safetensors"};
static const char other[] = "test_mean-other.safetensors";

static neap_session *open_network(int64_t width, bool predict) {
  neap_graph *graph;
  neap_session *s;
  neap_builder *b = neap_builder_create("mean");
  neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){BATCH, 2, 5, 5});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){BATCH});
  x = neap_conv(b, x, (neap_conv_options){.filters = width, .size = 3});
  x = neap_relu(b, neap_batch_norm(b, x, (neap_batch_norm_options){0}));
  x = neap_linear(b, neap_flatten(b, x), CLASSES, true);
  neap_output(b, "logits", x);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph));
  neap_builder_free(b);
  const neap_session_options options = {
      .budget = NEAP_BUDGET_MAX, .momentum = 0.9f, .threads = 1, .seed = 4, .predict = predict};
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  neap_graph_free(graph);
  return s;
}

static void compare_variable(neap_session *mean, neap_session *const each[FILES], int32_t index) {
  neap_variable variable;
  float *values[FILES];
  ASSERT_OK(neap_session_variable(mean, index, &variable));
  int64_t elements;
  float *is = read_variable(mean, find_variable(mean, variable.name), &elements);
  for (int f = 0; f < FILES; f++)
    values[f] = read_variable(each[f], find_variable(each[f], variable.name), &elements);
  for (int64_t i = 0; i < variable.elements; i++) {
    double sum = 0;
    for (int f = 0; f < FILES; f++) sum += (double)values[f][i];
    const float wanted = variable.kind == NEAP_VARIABLE_STATE ? values[0][i] : (float)(sum / FILES);
    if (is[i] != wanted)
      fail_msg("%s[%d] is %.9g, not %.9g", variable.name, (int)i, (double)is[i], (double)wanted);
  }
  for (int f = 0; f < FILES; f++) free(values[f]);
  free(is);
}

static void test_means(void **state) {
  (void)state;
  neap_session *each[FILES];
  for (int f = 0; f < FILES; f++) {
    each[f] = open_network(6, false);
    run_steps(each[f], 2 + f, 0.1f, CLASSES);
    ASSERT_OK(neap_session_save(each[f], files[f]));
  }
  for (int predict = 0; predict < 2; predict++) {
    neap_session *mean = open_network(6, predict);
    ASSERT_OK(neap_session_load_mean(mean, files, FILES));
    assert_int_equal(session_steps(mean), 2);
    assert_true(neap_session_variable_count(mean) >= 6);
    for (int32_t i = 0; i < neap_session_variable_count(mean); i++) compare_variable(mean, each, i);
    neap_session_free(mean);
  }
  for (int f = 0; f < FILES; f++) neap_session_free(each[f]);
}

static void test_refused(void **state) {
  (void)state;
  neap_session *wide = open_network(7, false), *s = open_network(6, false);
  ASSERT_OK(neap_session_save(wide, other));
  assert_int_equal(neap_session_load_mean(s, files, 0), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_session_load_mean(s, (const char *const[]){files[0], other}, 2), NEAP_BAD_FORMAT);
  assert_non_null(strstr(neap_error_message(), other));
  assert_int_equal(neap_session_load_mean(s, (const char *const[]){files[0], "test_mean-none"}, 2),
                   NEAP_IO_FAILED);
  neap_session_free(wide);
  neap_session_free(s);
  for (int f = 0; f < FILES; f++) unlink(files[f]);
  unlink(other);
}

int run_test_mean(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_means), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
