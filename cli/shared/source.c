/* A training step to plan: a model's, or a graph file's. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "shared/failure.h"
#include "shared/format.h"
#include "shared/source.h"
#include "shared/threads.h"

const char *precision_name(neap_dtype dtype) {
  return dtype == NEAP_BF16 ? "bf16" : dtype == NEAP_F16 ? "f16" : "f32";
}

neap_session_options source_session(const neap_train_options *source) {
  neap_session_options session = source->session;
  session.budget = NEAP_BUDGET_MIN;
  session.budget_fraction = 0;
  session.process_budget = 0;
  session.planner = session.plan_file = NULL;
  session.plan_seconds = 0;
  session.micro_batches = source->micro_batch > 0 ? (int32_t)(source->shape.batch / source->micro_batch) : 1;
  session.byte_input = (neap_byte_input){.name = "image"}; /* as training keeps images */
  return session;
}

neap_model_options source_shape(const neap_train_options *source) {
  neap_model_options shape = source->shape;
  if (source->micro_batch > 0) shape.batch = source->micro_batch;
  return shape;
}

static neap_status build(const neap_train_options *source, neap_graph **graph) {
  const neap_model_options shape = source_shape(source);
  return neap_model_build(source->opened, &shape, graph);
}

neap_status source_step(const neap_train_options *source, neap_step **step) {
  const neap_session_options session = source_session(source);
  neap_graph *graph;
  neap_status status = build(source, &graph);
  if (status != NEAP_OK) return status;
  status = neap_step_from_graph(graph, &session, step);
  neap_graph_free(graph);
  return status;
}

neap_status source_exchanges(const neap_train_options *source, const neap_plan *plan,
                             neap_exchanges *exchanges) {
  const neap_session_options session = source_session(source);
  neap_graph *graph;
  neap_status status = build(source, &graph);
  if (status != NEAP_OK) return status;
  status = neap_step_exchanges(graph, &session, plan, exchanges);
  neap_graph_free(graph);
  return status;
}

neap_status source_usual_batch(neap_train_options *source) {
  neap_graph *graph;
  const neap_status status = build(source, &graph);
  if (status != NEAP_OK) return status;
  source->shape.batch = neap_graph_batch(graph);
  neap_graph_free(graph);
  return NEAP_OK;
}

/* A graph file is as it is: the first setting that was given for a model's step is refused. */
static int check_graph_file(const struct verb *verb, const struct arguments *a, const char *file) {
  neap_setting setting;
  for (int32_t i = 0; neap_setting_at(i, &setting); i++)
    if (a->given[i] != NULL && setting.flags & NEAP_SETTING_STEP)
      return report_usage(verb, "--%s needs --model: the step file %s is fixed", setting.name, file);
  return EXIT_DONE;
}

/* Each process has at least one micro-batch, and all as many. */
int check_micro_batch(const struct verb *verb, neap_train_options *source) {
  const int ranks = source->session.collective != NULL ? source->session.collective->size : 1;
  if (ranks > 1 && source->shape.batch % ranks != 0)
    return report_usage(verb, "--processes %d: must divide the batch of %lld", ranks,
                        (long long)source->shape.batch);
  if (ranks > 1 && source->micro_batch == 0) source->micro_batch = source->shape.batch / ranks;
  if (source->micro_batch == NEAP_MICRO_BATCH_AUTO)
    return report_usage(verb, "--micro-batch auto: only works with `neap train`; give a number of records");
  if (source->micro_batch > 0 && source->shape.batch % source->micro_batch != 0)
    return report_usage(verb, "--micro-batch %lld: must divide the batch of %lld",
                        (long long)source->micro_batch, (long long)source->shape.batch);
  if (ranks > 1 && source->shape.batch / source->micro_batch % ranks != 0)
    return report_usage(verb, "--processes %d: must divide the %lld micro-batches", ranks,
                        (long long)(source->shape.batch / source->micro_batch));
  return EXIT_DONE;
}

static int open_step(const struct verb *verb, neap_train_options *source, neap_step **step) {
  neap_status status = NEAP_OK;
  if (source->shape.batch == 0) status = source_usual_batch(source);
  if (status == NEAP_OK && check_micro_batch(verb, source) != EXIT_DONE) return EXIT_USAGE;
  if (status == NEAP_OK) status = source_step(source, step);
  return status == NEAP_OK ? EXIT_DONE : report_failure(verb, status);
}

int take_model_file(const struct verb *verb, struct arguments *a) {
  const char *file = a->operands.values[0];
  if (a->options.model != NULL || !neap_model_names_file(file)) return EXIT_DONE;
  const neap_status status = set_setting(a, neap_setting_find("model"), file);
  if (status != NEAP_OK) return report_failure(verb, status);
  for (int i = 1; i < OPERAND_LIMIT; i++) a->operands.values[i - 1] = a->operands.values[i];
  a->operands.values[OPERAND_LIMIT - 1] = NULL;
  a->operands.count--;
  return EXIT_DONE;
}

