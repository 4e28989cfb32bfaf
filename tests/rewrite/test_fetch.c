/* Frozen weights on disk (session options `base_on_disk`): what lies there, bits at every budget in every
 * type, what is chosen by the budget, files that are cut or changed, and what is refused. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program/prefetch.h"
#include "rewrite/rewrite.h"
#include "session/choose.h"
#include "session_help.h"
#include "weights/variables.h"

enum { BATCH = 2, LENGTH = 8, WIDTH = 128, TOKENS = 512, LAYERS = 2 };

static neap_tensor weight(neap_builder *b, const char *name, int64_t rows, int64_t columns) {
  return neap_parameter(b, name, 2, (int64_t[]){rows, columns},
                        (neap_parameter_options){.initial = NEAP_INITIAL_NORMAL, .scale = 0.1f});
}

/* A table that is the head, too, and layers between; what is large is in a file. */
static struct neap_graph *make_graph(bool in_file) {
  neap_builder *b = neap_builder_create("net");
  struct neap_graph *graph;
  const int64_t rows = BATCH * LENGTH;
  const neap_tensor ids = neap_input(b, "ids", NEAP_I32, 1, &rows),
                    labels = neap_input(b, "label", NEAP_I32, 1, &rows),
                    table = weight(b, "table.weight", TOKENS, WIDTH);
  neap_tensor x = neap_gather(b, table, ids);
  for (int i = 0; i < LAYERS; i++) {
    char up[32], down[32];
    snprintf(up, sizeof up, "%d.up_proj.weight", i);
    snprintf(down, sizeof down, "%d.down_proj.weight", i);
    const neap_tensor y = neap_gelu(b, neap_linear_with(b, x, weight(b, up, TOKENS, WIDTH), -1));
    x = neap_add(b, x, neap_linear_with(b, y, weight(b, down, WIDTH, TOKENS), -1));
  }
  x = neap_layer_norm(b, x, 0);
  ASSERT_OK(neap_builder_finish(
      b, neap_linear_cross_entropy(b, x, table, -1, labels, (neap_linear_cross_entropy_options){0}), &graph));
  neap_builder_free(b);
  for (size_t t = 0; in_file && t < graph->tensors.count; t++) {
    struct tensor *tensor = &graph->tensors.data[t];
    if (tensor->role == NEAP_ROLE_PARAMETER) tensor->file_bytes = (uint64_t)tensor->elements * sizeof(float);
  }
  return graph;
}

static const neap_session_options usual = {.optimizer = NEAP_ADAMW,
                                           .momentum = NAN,
                                           .weight_decay = NAN,
                                           .seed = 3,
                                           .threads = 2,
                                           .budget = NEAP_BUDGET_MAX,
                                           .planner = "evict",
                                           .lora = 4,
                                           .lora_dropout = 0.2f,
                                           .lora_layers = "up_proj,down_proj",
                                           .save_trained = true};

/* ---- A file of weights ---- */

/* Numbers that follow from name and place. `left`: reads until one fails; -1: none does. */
struct numbers {
  const struct neap_graph *graph;
  uint64_t bytes;
  int left;
  bool closed;
};

static int32_t find(const void *context, const char *name) {
  const struct neap_graph *graph = ((const struct numbers *)context)->graph;
  for (int32_t t = 0; t < (int32_t)graph->tensors.count; t++)
    if (graph->tensors.data[t].role == NEAP_ROLE_PARAMETER && strcmp(graph->tensors.data[t].name, name) == 0)
      return t;
  return -1;
}

static neap_status read_rows(const void *context, int32_t index, int64_t first, int64_t rows, float *data) {
  struct numbers *n = (void *)context;
  const struct tensor *t = &n->graph->tensors.data[index];
  const int64_t row = t->elements / t->dims[0];
  RETURN_IF(n->left == 0, NEAP_IO_FAILED, "weights.bin: cannot be read at offset 123: the disk is gone");
  n->left -= n->left > 0;
  n->bytes += (uint64_t)(rows * row) * sizeof *data;
  for (int64_t i = 0; i < rows * row; i++) {
    uint32_t word[4];
    random_philox(7, (uint64_t)index, (uint64_t)(first * row + i), word);
    data[i] = (2 * random_uniform(word[0]) - 1) / 8;
  }
  return NEAP_OK;
}

static neap_status read_all(const void *context, int32_t index, float *data) {
  return read_rows(context, index, 0, ((const struct numbers *)context)->graph->tensors.data[index].dims[0],
                   data);
}

static uint64_t bytes_read(const void *context) { return ((const struct numbers *)context)->bytes; }
static void close_numbers(const void *context) { ((struct numbers *)context)->closed = true; }

static struct value_source source_of(struct numbers *n) {
  return (struct value_source){.find = find,
                               .read = read_all,
                               .context = n,
                               .read_rows = read_rows,
                               .bytes_read = bytes_read,
                               .close = close_numbers};
}

