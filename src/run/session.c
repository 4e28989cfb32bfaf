#include "run/session.h"
#include "run/cost_database.h"

#include <omp.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory_status.h"
#include "grad/gradient.h"
#include "plan/planner.h"
#include "rewrite/rewrite.h"

/* ---- From a graph to lowered graphs ---- */

static const struct backend *backend_of(const struct neap_session_options *o) {
  return o->backend == NEAP_REFERENCE ? &reference_backend : &cpu_backend;
}

static struct optimizer optimizer_of(const struct neap_session_options *o) {
  return (struct optimizer){.kind = o->optimizer,
                            .momentum = o->momentum,
                            .weight_decay = o->weight_decay,
                            .nesterov = o->nesterov,
                            .beta1 = o->beta1 != 0 ? o->beta1 : 0.9f,
                            .beta2 = o->beta2 != 0 ? o->beta2 : 0.999f,
                            .epsilon = o->epsilon != 0 ? o->epsilon : 1e-8f};
}

static struct lower_options lower_options_of(const struct neap_session_options *o) {
  return (struct lower_options){.convolution = o->convolution,
                                .threads = o->threads > 0 ? o->threads : omp_get_num_procs()};
}

/* A fixed number of threads: results hang on it. */
static void set_threads(const struct neap_session_options *o) {
  omp_set_num_threads(o->threads > 0 ? o->threads : omp_get_num_procs());
  omp_set_dynamic(0);
}

neap_status lower_training(const struct neap_graph *graph, const struct neap_session_options *options,
                           struct lowered **out) {
  RETURN_IF(options->optimizer == NEAP_SGD && options->nesterov && !(options->momentum > 0),
            NEAP_INVALID_ARGUMENT, "Nesterov's method needs a momentum above 0");
  const struct optimizer optimizer = optimizer_of(options);
  const struct lower_options lowering = lower_options_of(options);
  struct lowered *lowered = NULL;
  struct neap_graph *fused;
  TRY(rewrite_fuse(graph, &fused));
  neap_status status = graph_add_training(fused, &optimizer);
  if (status == NEAP_OK) status = lower(fused, backend_of(options), &lowering, NULL, &lowered);
  neap_graph_free(fused);
  if (status == NEAP_OK && options->costs == NEAP_COSTS_MEASURED) {
    set_threads(options);
    char path[COST_PATH_LIMIT];
    status = measure_costs(lowered, cost_database_path(path) ? path : NULL, NULL);
  }
  if (status != NEAP_OK) {
    lowered_free(lowered);
    return status;
  }
  *out = lowered;
  return NEAP_OK;
}

static neap_status lower_evaluation(const struct neap_graph *graph,
                                    const struct neap_session_options *options,
                                    const struct lowered *training, struct lowered **out) {
  const struct lower_options lowering = lower_options_of(options);
  struct neap_graph *fused = NULL, *evaluation = NULL;
  TRY(rewrite_fuse(graph, &fused));
  neap_status status = rewrite_evaluation(fused, &evaluation);
  if (status == NEAP_OK) status = lower(evaluation, backend_of(options), &lowering, training, out);
  neap_graph_free(evaluation);
  neap_graph_free(fused);
  return status;
}

neap_status neap_step_from_graph(const neap_graph *graph, const neap_session_options *options,
                                 neap_step **step) {
  struct lowered *lowered;
  TRY(lower_training(graph, options, &lowered));
  *step = lowered->step;
  lowered->step = NULL;
  lowered_free(lowered);
  return NEAP_OK;
}

/* ---- Plans ---- */

/* Bytes that keeping everything needs. */
static neap_status measure_keep_all(const struct neap_step *step, uint64_t *bytes) {
  struct neap_plan *plan;
  TRY(neap_plan_make(step, NEAP_BUDGET_MAX, "keep-all", NULL, &plan));
  *bytes = plan->resident_bytes + plan->arena_bytes;
  neap_plan_free(plan);
  return NEAP_OK;
}

static neap_status check(const struct neap_step *step, const struct neap_plan *plan) {
  struct neap_check_result result;
  return neap_plan_check(step, plan, &result);
}

