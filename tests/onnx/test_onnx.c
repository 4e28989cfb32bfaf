/* ONNX files as models: parameters by the file's names with its values, records that do not depend on the
 * batch, the same bits at the least budget as at the largest; and for each thing that is refused its message.
 * The files are those of tests/onnx/make_models.py. */
#include <unistd.h>

#include "effort.h"
#include "model/model.h"
#include "session_help.h"

static const char *path_of(const char *name) {
  static char path[2][4096];
  static int next;
  next = !next;
  snprintf(path[next], sizeof path[next], "%s/%s", ONNX_FOLDER, name);
  return path[next];
}

static neap_session *open_session(const char *model, const neap_model_options *shape,
                                  neap_session_options options, neap_graph **graph) {
  neap_session *session;
  ASSERT_OK(build_named(model, shape, graph));
  ASSERT_OK(neap_session_create(*graph, &options, NULL, &session));
  ASSERT_OK(load_named(model, shape, session));
  return session;
}

static void close_session(neap_session *session, neap_graph *graph) {
  neap_session_free(session);
  neap_graph_free(graph);
}

static void read_named(neap_session *session, const char *name, neap_variable *variable, float *data) {
  const int32_t index = find_variable(session, name);
  ASSERT_OK(neap_session_variable(session, index, variable));
  ASSERT_OK(neap_session_read(session, index, data));
}

/* Two tensors of the external data lie one after the other: its bytes are the oracle. */
static void test_values_are_the_files(void **state) {
  (void)state;
  neap_graph *graph;
  neap_variable v;
  float data[256], file_data[102];
  const neap_model_options shape = {.batch = 2};
  neap_session *s = open_session(path_of("external.onnx"), &shape, (neap_session_options){0}, &graph);
  FILE *file = fopen(path_of("external.data"), "rb");
  assert_non_null(file);
  assert_int_equal(fread(file_data, 1, sizeof file_data, file), sizeof file_data);
  fclose(file);
  read_named(s, "conv.weight", &v, data);
  assert_int_equal(v.elements, 36);
  assert_int_equal(v.kind, NEAP_VARIABLE_PARAMETER);
  assert_memory_equal(data, file_data, 36 * sizeof *data);
  read_named(s, "norm.variance", &v, data);
  assert_int_equal(v.kind, NEAP_VARIABLE_RUNNING_STATISTIC);
  for (int i = 0; i < 4; i++) assert_true(data[i] == 1);
  read_named(s, "head.bias", &v, data);
  assert_memory_equal(data, file_data + 102 - 10, 10 * sizeof *data);
  close_session(s, graph);
}

/* Logits of `batch` records, of which record r is drawn from seed r. */
static void predict(const char *model, int64_t batch, float *logits) {
  neap_graph *graph;
  neap_variable v;
  const neap_model_options shape = {.batch = batch};
  neap_session *s = open_session(model, &shape, (neap_session_options){.predict = true}, &graph);
  float *image = neap_session_input(s, "image");
  for (int64_t i = 0; i < batch * 64; i++) {
    uint32_t word[4];
    random_philox(1, (uint64_t)i / 64, (uint64_t)i % 64, word);
    image[i] = random_uniform(word[0]);
  }
  ASSERT_OK(neap_session_predict(s));
  ASSERT_OK(neap_session_output(s, "logits", &v, logits));
  assert_int_equal(v.dims[0], batch);
  close_session(s, graph);
}

/* The file is made for a batch of 2; each record gives what it gives there. */
static void test_fixed_batch_is_rewritten(void **state) {
  (void)state;
  float two[20], five[50];
  const char *model = path_of("images-of-2.onnx");
  predict(model, 2, two);
  predict(model, 5, five);
  for (int i = 0; i < 20; i++) assert_true(fabsf(two[i] - five[i]) < 1e-6f);
}

