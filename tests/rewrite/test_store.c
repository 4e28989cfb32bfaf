/* Frozen weights in blocks (session options `store`): memory, bits at every budget, files, and what is
 * refused. */
#include <unistd.h>

#include "base/quantised.h"
#include "effort.h"
#include "formats/safetensors.h"
#include "rewrite/rewrite.h"
#include "session_help.h"

enum { CLASSES = 5, BATCH = 6 };

/* Kernels whose rows are 27 and 288 elements, then linear layers, whose trained one takes the most memory: a
 * kernel that is kept across it, rather than made again, raises the peak on every processor. */
static struct neap_graph *make_graph(void) {
  neap_builder *b = neap_builder_create("net");
  struct neap_graph *graph;
  neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){BATCH, 3, 6, 6});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){BATCH});
  const neap_conv_options conv = {.filters = 32, .size = 3, .padding = 1, .bias = true};
  neap_scope(b, "trunk");
  x = neap_relu(b, neap_conv(b, neap_relu(b, neap_conv(b, x, conv)), conv));
  for (int i = 0; i < 3; i++) x = neap_gelu(b, neap_linear(b, i == 0 ? neap_flatten(b, x) : x, 128, true));
  neap_scope(b, "head");
  x = neap_linear(b, neap_gelu(b, neap_linear(b, x, 768, true)), CLASSES, true);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph));
  neap_builder_free(b);
  return graph;
}

static const neap_session_options stored = {.momentum = 0.9f,
                                            .seed = 3,
                                            .threads = 2,
                                            .budget = NEAP_BUDGET_MAX,
                                            .freeze = "trunk.*",
                                            .store = "*=q8_0,!head.*"};

static struct neap_session *make_session(const struct neap_graph *graph, neap_session_options o) {
  struct neap_session *s = NULL;
  ASSERT_OK(neap_session_create(graph, &o, NULL, &s));
  return s;
}

/* By a planner that runs nodes again where the budget asks for it. */
static struct run_result run_with(neap_session_options o, int steps, int *dequantised) {
  struct neap_graph *graph = make_graph();
  struct neap_session *s = make_session(graph, o);
  const struct run_result r = run_steps(s, steps, 0.05f, CLASSES);
  *dequantised = 0;
  for (int32_t at = 0; at < s->plan->length; at++)
    *dequantised += s->main->graph->nodes.data[s->plan->schedule[at]].op == OP_DEQUANTISE;
  neap_session_free(s);
  neap_graph_free(graph);
  return r;
}

static void test_budgets(void **state) {
  (void)state;
  static const neap_dtype precisions[] = {NEAP_F32, NEAP_BF16, NEAP_F16};
  for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++) {
    neap_session_options o = stored;
    int most, least;
    o.precision = precisions[p];
    o.freeze = "trunk.*,!trunk.conv1.*"; /* gradients flow through the frozen layers */
    o.store = "trunk.*=q8_0,!trunk.conv1.*";
    const struct run_result max = run_with(o, 3, &most);
    o.budget = NEAP_BUDGET_MIN;
    o.planner = "evict";
    const struct run_result min = run_with(o, 3, &least);
    assert_string_equal(max.digest, min.digest);
    assert_true(max.last.loss == min.last.loss);
    assert_true(min.memory.planned_peak < max.memory.planned_peak);
    assert_int_equal(most, 1); /* of the kernels; linear layers read blocks */
    assert_true(least > most); /* read again in the backward pass, and made again for it */
  }
}

/* By blocks; the reference backend has the same numbers. */
static void test_memory(void **state) {
  (void)state;
  const uint64_t elements = 32 * 32 * 9 + 1152 * 128 + 2 * 128 * 128;
  int unused;
  const struct run_result with = run_with(stored, 1, &unused);
  neap_session_options o = stored;
  o.store = NULL;
  const struct run_result without = run_with(o, 1, &unused);
  assert_int_equal(with.memory.stored_saved, elements * 4 - elements / 32 * 34);
  assert_int_equal(without.memory.parameters - with.memory.parameters, with.memory.stored_saved);
  assert_int_equal(without.memory.stored_saved, 0);
  assert_true(fabs(with.last.loss - without.last.loss) <= 0.02 * without.last.loss);
  assert_true(with.last.loss != without.last.loss);
  o = stored;
  o.backend = NEAP_REFERENCE;
  const struct run_result reference = run_with(o, 1, &unused);
  assert_true(fabs(reference.last.loss - with.last.loss) <= 1e-5 * with.last.loss);
}

