/* Variables on disk (session options `disk`, `disk_for`): bits of all update rules at every budget, in types,
 * micro-batches and blocks; what lies there and what is moved; what is chosen by the budget; a changed byte;
 * what is refused. The oracle is the same run in memory. */
#include <fcntl.h>
#include <unistd.h>

#include "effort.h"
#include "grad/optimizer.h"
#include "kernel/restorers.h"
#include "program/spill_file.h"
#include "session/choose.h"
#include "session/session_memory.h"
#include "session_help.h"

enum { BATCH = 4, LENGTH = 8, WIDTH = 136, WIDE = 2048, TOKENS = 256, STEPS = 2 };

static neap_tensor weight(neap_builder *b, const char *name, int64_t rows, int64_t columns) {
  return neap_parameter(b, name, 2, (int64_t[]){rows, columns},
                        (neap_parameter_options){.initial = NEAP_INITIAL_NORMAL, .scale = 0.1f});
}

/* A table that is the head, too, layers of more than one piece, and small parameters that stay in memory. */
static struct neap_graph *make_graph(void) {
  neap_builder *b = neap_builder_create("net");
  struct neap_graph *graph;
  const int64_t rows = BATCH * LENGTH, wide = WIDE;
  const neap_tensor ids = neap_input(b, "ids", NEAP_I32, 1, &rows),
                    labels = neap_input(b, "label", NEAP_I32, 1, &rows),
                    table = weight(b, "table.weight", TOKENS, WIDTH),
                    bias = neap_parameter(b, "up.bias", 1, &wide, (neap_parameter_options){0});
  neap_tensor x = neap_gather(b, table, ids);
  const neap_tensor y = neap_gelu(b, neap_linear_with(b, x, weight(b, "up.weight", WIDE, WIDTH), bias));
  x = neap_add(b, x, neap_linear_with(b, y, weight(b, "down.weight", WIDTH, WIDE), -1));
  x = neap_layer_norm(b, x, 0);
  ASSERT_OK(neap_builder_finish(
      b, neap_linear_cross_entropy(b, x, table, -1, labels, (neap_linear_cross_entropy_options){0}), &graph));
  neap_builder_free(b);
  return graph;
}

/* Convolutions, whose weights have formats of their own, and running statistics. */
static struct neap_graph *make_images(void) {
  neap_builder *b = neap_builder_create("images");
  struct neap_graph *graph;
  const int64_t n = BATCH;
  const neap_tensor image = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){BATCH, 3, 8, 8}),
                    labels = neap_input(b, "label", NEAP_I32, 1, &n);
  neap_tensor x = neap_conv(b, image, (neap_conv_options){.filters = 64, .size = 3, .padding = 1});
  x = neap_relu(b, neap_batch_norm(b, x, (neap_batch_norm_options){0}));
  x = neap_conv(b, x, (neap_conv_options){.filters = 96, .size = 3, .padding = 1});
  x = neap_linear(
      b, neap_global_average_pool(b, neap_relu(b, neap_batch_norm(b, x, (neap_batch_norm_options){0}))), 10,
      true);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, labels, 0), &graph));
  neap_builder_free(b);
  return graph;
}

static const neap_session_options usual = {.optimizer = NEAP_ADAMW,
                                           .momentum = NAN,
                                           .weight_decay = NAN,
                                           .seed = 3,
                                           .threads = 2,
                                           .budget = NEAP_BUDGET_MAX,
                                           .planner = "evict"};

static const char *folder(void) { return "."; }

/* Skips what needs a disk where the test's folder is in memory. */
static int need_disk(void **state) {
  (void)state;
  const struct spilled_variable one = {"one", 1, 1};
  struct spill_file *f = NULL;
  if (spill_file_create(folder(), NULL, &one, 1, &f) == NEAP_INVALID_ARGUMENT) skip();
  spill_file_free(f);
  return 0;
}

