/* Ranks that train together have the bits of one process with as many micro-batches: states, which lie in
 * shares, weights, loss scales and norms; for every optimizer, type and number of ranks. */

#include "effort.h"
#include "on_threads.h"

#include "collective/threads.h"
#include "kernel/ranks.h"
#include "step/plan.h"

enum { MICRO = 4, CLASSES = 5, STEPS = 3, MOST_RANKS = 8 };

/* With batch norm and dropout; channels that fill no block, and a bias smaller than the number of shares'
 * parts. */
static neap_graph *build(int filters) {
  neap_graph *graph = NULL;
  const int64_t batch = MICRO;
  neap_builder *b = neap_builder_create("ranks");
  neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){batch, 3, 8, 8});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, &batch);
  for (int layer = 0; layer < 2; layer++) {
    x = neap_conv(b, x,
                  (neap_conv_options){.filters = filters + layer, .size = 3, .padding = 1, .bias = true});
    x = neap_batch_norm(b, x, (neap_batch_norm_options){0});
    x = neap_silu(b, x);
  }
  x = neap_dropout(b, neap_flatten(b, x), 0.1f);
  x = neap_linear(b, x, CLASSES, true);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0.1f), &graph));
  neap_builder_free(b);
  return graph;
}

/* What a run of some ranks is, and what it gave on one of them. */
struct rank_run {
  const neap_graph *graph;
  neap_session_options options;
  const neap_collective *collective;
  const char *path; /* weights to begin with; NULL: the first ones */
  int32_t parts;    /* of the second step; the others have options.micro_batches */
  uint64_t least;   /* above 0: the budget of every second rank */
  char digest[65];
  double losses[STEPS][24], norm;
  neap_memory memory;
  uint64_t sent; /* bytes */
  neap_plan *plan;
};

static void run_steps_of_rank(struct rank_run *run, neap_session *s) {
  const int32_t size = run->collective != NULL ? run->collective->size : 1,
                rank = run->collective != NULL ? run->collective->rank : 0;
  for (int k = 0; k < STEPS; k++) {
    const int32_t parts = k == 1 && run->parts > 0 ? run->parts : run->options.micro_batches;
    session_set_parts(s, parts);
    for (int32_t part = rank; part - rank < parts; part += size) {
      neap_step_result result;
      if (part < parts) fill_inputs(s, (uint64_t)(100 * k + part + 1), CLASSES);
      ASSERT_OK(neap_session_micro_step(s, 0.1f, 1 / (float)parts, &result));
      if (part < parts) run->losses[k][part] = result.loss;
      run->norm = result.gradient_norm;
    }
  }
}

static void *run_rank(void *context) {
  struct rank_run *run = context;
  neap_session *s = NULL;
  run->options.collective = run->collective;
  if (run->collective == NULL) run->options.shard = NEAP_SHARD_STATES;
  run->options.threads = 1;
  run->options.seed = 3;
  ASSERT_OK(neap_session_create(run->graph, &run->options, NULL, &s));
  ASSERT_OK(plan_create(session_plan(s), &run->plan));
  if (run->path != NULL) ASSERT_OK(neap_session_load(s, run->path));
  run_steps_of_rank(run, s);
  run->sent = session_traffic(s).sent;
  ASSERT_OK(neap_session_digest(s, run->digest));
  neap_session_memory(s, &run->memory);
  assert_int_equal(run->memory.measured_peak, run->memory.planned_peak);
  neap_session_free(s);
  return NULL;
}

static void run_ranks(const struct rank_run *like, int size, struct rank_run *runs) {
  neap_collective ranks[MOST_RANKS];
  ASSERT_OK(threads_connect(size, ranks));
  for (int r = 0; r < size; r++) {
    runs[r] = *like;
    runs[r].collective = &ranks[r];
    if (like->least > 0) runs[r].options.budget = r % 2 == 0 ? NEAP_BUDGET_MAX : like->least;
  }
  on_threads(size, run_rank, runs, sizeof *runs);
  close_all(size, ranks);
}

