/* Every operator of every case, forward, backward and update, alone: the CPU backend against the reference
 * one in every memory format, again at other addresses, and in place. Then whole steps. */
#include <math.h>
#include <omp.h>
#include <stdio.h>

#include "base/half.h"
#include "kernel/cpu/cpu.h"
#include "models_by_name.h"
#include "op_cases.h"

static const struct run_context context = {.seed = 7, .step = 3, .learning_rate = 0.1f};

static struct lower_options options(neap_convolution convolution) {
  return (struct lower_options){.convolution = convolution, .threads = omp_get_max_threads()};
}

/* ---- A node alone ---- */

enum { OPERANDS = 16, RESULTS = NODE_MAX_OUTPUTS + OPERANDS };

/* A graph of one node, whose inputs are its first tensors, and what they hold. */
struct single {
  char name[160]; /* of the case and the node */
  struct neap_graph *graph;
  int32_t input_count; /* different ones */
  double *inputs[OPERANDS];
};

static void single_free(struct single *s) {
  for (int32_t i = 0; i < s->input_count; i++) free(s->inputs[i]);
  neap_graph_free(s->graph);
}

/* The type that an operand had before the reference widened it, which put casts of inputs before all else. */
static neap_dtype type_before(const struct interpreter *whole, const struct neap_graph *typed,
                              const struct node *node, int32_t operand, bool output) {
  const struct neap_graph *wide = whole->lowered->graph;
  const struct node *before =
      &typed->nodes.data[(size_t)(node - wide->nodes.data) - (wide->nodes.count - typed->nodes.count)];
  return typed->tensors.data[output ? before->outputs[operand] : before->inputs[operand]].dtype;
}

/* What is left of a number that is stored in a type. */
static float stored_as(neap_dtype dtype, float x) {
  return dtype == NEAP_BF16  ? bf16_to_float(bf16_from_float(x))
         : dtype == NEAP_F16 ? f16_to_float(f16_from_float(x))
                             : x;
}

/* Cuts a node out of a graph that has run. Values become inputs, rounded to multiples of `quantum`, where
 * that is not 0, and to what a float holds. `typed`: the graph before the reference widened it. */
static struct single cut(const struct op_case *c, const struct interpreter *whole,
                         const struct neap_graph *typed, const struct node *node, double quantum) {
  const struct neap_graph *from = whole->lowered->graph;
  struct single s = {0};
  snprintf(s.name, sizeof s.name, "%s: %s '%s'", c->name, node_row(node)->name, node->name);
  int32_t inputs[OPERANDS], outputs[NODE_MAX_OUTPUTS], updates[OPERANDS];
  assert_ok(graph_create(s.name, &s.graph));
  assert_true(node->input_count <= OPERANDS);
  for (int32_t i = 0; i < node->input_count; i++) {
    inputs[i] = NO_TENSOR;
    if (node->inputs[i] == NO_TENSOR) continue;
    for (int32_t k = 0; k <= i; k++)
      if (node->inputs[k] == node->inputs[i]) inputs[i] = k == i ? -1 : inputs[k];
    if (inputs[i] >= 0) continue;
    struct tensor tensor = from->tensors.data[node->inputs[i]];
    if (tensor.role == NEAP_ROLE_VALUE) tensor.role = NEAP_ROLE_INPUT;
    tensor.dtype = type_before(whole, typed, node, i, false);
    tensor.view_of = -1;
    assert_ok(graph_add_tensor(s.graph, tensor, &inputs[i]));
    double *values = interpreter_read(whole, graph_storage(from, node->inputs[i]));
    for (int64_t e = 0; e < tensor.elements; e++) {
      if (quantum > 0 && dtype_is_real(tensor.dtype)) values[e] = quantum * round(values[e] / quantum);
      values[e] = (double)stored_as(tensor.dtype, (float)values[e]);
    }
    s.inputs[s.input_count++] = values;
  }
  for (int32_t u = 0; u < node->update_count; u++)
    for (int32_t i = 0; i < node->input_count; i++)
      if (node->inputs[i] == node->updates[u]) updates[u] = inputs[i];
  for (int32_t i = 0; i < node->output_count; i++) {
    struct tensor tensor = from->tensors.data[node->outputs[i]];
    tensor.dtype = type_before(whole, typed, node, i, true);
    assert_ok(graph_add_tensor(s.graph, tensor, &outputs[i]));
  }
  struct node copy = *node;
  copy.inputs = inputs;
  copy.outputs = outputs;
  copy.updates = updates;
  assert_ok(graph_add_node(s.graph, copy));
  return s;
}

/* What a node makes, then what it updates. */
struct results {
  int32_t count;
  double *values[RESULTS];
  int64_t elements[RESULTS];
  bool whole_numbers[RESULTS];
};

