/* A training step to plan: a model's, or a graph file's. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const struct {
  neap_dtype dtype;
  const char *name;
} precisions[] = {{NEAP_F32, "f32"}, {NEAP_BF16, "bf16"}, {NEAP_F16, "f16"}};

bool read_allowed(const struct verb *verb, const char *text, unsigned *allowed, double *density) {
  static const struct {
    const char *name;
    unsigned bit;
  } techniques[] = {{"micro", NEAP_ALLOW_MICRO}, {"bf16", NEAP_ALLOW_BF16}, {"f16", NEAP_ALLOW_F16}};
  static const char sparse[] = "sparse=";
  *allowed = 0;
  for (const char *at = text; text != NULL; at += *at == ',') {
    const size_t length = strcspn(at, ",");
    unsigned bit = 0;
    char *end;
    for (size_t i = 0; i < sizeof techniques / sizeof *techniques; i++)
      if (strlen(techniques[i].name) == length && strncmp(techniques[i].name, at, length) == 0)
        bit = techniques[i].bit;
    if (strncmp(at, sparse, sizeof sparse - 1) == 0) {
      *density = strtod(at + sizeof sparse - 1, &end);
      if (end == at + length && *density >= LEAST_DENSITY && *density < 1) bit = NEAP_ALLOW_SPARSE;
    }
    if (bit == 0) {
      report_usage(verb, "--allow %s: '%.*s' is none of micro, bf16, f16, sparse=DENSITY (below 1)", text,
                   (int)length, at);
      return false;
    }
    *allowed |= bit;
    at += length;
    if (*at == '\0') break;
  }
  return true;
}

neap_dtype precision_dtype(int word) { return precisions[word].dtype; }
const char *precision_name(int word) { return precisions[word].name; }

int precision_word(neap_dtype dtype) {
  int word = 0;
  while (precisions[word].dtype != dtype) word++;
  return word;
}

neap_session_options source_session(const struct source *source) {
  return (neap_session_options){
      .optimizer = (neap_optimizer)source->optimizer,
      .momentum = (float)source->momentum,
      .convolution = (neap_convolution)source->convolution,
      .backend = (neap_backend)source->backend,
      .costs = (neap_costs)source->costs,
      .variant = (neap_variant)source->variant,
      .threads = source->threads,
      .micro_batches = source->micro_batch > 0 ? (int32_t)(source->batch / source->micro_batch) : 1,
      .precision = precision_dtype(source->precision),
      .sparse_density = source->sparse,
      .sparse_layers = source->sparse_layers,
      .byte_input = {.name = "image"}}; /* as training keeps images */
}

neap_model_options source_shape(const struct source *source) {
  return (neap_model_options){.batch = source->micro_batch > 0 ? source->micro_batch : source->batch,
                              .image = {source->image[0], source->image[1], source->image[2]},
                              .classes = source->classes,
                              .length = source->length,
                              .window = source->window};
}

neap_status source_step(const struct source *source, neap_step **step) {
  const neap_model_options shape = source_shape(source);
  const neap_session_options session = source_session(source);
  neap_graph *graph;
  neap_status status = neap_model_build(source->model, &shape, &graph);
  if (status != NEAP_OK) return status;
  status = neap_step_from_graph(graph, &session, step);
  neap_graph_free(graph);
  return status;
}

neap_status source_usual_batch(struct source *source) {
  const neap_model_options shape = source_shape(source);
  neap_graph *graph;
  const neap_status status = neap_model_build(source->model, &shape, &graph);
  if (status != NEAP_OK) return status;
  source->batch = neap_graph_batch(graph);
  neap_graph_free(graph);
  return NEAP_OK;
}

static const struct source usual = SOURCE_DEFAULTS;

/* The first option that was given for a model, other than --threads, and not as it is by itself; NULL: none.
 */
static const char *option_for_model(const struct source *source) {
  return source->batch != usual.batch               ? "--batch"
         : source->micro_batch != usual.micro_batch ? "--micro-batch"
         : source->image[0] != usual.image[0]       ? "--image"
         : source->classes != usual.classes         ? "--classes"
         : source->length != usual.length           ? "--length"
         : source->window != usual.window           ? "--window"
         : source->optimizer != usual.optimizer     ? "--optimizer"
         : source->momentum != usual.momentum       ? "--momentum"
         : source->convolution != usual.convolution ? "--conv"
         : source->backend != usual.backend         ? "--backend"
         : source->costs != usual.costs             ? "--costs"
         : source->variant != usual.variant         ? "--variant"
         : source->precision != usual.precision     ? "--precision"
         : source->sparse != usual.sparse           ? "--sparse"
         : source->sparse_layers != NULL            ? "--sparse-layers"
                                                    : NULL;
}

