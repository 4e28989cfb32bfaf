/* An open model answers from what was read when it was opened: also when its file is gone, and as before when
 * another file has taken its name. A file that was written to in place is not mixed with what was read. Each
 * question is asked once while the file is there, which is the oracle. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/safetensors.h"
#include "model/model.h"
#include "session_help.h"
#include "small_llama.h"

enum { LENGTH = 8 };

static char folder[64], path[96], other[96], config[96], onnx[96];

static void write_folder(uint64_t seed) {
  static const char text[] = "{\"model_type\": \"llama\", \"hidden_size\": 128, \"intermediate_size\": 128, "
                             "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"vocab_size\": 264, "
                             "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5}";
  char names[LLAMA_TENSORS][64];
  struct safetensors_tensor tensors[LLAMA_TENSORS];
  for (int i = 0; i < LLAMA_TENSORS; i++) {
    snprintf(names[i], sizeof names[i], "%s.weight", llama_shapes[i].folder);
    tensors[i] = (struct safetensors_tensor){.name = names[i],
                                             .rank = llama_shapes[i].rank,
                                             .dims = {llama_shapes[i].rows, LLAMA_WIDTH},
                                             .elements = llama_shapes[i].rows *
                                                         (llama_shapes[i].rank > 1 ? LLAMA_WIDTH : 1)};
  }
  ASSERT_OK(safetensors_save(
      other, &(struct safetensors_content){
                 .tensors = tensors, .tensor_count = LLAMA_TENSORS, .read = give_llama, .context = &seed}));
  ASSERT_OK(neap_write_file(config, text, sizeof text - 1));
}

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/neap-open-XXXXXX");
  if (mkdtemp(folder) == NULL) return 1;
  snprintf(path, sizeof path, "%s/model.gguf", folder);
  snprintf(other, sizeof other, "%s/model.safetensors", folder);
  snprintf(config, sizeof config, "%s/config.json", folder);
  snprintf(onnx, sizeof onnx, "%s/model.onnx", folder);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  unlink(path);
  unlink(other);
  unlink(config);
  unlink(onnx);
  return rmdir(folder) != 0 && access(folder, F_OK) == 0;
}

/* ---- What is asked ---- */

static const neap_model_options shape = {.batch = 2, .length = LENGTH};

/* Answers, as far as they can be compared. */
struct answers {
  neap_model_description about;
  char digest[65], weights[65];
  int64_t parameters;
};

static struct answers ask(const neap_model *model) {
  struct answers a = {0};
  neap_graph *graph;
  neap_session *session;
  const neap_session_options options = {.predict = true, .budget = NEAP_BUDGET_MAX, .threads = 1};
  snprintf(a.digest, sizeof a.digest, "%s", model_digest(model));
  ASSERT_OK(neap_model_describe(model, &a.about));
  ASSERT_OK(neap_model_build(model, &shape, &graph));
  a.parameters = neap_graph_parameters(graph);
  ASSERT_OK(neap_session_create(graph, &options, NULL, &session));
  ASSERT_OK(neap_model_load(model, &shape, session));
  ASSERT_OK(neap_session_digest(session, a.weights));
  neap_session_free(session);
  neap_graph_free(graph);
  return a;
}

static void assert_same_answers(const struct answers *a, const struct answers *b) {
  assert_int_equal(a->about.task, b->about.task);
  assert_int_equal(a->about.places, b->about.places);
  assert_int_equal(a->about.usual.classes, b->about.usual.classes);
  assert_int_equal(a->about.usual.length, b->about.usual.length);
  assert_int_equal(a->parameters, b->parameters);
  assert_string_equal(a->digest, b->digest);
  assert_string_equal(a->weights, b->weights);
}

static void ask_for_texts(const neap_model *model) {
  struct region region = {0};
  struct tokenizer *tokenizer;
  struct chat_template *chat;
  struct task_labels labels;
  const char *layers;
  ASSERT_OK(model_tokenizer(model, &tokenizer));
  assert_int_equal(tokenizer_size(tokenizer), LLAMA_TOKENS);
  ASSERT_OK(model_chat_template(model, &chat));
  assert_non_null(chat);
  ASSERT_OK(model_labels(model, &region, &labels));
  assert_int_equal(labels.count, 0);
  ASSERT_OK(model_new_layers(model, &shape, &region, &layers));
  assert_null(layers);
  tokenizer_free(tokenizer);
  chat_template_free(chat);
  region_free(&region);
}

