/* Creates sessions and runs their programs. */

#include <math.h>
#include <string.h>

#include "base/available_memory.h"
#include "base/memory_status.h"
#include "kernel/ranks.h"
#include "plan/planners.h"
#include "rewrite/rewrite.h"
#include "run/averages.h"
#include "run/choose.h"
#include "run/drop_step.h"
#include "run/magnitudes.h"
#include "run/pipeline_prepare.h"
#include "run/pipeline_run.h"
#include "run/prefetch.h"
#include "run/session_memory.h"
#include "run/session_ranks.h"
#include "run/session_run.h"
#include "run/variables.h"

/* ---- Evaluation ---- */

/* Returns the elements of the largest output that has at most `limit`; 0: none exists. */
static int64_t largest_output(const struct neap_graph *graph, int64_t limit) {
  int64_t most = 0;
  for (size_t i = 0; i < graph->outputs.count; i++) {
    const int64_t elements = graph->tensors.data[graph->outputs.data[i].tensor].elements;
    if (elements <= limit && elements > most) most = elements;
  }
  return most;
}

static neap_status list_outputs(struct neap_session *s, const struct neap_graph *graph) {
  neap_variable *list = region_alloc(&s->region, graph->outputs.count + 1, sizeof *list);
  RETURN_IF_NULL(list);
  s->outputs = list;
  for (size_t i = 0; i < graph->outputs.count; i++) {
    const struct tensor *tensor = &graph->tensors.data[graph->outputs.data[i].tensor];
    list[i] = (neap_variable){.name = region_format(&s->region, "%s", graph->outputs.data[i].name),
                              .rank = tensor->rank,
                              .elements = tensor->elements};
    RETURN_IF_NULL(list[i].name);
    memcpy(list[i].dims, tensor->dims, sizeof list[i].dims);
    s->output_count++;
  }
  return NEAP_OK;
}

/* Makes the evaluation, which must fit into the arena of training. Leaves out named outputs that do not fit,
 * the largest first. */
static neap_status make_evaluation(struct neap_session *s, const struct neap_graph *graph,
                                   struct session_program *p) {
  neap_status status = NEAP_OVER_BUDGET;
  int64_t outputs = largest_output(graph, INT64_MAX);
  for (bool last = false; !last && status == NEAP_OVER_BUDGET;) {
    last = outputs == 0;
    lowered_free(p->lowered);
    p->lowered = NULL;
    TRY(lower_evaluation(graph, &s->options, s->main, outputs, &p->lowered));
    const uint64_t budget = p->lowered->step->resident_bytes + s->plan->arena_bytes;
    status = neap_plan_make(p->lowered->step, budget, "auto", NULL, &p->plan);
    if (status == NEAP_OK) status = prefetch(p->lowered, budget, &p->plan);
    outputs = largest_output(graph, outputs - 1);
  }
  if (status != NEAP_OK) return status;
  struct neap_check_result result;
  return neap_plan_check(p->lowered->step, p->plan, &result);
}

/* ---- Before and after the micro-batches ---- */

/* Plans inside the memory of the step. `*smallest` (may be NULL): set if that is too little. */
static neap_status plan_around(struct neap_session *s, enum program_kind kind, const struct neap_graph *graph,
                               uint64_t *smallest) {
  struct session_program *p = &s->programs[kind];
  const struct lower_options lowering = lower_options_of(&s->options);
  TRY(lower(graph, backend_of(&s->options), &lowering, s->main, &p->lowered));
  uint64_t least = 0;
  const uint64_t resident = p->lowered->step->resident_bytes;
  const neap_status status =
      neap_plan_make(p->lowered->step, resident + s->plan->arena_bytes, "auto", &least, &p->plan);
  if (status == NEAP_OVER_BUDGET && smallest != NULL) *smallest = least - resident + s->plan->resident_bytes;
  if (status != NEAP_OK) return status;
  struct neap_check_result result;
  return neap_plan_check(p->lowered->step, p->plan, &result);
}

