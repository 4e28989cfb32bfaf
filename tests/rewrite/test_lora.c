/* Adapters of linear layers (session options `lora`): first values, gradients, what they are equal to once
 * merged, bits at every budget, which layers have them, and what is refused. */
#include <unistd.h>

#include "session_help.h"

enum { BATCH = 4, LENGTH = 3, WIDTH = 32, CLASSES = 5 };

static neap_tensor weight(neap_builder *b, const char *name, int64_t rows, int64_t columns) {
  return neap_parameter(b, name, 2, (int64_t[]){rows, columns},
                        (neap_parameter_options){.initial = NEAP_INITIAL_NORMAL, .scale = 0.2f});
}

/* Attention whose products are Linear, and MatMul with a matrix either way round; then a norm and a head. */
static struct neap_graph *make_graph(int64_t batch, bool fused_loss) {
  neap_builder *b = neap_builder_create("net");
  struct neap_graph *graph;
  const neap_tensor x = neap_input(b, "x", NEAP_F32, 3, (int64_t[]){batch, LENGTH, WIDTH}),
                    label = neap_input(b, "label", NEAP_I32, 2, (int64_t[]){batch, LENGTH}),
                    zeros = neap_parameter(b, "a.q_proj.bias", 1, (int64_t[]){WIDTH},
                                           (neap_parameter_options){0});
  const neap_tensor q = neap_linear_with(b, x, weight(b, "a.q_proj.weight", WIDTH, WIDTH), zeros),
                    k = neap_matmul(b, x, weight(b, "a.k_proj.weight", WIDTH, WIDTH), false, true),
                    v = neap_matmul(b, x, weight(b, "a.v_proj.weight", WIDTH, 2 * WIDTH), false, false),
                    heads =
                        neap_reshape(b, neap_slice(b, v, 2, 0, WIDTH), 4, (int64_t[]){batch, LENGTH, 2, -1});
  const int64_t four[] = {batch, LENGTH, 2, WIDTH / 2};
  neap_tensor y = neap_attention(b, neap_reshape(b, q, 4, four), neap_reshape(b, k, 4, four), heads, -1,
                                 (neap_attention_options){.causal = true});
  y = neap_add(b, neap_reshape(b, y, 3, (int64_t[]){batch, LENGTH, WIDTH}),
               neap_slice(b, v, 2, WIDTH, WIDTH));
  y = neap_layer_norm(b, y, 0);
  y = neap_gelu(b, neap_linear_with(b, y, weight(b, "mlp.weight", 2 * WIDTH, WIDTH), -1));
  const neap_tensor head = weight(b, "head.weight", CLASSES, 2 * WIDTH),
                    logits = neap_linear_with(b, y, head, -1);
  neap_output(b, "logits", logits);
  const int64_t rows = batch * LENGTH;
  const neap_tensor loss =
      fused_loss ? neap_linear_cross_entropy(b, y, head, -1, label, (neap_linear_cross_entropy_options){0})
                 : neap_softmax_cross_entropy(b, neap_reshape(b, logits, 2, (int64_t[]){rows, CLASSES}),
                                              neap_reshape(b, label, 1, &rows), 0);
  ASSERT_OK(neap_builder_finish(b, loss, &graph));
  neap_builder_free(b);
  return graph;
}

static const char all_layers[] = "q_proj,k_proj,v_proj,mlp";
enum { LAYERS = 4 };
static const char *const layer_names[LAYERS] = {"a.q_proj", "a.k_proj", "a.v_proj", "mlp"};

static struct neap_session *make_session(const struct neap_graph *graph, neap_session_options o) {
  struct neap_session *s = NULL;
  if (o.threads == 0) o.threads = 2;
  ASSERT_OK(neap_session_create(graph, &o, NULL, &s));
  return s;
}

static int32_t find(const struct neap_session *s, const char *name, neap_variable *v) {
  const int32_t index = find_variable(s, name);
  ASSERT_OK(neap_session_variable(s, index, v));
  return index;
}

/* "LAYER.PART" */
static float *read_part(const struct neap_session *s, const char *layer, const char *part, neap_variable *v) {
  char name[64];
  snprintf(name, sizeof name, "%s.%s", layer, part);
  return read_variable(s, find(s, name, v), &v->elements);
}

static bool is_adapter(const char *name) {
  return strstr(name, ".lora_A.weight") != NULL || strstr(name, ".lora_B.weight") != NULL;
}