/* Whether ranks sent what is computed before anything runs. */
static void check_sent(const char *what, const struct rank_run *like, int size, const struct rank_run *runs) {
  neap_exchanges expected;
  neap_session_options options = like->options;
  const neap_collective planned = {.size = size}; /* without an engine */
  uint64_t sent = 0;
  options.collective = &planned;
  options.threads = 1;
  ASSERT_OK(neap_step_exchanges(like->graph, &options, runs[0].plan, &expected));
  for (int r = 0; r < size; r++) sent = runs[r].sent > sent ? runs[r].sent : sent;
  const uint64_t all = STEPS * expected.sent_bytes;
  if (options.dynamic_loss_scale) assert_true(sent <= all); /* an update that is skipped sends nothing */
  if (sent != all && !options.dynamic_loss_scale)
    fail_msg("%s, %d ranks: %llu bytes are expected in a step, but %g are sent", what, size,
             (unsigned long long)expected.sent_bytes, (double)sent / STEPS);
  assert_true(expected.calls > 0);
}

/* A run of `size` ranks beside one process. */
static const struct rank_run *check(const char *what, struct rank_run like, int size) {
  static struct rank_run one, runs[MOST_RANKS];
  for (int r = 0; r < MOST_RANKS; r++) neap_plan_free(runs[r].plan);
  memset(runs, 0, sizeof runs);
  neap_plan_free(one.plan);
  one = like;
  run_rank(&one);
  run_ranks(&like, size, runs);
  for (int r = 0; r < size; r++) {
    if (strcmp(one.digest, runs[r].digest) != 0)
      fail_msg("%s, %d ranks: rank %d has the digest %s, one process %s", what, size, r, runs[r].digest,
               one.digest);
    assert_true(one.norm == runs[r].norm);
    for (int k = 0; k < STEPS; k++)
      for (int32_t part = r; part < like.options.micro_batches; part += size)
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
    {"rmsprop", {.optimizer = NEAP_RMSPROP, .momentum = 0.9f, .epsilon = 1e-2f}},
    {"lion, averages", {.optimizer = NEAP_LION, .ema = 0.9f}},
    {"adafactor, clipped by norm", {.optimizer = NEAP_ADAFACTOR, .clip_norm = 0.1f}},
    {"muon, averages", {.optimizer = NEAP_MUON, .momentum = 0.95f, .ema = 0.9f}},
    {"apollo-mini, bf16", {.optimizer = NEAP_APOLLO_MINI, .precision = NEAP_BF16}},
    {"states of 8 bits", {.optimizer = NEAP_SGD, .momentum = 0.9f, .states_8bit = true}},
    {"bf16 momentum", {.optimizer = NEAP_SGD, .momentum = 0.9f, .precision = NEAP_BF16}},
    {"bf16 adamw", {.optimizer = NEAP_ADAMW, .precision = NEAP_BF16}},
    {"bf16 beside f32", {.optimizer = NEAP_ADAMW, .precision = NEAP_BF16, .master = true}},
    {"f16, scaled",
     {.optimizer = NEAP_ADAMW, .precision = NEAP_F16, .dynamic_loss_scale = true, .loss_scale = 1e6f}},
    {"sparse", {.optimizer = NEAP_SGD, .momentum = 0.9f, .sparse_density = 0.3}},
    {"sparse bf16", {.optimizer = NEAP_ADAMW, .precision = NEAP_BF16, .sparse_density = 0.3}},
    {"without gradients", {.mezo = true, .mezo_epsilon = 1e-2f, .ema = 0.9f}},
    {"few bits for gradients", {.optimizer = NEAP_ADAMW, .compress = "4"}},
    {"frozen", {.optimizer = NEAP_ADAMW, .freeze = "conv1*"}},
    {"frozen, in blocks", {.optimizer = NEAP_ADAMW, .freeze = "linear1*", .store = "linear1.weight=q8_0"}},
};

/* Whether a case's states are whole on each rank: --shard all is refused. */
static bool has_whole_states(size_t i) {
  const neap_session_options *o = &cases[i].options;
  return o->states_8bit || o->mezo || o->optimizer == NEAP_ADAFACTOR || o->optimizer == NEAP_MUON ||
         o->optimizer == NEAP_APOLLO_MINI;
}

static void test_bits(void **state) {
  (void)state;
  static const int sizes[] = {2, 3, 4, MOST_RANKS};
  enum { SIZES = sizeof sizes / sizeof *sizes };
  neap_graph *graph = build(17);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (size_t k = 0; k < SIZES; k++) {
      if (leaves_out(i, k, SIZES)) continue;
      const int size = sizes[k];
      struct rank_run like = {.graph = graph, .options = cases[i].options};
      like.options.micro_batches = size == 3 ? 6 : 8;
      like.options.planner = "evict";
      like.options.budget = i % 2 == 0 ? NEAP_BUDGET_MAX : NEAP_BUDGET_MIN;
      check_sent(cases[i].what, &like, size, check(cases[i].what, like, size));
    }
  neap_graph_free(graph);
}

/* A step that has fewer micro-batches than the others leaves some ranks without one. */
static void test_short_step(void **state) {
  (void)state;
  neap_graph *graph = build(17);
  for (int32_t parts = 1; parts < 8; parts += quick_pass() ? 3 : 1) { /* fewer than ranks, as many, more */
    struct rank_run like = {.graph = graph, .options = cases[4].options, .parts = parts};
    like.options.micro_batches = 8;
    like.options.planner = "evict";
    check("a short step", like, 4);
  }
  neap_graph_free(graph);
}

/* The least budget of one of `size` ranks, in bytes. */
static uint64_t least_of(const struct rank_run *like, int size) {
  neap_session_options options = like->options;
  const neap_collective planned = {.size = size};
  neap_step *step;
  neap_plan *plan;
  options.collective = &planned;
  options.threads = 1;
  options.budget = NEAP_BUDGET_MIN;
  ASSERT_OK(neap_plan_graph(like->graph, &options, NULL, &step, &plan));
  const uint64_t least = plan_bytes(plan);
  neap_plan_free(plan);
  neap_step_free(step);
  return least;
}

/* Ranks with other budgets have other plans, and run in one order what they run together. */
static void test_budgets(void **state) {
  (void)state;
  neap_graph *graph = build(17);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i += quick_pass() ? 2 : 1) {
    struct rank_run like = {.graph = graph, .options = cases[i].options};
    like.options.micro_batches = 3;
    like.options.planner = "evict";
    like.least = least_of(&like, 3);
    const struct rank_run *runs = check(cases[i].what, like, 3);
    assert_true(runs[1].memory.planned_peak <= like.least);
    assert_true(
        runs[0].memory.planned_peak > like.least ||
        (has_whole_states(i) && runs[0].memory.planned_peak == like.least)); /* a step's end may decide */
  }
  neap_graph_free(graph);
}

