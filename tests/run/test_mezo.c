/* Training by forward passes alone (MeZO): the authors' formula with the same noise, the same bits with every
 * plan, number of threads, ranks and from a file, in about the memory of an evaluation. */
#include <math.h>
#include <unistd.h>

#include "effort.h"
#include "session_help.h"

#include "kernel/random_stream.h"

enum { BATCH = 6, CLASSES = 7, INPUTS = 21, HIDDEN = 37, STEPS = 20, SEED = 3 };

static const float epsilon = 0.01f, rate = 2e-3f, decay = 0.1f;

/* With dropout, which is off, and rows whose noise begins within a block. */
static neap_graph *build_mlp(void) {
  neap_graph *graph = NULL;
  neap_builder *b = neap_builder_create("mlp");
  neap_tensor x = neap_input(b, "image", NEAP_F32, 2, (int64_t[]){BATCH, INPUTS});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){BATCH});
  x = neap_dropout(b, neap_relu(b, neap_linear(b, x, HIDDEN, true)), 0.3f);
  x = neap_linear(b, x, CLASSES, true);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0.1f), &graph));
  neap_builder_free(b);
  return graph;
}

/* With a convolution, whose weights are read in other formats, and batch norm by its running statistics. */
static neap_graph *build_images(void) {
  neap_graph *graph = NULL;
  neap_builder *b = neap_builder_create("images");
  neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){BATCH, 3, 8, 8});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){BATCH});
  for (int layer = 0; layer < 2; layer++) {
    x = neap_conv(b, x, (neap_conv_options){.filters = 16, .size = 3, .padding = 1});
    x = neap_relu(b, neap_batch_norm(b, x, (neap_batch_norm_options){0}));
  }
  x = neap_linear(b, neap_flatten(b, x), CLASSES, true);
  neap_output(b, "logits", x);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph));
  neap_builder_free(b);
  return graph;
}

/* The model of this name; "mlp" and "images" are those above. */
static neap_graph *build(const char *name) {
  neap_graph *graph = NULL;
  if (strcmp(name, "mlp") == 0) return build_mlp();
  if (strcmp(name, "images") == 0) return build_images();
  ASSERT_OK(build_named(name, &(neap_model_options){.batch = 2, .length = 9, .classes = CLASSES}, &graph));
  return graph;
}

static neap_session *open_session(const neap_graph *graph, neap_session_options options) {
  neap_session *s = NULL;
  options.seed = SEED;
  options.weight_decay = decay;
  options.mezo_epsilon = epsilon;
  if (options.threads == 0) options.threads = 2;
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  return s;
}

/* ---- The formula ---- */

/* Element `i` of the noise of a parameter, in double, from the words of its counter. */
static double noise(const char *name, uint64_t step, int64_t i) {
  static const double pi = 3.14159265358979323846;
  uint32_t words[4];
  random_philox(SEED ^ random_name(RANDOM_NO_NAME, name), noise_stream(step), (uint64_t)i / 4, words);
  const uint32_t *w = words + (i % 4 < 2 ? 0 : 2);
  const double size = (floor(w[0] / 256.0) + 1) / 16777216.0, turn = floor(w[1] / 256.0) / 4194304.0;
  const double radius = sqrt(-2 * log(size)), angle = (turn - 0.5) * pi / 2;
  return radius * (i % 2 == 0 ? cos(angle) : sin(angle));
}

/* The parameters of a model in double, which the oracle moves; and an evaluation of them. */
struct oracle {
  neap_session *evaluation; /* of the reference backend */
  double *values[64];
  bool by_hand; /* it is build_mlp's, of which the loss is computed here */
};

static void open_oracle(struct oracle *o, const neap_graph *graph, const neap_session *like,
                        neap_session_options options) {
  options.backend = NEAP_REFERENCE;
  options.mezo = false;
  options.budget = NEAP_BUDGET_MAX;
  options.seed = SEED;
  ASSERT_OK(neap_session_create(graph, &options, NULL, &o->evaluation));
  for (int32_t i = 0; i < neap_session_variable_count(like); i++) {
    int64_t count;
    float *values = read_variable(like, i, &count);
    o->values[i] = malloc((size_t)count * sizeof *o->values[i]);
    assert_non_null(o->values[i]);
    for (int64_t e = 0; e < count; e++) o->values[i][e] = (double)values[e];
    free(values);
  }
}