static void results_free(struct results *r) {
  for (int32_t i = 0; i < r->count; i++) free(r->values[i]);
}

static void take(struct results *r, const struct interpreter *m, int32_t id) {
  r->values[r->count] = interpreter_read(m, id);
  r->elements[r->count] = m->lowered->graph->tensors.data[id].elements;
  r->whole_numbers[r->count++] = !dtype_is_real(m->lowered->graph->tensors.data[id].dtype);
}

/* The node itself among the reorderings and casts that lowering put around it; a cast itself comes last. */
static int32_t main_node(const struct lowered *lowered) {
  const int32_t count = (int32_t)lowered->graph->nodes.count;
  if (lowered->graph->nodes.data[count - 1].op == OP_CAST) return count - 1;
  for (int32_t v = 0; v < (int32_t)lowered->graph->nodes.count; v++)
    if (lowered->graph->nodes.data[v].op != OP_REORDER && lowered->graph->nodes.data[v].op != OP_CAST)
      return v;
  fail_msg("the node is gone");
  return -1;
}

/* Channels that fill up a block hold 0, whatever made them. */
static void expect_zeros_in_padding(const struct single *s, const struct interpreter *m, int32_t id) {
  const struct tensor *t = &m->lowered->graph->tensors.data[id];
  const struct memory_format format = m->lowered->formats[id];
  if (t->rank < 2 || format.lanes <= 1 || t->dims[1] % format.lanes == 0 || t->dtype != NEAP_F32) return;
  const int64_t blocks = (t->dims[1] + format.lanes - 1) / format.lanes,
                pixels = t->elements / t->dims[0] / t->dims[1];
  for (int64_t i = 0; i < t->dims[0] * blocks * pixels * format.lanes; i++) {
    const int64_t channel = i / format.lanes / pixels % blocks * format.lanes + i % format.lanes;
    if (channel >= t->dims[1] && ((const float *)m->data[id])[i] != 0)
      fail_msg("%s: padding holds no 0", s->name);
  }
}

/* Runs; `pair`, where not NULL, says which output lies in which input. */
static struct results run_single(const struct single *s, const struct lowered *lowered, size_t shift,
                                 int garbage, const struct inplace_pair *pair) {
  struct interpreter m = interpreter_create(lowered, shift, garbage);
  const struct node *node = &lowered->graph->nodes.data[main_node(lowered)];
  for (int32_t i = 0; i < s->input_count; i++) interpreter_write(&m, i, s->inputs[i]);
  if (pair != NULL) m.data[node->outputs[pair->output]] = m.data[node->inputs[pair->input]];
  interpreter_run(&m, &context);
  struct results r = {0};
  for (int32_t i = 0; i < node->output_count; i++) expect_zeros_in_padding(s, &m, node->outputs[i]);
  for (int32_t i = 0; i < node->output_count; i++) take(&r, &m, node->outputs[i]);
  for (int32_t i = 0; i < node->update_count; i++) take(&r, &m, node->updates[i]);
  interpreter_free(&m);
  return r;
}

/* ---- Comparison ---- */

/* Largest difference by largest value; where numbers are whole, any difference is infinite. */
static double error_of(const struct results *expected, const struct results *got, int32_t i) {
  double most = 0, worst = 0;
  for (int64_t e = 0; e < expected->elements[i]; e++) {
    const double difference = fabs(expected->values[i][e] - got->values[i][e]);
    most = fmax(most, fabs(expected->values[i][e]));
    if (!(difference <= worst)) worst = difference;
  }
  if (expected->whole_numbers[i]) return worst == 0 ? 0 : INFINITY;
  return worst / fmax(most, 1e-6);
}

static void expect_close(const char *name, const char *variant, const struct results *expected,
                         const struct results *got, double tolerance) {
  assert_int_equal(expected->count, got->count);
  for (int32_t i = 0; i < expected->count; i++) {
    const double error = error_of(expected, got, i);
    if (!(error <= tolerance))
      fail_msg("%s, %s: result %d is off by %g, %g and %g", name, variant, i, error, expected->values[i][0],
               got->values[i][0]);
  }
}

static void expect_equal(const char *name, const char *variant, const char *how,
                         const struct results *expected, const struct results *got) {
  for (int32_t i = 0; i < expected->count; i++)
    if (memcmp(expected->values[i], got->values[i], (size_t)expected->elements[i] * sizeof(double)) != 0)
      fail_msg("%s, %s: result %d has other bits %s", name, variant, i, how);
}

/* ---- Formats ---- */