/* Each weight is within half a step of its block: its largest over 127, and what f16 rounds of that. */
static void test_error(void **state) {
  (void)state;
  struct neap_graph *graph = make_graph();
  neap_session_options o = stored;
  struct neap_session *s = make_session(graph, o);
  o.store = NULL;
  struct neap_session *exact = make_session(graph, o);
  int blocks = 0;
  assert_int_equal(neap_session_variable_count(s), neap_session_variable_count(exact));
  for (int32_t i = 0; i < neap_session_variable_count(s); i++) {
    neap_variable v;
    ASSERT_OK(neap_session_variable(s, i, &v));
    float *x = malloc((size_t)v.elements * sizeof *x), *y = malloc((size_t)v.elements * sizeof *y);
    assert_true(x != NULL && y != NULL);
    ASSERT_OK(neap_session_read(exact, i, x));
    ASSERT_OK(neap_session_read(s, i, y));
    if (v.dtype != NEAP_Q8_0) assert_memory_equal(x, y, (size_t)v.elements * sizeof *x);
    for (int64_t first = 0; v.dtype == NEAP_Q8_0 && first < v.elements; first += 32, blocks++) {
      double most = 0;
      for (int64_t k = first; k < first + 32; k++) most = fmax(most, fabs((double)x[k]));
      for (int64_t k = first; k < first + 32; k++)
        assert_true(fabs((double)x[k] - (double)y[k]) <= most / 127 * (0.5 + 127 * 0x1p-11 + 1e-4));
    }
    free(x);
    free(y);
  }
  assert_int_equal(blocks, (32 * 32 * 9 + 1152 * 128 + 2 * 128 * 128) / 32);
  assert_int_equal(s->unstored_count, 1); /* of 27 elements a row */
  assert_string_equal(s->unstored[0], "trunk.conv1.weight");
  neap_session_free(exact);
  neap_session_free(s);
  neap_graph_free(graph);
}

/* A file has the blocks, and gives the same weights with and without the option. */
static void test_files(void **state) {
  (void)state;
  char path[] = "/tmp/neap-store-XXXXXX", digest[65], again[65];
  assert_true(mkstemp(path) >= 0);
  struct neap_graph *graph = make_graph();
  struct neap_session *s = make_session(graph, stored);
  run_steps(s, 2, 0.05f, CLASSES);
  ASSERT_OK(neap_session_save(s, path));
  ASSERT_OK(neap_session_digest(s, digest));
  neap_session_free(s);

  struct safetensors file;
  ASSERT_OK(safetensors_open(path, &file));
  const struct safetensors_tensor *t = &file.tensors[safetensors_find(&file, "trunk.conv2.weight")];
  assert_string_equal(t->dtype, "Q8_0");
  assert_true(t->rank == 4 && t->dims[0] == 32 && t->dims[1] == 32 && t->dims[2] == 3 && t->dims[3] == 3);
  assert_int_equal(t->bytes, 32 * 32 * 9 / 32 * 34);
  safetensors_close(&file);

  for (int with = 0; with < 2; with++) {
    neap_session_options o = stored;
    if (!with) o.store = NULL;
    o.seed = 8;
    s = make_session(graph, o);
    ASSERT_OK(neap_session_load(s, path));
    ASSERT_OK(neap_session_digest(s, again));
    assert_string_equal(again, digest);
    neap_session_free(s);
  }
  neap_graph_free(graph);
  unlink(path);
}

/* ---- Linear layers, whose weights become numbers panel by panel ---- */

enum { WIDE = 1024, WIDER = 1280, ROWS = 4 }; /* several panels, of which the last is smaller */

static struct neap_graph *make_wide_graph(void) {
  neap_builder *b = neap_builder_create("wide");
  struct neap_graph *graph;
  neap_tensor x = neap_input(b, "image", NEAP_F32, 2, (int64_t[]){ROWS, 16});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){ROWS});
  x = neap_gelu(b, neap_linear(b, x, WIDE, true));
  neap_scope(b, "frozen");
  x = neap_gelu(b, neap_linear(b, x, WIDER, true));
  x = neap_gelu(b, neap_linear(b, x, WIDE, false));
  neap_scope(b, "head");
  x = neap_linear(b, neap_gelu(b, neap_linear(b, x, 768, true)), CLASSES, true);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph));
  neap_builder_free(b);
  return graph;
}

/* Gives `to`, which stores numbers, those that `from` stores in blocks. */
static void copy_numbers(const struct neap_session *from, struct neap_session *to) {
  for (int32_t i = 0; i < neap_session_variable_count(from); i++) {
    neap_variable v;
    ASSERT_OK(neap_session_variable(from, i, &v));
    float *x = malloc((size_t)v.elements * sizeof *x);
    assert_non_null(x);
    ASSERT_OK(neap_session_read(from, i, x));
    ASSERT_OK(neap_session_write(to, i, x));
    free(x);
  }
}

