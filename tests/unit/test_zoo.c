/* Parameter counts are the published ones; names and shapes that make no sense are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "neap.h"

static void test_parameter_counts(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t parameters;
  } published[] = {
      {"wrn-28-2", 1467610},
      {"wrn-28-10", 36479194},
      {"preresnet-1001", 10327706},
      {"resnet18", 11689512},
      {"resnet34", 21797672},
      {"resnet50", 25557032},
      {"resnet101", 44549160},
      {"resnet152", 60192808},
      {"vgg16", 138357544},
      {"vgg19", 143667240},
      {"vgg16-bn", 138365992},
      {"vgg19-bn", 143678248},
      {"resnet-bottleneck-3-4-6-3", 25557032},
  };
  for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
    neap_graph *graph;
    assert_int_equal(neap_model_build(published[i].name, &(neap_model_options){.batch = 2}, &graph), NEAP_OK);
    assert_int_equal(neap_graph_parameters(graph), published[i].parameters);
    assert_int_equal(neap_graph_batch(graph), 2);
    neap_graph_free(graph);
  }
}

static void test_bad_names(void **state) {
  (void)state;
  static const char *const names[] = {
      "",          "wrn",          "wrn-28",           "wrn-27-2",
      "wrn-28-0",  "wrn-28-2x",    "resnet",           "resnet51",
      "resnet050", "preresnet-19", "preresnet-100000", "vgg11",
      "vgg16-bn-", "Lenet",        "preresnet--5",     "resnet-bottleneck-1-2-3"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    neap_graph *graph = NULL;
    assert_int_equal(neap_model_build(names[i], NULL, &graph), NEAP_INVALID_ARGUMENT);
    assert_null(graph);
    assert_true(strlen(neap_error_message()) > 10);
  }
}

static void test_small_images(void **state) {
  (void)state;
  static const char *const names[] = {"vgg16", "lenet"};
  for (size_t i = 0; i < 2; i++) {
    neap_graph *graph = NULL;
    assert_int_equal(
        neap_model_build(names[i], &(neap_model_options){.batch = 1, .image = {3, 2, 2}}, &graph),
        NEAP_INVALID_ARGUMENT);
    assert_non_null(strstr(neap_error_message(), "2x2"));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_parameter_counts),
                                     cmocka_unit_test(test_bad_names), cmocka_unit_test(test_small_images)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