struct variant {
  const char *name;
  int64_t lanes; /* 0: as many as there are channels */
  bool blocks;
};
static const struct variant variants[] = {
    {"row-major", 1, false}, {"channels last", 0, false}, {"16 channels", 16, true}, {"8 channels", 8, true}};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* The formats of a single node's inputs: images as the variant says, the rest row-major; variables free.
 * False when the variant is row-major once more. */
static bool choose_formats(const struct single *s, const struct variant *variant,
                           struct memory_format *formats) {
  bool any = variant->lanes == 1;
  for (int32_t i = 0; i < s->input_count; i++) {
    const struct tensor *t = &s->graph->tensors.data[i];
    formats[i] = t->role == NEAP_ROLE_INPUT ? ROW_MAJOR : (struct memory_format){0};
    if (t->role != NEAP_ROLE_INPUT || t->rank != 4 || variant->lanes == 1) continue;
    formats[i] =
        (struct memory_format){variant->lanes > 0 ? variant->lanes : t->dims[1], variant->blocks, NULL};
    any = true;
  }
  return any;
}

/* ---- (a) value, (b) repetition, (c) in place, (d) formats ---- */

/* A step's pair by slot of the node's inputs: a step has no places for those that are not given. */
static struct inplace_pair by_slot(const struct node *node, struct inplace_pair pair) {
  int32_t slot = 0;
  for (int32_t given = 0; node->inputs[slot] == NO_TENSOR || given++ < pair.input;) slot++;
  return (struct inplace_pair){pair.output, slot};
}

static bool in_place_possible(const struct single *s, const struct lowered *lowered,
                              struct inplace_pair pair) {
  const struct node *before = &s->graph->nodes.data[0],
                    *node = &lowered->graph->nodes.data[main_node(lowered)];
  const int32_t *step = lowered->step_tensor;
  return s->graph->tensors.data[before->inputs[pair.input]].role == NEAP_ROLE_INPUT &&
         lowered->step->tensors[step[node->inputs[pair.input]]].bytes >=
             lowered->step->tensors[step[node->outputs[pair.output]]].bytes;
}

static void check_variant(const struct single *s, const struct results *expected, void *cpu,
                          const struct variant *variant, double tolerance) {
  struct memory_format formats[OPERANDS + NODE_MAX_OUTPUTS] = {0};
  if (!choose_formats(s, variant, formats)) return;
  const struct lowered like = {.graph = s->graph, .formats = formats, .state = cpu};
  struct lowered *lowered = NULL;
  const struct lower_options o = options(NEAP_CONV_AUTO);
  assert_ok(lower(s->graph, &cpu_backend, &o, &like, &lowered));
  struct results first = run_single(s, lowered, 0, 0xFF, NULL), again = run_single(s, lowered, 3, 0, NULL);
  expect_close(s->name, variant->name, expected, &first, tolerance);
  expect_equal(s->name, variant->name, "at other addresses", &first, &again);
  results_free(&again);
  const struct step_node *node = &lowered->step->nodes[main_node(lowered)];
  for (int32_t i = 0; i < node->inplace_count; i++) {
    const struct inplace_pair pair =
        by_slot(&lowered->graph->nodes.data[main_node(lowered)], node->inplace[i]);
    if (!in_place_possible(s, lowered, pair)) continue;
    struct results in_place = run_single(s, lowered, 1, 0xFF, &pair);
    expect_equal(s->name, variant->name, "in place", &first, &in_place);
    results_free(&in_place);
  }
  results_free(&first);
  lowered_free(lowered);
}

static void check_reference_in_place(const struct single *s, const struct lowered *lowered,
                                     const struct results *expected) {
  const struct step_node *node = &lowered->step->nodes[main_node(lowered)];
  for (int32_t i = 0; i < node->inplace_count; i++) {
    const struct inplace_pair pair =
        by_slot(&lowered->graph->nodes.data[main_node(lowered)], node->inplace[i]);
    if (!in_place_possible(s, lowered, pair)) continue;
    struct results in_place = run_single(s, lowered, 0, 0, &pair);
    expect_equal(s->name, "reference", "in place", expected, &in_place);
    results_free(&in_place);
  }
}

/* The gradient of logits is rounded to 16 bits, too, before it is multiplied. */
static bool rounds_between(enum op op) { return op == OP_LINEAR_CROSS_ENTROPY_BACKWARD; }

/* Of a node's results, by the types that they are stored in. Variables are rounded to either neighbour. */
static double tolerance_of(const struct single *s) {
  const struct node *node = &s->graph->nodes.data[0];
  double tolerance = 1e-6;
  for (int32_t i = 0; i < node->output_count + node->update_count; i++) {
    const int32_t id = i < node->output_count ? node->outputs[i] : node->updates[i - node->output_count];
    const neap_dtype dtype = s->graph->tensors.data[id].dtype;
    const double nearest = dtype == NEAP_BF16 ? 0x1p-8 : dtype == NEAP_F16 ? 0x1p-11 : 0;
    tolerance = fmax(tolerance, i < node->output_count && !rounds_between(node->op) ? nearest : 2 * nearest);
  }
  return tolerance;
}