static neap_status make_plan(struct neap_session *s, uint64_t *smallest) {
  const struct neap_session_options *o = &s->options;
  const struct neap_step *step = s->training->step;
  TRY(measure_keep_all(step, &s->keep_all));
  s->budget = o->budget_fraction > 0 ? (uint64_t)(o->budget_fraction * (double)s->keep_all) : o->budget;
  const neap_plan_options planning = {.planner = o->planner,
                                      .seconds = o->plan_seconds,
                                      .progress = o->plan_progress,
                                      .context = o->plan_context};
  if (o->plan_file != NULL)
    TRY(neap_plan_read(o->plan_file, &s->plan));
  else
    TRY(neap_plan_make_with(step, s->budget, &planning, smallest, &s->plan));
  TRY(check(step, s->plan));
  for (int32_t i = 0; i < s->plan->instance_count; i++)
    RETURN_IF(s->plan->instances[i].offset % MEMORY_ALIGNMENT != 0, NEAP_INVALID_PLAN,
              "%s: instance %d lies at offset %llu, which is not a multiple of %d", o->plan_file, i,
              (unsigned long long)s->plan->instances[i].offset, MEMORY_ALIGNMENT);
  const uint64_t peak = s->plan->resident_bytes + s->plan->arena_bytes;
  if (s->budget == NEAP_BUDGET_MAX || s->budget == NEAP_BUDGET_MIN) s->budget = peak;
  if (peak > s->budget && smallest != NULL) *smallest = peak;
  RETURN_IF(peak > s->budget, NEAP_OVER_BUDGET,
            "the plan in %s needs %llu bytes, more than the budget of %llu", o->plan_file,
            (unsigned long long)peak, (unsigned long long)s->budget);
  return NEAP_OK;
}

/* Evaluation has to do with the arena of training. */
static neap_status make_evaluation_plan(struct neap_session *s) {
  const struct neap_step *step = s->evaluation->step;
  TRY(neap_plan_make(step, step->resident_bytes + s->plan->arena_bytes, "auto", NULL, &s->evaluation_plan));
  return check(step, s->evaluation_plan);
}

/* ---- Memory ---- */