/* Numbers up to 0.3 for each B: where B is 0, A has no gradient. */
static void draw_b(struct neap_session *s) {
  for (int32_t i = 0; i < neap_session_variable_count(s); i++) {
    neap_variable v;
    ASSERT_OK(neap_session_variable(s, i, &v));
    if (v.kind != NEAP_VARIABLE_PARAMETER || strstr(v.name, ".lora_B.weight") == NULL) continue;
    float *values = malloc((size_t)v.elements * sizeof *values);
    assert_non_null(values);
    for (int64_t k = 0; k < v.elements; k++) {
      uint32_t word[4];
      random_philox(11, (uint64_t)i, (uint64_t)k, word);
      values[k] = 0.3f * (2 * random_uniform(word[0]) - 1);
    }
    ASSERT_OK(neap_session_write(s, i, values));
    free(values);
  }
}

/* A within its bound and spread over it, B 0. The rest is as without adapters and frozen; the loss is the
 * same. */
static void test_first_values(void **state) {
  (void)state;
  struct neap_graph *graph = make_graph(BATCH, false);
  const neap_session_options without = {.seed = 5, .budget = NEAP_BUDGET_MAX};
  neap_session_options with = without;
  with.lora = 3;
  with.lora_layers = all_layers;
  struct neap_session *plain = make_session(graph, without), *s = make_session(graph, with);
  const int64_t outputs[LAYERS] = {WIDTH, WIDTH, 2 * WIDTH, 2 * WIDTH};
  for (int l = 0; l < LAYERS; l++) {
    neap_variable a, b;
    float *x = read_part(s, layer_names[l], "lora_A.weight", &a),
          *y = read_part(s, layer_names[l], "lora_B.weight", &b), most = 0;
    assert_true(a.rank == 2 && a.dims[0] == 3 && a.dims[1] == WIDTH && !a.frozen);
    assert_true(b.rank == 2 && b.dims[0] == outputs[l] && b.dims[1] == 3 && !b.frozen);
    for (int64_t i = 0; i < a.elements; i++) most = fmaxf(most, fabsf(x[i]));
    assert_true((double)most <= 1 / sqrt(WIDTH) && (double)most > 0.7 / sqrt(WIDTH));
    for (int64_t i = 0; i < b.elements; i++) assert_true(y[i] == 0);
    free(x), free(y);
  }
  for (int32_t i = 0; i < neap_session_variable_count(plain); i++) {
    neap_variable v, w;
    ASSERT_OK(neap_session_variable(plain, i, &v));
    if (v.kind != NEAP_VARIABLE_PARAMETER) continue;
    float *x = read_variable(plain, i, &v.elements), *y = read_variable(s, find(s, v.name, &w), &w.elements);
    assert_memory_equal(x, y, (size_t)v.elements * sizeof *x);
    assert_true(w.frozen);
    free(x), free(y);
  }
  neap_step_result first, second;
  fill_inputs(plain, 1, CLASSES);
  fill_inputs(s, 1, CLASSES);
  ASSERT_OK(neap_session_step(plain, 0, &first));
  ASSERT_OK(neap_session_step(s, 0, &second));
  assert_true(first.loss == second.loss && first.loss > 0);
  neap_session_free(plain), neap_session_free(s);
  neap_graph_free(graph);
}

/* ---- Gradients ---- */

static double loss_at(struct neap_session *s, int32_t index, float *values, int64_t element, float value) {
  const float before = values[element];
  neap_step_result result;
  values[element] = value;
  ASSERT_OK(neap_session_write(s, index, values));
  values[element] = before;
  fill_inputs(s, 3, CLASSES);
  ASSERT_OK(neap_session_evaluate(s, &result));
  return result.loss;
}

/* A step of plain SGD tells the gradients: those of A and B are the central differences of the loss, computed
 * in f64. */