/* A step is that on the same numbers as one matrix, and never has that matrix in memory. */
static void test_panels(void **state) {
  (void)state;
  static const char *const types[] = {"q8_0", "q4_0", "q5_1", "nf4", "q5_k", "q6_k", "q4_k"};
  static const neap_dtype precisions[] = {NEAP_F32, NEAP_BF16, NEAP_F16};
  for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
    const neap_dtype precision = precisions[k % 3];
    char store[64];
    snprintf(store, sizeof store, "frozen.*.weight=%s", types[k]);
    neap_session_options o = {.seed = 5,
                              .threads = 2,
                              .budget = NEAP_BUDGET_MIN,
                              .planner = quick_planner(),
                              .freeze = "frozen.*",
                              .precision = precision,
                              .store = store};
    struct neap_graph *graph = make_wide_graph();
    struct neap_session *blocks = make_session(graph, o);
    o.store = NULL;
    struct neap_session *before = make_session(graph, o), *numbers = make_session(graph, o);
    copy_numbers(blocks, numbers);
    copy_numbers(blocks, before);
    const struct run_result b = run_steps(blocks, 2, 0.05f, CLASSES),
                            n = run_steps(numbers, 2, 0.05f, CLASSES);
    /* Numbers in 16 bits are rounded where they are stored; panels are not. */
    const double tolerance = precision == NEAP_F32 ? 1e-5 : precision == NEAP_BF16 ? 0.1 : 0.02;
    assert_true(fabs(b.last.loss - n.last.loss) <= tolerance * fabs(n.last.loss));
    if (precision == NEAP_F32) expect_alike(before, numbers, blocks, types[k], 1e-3);
    assert_true(b.memory.arena < (uint64_t)WIDE * WIDER * sizeof(float));
    neap_session_free(blocks);
    neap_session_free(numbers);
    neap_session_free(before);
    neap_graph_free(graph);
  }
}

/* ---- Tables and heads, of which rows and classes become numbers ---- */

enum { WORDS = 600, WORD_WIDTH = 256, SEQUENCE = 12 };

/* Words go in by a table, and come out by a head that has the table's weights or its own. */
static struct neap_graph *make_word_graph(bool tied) {
  neap_builder *b = neap_builder_create("words");
  struct neap_graph *graph;
  const int64_t dims[] = {WORDS, WORD_WIDTH}, count = SEQUENCE;
  const neap_parameter_options normal = {.initial = NEAP_INITIAL_NORMAL, .scale = 0.1f};
  const neap_tensor ids = neap_input(b, "tokens", NEAP_I32, 1, &count),
                    label = neap_input(b, "label", NEAP_I32, 1, &count),
                    table = neap_parameter(b, "words.table", 2, dims, normal),
                    head = tied ? table : neap_parameter(b, "words.head", 2, dims, normal);
  neap_scope(b, "trained");
  const neap_tensor x = neap_gelu(b, neap_linear(b, neap_gather(b, table, ids), WORD_WIDTH, true));
  neap_output(b, "hidden", x);
  neap_scope(b, "loss");
  ASSERT_OK(neap_builder_finish(
      b, neap_linear_cross_entropy(b, x, head, -1, label, (neap_linear_cross_entropy_options){0}), &graph));
  neap_builder_free(b);
  return graph;
}

static int count_nodes(const struct neap_session *s, enum op op) {
  int count = 0;
  for (size_t v = 0; v < s->main->graph->nodes.count; v++)
    count += s->main->graph->nodes.data[v].op == (int32_t)op;
  return count;
}

/* The same loss and updates as with the numbers of the blocks; no whole table of numbers, and no gradient of
 * a fixed one, at any budget. */
static void test_words(void **state) {
  (void)state;
  static const neap_backend backends[] = {NEAP_CPU, NEAP_REFERENCE};
  static const char *const stores[] = {"words.*=q8_0", "words.*=q4_1"};
  static const neap_dtype precisions[] = {NEAP_F32, NEAP_BF16};
  for (int k = 0; k < 8; k++) {
    const bool tied = (k & 1) != 0;
    const neap_dtype precision = precisions[k >> 2 & 1];
    neap_session_options o = {.seed = 5,
                              .threads = 2,
                              .budget = NEAP_BUDGET_MIN,
                              .planner = quick_planner(),
                              .freeze = "words.*",
                              .backend = backends[k >> 1 & 1],
                              .precision = precision,
                              .store = stores[k >> 1 & 1]};
    struct neap_graph *graph = make_word_graph(tied);
    struct neap_session *blocks = make_session(graph, o);
    assert_int_equal(count_nodes(blocks, OP_DEQUANTISE), 0);
    o.store = NULL;
    struct neap_session *before = make_session(graph, o), *numbers = make_session(graph, o);
    copy_numbers(blocks, numbers);
    copy_numbers(blocks, before);
    const struct run_result b = run_steps(blocks, 2, 0.05f, WORDS), n = run_steps(numbers, 2, 0.05f, WORDS);
    const double tolerance = precision == NEAP_F32 ? 1e-5 : 0.05;
    assert_true(fabs(b.last.loss - n.last.loss) <= tolerance * fabs(n.last.loss));
    if (precision == NEAP_F32) expect_alike(before, numbers, blocks, stores[k >> 1 & 1], 1e-3);
    if (o.backend == NEAP_CPU) assert_true(b.memory.arena < 2ull * WORDS * WORD_WIDTH * sizeof(float));
    neap_session_free(blocks);
    neap_session_free(numbers);
    neap_session_free(before);
    neap_graph_free(graph);
  }
}

