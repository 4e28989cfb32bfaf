#include "run/session.h"

#include <string.h>
#include <sys/mman.h>

#include "base/memory_status.h"
#include "plan/planners.h"
#include "rewrite/rewrite.h"
#include "run/choose.h"

/* ---- Evaluation ---- */

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

/* Evaluation has to do with the arena of training. */
static neap_status make_evaluation_plan(struct neap_session *s) {
  const struct neap_step *step = s->evaluation->step;
  TRY(neap_plan_make(step, step->resident_bytes + s->plan->arena_bytes, "auto", NULL, &s->evaluation_plan));
  struct neap_check_result result;
  return neap_plan_check(step, s->evaluation_plan, &result);
}

/* ---- Memory ---- */

static neap_status map_memory(struct neap_session *s) {
  const struct neap_step *step = s->training->step;
  s->mapped = (size_t)(s->plan->resident_bytes + s->plan->arena_bytes);
  s->resident = region_alloc(&s->region, (size_t)step->tensor_count, sizeof *s->resident);
  RETURN_IF_NULL(s->resident);
  uint64_t offset = 0;
  for (int32_t t = 0; t < step->tensor_count; t++) {
    if (step->tensors[t].role == NEAP_ROLE_VALUE) continue;
    s->resident[t] = offset;
    offset += step->tensors[t].bytes; /* multiples of the alignment */
  }
  memory_status_forget_peak(); /* what planning took is no part of what training takes */
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
    if (training->tensors[t].role != NEAP_ROLE_VALUE) ours[t] = s->memory + s->resident[t];
  for (int32_t t = 0, mine = 0; t < evaluation->tensor_count; t++) {
    if (evaluation->tensors[t].role == NEAP_ROLE_VALUE) continue;
    while (training->tensors[mine].role == NEAP_ROLE_VALUE) mine++;
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

static neap_status plan_training(struct neap_session *s, const neap_graph *graph, uint64_t *smallest) {
  struct choice choice;
  TRY(choose_plan(graph, &s->options, smallest, &choice));
  s->training = choice.lowered;
  s->plan = choice.plan;
  s->variant = choice.variant;
  s->budget = choice.budget;
  s->keep_all = choice.keep_all;
  return NEAP_OK;
}

static neap_status create(struct neap_session *s, const neap_graph *graph, uint64_t *smallest) {
  TRY(plan_training(s, graph, smallest));
  TRY(lower_evaluation(graph, &s->options, s->training, &s->evaluation));
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
    if (step->tensors[t].role == NEAP_ROLE_INPUT && strcmp(step->tensors[t].name, name) == 0)
      return s->memory + s->resident[t];
  return NULL;
}

/* From the last on: what is wider takes the place of what was read. */
static void widen(unsigned char *data, int64_t count) {
  for (int64_t i = count; i-- > 0;) {
    float from;
    memcpy(&from, data + (size_t)i * sizeof from, sizeof from);
    const double to = from;
    memcpy(data + (size_t)i * sizeof to, &to, sizeof to);
  }
}

static void narrow(unsigned char *data, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    double from;
    memcpy(&from, data + (size_t)i * sizeof from, sizeof from);
    const float to = (float)from;
    memcpy(data + (size_t)i * sizeof to, &to, sizeof to);
  }
}

/* To the caller inputs are f32, also where the backend computes in double: they widen for a run, where they
 * lie, and become what they were. */
static void convert_inputs(const neap_session *s, void (*convert)(unsigned char *data, int64_t count)) {
  const struct neap_graph *graph = s->training->graph;
  for (size_t t = 0; t < graph->tensors.count; t++) {
    const struct tensor *tensor = &graph->tensors.data[t];
    if (tensor->role == NEAP_ROLE_INPUT && tensor->view_of < 0 && tensor->dtype == NEAP_F32)
      convert(s->memory + s->resident[s->training->step_tensor[t]], tensor->elements);
  }
}

static neap_status run(neap_session *s, const struct program *program, float learning_rate,
                       neap_step_result *result) {
  const struct run_context context = {
      .seed = s->options.seed, .step = s->steps, .learning_rate = learning_rate};
  const bool wide = s->training->backend->element_bytes(NEAP_F32) == sizeof(double);
  if (wide) convert_inputs(s, widen);
  const neap_status status = program_run(program, &context, s->memory, &s->measured);
  if (wide) convert_inputs(s, narrow);
  if (status != NEAP_OK || result == NULL) return status;
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
                          .planner = constant_planner_name(s->plan->planner),
                          .variant = graph_variants[s->variant].name};
  for (int32_t t = 0; t < step->tensor_count; t++) {
    const struct step_tensor *tensor = &step->tensors[t];
    if (tensor->role == NEAP_ROLE_PARAMETER) memory->parameters += tensor->bytes;
    if (tensor->role == NEAP_ROLE_STATE) memory->states += tensor->bytes;
    if (tensor->role == NEAP_ROLE_INPUT) memory->inputs += tensor->bytes;
  }
}
