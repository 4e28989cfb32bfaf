/* Ranks that divide a step by its depth have the bits of one process with as many micro-batches: weights,
 * losses, norms, evaluations and files; for every way to order them, optimizer, type and budget. */
#include "effort.h"
#include "on_threads.h"

#include "collective/threads.h"
#include "run/pipeline_prepare.h"
#include "run/pipeline_run.h"
#include "step/plan.h"
#include "weights/variables.h"

enum { MICRO = 4, CLASSES = 5, STEPS = 3, MOST_RANKS = 6 };

/* Blocks with batch norm, dropout and a residual sum: each block's output is the only value between it and
 * the next. */
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
  int pipelines;    /* that divide the micro-batches; 0: one */
  char digest[65];
  double losses[STEPS][24], norm, evaluated;
  neap_memory memory;
};

/* Returns how many divide the micro-batches, and which of these the rank is. */
static int32_t dividing(const struct rank_run *run) {
  return run->collective != NULL && run->pipelines > 1 ? run->pipelines : 1;
}

static int32_t turn_of(const struct rank_run *run) {
  return run->collective != NULL ? run->collective->rank % dividing(run) : 0;
}

static void keep_losses(struct rank_run *run, const neap_session *s, int step, int32_t parts) {
  const neap_step_result *results = session_part_results(s);
  for (int32_t part = turn_of(run), i = 0; results != NULL && part < parts; part += dividing(run))
    run->losses[step][part] = results[i++].loss;
}

static void run_all_steps(struct rank_run *run, neap_session *s) {
  for (int k = 0; k < STEPS; k++) {
    const int32_t parts = k == 1 && run->parts > 0 ? run->parts : run->options.micro_batches;
    session_set_parts(s, parts);
    for (int32_t first = 0; first < parts; first += dividing(run)) {
      const int32_t part = first + turn_of(run);
      neap_step_result result;
      if (part < parts) fill_inputs(s, (uint64_t)(100 * k + part + 1), CLASSES);
      ASSERT_OK(neap_session_micro_step(s, 0.1f, part < parts ? 1 / (float)parts : 0, &result));
      if (part < parts) run->losses[k][part] = result.loss;
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
  run->options.pipeline = run->collective != NULL ? run->collective->size / dividing(run) : 0;
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
  }
  on_threads(size, run_rank, runs, sizeof *runs);
  close_all(size, ranks);
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
      for (int32_t part = turn_of(&runs[r]); part < like.options.micro_batches; part += dividing(&runs[r]))
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
    {"few bits for gradients", {.optimizer = NEAP_ADAMW, .compress = "4"}},
};

static void test_bits(void **state) {
  (void)state;
  neap_graph *graph = build(5);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int size = 2; size <= 4; size++) {
      if (leaves_out(i, (size_t)size - 2, 3)) continue;
      struct rank_run like = {.graph = graph, .options = cases[i].options};
      like.options.micro_batches = size == 3 ? 5 : 8;
      like.options.planner = "evict";
      like.options.budget = i % 2 == 0 ? NEAP_BUDGET_MAX : NEAP_BUDGET_MIN;
      check(cases[i].what, like, size);
    }
  neap_graph_free(graph);
}

/* Several pipelines divide the micro-batches: 2 of 2 stages, 3 of 2, 2 of 3. States and sums are shared among
 * the ranks of a stage. */
static void test_several_pipelines(void **state) {
  (void)state;
  static const struct { int pipelines, stages; } grids[] = {{2, 2}, {3, 2}, {2, 3}};
  neap_graph *graph = build(5);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (size_t g = 0; g < sizeof grids / sizeof *grids; g++) {
      if (leaves_out(i, g, sizeof grids / sizeof *grids)) continue;
      struct rank_run like = {.graph = graph, .options = cases[i].options, .pipelines = grids[g].pipelines};
      like.options.micro_batches = 4 * grids[g].pipelines;
      like.options.planner = "evict";
      like.options.budget = i % 2 == 0 ? NEAP_BUDGET_MAX : NEAP_BUDGET_MIN;
      like.parts = g == 0 ? 5 : 0; /* the last round of the second step is that of one pipeline */
      check(cases[i].what, like, grids[g].pipelines * grids[g].stages);
    }
  neap_graph_free(graph);
}