static struct run_result run_with(struct neap_graph *(*make)(void), neap_session_options o) {
  struct neap_graph *graph = make();
  struct neap_session *s = NULL;
  neap_step_result evaluated;
  ASSERT_OK(neap_session_create(graph, &o, NULL, &s));
  struct run_result r;
  neap_memory before, after;
  neap_session_memory(s, &before);
  for (int i = 0; i < STEPS; i++) {
    const int parts = o.micro_batches > 1 ? o.micro_batches : 1;
    for (int k = 0; k < parts; k++) {
      fill_inputs(s, (uint64_t)(i * parts + k) + 1, 10);
      ASSERT_OK(neap_session_micro_step(s, 0.01f, 1 / (float)parts, &r.last));
    }
    neap_session_memory(s, &after);
    assert_int_equal(after.disk_written - before.disk_written, after.disk_step_written);
    assert_true(after.disk_read - before.disk_read <= after.disk_step_read); /* a table's rows are some */
    before = after;
  }
  ASSERT_OK(neap_session_evaluate(s, &evaluated));
  ASSERT_OK(neap_session_digest(s, r.digest));
  neap_session_memory(s, &r.memory);
  assert_int_equal(r.memory.measured_peak, r.memory.planned_peak);
  assert_true(r.memory.planned_peak <= r.memory.budget);
  r.last.loss = evaluated.loss; /* of the weights after the steps */
  neap_session_free(s);
  neap_graph_free(graph);
  return r;
}

/* Compares two ways to lie on disk: states with everything kept, and all in the least memory. */
static void expect_same(struct neap_graph *(*make)(void), neap_session_options o, const char *what) {
  const struct run_result memory = run_with(make, o);
  assert_int_equal(memory.memory.spilled, 0);
  o.disk = folder();
  for (int least = 0; least < 2; least++) {
    o.disk_for = least ? NEAP_DISK_FOR_BOTH : NEAP_DISK_FOR_STATES;
    o.budget = least ? NEAP_BUDGET_MIN : NEAP_BUDGET_MAX;
    const struct run_result disk = run_with(make, o);
    if (strcmp(memory.digest, disk.digest) != 0) fail_msg("%s, %s: other bits", what, least ? "min" : "max");
    assert_true(memory.last.loss == disk.last.loss);
  }
}

/* ---- Activations ---- */

enum { ROWS = 128, INNER = 2048, OUTER = 512, BLOCKS = 3 };

/* Layers whose outputs take longer to compute than to read from a disk. */
static struct neap_graph *make_blocks(void) {
  neap_builder *b = neap_builder_create("blocks");
  struct neap_graph *graph;
  const int64_t n = ROWS;
  const neap_tensor labels = neap_input(b, "label", NEAP_I32, 1, &n);
  neap_tensor x = neap_input(b, "x", NEAP_F32, 2, (int64_t[]){ROWS, OUTER});
  for (int i = 0; i < BLOCKS; i++) {
    const neap_tensor y = neap_gelu(b, neap_linear(b, neap_layer_norm(b, x, 0), INNER, true));
    x = neap_add(b, x, neap_dropout(b, neap_linear(b, y, OUTER, true), 0.1f));
  }
  ASSERT_OK(
      neap_builder_finish(b, neap_softmax_cross_entropy(b, neap_linear(b, x, 10, true), labels, 0), &graph));
  neap_builder_free(b);
  return graph;
}

static neap_session_options usual_sgd(void) {
  neap_session_options o = usual;
  o.optimizer = NEAP_SGD;
  o.planner = NULL;
  return o;
}