static void test_gradients(void **state) {
  (void)state;
  struct neap_graph *graph = make_graph(BATCH, false);
  const neap_session_options o = {.seed = 5,
                                  .budget = NEAP_BUDGET_MAX,
                                  .backend = NEAP_REFERENCE,
                                  .lora = 2,
                                  .lora_alpha = 6,
                                  .lora_layers = all_layers};
  struct neap_session *s = make_session(graph, o), *stepped = make_session(graph, o);
  draw_b(s), draw_b(stepped);
  fill_inputs(stepped, 3, CLASSES);
  ASSERT_OK(neap_session_step(stepped, 1, NULL));
  int checked = 0;
  for (int32_t i = 0; i < neap_session_variable_count(s); i++) {
    neap_variable v;
    ASSERT_OK(neap_session_variable(s, i, &v));
    if (v.kind != NEAP_VARIABLE_PARAMETER) continue;
    float *before = read_variable(s, i, &v.elements), *after = read_variable(stepped, i, &v.elements);
    double largest = 0;
    for (int64_t k = 0; k < v.elements; k++)
      largest = fmax(largest, fabs((double)before[k] - (double)after[k]));
    assert_true(is_adapter(v.name) ? largest > 1e-4 : largest == 0);
    for (int64_t k = 0; is_adapter(v.name) && k < v.elements; k += 1 + v.elements / 8, checked++) {
      const float more = before[k] + 0.01f, less = before[k] - 0.01f;
      const double slope = (loss_at(s, i, before, k, more) - loss_at(s, i, before, k, less)) /
                           ((double)more - (double)less),
                   gradient = (double)before[k] - (double)after[k];
      if (fabs(slope - gradient) > 1e-3 * largest + 1e-6)
        fail_msg("%s[%lld]: %g, by differences %g", v.name, (long long)k, gradient, slope);
    }
    ASSERT_OK(neap_session_write(s, i, before));
    free(before), free(after);
  }
  assert_true(checked > 50);
  neap_session_free(s), neap_session_free(stepped);
  neap_graph_free(graph);
}

/* ---- Merged ---- */

/* Gives `merged`, which has no adapters, W + scale B A. */
static void merge(const struct neap_session *s, struct neap_session *merged, int rank, double scale) {
  for (int l = 0; l < LAYERS; l++) {
    neap_variable a, b, w;
    char name[64];
    snprintf(name, sizeof name, "%s.weight", layer_names[l]);
    float *x = read_part(s, layer_names[l], "lora_A.weight", &a),
          *y = read_part(s, layer_names[l], "lora_B.weight", &b);
    const int32_t index = find(merged, name, &w);
    float *values = read_variable(merged, index, &w.elements);
    const bool swapped = strcmp(layer_names[l], "a.v_proj") == 0; /* [inputs, outputs] */
    for (int64_t o = 0; o < b.dims[0]; o++)
      for (int64_t i = 0; i < a.dims[1]; i++) {
        double sum = 0;
        for (int64_t r = 0; r < rank; r++) sum += (double)y[o * rank + r] * (double)x[r * a.dims[1] + i];
        values[swapped ? i * b.dims[0] + o : o * a.dims[1] + i] += (float)(scale * sum);
      }
    ASSERT_OK(neap_session_write(merged, index, values));
    free(x), free(y), free(values);
  }
}

static void read_logits(struct neap_session *s, bool predicts, float *logits) {
  fill_inputs(s, 9, CLASSES);
  ASSERT_OK(predicts ? neap_session_predict(s) : neap_session_evaluate(s, NULL));
  ASSERT_OK(neap_session_output(s, "logits", NULL, logits));
}

/* Logits with adapters, of a session that trains and of one that predicts, are those of the merged weights.
 */
static void test_merged(void **state) {
  (void)state;
  enum { COUNT = BATCH * LENGTH * CLASSES, RANK = 3 };
  struct neap_graph *graph = make_graph(BATCH, false);
  for (int i = 0; i < 8; i++) {
    const bool predicts = i & 1, given = i & 2;
    const neap_session_options without = {.seed = 5,
                                          .budget = NEAP_BUDGET_MAX,
                                          .predict = predicts,
                                          .backend = i & 4 ? NEAP_REFERENCE : NEAP_CPU};
    neap_session_options with = without;
    float ours[COUNT], theirs[COUNT], first[COUNT], most = 0, moved = 0;
    with.lora = RANK;
    with.lora_alpha = given ? 5 : 0;
    with.lora_dropout = 0.5f; /* that an evaluation does without */
    with.lora_layers = all_layers;
    struct neap_session *s = make_session(graph, with), *merged = make_session(graph, without);
    draw_b(s);
    read_logits(merged, predicts, first);
    merge(s, merged, RANK, (given ? 5.0 : 8.0) / RANK);
    read_logits(s, predicts, ours);
    read_logits(merged, predicts, theirs);
    for (int k = 0; k < COUNT; k++) {
      most = fmaxf(most, fabsf(ours[k] - theirs[k]));
      moved = fmaxf(moved, fabsf(ours[k] - first[k]));
    }
    assert_true(most <= 2e-6f && moved > 0.1f);
    neap_session_free(s), neap_session_free(merged);
  }
  neap_graph_free(graph);
}