/* Wide layers, whose shares are of one size. */
static neap_graph *build_wide(void) {
  enum { LAYERS = 6, WIDTH = 128 };
  neap_graph *graph = NULL;
  const int64_t batch = MICRO;
  neap_builder *b = neap_builder_create("wide");
  neap_tensor x = neap_input(b, "image", NEAP_F32, 2, (int64_t[]){batch, WIDTH});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, &batch);
  for (int layer = 0; layer < LAYERS; layer++) x = neap_silu(b, neap_linear(b, x, WIDTH, false));
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph));
  neap_builder_free(b);
  return graph;
}

/* The states of all ranks together are those of one process, however many pipelines there are. */
static void test_shared_states(void **state) {
  (void)state;
  neap_graph *graph = build_wide();
  struct rank_run like = {.graph = graph, .options = cases[4].options};
  uint64_t states[2] = {0};
  like.options.micro_batches = 4;
  like.options.planner = "evict";
  for (int pipelines = 1; pipelines <= 2; pipelines++) {
    like.pipelines = pipelines;
    const struct rank_run *runs = check("shared states", like, 2 * pipelines);
    for (int r = 0; r < 2 * pipelines; r++) states[pipelines - 1] += runs[r].memory.states;
  }
  if (states[1] > states[0] + states[0] / 50)
    fail_msg("two pipelines have %llu bytes of states, one has %llu", (unsigned long long)states[1],
             (unsigned long long)states[0]);
  neap_graph_free(graph);
}

/* Every way to order tasks whose parts stay on one rank, keeping what backward reads or making it again. */
static void test_ways(void **state) {
  (void)state;
  static const char *const ways[] = {"gpipe", "1f1b", "interleaved"};
  neap_graph *graph = build(6);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    for (int least = 0; least < 2; least++) {
      struct rank_run like = {.graph = graph, .options = cases[4].options};
      like.options.micro_batches = 6;
      like.options.planner = "evict";
      like.options.pipeline_way = ways[i];
      like.options.budget = least ? NEAP_BUDGET_MIN : NEAP_BUDGET_MAX;
      check(ways[i], like, 3);
    }
  neap_graph_free(graph);
}

/* RoundPipe: ranks reach one memory, and each takes the part that comes next; forward and backward have
 * borders of their own. What several rounds add up has the order of one process. */
static void test_rounds(void **state) {
  (void)state;
  neap_graph *graph = build(6);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int size = 2; size <= 4; size++) {
      if (leaves_out(i, (size_t)size - 2, 3)) continue;
      struct rank_run like = {.graph = graph, .options = cases[i].options};
      like.options.micro_batches = size == 3 ? 7 : 8;
      like.options.planner = "evict";
      like.options.pipeline_way = "roundpipe";
      like.options.budget = i % 2 == 0 ? NEAP_BUDGET_MAX : NEAP_BUDGET_MIN;
      like.parts = size == 4 ? 5 : 0;
      const struct rank_run *runs = check(cases[i].what, like, size);
      for (int r = 0; r < size; r++) assert_true(runs[r].memory.shared > 0);
    }
  neap_graph_free(graph);
}

/* What all ranks count adds up to what lies in one memory and what each has alone: parameters and states of
 * one process once, whatever the number of ranks. */
static void test_shared_once(void **state) {
  (void)state;
  neap_graph *graph = build_wide();
  struct rank_run like = {.graph = graph, .options = cases[4].options};
  like.options.micro_batches = 6;
  like.options.planner = "evict";
  like.options.pipeline_way = "roundpipe";
  struct rank_run one = like;
  run_rank(&one);
  for (int size = 2; size <= 3; size++) {
    const struct rank_run *runs = check("shared once", like, size);
    uint64_t parameters = 0, states = 0, resident = 0, inputs = 0;
    for (int r = 0; r < size; r++) {
      const neap_memory *m = &runs[r].memory;
      assert_int_equal(m->shared, runs[0].memory.shared);
      assert_int_equal(m->planned_peak, m->resident + m->arena);
      parameters += m->parameters;
      states += m->states;
      inputs += m->inputs;
      resident += m->resident;
    }
    assert_in_range(parameters, one.memory.parameters - (uint64_t)size, one.memory.parameters);
    assert_in_range(states, one.memory.states, one.memory.states + 2 * (uint64_t)size);
    assert_int_equal(inputs, (uint64_t)size * one.memory.inputs);
    assert_in_range(resident, parameters + states + inputs, parameters + states + inputs + (uint64_t)size);
  }
  neap_graph_free(graph);
}