/* Compares budgets from the least to most of everything, with activations alone on disk and with all. */
static void test_activations(void **state) {
  (void)state;
  static const double shares[] = {0.9, 0.95, 0};
  const size_t count = sanitized() ? 1 : quick_pass() ? 2 : 3; /* to plan takes long there */
  int stored = 0;
  for (int parts = 1; parts <= (sanitized() ? 1 : 2); parts++)
    for (size_t i = 0; i < count; i++) {
      neap_session_options o = usual_sgd();
      o.micro_batches = parts;
      const struct run_result memory = run_with(make_blocks, o);
      o.disk = folder();
      o.disk_for = i % 2 == 0 ? NEAP_DISK_FOR_ACTIVATIONS : NEAP_DISK_FOR_BOTH | NEAP_DISK_FOR_ACTIVATIONS;
      o.budget = shares[i] > 0 ? (uint64_t)(shares[i] * (double)memory.memory.keep_all) : NEAP_BUDGET_MIN;
      const struct run_result disk = run_with(make_blocks, o);
      if (strcmp(memory.digest, disk.digest) != 0) fail_msg("%g of everything: other bits", shares[i]);
      assert_true(memory.last.loss == disk.last.loss);
      stored += o.disk_for == NEAP_DISK_FOR_ACTIVATIONS && disk.memory.spilled > 0;
    }
  assert_true(stored >= (sanitized() ? 1 : 2));
}

/* A plan that stores activations is replayed from its file, and needs a folder. */
static void test_stored_plan(void **state) {
  (void)state;
  if (sanitized()) skip(); /* to plan takes long there, and test_activations does */
  neap_session_options o = usual_sgd();
  uint64_t smallest;
  neap_step *step;
  neap_plan *plan;
  struct neap_graph *graph = make_blocks();
  o.disk = folder();
  o.disk_for = NEAP_DISK_FOR_ACTIVATIONS;
  o.budget_fraction = 0.9;
  ASSERT_OK(neap_plan_graph(graph, &o, &smallest, &step, &plan));
  ASSERT_OK(neap_plan_write(plan, "stored_plan.json"));
  neap_plan_free(plan);
  neap_step_free(step);
  neap_graph_free(graph);
  o.budget_fraction = 0;
  o.disk_for = NEAP_DISK_FOR_AUTO;
  const struct run_result memory = run_with(make_blocks, usual_sgd());
  o.plan_file = "stored_plan.json";
  const struct run_result replayed = run_with(make_blocks, o);
  assert_string_equal(memory.digest, replayed.digest);
  assert_true(replayed.memory.spilled > 0);
  o.disk = NULL;
  struct neap_session *s = NULL;
  graph = make_blocks();
  assert_int_equal(neap_session_create(graph, &o, NULL, &s), NEAP_INVALID_PLAN);
  assert_non_null(strstr(neap_error_message(), "no folder"));
  neap_graph_free(graph);
  unlink("stored_plan.json");
}

/* ---- Bits ---- */

/* No Store may read a value that a job of a lane brings (a Load): it is not complete at the node's position.
 */
static void test_loads_are_not_stored(void **state) {
  (void)state;
  neap_session_options o = usual_sgd();
  struct neap_graph *graph = make_blocks();
  neap_step *step;
  int loads = 0, stores = 0;
  o.disk = folder();
  o.disk_for = NEAP_DISK_FOR_BOTH | NEAP_DISK_FOR_ACTIVATIONS;
  o.budget = NEAP_BUDGET_MIN;
  ASSERT_OK(neap_step_from_graph(graph, &o, &step));
  for (int32_t v = 0; v < step->node_count; v++) {
    const struct step_node *node = &step->nodes[v];
    loads += strcmp(node->op, "Load") == 0;
    if (strcmp(node->op, "Store") != 0) continue;
    assert_string_not_equal(step->nodes[step->tensors[node->inputs[0]].producer].op, "Load");
    stores++;
  }
  assert_true(loads > 0 && stores > 0);
  neap_step_free(step);
  neap_graph_free(graph);
}

