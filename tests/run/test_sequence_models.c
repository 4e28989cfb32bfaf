/* Networks of sequences: a training step gives what the reference backend gives; and the same bits under
 * every budget, with micro-batches, in 16 bits, with sparse weights, and with all of these. */
#include <math.h>

#include "effort.h"
#include "session_help.h"

enum { CLASSES = 40, BATCH = 4 };

static const struct model_case {
  const char *name;
  int64_t length, window;
  const char *attention;
} models[] = {
    {"gpt-2x32x4", 19, 0, NULL},
    {"llama-2x32x4x2", 24, 7, NULL},
    {"bert-2x32x2", 17, 0, NULL},
    {"lstm-2x24", 140, 0, NULL},
    {"char-lstm-1x16", 130, 0, NULL}, /* parts of 128 times */
    {"llama-2x32x4x2", 81, 0, "[window:9;strided:8];fixed:9,2"},
    {"bert-2x32x2", 75, 0, "dilated:5,3;fixed:8,1"},
};
enum { MODELS = sizeof models / sizeof *models };

static const struct technique {
  const char *name;
  int32_t micro_batches;
  neap_dtype precision;
  double density;
} techniques[] = {
    {"none", 1, NEAP_F32, 0}, {"micro", 2, NEAP_F32, 0},   {"bf16", 1, NEAP_BF16, 0},
    {"f16", 1, NEAP_F16, 0},  {"sparse", 1, NEAP_F32, .3}, {"all", 2, NEAP_BF16, .3},
};
enum { TECHNIQUES = sizeof techniques / sizeof *techniques };

static neap_graph *build(const struct model_case *m, int64_t batch) {
  neap_graph *graph = NULL;
  const neap_model_options shape = {.batch = batch,
                                    .image = {10},
                                    .classes = CLASSES,
                                    .length = m->length,
                                    .window = m->window,
                                    .attention = m->attention,
                                    .dropout = 0.1f,
                                    .smoothing = 0.1f};
  ASSERT_OK(build_named(m->name, &shape, &graph));
  return graph;
}

static neap_session *open_session(const neap_graph *graph, neap_backend backend, const struct technique *t,
                                  neap_optimizer optimizer, bool quick, uint64_t budget) {
  neap_session *s = NULL;
  neap_session_options options = {.budget = budget,
                                  .plan_quick = quick,
                                  .backend = backend,
                                  .threads = 1,
                                  .seed = 5,
                                  .optimizer = optimizer,
                                  .momentum = optimizer == NEAP_SGD ? 0.9f : 0,
                                  .micro_batches = t->micro_batches,
                                  .precision = t->precision,
                                  .sparse_density = t->density};
  neap_status status = neap_session_create(graph, &options, NULL, &s);
  if (status == NEAP_OVER_BUDGET) { /* quick planning may miss a budget that full planning just meets */
    options.plan_quick = false;
    options.budget = NEAP_BUDGET_MIN;
    status = neap_session_create(graph, &options, NULL, &s);
  }
  ASSERT_OK(status);
  return s;
}

/* The same labels everywhere but those of every fifth token, which do not count. */
static void fill(neap_session *s, uint64_t seed) {
  fill_inputs(s, seed, CLASSES);
  int32_t *labels = neap_session_input(s, "label");
  for (size_t t = 0; t < s->main->graph->tensors.count; t++) {
    const struct tensor *tensor = &s->main->graph->tensors.data[t];
    if (strcmp(tensor->name, "label") != 0 || tensor->view_of >= 0) continue;
    for (int64_t i = 0; i < tensor->elements; i += 5) labels[i] = -1;
  }
}

static struct run_result run(neap_session *s, int steps) {
  struct run_result r;
  for (int i = 0; i < steps; i++) {
    fill(s, (uint64_t)i);
    ASSERT_OK(neap_session_step(s, 0.01f, &r.last));
  }
  ASSERT_OK(neap_session_digest(s, r.digest));
  neap_session_memory(s, &r.memory);
  assert_int_equal(r.memory.measured_peak, r.memory.planned_peak);
  return r;
}

