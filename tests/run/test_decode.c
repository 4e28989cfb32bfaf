/* Decoding token by token gives the logits that the whole sequence has at each place, in the memory that was
 * planned and in any budget; states begin anew when they are written, and what has no place is left out. */
#include <math.h>
#include <unistd.h>

#include "effort.h"
#include "session_help.h"

enum { BATCH = 2, LENGTH = 13, CLASSES = 19 };

static const char *const models[] = {"gpt-2x32x4", "llama-3x32x4x2", "llama-1x24x3x1", "char-lstm-2x24"};
enum { MODELS = sizeof models / sizeof *models };

static void make_tokens(int32_t *tokens) {
  for (int i = 0; i < BATCH * LENGTH; i++) {
    uint32_t word[4];
    random_philox(5, 0, (uint64_t)i, word);
    tokens[i] = (int32_t)random_below(word[0], CLASSES);
  }
}

static neap_session *open_session(const char *model, int64_t decode, const neap_session_options *options,
                                  neap_graph **graph) {
  const neap_model_options shape = {
      .batch = BATCH, .classes = CLASSES, .length = LENGTH, .decode = decode, .dropout = 0.2f};
  neap_session *s;
  ASSERT_OK(build_named(model, &shape, graph));
  assert_int_equal(neap_graph_batch(*graph), BATCH);
  neap_session_options predict = *options;
  predict.predict = true;
  ASSERT_OK(neap_session_create(*graph, &predict, NULL, &s));
  return s;
}

/* Logits [BATCH, LENGTH, CLASSES] of the whole sequence, whose weights go to the file. */
static float *whole_logits(const char *model, const neap_session_options *options, const int32_t *tokens,
                           const char *file) {
  neap_graph *graph;
  neap_session_options all = *options;
  all.budget = NEAP_BUDGET_MAX;
  neap_session *s = open_session(model, 0, &all, &graph);
  float *logits = malloc(BATCH * LENGTH * CLASSES * sizeof *logits);
  assert_non_null(logits);
  ASSERT_OK(neap_session_save(s, file));
  memcpy(neap_session_input(s, "tokens"), tokens, BATCH * LENGTH * sizeof *tokens);
  ASSERT_OK(neap_session_predict(s));
  ASSERT_OK(neap_session_output(s, "logits", NULL, logits));
  neap_session_free(s);
  neap_graph_free(graph);
  return logits;
}

/* Those of one token, [BATCH, CLASSES]. */
static void decode(neap_session *s, const int32_t *tokens, int32_t position, float *logits) {
  int32_t *token = neap_session_input(s, "tokens"), *at = neap_session_input(s, "position"),
          *length = neap_session_input(s, "length");
  assert_true((at == NULL) == (length == NULL));
  for (int n = 0; n < BATCH; n++) token[n] = tokens[n * LENGTH + position];
  if (at != NULL) *at = position;
  for (int n = 0; at != NULL && n < BATCH; n++) length[n] = position + 1;
  ASSERT_OK(neap_session_predict(s));
  ASSERT_OK(neap_session_output(s, "logits", NULL, logits));
}

/* Logits as those of the whole sequence stand. */
static float *decoded_logits(neap_session *s, const int32_t *tokens) {
  float *logits = malloc(BATCH * LENGTH * CLASSES * sizeof *logits), row[BATCH * CLASSES];
  assert_non_null(logits);
  for (int32_t t = 0; t < LENGTH; t++) {
    decode(s, tokens, t, row);
    for (int n = 0; n < BATCH; n++)
      memcpy(logits + (n * LENGTH + t) * CLASSES, row + n * CLASSES, CLASSES * sizeof *row);
  }
  return logits;
}

static void expect_close(const char *model, const float *expected, const float *got, double tolerance) {
  double largest = 0;
  for (int i = 0; i < BATCH * LENGTH * CLASSES; i++) largest = fmax(largest, fabs((double)expected[i]));
  assert_true(largest > 0);
  for (int i = 0; i < BATCH * LENGTH * CLASSES; i++)
    if (!(fabs((double)expected[i] - (double)got[i]) <= tolerance * largest))
      fail_msg("%s: logit %d of place %d of sequence %d is %.9g, not %.9g", model, i % CLASSES,
               i / CLASSES % LENGTH, i / CLASSES / LENGTH, (double)got[i], (double)expected[i]);
}