/* Prefixed or by its suffix, of every kind of data; a step lowers the loss of its own batch. */
static void test_models_train(void **state) {
  (void)state;
  static const struct {
    const char *file;
    neap_task kind;
    int64_t classes, length;
  } models[] = {{"images.onnx", NEAP_TASK_IMAGES, 10, 0},
                {"images-of-2.onnx", NEAP_TASK_IMAGES, 10, 0},
                {"features.onnx", NEAP_TASK_FEATURES, 3, 0},
                {"tokens.onnx", NEAP_TASK_TOKENS, 16, 9}};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    neap_graph *graph;
    neap_step_result first, last;
    neap_model_description about;
    neap_model *model;
    char name[4200];
    const neap_model_options shape = {.batch = 4, .length = models[i].length};
    snprintf(name, sizeof name, "onnx:%s", path_of(models[i].file));
    if (models[i].length == 0) {
      ASSERT_OK(neap_model_open(name, &model));
      ASSERT_OK(neap_model_describe(model, &about));
      assert_int_equal(about.task, models[i].kind);
      assert_int_equal(about.usual.classes, models[i].classes);
      neap_model_close(model);
    }
    neap_session *s = open_session(name, &shape, (neap_session_options){.budget = NEAP_BUDGET_MAX}, &graph);
    fill_inputs(s, 3, (int32_t)models[i].classes);
    ASSERT_OK(neap_session_step(s, 0.05f, &first));
    for (int k = 0; k < 20; k++) ASSERT_OK(neap_session_step(s, 0.05f, &last));
    assert_true(last.loss < first.loss);
    close_session(s, graph);
  }
}

/* No token sees a later one. */
static void test_mask_is_causal(void **state) {
  (void)state;
  enum { LENGTH = 9, WORDS = 16 };
  neap_graph *graph;
  neap_variable v;
  float logits[2][LENGTH * WORDS];
  const neap_model_options shape = {.batch = 1, .length = LENGTH};
  neap_session *s =
      open_session(path_of("tokens.onnx"), &shape, (neap_session_options){.predict = true}, &graph);
  int32_t *tokens = neap_session_input(s, "tokens");
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < LENGTH; i++) tokens[i] = i < 5 ? i + 2 : i * (k + 1) % WORDS;
    ASSERT_OK(neap_session_predict(s));
    ASSERT_OK(neap_session_output(s, "logits", &v, logits[k]));
  }
  for (int i = 0; i < LENGTH * WORDS; i++)
    if (i < 5 * WORDS) assert_true(fabsf(logits[0][i] - logits[1][i]) < 1e-5f);
  assert_true(fabsf(logits[0][LENGTH * WORDS - 1] - logits[1][LENGTH * WORDS - 1]) > 1e-5f);
  close_session(s, graph);
}

static void train_within(const char *model, uint64_t budget, char digest[65]) {
  neap_graph *graph;
  const neap_model_options shape = {.batch = 4, .length = 9};
  const neap_session_options options = {.budget = budget, .planner = quick_planner()};
  neap_session *s = open_session(model, &shape, options, &graph);
  fill_inputs(s, 5, 10);
  for (int k = 0; k < 3; k++) ASSERT_OK(neap_session_step(s, 0.1f, NULL));
  ASSERT_OK(neap_session_digest(s, digest));
  close_session(s, graph);
}

static void test_budgets_give_the_same_bits(void **state) {
  (void)state;
  const char *models[] = {"images.onnx", "tokens.onnx", "padded.onnx"};
  for (int i = 0; i < 3; i++) {
    char most[65], least[65];
    train_within(path_of(models[i]), NEAP_BUDGET_MAX, most);
    train_within(path_of(models[i]), NEAP_BUDGET_MIN, least);
    assert_string_equal(most, least);
  }
}

static void assert_refused(const char *model, const neap_model_options *shape, neap_status wanted,
                           const char *said) {
  neap_graph *graph = NULL;
  assert_int_equal(build_named(model, shape, &graph), wanted);
  if (strstr(neap_error_message(), said) == NULL)
    fail_msg("'%s' does not have '%s'", neap_error_message(), said);
}