/* ReLUs whose masks the plan may keep, beside activations that it may store: its file says both. */
static struct neap_graph *make_relus(void) {
  neap_builder *b = neap_builder_create("relus");
  struct neap_graph *graph;
  const int64_t n = ROWS;
  const neap_tensor labels = neap_input(b, "label", NEAP_I32, 1, &n);
  neap_tensor x = neap_input(b, "x", NEAP_F32, 2, (int64_t[]){ROWS, OUTER});
  for (int i = 0; i < BLOCKS; i++)
    x = neap_add(b, x,
                 neap_relu(b, neap_linear(b, neap_gelu(b, neap_linear(b, x, INNER, true)), OUTER, true)));
  ASSERT_OK(
      neap_builder_finish(b, neap_softmax_cross_entropy(b, neap_linear(b, x, 10, true), labels, 0), &graph));
  neap_builder_free(b);
  return graph;
}

static void test_stored_plan_with_masks(void **state) {
  (void)state;
  if (sanitized()) skip(); /* to plan takes long there */
  neap_session_options o = usual_sgd();
  struct neap_graph *graph = make_relus();
  neap_step *step;
  neap_plan *plan;
  uint64_t smallest;
  o.disk = folder();
  o.disk_for = NEAP_DISK_FOR_ACTIVATIONS;
  o.budget_fraction = 0.96;
  o.variant = NEAP_VARIANT_MASK;
  ASSERT_OK(neap_plan_graph(graph, &o, &smallest, &step, &plan));
  assert_non_null(strstr(step->name, "+mask"));
  assert_true(plan_stored_bytes(step, plan).written > 0);
  ASSERT_OK(neap_plan_write(plan, "masked_plan.json"));
  neap_plan_free(plan);
  neap_step_free(step);
  neap_graph_free(graph);
  const struct run_result memory = run_with(make_relus, usual_sgd());
  o.budget_fraction = 0;
  o.variant = NEAP_VARIANT_AUTO;
  o.plan_file = "masked_plan.json";
  const struct run_result replayed = run_with(make_relus, o);
  assert_string_equal(memory.digest, replayed.digest);
  assert_true(replayed.memory.spilled > 0);
  unlink("masked_plan.json");
}

static void test_rules(void **state) {
  (void)state;
  for (int32_t i = 0; i < OPTIMIZERS; i++) {
    neap_session_options o = usual;
    o.optimizer = (neap_optimizer)i;
    o.threads = 1;
    o.micro_batches = 1 + i % 2;
    expect_same(make_graph, o, optimizer_rows[i].name);
  }
}

static void test_types(void **state) {
  (void)state;
  neap_session_options o = usual;
  o.precision = NEAP_BF16;
  expect_same(make_graph, o, "bf16");
  o.states_8bit = true;
  expect_same(make_graph, o, "bf16, states of 8 bits");
  o.precision = NEAP_F32;
  o.micro_batches = 3;
  expect_same(make_graph, o, "states of 8 bits, micro-batches");
  o = usual;
  o.precision = NEAP_BF16;
  o.master = true;
  expect_same(make_graph, o, "master");
  o = usual;
  o.backend = NEAP_REFERENCE;
  expect_same(make_graph, o, "reference");
}

static void test_numbers(void **state) {
  (void)state;
  neap_session_options o = usual;
  o.clip_norm = 0.01f;
  expect_same(make_graph, o, "clip norm");
  o.micro_batches = 2;
  expect_same(make_graph, o, "clip norm, micro-batches");
  o = usual;
  o.optimizer = NEAP_SGD;
  o.momentum = 0.9f;
  o.nesterov = true;
  expect_same(make_graph, o, "nesterov");
  o.nesterov = false;
  o.precision = NEAP_F16;
  o.dynamic_loss_scale = true;
  expect_same(make_graph, o, "dynamic loss scale");
  o.precision = NEAP_F32;
  o.dynamic_loss_scale = false;
  o.micro_batches = 3;
  expect_same(make_graph, o, "momentum, micro-batches");
}