static bool is_convolution(enum op op) {
  return op == OP_CONV || op == OP_CONV_BACKWARD_DATA || op == OP_CONV_BACKWARD_WEIGHTS;
}

/* What compares: equal values must go the same way everywhere. */
static bool has_ties(enum op op) {
  return op == OP_RELU || op == OP_RELU_BACKWARD || op == OP_RELU6 || op == OP_RELU6_BACKWARD ||
         op == OP_RELU_MASK || op == OP_MAX_POOL || op == OP_SOFTMAX_CROSS_ENTROPY;
}

/* `cpu`: states with direct and with Winograd convolutions, and with small parts of nodes. */
static void check_node(const struct op_case *c, const struct interpreter *whole,
                       const struct neap_graph *typed, const struct node *node, double quantum,
                       void *const *cpu, bool in_parts) {
  struct single s = cut(c, whole, typed, node, quantum);
  struct lowered *reference = NULL;
  const struct lower_options o = options(NEAP_CONV_AUTO);
  assert_ok(lower(s.graph, &reference_backend, &o, NULL, &reference));
  struct results expected = run_single(&s, reference, 0, 0xFF, NULL);
  check_reference_in_place(&s, reference, &expected);
  for (int i = 0; i < VARIANTS; i++) {
    const double tolerance = tolerance_of(&s);
    check_variant(&s, &expected, cpu[0], &variants[i], tolerance);
    if (is_convolution(node->op)) check_variant(&s, &expected, cpu[1], &variants[i], fmax(tolerance, 5e-6));
    if (in_parts) check_variant(&s, &expected, cpu[2], &variants[i], tolerance);
  }
  results_free(&expected);
  lowered_free(reference);
  single_free(&s);
}

/* All nodes of the case's operator in the step that trains its network. Frees the graph. */
static void check_graph(const struct op_case *c, struct neap_graph *graph, bool in_parts) {
  struct lowered *lowered = NULL;
  const struct lower_options o[] = {options(NEAP_CONV_DIRECT), options(NEAP_CONV_WINOGRAD),
                                    options(NEAP_CONV_DIRECT)};
  assert_ok(lower(graph, &reference_backend, &o[0], NULL, &lowered));
  void *cpu[3];
  for (int i = 0; i < 3; i++) assert_ok(cpu_backend.create_state(graph, &o[i], &cpu[i]));
  ((struct cpu *)cpu[2])->part_bytes = 256;
  struct interpreter whole = interpreter_create(lowered, 0, 0xFF);
  op_case_fill(&whole);
  interpreter_run(&whole, &context);
  const char *scope = c->scope != NULL ? c->scope : "op";
  int checked = 0;
  const size_t casts = lowered->graph->nodes.count - graph->nodes.count; /* of inputs, by the reference */
  for (size_t v = 0; v < lowered->graph->nodes.count; v++) {
    const struct node *node = &lowered->graph->nodes.data[v];
    if (strncmp(node->name, scope, strlen(scope)) != 0 || (size_t)v < casts) continue;
    check_node(c, &whole, graph, node, 0, cpu, in_parts);
    if (has_ties(node->op)) check_node(c, &whole, graph, node, 0.5, cpu, in_parts);
    checked++;
  }
  assert_true(checked > 0);
  interpreter_free(&whole);
  lowered_free(lowered);
  for (int i = 0; i < 3; i++) cpu_backend.free_state(cpu[i]);
  neap_graph_free(graph);
}

static void check_case(const struct op_case *c, bool fuse, const struct optimizer *optimizer) {
  check_graph(c, op_case_training(c, fuse, optimizer), false);
}

static const struct optimizer plain_sgd = {.kind = NEAP_SGD};

static void test_operators(void **state) {
  (void)state;
  for (int i = 0; i < OP_CASES; i++) check_case(&op_cases[i], false, &plain_sgd);
}

static void test_fused_operators(void **state) {
  (void)state;
  for (int i = 0; i < OP_CASES; i++)
    if (op_case_fuses(&op_cases[i])) check_case(&op_cases[i], true, &plain_sgd);
}

static void check_stored(bool fuse, neap_dtype dtype) {
  for (int i = 0; i < OP_CASES; i++)
    if (!fuse || op_case_fuses(&op_cases[i]))
      check_graph(&op_cases[i], op_case_stored(&op_cases[i], fuse, dtype, &plain_sgd), true);
}