/* ---- Bits ---- */

static struct run_result train(int64_t batch, neap_session_options o, uint64_t budget, int steps) {
  struct neap_graph *graph = make_graph(batch, false);
  o.budget = budget;
  o.plan_quick = budget != NEAP_BUDGET_MIN;
  if (budget == NEAP_BUDGET_MIN) o.planner = "evict";
  struct neap_session *s = make_session(graph, o);
  draw_b(s);
  const struct run_result r = run_steps(s, steps, 0.05f, CLASSES);
  neap_session_free(s);
  neap_graph_free(graph);
  return r;
}

/* The same bits with everything kept, with 60 % of it where a plan has that, and with the least. */
static void test_budgets(void **state) {
  (void)state;
  const neap_session_options ways[] = {
      {.momentum = 0.9f, .lora_dropout = 0.3f},
      {.optimizer = NEAP_ADAMW, .clip_norm = 0.1f},
      {.optimizer = NEAP_ADAM, .ema = 0.9f},
      {.optimizer = NEAP_RMSPROP, .freeze = "*,!head.*"},
      {.optimizer = NEAP_LION, .micro_batches = 2, .lora_dropout = 0.3f},
      {.optimizer = NEAP_ADAMW, .precision = NEAP_BF16},
      {.optimizer = NEAP_ADAMW, .precision = NEAP_BF16, .master = true, .lora_dropout = 0.3f},
      {.precision = NEAP_F16, .dynamic_loss_scale = true},
      {.momentum = 0.9f, .store = "*=q8_0"},
      {.optimizer = NEAP_ADAMW, .store = "mlp.weight=q8_0", .precision = NEAP_BF16, .micro_batches = 2},
  };
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    neap_session_options o = ways[i];
    o.seed = 7;
    o.lora = 2;
    o.lora_layers = all_layers;
    const int64_t batch = 8;
    const struct run_result most = train(batch, o, NEAP_BUDGET_MAX, 4),
                            least = train(batch, o, NEAP_BUDGET_MIN, 4);
    const uint64_t all = most.memory.planned_peak, smallest = least.memory.planned_peak;
    assert_string_equal(least.digest, most.digest);
    assert_true(smallest < all && most.last.loss > 0);
    const uint64_t part = all * 6 / 10 > smallest ? all * 6 / 10 : (all + smallest) / 2;
    assert_string_equal(train(batch, o, part, 4).digest, most.digest);
  }
}

/* Two halves of a batch make the step of the whole one. */
static void test_micro_batches(void **state) {
  (void)state;
  struct neap_graph *whole_graph = make_graph(4, false), *half_graph = make_graph(2, false);
  neap_session_options o = {.seed = 5, .budget = NEAP_BUDGET_MAX, .lora = 2, .lora_layers = all_layers};
  struct neap_session *before = make_session(whole_graph, o), *whole = make_session(whole_graph, o);
  o.micro_batches = 2;
  struct neap_session *half = make_session(half_graph, o);
  draw_b(before), draw_b(whole), draw_b(half);
  fill_inputs(whole, 4, CLASSES);
  const float *x = neap_session_input(whole, "x");
  const int32_t *label = neap_session_input(whole, "label");
  for (int i = 0; i < 2; i++) {
    memcpy(neap_session_input(half, "x"), x + (ptrdiff_t)i * 2 * LENGTH * WIDTH,
           sizeof *x * 2 * LENGTH * WIDTH);
    memcpy(neap_session_input(half, "label"), label + (ptrdiff_t)i * 2 * LENGTH, sizeof *label * 2 * LENGTH);
    ASSERT_OK(neap_session_step(half, 0.5f, NULL));
  }
  ASSERT_OK(neap_session_step(whole, 0.5f, NULL));
  expect_alike(before, whole, half, "micro-batches", 1e-5);
  neap_session_free(before), neap_session_free(whole), neap_session_free(half);
  neap_graph_free(whole_graph), neap_graph_free(half_graph);
}