static void expect_planned(const neap_session *s) {
  neap_memory memory;
  neap_session_memory(s, &memory);
  assert_int_equal(memory.measured_peak, memory.planned_peak);
  assert_true(memory.planned_peak <= memory.budget);
}

/* States of zeros: another text begins. */
static void begin_anew(neap_session *s) {
  int states = 0;
  for (int32_t i = 0; i < neap_session_variable_count(s); i++) {
    neap_variable v;
    ASSERT_OK(neap_session_variable(s, i, &v));
    if (v.kind != NEAP_VARIABLE_STATE) continue;
    float *zeros = calloc((size_t)v.elements, sizeof *zeros);
    assert_non_null(zeros);
    ASSERT_OK(neap_session_write(s, i, zeros));
    free(zeros);
    states++;
  }
  assert_true(states > 0);
}

/* `budgets`: how many of them are tried. */
static void check_model(const char *model, const neap_session_options *options, double tolerance, int budgets,
                        const char *file) {
  static const uint64_t budget[] = {NEAP_BUDGET_MAX, NEAP_BUDGET_MIN};
  int32_t tokens[BATCH * LENGTH];
  make_tokens(tokens);
  float *expected = whole_logits(model, options, tokens, file), *first = NULL;
  for (int i = 0; i < budgets; i++) {
    neap_graph *graph;
    neap_session_options o = *options;
    o.budget = budget[i];
    if (budget[i] == NEAP_BUDGET_MIN) o.planner = quick_planner();
    neap_session *s = open_session(model, LENGTH - 1, &o, &graph);
    ASSERT_OK(neap_session_load(s, file));
    float *got = decoded_logits(s, tokens);
    expect_close(model, expected, got, tolerance);
    expect_planned(s);
    begin_anew(s);
    float *again = decoded_logits(s, tokens);
    assert_memory_equal(got, again, BATCH * LENGTH * CLASSES * sizeof *got);
    if (first != NULL) assert_memory_equal(got, first, BATCH * LENGTH * CLASSES * sizeof *got);
    free(again);
    free(first);
    first = got;
    neap_session_free(s);
    neap_graph_free(graph);
  }
  free(first);
  free(expected);
}

/* `way` of `ways` to compute: a quick pass tries each model in one of them. */
static void check_models(const neap_session_options *options, double tolerance, int budgets, size_t way,
                         size_t ways) {
  char file[] = "/tmp/neap-decode-XXXXXX";
  const int descriptor = mkstemp(file);
  assert_true(descriptor >= 0);
  close(descriptor);
  for (size_t i = 0; i < MODELS; i++)
    if (!leaves_out(i, way, ways)) check_model(models[i], options, tolerance, budgets, file);
  unlink(file);
}

static void test_equals_the_whole_sequence(void **state) {
  (void)state;
  check_models(&(neap_session_options){.threads = 2, .seed = 3}, 1e-5, 2, 0, 1);
  check_models(&(neap_session_options){.threads = 1, .seed = 4, .backend = NEAP_REFERENCE}, 1e-5, 1, 0, 1);
}

static void test_equals_the_whole_sequence_in_16_bits(void **state) {
  (void)state;
  check_models(&(neap_session_options){.threads = 2, .seed = 3, .precision = NEAP_BF16}, 0.06, 1, 0, 3);
  check_models(&(neap_session_options){.threads = 2, .seed = 3, .precision = NEAP_F16}, 0.01, 1, 1, 3);
  check_models(&(neap_session_options){.threads = 2, .precision = NEAP_BF16, .master = true}, 0.06, 1, 2, 3);
}