static void test_operators_in_16_bits(void **state) {
  (void)state;
  for (int fuse = 0; fuse < 2; fuse++) {
    check_stored(fuse, NEAP_BF16);
    check_stored(fuse, NEAP_F16);
  }
}

static void test_masked_operators(void **state) {
  (void)state;
  int masked = 0;
  for (int i = 0; i < OP_CASES; i++) {
    struct neap_graph *graph = op_case_masked(&op_cases[i], &plain_sgd);
    const bool any = count_nodes(graph, OP_RELU_MASK) > 0;
    masked += any;
    if (any)
      check_graph(&op_cases[i], graph, false);
    else
      neap_graph_free(graph);
  }
  assert_true(masked >= 4);
}

/* ---- The loss at its edges ---- */

enum { ROWS = 4, CLASSES = 3 };

/* What the loss of `logits` and its gradient are on a backend: loss, right answers, gradient. */
static void run_loss(const struct backend *backend, const double *logits, const double *labels,
                     struct results *forward, struct results *backward) {
  const struct tensor x = {.name = "logits",
                           .role = NEAP_ROLE_INPUT,
                           .rank = 2,
                           .dims = {ROWS, CLASSES},
                           .view_of = -1},
                      y = {.name = "label",
                           .dtype = NEAP_I32,
                           .role = NEAP_ROLE_INPUT,
                           .rank = 1,
                           .dims = {ROWS},
                           .view_of = -1};
  for (int pass = 0; pass < 2; pass++) {
    struct single s = {.input_count = 2, .inputs = {(double *)logits, (double *)labels}};
    enum { SLOTS = 6 };
    int32_t in[SLOTS] = {NO_TENSOR, NO_TENSOR, NO_TENSOR, NO_TENSOR, NO_TENSOR, NO_TENSOR}, out[2];
    assert_ok(graph_create("loss", &s.graph));
    assert_ok(graph_add_tensor(s.graph, x, &in[0]));
    assert_ok(graph_add_tensor(s.graph, y, &in[1]));
    struct node node = {.name = "loss",
                        .attributes.loss = {.ignored = -1},
                        .inputs = in,
                        .input_count = SLOTS,
                        .outputs = out,
                        .output_count = 1,
                        .op = OP_SOFTMAX_CROSS_ENTROPY_BACKWARD,
                        .pass = NEAP_PASS_BACKWARD};
    if (pass == 0) {
      assert_ok(graph_apply(s.graph, OP_SOFTMAX_CROSS_ENTROPY, "loss", &node.attributes, in, 2, out));
    } else {
      assert_ok(graph_add_like(s.graph, in[0], "gradient", &out[0]));
      assert_ok(graph_add_node(s.graph, node));
    }
    struct lowered *lowered = NULL;
    const struct lower_options o = options(NEAP_CONV_AUTO);
    assert_ok(lower(s.graph, backend, &o, NULL, &lowered));
    *(pass == 0 ? forward : backward) = run_single(&s, lowered, 0, 0xFF, NULL);
    lowered_free(lowered);
    neap_graph_free(s.graph);
  }
}

static void expect_loss(const double *logits, const double *labels, double loss, int correct,
                        const double *gradient) {
  const struct backend *backends[] = {&reference_backend, &cpu_backend};
  for (int i = 0; i < 2; i++) {
    struct results forward, backward;
    run_loss(backends[i], logits, labels, &forward, &backward);
    if (!(fabs(forward.values[0][0] - loss) <= 1e-6 * fmax(1, loss)))
      fail_msg("%s: a loss of %g is %g", backends[i]->name, loss, forward.values[0][0]);
    assert_int_equal((int)forward.values[1][0], correct);
    for (int k = 0; k < ROWS * CLASSES; k++)
      if (!(fabs(backward.values[0][k] - gradient[k]) <= 1e-6))
        fail_msg("%s: gradient %d is %g, not %g", backends[i]->name, k, backward.values[0][k], gradient[k]);
    results_free(&forward);
    results_free(&backward);
  }
}

static void test_loss(void **state) {
  (void)state;
  const double equal[ROWS * CLASSES] = {0}, large[] = {1000, 0, 0, 0, 1000, 0, 0, 0, -1000, 5, 5, 5};
  const double third = 1.0 / 3;
  /* Equal logits: log C; the first of the largest counts as the answer. */
  expect_loss(equal, (const double[]){0, 1, 2, -1}, log(3), 1,
              (const double[]){(third - 1) / 3, third / 3, third / 3, third / 3, (third - 1) / 3, third / 3,
                               third / 3, third / 3, (third - 1) / 3, 0, 0, 0});
  /* Nothing to learn from; no label outside the classes is looked up. */
  expect_loss(large, (const double[]){7, 3, 1000000, -5}, 0, 0, equal);
  expect_loss(large, (const double[]){-1, -1, -1, -1}, 0, 0, equal);
  /* exp(1000) does not overflow. */
  expect_loss(large, (const double[]){0, 0, 0, -1}, (0 + 1000 + log(2)) / 3, 2,
              (const double[]){0, 0, 0, -third, third, 0, -0.5 / 3, 0.5 / 3, 0, 0, 0, 0});
}