/* Adapters take less memory than training it all; a file of them is read into another session. */
static void test_memory_and_files(void **state) {
  (void)state;
  char path[] = "/tmp/neap-lora-XXXXXX", digest[65], again[65];
  const int descriptor = mkstemp(path);
  assert_true(descriptor >= 0);
  struct neap_graph *graph = make_graph(BATCH, false);
  neap_session_options o = {.seed = 5, .budget = NEAP_BUDGET_MAX, .optimizer = NEAP_ADAMW};
  struct neap_session *full = make_session(graph, o);
  o.lora = 1;
  struct neap_session *s = make_session(graph, o);
  neap_memory all, few;
  neap_session_memory(full, &all);
  run_steps(s, 2, 0.05f, CLASSES);
  neap_session_memory(s, &few);
  assert_true(few.states < all.states / 3 && few.parameters > all.parameters);
  ASSERT_OK(neap_session_save(s, path));
  ASSERT_OK(neap_session_digest(s, digest));
  o.seed = 9;
  struct neap_session *other = make_session(graph, o);
  ASSERT_OK(neap_session_load(other, path));
  ASSERT_OK(neap_session_digest(other, again));
  assert_string_equal(again, digest);
  neap_session_free(full), neap_session_free(s), neap_session_free(other);
  neap_graph_free(graph);
  close(descriptor);
  unlink(path);
}

/* ---- Which layers ---- */

enum { NAMES = 8 };
struct choice_case {
  const char *names[NAMES]; /* of linear layers, one after the other; behind them comes "head" */
  const char *layers;       /* what is asked for */
  const char *chosen;       /* their names, with a space behind each */
};

static struct neap_graph *make_chain(const char *const *names) {
  neap_builder *b = neap_builder_create("chain");
  struct neap_graph *graph;
  neap_tensor x = neap_input(b, "x", NEAP_F32, 2, (int64_t[]){BATCH, WIDTH});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){BATCH});
  for (int i = 0; i < NAMES && names[i] != NULL; i++)
    x = neap_relu(b, neap_linear_with(b, x, weight(b, names[i], WIDTH, WIDTH), -1));
  x = neap_linear_with(b, x, weight(b, "head.weight", CLASSES, WIDTH), -1);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph));
  neap_builder_free(b);
  return graph;
}

static void test_layers(void **state) {
  (void)state;
#define LLAMA                                                                                                \
  { "l.q_proj.weight", "l.k_proj.weight", "l.v_proj.weight", "l.o_proj.weight", "l.up_proj.weight" }
#define GPT2                                                                                                 \
  { "h.0.attn.c_attn.weight", "h.0.attn.c_proj.weight", "h.0.mlp.c_fc.weight", "h.0.mlp.c_proj.weight" }
#define BERT                                                                                                 \
  {                                                                                                          \
    "l.attention.self.query.weight", "l.attention.self.key.weight", "l.attention.self.value.weight",         \
        "l.attention.output.dense.weight", "l.output.dense.weight"                                           \
  }
#define OURS                                                                                                 \
  { "block1.qkv.weight", "block1.projection.weight", "block1.hidden.weight" }
  static const struct choice_case cases[] = {
      {LLAMA, NULL, "l.q_proj l.v_proj "},
      {LLAMA, "attention", "l.q_proj l.k_proj l.v_proj l.o_proj "},
      {LLAMA, "all", "l.q_proj l.k_proj l.v_proj l.o_proj l.up_proj "},
      {LLAMA, "*,!*_proj*", "head "},
      {LLAMA, "*_proj.weight,!k_proj,!l.o_*", "l.q_proj l.v_proj l.up_proj "},
      {LLAMA, "q_proj,head", "l.q_proj head "},
      {GPT2, NULL, "h.0.attn.c_attn "},
      {GPT2, "attention", "h.0.attn.c_attn h.0.attn.c_proj "},
      {GPT2, "c_proj", "h.0.attn.c_proj h.0.mlp.c_proj "},
      {BERT, NULL, "l.attention.self.query l.attention.self.value "},
      {BERT, "attention",
       "l.attention.self.query l.attention.self.key l.attention.self.value l.attention.output.dense "},
      {OURS, NULL, "block1.qkv "},
      {OURS, "attention", "block1.qkv block1.projection "},
      {OURS, "all", "block1.qkv block1.projection block1.hidden "},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct neap_graph *graph = make_chain(cases[i].names);
    struct neap_session *s = make_session(
        graph, (neap_session_options){.lora = 2, .budget = NEAP_BUDGET_MAX, .lora_layers = cases[i].layers});
    char chosen[512] = "";
    for (int32_t k = 0; k < neap_session_variable_count(s); k++) {
      neap_variable v;
      ASSERT_OK(neap_session_variable(s, k, &v));
      const char *end = strstr(v.name, ".lora_A.weight");
      if (v.kind != NEAP_VARIABLE_PARAMETER || end == NULL) continue;
      const size_t length = strlen(chosen);
      snprintf(chosen + length, sizeof chosen - length, "%.*s ", (int)(end - v.name), v.name);
    }
    assert_string_equal(chosen, cases[i].chosen);
    neap_session_free(s);
    neap_graph_free(graph);
  }
}