static neap_status make_around(struct neap_session *s, uint64_t *smallest) {
  const struct optimizer optimizer = optimizer_of(&s->options);
  if (!step_in_parts(&optimizer)) return NEAP_OK;
  struct neap_graph *begin = NULL, *end = NULL;
  neap_status status = graph_end_step(s->main->graph, &optimizer, &end);
  if (status == NEAP_OK && !optimizer.perturbs) status = graph_begin_step(s->main->graph, &optimizer, &begin);
  if (status == NEAP_OK && begin != NULL) status = plan_around(s, PROGRAM_BEGIN, begin, smallest);
  if (status == NEAP_OK) status = plan_around(s, PROGRAM_END, end, smallest);
  neap_graph_free(begin);
  neap_graph_free(end);
  return status;
}

/* ---- Programs ---- */

static neap_status make_programs(struct neap_session *s) {
  for (int kind = 0; kind < PROGRAM_COUNT; kind++) TRY(make_program(s, &s->programs[kind]));
  return NEAP_OK;
}

/* ---- Other graphs over the same variables ---- */

/* Fails unless the variables of a step are the session's, and its inputs fit those of the session. */
static neap_status check_residents(const struct neap_session *s, const struct lowered *lowered) {
  const struct neap_step *all = s->main->step, *step = lowered->step;
  int32_t variables[2] = {0};
  for (int32_t t = 0; t < all->tensor_count; t++)
    variables[0] += all->tensors[t].role == NEAP_ROLE_PARAMETER || all->tensors[t].role == NEAP_ROLE_STATE;
  for (int32_t t = 0, mine = 0; t < step->tensor_count; t++) {
    const struct step_tensor *tensor = &step->tensors[t];
    if (tensor->role == NEAP_ROLE_VALUE) continue;
    while (mine < all->tensor_count &&
           (all->tensors[mine].role == NEAP_ROLE_VALUE || strcmp(all->tensors[mine].name, tensor->name) != 0))
      mine++;
    RETURN_IF(mine == all->tensor_count, NEAP_INVALID_ARGUMENT, "graph '%s': the session of '%s' has no '%s'",
              lowered->graph->name, s->main->graph->name, tensor->name);
    const uint64_t room = all->tensors[mine++].bytes;
    const bool input = tensor->role == NEAP_ROLE_INPUT;
    RETURN_IF(input ? tensor->bytes > room : tensor->bytes != room, NEAP_INVALID_ARGUMENT,
              "graph '%s': '%s' takes %llu bytes, but in the session of '%s' %llu", lowered->graph->name,
              tensor->name, (unsigned long long)tensor->bytes, s->main->graph->name,
              (unsigned long long)room);
    variables[1] += !input;
  }
  RETURN_IF(variables[0] != variables[1], NEAP_INVALID_ARGUMENT,
            "graph '%s': it has %d variables, but the session of '%s' %d", lowered->graph->name, variables[1],
            s->main->graph->name, variables[0]);
  return NEAP_OK;
}

static void release_program(struct session_program *p) {
  neap_plan_free(p->plan);
  lowered_free(p->lowered);
  *p = (struct session_program){0};
}

/* Plans inside the existing arena. */
static neap_status plan_shape(struct neap_session *s, const neap_graph *graph, struct session_shape *shape) {
  struct session_program *p = &shape->step;
  struct neap_check_result result;
  TRY(lower_training_like(graph, &s->options, s->variant, s->main, &p->lowered));
  TRY(check_residents(s, p->lowered));
  const uint64_t budget = p->lowered->step->resident_bytes + s->plan->arena_bytes;
  TRY(neap_plan_make(p->lowered->step, budget, "auto", NULL, &p->plan));
  TRY(prefetch(p->lowered, budget, &p->plan));
  TRY(neap_plan_check(p->lowered->step, p->plan, &result));
  return make_evaluation(s, graph, &shape->evaluation);
}

static neap_status make_shape(struct neap_session *s, const neap_graph *graph, struct session_shape *shape) {
  const neap_status status = plan_shape(s, graph, shape);
  if (shards_all(&s->options)) {
    TRY(ranks_follow_first(s->options.collective, &shape->step, status));
    TRY(ranks_follow_first(s->options.collective, &shape->evaluation, NEAP_OK));
  }
  TRY(status);
  TRY(make_program(s, &shape->step));
  return make_program(s, &shape->evaluation);
}