/* ---- Dropout ---- */

/* What dropout makes of ones; the caller frees it. */
static double *drop_ones(const struct backend *backend, int64_t count, float probability, int32_t stream,
                         const struct run_context *at) {
  const struct tensor x = {.name = "x", .role = NEAP_ROLE_INPUT, .rank = 1, .dims = {count}, .view_of = -1};
  const union attributes attributes = {.dropout = {.probability = probability, .stream = stream}};
  const struct lower_options o = options(NEAP_CONV_AUTO);
  struct neap_graph *graph;
  struct lowered *lowered = NULL;
  int32_t in, out;
  assert_ok(graph_create("dropout", &graph));
  assert_ok(graph_add_tensor(graph, x, &in));
  assert_ok(graph_apply(graph, OP_DROPOUT, "dropout", &attributes, &in, 1, &out));
  assert_ok(lower(graph, backend, &o, NULL, &lowered));
  struct interpreter m = interpreter_create(lowered, 0, 0xFF);
  double *values = malloc((size_t)count * sizeof *values);
  assert_non_null(values);
  for (int64_t i = 0; i < count; i++) values[i] = 1;
  interpreter_write(&m, 0, values);
  free(values);
  interpreter_run(&m, at);
  values = interpreter_read(&m, lowered->graph->nodes.data[main_node(lowered)].outputs[0]);
  interpreter_free(&m);
  lowered_free(lowered);
  neap_graph_free(graph);
  return values;
}

static void expect_dropout(const struct backend *backend) {
  enum { COUNT = 40000, DRAWS = 4 };
  static const double probability = 0.25;
  static const uint64_t seeds[DRAWS] = {1, 2, 1, 1}, steps[DRAWS] = {5, 5, 6, 5}; /* seed, step */
  static const int32_t streams[DRAWS] = {0, 0, 0, 1};
  double *drawn[DRAWS];
  for (int d = 0; d < DRAWS; d++) {
    struct run_context at = context;
    at.seed = seeds[d];
    at.step = steps[d];
    drawn[d] = drop_ones(backend, COUNT, (float)probability, streams[d], &at);
    int zeros = 0;
    for (int i = 0; i < COUNT; i++) {
      zeros += drawn[d][i] == 0;
      assert_true(drawn[d][i] == 0 || fabs(drawn[d][i] - 1 / (1 - probability)) < 1e-6);
    }
    assert_true(fabs(zeros - probability * COUNT) < 5 * sqrt(COUNT * probability * (1 - probability)));
  }
  /* Seed, step and stream each give another mask: two meet as often as independent ones do. */
  const double together = COUNT * (probability * probability + (1 - probability) * (1 - probability));
  for (int d = 1; d < DRAWS; d++) {
    int same = 0;
    for (int i = 0; i < COUNT; i++) same += drawn[0][i] == drawn[d][i];
    assert_true(fabs(same - together) < 5 * sqrt(COUNT * 0.25));
  }
  for (int d = 0; d < DRAWS; d++) free(drawn[d]);
}

static void test_dropout(void **state) {
  (void)state;
  expect_dropout(&reference_backend);
  expect_dropout(&cpu_backend);
}

/* ---- Updates by hand ---- */

enum { UPDATED = 3 };

