/* Networks of pairs of sequences: padding changes nothing, nor do plans and micro-batches; they train in
 * every storage and with sparse layers; dropout stands where it should. */
#include <math.h>

#include "effort.h"
#include "op/op.h"
#include "session_help.h"

enum { PAIRS = 4, SOURCE = 9, TARGET = 7, WIDER = 6, WORDS = 11 };

static const char *const models[] = {"transformer-16", "lightconv-16", "dynamicconv-16"};
enum { MODELS = sizeof models / sizeof *models };

/* Pairs of any lengths, at least 1. */
struct pairs {
  int32_t source[PAIRS][SOURCE], source_length[PAIRS], tokens[PAIRS][TARGET], label[PAIRS][TARGET];
};

static int32_t draw(uint64_t seed, uint64_t number, uint64_t count) {
  uint32_t word[4];
  random_philox(seed, number, 0, word);
  return (int32_t)random_below(word[0], count);
}

static struct pairs draw_pairs(uint64_t seed) {
  struct pairs p;
  uint64_t next = 0;
  for (int n = 0; n < PAIRS; n++) {
    p.source_length[n] = 1 + draw(seed, next++, SOURCE);
    const int count = 1 + draw(seed, next++, TARGET);
    for (int t = 0; t < SOURCE; t++) p.source[n][t] = t < p.source_length[n] ? draw(seed, next++, WORDS) : -1;
    for (int t = 0; t < TARGET; t++) p.tokens[n][t] = draw(seed, next++, WORDS);
    for (int t = 0; t < TARGET; t++) p.label[n][t] = t < count ? draw(seed, next++, WORDS) : -1;
  }
  return p;
}

/* Labels are smoothed by 0.1; a smoothing below 0: they are not. */
static neap_session *open_pairs(const char *model, neap_model_options shape, neap_session_options options) {
  neap_graph *graph;
  neap_session *s = NULL;
  shape.classes = WORDS;
  shape.smoothing = shape.smoothing < 0 ? 0 : 0.1f;
  if (shape.batch == 0) shape.batch = PAIRS;
  if (shape.length == 0) shape.length = TARGET;
  if (shape.source_length == 0) shape.source_length = SOURCE;
  if (options.threads == 0) options.threads = 2;
  options.seed = 3;
  options.plan_quick = true;
  if (quick_pass()) options.planner = "evict"; /* which plans at once */
  ASSERT_OK(build_named(model, &shape, &graph));
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  neap_graph_free(graph);
  return s;
}

static void put_rows(void *to, const int32_t *from, int count, int length, int wide, int32_t padding) {
  int32_t *rows = to;
  for (int n = 0; n < count; n++)
    for (int t = 0; t < wide; t++) rows[n * wide + t] = t < length ? from[n * length + t] : padding;
}

/* `count` pairs from `first` on, in sequences that are `more` longer. */
static void put(neap_session *s, const struct pairs *p, int first, int count, int more) {
  put_rows(neap_session_input(s, "source"), p->source[first], count, SOURCE, SOURCE + more, -1);
  put_rows(neap_session_input(s, "tokens"), p->tokens[first], count, TARGET, TARGET + more, 2);
  if (neap_session_input(s, "label") != NULL) /* not of one that predicts */
    put_rows(neap_session_input(s, "label"), p->label[first], count, TARGET, TARGET + more, -1);
}

static double step(neap_session *s, const struct pairs *p, float rate, int more) {
  neap_step_result result;
  put(s, p, 0, PAIRS, more);
  ASSERT_OK(neap_session_step(s, rate, &result));
  return result.loss;
}

/* Largest difference of an element of the variables of two sessions. */
static double difference(const neap_session *a, const neap_session *b) {
  double worst = 0;
  const int32_t count = neap_session_variable_count(a);
  assert_int_equal(neap_session_variable_count(b), count);
  for (int32_t v = 0; v < count; v++) {
    int64_t elements, same;
    float *x = read_variable(a, v, &elements), *y = read_variable(b, v, &same);
    assert_int_equal(same, elements);
    for (int64_t i = 0; i < elements; i++) worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
    free(x);
    free(y);
  }
  return worst;
}