int source_open(const struct verb *verb, struct source *source, const char *file, neap_step **step) {
  source->file = file;
  if (source->model == NULL && file == NULL) return report_usage(verb, "--model or a graph file is missing");
  if (source->model != NULL && file != NULL)
    return report_usage(verb, "--model %s and the graph file %s: give one of them", source->model, file);
  if (file != NULL && option_for_model(source) != NULL)
    return report_usage(verb, "%s goes with --model: the graph file %s is as it is", option_for_model(source),
                        file);
  if (source->optimizer != NEAP_SGD && source->optimizer != NEAP_RMSPROP &&
      source->momentum != usual.momentum)
    return report_usage(verb, "--momentum is of --optimizer sgd, and has no use here");
  if (prepare_threads(source->threads) != EXIT_DONE) return EXIT_FAILED;
  neap_status status = NEAP_OK;
  if (file != NULL) {
    status = neap_step_read(file, step);
  } else {
    if (source->batch == 0) status = source_usual_batch(source);
    if (status == NEAP_OK && source->micro_batch > 0 && source->batch % source->micro_batch != 0)
      return report_usage(verb, "--micro-batch %lld does not divide a batch of %lld",
                          (long long)source->micro_batch, (long long)source->batch);
    if (status == NEAP_OK) status = source_step(source, step);
  }
  return status == NEAP_OK ? EXIT_DONE : report_failure(verb, status);
}

neap_status source_combinations(const struct source *source, const struct budget *budget, unsigned allowed,
                                neap_combination *list, int *count) {
  const neap_model_options shape = source_shape(source);
  neap_session_options session = source_session(source);
  session.budget = budget->bytes;
  session.budget_fraction = budget->fraction;
  return neap_combinations(source->model, &shape, &session, allowed, list, count);
}

/* `how`: a session's options beyond the source's. */
static neap_status plan_model(const struct source *source, neap_session_options how, uint64_t *smallest,
                              neap_step **step, neap_plan **plan) {
  const neap_model_options shape = source_shape(source);
  neap_session_options session = source_session(source);
  session.budget = how.budget;
  session.planner = how.planner;
  session.plan_file = how.plan_file;
  session.plan_quick = how.plan_quick;
  session.plan_seconds = how.plan_seconds;
  session.plan_progress = how.plan_progress;
  session.plan_context = how.plan_context;
  neap_graph *graph;
  neap_status status = neap_model_build(source->model, &shape, &graph);
  if (status != NEAP_OK) return status;
  status = neap_plan_graph(graph, &session, smallest, step, plan);
  neap_graph_free(graph);
  return status;
}

/* Frees `own` where it is the step that the caller has, or is not wanted. */
static void hand_out(neap_step *own, const neap_step *step, neap_step **chosen) {
  neap_step_info one, other;
  neap_step_describe(own, &one);
  neap_step_describe(step, &other);
  if (chosen != NULL && strcmp(one.name, other.name) != 0)
    *chosen = own;
  else
    neap_step_free(own);
}

neap_status source_plan(const struct source *source, const neap_step *step, uint64_t budget,
                        const neap_plan_options *options, uint64_t *smallest, neap_step **chosen,
                        neap_plan **plan) {
  neap_step *own;
  const neap_session_options how = {.budget = budget,
                                    .planner = options->planner,
                                    .plan_seconds = options->seconds,
                                    .plan_progress = options->progress,
                                    .plan_context = options->context};
  if (chosen != NULL) *chosen = NULL;
  if (source->model == NULL || source->variant != NEAP_VARIANT_AUTO)
    return neap_plan_make_with(step, budget, options, smallest, plan);
  const neap_status status = plan_model(source, how, smallest, &own, plan);
  if (status == NEAP_OK) hand_out(own, step, chosen);
  return status;
}