/* The first update of w by g, all states 0. */
static void run_first_update(const struct optimizer *optimizer, const double *w, const double *g,
                             double *result) {
  const bool adam = optimizer->kind == NEAP_ADAMW;
  struct tensor t = {.name = "w", .role = NEAP_ROLE_PARAMETER, .rank = 1, .dims = {UPDATED}, .view_of = -1};
  double zeros[UPDATED] = {0};
  struct single s = {.input_count = adam                       ? 4
                                    : optimizer->momentum != 0 ? 3
                                                               : 2,
                     .inputs = {(double *)w, (double *)g, zeros, zeros}};
  static const neap_role roles[] = {NEAP_ROLE_PARAMETER, NEAP_ROLE_INPUT, NEAP_ROLE_STATE, NEAP_ROLE_STATE};
  int32_t in[4] = {NO_TENSOR, NO_TENSOR, NO_TENSOR, NO_TENSOR};
  assert_ok(graph_create("update", &s.graph));
  for (int32_t i = 0; i < s.input_count; i++) {
    t.role = roles[i];
    assert_ok(graph_add_tensor(s.graph, t, &in[i]));
  }
  const int32_t updates[] = {in[0], in[2], in[3]};
  const struct node node = {.name = "update",
                            .op = adam ? OP_ADAMW : OP_SGD,
                            .pass = NEAP_PASS_UPDATE,
                            .attributes.update = {.rate = 1,
                                                  .momentum = optimizer->momentum,
                                                  .weight_decay = optimizer->weight_decay,
                                                  .beta1 = optimizer->beta1,
                                                  .beta2 = optimizer->beta2,
                                                  .epsilon = optimizer->epsilon,
                                                  .nesterov = optimizer->nesterov},
                            .inputs = in,
                            .input_count = adam ? 4 : 3,
                            .updates = updates,
                            .update_count = s.input_count - 1};
  assert_ok(graph_add_node(s.graph, node));
  struct lowered *lowered = NULL;
  const struct lower_options o = options(NEAP_CONV_AUTO);
  assert_ok(lower(s.graph, &reference_backend, &o, NULL, &lowered));
  struct interpreter m = interpreter_create(lowered, 0, 0xFF);
  for (int32_t i = 0; i < s.input_count; i++) interpreter_write(&m, i, s.inputs[i]);
  interpreter_run(&m, &(struct run_context){.learning_rate = 0.125f});
  memcpy(result, m.data[0], UPDATED * sizeof *result); /* a parameter, which the reference widens */
  interpreter_free(&m);
  lowered_free(lowered);
  neap_graph_free(s.graph);
}

/* From states of 0, Nesterov's momentum moves by (1 + momentum) gradients; Adam, its bias corrected, by the
 * sign of the gradient, and decoupled decay does not go through it. */
static void test_first_updates(void **state) {
  (void)state;
  const double w[UPDATED] = {1, -2, 4}, g[UPDATED] = {0.5, 8, -0.25}, rate = 0.125;
  double got[UPDATED];
  run_first_update(&(struct optimizer){.kind = NEAP_SGD, .weight_decay = 0.5f}, w, g, got);
  for (int i = 0; i < UPDATED; i++) assert_true(fabs(got[i] - (w[i] - rate * (g[i] + 0.5 * w[i]))) < 1e-12);
  run_first_update(&(struct optimizer){.kind = NEAP_SGD, .momentum = 0.75f}, w, g, got);
  for (int i = 0; i < UPDATED; i++) assert_true(fabs(got[i] - (w[i] - rate * g[i])) < 1e-12);
  run_first_update(&(struct optimizer){.kind = NEAP_SGD, .momentum = 0.75f, .nesterov = true}, w, g, got);
  for (int i = 0; i < UPDATED; i++) assert_true(fabs(got[i] - (w[i] - rate * 1.75 * g[i])) < 1e-12);
  const struct optimizer adam = {
      .kind = NEAP_ADAMW, .weight_decay = 0.5f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 0.25f};
  run_first_update(&adam, w, g, got);
  for (int i = 0; i < UPDATED; i++)
    assert_true(fabs(got[i] - (w[i] * (1 - rate * 0.5) - rate * g[i] / (fabs(g[i]) + 0.25))) < 1e-12);
}

/* ---- Whole steps ---- */

/* Loss, right answers and variables after a step, with all reorderings that lowering puts in. Resident
 * tensors come first in every lowered graph and keep their order. */
static void compare_steps(const struct op_case *c, const struct optimizer *optimizer, double tolerance) {
  struct neap_graph *graph = op_case_training(c, true, optimizer);
  const struct lower_options o = options(NEAP_CONV_AUTO);
  const struct backend *backends[] = {&reference_backend, &cpu_backend};
  struct lowered *lowered[2] = {0};
  struct interpreter m[2];
  for (int i = 0; i < 2; i++) {
    assert_ok(lower(graph, backends[i], &o, NULL, &lowered[i]));
    m[i] = interpreter_create(lowered[i], 0, 0xFF);
    op_case_fill(&m[i]);
    interpreter_run(&m[i], &context);
  }
  char name[160];
  for (int32_t id = 0; lowered[0]->graph->tensors.data[id].role != NEAP_ROLE_VALUE; id++) {
    snprintf(name, sizeof name, "%s, %s", c->name, lowered[0]->graph->tensors.data[id].name);
    struct results r[2] = {0};
    for (int i = 0; i < 2; i++) take(&r[i], &m[i], id);
    expect_close(name, "whole step", &r[0], &r[1], tolerance);
    for (int i = 0; i < 2; i++) results_free(&r[i]);
  }
  struct results r[2] = {0};
  for (int i = 0; i < 2; i++) {
    take(&r[i], &m[i], lowered[i]->graph->loss);
    take(&r[i], &m[i], lowered[i]->graph->correct);
  }
  snprintf(name, sizeof name, "%s, loss and right answers", c->name);
  expect_close(name, "whole step", &r[0], &r[1], tolerance);
  for (int i = 0; i < 2; i++) {
    results_free(&r[i]);
    interpreter_free(&m[i]);
    lowered_free(lowered[i]);
  }
  neap_graph_free(graph);
}