neap_status neap_session_add_graph(neap_session *s, const neap_graph *graph, int *index) {
  RETURN_IF(s == NULL || graph == NULL || index == NULL, NEAP_INVALID_ARGUMENT,
            "neap_session_add_graph: session, graph or index is NULL");
  RETURN_IF(
      s->pipeline != NULL, NEAP_UNSUPPORTED,
      "--pipeline: all micro-batches must have one size and one length; give --drop-last on, or --length");
  RETURN_IF(s->programs[PROGRAM_STEP].lowered == NULL || graph->loss < 0, NEAP_INVALID_ARGUMENT,
            "session of '%s': another graph must be for training, but this session only predicts",
            s->main->graph->name);
  if (s->shapes.count == 0)
    TRY(vector_push(&s->shapes,
                    ((struct session_shape){s->programs[PROGRAM_STEP], s->programs[PROGRAM_EVALUATE]})));
  struct session_shape shape = {0};
  neap_status status = make_shape(s, graph, &shape);
  if (status == NEAP_OK) status = vector_push(&s->shapes, shape);
  if (status == NEAP_OK) {
    *index = (int)s->shapes.count - 1;
    return NEAP_OK;
  }
  release_program(&shape.step);
  release_program(&shape.evaluation);
  return status;
}

neap_status neap_session_select(neap_session *s, int index) {
  const int count = s == NULL ? 0 : s->shapes.count > 0 ? (int)s->shapes.count : 1;
  RETURN_IF(index < 0 || index >= count, NEAP_INVALID_ARGUMENT, "a session has graphs 0 to %d, not %d",
            count - 1, index);
  if (s->shapes.count == 0) return NEAP_OK;
  s->programs[PROGRAM_STEP] = s->shapes.data[index].step;
  s->programs[PROGRAM_EVALUATE] = s->shapes.data[index].evaluation;
  s->ran = PROGRAM_COUNT;
  return NEAP_OK;
}

/* ---- The whole ---- */

void neap_session_free(neap_session *s) {
  if (s == NULL) return;
  transfer_free(s->transfer);
  lane_free(s->gathers);
  session_unmap_memory(s);
  session_pipeline_free(s);
  if (s->shapes.count > 0) neap_session_select(s, 0);
  for (size_t i = 1; i < s->shapes.count; i++) {
    release_program(&s->shapes.data[i].step);
    release_program(&s->shapes.data[i].evaluation);
  }
  vector_free(&s->shapes);
  for (int kind = PROGRAM_COUNT; kind-- > 0;) /* the main one, which owns the backend's state, last */
    release_program(&s->programs[kind]);
  lowered_free(s->whole);
  if (s->replicas.close != NULL) s->replicas.close(s->replicas.self);
  if (s->stages.close != NULL) s->stages.close(s->stages.self);
  region_free(&s->region);
  free(s);
}

/* Plans both parts; the one that takes more memory decides the size of both. */
static neap_status plan_both(struct neap_session *s, const struct neap_graph *graph, uint64_t reserve,
                             uint64_t *smallest) {
  static const enum program_kind kinds[PART_COUNT] = {PROGRAM_PREPARE, PROGRAM_PREDICT};
  struct parts parts;
  TRY(choose_parts(graph, &s->options, reserve, smallest, &parts));
  s->main = s->whole = parts.whole;
  for (int i = 0; i < PART_COUNT; i++) {
    const struct choice *c = &parts.part[i];
    s->programs[kinds[i]] = (struct session_program){.lowered = c->lowered, .plan = c->plan};
    if (s->plan != NULL && s->plan->arena_bytes >= c->plan->arena_bytes) continue;
    s->plan = c->plan;
    s->variant = c->variant;
    s->options.base_on_disk = c->base_on_disk;
    s->keep_all = c->keep_all;
    s->budget = c->budget;
  }
  if (s->budget == NEAP_BUDGET_MAX || s->budget == NEAP_BUDGET_MIN) s->budget = plan_bytes(s->plan);
  return list_outputs(s, graph);
}

