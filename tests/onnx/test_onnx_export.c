/* Ready-made models written as ONNX files and read again: the graph of the file gives what the model's
 * session gives. (ONNX Runtime judges the files in python/tests/torch.) */
#include <unistd.h>

#include "effort.h"
#include "onnx/onnx_model.h"
#include "session_help.h"

enum { BATCH = 2, OUTPUTS = 1 << 14 };

/* Fills what both sessions have with the same numbers, by the inputs' names. */
static void fill(neap_session *s, const neap_graph *graph, int32_t classes) {
  for (size_t t = 0; t < graph->tensors.count; t++) {
    const struct tensor *x = &graph->tensors.data[t];
    void *data = x->role == NEAP_ROLE_INPUT && x->view_of < 0 ? neap_session_input(s, x->name) : NULL;
    for (int64_t i = 0; data != NULL && i < x->elements; i++) {
      uint32_t word[4];
      random_philox(7, (uint64_t)strlen(x->name), (uint64_t)i, word);
      if (x->dtype == NEAP_I32)
        ((int32_t *)data)[i] = (int32_t)random_below(word[0], (uint64_t)classes);
      else
        ((float *)data)[i] = 2 * random_uniform(word[0]) - 1;
    }
  }
}

static int64_t predict(neap_session *s, const neap_graph *graph, int32_t classes, float *values) {
  neap_variable output;
  fill(s, graph, classes);
  ASSERT_OK(neap_session_predict(s));
  ASSERT_OK(neap_session_output(s, "logits", &output, NULL));
  assert_true(output.elements <= OUTPUTS);
  ASSERT_OK(neap_session_output(s, "logits", NULL, values));
  return output.elements;
}

static void check_model(const char *name, neap_model_options shape, const char *weights, const char *file) {
  static float model[OUTPUTS], exported[OUTPUTS];
  neap_graph *graph;
  neap_session *session;
  neap_export_result result;
  struct import m;
  struct onnx_file opened;
  const neap_session_options options = {.predict = true, .seed = 3, .planner = quick_planner()};
  shape.batch = BATCH;
  ASSERT_OK(build_named(name, &shape, &graph));
  ASSERT_OK(neap_session_create(graph, &options, NULL, &session));
  ASSERT_OK(load_named(name, &shape, session));
  const int64_t count = predict(session, graph, 8, model);
  ASSERT_OK(neap_session_save(session, weights));
  neap_session_free(session);
  neap_graph_free(graph);
  ASSERT_OK(neap_export(
      &(neap_export_options){.model = name, .weights = weights, .out = file, .shape = shape}, &result));
  assert_int_equal(result.batch, 0); /* any */
  ASSERT_OK(onnx_open(file, &opened));
  ASSERT_OK(onnx_build_plain(&opened, &graph, &m));
  ASSERT_OK(neap_session_create(graph, &options, NULL, &session));
  ASSERT_OK(import_load(&m, session));
  assert_int_equal(predict(session, graph, 8, exported), count);
  float most = 0;
  for (int64_t i = 0; i < count; i++) most = fmaxf(most, fabsf(model[i]));
  for (int64_t i = 0; i < count; i++)
    if (!(fabsf(model[i] - exported[i]) <= 1e-4f * most))
      fail_msg("%s: logit %lld is %g, exported %g", name, (long long)i, (double)model[i],
               (double)exported[i]);
  neap_session_free(session);
  neap_graph_free(graph);
  import_end(&m);
  onnx_close(&opened);
}

static void test_models(void **state) {
  (void)state;
  static const struct {
    const char *name;
    neap_model_options shape;
  } models[] = {
      /* made of what the others have: a quick pass leaves them out */
      {"vgg16-bn", {.image = {3, 32, 32}, .classes = 10}},
      {"googlenet", {.image = {3, 64, 64}, .classes = 10}},
      /* the others */
      {"mlp", {0}},
      {"mlp-8x6", {.image = {5}, .classes = 3}},
      {"lenet", {0}},
      {"wrn-10-1", {.image = {3, 16, 16}}},
      {"preresnet-20", {.image = {3, 16, 16}}},
      {"resnet18", {.image = {3, 32, 32}, .classes = 10}},
      {"mobilenet-v2", {.image = {3, 32, 32}, .classes = 10}},
      {"densenet121", {.image = {3, 32, 32}, .classes = 10}},
      {"gpt-2x16x2", {.length = 12, .classes = 32}},
      {"gpt-1x16x2", {.length = 12, .classes = 32, .window = 4}},
      {"llama-2x16x4x2", {.length = 12, .classes = 32, .attention = "[strided:3;window:4];fixed:5,2"}},
      {"llama-2x16x4x2", {.length = 12, .classes = 32}},
      {"bert-1x16x2", {.length = 12, .classes = 32}},
      {"onnx:" ONNX_FOLDER "/images.onnx", {0}},
      {"onnx:" ONNX_FOLDER "/images-of-2.onnx", {0}},
      {"onnx:" ONNX_FOLDER "/features.onnx", {0}},
      {"onnx:" ONNX_FOLDER "/tokens.onnx", {.length = 9}},
  };
  char folder[] = "/tmp/neap-export-XXXXXX", weights[64], file[64];
  assert_non_null(mkdtemp(folder));
  snprintf(weights, sizeof weights, "%s/weights.safetensors", folder);
  snprintf(file, sizeof file, "%s/model.onnx", folder);
  enum { REPEATED = 2 };
  for (size_t i = quick_pass() ? REPEATED : 0; i < sizeof models / sizeof *models; i++)
    check_model(models[i].name, models[i].shape, weights, file);
  unlink(weights);
  unlink(file);
  rmdir(folder);
}

static void test_refused(void **state) {
  (void)state;
  neap_graph *graph;
  neap_session *session;
  neap_export_result result;
  const neap_model_options shape = {.batch = 2, .length = 8};
  char weights[] = "/tmp/neap-export-XXXXXX";
  const int descriptor = mkstemp(weights);
  assert_true(descriptor >= 0);
  close(descriptor);
  ASSERT_OK(build_named("char-lstm-1x8", &shape, &graph));
  ASSERT_OK(neap_session_create(graph, &(neap_session_options){.predict = true}, NULL, &session));
  ASSERT_OK(neap_session_save(session, weights));
  const neap_export_options options = {
      .model = "char-lstm-1x8", .weights = weights, .out = "/tmp/never.onnx", .shape = shape};
  assert_int_equal(neap_export(&options, &result), NEAP_UNSUPPORTED);
  assert_non_null(strstr(neap_error_message(), "this operator cannot be written to ONNX files"));
  assert_int_equal(access("/tmp/never.onnx", F_OK), -1);
  neap_session_free(session);
  neap_graph_free(graph);
  unlink(weights);
}

int run_test_onnx_export(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_models), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