static void test_same_bits(void **state) {
  (void)state;
  for (int m = 0; m < MODELS; m++)
    for (int t = 0; t < TECHNIQUES; t++) {
      neap_graph *graph = build(&models[m], BATCH / techniques[t].micro_batches);
      /* plain: gradients are added to the momentum itself */
      const neap_optimizer optimizer = t == 0 ? NEAP_SGD : NEAP_ADAMW;
      neap_session *most = open_session(graph, NEAP_CPU, &techniques[t], optimizer, false, NEAP_BUDGET_MAX);
      const int steps = 2 * techniques[t].micro_batches;
      const struct run_result a = run(most, steps);
      const uint64_t some = a.memory.resident + a.memory.arena / 4 * 3;
      neap_session *least = open_session(graph, NEAP_CPU, &techniques[t], optimizer, quick_pass(),
                                         quick_pass() ? some : NEAP_BUDGET_MIN);
      const struct run_result b = run(least, steps);
      if (strcmp(a.digest, b.digest) != 0 || a.last.loss != b.last.loss)
        fail_msg("%s, %s: other bits in another budget", models[m].name, techniques[t].name);
      assert_true(b.memory.planned_peak < a.memory.planned_peak);
      assert_true(isfinite(a.last.loss) && a.last.loss > 0);
      neap_session_free(most);
      neap_session_free(least);
      neap_graph_free(graph);
    }
}

static void test_against_reference(void **state) {
  (void)state;
  for (int m = 0; m < MODELS; m++) {
    struct model_case small = models[m];
    if (small.length > 30) small.length = 30; /* plain loops over doubles are slow */
    neap_graph *graph = build(&small, 20);    /* parts of 25 times */
    neap_session *before = open_session(graph, NEAP_CPU, &techniques[0], NEAP_SGD, false, NEAP_BUDGET_MAX),
                 *fast = open_session(graph, NEAP_CPU, &techniques[0], NEAP_SGD, false, NEAP_BUDGET_MAX),
                 *reference =
                     open_session(graph, NEAP_REFERENCE, &techniques[0], NEAP_SGD, false, NEAP_BUDGET_MAX);
    const struct run_result a = run(fast, 1), b = run(reference, 1);
    assert_true(fabs(a.last.loss - b.last.loss) <= 1e-5 * b.last.loss);
    assert_int_equal(a.last.correct, b.last.correct);
    expect_alike(before, reference, fast, small.name, 1e-3);
    neap_session_free(before);
    neap_session_free(fast);
    neap_session_free(reference);
    neap_graph_free(graph);
  }
}

/* Without batch norm micro-batches give the whole batch's step, up to the order of one sum, also where labels
 * that count are spread unevenly. */
static void test_micro_batches(void **state) {
  (void)state;
  for (int m = 0; m < 2; m++) {
    static const struct technique micro = {"micro", 2, NEAP_F32, 0};
    const struct model_case *c = &models[m];
    neap_graph *whole = NULL, *half = NULL;
    neap_model_options shape = {.batch = BATCH, .classes = CLASSES, .length = c->length};
    ASSERT_OK(build_named(c->name, &shape, &whole));
    shape.batch = BATCH / 2;
    ASSERT_OK(build_named(c->name, &shape, &half));
    neap_session *before = open_session(whole, NEAP_CPU, &techniques[0], NEAP_SGD, false, NEAP_BUDGET_MAX),
                 *x = open_session(whole, NEAP_CPU, &techniques[0], NEAP_SGD, false, NEAP_BUDGET_MAX),
                 *y = open_session(half, NEAP_CPU, &micro, NEAP_SGD, false, NEAP_BUDGET_MAX);
    neap_step_result all, part;
    fill(x, 3);
    const int32_t *tokens = neap_session_input(x, "tokens"), *labels = neap_session_input(x, "label");
    const int64_t each = BATCH / 2 * c->length;
    int64_t counted[2] = {0};
    for (int64_t i = 0; i < 2 * each; i++) counted[i / each] += labels[i] >= 0;
    ASSERT_OK(neap_session_step(x, 0.1f, &all));
    double loss = 0;
    for (int k = 0; k < 2; k++) {
      const double share = (double)counted[k] / (double)(counted[0] + counted[1]);
      memcpy(neap_session_input(y, "tokens"), tokens + k * each, (size_t)each * sizeof *tokens);
      memcpy(neap_session_input(y, "label"), labels + k * each, (size_t)each * sizeof *labels);
      ASSERT_OK(neap_session_micro_step(y, 0.1f, (float)share, &part));
      loss += share * part.loss;
    }
    assert_true(fabs(loss - all.loss) <= 1e-6 * all.loss);
    expect_alike(before, x, y, c->name, 1e-4);
    neap_session_free(before);
    neap_session_free(x);
    neap_session_free(y);
    neap_graph_free(whole);
    neap_graph_free(half);
  }
}

int run_test_sequence_models(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_reference),
                                     cmocka_unit_test(test_same_bits), cmocka_unit_test(test_micro_batches)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