/* A step with fewer micro-batches than the schedule has. */
static void test_short_step(void **state) {
  (void)state;
  neap_graph *graph = build(5);
  for (int32_t parts = 1; parts < 8; parts += quick_pass() ? 3 : 1) {
    struct rank_run like = {.graph = graph, .options = cases[4].options, .parts = parts};
    like.options.micro_batches = 8;
    like.options.planner = "evict";
    check("a short step", like, 3);
  }
  neap_graph_free(graph);
}

static neap_session_options options_of(const struct rank_run *like, uint64_t budget) {
  neap_session_options options = like->options;
  options.budget = budget;
  return options;
}

/* Bytes between the least of the ranks and the most: every one is kept, with the same bits. */
static void test_budgets(void **state) {
  (void)state;
  enum { BUDGETS = 5, RANKS = 3 };
  neap_graph *graph = build(6);
  struct rank_run like = {.graph = graph, .options = cases[4].options};
  uint64_t bounds[2] = {0};
  like.options.micro_batches = 6;
  like.options.planner = "evict";
  for (int i = 0; i < 2; i++) {
    struct rank_run open = like;
    open.options = options_of(&like, i == 0 ? NEAP_BUDGET_MIN : NEAP_BUDGET_MAX);
    const struct rank_run *runs = check("least and most", open, RANKS);
    for (int r = 0; r < RANKS; r++)
      if (runs[r].memory.planned_peak > bounds[i]) bounds[i] = runs[r].memory.planned_peak;
  }
  assert_true(bounds[0] < bounds[1]);
  for (int i = 0; i < BUDGETS; i += quick_pass() ? 2 : 1) {
    struct rank_run within = like;
    const uint64_t budget = bounds[0] + (bounds[1] - bounds[0]) * (uint64_t)i / (BUDGETS - 1);
    within.options = options_of(&like, budget);
    const struct rank_run *runs = check("a budget", within, RANKS);
    for (int r = 0; r < RANKS; r++) assert_true(runs[r].memory.planned_peak <= budget);
  }
  neap_graph_free(graph);
}

/* The file that the first rank saves is that of one process, byte for byte. */
static void compare_files(int size, int pipelines) {
  neap_graph *graph = build(4);
  struct rank_run like = {.graph = graph, .options = cases[4].options, .path = "pipeline_one.safetensors"};
  struct rank_run one = like, runs[MOST_RANKS] = {0};
  like.options.micro_batches = one.options.micro_batches = 4;
  like.options.planner = one.options.planner = "evict";
  run_rank(&one);
  like.path = "pipeline_ranks.safetensors";
  like.pipelines = pipelines;
  run_ranks(&like, size, runs);
  FILE *a = fopen(one.path, "rb"), *b = fopen(like.path, "rb");
  assert_non_null(a);
  assert_non_null(b);
  int x, y;
  do {
    x = getc(a), y = getc(b);
    assert_int_equal(x, y);
  } while (x != EOF);
  fclose(a);
  fclose(b);
  remove(one.path);
  remove(like.path);
  neap_graph_free(graph);
}

static void test_files(void **state) {
  (void)state;
  compare_files(3, 1);
  compare_files(4, 2);
}

/* ---- Refusals ---- */

struct refused {
  const neap_graph *graph;
  neap_session_options options;
  const neap_collective *collective;
  neap_status status;
  char message[256];
  uint64_t smallest;
};

static void *create_refused(void *context) {
  struct refused *r = context;
  neap_session *s = NULL;
  r->options.collective = r->collective;
  r->options.threads = 1;
  r->status = neap_session_create(r->graph, &r->options, &r->smallest, &s);
  if (r->status != NEAP_OK) snprintf(r->message, sizeof r->message, "%s", neap_error_message());
  neap_session_free(s);
  return NULL;
}