/* The same pairs in longer sequences, which begin with the same parameters: what is behind a source or a
 * label changes the loss and the step by rounding alone. The step itself is larger. */
static void test_padding(void **state) {
  (void)state;
  const neap_session_options options = {.budget = NEAP_BUDGET_MAX};
  const struct pairs pairs = draw_pairs(1);
  for (int m = 0; m < MODELS; m++) {
    const neap_model_options wide = {.length = TARGET + WIDER, .source_length = SOURCE + WIDER};
    neap_session *a = open_pairs(models[m], (neap_model_options){0}, options),
                 *b = open_pairs(models[m], wide, options),
                 *begin = open_pairs(models[m], (neap_model_options){0}, options);
    assert_true(difference(a, b) == 0);
    const double expected = step(a, &pairs, 0.5f, 0), loss = step(b, &pairs, 0.5f, WIDER);
    if (!(fabs(loss - expected) <= 1e-6 * expected))
      fail_msg("%s: with more padding the loss is %.9g, not %.9g", models[m], loss, expected);
    const double off = difference(a, b);
    if (!(off <= 1e-6)) fail_msg("%s: with more padding a step is off by %g", models[m], off);
    assert_true(difference(a, begin) > 1e-2);
    neap_session_free(a);
    neap_session_free(b);
    neap_session_free(begin);
  }
}

/* Words of the source that count change the loss; a later word of the target none before it. */
static void test_what_is_seen(void **state) {
  (void)state;
  const neap_session_options options = {.budget = NEAP_BUDGET_MAX};
  for (int m = 0; m < MODELS; m++) {
    neap_session *s = open_pairs(models[m], (neap_model_options){0}, options);
    struct pairs pairs = draw_pairs(2);
    neap_step_result before, after;
    for (int n = 0; n < PAIRS; n++) pairs.label[n][TARGET - 1] = -1;
    put(s, &pairs, 0, PAIRS, 0);
    ASSERT_OK(neap_session_evaluate(s, &before));
    for (int n = 0; n < PAIRS; n++) pairs.tokens[n][TARGET - 1] = (pairs.tokens[n][TARGET - 1] + 1) % WORDS;
    put(s, &pairs, 0, PAIRS, 0);
    ASSERT_OK(neap_session_evaluate(s, &after));
    assert_true(after.loss == before.loss);
    pairs.source[0][pairs.source_length[0] - 1] = (pairs.source[0][pairs.source_length[0] - 1] + 1) % WORDS;
    put(s, &pairs, 0, PAIRS, 0);
    ASSERT_OK(neap_session_evaluate(s, &after));
    assert_true(after.loss != before.loss);
    neap_session_free(s);
  }
}

/* The loss of logits [PAIRS, TARGET, WORDS], without smoothing. */
static double loss_of_logits(const float *logits, const struct pairs *p) {
  double sum = 0;
  int count = 0;
  for (int n = 0; n < PAIRS; n++)
    for (int t = 0; t < TARGET; t++) {
      const float *row = logits + (n * TARGET + t) * WORDS;
      double exponentials = 0;
      if (p->label[n][t] < 0) continue;
      for (int w = 0; w < WORDS; w++) exponentials += exp((double)row[w]);
      sum += log(exponentials) - (double)row[p->label[n][t]];
      count++;
    }
  return sum / count;
}