/* Plans the main program; `given`: as in choose_plan. */
static neap_status plan_main(struct neap_session *s, const neap_graph *graph, const struct neap_plan *given,
                             uint64_t reserve, uint64_t *smallest) {
  struct choice choice;
  if (has_parts(graph)) return plan_both(s, graph, reserve, smallest);
  const bool predicts = predicts_only(graph, &s->options);
  TRY(choose_plan(graph, &s->options, given, reserve, smallest, &choice));
  s->main = choice.lowered;
  s->plan = choice.plan;
  s->variant = choice.variant;
  s->options.base_on_disk = choice.base_on_disk;
  s->budget = choice.budget;
  s->keep_all = choice.keep_all;
  s->programs[predicts ? PROGRAM_PREDICT : PROGRAM_STEP] =
      (struct session_program){.lowered = choice.lowered, .plan = choice.plan};
  TRY(list_outputs(s, graph));
  if (predicts) return NEAP_OK;
  TRY(make_around(s, smallest));
  return make_evaluation(s, graph, &s->programs[PROGRAM_EVALUATE]);
}

/* Frees the plans. */
static void forget_plans(struct neap_session *s) {
  for (int kind = PROGRAM_COUNT; kind-- > 0;) release_program(&s->programs[kind]);
  s->main = NULL;
  s->plan = NULL;
}

/* Plans on the first process. The others replay its plan if it fits their budget; if not, and if plans may
 * differ, they plan for themselves. Evaluations follow one plan too if plans may not differ. */
static neap_status plan_together(struct neap_session *s, const neap_graph *graph, uint64_t reserve,
                                 uint64_t *smallest) {
  const struct neap_collective *c = s->options.collective;
  struct neap_plan *given = NULL;
  neap_status status = c->rank == 0 ? plan_main(s, graph, NULL, reserve, smallest) : NEAP_OK;
  TRY(collective_share_status(c, status));
  TRY(ranks_hand_plan(c, s->plan, &given));
  if (c->rank > 0) status = plan_main(s, graph, given, reserve, smallest);
  neap_plan_free(given);
  if (status == NEAP_OVER_BUDGET && !shards_all(&s->options)) {
    forget_plans(s);
    status = plan_main(s, graph, NULL, reserve, smallest);
  }
  TRY(collective_share_status(c, status));
  return shards_all(&s->options) ? ranks_follow_first(c, &s->programs[PROGRAM_EVALUATE], NEAP_OK) : NEAP_OK;
}

/* Returns the bytes that reading variables as f32 takes beside the arena, where several processes have parts
 * of them: the largest, if it does not fit there, and all shares of the largest that is in shares. */
static uint64_t reading_bytes(const struct neap_session *s) {
  const struct neap_graph *graph = s->main->graph;
  uint64_t largest = 0, shared = 0;
  for (size_t t = 0; s->ranks != NULL && t < graph->tensors.count; t++) {
    const struct tensor *tensor = &graph->tensors.data[t];
    const bool variable = tensor->role == NEAP_ROLE_PARAMETER || tensor->role == NEAP_ROLE_STATE;
    if (!variable || tensor->view_of >= 0 || tensor->sum || tensor->on_disk) continue;
    const uint64_t bytes = (uint64_t)tensor->elements * sizeof(float);
    largest = bytes > largest ? bytes : largest;
    if (tensor->shares > 1 && bytes > shared) shared = bytes;
  }
  return (largest > s->plan->arena_bytes ? largest : 0) + shared;
}

static uint64_t growth_of(const struct neap_session *s) {
  uint64_t nodes = s->pipeline != NULL ? pipeline_node_count(s) : 0;
  for (int k = 0; k < PROGRAM_COUNT; k++)
    if (s->programs[k].lowered != NULL) nodes += s->programs[k].lowered->graph->nodes.count;
  static const uint64_t of_rank = 1 << 20; /* what it sends lies in memory that all have */
  const uint64_t ranks = s->ranks != NULL ? (uint64_t)s->options.collective->size : 0;
  return process_growth(nodes, s->options.base_on_disk) + ranks * of_rank + reading_bytes(s);
}