/* A matrix that two products share has one adapter, which both use. */
static void test_shared(void **state) {
  (void)state;
  neap_builder *b = neap_builder_create("shared");
  struct neap_graph *graph;
  neap_tensor x = neap_input(b, "x", NEAP_F32, 2, (int64_t[]){BATCH, WIDTH});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){BATCH}),
                    w = weight(b, "w.weight", WIDTH, WIDTH);
  for (int i = 0; i < 2; i++) x = neap_gelu(b, neap_linear_with(b, x, w, -1));
  x = neap_linear_with(b, x, weight(b, "head.weight", CLASSES, WIDTH), -1);
  neap_output(b, "logits", x);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph));
  neap_builder_free(b);
  struct neap_session *s = make_session(graph, (neap_session_options){.budget = NEAP_BUDGET_MAX,
                                                                      .lora = 2,
                                                                      .lora_alpha = 2,
                                                                      .lora_layers = "all"}),
                      *merged = make_session(graph, (neap_session_options){.budget = NEAP_BUDGET_MAX});
  neap_variable v, a, e;
  float ours[BATCH * CLASSES], theirs[BATCH * CLASSES];
  draw_b(s);
  float *values = read_part(merged, "w", "weight", &v), *x_a = read_part(s, "w", "lora_A.weight", &a),
        *x_b = read_part(s, "w", "lora_B.weight", &e);
  for (int64_t k = 0; k < WIDTH * WIDTH; k++)
    for (int64_t r = 0; r < 2; r++) values[k] += x_b[k / WIDTH * 2 + r] * x_a[r * WIDTH + k % WIDTH];
  ASSERT_OK(neap_session_write(merged, find_variable(merged, "w.weight"), values));
  read_logits(s, false, ours);
  read_logits(merged, false, theirs);
  for (int k = 0; k < BATCH * CLASSES; k++) assert_true(fabsf(ours[k] - theirs[k]) <= 2e-6f);
  free(values), free(x_a), free(x_b);
  neap_session_free(s), neap_session_free(merged);
  neap_graph_free(graph);
}

/* ---- Heads ---- */

/* A layer on embedded tokens and a head, whose logits have a bias and a cap behind them. */
static struct neap_graph *make_capped(bool tied) {
  neap_builder *b = neap_builder_create("capped");
  struct neap_graph *graph;
  const neap_tensor ids = neap_input(b, "tokens", NEAP_I32, 1, (int64_t[]){BATCH}),
                    label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){BATCH}),
                    table = weight(b, "embed.weight", CLASSES, WIDTH),
                    x = neap_gelu(b, neap_linear_with(b, neap_gather(b, table, ids),
                                                      weight(b, "up.weight", WIDTH, WIDTH), -1)),
                    w = tied ? table : weight(b, "head.weight", CLASSES, WIDTH),
                    bias =
                        neap_parameter(b, "head.bias", 1, (int64_t[]){CLASSES}, (neap_parameter_options){0}),
                    y = neap_add(b, neap_linear_with(b, x, w, -1), bias),
                    capped = neap_scale(b, neap_tanh(b, neap_scale(b, y, 0.5f, 0)), 2, 0);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, capped, label, 0), &graph));
  neap_builder_free(b);
  return graph;
}

static int32_t count_adapters(const struct neap_graph *graph, const char *layers) {
  int32_t count = 0;
  struct neap_session *s = make_session(
      graph, (neap_session_options){.lora = 2, .budget = NEAP_BUDGET_MAX, .lora_layers = layers});
  for (int32_t i = 0; i < neap_session_variable_count(s); i++) {
    neap_variable v;
    ASSERT_OK(neap_session_variable(s, i, &v));
    count += v.kind == NEAP_VARIABLE_PARAMETER && strstr(v.name, ".lora_A.weight") != NULL;
  }
  neap_session_free(s);
  return count;
}