static void test_images(void **state) {
  (void)state;
  neap_session_options o = usual;
  o.optimizer = NEAP_SGD;
  o.momentum = 0.9f;
  expect_same(make_images, o, "images");
  o.micro_batches = 2;
  expect_same(make_images, o, "images, micro-batches");
}

/* ---- Memory ---- */

static void test_memory(void **state) {
  (void)state;
  const uint64_t large = (uint64_t)(TOKENS + 2 * WIDE) * WIDTH * sizeof(float);
  neap_session_options o = usual;
  const struct run_result memory = run_with(make_graph, o);
  o.disk = folder();
  o.disk_for = NEAP_DISK_FOR_STATES;
  const struct run_result states = run_with(make_graph, o);
  assert_int_equal(memory.memory.states - states.memory.states, 2 * large);
  assert_int_equal(states.memory.parameters, memory.memory.parameters);
  assert_true(states.memory.spilled >= 2 * large && states.memory.spilled < 2 * large + (64 << 10));
  assert_int_equal(states.memory.disk_step_read, 2 * large);
  assert_int_equal(states.memory.disk_step_written, 2 * large);
  o.disk_for = NEAP_DISK_FOR_BOTH;
  const struct run_result both = run_with(make_graph, o);
  assert_int_equal(memory.memory.parameters - both.memory.parameters, large);
  assert_int_equal(both.memory.disk_step_written, 3 * large);
  /* By itself: nothing where all fits; states where that is enough; weights, too, for the least. */
  o.disk_for = NEAP_DISK_FOR_AUTO;
  assert_int_equal(run_with(make_graph, o).memory.spilled, 0);
  o.budget = states.memory.planned_peak;
  const struct run_result tight = run_with(make_graph, o);
  assert_int_equal(tight.memory.spilled, states.memory.spilled);
  assert_string_equal(tight.digest, memory.digest);
  o.budget = NEAP_BUDGET_MIN;
  const struct run_result least = run_with(make_graph, o);
  assert_true(least.memory.planned_peak < states.memory.planned_peak);
  assert_string_equal(least.digest, memory.digest);
  /* The named least is met, and 0.99 of it is not. */
  o.budget = 100000;
  struct neap_graph *graph = make_graph();
  struct neap_session *s = NULL;
  uint64_t smallest = 0;
  expect_failure(neap_session_create(graph, &o, &smallest, &s), NEAP_OVER_BUDGET, "");
  o.budget = smallest;
  ASSERT_OK(neap_session_create(graph, &o, NULL, &s));
  neap_session_free(s);
  o.budget = smallest / 100 * 99;
  expect_failure(neap_session_create(graph, &o, NULL, &s), NEAP_OVER_BUDGET, "");
  neap_graph_free(graph);
}

/* A share of the memory is one of a run without a disk. */
static void test_share(void **state) {
  (void)state;
  neap_session_options o = usual;
  const struct run_result all = run_with(make_graph, o);
  o.disk = folder();
  o.disk_for = NEAP_DISK_FOR_STATES;
  const uint64_t enough = run_with(make_graph, o).memory.planned_peak;
  o.disk_for = NEAP_DISK_FOR_AUTO;
  o.budget_fraction = 1.01 * (double)enough / (double)all.memory.keep_all;
  const struct run_result part = run_with(make_graph, o);
  assert_true(part.memory.spilled > 0 && part.memory.planned_peak <= enough / 100 * 101);
  assert_string_equal(part.digest, all.digest);
}

/* ---- Reading and writing variables ---- */