/* Returns by how much the process would exceed its budget, before the memory is mapped. */
static uint64_t beyond_process(struct neap_session *s) {
  memory_status_trim(); /* what planning took is no part of what training takes */
  const struct memory_status status = memory_status_read();
  const uint64_t whole = s->options.process_budget, needed = status.resident_bytes + s->plan->resident_bytes +
                                                             s->plan->arena_bytes + growth_of(s);
  s->planning_peak = status.peak_resident_bytes;
  s->resident_before = status.resident_bytes;
  return whole > 0 && needed > whole ? needed - whole : 0;
}

/* Connects the processes: all with all, or those of a pipeline, and those of a stage in several pipelines. */
static neap_status connect_ranks(struct neap_session *s) {
  const struct neap_collective *all = s->options.collective;
  const int stages = s->options.pipeline, replicas = batch_ranks_of(&s->options);
  const bool parts = is_pipeline(&s->options) && replicas > 1;
  if (parts) {
    TRY(collective_part(all, all->rank % replicas, replicas, stages, &s->stages));
    TRY(collective_part(all, all->rank / replicas * replicas, 1, replicas, &s->replicas));
    TRY(ranks_open(&s->replicas, &s->region, &s->batch));
  }
  TRY(ranks_open(parts ? &s->stages : all, &s->region, &s->ranks));
  if (!is_pipeline(&s->options)) s->batch = s->ranks;
  return NEAP_OK;
}

static neap_status create(struct neap_session *s, const neap_graph *graph, uint64_t reserve,
                          uint64_t *smallest, uint64_t *beyond) {
  s->ran = PROGRAM_COUNT;
  s->loss_scale = loss_scale_of(&s->options);
  const bool together = s->options.collective != NULL && s->options.collective->size > 1;
  if (together) TRY(connect_ranks(s));
  if (shards_all(&s->options)) TRY(collective_share_status(s->options.collective, lane_create(&s->gathers)));
  if (is_pipeline(&s->options)) {
    TRY(check_session_options(&s->options));
    TRY(pipeline_plan(s, graph, reserve, smallest));
    TRY(list_outputs(s, graph));
  } else {
    TRY(together ? plan_together(s, graph, reserve, smallest) : plan_main(s, graph, NULL, reserve, smallest));
  }
  *beyond = beyond_process(s);
  if (together) TRY(ranks_most(s->options.collective, beyond)); /* then all plan again */
  if (*beyond > 0) return NEAP_OVER_BUDGET;
  TRY(session_map_memory(s));
  TRY(s->pipeline != NULL ? pipeline_bind(s) : make_programs(s));
  TRY(list_variables(s));
  TRY(averages_find(s));
  TRY(drop_step_prepare(s));
  return initialise_variables(s);
}

neap_status neap_session_create(const neap_graph *graph, const neap_session_options *options,
                                uint64_t *smallest, neap_session **session) {
  NEED(session);
  enum {
    ATTEMPTS = 3,
    MOST_ATTEMPTS = 8
  }; /* within a budget for the process; more while each misses by less */
  RETURN_IF(graph == NULL || options == NULL, NEAP_INVALID_ARGUMENT,
            "neap_session_create: options or graph is NULL");
  uint64_t reserve = PROCESS_RESERVE, beyond = UINT64_MAX, before = UINT64_MAX;
  TRY(check_ranks(options));
  for (int i = 0; i < MOST_ATTEMPTS && (i < ATTEMPTS || beyond < before); i++) {
    struct neap_session *s = calloc(1, sizeof *s);
    RETURN_IF_NULL(s);
    s->options = *options;
    before = beyond;
    beyond = 0;
    neap_status status = available_memory_settle(&s->options, NULL);
    if (status == NEAP_OK) status = create(s, graph, reserve, smallest, &beyond);
    if (status == NEAP_OK) {
      *session = s;
      return NEAP_OK;
    }
    neap_session_free(s);
    if (beyond == 0) return status;
    reserve += beyond + PROCESS_RETRY_MARGIN;
  }
  if (smallest != NULL) *smallest = options->process_budget + beyond + PROCESS_RUN_MARGIN;
  return neap_fail(NEAP_OVER_BUDGET, "the process would take %llu bytes more than its budget of %llu",
                   (unsigned long long)beyond, (unsigned long long)options->process_budget);
}