/* What was trained beside adapters keeps its numbers when the run predicts, whatever type the model's file
 * had.
 */
static void test_types_of_file(void **state) {
  (void)state;
  struct neap_graph *graph = make_word_graph(false);
  for (size_t i = 0; i < graph->tensors.count; i++)
    if (graph->tensors.data[i].role == NEAP_ROLE_PARAMETER) graph->tensors.data[i].file_dtype = NEAP_Q8_0;
  for (int adapters = 0; adapters < 2; adapters++) {
    const neap_session_options o = {.threads = 1,
                                    .budget = NEAP_BUDGET_MAX,
                                    .predict = true,
                                    .store = "*=file",
                                    .lora = adapters * 2,
                                    .lora_layers = adapters ? "trained.*" : NULL,
                                    .freeze = adapters ? "*,!words.table" : NULL};
    struct neap_session *s = make_session(graph, o);
    int found = 0;
    for (size_t i = 0; i < s->main->graph->tensors.count; i++) {
      const struct tensor *t = &s->main->graph->tensors.data[i];
      if (t->role != NEAP_ROLE_PARAMETER || strcmp(t->name, "words.table") != 0) continue;
      found++;
      assert_int_equal(t->dtype, adapters ? NEAP_F32 : NEAP_Q8_0);
    }
    assert_int_equal(found, 1);
    neap_session_free(s);
  }
  neap_graph_free(graph);
}

static void expect_refused(const char *freeze, const char *store, const char *message) {
  struct neap_graph *graph = make_graph();
  struct neap_session *s = NULL;
  neap_session_options o = stored;
  o.freeze = freeze;
  o.store = store;
  assert_int_equal(neap_session_create(graph, &o, NULL, &s), NEAP_INVALID_ARGUMENT);
  if (strstr(neap_error_message(), message) == NULL) fail_msg("'%s' says: %s", store, neap_error_message());
  neap_graph_free(graph);
}

static void test_refusals(void **state) {
  (void)state;
  expect_refused("trunk.*", "*=q8_0", "'head.linear1.weight' is trained, and only frozen weights");
  expect_refused(NULL, "trunk.conv2.weight=q8_0", "'trunk.conv2.weight' is trained");
  expect_refused("trunk.*", "trunk.*=q3", "'trunk.*=q3' is not PATTERN=TYPE");
  expect_refused("trunk.*", "trunk.*=bf16", "'trunk.*=bf16' is not PATTERN=TYPE");
  expect_refused("trunk.*", "trunk.*", "'trunk.*' is not PATTERN=TYPE");
  expect_refused("trunk.*", "stem.*=q8_0", "has no parameter that 'stem.*' matches");
  expect_refused("trunk.*", "trunk.conv1.*=q8_0", "'trunk.conv1.weight' is [32, 3, 3, 3]");
  expect_refused("trunk.*", "*.bias=q8_0,!head.*", "needs two dimensions or more");
}

/* What a block cannot hold is refused as it is written, and the weights stay. */
static void test_values(void **state) {
  (void)state;
  struct neap_graph *graph = make_graph();
  struct neap_session *s = make_session(graph, stored);
  for (int32_t i = 0; i < neap_session_variable_count(s); i++) {
    neap_variable v;
    ASSERT_OK(neap_session_variable(s, i, &v));
    if (strcmp(v.name, "trunk.linear2.weight") != 0) continue;
    assert_true(v.dtype == NEAP_Q8_0 && v.frozen && v.rank == 2);
    float *x = calloc((size_t)v.elements, sizeof *x);
    assert_non_null(x);
    x[77] = NAN;
    assert_int_equal(neap_session_write(s, i, x), NEAP_INVALID_ARGUMENT);
    assert_non_null(strstr(neap_error_message(), "'trunk.linear2.weight': element 77 is nan"));
    free(x);
  }
  neap_session_free(s);
  neap_graph_free(graph);
}

int run_test_store(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_budgets), cmocka_unit_test(test_memory),   cmocka_unit_test(test_error),
      cmocka_unit_test(test_files),   cmocka_unit_test(test_refusals), cmocka_unit_test(test_values),
      cmocka_unit_test(test_panels),  cmocka_unit_test(test_words),    cmocka_unit_test(test_types_of_file)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