static void test_files(void **state) {
  (void)state;
  static const char path[] = "test_disk.safetensors";
  struct neap_graph *graph = make_graph();
  neap_session_options o = usual;
  struct neap_session *s = NULL, *t = NULL;
  char first[65], second[65];
  o.disk = folder();
  o.disk_for = NEAP_DISK_FOR_BOTH;
  ASSERT_OK(neap_session_create(graph, &o, NULL, &s));
  fill_inputs(s, 1, 10);
  ASSERT_OK(neap_session_step(s, 0.01f, NULL));
  ASSERT_OK(neap_session_save(s, path));
  ASSERT_OK(neap_session_create(graph, &o, NULL, &t));
  ASSERT_OK(neap_session_load(t, path));
  o.disk = NULL;
  o.disk_for = NEAP_DISK_FOR_AUTO;
  neap_session_free(s);
  ASSERT_OK(neap_session_create(graph, &o, NULL, &s));
  ASSERT_OK(neap_session_load(s, path));
  for (int i = 0; i < 2; i++) {
    fill_inputs(s, (uint64_t)i + 2, 10);
    fill_inputs(t, (uint64_t)i + 2, 10);
    ASSERT_OK(neap_session_step(s, 0.01f, NULL));
    ASSERT_OK(neap_session_step(t, 0.01f, NULL));
  }
  ASSERT_OK(neap_session_digest(s, first));
  ASSERT_OK(neap_session_digest(t, second));
  assert_string_equal(first, second);
  neap_session_free(s);
  neap_session_free(t);
  neap_graph_free(graph);
  unlink(path);
}

/* One layer, whose numbers as f32 take more bytes than the arena of the least budget in 16 bits. */
static struct neap_graph *make_wide(void) {
  enum { INPUTS = 4096 };
  neap_builder *b = neap_builder_create("wide");
  struct neap_graph *graph;
  const int64_t n = BATCH;
  const neap_tensor x = neap_input(b, "x", NEAP_F32, 2, (int64_t[]){BATCH, INPUTS}),
                    labels = neap_input(b, "label", NEAP_I32, 1, &n);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, neap_linear(b, x, WIDE, false), labels, 0),
                                &graph));
  neap_builder_free(b);
  return graph;
}

/* A mean of files is that of a run in memory, for variables that are larger than the arena. */
static void test_mean(void **state) {
  (void)state;
  static const char *const paths[] = {"test_disk_0.safetensors", "test_disk_1.safetensors"};
  struct neap_graph *graph = make_wide();
  neap_session_options o = usual;
  char digests[2][65];
  o.optimizer = NEAP_LOMO;
  o.precision = NEAP_BF16;
  for (int disk = 0; disk < 2; disk++) {
    struct neap_session *s = NULL;
    if (disk) {
      o.disk = folder();
      o.disk_for = NEAP_DISK_FOR_BOTH;
      o.budget = NEAP_BUDGET_MIN;
    }
    ASSERT_OK(neap_session_create(graph, &o, NULL, &s));
    for (int i = 0; i < 2 && !disk; i++) {
      fill_inputs(s, (uint64_t)i + 1, 10);
      ASSERT_OK(neap_session_step(s, 0.1f, NULL));
      ASSERT_OK(neap_session_save(s, paths[i]));
    }
    ASSERT_OK(neap_session_load_mean(s, paths, 2));
    ASSERT_OK(neap_session_digest(s, digests[disk]));
    neap_memory memory;
    neap_session_memory(s, &memory);
    if (disk) assert_true(memory.planned_peak < (uint64_t)4096 * WIDE * sizeof(float));
    neap_session_free(s);
  }
  assert_string_equal(digests[0], digests[1]);
  neap_graph_free(graph);
  for (int i = 0; i < 2; i++) unlink(paths[i]);
}

/* ---- Faults ---- */

/* Changes a byte of each piece of the file without a name that the process has open. */
static void change_file(void) {
  char link[64], target[256];
  for (int d = 3; d < 256; d++) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", d);
    const ssize_t length = readlink(link, target, sizeof target - 1);
    target[length > 0 ? length : 0] = '\0';
    if (strstr(target, " (deleted)") == NULL) continue;
    const int file = open(link, O_RDWR);
    const off_t end = lseek(file, 0, SEEK_END);
    for (off_t at = 0; at < end; at += 1 << 16) assert_int_equal(pwrite(file, "x", 1, at), 1);
    assert_int_equal(fsync(file), 0);
    close(file);
    return;
  }
  fail_msg("no file of variables is open");
}