/* The loss of build_mlp without its dropout, by hand. `w`: its parameters. */
static double mlp_loss(const float *const w[4], const float *images, const int32_t *labels) {
  double sum = 0;
  for (int n = 0; n < BATCH; n++) {
    double hidden[HIDDEN], logits[CLASSES], total = 0, mean = 0;
    for (int h = 0; h < HIDDEN; h++) {
      hidden[h] = (double)w[1][h];
      for (int i = 0; i < INPUTS; i++)
        hidden[h] += (double)w[0][h * INPUTS + i] * (double)images[n * INPUTS + i];
      if (hidden[h] < 0) hidden[h] = 0;
    }
    for (int c = 0; c < CLASSES; c++) {
      logits[c] = (double)w[3][c];
      for (int h = 0; h < HIDDEN; h++) logits[c] += (double)w[2][c * HIDDEN + h] * hidden[h];
      total += exp(logits[c]);
      mean += logits[c] / CLASSES;
    }
    sum += log(total) - 0.9 * logits[labels[n]] - 0.1 * mean;
  }
  return sum / BATCH;
}

static bool is_moved(const neap_session *s, int32_t i, neap_variable *v) {
  ASSERT_OK(neap_session_variable(s, i, v));
  return v->kind == NEAP_VARIABLE_PARAMETER && !v->frozen;
}

/* The loss with the weights moved by a factor of the noise. */
static double loss_at(const struct oracle *o, const neap_session *s, uint64_t step, double factor) {
  neap_step_result result;
  neap_variable v;
  float *kept[4] = {NULL};
  for (int32_t i = 0; i < neap_session_variable_count(s); i++) {
    if (!is_moved(s, i, &v)) continue;
    float *moved = malloc((size_t)v.elements * sizeof *moved);
    assert_non_null(moved);
    for (int64_t e = 0; e < v.elements; e++)
      moved[e] = (float)(o->values[i][e] + factor * noise(v.name, step, e));
    ASSERT_OK(neap_session_write(o->evaluation, find_variable(o->evaluation, v.name), moved));
    if (o->by_hand)
      kept[i] = moved;
    else
      free(moved);
  }
  fill_inputs(o->evaluation, step + 1, CLASSES);
  if (o->by_hand) {
    const double loss = mlp_loss((const float *const *)kept, neap_session_input(o->evaluation, "image"),
                                 neap_session_input(o->evaluation, "label"));
    for (int i = 0; i < 4; i++) free(kept[i]);
    return loss;
  }
  ASSERT_OK(neap_session_evaluate(o->evaluation, &result));
  return result.loss;
}

/* One step of the oracle; its loss. */
static double step_oracle(const struct oracle *o, const neap_session *s, uint64_t step) {
  neap_variable v;
  const double above = loss_at(o, s, step, (double)epsilon), below = loss_at(o, s, step, -(double)epsilon),
               slope = (above - below) / (2 * (double)epsilon);
  for (int32_t i = 0; i < neap_session_variable_count(s); i++)
    for (int64_t e = 0; is_moved(s, i, &v) && e < v.elements; e++)
      o->values[i][e] -= (double)rate * (slope * noise(v.name, step, e) + (double)decay * o->values[i][e]);
  return (above + below) / 2;
}

/* Asserts that the variables of a session are those of the oracle, but for rounding. */
static void compare(const char *what, const struct oracle *o, const neap_session *s,
                    const neap_session *before, double tolerance) {
  neap_variable v;
  for (int32_t i = 0; i < neap_session_variable_count(s); i++) {
    int64_t count;
    float *now = read_variable(s, i, &count), *first = read_variable(before, i, &count);
    double moved = 0, off = 0;
    const bool moves = is_moved(s, i, &v);
    for (int64_t e = 0; e < count; e++) {
      moved = fmax(moved, fabs((double)now[e] - (double)first[e]));
      off = fmax(off, fabs((double)now[e] - o->values[i][e]));
    }
    if (moves != (moved > 0)) fail_msg("%s: '%s' has moved by %g", what, v.name, moved);
    if (!(off <= tolerance * moved)) fail_msg("%s: '%s' is off by %g of %g", what, v.name, off, moved);
    free(now);
    free(first);
  }
}

static void free_oracle(struct oracle *o) {
  for (int32_t i = 0; i < neap_session_variable_count(o->evaluation); i++) free(o->values[i]);
  neap_session_free(o->evaluation);
}

static const struct model {
  const char *name;
  neap_session_options options;
} models[] = {
    {"mlp", {.budget = NEAP_BUDGET_MAX}},
    {"mlp", {.budget = NEAP_BUDGET_MAX, .backend = NEAP_REFERENCE}},
    {"images", {.budget = NEAP_BUDGET_MAX}},
    {"llama-2x32x4x2", {.budget = NEAP_BUDGET_MAX}},
    {"llama-2x32x4x2", {.budget = NEAP_BUDGET_MIN, .planner = "evict"}},
    {"llama-2x32x4x2", {.budget = NEAP_BUDGET_MAX, .lora = 4, .base = "q8_0"}},
    {"gpt-2x32x4", {.budget = NEAP_BUDGET_MAX, .freeze = "*,!*norm*"}},
};