/* Bytes of parameters, and of their states, in one process and as the most that a rank has. */
static void check_smaller(const char *what, const struct rank_run *like, int size, const neap_memory *rank) {
  neap_session_options options = like->options;
  neap_session *s;
  neap_memory one;
  options.threads = 1;
  options.shard = NEAP_SHARD_STATES;
  ASSERT_OK(neap_session_create(like->graph, &options, NULL, &s));
  neap_session_memory(s, &one);
  neap_session_free(s);
  const uint64_t small = 8 << 10; /* what is whole on every rank, and what rounds shares up */
  if (rank->parameters > one.parameters / (uint64_t)size + small)
    fail_msg("%s, %d ranks: a rank has %llu bytes of %llu of parameters", what, size,
             (unsigned long long)rank->parameters, (unsigned long long)one.parameters);
}

/* Each rank has a share of large parameters, and the same bits. */
static void test_all_shared(void **state) {
  (void)state;
  neap_graph *graph = build(40);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int size = 2; size <= 4; size++) {
      if (has_whole_states(i) || leaves_out(i, (size_t)size - 2, 3))
        continue; /* they are refused: test_refusals */
      struct rank_run like = {.graph = graph, .options = cases[i].options, .parts = size == 4 ? 7 : 0};
      like.options.shard = NEAP_SHARD_ALL;
      like.options.micro_batches = size == 3 ? 6 : 8;
      like.options.planner = "evict";
      like.options.budget = i % 2 == 0 ? NEAP_BUDGET_MIN : NEAP_BUDGET_MAX;
      const struct rank_run *runs = check(cases[i].what, like, size);
      if (like.parts == 0) check_sent(cases[i].what, &like, size, runs);
      if (like.options.sparse_density == 0 && like.options.store == NULL)
        check_smaller(cases[i].what, &like, size, &runs[size - 1].memory);
    }
  neap_graph_free(graph);
}