static void test_refused_by_name(void **state) {
  (void)state;
  static const struct {
    const char *file, *said;
    neap_status status;
  } bad[] = {
      {"bad-operator.onnx", "node 'top' (Hardmax, opset 18): this operator is not supported",
       NEAP_UNSUPPORTED},
      {"bad-domain.onnx", "node 'own' (com.example.Fused, opset 18): this operator is not supported",
       NEAP_UNSUPPORTED},
      {"bad-opset.onnx", "node 'sum' (Add, opset 6): it is supported from opset 7 on", NEAP_UNSUPPORTED},
      {"bad-cycle.onnx", "node 'one' (Add, opset 18): it reads 'b', which no earlier node makes",
       NEAP_BAD_FORMAT},
      {"bad-twice.onnx", "two values are named 'y'", NEAP_BAD_FORMAT},
      {"bad-inputs.onnx", "has the inputs 'x' and 'z'", NEAP_UNSUPPORTED},
      {"bad-dims.onnx", "tensor 'w': dimension 0 has", NEAP_BAD_FORMAT},
      {"bad-location.onnx", "'../weights.bin', outside the model's folder", NEAP_BAD_FORMAT},
      {"no-such.onnx", "no-such.onnx: cannot be opened", NEAP_IO_FAILED},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_refused(path_of(bad[i].file), NULL, bad[i].status, bad[i].said);
  assert_refused(path_of("images.onnx"), &(neap_model_options){.classes = 11}, NEAP_INVALID_ARGUMENT,
                 "predicts 10 classes, but the data have 11");
  assert_refused(path_of("images.onnx"), &(neap_model_options){.image = {3}}, NEAP_INVALID_ARGUMENT,
                 "has 1 along axis 1");
  assert_refused(path_of("tokens.onnx"), &(neap_model_options){.length = 13}, NEAP_UNSUPPORTED,
                 "reads row 12 of 'positions', which has 12");
  assert_refused(path_of("images.onnx"), &(neap_model_options){.decode = 3}, NEAP_INVALID_ARGUMENT,
                 "cannot decode");
}

static size_t read_file(const char *path, char *bytes, size_t size) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  const size_t count = fread(bytes, 1, size, file);
  fclose(file);
  return count;
}

/* A file that is cut anywhere, or whose external data are missing or cut, is refused by its name. */
static void test_cut_files(void **state) {
  (void)state;
  static char bytes[1 << 14];
  char folder[] = "/tmp/neap-onnx-XXXXXX", path[64], data[64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/external.onnx", folder);
  snprintf(data, sizeof data, "%s/external.data", folder);
  const size_t count = read_file(path_of("external.onnx"), bytes, sizeof bytes);
  for (size_t cut = 0; cut < count; cut += quick_pass() ? 5 : 1) {
    neap_graph *graph = NULL;
    ASSERT_OK(neap_write_file(path, bytes, cut));
    const neap_status status = build_named(path, NULL, &graph);
    assert_true(status == NEAP_OK || status == NEAP_BAD_FORMAT || status == NEAP_UNSUPPORTED);
    if (status != NEAP_OK) assert_non_null(strstr(neap_error_message(), "external.onnx"));
    neap_graph_free(graph);
  }
  neap_graph *graph;
  neap_session *session;
  const neap_model_options shape = {.batch = 2};
  ASSERT_OK(neap_write_file(path, bytes, count));
  ASSERT_OK(build_named(path, &shape, &graph)); /* the structure needs no weights */
  ASSERT_OK(neap_session_create(graph, &(neap_session_options){0}, NULL, &session));
  assert_int_equal(load_named(path, &shape, session), NEAP_IO_FAILED);
  assert_non_null(strstr(neap_error_message(), "put that file next to the model"));
  ASSERT_OK(neap_write_file(data, bytes, 100));
  assert_int_equal(load_named(path, &shape, session), NEAP_BAD_FORMAT);
  assert_non_null(strstr(neap_error_message(), "it was cut or belongs to another model"));
  close_session(session, graph);
  unlink(path);
  unlink(data);
  rmdir(folder);
}

int run_test_onnx(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values_are_the_files),
      cmocka_unit_test(test_fixed_batch_is_rewritten),
      cmocka_unit_test(test_models_train),
      cmocka_unit_test(test_mask_is_causal),
      cmocka_unit_test(test_budgets_give_the_same_bits),
      cmocka_unit_test(test_refused_by_name),
      cmocka_unit_test(test_cut_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
