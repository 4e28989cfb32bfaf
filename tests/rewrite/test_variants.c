/* Variants of a graph: each gives the bits of the base in training and evaluation under every budget; the one
 * that is picked costs no more than the base; a plan file keeps its variant. */
#include <unistd.h>

#include "effort.h"
#include "session_help.h"

enum { FRACTIONS = 2 };

struct model_case {
  neap_graph *(*build)(void); /* NULL: a model by name */
  const char *name;
  neap_model_options shape;
  double fractions[FRACTIONS]; /* budgets, of keeping everything; 0: the least */
  bool large;                  /* left out under sanitizers */
};

/* Everything that a ReLU can stand before. */
static neap_graph *build_network(void) {
  neap_builder *b = neap_builder_create("network");
  neap_graph *graph = NULL;
  neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){4, 3, 24, 24});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){4});
  const neap_conv_options conv = {.filters = 20, .size = 3, .padding = 1, .bias = true};
  const neap_pool_options pool = {.size = 3, .stride = 2, .padding = 1};
  x = neap_dropout(b, neap_relu(b, neap_conv(b, x, conv)), 0.1f);
  const neap_tensor more = neap_batch_norm(b, neap_conv(b, x, conv), (neap_batch_norm_options){0});
  x = neap_dropout(b, neap_relu(b, neap_add(b, more, x)), 0.1f);
  x = neap_dropout(b, neap_relu(b, neap_conv(b, x, conv)), 0.1f);
  x = neap_max_pool(b, neap_relu(b, neap_conv(b, x, conv)), pool);
  const neap_tensor side = neap_relu(b, neap_conv(b, x, conv));
  x = neap_dropout(b, neap_relu(b, neap_conv(b, x, conv)), 0.3f);
  x = neap_concat(b, (neap_tensor[]){side, x}, 2, 1);
  x = neap_max_pool(b, neap_relu(b, neap_batch_norm(b, x, (neap_batch_norm_options){0})), pool);
  x = neap_relu(b, neap_add(b, neap_relu(b, neap_conv(b, x, conv)), neap_conv(b, x, conv)));
  x = neap_linear(b, neap_global_average_pool(b, x), 10, true);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph));
  neap_builder_free(b);
  return graph;
}

/* Convolutions that are Winograd's, whose workspaces follow from the largest nodes: those of ReLU, if these
 * counted. */
static neap_graph *build_wide_network(void) {
  neap_builder *b = neap_builder_create("wide network");
  neap_graph *graph = NULL;
  neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){8, 3, 32, 32});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){8});
  const neap_conv_options conv = {.filters = 64, .size = 3, .padding = 1};
  for (int i = 0; i < 2; i++) x = neap_dropout(b, neap_relu(b, neap_conv(b, x, conv)), 0.1f);
  x = neap_linear(b, neap_global_average_pool(b, x), 10, true);
  ASSERT_OK(neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph));
  neap_builder_free(b);
  return graph;
}

/* ReLU before dropout, sums, concatenations and crops; and with batch norm, with or without an addend. */
static const struct model_case models[] = {
    {build_network, NULL, {0}, {0.8, 0}, false},
    {build_wide_network, NULL, {0}, {0.9, 0}, false},
    {NULL, "wrn-10-1", {.batch = 4, .image = {3, 16, 16}}, {1, 0.8}, false},
    {NULL, "unet-4", {.batch = 1, .image = {1, 188, 188}}, {0.8, 0.7}, true},
};
enum { MODELS = sizeof models / sizeof *models };

static bool left_out(const struct model_case *c) { return c->large && quick_pass(); }

static neap_graph *build(const struct model_case *c) {
  neap_graph *graph = NULL;
  if (c->build != NULL) return c->build();
  ASSERT_OK(build_named(c->name, &c->shape, &graph));
  return graph;
}

static neap_session_options options_for(neap_variant variant, double fraction) {
  return (neap_session_options){.budget_fraction = fraction,
                                .variant = variant,
                                .momentum = 0.9f,
                                .weight_decay = 5e-4f,
                                .threads = 2,
                                .seed = 1};
}

struct bits {
  struct run_result trained;
  neap_step_result evaluated;
};

static bool bits_of(const neap_graph *graph, const neap_session_options *options, struct bits *bits) {
  neap_session *s = NULL;
  uint64_t smallest = 0;
  const neap_status status = neap_session_create(graph, options, &smallest, &s);
  if (status == NEAP_OVER_BUDGET) {
    assert_true(smallest > 0);
    return false;
  }
  ASSERT_OK(status);
  bits->trained = run_steps(s, 2, 0.05f, 10);
  ASSERT_OK(neap_session_evaluate(s, &bits->evaluated));
  neap_session_free(s);
  return true;
}

static void test_every_variant_gives_the_same_bits(void **state) {
  (void)state;
  int other = 0;
  for (int m = 0; m < MODELS; m++) {
    if (left_out(&models[m])) continue;
    neap_graph *graph = build(&models[m]);
    neap_session_options options = options_for(NEAP_VARIANT_BASE, 1);
    struct bits base, bits;
    assert_true(bits_of(graph, &options, &base));
    for (int variant = NEAP_VARIANT_AUTO; variant <= NEAP_VARIANT_MASK; variant++)
      for (int f = 0; f < FRACTIONS; f++) {
        options = options_for((neap_variant)variant, models[m].fractions[f]);
        if (quick_pass()) options.planner = "evict"; /* which plans at once */
        if (!bits_of(graph, &options, &bits)) continue;
        other += strcmp(bits.trained.memory.variant, "base") != 0;
        assert_string_equal(bits.trained.digest, base.trained.digest);
        assert_true(bits.trained.last.loss == base.trained.last.loss);
        assert_true(bits.evaluated.loss == base.evaluated.loss);
        assert_int_equal(bits.evaluated.correct, base.evaluated.correct);
      }
    neap_graph_free(graph);
  }
  assert_true(other > 0);
}