/* Linear layers of one size, whose forward pass has no node that ranks run together: whole weights follow one
 * another in the same bytes, also on a rank without a micro-batch. */
static void test_gathers_of_idle_ranks(void **state) {
  (void)state;
  enum { WIDTH = 128, LAYERS = 6 };
  const int64_t batch = 3, image[] = {batch, WIDTH};
  neap_graph *graph;
  neap_builder *b = neap_builder_create("layers");
  neap_tensor x = neap_input(b, "image", NEAP_F32, 2, image);
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, &batch);
  for (int layer = 0; layer < LAYERS; layer++) x = neap_silu(b, neap_linear(b, x, WIDTH, false));
  x = neap_linear(b, x, CLASSES, true);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0.1f), &graph));
  neap_builder_free(b);
  for (int32_t parts = 1; parts < 8; parts++) {
    struct rank_run like = {
        .graph = graph, .options = {.micro_batches = 8, .shard = NEAP_SHARD_ALL}, .parts = parts};
    like.options.planner = "evict";
    like.options.budget = parts % 2 == 0 ? NEAP_BUDGET_MIN : NEAP_BUDGET_MAX;
    check("layers of one size", like, 4);
  }
  neap_graph_free(graph);
}

/* Shares are whole parts of a sum of squares, in order, and leave nothing out. */
static void test_shares(void **state) {
  (void)state;
  static const int64_t sizes[] = {1, 2, 7, 63, 64, 65, 1000, 12345, (int64_t)1 << 40};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int ranks = 1; ranks <= 100; ranks++) {
      int64_t next = 0;
      for (int r = 0; r < ranks; r++) {
        const struct share share = share_of_rank(sizes[i], r, ranks);
        assert_int_equal(share.first, next);
        assert_true(share.count <= share_most(sizes[i], ranks));
        assert_int_equal(share.whole, sizes[i]);
        next += share.count;
      }
      assert_int_equal(next, sizes[i]);
    }
}

static void test_refusals(void **state) {
  (void)state;
  neap_graph *graph = build(17);
  neap_session *s = NULL;
  neap_collective three = {.rank = 0, .size = 3};
  const neap_session_options alone = {.collective = &three},
                             uneven = {.collective = &three, .micro_batches = 8},
                             greedy = {.collective = &three,
                                       .micro_batches = 3,
                                       .budget = NEAP_BUDGET_AVAILABLE},
                             lonely = {.shard = NEAP_SHARD_ALL},
                             slow = {.collective = &three, .micro_batches = 3, .backend = NEAP_REFERENCE};
  assert_int_equal(neap_session_create(graph, &alone, NULL, &s), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_session_create(graph, &uneven, NULL, &s), NEAP_INVALID_ARGUMENT);
  assert_non_null(strstr(neap_error_message(), "8 micro-batches do not divide among 3 processes"));
  assert_int_equal(neap_session_create(graph, &greedy, NULL, &s), NEAP_INVALID_ARGUMENT);
  assert_non_null(strstr(neap_error_message(), "each of 3 processes would take all free memory"));
  assert_int_equal(neap_session_create(graph, &lonely, NULL, &s), NEAP_INVALID_ARGUMENT);
  assert_non_null(strstr(neap_error_message(), "`shard` all: a single process"));
  assert_int_equal(neap_session_create(graph, &slow, NULL, &s), NEAP_UNSUPPORTED);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const neap_collective planned = {.size = 3};
    neap_session_options shared = cases[i].options;
    neap_step *step;
    neap_plan *plan;
    shared.collective = &planned;
    shared.micro_batches = 3;
    shared.shard = NEAP_SHARD_ALL;
    if (!has_whole_states(i)) continue;
    assert_int_not_equal(neap_plan_graph(graph, &shared, NULL, &step, &plan), NEAP_OK);
    assert_non_null(strstr(neap_error_message(), "shard all"));
  }
  neap_graph_free(graph);
}

int run_test_ranks(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shares),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_bits),
      cmocka_unit_test(test_short_step),
      cmocka_unit_test(test_budgets),
      cmocka_unit_test(test_all_shared),
      cmocka_unit_test(test_gathers_of_idle_ranks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