/* Creates sessions of two ranks; each gives the same status. */
static struct refused create_two(const neap_graph *graph, neap_session_options options) {
  neap_collective ranks[2];
  struct refused both[2] = {{.graph = graph, .options = options}, {.graph = graph, .options = options}};
  ASSERT_OK(threads_connect(2, ranks));
  for (int r = 0; r < 2; r++) both[r].collective = &ranks[r];
  on_threads(2, create_refused, both, sizeof *both);
  close_all(2, ranks);
  assert_int_equal(both[0].status, both[1].status);
  assert_int_equal(both[0].smallest, both[1].smallest);
  return both[0];
}

static void test_refusals(void **state) {
  (void)state;
  static const struct {
    neap_session_options options;
    neap_status status;
    const char *message;
  } refused[] = {
      {{.pipeline = 3, .micro_batches = 4},
       NEAP_INVALID_ARGUMENT,
       "it needs as many processes, or a multiple of them (got 2)"},
      {{.pipeline = 2, .micro_batches = 1}, NEAP_INVALID_ARGUMENT, "give a smaller `micro-batch`"},
      {{.pipeline = 2, .micro_batches = 4, .ema = 0.9f}, NEAP_INVALID_ARGUMENT, "`ema`"},
      {{.pipeline = 2, .micro_batches = 4, .sparse_density = 0.5}, NEAP_INVALID_ARGUMENT, "`sparse`"},
      {{.pipeline = 2, .micro_batches = 4, .shard = NEAP_SHARD_ALL}, NEAP_INVALID_ARGUMENT, "`shard` all"},
      {{.pipeline = 2, .micro_batches = 4, .plan_file = "plan"}, NEAP_INVALID_ARGUMENT, "`plan`"},
      {{.pipeline = 2, .micro_batches = 4, .pipeline_way = "no"}, NEAP_INVALID_ARGUMENT, "unknown way 'no'"},
      {{.pipeline = 2, .micro_batches = 4, .pipeline_way = "breadth-first"},
       NEAP_UNSUPPORTED,
       "breadth-first has no"},
  };
  neap_graph *graph = build(4);
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    const struct refused made = create_two(graph, refused[i].options);
    if (made.status != refused[i].status || strstr(made.message, refused[i].message) == NULL)
      fail_msg("case %zu: status %d, '%s'", i, made.status, made.message);
  }
  neap_session_options small = {.pipeline = 2, .micro_batches = 4, .budget = 1000, .planner = "evict"};
  const struct refused least = create_two(graph, small);
  assert_int_equal(least.status, NEAP_OVER_BUDGET);
  small.budget = least.smallest;
  assert_int_equal(create_two(graph, small).status, NEAP_OK);
  neap_graph_free(graph);
}

/* When its time is up at once, the search for the least has one schedule, the first: it needs more, its bytes
 * are met, and all ranks have the same. */
static void test_time_limit(void **state) {
  (void)state;
  neap_graph *graph = build(4);
  neap_session_options small = {.pipeline = 2, .micro_batches = 4, .budget = 1000, .planner = "evict"};
  const struct refused least = create_two(graph, small);
  small.plan_seconds = 1e-3;
  const struct refused first = create_two(graph, small);
  assert_int_equal(first.status, NEAP_OVER_BUDGET);
  assert_true(first.smallest > least.smallest);
  small.budget = first.smallest;
  assert_int_equal(create_two(graph, small).status, NEAP_OK);
  small.plan_seconds = 1e4;
  small.budget = 1000;
  assert_int_equal(create_two(graph, small).smallest, least.smallest);
  struct rank_run like = {.graph = graph, .options = cases[4].options};
  like.options.micro_batches = 4;
  like.options.planner = "evict";
  like.options.plan_seconds = 1e-3;
  like.options.budget = NEAP_BUDGET_MIN;
  check("the least of no time", like, 2);
  neap_graph_free(graph);
}

int run_test_pipeline_run(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bits),          cmocka_unit_test(test_several_pipelines),
      cmocka_unit_test(test_shared_states), cmocka_unit_test(test_ways),
      cmocka_unit_test(test_rounds),        cmocka_unit_test(test_shared_once),
      cmocka_unit_test(test_short_step),    cmocka_unit_test(test_budgets),
      cmocka_unit_test(test_files),         cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_time_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