static neap_status map_memory(struct neap_session *s) {
  const struct neap_step *step = s->training->step;
  s->mapped = (size_t)(s->plan->resident_bytes + s->plan->arena_bytes);
  s->resident = region_alloc(&s->region, (size_t)step->tensor_count, sizeof *s->resident);
  RETURN_IF_NULL(s->resident);
  uint64_t offset = 0;
  for (int32_t t = 0; t < step->tensor_count; t++) {
    if (step->tensors[t].role == ROLE_VALUE) continue;
    s->resident[t] = offset;
    offset += step->tensors[t].bytes; /* multiples of the alignment */
  }
  s->resident_before = memory_status_read().resident_bytes;
  void *memory = mmap(NULL, s->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  RETURN_IF(memory == MAP_FAILED, NEAP_OUT_OF_MEMORY, "the system has no %zu bytes for this session",
            s->mapped);
  s->memory = memory;
  madvise(s->memory, s->mapped,
          MADV_HUGEPAGE); /* fewer page faults and TLB misses; where it fails nothing is lost */
  memset(s->memory, 0, s->mapped);
  return NEAP_OK;
}

/* Addresses of resident tensors: those of training, and of evaluation by their order. */
static neap_status make_programs(struct neap_session *s) {
  const struct neap_step *training = s->training->step, *evaluation = s->evaluation->step;
  unsigned char **ours = region_alloc(&s->region, (size_t)training->tensor_count, sizeof *ours);
  unsigned char **theirs = region_alloc(&s->region, (size_t)evaluation->tensor_count, sizeof *theirs);
  RETURN_IF(!ours || !theirs, NEAP_OUT_OF_MEMORY, "session: out of memory");
  for (int32_t t = 0; t < training->tensor_count; t++)
    if (training->tensors[t].role != ROLE_VALUE) ours[t] = s->memory + s->resident[t];
  for (int32_t t = 0, mine = 0; t < evaluation->tensor_count; t++) {
    if (evaluation->tensors[t].role == ROLE_VALUE) continue;
    while (training->tensors[mine].role == ROLE_VALUE) mine++;
    theirs[t] = ours[mine++];
  }
  unsigned char *arena = s->memory + s->plan->resident_bytes;
  TRY(program_create(&s->region, s->training, s->plan, ours, arena, &s->step));
  return program_create(&s->region, s->evaluation, s->evaluation_plan, theirs, arena, &s->evaluate);
}

/* ---- The whole ---- */

void neap_session_free(neap_session *s) {
  if (s == NULL) return;
  if (s->memory != NULL) {
    program_release(s->memory, s->mapped);
    munmap(s->memory, s->mapped);
  }
  neap_plan_free(s->plan);
  neap_plan_free(s->evaluation_plan);
  lowered_free(s->evaluation);
  lowered_free(s->training);
  region_free(&s->region);
  free(s);
}

static neap_status create(struct neap_session *s, const neap_graph *graph, uint64_t *smallest) {
  set_threads(&s->options);
  TRY(lower_training(graph, &s->options, &s->training));
  TRY(lower_evaluation(graph, &s->options, s->training, &s->evaluation));
  TRY(make_plan(s, smallest));
  TRY(make_evaluation_plan(s));
  TRY(map_memory(s));
  TRY(make_programs(s));
  TRY(list_variables(s));
  return initialise_variables(s);
}

neap_status neap_session_create(const neap_graph *graph, const neap_session_options *options,
                                uint64_t *smallest, neap_session **session) {
  RETURN_IF(graph == NULL || options == NULL || graph->loss < 0, NEAP_INVALID_ARGUMENT,
            "a session needs options and a graph with a loss");
  struct neap_session *s = calloc(1, sizeof *s);
  RETURN_IF_NULL(s);
  s->options = *options;
  const neap_status status = create(s, graph, smallest);
  if (status != NEAP_OK) {
    neap_session_free(s);
    return status;
  }
  *session = s;
  return NEAP_OK;
}

/* ---- Steps ---- */

void *neap_session_input(neap_session *s, const char *name) {
  const struct neap_step *step = s->training->step;
  for (int32_t t = 0; t < step->tensor_count; t++)
    if (step->tensors[t].role == ROLE_INPUT && strcmp(step->tensors[t].name, name) == 0)
      return s->memory + s->resident[t];
  return NULL;
}

static neap_status run(neap_session *s, const struct program *program, float learning_rate,
                       neap_step_result *result) {
  const struct run_context context = {
      .seed = s->options.seed, .step = s->steps, .learning_rate = learning_rate};
  TRY(program_run(program, &context, s->memory, &s->measured));
  if (result == NULL) return NEAP_OK;
  const bool wide = s->training->backend->element_bytes(NEAP_F32) == sizeof(double);
  *result =
      (neap_step_result){.loss = wide ? *(const double *)(const void *)program->loss : (double)*program->loss,
                         .correct = *program->correct};
  return NEAP_OK;
}

neap_status neap_session_step(neap_session *s, float learning_rate, neap_step_result *result) {
  TRY(run(s, &s->step, learning_rate, result));
  s->steps++;
  return NEAP_OK;
}

neap_status neap_session_evaluate(neap_session *s, neap_step_result *result) {
  return run(s, &s->evaluate, 0, result);
}

/* What is told outlives the plan. A plan file may name a planner that this build does not have. */
static const char *constant_planner_name(const char *name) {
  const struct planner *row = planner_find(name);
  return row != NULL ? row->name : "another";
}

void neap_session_memory(const neap_session *s, neap_memory *memory) {
  const struct neap_step *step = s->training->step;
  *memory = (neap_memory){.budget = s->budget,
                          .resident = s->plan->resident_bytes,
                          .arena = s->plan->arena_bytes,
                          .planned_peak = s->plan->resident_bytes + s->plan->arena_bytes,
                          .measured_peak = s->measured,
                          .keep_all = s->keep_all,
                          .cost = s->plan->cost,
                          .base_cost = s->plan->base_cost,
                          .planner = constant_planner_name(s->plan->planner)};
  for (int32_t t = 0; t < step->tensor_count; t++) {
    const struct step_tensor *tensor = &step->tensors[t];
    if (tensor->role == ROLE_PARAMETER) memory->parameters += tensor->bytes;
    if (tensor->role == ROLE_STATE) memory->states += tensor->bytes;
    if (tensor->role == ROLE_INPUT) memory->inputs += tensor->bytes;
  }
}