static void expect_refused(const struct neap_graph *graph, neap_session_options o, neap_status status,
                           const char *message) {
  struct neap_session *s = NULL;
  assert_int_equal(neap_session_create(graph, &o, NULL, &s), status);
  if (strstr(neap_error_message(), message) == NULL) fail_msg("not '%s': %s", message, neap_error_message());
}

/* What stands behind a head does not make it another layer. One that is the embedding, too, has no adapter.
 */
static void test_heads(void **state) {
  (void)state;
  struct neap_graph *own = make_capped(false), *tied = make_capped(true);
  assert_int_equal(count_adapters(own, "all"), 1);
  assert_int_equal(count_adapters(own, "*"), 2);
  assert_int_equal(count_adapters(tied, "all"), 1);
  assert_int_equal(count_adapters(tied, "*,!embed"), 1);
  for (const char *const *layers = (const char *const[]){"*", "embed", "up,emb*", NULL}; *layers != NULL;
       layers++)
    expect_refused(tied, (neap_session_options){.lora = 2, .lora_layers = *layers}, NEAP_INVALID_ARGUMENT,
                   "'embed.weight' is the embedding and the head of 'capped'");
  neap_graph_free(own);
  neap_graph_free(tied);
}

/* ---- What is refused ---- */

static void test_refusals(void **state) {
  (void)state;
  const neap_status bad = NEAP_INVALID_ARGUMENT;
  struct neap_graph *graph = make_graph(BATCH, true);
  expect_refused(graph, (neap_session_options){.lora = 2, .lora_layers = "q_proj,gate"}, bad,
                 "no linear layer that 'gate' matches; its first linear weight is 'a.q_proj.weight'");
  expect_refused(graph, (neap_session_options){.lora = 2, .lora_layers = "*.bias"}, bad,
                 "that '*.bias' matches");
  expect_refused(graph, (neap_session_options){.lora = 2, .lora_layers = "mlp,!mlp"}, bad, "is named by");
  expect_refused(graph, (neap_session_options){.lora = 2, .lora_layers = "head"}, bad,
                 "'head.weight' is part of the loss");
  expect_refused(graph, (neap_session_options){.lora = -1}, bad, "lora -1: must not be negative");
  expect_refused(graph, (neap_session_options){.lora = 2, .lora_dropout = 1}, bad, "lora dropout 1");
  expect_refused(graph, (neap_session_options){.lora = 2, .lora_alpha = -1}, bad, "lora alpha -1");
  expect_refused(graph, (neap_session_options){.lora = 2, .sparse_density = 0.5}, NEAP_UNSUPPORTED,
                 "(`lora`) cannot be combined with sparse parameters (`sparse`)");
  expect_refused(graph, (neap_session_options){.lora = 2, .store = "*.lora_A.weight=q8_0"}, bad,
                 "store: 'net' has no parameter that '*.lora_A.weight' matches");
  neap_graph_free(graph);

  graph = make_chain((const char *const[]){"a.weight", NULL});
  expect_refused(graph, (neap_session_options){.lora = 2}, bad, "is named by the usual list");
  neap_graph_free(graph);

  neap_builder *b = neap_builder_create("images");
  const neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){BATCH, 3, 5, 5}),
                    label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){BATCH}),
                    y = neap_conv(b, x, (neap_conv_options){.filters = 4, .size = 3}),
                    logits = neap_linear(b, neap_flatten(b, y), CLASSES, true);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, logits, label, 0), &graph));
  neap_builder_free(b);
  expect_refused(graph, (neap_session_options){.lora = 2, .lora_layers = "conv1.*"}, bad,
                 "no linear layer that 'conv1.*' matches; its first linear weight is 'linear1.weight'");
  expect_refused(graph, (neap_session_options){.lora = 2, .lora_layers = "all"}, bad, "is named by all");
  neap_graph_free(graph);
}

int run_test_lora(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_values),  cmocka_unit_test(test_gradients),
      cmocka_unit_test(test_merged),        cmocka_unit_test(test_budgets),
      cmocka_unit_test(test_micro_batches), cmocka_unit_test(test_memory_and_files),
      cmocka_unit_test(test_layers),        cmocka_unit_test(test_shared),
      cmocka_unit_test(test_heads),         cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
