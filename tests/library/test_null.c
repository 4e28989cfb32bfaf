/* Every public function takes NULL: for an object or a result with NEAP_INVALID_ARGUMENT and a message, or as
 * nothing to do; for what the header calls optional as its default. Each call is made by a process of its
 * own, so that one that crashes is named. tests/cli/public_calls.sh sees to it that no function is missing.
 */
#include "neap_collective.h"
#include "session_help.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect_no_crash(pid_t child, const char *call) {
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status)) fail_msg("%s: ended by signal %d", call, WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) fail_msg("%s: is not refused with a message", call);
}

static pid_t fork_quietly(void) {
  fflush(stdout);
  fflush(stderr);
  const pid_t child = fork();
  if (child == 0) { /* cmocka would go on with the next test */
    alarm(60);
    for (int number = 1; number < 16; number++)
      if (number != SIGKILL && number != SIGALRM) signal(number, SIG_DFL);
  }
  assert_true(child >= 0);
  return child;
}

/* The call must not crash. */
#define TAKEN(call)                                                                                          \
  do {                                                                                                       \
    const pid_t child_ = fork_quietly();                                                                     \
    if (child_ == 0) {                                                                                       \
      (void)(call);                                                                                          \
      _exit(0);                                                                                              \
    }                                                                                                        \
    expect_no_crash(child_, #call);                                                                          \
  } while (0)

/* The call must fail with NEAP_INVALID_ARGUMENT and a message of its own. */
#define REFUSED(call)                                                                                        \
  do {                                                                                                       \
    const pid_t child_ = fork_quietly();                                                                     \
    if (child_ == 0) {                                                                                       \
      neap_budget_parse("marker", &(uint64_t){0}, &(double){0});                                             \
      const neap_status status_ = (call);                                                                    \
      _exit(status_ != NEAP_INVALID_ARGUMENT || strstr(neap_error_message(), "marker") != NULL);             \
    }                                                                                                        \
    expect_no_crash(child_, #call);                                                                          \
  } while (0)

static neap_graph *graph;
static neap_session *session;
static neap_step *step;
static neap_plan *plan;

static int make_all(void **state) {
  (void)state;
  const neap_model_options shape = {.batch = 2};
  ASSERT_OK(build_named("mlp", &shape, &graph));
  ASSERT_OK(neap_session_create(graph, &(neap_session_options){.budget = NEAP_BUDGET_MAX, .threads = 1}, NULL,
                                &session));
  ASSERT_OK(neap_step_from_graph(graph, &(neap_session_options){.threads = 1}, &step));
  ASSERT_OK(neap_plan_make(step, NEAP_BUDGET_MAX, NULL, NULL, &plan));
  return 0;
}

static int free_all(void **state) {
  (void)state;
  neap_plan_free(plan);
  neap_step_free(step);
  neap_session_free(session);
  neap_graph_free(graph);
  return 0;
}

static void test_errors_and_files(void **state) {
  (void)state;
  uint64_t bytes;
  double fraction;
  TAKEN(neap_version());
  TAKEN(neap_status_text((neap_status)-1));
  TAKEN(neap_status_text((neap_status)1000));
  TAKEN(neap_error_message());
  REFUSED(neap_budget_parse(NULL, &bytes, &fraction));
  REFUSED(neap_budget_parse("1MiB", NULL, &fraction));
  REFUSED(neap_budget_parse("1MiB", &bytes, NULL));
  TAKEN(neap_budget_share(NAN, 1));
  REFUSED(neap_memory_available(NULL));
  REFUSED(neap_write_file(NULL, "x", 1));
  REFUSED(neap_write_file("/tmp/neap-null", NULL, 1));
  REFUSED(neap_collective_threads(2, NULL));
  REFUSED(neap_collective_fork(2, NULL, &(int){0}));
  REFUSED(neap_collective_fork(2, &(neap_collective){0}, NULL));
  TAKEN((neap_collective_report(NULL, NEAP_IO_FAILED), 0));
  TAKEN(neap_step_exchanges(NULL, NULL, NULL, NULL));
  REFUSED(neap_collective_launched(NULL, NULL, NULL));
  REFUSED(neap_collective_measure(NULL, 1, &(neap_exchange_speed){0}));
  REFUSED(neap_collective_measure(&(neap_collective){.size = 1}, 1, NULL));
  REFUSED(neap_collective_measure(&(neap_collective){0}, 1, &(neap_exchange_speed){0}));
  TAKEN(neap_collective_fail(NULL, NEAP_IO_FAILED));
  REFUSED(neap_checkpoint_command(NULL, &(char *){0}));
  REFUSED(neap_checkpoint_command("/tmp", NULL));
  TAKEN((neap_processor_name(NULL, 10), 0));
  TAKEN((neap_processor_name((char[1]){0}, 0), 0));
}

static void test_builder(void **state) {
  (void)state;
  neap_graph *made;
  int64_t dims[NEAP_MAX_RANK] = {2, 2};
  neap_builder *b = neap_builder_create("null");
  const neap_tensor x = neap_input(b, "x", NEAP_F32, 2, dims);
  TAKEN(neap_builder_create(NULL));
  TAKEN((neap_builder_free(NULL), 0));
  TAKEN(neap_shape(NULL, x, dims));
  TAKEN(neap_shape(b, x, NULL));
  TAKEN(neap_input(NULL, "y", NEAP_F32, 2, dims));
  TAKEN(neap_input(b, NULL, NEAP_F32, 2, dims));
  TAKEN(neap_input(b, "y", NEAP_F32, 2, NULL));
  TAKEN(neap_parameter(NULL, "y", 2, dims, (neap_parameter_options){0}));
  TAKEN(neap_parameter(b, NULL, 2, dims, (neap_parameter_options){0}));
  TAKEN(neap_parameter(b, "y", 2, NULL, (neap_parameter_options){0}));
  TAKEN((neap_freeze(NULL, true), 0));
  TAKEN((neap_output(NULL, "y", x), 0));
  TAKEN((neap_output(b, NULL, x), 0));
  TAKEN((neap_scope(NULL, "y"), 0));
  TAKEN((neap_scope(b, NULL), 0));
  TAKEN(neap_builder_finish(NULL, x, &made)); /* out of memory, by which a builder is NULL */
  REFUSED(neap_builder_finish(b, x, NULL));
  TAKEN((neap_graph_free(NULL), 0));
  TAKEN(neap_graph_name(NULL));
  TAKEN(neap_graph_batch(NULL));
  TAKEN(neap_graph_parameters(NULL));
  neap_model *model;
  neap_model_description about;
  REFUSED(neap_model_open(NULL, &model)); /* in a process of its own */
  REFUSED(neap_model_open("mlp", NULL));
  ASSERT_OK(neap_model_open("mlp", &model));
  REFUSED(neap_model_build(NULL, NULL, &made));
  REFUSED(neap_model_build(model, NULL, NULL));
  REFUSED(neap_model_describe(NULL, &about));
  REFUSED(neap_model_describe(model, NULL));
  REFUSED(neap_model_load(NULL, NULL, session));
  REFUSED(neap_model_load(model, NULL, NULL));
  neap_model_close(model);
  TAKEN(neap_model_close(NULL));
  neap_builder_free(b);
}

/* With a builder that is NULL, and with each pointer that is. */
static void test_operators(void **state) {
  (void)state;
  int64_t dims[NEAP_MAX_RANK] = {2, 2};
  neap_builder *b = neap_builder_create("null");
  const neap_tensor x = neap_input(b, "x", NEAP_F32, 2, dims);
  neap_tensor tensors[4] = {x, x, x, x};
  TAKEN(neap_conv(NULL, x, (neap_conv_options){0}));
  TAKEN(neap_conv_with(NULL, x, x, x, (neap_conv_options){0}));
  TAKEN(neap_conv_transposed(NULL, x, (neap_conv_transposed_options){0}));
  TAKEN(neap_batch_norm(NULL, x, (neap_batch_norm_options){0}));
  TAKEN(neap_layer_norm(NULL, x, 1));
  TAKEN(neap_rms_norm(NULL, x, 1));
  TAKEN(neap_group_norm(NULL, x, 1, 1));
  TAKEN(neap_relu(NULL, x));
  TAKEN(neap_relu6(NULL, x));
  TAKEN(neap_gelu(NULL, x));
  TAKEN(neap_gelu_tanh(NULL, x));
  TAKEN(neap_erf(NULL, x));
  TAKEN(neap_silu(NULL, x));
  TAKEN(neap_sigmoid(NULL, x));
  TAKEN(neap_tanh(NULL, x));
  TAKEN(neap_exp(NULL, x));
  TAKEN(neap_log(NULL, x));
  TAKEN(neap_sqrt(NULL, x));
  TAKEN(neap_power(NULL, x, 1));
  TAKEN(neap_clip(NULL, x, 1, 1));
  TAKEN(neap_scale(NULL, x, 1, 1));
  TAKEN(neap_glu(NULL, x));
  TAKEN(neap_swiglu(NULL, x));
  TAKEN(neap_geglu(NULL, x));
  TAKEN(neap_cast(NULL, x, NEAP_F32));
  TAKEN(neap_add(NULL, x, x));
  TAKEN(neap_subtract(NULL, x, x));
  TAKEN(neap_multiply(NULL, x, x));
  TAKEN(neap_divide(NULL, x, x));
  TAKEN(neap_where(NULL, x, x, x));
  TAKEN(neap_masked_fill(NULL, x, x, 1));
  TAKEN(neap_sum(NULL, x, NULL, 1, false));
  TAKEN(neap_sum(b, x, NULL, 1, false));
  TAKEN(neap_mean(NULL, x, NULL, 1, false));
  TAKEN(neap_mean(b, x, NULL, 1, false));
  TAKEN(neap_expand(NULL, x, 2, dims));
  TAKEN(neap_expand(b, x, 2, NULL));
  TAKEN(neap_softmax(NULL, x, 0));
  TAKEN(neap_transpose(NULL, x, NULL));
  TAKEN(neap_transpose(b, x, NULL));
  TAKEN((neap_split(NULL, x, 0, 1, tensors), 0));
  TAKEN((neap_split(b, x, 0, 1, NULL), 0));
  TAKEN(neap_gather(NULL, x, x));
  TAKEN(neap_embedding(NULL, x, 1, 1));
  TAKEN(neap_sequence_conv(NULL, x, x, 1));
  TAKEN(neap_sequence_conv_from(NULL, x, x, 1, 0));
  TAKEN(neap_matmul(NULL, x, x, false, false));
  TAKEN(neap_cholesky(NULL, x));
  TAKEN(neap_triangular_solve(NULL, x, x, false, false));
  TAKEN(neap_concat(NULL, tensors, 1, 0));
  TAKEN(neap_concat(b, NULL, 1, 0));
  TAKEN(neap_slice(NULL, x, 0, 1, 1));
  TAKEN(neap_local_response_norm(NULL, x, (neap_response_norm_options){0}));
  TAKEN(neap_max_pool(NULL, x, (neap_pool_options){0}));
  TAKEN(neap_average_pool(NULL, x, (neap_pool_options){0}));
  TAKEN(neap_global_average_pool(NULL, x));
  TAKEN(neap_adaptive_average_pool(NULL, x, 1));
  TAKEN(neap_take(NULL, x, 0, 1, (neap_take_options){0}));
  TAKEN(neap_crop(NULL, x, (neap_crop_options){0}));
  TAKEN(neap_resize(NULL, x, 1, 1, false));
  TAKEN(neap_linear(NULL, x, 1, false));
  TAKEN(neap_linear_with(NULL, x, x, x));
  TAKEN((neap_lstm(NULL, tensors, 1, (neap_recurrent_options){0}, tensors), 0));
  TAKEN((neap_lstm(b, NULL, 1, (neap_recurrent_options){0}, tensors), 0));
  TAKEN((neap_lstm(b, tensors, 1, (neap_recurrent_options){0}, NULL), 0));
  TAKEN((neap_gru(NULL, tensors, 1, (neap_recurrent_options){0}, tensors), 0));
  TAKEN((neap_gru(b, NULL, 1, (neap_recurrent_options){0}, tensors), 0));
  TAKEN((neap_gru(b, tensors, 1, (neap_recurrent_options){0}, NULL), 0));
  TAKEN(neap_reshape(NULL, x, 2, dims));
  TAKEN(neap_reshape(b, x, 2, NULL));
  TAKEN(neap_flatten(NULL, x));
  TAKEN(neap_dropout(NULL, x, 1));
  TAKEN(neap_attention(NULL, x, x, x, x, (neap_attention_options){0}));
  TAKEN(neap_attention_at(NULL, x, x, x, x, x, (neap_attention_options){0}));
  TAKEN(neap_rotary(NULL, x, 1, 1, 1));
  TAKEN(neap_rotary_at(NULL, x, 1, 1, x));
  TAKEN(neap_positions(NULL, 1, 1, 1));
  TAKEN(neap_sequence_lengths(NULL, x));
  TAKEN(neap_sequence_mask(NULL, x, x));
  TAKEN((neap_route(NULL, x, (neap_route_options){1, true}, NULL), -1));
  TAKEN(neap_expert_linear(NULL, x, x, x));
  TAKEN(neap_expert_sum(NULL, x, x, x));
  TAKEN(neap_state(NULL, "s", NEAP_F32, 2, dims));
  TAKEN(neap_state(b, NULL, NEAP_F32, 2, dims));
  TAKEN(neap_state(b, "s", NEAP_F32, 2, NULL));
  TAKEN((neap_store(NULL, x, x, x), 0));
  TAKEN((neap_prepare(NULL, x, x), 0));
  TAKEN(neap_softmax_cross_entropy(NULL, x, x, 1));
  TAKEN(neap_softmax_cross_entropy_ignoring(NULL, x, x, 1, 1));
  TAKEN(neap_softmax_cross_entropy_weighted(NULL, x, x, x, 1));
  TAKEN(neap_softmax_cross_entropy_mixed(NULL, x, x, x, x, 1));
  TAKEN(neap_linear_cross_entropy(NULL, x, x, x, x, (neap_linear_cross_entropy_options){0}));
  TAKEN(neap_mse_loss(NULL, x, x));
  TAKEN(neap_l1_loss(NULL, x, x));
  TAKEN(neap_smooth_l1_loss(NULL, x, x, 1));
  TAKEN(neap_binary_cross_entropy(NULL, x, x));
  neap_builder_free(b);
}

static void test_sessions(void **state) {
  (void)state;
  const neap_session_options options = {.budget = NEAP_BUDGET_MAX, .threads = 1};
  neap_session *made;
  neap_variable variable;
  float number = 0;
  int64_t moved;
  int index;
  char digest[65];
  const char *path = "/tmp/neap-null";
  neap_step_times *times;
  REFUSED(neap_session_create(NULL, &options, NULL, &made));
  REFUSED(neap_session_create(graph, NULL, NULL, &made));
  REFUSED(neap_session_create(graph, &options, NULL, NULL));
  TAKEN((neap_session_free(NULL), 0));
  TAKEN(neap_session_input(NULL, "image"));
  TAKEN(neap_session_input(session, NULL));
  REFUSED(neap_session_add_graph(NULL, graph, &index));
  REFUSED(neap_session_add_graph(session, NULL, &index));
  REFUSED(neap_session_add_graph(session, graph, NULL));
  REFUSED(neap_session_select(NULL, 0));
  REFUSED(neap_session_step(NULL, 0, NULL));
  REFUSED(neap_session_micro_step(NULL, 0, 1, NULL));
  REFUSED(neap_session_evaluate(NULL, NULL));
  REFUSED(neap_session_predict(NULL));
  REFUSED(neap_session_prepare(NULL));
  REFUSED(neap_session_prepare(session)); /* its graph prepares nothing */
  REFUSED(neap_session_rewire(NULL, 0.1, &moved));
  TAKEN((neap_session_memory(NULL, &(neap_memory){0}), 0));
  TAKEN((neap_session_memory(session, NULL), 0));
  TAKEN(neap_session_variable_count(NULL));
  REFUSED(neap_session_variable(NULL, 0, &variable));
  REFUSED(neap_session_variable(session, 0, NULL));
  REFUSED(neap_session_read(NULL, 0, &number));
  REFUSED(neap_session_read(session, 0, NULL));
  REFUSED(neap_session_write(NULL, 0, &number));
  REFUSED(neap_session_write(session, 0, NULL));
  REFUSED(neap_session_output(NULL, "logits", &variable, &number));
  REFUSED(neap_session_output(session, NULL, &variable, &number));
  TAKEN(neap_session_output(session, "logits", NULL, NULL));
  REFUSED(neap_session_digest(NULL, digest));
  REFUSED(neap_session_digest(session, NULL));
  REFUSED(neap_session_save(NULL, path));
  REFUSED(neap_session_save(session, NULL));
  REFUSED(neap_session_load(NULL, path));
  REFUSED(neap_session_load(session, NULL));
  REFUSED(neap_session_load_mean(NULL, &path, 1));
  REFUSED(neap_session_load_mean(session, NULL, 1));
  REFUSED(neap_session_load_mean(session, (const char *[]){NULL, path}, 2));
  REFUSED(neap_session_initialise(NULL, path, NULL, NULL));
  REFUSED(neap_session_initialise(session, NULL, NULL, NULL));
  REFUSED(neap_session_time_steps(NULL, &(neap_speed){0}, 0, 1, &times));
  REFUSED(neap_session_time_steps(session, NULL, 0, 1, &times));
  REFUSED(neap_session_time_steps(session, &(neap_speed){0}, 0, 1, NULL));
  TAKEN((neap_step_times_free(NULL), 0));
}

static void test_whole_runs(void **state) {
  (void)state;
  neap_train_result trained;
  neap_evaluation evaluated;
  neap_predict_result predicted;
  neap_export_result exported;
  neap_generate_result generated;
  neap_translate_result translated;
  neap_bench_result bench;
  neap_bleu bleu;
  const char *line = "a";
  REFUSED(neap_train(NULL, &trained));
  REFUSED(neap_train(&(neap_train_options){0}, &trained));
  REFUSED(neap_train(&(neap_train_options){.model = "mlp", .data = "synthetic"}, NULL));
  neap_evaluation_free(NULL);
  neap_run_size size;
  REFUSED(neap_run_measure(NULL, &size));
  char digest[65];
  REFUSED(neap_run_digest(NULL, digest));
  REFUSED(neap_run_digest(&(neap_train_options){0}, digest));
  REFUSED(neap_run_digest(&(neap_train_options){.model = "mlp", .data = "synthetic"}, NULL));
  REFUSED(neap_run_measure(&(neap_train_options){0}, &size));
  REFUSED(neap_run_measure(&(neap_train_options){.model = "mlp", .data = "synthetic"}, NULL));
  REFUSED(neap_evaluate(NULL, &evaluated));
  REFUSED(neap_evaluate(&(neap_train_options){0}, &evaluated));
  REFUSED(neap_evaluate(&(neap_train_options){.model = "mlp", .data = "synthetic"}, NULL));
  neap_replay_result replayed;
  REFUSED(neap_replay(NULL, 1, &replayed));
  REFUSED(neap_replay(&(neap_train_options){0}, 1, &replayed));
  REFUSED(neap_replay(&(neap_train_options){.model = "mlp", .data = "synthetic"}, 1, NULL));
  neap_data_report *data_report;
  REFUSED(neap_data_inspect(NULL, NULL, &data_report));
  REFUSED(neap_data_inspect("synthetic", NULL, NULL));
  neap_data_report_free(NULL);
  REFUSED(neap_predict(NULL, &predicted));
  REFUSED(neap_predict(&(neap_predict_options){0}, &predicted));
  REFUSED(neap_predict(&(neap_predict_options){.model = "mlp"}, NULL));
  REFUSED(neap_export(NULL, &exported));
  REFUSED(neap_export(&(neap_export_options){0}, &exported));
  REFUSED(neap_export(&(neap_export_options){.model = "mlp"}, NULL));
  REFUSED(neap_generate(NULL, &generated));
  REFUSED(neap_generate(&(neap_generate_options){0}, &generated));
  REFUSED(neap_generate(&(neap_generate_options){.model = "gpt2"}, NULL));
  neap_prompts_result texts = {0};
  REFUSED(neap_generate_prompts(NULL, &texts));
  REFUSED(neap_generate_prompts(&(neap_prompts_options){0}, &texts));
  REFUSED(neap_generate_prompts(&(neap_prompts_options){.count = 1}, NULL));
  const char *prompt = NULL;
  REFUSED(neap_generate_prompts(&(neap_prompts_options){.prompts = &prompt, .count = 1}, &texts));
  neap_prompts_result_free(&texts);
  neap_prompts_result_free(NULL);
  neap_chat *chat;
  neap_chat_turn turn;
  REFUSED(neap_chat_open(NULL, NULL, &chat));
  REFUSED(neap_chat_open(&(neap_chat_options){0}, NULL, &chat));
  REFUSED(neap_chat_open(&(neap_chat_options){.generate.model = "gpt2"}, NULL, NULL));
  REFUSED(neap_chat_say(NULL, "a", &turn));
  neap_chat_close(NULL);
  REFUSED(neap_translate(NULL, &line, 1, &translated));
  REFUSED(neap_translate(&(neap_translate_options){0}, &line, 1, &translated));
  REFUSED(neap_translate(&(neap_translate_options){.model = "transformer-64"}, NULL, 1, &translated));
  REFUSED(neap_translate(&(neap_translate_options){.model = "transformer-64"}, &line, 1, NULL));
  REFUSED(neap_bleu_score(NULL, &line, 1, NEAP_BLEU_13A, &bleu));
  REFUSED(neap_bleu_score(&line, NULL, 1, NEAP_BLEU_13A, &bleu));
  REFUSED(neap_bleu_score(&(const char *){NULL}, &line, 1, NEAP_BLEU_13A, &bleu));
  REFUSED(neap_bleu_score(&line, &line, 1, NEAP_BLEU_13A, NULL));
  REFUSED(neap_bench(NULL, &(neap_speed){0}, &bench));
  REFUSED(neap_bench(&(neap_bench_options){0}, &(neap_speed){0}, &bench));
  REFUSED(neap_bench(&(neap_bench_options){.model = "mlp"}, NULL, &bench));
  REFUSED(neap_bench(&(neap_bench_options){.model = "mlp"}, &(neap_speed){0}, NULL));
  REFUSED(neap_measure_speed(1, NULL, &(neap_speed){0}));
  REFUSED(neap_measure_speed(1, &(neap_speed){0}, NULL));
}

static void test_techniques(void **state) {
  (void)state;
  const neap_session_options options = {.budget = NEAP_BUDGET_MAX, .threads = 1};
  const neap_model_options shape = {.batch = 2};
  neap_combination list[NEAP_COMBINATIONS];
  int64_t largest;
  int count;
  neap_model *model;
  ASSERT_OK(neap_model_open("mlp", &model));
  REFUSED(neap_largest_batch(NULL, &shape, &options, &largest));
  REFUSED(neap_largest_batch(model, NULL, &options, &largest));
  REFUSED(neap_largest_batch(model, &shape, NULL, &largest));
  REFUSED(neap_largest_batch(model, &shape, &options, NULL));
  REFUSED(neap_largest_micro_batch(NULL, &shape, &options, &largest));
  REFUSED(neap_largest_micro_batch(model, NULL, &options, &largest));
  REFUSED(neap_largest_micro_batch(model, &shape, NULL, &largest));
  REFUSED(neap_largest_micro_batch(model, &shape, &options, NULL));
  REFUSED(neap_combinations(NULL, &shape, &options, 0, list, &count));
  REFUSED(neap_combinations(model, NULL, &options, 0, list, &count));
  REFUSED(neap_combinations(model, &shape, NULL, 0, list, &count));
  REFUSED(neap_combinations(model, &shape, &options, 0, NULL, &count));
  REFUSED(neap_combinations(model, &shape, &options, 0, list, NULL));
  neap_model_close(model);
  TAKEN(neap_best_combination(NULL, 1, NEAP_PREFER_FIDELITY));
}

static void test_tables(void **state) {
  (void)state;
  neap_attribute attribute;
  TAKEN(neap_planner_at(0, NULL));
  TAKEN(neap_operator_at(0, NULL));
  TAKEN(neap_optimizer_at(0, NULL));
  TAKEN(neap_model_at(0, NULL));
  TAKEN(neap_model_names_file(NULL));
  TAKEN(neap_model_is_file(NULL));
  TAKEN(neap_model_is_language(NULL));
  TAKEN(neap_step_is_alike(NULL, NULL));
  TAKEN(neap_data_at(0, NULL));
  TAKEN(neap_attribute_at(0, 0, NULL));
  TAKEN(neap_attribute_at(-1, 0, &attribute));
  TAKEN(neap_planner_at(-1, &(neap_row){0}));
}

static void test_settings(void **state) {
  (void)state;
  neap_train_options options = neap_train_options_usual();
  neap_setting setting;
  char text[64];
  assert_true(neap_setting_at(0, &setting));
  TAKEN(neap_setting_at(0, NULL));
  TAKEN(neap_setting_find(NULL));
  TAKEN((neap_train_options_resolve(NULL), 0));
  TAKEN((neap_train_options_divide_budget(NULL), 0));
  REFUSED(neap_setting_read(NULL, "1", &options));
  REFUSED(neap_setting_read(&setting, NULL, &options));
  REFUSED(neap_setting_read(&setting, "1", NULL));
  REFUSED(neap_setting_write(NULL, &options, text, sizeof text));
  REFUSED(neap_setting_write(&setting, NULL, text, sizeof text));
  REFUSED(neap_setting_write(&setting, &options, NULL, sizeof text));
  REFUSED(neap_setting_check_use(NULL, &options));
  REFUSED(neap_setting_check_use(&setting, NULL));
  REFUSED(neap_settings_read_file(NULL, NULL, NULL));
  REFUSED(neap_settings_read_file("/tmp/neap-null", NULL, NULL));
}

static void test_plans(void **state) {
  (void)state;
  const char *path = "/tmp/neap-null";
  const neap_session_options options = {.budget = NEAP_BUDGET_MAX, .threads = 1};
  const neap_plan_options how = {0};
  neap_step *made;
  neap_plan *other;
  neap_instance *instances;
  int64_t count;
  uint64_t bytes, live[4];
  const char *name, *op;
  REFUSED(neap_step_read(NULL, &made));
  REFUSED(neap_step_read(path, NULL));
  REFUSED(neap_step_write(NULL, path));
  REFUSED(neap_step_write(step, NULL));
  TAKEN((neap_step_free(NULL), 0));
  REFUSED(neap_step_create(NULL, &made));
  REFUSED(neap_step_create(&(neap_step_arrays){.tensor_count = 1, .node_count = 1}, &made));
  REFUSED(neap_step_create(&(neap_step_arrays){0}, NULL));
  REFUSED(neap_step_from_graph(NULL, &options, &made));
  REFUSED(neap_step_from_graph(graph, NULL, &made));
  REFUSED(neap_step_from_graph(graph, &options, NULL));
  TAKEN((neap_step_describe(NULL, &(neap_step_info){0}), 0));
  TAKEN((neap_step_describe(step, NULL), 0));
  REFUSED(neap_step_keep_all_bytes(NULL, &bytes));
  REFUSED(neap_step_keep_all_bytes(step, NULL));
  REFUSED(neap_plan_make(NULL, 0, NULL, NULL, &other));
  REFUSED(neap_plan_make(step, NEAP_BUDGET_MAX, NULL, NULL, NULL));
  REFUSED(neap_plan_make_with(NULL, 0, &how, NULL, &other));
  TAKEN(neap_plan_make_with(step, NEAP_BUDGET_MAX, NULL, NULL, &other));
  REFUSED(neap_plan_make_with(step, NEAP_BUDGET_MAX, &how, NULL, NULL));
  REFUSED(neap_plan_graph(NULL, &options, NULL, &made, &other));
  REFUSED(neap_plan_graph(graph, NULL, NULL, &made, &other));
  REFUSED(neap_plan_graph(graph, &options, NULL, NULL, &other));
  REFUSED(neap_plan_graph(graph, &options, NULL, &made, NULL));
  TAKEN((neap_plan_free(NULL), 0));
  TAKEN((neap_plan_describe(NULL, &(neap_plan_info){0}), 0));
  TAKEN((neap_plan_describe(plan, NULL), 0));
  TAKEN(neap_plan_schedule(NULL, &count));
  TAKEN(neap_plan_schedule(plan, NULL));
  REFUSED(neap_plan_create(NULL, &other));
  REFUSED(neap_plan_create(&(neap_plan_arrays){.length = 1}, &other));
  REFUSED(neap_plan_create(&(neap_plan_arrays){.instance_count = 1}, &other));
  REFUSED(neap_plan_create(&(neap_plan_arrays){0}, NULL));
  REFUSED(neap_plan_read(NULL, &other));
  REFUSED(neap_plan_read(path, NULL));
  REFUSED(neap_plan_write(NULL, path));
  REFUSED(neap_plan_write(plan, NULL));
  REFUSED(neap_plan_check(NULL, plan, &(neap_check_result){0}));
  REFUSED(neap_plan_check(step, NULL, &(neap_check_result){0}));
  REFUSED(neap_plan_check(step, plan, NULL));
  REFUSED(neap_pipeline_make(NULL, &(neap_pipeline_options){0}, &(neap_pipeline *){0}));
  REFUSED(neap_pipeline_make(step, NULL, &(neap_pipeline *){0}));
  REFUSED(neap_pipeline_make(step, &(neap_pipeline_options){0}, NULL));
  TAKEN(neap_pipeline_way_at(0, NULL));
  TAKEN(neap_pipeline_free(NULL));
  TAKEN(neap_pipeline_describe(NULL, NULL));
  TAKEN(neap_pipeline_rank_bytes(NULL, 0));
  TAKEN(neap_pipeline_part_at(NULL, 0, NULL));
  TAKEN(neap_pipeline_task_at(NULL, 0, 0, NULL));
  REFUSED(neap_plan_instances(NULL, plan, &instances, &count));
  REFUSED(neap_plan_instances(step, NULL, &instances, &count));
  REFUSED(neap_plan_instances(step, plan, NULL, &count));
  REFUSED(neap_plan_instances(step, plan, &instances, NULL));
  REFUSED(neap_plan_profile(NULL, plan, live));
  REFUSED(neap_plan_profile(step, NULL, live));
  REFUSED(neap_plan_profile(step, plan, NULL));
  REFUSED(neap_step_tensor(NULL, 0, &name, &bytes));
  TAKEN(neap_step_tensor(step, 0, NULL, NULL));
  REFUSED(neap_step_node(NULL, 0, &name, &op));
  TAKEN(neap_step_node(step, 0, NULL, NULL));
}

static void test_layout(void **state) {
  (void)state;
  const char *path = "/tmp/neap-null";
  neap_layout_result result;
  neap_buffer buffer = {0, 1, 1, 0}, *buffers;
  int64_t count;
  REFUSED(neap_layout_solve(NULL, 1, 0, &result));
  REFUSED(neap_layout_solve(&buffer, -1, 0, &result));
  REFUSED(neap_layout_solve(&buffer, 1, 0, NULL));
  const double weights[] = {1, 1};
  int64_t position;
  double repeated;
  REFUSED(neap_cache_plan(NULL, 1, 1, &position, &count, &repeated));
  REFUSED(neap_cache_plan(weights, 1, 1, NULL, &count, &repeated));
  REFUSED(neap_cache_plan(weights, 1, 1, &position, NULL, &repeated));
  REFUSED(neap_cache_plan(weights, 1, 1, &position, &count, NULL));
  assert_true(isnan(neap_cache_repeated(NULL, 1, &position, 0)));
  assert_true(isnan(neap_cache_repeated(weights, 1, NULL, 0)));
  REFUSED(neap_layout_read_csv(NULL, &buffers, &count));
  REFUSED(neap_layout_read_csv(path, NULL, &count));
  REFUSED(neap_layout_read_csv(path, &buffers, NULL));
  REFUSED(neap_layout_write_csv(NULL, path, &buffer, 1));
  REFUSED(neap_layout_write_csv(path, NULL, &buffer, 1));
  REFUSED(neap_layout_write_csv(path, path, NULL, 1));
}

int run_test_null(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_errors_and_files),
                                     cmocka_unit_test(test_builder),
                                     cmocka_unit_test(test_operators),
                                     cmocka_unit_test(test_sessions),
                                     cmocka_unit_test(test_whole_runs),
                                     cmocka_unit_test(test_techniques),
                                     cmocka_unit_test(test_tables),
                                     cmocka_unit_test(test_settings),
                                     cmocka_unit_test(test_plans),
                                     cmocka_unit_test(test_layout)};
  return cmocka_run_group_tests(tests, make_all, free_all);
}