neap_status source_read_plan(const struct source *source, const neap_step *step, const char *file,
                             neap_step **chosen, neap_plan **plan) {
  neap_step *own;
  neap_check_result check;
  const neap_session_options how = {.budget = NEAP_BUDGET_MAX, .plan_file = file};
  *chosen = NULL;
  if (source->model != NULL) {
    const neap_status status = plan_model(source, how, NULL, &own, plan);
    if (status == NEAP_OK) hand_out(own, step, chosen);
    return status;
  }
  const neap_status status = neap_plan_read(file, plan);
  return status != NEAP_OK ? status : neap_plan_check(step, *plan, &check);
}

uint64_t plan_bytes(const neap_plan *plan) {
  neap_plan_info info;
  neap_plan_describe(plan, &info);
  return info.resident_bytes + info.arena_bytes;
}

neap_status source_budget(const neap_step *step, const struct budget *budget, uint64_t *bytes) {
  *bytes = budget->bytes;
  if (budget->fraction <= 0) return NEAP_OK;
  uint64_t everything;
  const neap_status status = neap_step_keep_all_bytes(step, &everything);
  if (status == NEAP_OK) *bytes = neap_budget_share(budget->fraction, everything);
  return status;
}

bool source_fits_direct(const struct source *source, uint64_t budget, const char *planner) {
  if (source->model == NULL || source->convolution == NEAP_CONV_DIRECT) return false;
  struct source direct = *source;
  direct.convolution = NEAP_CONV_DIRECT;
  bool fits = false;
  for (int quick = 1; quick >= 0 && !fits; quick--) { /* a quick look may miss what is just met */
    neap_step *step = NULL;
    neap_plan *plan = NULL;
    const neap_session_options how = {.budget = budget, .planner = planner, .plan_quick = quick};
    fits = plan_model(&direct, how, NULL, &step, &plan) == NEAP_OK;
    neap_plan_free(plan);
    neap_step_free(step);
  }
  return fits;
}

int64_t source_largest_batch(const struct source *source, uint64_t budget, const char *planner) {
  if (source->model == NULL) return 0;
  const neap_model_options shape = source_shape(source);
  neap_session_options session = source_session(source);
  session.budget = budget;
  session.planner = planner;
  int64_t largest;
  return neap_largest_batch(source->model, &shape, &session, &largest) == NEAP_OK ? largest : 0;
}

json_t *plan_json(const neap_plan *plan, uint64_t asked, const char *planner) {
  neap_plan_info p;
  neap_plan_describe(plan, &p);
  const uint64_t budget = asked == NEAP_BUDGET_MAX || asked == NEAP_BUDGET_MIN ? plan_bytes(plan) : asked;
  const char *named = strcmp(planner, "auto") == 0 ? p.planner : planner;
  return json_pack("{s:s, s:s, s:s, s:I, s:b, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:o, s:o, s:b}",
                   "graph", p.graph, "planner", named, "made_by", p.planner, "budget_bytes",
                   (json_int_t)budget, "feasible", 1, "peak_bytes", (json_int_t)p.peak_bytes,
                   "resident_bytes", (json_int_t)p.resident_bytes, "arena_bytes", (json_int_t)p.arena_bytes,
                   "cost", p.cost, "base_cost", p.base_cost, "overhead", overhead_of(p.cost, p.base_cost),
                   "seconds", p.seconds, "recomputed", (json_int_t)p.recomputed, "lower_bound_bytes",
                   p.lower_bound_bytes > 0 ? json_integer((json_int_t)p.lower_bound_bytes) : json_null(),
                   "cost_lower_bound", p.cost_lower_bound > 0 ? json_real(p.cost_lower_bound) : json_null(),
                   "proven_optimal", (int)p.proven_optimal);
}

bool planner_exists(const char *name) {
  neap_row row;
  for (int32_t i = 0; neap_planner_at(i, &row); i++)
    if (strcmp(row.name, name) == 0) return true;
  return strcmp(name, "auto") == 0;
}

int planner_from_end(const char *name) {
  neap_row row;
  int32_t place = -1, count = 0;
  for (; neap_planner_at(count, &row); count++)
    if (strcmp(row.name, name) == 0) place = count;
  return place < 0 ? 0 : count - place;
}

const char *planner_graphs(const char *name) {
  neap_row row;
  for (int32_t i = 0; neap_planner_at(i, &row); i++)
    if (strcmp(row.name, name) == 0) return row.graphs;
  return "any";
}