/* Sessions of f32 differ from the oracle by the rounding of losses, whose difference is divided by epsilon.
 */
static void test_formula(void **state) {
  (void)state;
  for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
    neap_session_options options = models[m].options;
    options.mezo = true;
    neap_graph *graph = build(models[m].name);
    neap_session *s = open_session(graph, options), *before = open_session(graph, options);
    struct oracle oracle = {.by_hand = strcmp(models[m].name, "mlp") == 0};
    open_oracle(&oracle, graph, s, models[m].options);
    for (uint64_t k = 0; k < STEPS; k++) {
      neap_step_result result;
      fill_inputs(s, k + 1, CLASSES);
      ASSERT_OK(neap_session_step(s, rate, &result));
      const double loss = step_oracle(&oracle, s, k);
      if (!(fabs(result.loss - loss) <= 1e-5 * loss))
        fail_msg("%s: step %d has the loss %.9g, not %.9g", models[m].name, (int)k, result.loss, loss);
    }
    compare(models[m].name, &oracle, s, before, options.backend == NEAP_REFERENCE ? 1e-4 : 2e-3);
    free_oracle(&oracle);
    neap_session_free(s);
    neap_session_free(before);
    neap_graph_free(graph);
  }
}

/* ---- The same bits ---- */

/* A session of a model after some steps, from a file in between where `resumes`. */
static struct run_result run_model(const char *name, neap_session_options options, bool resumes) {
  enum { BEFORE = 3, ALL = 6 };
  char path[] = "/tmp/neap-mezo-XXXXXX";
  neap_graph *graph = build(name);
  neap_session *s = open_session(graph, options);
  struct run_result result;
  for (int i = 0; i < ALL; i++) {
    if (resumes && i == BEFORE) {
      close(mkstemp(path));
      ASSERT_OK(neap_session_save(s, path));
      neap_session_free(s);
      s = open_session(graph, options);
      ASSERT_OK(neap_session_load(s, path));
      unlink(path);
    }
    const int32_t parts = options.micro_batches > 1 ? options.micro_batches : 1;
    for (int32_t part = 0; part < parts; part++) {
      fill_inputs(s, (uint64_t)(i * parts + part) + 1, CLASSES);
      ASSERT_OK(neap_session_step(s, rate, &result.last));
    }
  }
  ASSERT_OK(neap_session_digest(s, result.digest));
  neap_session_memory(s, &result.memory);
  assert_int_equal(result.memory.measured_peak, result.memory.planned_peak);
  neap_session_free(s);
  neap_graph_free(graph);
  return result;
}

static void test_plans(void **state) {
  (void)state;
  static const struct model cases[] = {
      {"mlp", {.micro_batches = 3}},
      {"images", {.ema = 0.9f}},
      {"images", {.precision = NEAP_BF16}},
      {"images", {.precision = NEAP_BF16, .master = true}},
      {"images", {.bits = NEAP_BITS_PORTABLE}},
      {"llama-2x32x4x2", {0}},
      {"llama-2x32x4x2", {.lora = 4, .lora_dora = true, .base = "q8_0"}},
      {"llama-2x32x4x2", {.precision = NEAP_BF16, .micro_batches = 2}},
  };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    neap_session_options options = cases[c].options;
    options.mezo = true;
    options.planner = quick_planner();
    options.budget = NEAP_BUDGET_MAX;
    const struct run_result most = run_model(cases[c].name, options, false),
                            resumed = run_model(cases[c].name, options, true);
    options.budget = NEAP_BUDGET_MIN;
    const struct run_result least = run_model(cases[c].name, options, true);
    options.budget_fraction = 0.6;
    if (0.6 * (double)most.memory.keep_all < (double)least.memory.planned_peak)
      options.budget_fraction = (double)least.memory.planned_peak / (double)most.memory.keep_all + 1e-3;
    const struct run_result some = run_model(cases[c].name, options, false);
    options.threads = 1;
    const struct run_result alone = run_model(cases[c].name, options, false);
    assert_true(least.memory.planned_peak <= some.memory.planned_peak);
    const struct run_result *const others[] = {&resumed, &least, &some, &alone};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
      if (i == 3 && options.bits != NEAP_BITS_PORTABLE) continue; /* sums by thread */
      if (strcmp(most.digest, others[i]->digest) != 0) fail_msg("case %zu: run %zu has other bits", c, i);
    }
  }
}