/* ---- Steps ---- */

static neap_status run_with_noise(neap_session *s, enum program_kind kind, struct run_numbers numbers,
                                  neap_step_result *result) {
  RETURN_IF(s == NULL, NEAP_INVALID_ARGUMENT, "there is no session");
  RETURN_IF(s->programs[kind].lowered == NULL, NEAP_INVALID_ARGUMENT,
            "this session only predicts: its graph has no loss, or its options say so");
  TRY(magnitudes_begin(s));
  const int32_t rank = s->batch != NULL && kind == PROGRAM_STEP ? s->batch->collective->rank : 0;
  numbers.micro_batch = s->micro_batch + rank;
  return session_run(s, &s->programs[kind], kind, numbers, result);
}

static neap_status run(neap_session *s, enum program_kind kind, float learning_rate, float share,
                       neap_step_result *result) {
  return run_with_noise(s, kind, (struct run_numbers){.learning_rate = learning_rate, .share = share},
                        result);
}

/* Runs a micro-batch twice, with weights w + epsilon z and w - epsilon z, and gives the mean of both results.
 * `*difference`: of their losses. */
static neap_status run_twice(neap_session *s, float share, neap_step_result *result, double *difference) {
  const float epsilon = perturbation_of(&s->options);
  neap_step_result above, below;
  TRY(run_with_noise(s, PROGRAM_STEP, (struct run_numbers){.share = share, .noise = epsilon}, &above));
  TRY(run_with_noise(s, PROGRAM_STEP, (struct run_numbers){.share = share, .noise = -epsilon}, &below));
  *difference = above.loss - below.loss;
  *result = above;
  result->loss = (above.loss + below.loss) / 2;
  result->correct = (above.correct + below.correct) / 2;
  return NEAP_OK;
}

/* Runs a micro-batch of a step without gradients. Adds its part, and those of the other ranks' micro-batches
 * in their order, to the slope of the loss along the noise. */
static neap_status run_perturbed(neap_session *s, float share, neap_step_result *result) {
  const int32_t ranks = session_batch_ranks(s);
  neap_step_result mean;
  double difference, parts[SHARE_PARTS] = {0};
  if (s->micro_batch == 0) s->slope = 0;
  TRY(run_twice(s, share, &mean, &difference));
  const int rank = s->batch != NULL ? s->batch->collective->rank : 0;
  parts[share_of_rank(SHARE_PARTS, rank, ranks).first] =
      (double)share * difference / (2 * (double)perturbation_of(&s->options));
  if (ranks > 1) TRY(ranks_gather(s->batch, parts, SHARE_PARTS, sizeof *parts));
  for (int i = 0; i < SHARE_PARTS; i++) s->slope += parts[i];
  if (result != NULL) *result = mean;
  return NEAP_OK;
}

/* Ends a step: with its update, or without one if a gradient did not fit. The next step's loss scale depends
 * on that. */
static neap_status end_step(neap_session *s, float learning_rate, float share, neap_step_result *result) {
  static const uint64_t good_steps = 2000; /* as PyTorch's GradScaler */
  static const float smallest = 1, largest = 0x1p24f;
  if (s->ranks != NULL && s->options.dynamic_loss_scale)
    TRY(ranks_any(s->ranks, s->overflowed, &s->overflowed));
  if (s->batch != s->ranks && s->batch != NULL && s->options.dynamic_loss_scale)
    TRY(ranks_any(s->batch, s->overflowed, &s->overflowed));
  const bool skipped = s->overflowed;
  s->overflowed = false;
  if (!skipped)
    TRY(s->pipeline != NULL
            ? pipeline_run_end(s, learning_rate)
            : run_with_noise(s, PROGRAM_END,
                             (struct run_numbers){
                                 .learning_rate = learning_rate, .share = share, .noise = (float)s->slope},
                             NULL));
  if (!s->options.dynamic_loss_scale) return NEAP_OK;
  if (result != NULL) result->skipped = skipped;
  s->good_steps = skipped ? 0 : s->good_steps + 1;
  if (skipped && s->loss_scale > smallest) s->loss_scale /= 2;
  if (s->good_steps < good_steps) return NEAP_OK;
  s->good_steps = 0;
  if (s->loss_scale < largest) s->loss_scale *= 2;
  return NEAP_OK;
}