static void test_a_file_that_is_gone(void **state) {
  (void)state;
  neap_model *model, *none;
  write_llama(path, 1);
  ASSERT_OK(neap_model_open(path, &model));
  assert_true(neap_model_is_file(model) && neap_model_is_language(model));
  const struct answers there = ask(model);
  assert_int_equal(there.about.task, NEAP_TASK_TOKENS);
  assert_int_equal(there.about.usual.classes, LLAMA_TOKENS);
  assert_int_equal(there.about.places, 64);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(neap_model_open(path, &none), NEAP_IO_FAILED);
  assert_null(none);
  const struct answers gone = ask(model);
  assert_same_answers(&there, &gone);
  ask_for_texts(model);
  neap_model_close(model);
}

static void test_another_file_of_its_name(void **state) {
  (void)state;
  neap_model *model, *newer;
  write_llama(path, 1);
  ASSERT_OK(neap_model_open(path, &model));
  const struct answers before = ask(model);
  write_llama(path, 2); /* written beside it and renamed */
  const struct answers after = ask(model);
  assert_same_answers(&before, &after);
  ASSERT_OK(neap_model_open(path, &newer));
  const struct answers of_newer = ask(newer);
  assert_string_equal(of_newer.digest, before.digest); /* of the header, which is the same */
  assert_string_not_equal(of_newer.weights, before.weights);
  neap_model_close(newer);
  neap_model_close(model);
}

/* Writes to the last bytes of a file in place, a second after it was opened. */
static void change_in_place(const char *file) {
  const struct timespec later[2] = {{.tv_sec = 2000000000}, {.tv_sec = 2000000000}};
  const int descriptor = open(file, O_WRONLY);
  assert_true(descriptor >= 0);
  assert_true(lseek(descriptor, -4, SEEK_END) > 0);
  assert_int_equal(write(descriptor, "\0\0\0\0", 4), 4);
  assert_int_equal(futimens(descriptor, later), 0);
  close(descriptor);
}

static void assert_not_loaded(const neap_model *model, const neap_model_options *of, const char *file) {
  neap_graph *graph;
  neap_session *session;
  ASSERT_OK(neap_model_build(model, of, &graph));
  ASSERT_OK(neap_session_create(
      graph, &(neap_session_options){.predict = true, .budget = NEAP_BUDGET_MAX, .threads = 1}, NULL,
      &session));
  assert_int_equal(neap_model_load(model, of, session), NEAP_BAD_FORMAT);
  assert_non_null(strstr(neap_error_message(), file));
  assert_non_null(strstr(neap_error_message(), "was changed since it was opened"));
  neap_session_free(session);
  neap_graph_free(graph);
}

static void test_a_file_that_was_written_to(void **state) {
  (void)state;
  neap_model *model;
  neap_model_description about;
  write_llama(path, 1);
  ASSERT_OK(neap_model_open(path, &model));
  change_in_place(path);
  ASSERT_OK(neap_model_describe(model, &about));
  assert_int_equal(about.usual.classes, LLAMA_TOKENS);
  assert_not_loaded(model, &shape, path);
  neap_model_close(model);
  ASSERT_OK(neap_model_open(path, &model));
  ask(model);
  neap_model_close(model);
}

static void test_a_folder_that_is_gone(void **state) {
  (void)state;
  neap_model *model, *none;
  struct tokenizer *tokenizer;
  write_folder(1);
  ASSERT_OK(neap_model_open(folder, &model));
  const struct answers there = ask(model);
  assert_int_equal(there.about.usual.classes, LLAMA_TOKENS);
  unlink(path);
  unlink(other);
  unlink(config);
  assert_int_equal(rmdir(folder), 0);
  assert_int_equal(neap_model_open(folder, &none), NEAP_INVALID_ARGUMENT);
  const struct answers gone = ask(model);
  assert_same_answers(&there, &gone);
  assert_int_equal(model_tokenizer(model, &tokenizer), NEAP_IO_FAILED); /* which nobody has asked for */
  neap_model_close(model);
  assert_int_equal(mkdir(folder, 0700), 0);
  write_folder(1);
  ASSERT_OK(neap_model_open(folder, &model));
  change_in_place(other);
  assert_not_loaded(model, &shape, other);
  neap_model_close(model);
}

/* ---- Sessions that read weights while they run ---- */

/* Trains some steps, with frozen weights in memory or on disk; there the model is closed and the file gone.
 */
