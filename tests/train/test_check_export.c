/* What an export is compared with: the run's own network, and no other. */
#include "train/check_export.h"

#include <stdio.h>
#include <unistd.h>

#include "session_help.h"

static const neap_model_options shape = {.batch = 4, .classes = 3, .image = {2, 8, 8}};
static char files[3][64]; /* weights, other weights, an ONNX file of the first */

static void save_weights(uint64_t seed, const char *path) {
  neap_graph *graph;
  neap_session *session;
  const neap_session_options options = {.predict = true, .seed = seed, .budget = NEAP_BUDGET_MAX};
  ASSERT_OK(build_named("wrn-10-1", &shape, &graph));
  ASSERT_OK(neap_session_create(graph, &options, NULL, &session));
  ASSERT_OK(load_named("wrn-10-1", &shape, session));
  ASSERT_OK(neap_session_save(session, path));
  neap_session_free(session);
  neap_graph_free(graph);
}

static int write_files(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++)
    snprintf(files[i], sizeof files[i], "/tmp/neap-check-%d-%d.onnx", (int)getpid(), i);
  save_weights(1, files[0]);
  save_weights(2, files[1]);
  return 0;
}

static int remove_files(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) unlink(files[i]);
  return 0;
}

static neap_export_options options_of(const char *weights) {
  return (neap_export_options){.model = "wrn-10-1", .weights = weights, .out = files[2], .shape = shape};
}

static void test_the_run_s_own_file(void **state) {
  (void)state;
  neap_export_result result;
  neap_export_options options = options_of(files[0]);
  ASSERT_OK(neap_export(&options, &result));
  assert_true(result.checked);
  assert_true(result.difference <= result.allowed && result.allowed <= 1e-4);
  assert_string_equal(result.unchecked, "");
  options.no_check = true;
  ASSERT_OK(neap_export(&options, &result));
  assert_false(result.checked);
  assert_string_equal(result.unchecked, "");
}

static neap_status compare(const char *weights, neap_dtype type, uint64_t process_budget,
                           neap_export_result *result) {
  neap_export_options options = options_of(weights);
  options.process_budget = process_budget;
  const neap_session_options session = {0};
  neap_model *model;
  *result = (neap_export_result){0};
  TRY(neap_model_open(options.model, &model));
  const neap_status status = export_check(&(struct export_check){.options = &options,
                                                                 .model = model,
                                                                 .shape = &shape,
                                                                 .session = &session,
                                                                 .weights = weights,
                                                                 .kind = EXPORT_ONNX,
                                                                 .dtype = type},
                                          result);
  neap_model_close(model);
  return status;
}

/* Another run's file, in place of one that an export got wrong: also with what types of few bits allow. */
static void test_another_file(void **state) {
  (void)state;
  neap_export_result result;
  static const neap_dtype types[] = {NEAP_F32, NEAP_F16, NEAP_BF16, NEAP_Q8_0};
  ASSERT_OK(compare(files[0], NEAP_F32, 0, &result));
  assert_true(result.checked);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(compare(files[1], types[i], 0, &result), NEAP_BAD_FORMAT);
    assert_false(result.checked);
    assert_non_null(strstr(neap_error_message(), files[2]));
    assert_non_null(strstr(neap_error_message(), "gives other outputs than the run"));
  }
}

/* What memory does not suffice for is not compared, and the result says so. */
static void test_a_budget(void **state) {
  (void)state;
  neap_export_result result;
  ASSERT_OK(compare(files[0], NEAP_F32, 1 << 20, &result));
  assert_false(result.checked);
  assert_non_null(strstr(result.unchecked, "it needs a process budget of "));
}

static void test_a_damaged_file(void **state) {
  (void)state;
  neap_export_result result;
  FILE *file = fopen(files[2], "r+b");
  assert_non_null(file);
  assert_int_equal(ftruncate(fileno(file), 1000), 0);
  fclose(file);
  assert_int_equal(compare(files[0], NEAP_F32, 0, &result), NEAP_BAD_FORMAT);
  assert_non_null(strstr(neap_error_message(), "cannot be read back"));
}

int run_test_check_export(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_run_s_own_file),
                                     cmocka_unit_test(test_another_file), cmocka_unit_test(test_a_budget),
                                     cmocka_unit_test(test_a_damaged_file)};
  return cmocka_run_group_tests(tests, write_files, remove_files);
}