/* Runs a micro-batch; the first of a step begins that. */
static neap_status run_part(neap_session *s, float learning_rate, float share, neap_step_result *result) {
  TRY(session_send_inputs(s));
  if (s->options.mezo) return run_perturbed(s, share, result);
  if (s->programs[PROGRAM_BEGIN].lowered != NULL && s->micro_batch == 0)
    TRY(run(s, PROGRAM_BEGIN, learning_rate, share, NULL));
  return run(s, PROGRAM_STEP, learning_rate, share, result);
}

/* Keeps a micro-batch of a pipeline, which runs all of them after the last. */
static neap_status take_part(neap_session *s, float share, neap_step_result *result) {
  if (result != NULL) *result = (neap_step_result){.gradient_norm = -1};
  return pipeline_take(s, share);
}

neap_status neap_session_micro_step(neap_session *s, float learning_rate, float share,
                                    neap_step_result *result) {
  RETURN_IF(!(learning_rate >= 0) || isinf(learning_rate), NEAP_INVALID_ARGUMENT,
            "the learning rate must be finite and 0 or more (got %g)", (double)learning_rate);
  RETURN_IF(!(share >= 0 && share <= 1), NEAP_INVALID_ARGUMENT,
            "the share of a loss must be from 0 to 1 (got %g)", (double)share);
  RETURN_IF(s == NULL, NEAP_INVALID_ARGUMENT, "there is no session");
  const bool parts = s->pipeline != NULL || s->programs[PROGRAM_END].lowered != NULL;
  if (s->micro_batch == 0) TRY(drop_step_begin(s));
  TRY(s->pipeline != NULL ? take_part(s, share, result) : run_part(s, learning_rate, share, result));
  s->micro_batch += parts ? session_batch_ranks(s) : 0;
  if (parts && s->micro_batch < session_parts(s)) return NEAP_OK;
  if (s->pipeline != NULL) TRY(pipeline_run_step(s, learning_rate, result));
  s->micro_batch = 0;
  s->gradient_norm = parts ? -1 : s->gradient_norm;
  if (parts) TRY(end_step(s, learning_rate, share, result));
  if (result != NULL && s->options.gradient_norm) result->gradient_norm = s->gradient_norm;
  TRY(averages_move(s));
  s->steps++;
  return NEAP_OK;
}

neap_status neap_session_step(neap_session *s, float learning_rate, neap_step_result *result) {
  const int32_t count = s != NULL && s->options.micro_batches > 1 ? s->options.micro_batches : 1;
  return neap_session_micro_step(s, learning_rate, 1 / (float)count, result);
}

/* Evaluates, with the averages of the parameters if there are any. */
static neap_status evaluate(neap_session *s, neap_step_result *result) {
  RETURN_IF(s == NULL, NEAP_INVALID_ARGUMENT, "there is no session");
  TRY(session_send_inputs(s));
  TRY(averages_swap(s));
  const neap_status status = s->pipeline != NULL ? pipeline_evaluate(s, result)
                                                 : run(s, PROGRAM_EVALUATE, 0, 1, result),
                    swapped = averages_swap(s);
  return status != NEAP_OK ? status : swapped;
}

neap_status neap_session_evaluate(neap_session *s, neap_step_result *result) { return evaluate(s, result); }