static void train(const char *name, neap_base_on_disk where, char digest[65]) {
  const neap_session_options options = {.lora = 2,
                                        .lora_alpha = 4,
                                        .store = "*=file",
                                        .base_on_disk = where,
                                        .budget = NEAP_BUDGET_MAX,
                                        .threads = 1,
                                        .seed = 3};
  neap_model *model;
  neap_graph *graph;
  neap_session *session;
  neap_step_result result;
  ASSERT_OK(neap_model_open(name, &model));
  ASSERT_OK(neap_model_build(model, &shape, &graph));
  ASSERT_OK(neap_session_create(graph, &options, NULL, &session));
  ASSERT_OK(neap_model_load(model, &shape, session));
  if (where == NEAP_DISK_ALWAYS) {
    neap_model_close(model);
    model = NULL;
    unlink(path);
    unlink(other);
  }
  fill_inputs(session, 5, LLAMA_TOKENS);
  for (int i = 0; i < 3; i++) ASSERT_OK(neap_session_step(session, 0.1f, &result));
  ASSERT_OK(neap_session_digest(session, digest));
  neap_session_free(session);
  neap_graph_free(graph);
  neap_model_close(model);
}

static void test_a_session_keeps_its_file(void **state) {
  (void)state;
  char in_memory[65], on_disk[65];
  write_llama(path, 1);
  train(path, NEAP_DISK_NEVER, in_memory);
  train(path, NEAP_DISK_ALWAYS, on_disk);
  assert_string_equal(in_memory, on_disk);
  write_folder(1);
  train(folder, NEAP_DISK_NEVER, in_memory);
  train(folder, NEAP_DISK_ALWAYS, on_disk);
  assert_string_equal(in_memory, on_disk);
}

/* ---- ONNX ---- */

static void write_onnx(const neap_model_options *of) {
  neap_graph *graph;
  neap_session *session;
  neap_export_result exported;
  ASSERT_OK(build_named("mlp-512x512", of, &graph));
  ASSERT_OK(neap_session_create(
      graph, &(neap_session_options){.predict = true, .budget = NEAP_BUDGET_MAX, .threads = 1}, NULL,
      &session));
  ASSERT_OK(neap_session_save(session, other));
  neap_session_free(session);
  neap_graph_free(graph);
  ASSERT_OK(neap_export(
      &(neap_export_options){
          .model = "mlp-512x512", .weights = other, .out = onnx, .shape = *of, .no_check = true},
      &exported));
}

/* Loads the model into a session, and gives what it predicts of a batch. */
static void predict(const neap_model *model, const neap_model_options *of, float logits[6]) {
  neap_graph *graph;
  neap_session *session;
  ASSERT_OK(neap_model_build(model, of, &graph));
  ASSERT_OK(neap_session_create(
      graph, &(neap_session_options){.predict = true, .budget = NEAP_BUDGET_MAX, .threads = 1}, NULL,
      &session));
  ASSERT_OK(neap_model_load(model, of, session));
  fill_inputs(session, 5, 3);
  ASSERT_OK(neap_session_predict(session));
  ASSERT_OK(neap_session_output(session, "logits", NULL, logits));
  neap_session_free(session);
  neap_graph_free(graph);
}

/* Its matrices are large: they are read from the open file when they are loaded. */
static void test_an_onnx_file(void **state) {
  (void)state;
  const neap_model_options of = {.batch = 2, .image = {32}, .classes = 3};
  neap_model *model, *none;
  neap_model_description about;
  float there[6], gone[6];
  write_onnx(&of);
  ASSERT_OK(neap_model_open(onnx, &model));
  assert_true(neap_model_is_file(model) && !neap_model_is_language(model));
  ASSERT_OK(neap_model_describe(model, &about));
  assert_int_equal(about.task, NEAP_TASK_FEATURES);
  assert_int_equal(about.usual.classes, 3);
  predict(model, &of, there);
  assert_true(there[0] != there[1]);
  unlink(onnx);
  assert_int_equal(neap_model_open(onnx, &none), NEAP_IO_FAILED);
  predict(model, &of, gone);
  assert_memory_equal(there, gone, sizeof there);
  neap_model_close(model);
  write_onnx(&of);
  ASSERT_OK(neap_model_open(onnx, &model));
  change_in_place(onnx);
  assert_not_loaded(model, &of, onnx);
  neap_model_close(model);
}

int run_test_open_model(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_a_file_that_is_gone, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_another_file_of_its_name, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_a_file_that_was_written_to, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_a_folder_that_is_gone, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_a_session_keeps_its_file, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_an_onnx_file, make_folder, remove_folder)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