static struct neap_session *make_session(const struct neap_graph *graph, neap_session_options o,
                                         struct numbers *n) {
  struct neap_session *s = NULL;
  const struct value_source source = source_of(n);
  ASSERT_OK(neap_session_create(graph, &o, NULL, &s));
  ASSERT_OK(session_load_values(s, &source));
  if (session_reads_disk(s)) ASSERT_OK(session_keep_source(s, &source));
  return s;
}

static struct run_result run_with(neap_session_options o, struct numbers *n) {
  struct neap_graph *graph = make_graph(true);
  *n = (struct numbers){.graph = graph, .left = -1};
  struct neap_session *s = make_session(graph, o, n);
  neap_step_result evaluated;
  struct run_result r = run_steps(s, 4, 0.01f, TOKENS);
  ASSERT_OK(neap_session_evaluate(s, &evaluated));
  r.last.loss = evaluated.loss; /* of the weights after the steps */
  const bool disk = session_reads_disk(s);
  neap_session_free(s);
  assert_true(n->closed == disk);
  neap_graph_free(graph);
  return r;
}

/* ---- Bits ---- */

static void expect_same(neap_session_options o, const char *what) {
  static const double shares[] = {1, 0.8, 0};
  struct numbers n;
  o.base_on_disk = NEAP_DISK_NEVER;
  const struct run_result memory = run_with(o, &n);
  uint64_t read = 0;
  assert_int_equal(memory.memory.on_disk, 0);
  for (int i = 0; i < 3; i++) {
    o.base_on_disk = NEAP_DISK_ALWAYS;
    o.budget = shares[i] == 1 ? NEAP_BUDGET_MAX : NEAP_BUDGET_MIN;
    o.budget_fraction = shares[i] == 0.8 ? 0.8 : 0;
    const struct run_result disk = run_with(o, &n);
    if (strcmp(memory.digest, disk.digest) != 0) fail_msg("%s: other bits at %g", what, shares[i]);
    assert_true(memory.last.loss == disk.last.loss);
    assert_int_equal(disk.memory.on_disk, 4 * (uint64_t)(2 * LAYERS + 1) * TOKENS * WIDTH);
    assert_true(disk.memory.disk_read > read); /* more often in less memory */
    read = disk.memory.disk_read;
  }
}

static void test_bits(void **state) {
  (void)state;
  neap_session_options o = usual;
  expect_same(o, "f32");
  o.store = "*=q8_0";
  expect_same(o, "blocks");
  o.micro_batches = 2;
  expect_same(o, "micro-batches");
  o.micro_batches = 0;
  o.store = NULL;
  o.precision = NEAP_BF16;
  expect_same(o, "bf16");
  o.precision = NEAP_F32;
  o.backend = NEAP_REFERENCE;
  expect_same(o, "reference");
}

/* ---- Memory ---- */

static void test_memory(void **state) {
  (void)state;
  const uint64_t all = (2 * LAYERS + 1) * TOKENS * WIDTH * sizeof(float);
  struct numbers n;
  neap_session_options o = usual;
  o.budget = NEAP_BUDGET_MIN;
  o.base_on_disk = NEAP_DISK_NEVER;
  const struct run_result memory = run_with(o, &n);
  o.base_on_disk = NEAP_DISK_ALWAYS;
  const struct run_result disk = run_with(o, &n);
  assert_int_equal(memory.memory.parameters - disk.memory.parameters, all);
  assert_true(disk.memory.planned_peak < memory.memory.planned_peak - all / 2);
  /* By itself: on disk for the least; in memory where that fits; else on disk. */
  o.base_on_disk = NEAP_DISK_AUTO;
  assert_int_equal(run_with(o, &n).memory.planned_peak, disk.memory.planned_peak);
  o.budget = memory.memory.planned_peak;
  assert_int_equal(run_with(o, &n).memory.on_disk, 0);
  o.budget = memory.memory.planned_peak - 64 * 1024;
  const struct run_result tight = run_with(o, &n);
  assert_int_equal(tight.memory.on_disk, all);
  assert_string_equal(tight.digest, memory.digest);
}

/* Kernels are timed where no file is; what reads it costs what it did. */
static void test_measured_costs(void **state) {
  (void)state;
  struct neap_graph *graph = make_graph(true);
  neap_session_options o = usual;
  struct lowered *timed, *not_timed;
  char folder[] = "/tmp/neap-costs-XXXXXX";
  assert_non_null(mkdtemp(folder));
  assert_int_equal(setenv("XDG_CACHE_HOME", folder, 1), 0);
  o.base_on_disk = NEAP_DISK_ALWAYS;
  ASSERT_OK(lower_training(graph, &o, &not_timed));
  o.costs = NEAP_COSTS_MEASURED;
  ASSERT_OK(lower_training(graph, &o, &timed));
  int fetches = 0;
  for (int32_t v = 0; v < timed->step->node_count; v++) {
    if (strcmp(timed->step->nodes[v].op, "Fetch") != 0) continue;
    assert_true(timed->step->nodes[v].cost == not_timed->step->nodes[v].cost);
    fetches++;
  }
  assert_int_equal(fetches, 2 * LAYERS);
  lowered_free(timed);
  lowered_free(not_timed);
  neap_graph_free(graph);
  unsetenv("XDG_CACHE_HOME");
  char path[64];
  snprintf(path, sizeof path, "%s/neap/kernels-1.sqlite", folder);
  unlink(path);
  snprintf(path, sizeof path, "%s/neap", folder);
  assert_int_equal(rmdir(path) + rmdir(folder), 0);
}