/* Rows of a state [1, 4, 2] that are stored from each position on, and what the state is then. */
static void test_positions(void **state) {
  (void)state;
  for (int backend = 0; backend < 2; backend++) {
    neap_graph *graph = NULL;
    neap_session *s;
    neap_builder *b = neap_builder_create("store");
    const neap_tensor x = neap_input(b, "x", NEAP_F32, 3, (int64_t[]){1, 2, 2}),
                      at = neap_input(b, "at", NEAP_I32, 1, (int64_t[]){1}),
                      rows = neap_state(b, "rows", NEAP_F32, 3, (int64_t[]){1, 4, 2});
    neap_output(b, "before", neap_scale(b, rows, 1, 0));
    neap_store(b, rows, x, at);
    ASSERT_OK(neap_builder_finish(b, -1, &graph));
    neap_builder_free(b);
    ASSERT_OK(neap_session_create(
        graph, &(neap_session_options){.threads = 1, .backend = backend ? NEAP_REFERENCE : NEAP_CPU}, NULL,
        &s));
    float expected[8] = {0}, got[8];
    static const int32_t positions[] = {0, 3, -1, 4, -2, 2, INT32_MIN, INT32_MAX, 1};
    for (int i = 0; i < (int)(sizeof positions / sizeof *positions); i++) {
      float *given = neap_session_input(s, "x");
      for (int k = 0; k < 4; k++) given[k] = (float)(10 * i + k + 1);
      *(int32_t *)neap_session_input(s, "at") = positions[i];
      ASSERT_OK(neap_session_predict(s));
      ASSERT_OK(neap_session_output(s, "before", NULL, got));
      assert_memory_equal(got, expected, sizeof got);
      for (int64_t k = 0; k < 4; k++) {
        const int64_t row = positions[i] + k / 2;
        if (row >= 0 && row < 4) expected[2 * row + k % 2] = given[k];
      }
      ASSERT_OK(neap_session_read(s, 0, got));
      assert_memory_equal(got, expected, sizeof got);
    }
    neap_session_free(s);
    neap_graph_free(graph);
  }
}

static void test_what_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *model;
    int64_t decode;
  } refused[] = {{"gpt-1x8x2", LENGTH}, {"gpt2", 1024},  {"bert-1x8x2", 4},
                 {"lstm-1x8", 4},       {"resnet18", 4}, {"gpt-1x8x2", -1}};
  neap_graph *graph = NULL;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    assert_int_equal(build_named(refused[i].model,
                                 &(neap_model_options){.length = LENGTH, .decode = refused[i].decode},
                                 &graph),
                     NEAP_INVALID_ARGUMENT);
  for (int i = 0; i < 6; i++) {
    neap_builder *b = neap_builder_create("refused");
    const neap_tensor x = neap_input(b, "x", NEAP_F32, 3, (int64_t[]){1, 2, 2}),
                      at = neap_input(b, "at", NEAP_I32, 1, (int64_t[]){2}),
                      rows = neap_state(b, "rows", i == 4 ? NEAP_BF16 : NEAP_F32, 3, (int64_t[]){1, 4, 2}),
                      wide = neap_input(b, "wide", NEAP_F32, 3, (int64_t[]){1, 2, 3});
    const neap_tensor y = neap_scale(b, rows, 1, 0);
    neap_output(b, "y", y);
    if (i == 0) neap_store(b, x, x, -1); /* no state */
    if (i == 1) neap_store(b, rows, wide, -1);
    if (i == 2) neap_store(b, rows, x, at); /* two positions */
    if (i == 3) neap_store(b, rows, neap_concat(b, (neap_tensor[]){x, x, x}, 3, 1), -1);
    if (i == 4) neap_store(b, rows, x, -1); /* of another type */
    if (i == 5) neap_store(b, y, x, -1);    /* a value */
    assert_int_equal(neap_builder_finish(b, -1, &graph), NEAP_INVALID_ARGUMENT);
    neap_builder_free(b);
  }
}

int run_test_decode(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_equals_the_whole_sequence),
                                     cmocka_unit_test(test_equals_the_whole_sequence_in_16_bits),
                                     cmocka_unit_test(test_positions),
                                     cmocka_unit_test(test_what_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