/* A step that failed leaves variables of which some are updated: they are not saved as if they were whole. */
static void test_fault(void **state) {
  (void)state;
  static const char path[] = "test_disk_fault.safetensors", torn[] = "test_disk_torn.safetensors";
  struct neap_graph *graph = make_graph();
  neap_session_options o = usual;
  struct neap_session *s = NULL;
  o.disk = folder();
  o.disk_for = NEAP_DISK_FOR_STATES;
  ASSERT_OK(neap_session_create(graph, &o, NULL, &s));
  fill_inputs(s, 1, 10);
  ASSERT_OK(neap_session_step(s, 0.01f, NULL));
  ASSERT_OK(neap_session_save(s, path));
  change_file();
  expect_failure(neap_session_step(s, 0.01f, NULL), NEAP_BAD_FORMAT, "was changed on the disk");
  expect_failure(neap_session_save(s, torn), NEAP_INVALID_ARGUMENT, "given up");
  expect_failure(neap_session_step(s, 0.01f, NULL), NEAP_INVALID_ARGUMENT, "given up");
  ASSERT_OK(neap_session_load(s, path));
  ASSERT_OK(neap_session_step(s, 0.01f, NULL));
  ASSERT_OK(neap_session_save(s, torn));
  neap_session_free(s);
  neap_graph_free(graph);
  unlink(path);
  unlink(torn);
}

/* ---- What is refused ---- */

static void expect_refused(neap_session_options o, neap_status wanted, const char *words) {
  struct neap_graph *graph = make_graph();
  struct neap_session *s = NULL;
  expect_failure(neap_session_create(graph, &o, NULL, &s), wanted, words);
  neap_graph_free(graph);
}

static void test_refused(void **state) {
  (void)state;
  neap_session_options o = usual;
  o.disk_for = NEAP_DISK_FOR_STATES;
  expect_refused(o, NEAP_INVALID_ARGUMENT, "without a folder");
  o.disk = "/nowhere/at/all";
  expect_refused(o, NEAP_IO_FAILED, "/nowhere/at/all");
  o.disk = "/dev/shm";
  expect_refused(o, NEAP_INVALID_ARGUMENT, "tmpfs");
  o.disk = folder();
  o.disk_bytes = 1 << 20;
  expect_refused(o, NEAP_INVALID_ARGUMENT, "1048576");
  o.disk_bytes = 0;
  o.sparse_density = 0.5;
  expect_refused(o, NEAP_UNSUPPORTED, "sparse");
  o = usual;
  o.disk = folder();
  o.disk_for = NEAP_DISK_FOR_BOTH;
  o.ema = 0.9;
  expect_refused(o, NEAP_UNSUPPORTED, "averages");
}

int run_test_disk(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_rules, need_disk),
                                     cmocka_unit_test_setup(test_types, need_disk),
                                     cmocka_unit_test_setup(test_numbers, need_disk),
                                     cmocka_unit_test_setup(test_images, need_disk),
                                     cmocka_unit_test_setup(test_memory, need_disk),
                                     cmocka_unit_test_setup(test_share, need_disk),
                                     cmocka_unit_test_setup(test_files, need_disk),
                                     cmocka_unit_test_setup(test_mean, need_disk),
                                     cmocka_unit_test_setup(test_activations, need_disk),
                                     cmocka_unit_test_setup(test_loads_are_not_stored, need_disk),
                                     cmocka_unit_test_setup(test_stored_plan, need_disk),
                                     cmocka_unit_test_setup(test_stored_plan_with_masks, need_disk),
                                     cmocka_unit_test_setup(test_fault, need_disk),
                                     cmocka_unit_test_setup(test_refused, need_disk)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
