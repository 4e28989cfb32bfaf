/* Ranks that divide a step by its depth have the bits of one process with as many micro-batches: weights,
 * losses, norms, evaluations and files; for every way to order them, optimizer, type and budget. */
#include <pthread.h>

#include "session_help.h"

#include "collective/threads.h"
#include "run/pipeline_run.h"
#include "run/variables.h"
#include "step/plan.h"

enum { MICRO = 4, CLASSES = 5, STEPS = 3, MOST_RANKS = 4 };

/* Blocks with batch norm, dropout and a residual sum: each block's output is the only value between it and the
 * next. */
static neap_graph *build(int blocks) {
  neap_graph *graph = NULL;
  const int64_t batch = MICRO;
  neap_builder *b = neap_builder_create("pipeline");
  neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){batch, 3, 8, 8});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, &batch);
  x = neap_conv(b, x, (neap_conv_options){.filters = 9, .size = 3, .padding = 1});
  for (int block = 0; block < blocks; block++) {
    const neap_tensor before = x;
    x = neap_conv(b, x, (neap_conv_options){.filters = 9, .size = 3, .padding = 1, .bias = true});
    x = neap_batch_norm(b, x, (neap_batch_norm_options){0});
    x = neap_dropout(b, neap_silu(b, x), 0.1f);
    x = neap_add(b, x, before);
  }
  x = neap_linear(b, neap_flatten(b, x), CLASSES, true);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0.1f), &graph));
  neap_builder_free(b);
  return graph;
}

struct rank_run {
  const neap_graph *graph;
  neap_session_options options;
  const neap_collective *collective;
  const char *path; /* of a file to save; NULL: none */
  int32_t parts;    /* of the second step; 0: all micro-batches */
  char digest[65];
  double losses[STEPS][24], norm, evaluated;
  neap_memory memory;
};

static void keep_losses(struct rank_run *run, const neap_session *s, int step, int32_t parts) {
  const neap_step_result *results = session_part_results(s);
  for (int32_t part = 0; results != NULL && part < parts; part++)
    run->losses[step][part] = results[part].loss;
}

static void run_all_steps(struct rank_run *run, neap_session *s) {
  for (int k = 0; k < STEPS; k++) {
    const int32_t parts = k == 1 && run->parts > 0 ? run->parts : run->options.micro_batches;
    session_set_parts(s, parts);
    for (int32_t part = 0; part < parts; part++) {
      neap_step_result result;
      fill_inputs(s, (uint64_t)(100 * k + part + 1), CLASSES);
      ASSERT_OK(neap_session_micro_step(s, 0.1f, 1 / (float)parts, &result));
      run->losses[k][part] = result.loss;
      run->norm = result.gradient_norm;
    }
    keep_losses(run, s, k, parts);
  }
}

static void *run_rank(void *context) {
  struct rank_run *run = context;
  neap_session *s = NULL;
  neap_step_result result;
  run->options.collective = run->collective;
  run->options.pipeline = run->collective != NULL ? run->collective->size : 0;
  run->options.threads = 1;
  run->options.seed = 3;
  ASSERT_OK(neap_session_create(run->graph, &run->options, NULL, &s));
  run_all_steps(run, s);
  fill_inputs(s, 7, CLASSES);
  ASSERT_OK(neap_session_evaluate(s, &result));
  run->evaluated = result.loss;
  ASSERT_OK(neap_session_digest(s, run->digest));
  if (run->path != NULL && run->collective != NULL && run->collective->rank > 0)
    ASSERT_OK(session_save_along(s));
  else if (run->path != NULL)
    ASSERT_OK(neap_session_save(s, run->path));
  neap_session_memory(s, &run->memory);
  assert_true(run->memory.measured_peak <= run->memory.planned_peak);
  neap_session_free(s);
  return NULL;
}

static void run_ranks(const struct rank_run *like, int size, struct rank_run *runs) {
  neap_collective ranks[MOST_RANKS];
  pthread_t threads[MOST_RANKS];
  ASSERT_OK(threads_connect(size, ranks));
  for (int r = 0; r < size; r++) {
    runs[r] = *like;
    runs[r].collective = &ranks[r];
    assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &runs[r]), 0);
  }
  for (int r = 0; r < size; r++) assert_int_equal(pthread_join(threads[r], NULL), 0);
  for (int r = 0; r < size; r++) ranks[r].close(ranks[r].self);
}

/* Runs `size` ranks beside one process. */
static const struct rank_run *check(const char *what, struct rank_run like, int size) {
  static struct rank_run one, runs[MOST_RANKS];
  memset(runs, 0, sizeof runs);
  one = like;
  one.options.budget = NEAP_BUDGET_MAX;
  run_rank(&one);
  run_ranks(&like, size, runs);
  for (int r = 0; r < size; r++) {
    if (strcmp(one.digest, runs[r].digest) != 0)
      fail_msg("%s, %d ranks: rank %d has the digest %s, one process %s", what, size, r, runs[r].digest,
               one.digest);
    assert_true(one.norm == runs[r].norm);
    assert_true(one.evaluated == runs[r].evaluated);
    for (int k = 0; k < STEPS; k++)
      for (int32_t part = 0; part < like.options.micro_batches; part++)
        assert_true(one.losses[k][part] == runs[r].losses[k][part]);
  }
  return runs;
}

static const struct {
  const char *what;
  neap_session_options options;
} cases[] = {
    {"sgd", {.optimizer = NEAP_SGD, .weight_decay = 0.01f}},
    {"momentum", {.optimizer = NEAP_SGD, .momentum = 0.9f, .weight_decay = 0.01f}},
    {"nesterov", {.optimizer = NEAP_SGD, .momentum = 0.9f, .nesterov = true}},
    {"clipped by value", {.optimizer = NEAP_SGD, .momentum = 0.9f, .clip_value = 0.01f}},
    {"adamw, clipped by norm", {.optimizer = NEAP_ADAMW, .weight_decay = 0.1f, .clip_norm = 0.1f}},
    {"adam, norm told", {.optimizer = NEAP_ADAM, .gradient_norm = true}},
    {"bf16 beside f32", {.optimizer = NEAP_ADAMW, .precision = NEAP_BF16, .master = true}},
    {"f16, scaled",
     {.optimizer = NEAP_ADAMW, .precision = NEAP_F16, .dynamic_loss_scale = true, .loss_scale = 1e6f}},
    {"frozen", {.optimizer = NEAP_ADAMW, .freeze = "conv1*"}},
};

static void test_bits(void **state) {
  (void)state;
  neap_graph *graph = build(5);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int size = 2; size <= MOST_RANKS; size++) {
      struct rank_run like = {.graph = graph, .options = cases[i].options};
      like.options.micro_batches = size == 3 ? 5 : 8;
      like.options.planner = "evict";
      like.options.budget = i % 2 == 0 ? NEAP_BUDGET_MAX : NEAP_BUDGET_MIN;
      check(cases[i].what, like, size);
    }
  neap_graph_free(graph);
}

int run_test_pipeline_run(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