/* A prediction, which has no labels, gives logits of the loss of an evaluation. */
static void test_prediction(void **state) {
  (void)state;
  const struct pairs pairs = draw_pairs(6);
  for (int m = 0; m < MODELS; m++) {
    float logits[PAIRS * TARGET * WORDS];
    neap_step_result result;
    const neap_model_options shape = {.dropout = 0.3f};
    neap_session *s = open_pairs(models[m], shape, (neap_session_options){.budget = NEAP_BUDGET_MAX}),
                 *predicting = open_pairs(models[m], shape,
                                          (neap_session_options){.budget = NEAP_BUDGET_MAX, .predict = true});
    put(s, &pairs, 0, PAIRS, 0);
    ASSERT_OK(neap_session_evaluate(s, &result));
    assert_null(neap_session_input(predicting, "label"));
    put(predicting, &pairs, 0, PAIRS, 0);
    ASSERT_OK(neap_session_predict(predicting));
    ASSERT_OK(neap_session_output(predicting, "logits", NULL, logits));
    const double loss = loss_of_logits(logits, &pairs);
    if (!(fabs(loss - result.loss) <= 1e-6 * loss))
      fail_msg("%s: predicted logits have the loss %.9g, an evaluation %.9g", models[m], loss, result.loss);
    neap_session_free(s);
    neap_session_free(predicting);
  }
}

/* A step in two halves, by the labels that each has. */
static void test_micro_batches(void **state) {
  (void)state;
  const struct pairs pairs = draw_pairs(3);
  int counted[2] = {0};
  for (int n = 0; n < PAIRS; n++)
    for (int t = 0; t < TARGET; t++) counted[n / (PAIRS / 2)] += pairs.label[n][t] >= 0;
  for (int m = 0; m < MODELS; m++) {
    neap_session *whole =
        open_pairs(models[m], (neap_model_options){0}, (neap_session_options){.budget = NEAP_BUDGET_MAX});
    neap_session *halves = open_pairs(models[m], (neap_model_options){.batch = PAIRS / 2},
                                      (neap_session_options){.budget = NEAP_BUDGET_MAX, .micro_batches = 2});
    double loss = 0;
    const double expected = step(whole, &pairs, 0.5f, 0);
    for (int i = 0; i < 2; i++) {
      const float share = (float)counted[i] / (float)(counted[0] + counted[1]);
      neap_step_result result;
      put(halves, &pairs, i * PAIRS / 2, PAIRS / 2, 0);
      ASSERT_OK(neap_session_micro_step(halves, 0.5f, share, &result));
      loss += (double)share * result.loss;
    }
    const double off = difference(whole, halves);
    if (!(fabs(loss - expected) <= 1e-6 * expected) || !(off <= 2e-6))
      fail_msg("%s in halves: a loss of %.9g, not %.9g; a step is off by %g", models[m], loss, expected, off);
    neap_session_free(whole);
    neap_session_free(halves);
  }
}

/* With dropout, keeping everything and within the least memory. */
static void test_plans_give_the_same_bits(void **state) {
  (void)state;
  static const uint64_t budgets[] = {NEAP_BUDGET_MAX, NEAP_BUDGET_MIN};
  for (int m = quick_pass() ? MODELS - 1 : 0; m < MODELS; m++) {
    char digests[2][65];
    uint64_t peaks[2];
    for (int i = 0; i < 2; i++) {
      neap_memory memory;
      neap_session *s =
          open_pairs(models[m], (neap_model_options){.dropout = 0.3f},
                     (neap_session_options){.budget = budgets[i], .optimizer = NEAP_ADAM, .beta2 = 0.98f});
      for (uint64_t k = 0; k < 2; k++) {
        const struct pairs pairs = draw_pairs(10 + k);
        step(s, &pairs, 0.01f, 0);
      }
      ASSERT_OK(neap_session_digest(s, digests[i]));
      neap_session_memory(s, &memory);
      assert_int_equal(memory.measured_peak, memory.planned_peak);
      peaks[i] = memory.planned_peak;
      neap_session_free(s);
    }
    assert_string_equal(digests[0], digests[1]);
    assert_true(peaks[1] < peaks[0]);
  }
}