static void test_whole_steps(void **state) {
  (void)state;
  for (int i = 0; i < OP_CASES; i++)
    compare_steps(&op_cases[i], &plain_sgd, op_cases[i].rounds ? 0x1p-6 : 2e-6);
}

static void test_optimizers(void **state) {
  (void)state;
  static const neap_parameter_group groups[] = {{"*.bias", 0.5f, 0}, {"op.*", 2, 0.1f}};
  static const struct optimizer optimizers[] = {
      {.kind = NEAP_SGD, .weight_decay = 0.01f},
      {.kind = NEAP_SGD, .momentum = 0.9f},
      {.kind = NEAP_SGD, .momentum = 0.9f, .weight_decay = 0.01f, .nesterov = true},
      {.kind = NEAP_ADAMW, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f},
      {.kind = NEAP_ADAMW, .weight_decay = 0.1f, .beta1 = 0.8f, .beta2 = 0.95f, .epsilon = 1e-4f},
      {.kind = NEAP_ADAM, .weight_decay = 0.1f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-4f},
      {.kind = NEAP_RMSPROP, .beta2 = 0.99f, .epsilon = 1e-4f},
      {.kind = NEAP_RMSPROP, .momentum = 0.9f, .weight_decay = 0.1f, .beta2 = 0.9f, .epsilon = 1e-2f},
      {.kind = NEAP_LION, .weight_decay = 0.1f, .beta1 = 0.9f, .beta2 = 0.99f},
      {.kind = NEAP_SGD, .momentum = 0.9f, .clip_value = 0.01f},
      {.kind = NEAP_SGD, .momentum = 0.9f, .clip_norm = 0.05f},
      {.kind = NEAP_ADAM,
       .beta1 = 0.9f,
       .beta2 = 0.999f,
       .epsilon = 1e-4f,
       .clip_value = 0.02f,
       .clip_norm = 0.05f},
      {.kind = NEAP_SGD, .groups = groups, .group_count = 2},
  };
  const struct op_case layers[] = {
      {"convolution", apply_conv, .dims = {2, 16, 5, 5},
       .options = &(neap_conv_options){.filters = 32, .size = 3, .bias = true}},
      {"odd convolution", apply_conv, .dims = {2, 3, 5, 5},
       .options = &(neap_conv_options){.filters = 7, .size = 3, .bias = true}},
  };
  for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
    for (size_t k = 0; k < sizeof layers / sizeof *layers; k++) {
      check_case(&layers[k], false, &optimizers[i]);
      check_graph(&layers[k], op_case_stored(&layers[k], false, NEAP_BF16, &optimizers[i]), true);
      compare_steps(&layers[k], &optimizers[i], 2e-6);
    }
}

/* ---- Workspaces ---- */

/* At the published size of a network with large maps, where Winograd's scratchpads could be the largest thing
 * in memory by far. */
static void test_workspaces(void **state) {
  (void)state;
  struct neap_graph *graph = NULL;
  struct lowered *lowered = NULL;
  const struct lower_options o = options(NEAP_CONV_AUTO);
  assert_ok(build_named("unet", NULL, &graph));
  assert_ok(graph_add_training(graph, &plain_sgd));
  assert_ok(lower(graph, &cpu_backend, &o, NULL, &lowered));
  double most = 0, with_workspace = 0;
  for (int32_t v = 0; v < lowered->step->node_count; v++) {
    const double bytes = node_bytes(lowered->graph, &lowered->graph->nodes.data[v]);
    most = fmax(most, bytes);
    with_workspace = fmax(with_workspace, bytes + (double)lowered->step->nodes[v].workspace);
  }
  if (!(with_workspace <= 1.11 * most)) fail_msg("%g bytes with workspace, %g without", with_workspace, most);
  lowered_free(lowered);
  neap_graph_free(graph);
}

int run_test_ops(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_operators),
                                     cmocka_unit_test(test_fused_operators),
                                     cmocka_unit_test(test_operators_in_16_bits),
                                     cmocka_unit_test(test_masked_operators),
                                     cmocka_unit_test(test_loss),
                                     cmocka_unit_test(test_dropout),
                                     cmocka_unit_test(test_first_updates),
                                     cmocka_unit_test(test_optimizers),
                                     cmocka_unit_test(test_whole_steps),
                                     cmocka_unit_test(test_workspaces)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
