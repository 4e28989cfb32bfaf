/* The executor of a session that runs its whole step: plans it with an evaluation, and runs micro-batches one
 * after another. */
#include "run/executor_whole.h"

#include <math.h>
#include <string.h>

#include "kernel/ranks.h"
#include "plan/planners.h"
#include "program/prefetch.h"
#include "rewrite/rewrite.h"
#include "session/choose.h"
#include "session/session_memory.h"
#include "session/session_ranks.h"
#include "session/session_run.h"
#include "weights/magnitudes.h"

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

neap_status session_list_outputs(struct neap_session *s, const struct neap_graph *graph) {
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

neap_status session_make_evaluation(struct neap_session *s, const struct neap_graph *graph,
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

neap_status session_make_programs(struct neap_session *s) {
  for (int kind = 0; kind < PROGRAM_COUNT; kind++) TRY(make_program(s, &s->programs[kind]));
  return NEAP_OK;
}

/* ---- Planning ---- */

void session_program_free(struct session_program *p) {
  neap_plan_free(p->plan);
  lowered_free(p->lowered);
  *p = (struct session_program){0};
}

/* Plans the main program; `given`: as in choose_plan. */
static neap_status plan_main(struct neap_session *s, const neap_graph *graph, const struct neap_plan *given,
                             uint64_t reserve, uint64_t *smallest) {
  struct choice choice;
  const bool predicts = predicts_only(graph, &s->options);
  TRY(choose_plan(graph, &s->options, given, reserve, smallest, &choice));
  s->main = choice.lowered;
  s->plan = choice.plan;
  s->variant = choice.variant;
  options_set_on_disk(&s->options, choice.on_disk);
  s->budget = choice.budget;
  s->keep_all = choice.keep_all;
  s->programs[predicts ? PROGRAM_PREDICT : PROGRAM_STEP] =
      (struct session_program){.lowered = choice.lowered, .plan = choice.plan};
  TRY(session_list_outputs(s, graph));
  if (predicts) return NEAP_OK;
  TRY(make_around(s, smallest));
  return session_make_evaluation(s, graph, &s->programs[PROGRAM_EVALUATE]);
}

/* Frees the plans. */
static void forget_plans(struct neap_session *s) {
  for (int kind = PROGRAM_COUNT; kind-- > 0;) session_program_free(&s->programs[kind]);
  s->main = NULL;
  s->plan = NULL;
}

/* Plans on the first process. The others replay its plan if it fits their budget; if not, and if plans may
 * differ, they plan for themselves. `*smallest`: this process's. */
static neap_status plan_by_first(struct neap_session *s, const neap_graph *graph, uint64_t reserve,
                                 uint64_t *smallest) {
  const struct neap_collective *c = s->options.collective;
  struct neap_plan *given = NULL;
  neap_status status = c->rank == 0 ? plan_main(s, graph, NULL, reserve, smallest) : NEAP_OK;
  TRY(collective_share_status(c, status));
  TRY(ranks_hand_plan(c, s->plan, &given));
  if (c->rank > 0) status = plan_main(s, graph, given, reserve, smallest);
  neap_plan_free(given);
  if (status == NEAP_OVER_BUDGET && !shards_all(&s->options)) {
    if (smallest != NULL) *smallest = 0;
    forget_plans(s);
    status = plan_main(s, graph, NULL, reserve, smallest);
  }
  return collective_share_status(c, status);
}

/* Plans on all processes, and gives all the smallest budget that each of them meets. Evaluations follow one
 * plan too if plans may not differ. */
static neap_status plan_together(struct neap_session *s, const neap_graph *graph, uint64_t reserve,
                                 uint64_t *smallest) {
  const struct neap_collective *c = s->options.collective;
  uint64_t own = 0, *asked = smallest != NULL ? &own : NULL;
  const neap_status status = ranks_share_smallest(c, plan_by_first(s, graph, reserve, asked), asked);
  if (status == NEAP_OVER_BUDGET && smallest != NULL) *smallest = own;
  TRY(status);
  return shards_all(&s->options) ? ranks_follow_first(c, &s->programs[PROGRAM_EVALUATE], NEAP_OK) : NEAP_OK;
}

static neap_status plan(struct neap_session *s, const struct neap_graph *graph, uint64_t reserve,
                        uint64_t *smallest) {
  const bool together = s->options.collective != NULL && s->options.collective->size > 1;
  return together ? plan_together(s, graph, reserve, smallest) : plan_main(s, graph, NULL, reserve, smallest);
}

/* ---- Running ---- */

const char only_predicts[] = "this session only predicts: its graph has no loss, or its options say so";

static neap_status run_with_noise(neap_session *s, enum program_kind kind, struct run_numbers numbers,
                                  neap_step_result *result) {
  RETURN_IF(s->programs[kind].lowered == NULL, NEAP_INVALID_ARGUMENT, "%s", only_predicts);
  TRY(magnitudes_begin(s));
  const int32_t rank = s->batch != NULL && kind == PROGRAM_STEP ? s->batch->collective->rank : 0;
  numbers.micro_batch = s->micro_batch + rank;
  return session_run(s, &s->programs[kind], kind, numbers, result);
}

neap_status session_run_program(struct neap_session *s, enum program_kind kind, float learning_rate,
                                float share, neap_step_result *result) {
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

/* Runs a micro-batch; the first of a step begins that. */
static neap_status take(neap_session *s, float learning_rate, float share, neap_step_result *result) {
  TRY(session_send_inputs(s));
  if (s->options.mezo) return run_perturbed(s, share, result);
  if (s->programs[PROGRAM_BEGIN].lowered != NULL && s->micro_batch == 0)
    TRY(session_run_program(s, PROGRAM_BEGIN, learning_rate, share, NULL));
  return session_run_program(s, PROGRAM_STEP, learning_rate, share, result);
}

static neap_status end(struct neap_session *s, float learning_rate, float share) {
  const struct run_numbers numbers = {
      .learning_rate = learning_rate, .share = share, .noise = (float)s->slope};
  return run_with_noise(s, PROGRAM_END, numbers, NULL);
}

static neap_status evaluate(struct neap_session *s, neap_step_result *result) {
  return session_run_program(s, PROGRAM_EVALUATE, 0, 1, result);
}

const struct executor whole_executor = {.name = "whole",
                                        .plan = plan,
                                        .bind = session_make_programs,
                                        .take = take,
                                        .end = end,
                                        .evaluate = evaluate};