/* They learn four pairs by heart. */
static void test_storage(void **state) {
  (void)state;
  static const neap_session_options ways[] = {
      {.precision = NEAP_F32},
      {.precision = NEAP_BF16},
      {.precision = NEAP_F16},
      {.precision = NEAP_F16, .master = true},
      {.sparse_density = 0.4, .sparse_layers = "*coder?.*.weight"},
      {.precision = NEAP_F16, .sparse_density = 0.4, .sparse_layers = "*.hidden.weight"}};
  enum { WAYS = sizeof ways / sizeof *ways };
  const struct pairs pairs = draw_pairs(4);
  for (int m = 0; m < MODELS; m++) {
    double usual = 0;
    for (int w = 0; w < WAYS; w++) {
      if (quick_pass() && w > 0 && w % MODELS != m) continue; /* each way on one model */
      neap_session_options options = ways[w];
      options.budget = NEAP_BUDGET_MAX;
      options.threads = 1; /* two would wait for each other in a thousand small steps */
      options.momentum = 0.9f;
      neap_session *s = open_pairs(models[m], (neap_model_options){0}, options);
      const double first = step(s, &pairs, 0.05f, 0);
      double last = first;
      for (int k = 0; k < (quick_pass() ? 30 : 60); k++) last = step(s, &pairs, 0.05f, 0);
      if (w == 0) usual = first;
      if (ways[w].sparse_density == 0 && !(fabs(first - usual) <= 0.02 * usual))
        fail_msg("%s, way %d: the first loss is %g, in f32 %g", models[m], w, first, usual);
      if (!(last < 0.7 * first))
        fail_msg("%s, way %d: a loss of %g comes to %g only", models[m], w, first, last);
      neap_session_free(s);
    }
  }
}

/* An evaluation has no dropout. In a step it stands behind the embeddings, behind each layer that is added to
 * the sum, and, a third as much of it, on the weights of kernels and of attention; the Transformer has none
 * on its weights. */
static void test_dropout(void **state) {
  (void)state;
  enum { SUMS = 2 + 6 * 2 + 6 * 3, CONVOLUTIONS = 7 + 6 };
  static const int32_t expected[MODELS] = {SUMS, SUMS + 2 + CONVOLUTIONS, SUMS + 2 + CONVOLUTIONS};
  const struct pairs pairs = draw_pairs(5);
  for (int m = 0; m < MODELS; m++) {
    neap_step_result results[2];
    for (int i = 0; i < 2; i++) {
      neap_session *s =
          open_pairs(models[m], (neap_model_options){.dropout = i == 0 ? 0 : 0.3f, .smoothing = -1},
                     (neap_session_options){.budget = NEAP_BUDGET_MAX});
      put(s, &pairs, 0, PAIRS, 0);
      ASSERT_OK(neap_session_evaluate(s, &results[i]));
      const double loss = step(s, &pairs, 0, 0);
      assert_true((loss == results[i].loss) == (i == 0));
      neap_session_free(s);
    }
    assert_true(results[0].loss == results[1].loss);
    neap_graph *graph;
    int32_t count = 0;
    ASSERT_OK(build_named(models[m], &(neap_model_options){.dropout = 0.3f}, &graph));
    for (size_t v = 0; v < graph->nodes.count; v++) {
      const struct node *node = &graph->nodes.data[v];
      count += node->op == OP_DROPOUT;
      const bool weights = node->op == OP_ATTENTION;
      if (weights) assert_true(fabsf(node->attributes.attention.probability - (m == 0 ? 0 : 0.1f)) < 1e-6f);
    }
    assert_int_equal(count, expected[m]);
    neap_graph_free(graph);
  }
}

int run_test_pair_models(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_padding),
                                     cmocka_unit_test(test_what_is_seen),
                                     cmocka_unit_test(test_prediction),
                                     cmocka_unit_test(test_micro_batches),
                                     cmocka_unit_test(test_plans_give_the_same_bits),
                                     cmocka_unit_test(test_storage),
                                     cmocka_unit_test(test_dropout)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