/* ---- Memory ---- */

/* There are no states and no gradients: what a session takes is near what a session that predicts does, and
 * far below that of training. */
static void test_memory(void **state) {
  (void)state;
  static const char *const names[] = {"llama-2x32x4x2", "gpt-2x32x4", "images"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const neap_session_options options = {.budget = NEAP_BUDGET_MAX, .mezo = true};
    neap_graph *graph = build(names[i]);
    neap_session *s = open_session(graph, options), *trained, *predicting;
    neap_memory mezo, training, prediction;
    ASSERT_OK(neap_session_create(graph, &(neap_session_options){.budget = NEAP_BUDGET_MAX}, NULL, &trained));
    ASSERT_OK(neap_session_create(graph, &(neap_session_options){.budget = NEAP_BUDGET_MAX, .predict = true},
                                  NULL, &predicting));
    fill_inputs(s, 1, CLASSES);
    ASSERT_OK(neap_session_step(s, rate, NULL));
    neap_session_memory(s, &mezo);
    neap_session_memory(trained, &training);
    neap_session_memory(predicting, &prediction);
    assert_int_equal(mezo.measured_peak, mezo.planned_peak);
    const uint64_t running = mezo.states; /* of batch norm */
    assert_int_equal(mezo.resident, mezo.parameters + running + mezo.inputs);
    if (!((double)mezo.planned_peak <= 1.1 * (double)prediction.planned_peak &&
          mezo.planned_peak < training.planned_peak))
      fail_msg("%s: %llu bytes; a prediction takes %llu, training %llu", names[i],
               (unsigned long long)mezo.planned_peak, (unsigned long long)prediction.planned_peak,
               (unsigned long long)training.planned_peak);
    neap_session_free(s);
    neap_session_free(trained);
    neap_session_free(predicting);
    neap_graph_free(graph);
  }
}

/* ---- Learning ---- */

/* The loss of one batch falls, in micro-batches too. */
static void test_learns(void **state) {
  (void)state;
  enum { ALL = 600 };
  for (int32_t parts = 1; parts <= 2; parts++) {
    neap_graph *graph = build("mlp");
    neap_session *s = open_session(
        graph, (neap_session_options){.budget = NEAP_BUDGET_MAX, .mezo = true, .micro_batches = parts});
    double first = 0, last = 0;
    for (int i = 0; i < ALL; i++)
      for (int32_t part = 0; part < parts; part++) {
        neap_step_result result;
        fill_inputs(s, (uint64_t)part + 1, CLASSES);
        ASSERT_OK(neap_session_step(s, rate, &result));
        if (i == 0) first += result.loss / parts;
        if (i == ALL - 1) last += result.loss / parts;
      }
    if (!(last < 0.8 * first)) fail_msg("%d micro-batches: the loss goes from %g to %g", parts, first, last);
    neap_session_free(s);
    neap_graph_free(graph);
  }
}

/* ---- Refusals ---- */

static void test_refusals(void **state) {
  (void)state;
  static const neap_collective two = {.size = 2};
  static const struct {
    neap_session_options options;
    const char *words;
  } cases[] = {{{.optimizer = NEAP_ADAMW}, "its update is that of sgd (got optimizer adamw)"},
               {{.lora = 4, .lora_dropout = 0.1f}, "lora dropout"},
               {{.momentum = 0.9f}, "momentum"},
               {{.clip_value = 1}, "clip value"},
               {{.clip_norm = 1}, "clip norm"},
               {{.gradient_norm = true}, "gradient norm"},
               {{.loss_scale = 8}, "loss scale"},
               {{.dynamic_loss_scale = true}, "loss scale"},
               {{.sparse_density = 0.5}, "sparse training"},
               {{.shard = NEAP_SHARD_ALL, .collective = &two, .micro_batches = 2}, "shard all"}};
  neap_graph *graph = build("mlp");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    neap_step *step = NULL;
    neap_session_options options = cases[i].options;
    options.mezo = true;
    expect_failure(neap_step_from_graph(graph, &options, &step), NEAP_UNSUPPORTED, cases[i].words);
    assert_memory_equal(neap_error_message(), "mezo: ", strlen("mezo: "));
  }
  neap_graph_free(graph);
}

int run_test_mezo(void) {
  static const struct CMUnitTest tests[] = {cmocka_unit_test(test_formula), cmocka_unit_test(test_plans),
                                            cmocka_unit_test(test_memory), cmocka_unit_test(test_learns),
                                            cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