neap_status neap_session_predict(neap_session *s) {
  RETURN_IF(s == NULL, NEAP_INVALID_ARGUMENT, "there is no session");
  if (s->programs[PROGRAM_PREDICT].lowered == NULL) return evaluate(s, NULL);
  TRY(session_send_inputs(s));
  return run(s, PROGRAM_PREDICT, 0, 1, NULL);
}

neap_status neap_session_prepare(neap_session *s) {
  RETURN_IF(s == NULL, NEAP_INVALID_ARGUMENT, "there is no session");
  RETURN_IF(s->programs[PROGRAM_PREPARE].lowered == NULL, NEAP_INVALID_ARGUMENT,
            "graph '%s' has no prepared states", s->main->graph->name);
  TRY(session_send_inputs(s));
  return run(s, PROGRAM_PREPARE, 0, 1, NULL);
}

neap_status neap_session_output(const neap_session *s, const char *name, neap_variable *shape, float *data) {
  RETURN_IF(s == NULL || name == NULL, NEAP_INVALID_ARGUMENT, "neap_session_output: session or name is NULL");
  const bool predicts = s->programs[PROGRAM_PREDICT].lowered != NULL;
  const struct session_program *p = &s->programs[predicts ? PROGRAM_PREDICT : PROGRAM_EVALUATE];
  RETURN_IF(s->pipeline != NULL, NEAP_UNSUPPORTED,
            "output '%s': the ranks of a pipeline give the loss alone; predict with one process", name);
  const struct neap_graph *graph = p->lowered->graph;
  int32_t known = 0;
  while (known < s->output_count && strcmp(s->outputs[known].name, name) != 0) known++;
  RETURN_IF(known == s->output_count, NEAP_INVALID_ARGUMENT, "graph '%s' has no output '%s'", graph->name,
            name);
  if (shape != NULL) *shape = s->outputs[known];
  if (data == NULL) return NEAP_OK;
  size_t i = 0;
  while (i < graph->outputs.count && strcmp(graph->outputs.data[i].name, name) != 0) i++;
  RETURN_IF(i == graph->outputs.count || p->program.outputs[i] == NOWHERE, NEAP_OVER_BUDGET,
            "output '%s' does not fit into this session's memory; a session that only predicts has it", name);
  const int32_t id = graph->outputs.data[i].tensor;
  const struct tensor *tensor = &graph->tensors.data[id];
  RETURN_IF(s->ran != PROGRAM_EVALUATE && s->ran != PROGRAM_PREDICT, NEAP_INVALID_ARGUMENT,
            "output '%s' is missing: evaluate or predict first", name);
  RETURN_IF(!dtype_is_real(tensor->dtype), NEAP_UNSUPPORTED,
            "output '%s' has type %s, which cannot be read as f32", name, dtype_rows[tensor->dtype].name);
  const int32_t storage =
      graph_storage(graph, id); /* a view has its storage's order in row-major memory alone */
  return session_export(s, p->lowered, storage, p->program.outputs[i], data);
}

/* Returns a constant with the planner's name, as the report outlives the plan. A plan file may name a planner
 * that this build does not have. */
static const char *constant_planner_name(const char *name) {
  const struct planner *row = planner_find(name);
  return row != NULL ? row->name : "another";
}

void neap_session_memory(const neap_session *s, neap_memory *memory) {
  if (memory == NULL) return;
  *memory = (neap_memory){0};
  if (s == NULL) return;
  const struct neap_step *step = s->main->step;
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
  memory->stored_saved = session_stored_saved(s);
  session_disk_use(s, memory);
  for (int32_t t = 0; t < step->tensor_count; t++) {
    const struct step_tensor *tensor = &step->tensors[t];
    if (tensor->role == NEAP_ROLE_PARAMETER) memory->parameters += tensor->bytes;
    if (tensor->role == NEAP_ROLE_STATE) memory->states += tensor->bytes;
    if (tensor->role == NEAP_ROLE_INPUT) memory->inputs += tensor->bytes;
  }
  const uint64_t values = s->pipeline != NULL ? pipeline_value_bytes(s) : 0;
  memory->states -= values; /* they are states for the pieces, activations and gradients for people */
  memory->resident -= values;
  memory->arena += values;
}