/* A plan with more room reads before the nodes ahead, at the same cost. */
static void test_prefetch(void **state) {
  (void)state;
  struct neap_graph *graph = make_graph(true);
  neap_session_options o = usual;
  struct choice c;
  neap_check_result result;
  o.base_on_disk = NEAP_DISK_ALWAYS;
  o.budget = NEAP_BUDGET_MIN;
  ASSERT_OK(choose_plan(graph, &o, NULL, 0, NULL, &c));
  const uint64_t budget = plan_bytes(c.plan) + 2 * TOKENS * WIDTH * sizeof(float);
  const double cost = c.plan->cost;
  const int32_t length = c.plan->length;
  ASSERT_OK(prefetch(c.lowered, budget, &c.plan));
  ASSERT_OK(neap_plan_check(c.lowered->step, c.plan, &result));
  assert_true(plan_bytes(c.plan) <= budget && c.plan->length == length);
  assert_true(fabs(c.plan->cost - cost) <= 1e-9 * cost);
  int early = 0;
  for (int32_t i = 0; i + 1 < length; i++) {
    const struct step_node *fetch = &c.lowered->step->nodes[c.plan->schedule[i]],
                           *next = &c.lowered->step->nodes[c.plan->schedule[i + 1]];
    bool reads = strcmp(fetch->op, "Fetch") != 0;
    for (int32_t k = 0; !reads && k < next->input_count; k++) reads = next->inputs[k] == fetch->outputs[0];
    early += !reads;
  }
  assert_true(early > 0);
  choice_free(&c);
  neap_graph_free(graph);
}

/* ---- What goes wrong ---- */

/* A read that fails ends the step with its message; the session goes on when the disk is back. */
static void test_failures(void **state) {
  (void)state;
  struct neap_graph *graph = make_graph(true);
  neap_session_options o = usual;
  o.base_on_disk = NEAP_DISK_ALWAYS;
  o.budget = NEAP_BUDGET_MIN;
  struct numbers n = {.graph = graph, .left = -1}, other = n;
  struct neap_session *s = NULL, *t = make_session(graph, o, &other);
  ASSERT_OK(neap_session_create(graph, &o, NULL, &s));
  fill_inputs(s, 1, TOKENS);
  expect_failure(neap_session_step(s, 0.01f, NULL), NEAP_INVALID_ARGUMENT, "load the model's file first");
  neap_session_free(s);
  s = make_session(graph, o, &n);
  for (int reads = 0; reads < 20; reads += 5) {
    fill_inputs(s, 1, TOKENS);
    n.left = reads;
    expect_failure(neap_session_evaluate(s, NULL), NEAP_IO_FAILED, "offset 123");
    n.left = -1;
  }
  const struct run_result r = run_steps(s, 2, 0.01f, TOKENS), whole = run_steps(t, 2, 0.01f, TOKENS);
  assert_string_equal(r.digest, whole.digest);

  float *values = malloc(TOKENS * WIDTH * sizeof *values), *read = malloc(TOKENS * WIDTH * sizeof *read);
  const int32_t table = find_variable(s, "table.weight");
  assert_true(values != NULL && read != NULL);
  ASSERT_OK(read_all(&n, find(&n, "table.weight"), values));
  ASSERT_OK(neap_session_read(s, table, read));
  assert_memory_equal(values, read, TOKENS * WIDTH * sizeof *values);
  expect_failure(neap_session_write(s, table, values), NEAP_UNSUPPORTED, "`base-on-disk` never");
  free(read);
  free(values);
  neap_session_free(s);
  neap_session_free(t);
  neap_graph_free(graph);
}

static void test_refused(void **state) {
  (void)state;
  struct neap_graph *graph = make_graph(true), *without = make_graph(false);
  neap_session_options o = usual;
  struct neap_session *s;
  o.base_on_disk = NEAP_DISK_ALWAYS;
  expect_failure(neap_session_create(without, &o, NULL, &s), NEAP_UNSUPPORTED,
                 "in a file that can be read so");
  o.lora = 0;
  o.freeze = "*.up_proj.*";
  expect_failure(neap_session_create(graph, &o, NULL, &s), NEAP_UNSUPPORTED, "(lora)");
  o.base_on_disk = NEAP_DISK_AUTO;
  o.budget = NEAP_BUDGET_MIN;
  ASSERT_OK(neap_session_create(graph, &o, NULL, &s));
  assert_false(session_reads_disk(s));
  neap_session_free(s);
  neap_graph_free(without);
  neap_graph_free(graph);
}

int run_test_fetch(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bits),           cmocka_unit_test(test_memory),   cmocka_unit_test(test_prefetch),
      cmocka_unit_test(test_measured_costs), cmocka_unit_test(test_failures), cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