int report_no_model(const struct verb *verb, const struct arguments *a) {
  const char *file = a->operands.values[0];
  return a->options.model != NULL
             ? report_usage(verb, "%s: --model %s names the model already; give one of them", file,
                            a->options.model)
             : report_usage(verb,
                            "%s: is not the file or folder of a model; --model names a ready-made one (see "
                            "`neap models`)",
                            file);
}

int source_open(const struct verb *verb, struct arguments *a, const char *file, neap_step **step) {
  neap_train_options *source = &a->options;
  if (source->model == NULL && file == NULL) return report_usage(verb, "--model or a step file is missing");
  if (source->model != NULL && file != NULL)
    return report_usage(verb, "--model %s and the step file %s: give one of them", source->model, file);
  const int checked = file != NULL ? check_graph_file(verb, a, file) : check_use(verb, a);
  if (checked != EXIT_DONE) return checked;
  neap_train_options_resolve(source);
  if (prepare_threads(source->session.threads) != EXIT_DONE) return EXIT_FAILED;
  if (file == NULL) return open_step(verb, source, step);
  const neap_status status = neap_step_read(file, step);
  return status == NEAP_OK ? EXIT_DONE : report_failure(verb, status);
}

neap_status source_combinations(const neap_train_options *source, neap_combination *list, int *count) {
  const neap_model_options shape = source_shape(source);
  neap_session_options session = source_session(source);
  session.budget = source->session.budget;
  session.budget_fraction = source->session.budget_fraction;
  session.planner = source->session.planner;
  session.plan_seconds = source->session.plan_seconds;
  return neap_combinations(source->opened, &shape, &session, source->allow, list, count);
}

/* `how`: a session's options beyond the source's. */
static neap_status plan_model(const neap_train_options *source, neap_session_options how, uint64_t *smallest,
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
  neap_status status = neap_model_build(source->opened, &shape, &graph);
  if (status != NEAP_OK) return status;
  status = neap_plan_graph(graph, &session, smallest, step, plan);
  neap_graph_free(graph);
  return status;
}

neap_status source_plan_alone(const neap_train_options *source, uint64_t budget,
                              const neap_plan_options *options, neap_step **step, neap_plan **plan) {
  const neap_session_options how = {.budget = budget,
                                    .planner = options->planner,
                                    .plan_seconds = options->seconds,
                                    .plan_progress = options->progress,
                                    .plan_context = options->context};
  return plan_model(source, how, NULL, step, plan);
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

neap_status source_plan(const neap_train_options *source, const neap_step *step, uint64_t budget,
                        const neap_plan_options *options, uint64_t *smallest, neap_step **chosen,
                        neap_plan **plan) {
  neap_step *own;
  const neap_session_options how = {.budget = budget,
                                    .planner = options->planner,
                                    .plan_seconds = options->seconds,
                                    .plan_progress = options->progress,
                                    .plan_context = options->context};
  if (chosen != NULL) *chosen = NULL;
  if (source->model == NULL || source->session.variant != NEAP_VARIANT_AUTO)
    return neap_plan_make_with(step, budget, options, smallest, plan);
  const neap_status status = plan_model(source, how, smallest, &own, plan);
  if (status == NEAP_OK) hand_out(own, step, chosen);
  return status;
}

neap_status source_read_plan(const neap_train_options *source, const neap_step *step, const char *file,
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

neap_status source_budget(const neap_step *step, const neap_train_options *source, uint64_t *bytes) {
  const double fraction = source->session.budget_fraction;
  *bytes = source->session.budget;
  if (fraction <= 0) return NEAP_OK;
  uint64_t everything;
  const neap_status status = neap_step_keep_all_bytes(step, &everything);
  if (status == NEAP_OK) *bytes = neap_budget_share(fraction, everything);
  return status;
}

bool source_fits_direct(const neap_train_options *source, uint64_t budget, const char *planner) {
  if (source->model == NULL || source->session.convolution == NEAP_CONV_DIRECT) return false;
  neap_train_options direct = *source;
  direct.session.convolution = NEAP_CONV_DIRECT;
  bool fits = false;
  /* Quick planning may miss a budget that full planning just meets. */
  for (int quick = 1; quick >= 0 && !fits; quick--) {
    neap_step *step = NULL;
    neap_plan *plan = NULL;
    const neap_session_options how = {.budget = budget, .planner = planner, .plan_quick = quick};
    fits = plan_model(&direct, how, NULL, &step, &plan) == NEAP_OK;
    neap_plan_free(plan);
    neap_step_free(step);
  }
  return fits;
}

int64_t source_largest_batch(const neap_train_options *source, uint64_t budget, const char *planner) {
  if (source->model == NULL) return 0;
  const neap_model_options shape = source_shape(source);
  neap_session_options session = source_session(source);
  session.budget = budget;
  session.planner = planner;
  int64_t largest;
  return neap_largest_batch(source->opened, &shape, &session, &largest) == NEAP_OK ? largest : 0;
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