struct outcome {
  bool met;
  uint64_t peak; /* or the smallest budget */
  double cost;
};

static struct outcome plan_with(const neap_graph *graph, neap_variant variant, uint64_t budget,
                                const char *planner) {
  neap_session_options options = options_for(variant, 0);
  options.budget = budget;
  options.planner = planner;
  struct outcome outcome = {0};
  neap_step *step = NULL;
  neap_plan *plan = NULL;
  const neap_status status = neap_plan_graph(graph, &options, &outcome.peak, &step, &plan);
  if (status == NEAP_OVER_BUDGET) return outcome;
  ASSERT_OK(status);
  neap_plan_info info;
  neap_step_info about;
  neap_check_result check;
  neap_plan_describe(plan, &info);
  neap_step_describe(step, &about);
  assert_string_equal(info.graph, about.name);
  ASSERT_OK(neap_plan_check(step, plan, &check));
  outcome = (struct outcome){true, info.resident_bytes + info.arena_bytes, info.cost};
  neap_plan_free(plan);
  neap_step_free(step);
  return outcome;
}

/* Against every variant alone: never a budget that one of them meets and the choice does not, and never a
 * higher cost, or peak where the least is asked for. */
static void test_the_choice_is_the_best(void **state) {
  (void)state;
  int cheaper = 0;
  for (int m = 0; m < MODELS; m++) {
    if (models[m].large) continue; /* planning takes its time */
    neap_graph *graph = build(&models[m]);
    /* A quick pass asks the usual planner for the smallest of the steps alone; evict plans at once. */
    const bool usual = !quick_pass() || (models[m].build == build_wide_network && !sanitized());
    const char *planner = usual ? NULL : "evict";
    const uint64_t kept = plan_with(graph, NEAP_VARIANT_BASE, NEAP_BUDGET_MAX, planner).peak;
    for (int f = 0; f < FRACTIONS; f++) {
      const uint64_t budget = (uint64_t)(models[m].fractions[f] * (double)kept);
      const struct outcome chosen = plan_with(graph, NEAP_VARIANT_AUTO, budget, planner);
      for (int variant = NEAP_VARIANT_BASE; variant <= NEAP_VARIANT_MASK; variant++) {
        const struct outcome one = plan_with(graph, (neap_variant)variant, budget, planner);
        assert_true(chosen.met || !one.met);
        if (budget == NEAP_BUDGET_MIN || !chosen.met) assert_true(chosen.peak <= one.peak);
        if (budget == NEAP_BUDGET_MIN || !one.met) continue;
        const bool nothing_to_gain = models[m].fractions[f] == 1;
        assert_true(nothing_to_gain || chosen.cost <= one.cost);
        cheaper += variant == NEAP_VARIANT_BASE && chosen.cost < one.cost;
      }
    }
    neap_graph_free(graph);
  }
  assert_true(cheaper > 0);
}

/* A plan that was saved brings its variant with it, whatever variant is asked for. */
static void test_a_plan_file_has_its_variant(void **state) {
  (void)state;
  neap_graph *graph = build(&models[0]);
  neap_session_options options = options_for(NEAP_VARIANT_BASE, 1);
  struct bits base, replayed;
  char path[] = "/tmp/neap-variant-XXXXXX";
  const int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  assert_true(bits_of(graph, &options, &base));
  for (int variant = NEAP_VARIANT_BASE; variant <= NEAP_VARIANT_MASK; variant++) {
    neap_step *step;
    neap_plan *plan;
    options = options_for((neap_variant)variant, 0.8);
    options.plan_quick = true;
    ASSERT_OK(neap_plan_graph(graph, &options, NULL, &step, &plan));
    ASSERT_OK(neap_plan_write(plan, path));
    neap_plan_free(plan);
    neap_step_free(step);
    for (int asked = NEAP_VARIANT_AUTO; asked <= NEAP_VARIANT_MASK; asked++) {
      options = options_for((neap_variant)asked, 0);
      options.plan_file = path;
      assert_true(bits_of(graph, &options, &replayed));
      assert_string_equal(replayed.trained.memory.variant, variant == NEAP_VARIANT_MASK ? "mask" : "base");
      assert_string_equal(replayed.trained.digest, base.trained.digest);
    }
  }
  unlink(path);
  neap_graph_free(graph);
}

/* A network without a ReLU that keeps bits has one graph, and no variant outside the list. */
static void test_variants_that_are_not(void **state) {
  (void)state;
  const struct model_case norms = {NULL, "wrn-10-1", {.batch = 4, .image = {3, 16, 16}}, {1}, false};
  neap_graph *graph = build(&norms);
  neap_session_options options = options_for(NEAP_VARIANT_MASK, 1);
  struct bits bits;
  assert_true(bits_of(graph, &options, &bits));
  assert_string_equal(bits.trained.memory.variant, "base");
  options.variant = (neap_variant)99;
  neap_step *step = NULL;
  assert_int_equal(neap_step_from_graph(graph, &options, &step), NEAP_INVALID_ARGUMENT);
  neap_graph_free(graph);
}

int run_test_variants(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_variant_gives_the_same_bits), cmocka_unit_test(test_the_choice_is_the_best),
      cmocka_unit_test(test_a_plan_file_has_its_variant), cmocka_unit_test(test_variants_that_are_not)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
