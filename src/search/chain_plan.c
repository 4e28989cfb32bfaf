#include "search/chain_plan.h"

#include <string.h>

#include "search/clean.h"
#include "step/tuning.h"

neap_status chain_plan_create(const neap_step *step, uint64_t budget, const struct planner_options *options,
                              int32_t most_stages, int32_t effort, struct schedule *out,
                              struct chain_plan *plan) {
  *plan = (struct chain_plan){.budget = budget, .best = out, .effort = options->effort};
  TRY(chain_create(step, most_stages, &plan->chain));
  struct region *region = &plan->chain.region;
  plan->ran = region_alloc(region, (size_t)plan->chain.stage_count, sizeof *plan->ran);
  plan->classes = region_alloc(region, (size_t)plan->chain.class_count, sizeof *plan->classes);
  RETURN_IF(plan->ran == NULL || plan->classes == NULL, NEAP_OUT_OF_MEMORY, "chain: out of memory");
  for (int32_t c = 0; c < plan->chain.class_count; c++)
    TRY(stage_create(&plan->chain, plan->chain.class_stage[c], effort, &plan->classes[c]));
  return simulator_create(step, &plan->simulator);
}

void chain_plan_free(struct chain_plan *plan) {
  for (int32_t c = 0; plan->classes != NULL && c < plan->chain.class_count; c++)
    stage_free(&plan->classes[c]);
  simulator_free(&plan->simulator);
  schedule_free(&plan->emitted);
  chain_free(&plan->chain);
  *plan = (struct chain_plan){0};
}

/* ---- Emission ---- */

static neap_status emit(struct chain_plan *plan, int32_t s, const int32_t *locals, int32_t count) {
  const struct chain_stage *stage = &plan->chain.stages[s];
  for (int32_t i = 0; i < count; i++)
    TRY(vector_push(&plan->emitted.nodes, chain_stage_node(&plan->chain, stage, locals[i])));
  return NEAP_OK;
}

/* Runs a stage forward; the first run has all its forward nodes. */
static neap_status run_forward(struct chain_plan *plan, int32_t s, const int32_t *again, int32_t count) {
  if (plan->ran[s]) return emit(plan, s, again, count);
  plan->ran[s] = true;
  const struct chain_stage *stage = &plan->chain.stages[s];
  for (int32_t v = stage->forward_begin; v < stage->forward_end; v++)
    TRY(vector_push(&plan->emitted.nodes, v));
  return NEAP_OK;
}

static neap_status emit_operation(struct chain_plan *plan, const struct chain_operation *o) {
  const struct stage_mode *mode = &chain_plan_stage(plan, o->stage)->modes[o->mode];
  const struct stage_option *option =
      &mode->options.data[o->action == CHAIN_FORWARD ? mode->bare : o->choice];
  if (o->action == CHAIN_LEAF) TRY(run_forward(plan, o->stage, option->make, option->make_count));
  if (o->action == CHAIN_FORWARD || o->action == CHAIN_FORWARD_KEEP)
    return run_forward(plan, o->stage, option->again, option->again_count);
  return emit(plan, o->stage, option->backward, option->backward_count);
}

neap_status chain_emit(struct chain_plan *plan, const chain_operations *operations) {
  memset(plan->ran, 0, (size_t)plan->chain.stage_count * sizeof *plan->ran);
  plan->emitted.nodes.count = 0;
  for (size_t i = 0; i < operations->count; i++) TRY(emit_operation(plan, &operations->data[i]));
  return NEAP_OK;
}

/* ---- Scoring ---- */

static void take(struct chain_plan *plan, struct schedule *schedule, const struct simulation *score) {
  const bool fits = score->peak_bytes <= plan->budget, fitted = plan->score.peak_bytes <= plan->budget;
  if (plan->any && (fits ? fitted && score->cost >= plan->score.cost
                         : fitted || score->peak_bytes >= plan->score.peak_bytes))
    return;
  swap_schedules(plan->best, schedule);
  plan->score = *score;
  plan->any = true;
}

static neap_status score_emitted(struct chain_plan *plan, struct simulation *score) {
  struct schedule *emitted = &plan->emitted;
  RETURN_IF(emitted->nodes.count >= INT32_MAX, NEAP_OVER_BUDGET, "chain: the schedule is too long");
  struct simulation raw;
  TRY(simulator_run(&plan->simulator, emitted->nodes.data, (int32_t)emitted->nodes.count, &raw));
  *score = raw;
  if (raw.peak_bytes > plan->budget || plan->effort == EFFORT_QUICK ||
      emitted->nodes.count > CHAIN_CLEAN_LIMIT) {
    take(plan, emitted, &raw);
    return NEAP_OK;
  }
  struct schedule cleaned = {0};
  const neap_status status = schedule_clean(&plan->simulator, plan->budget, emitted->nodes.data,
                                            (int32_t)emitted->nodes.count, &cleaned, &raw);
  if (status == NEAP_OK) take(plan, &cleaned, &raw);
  schedule_free(&cleaned);
  return status;
}

neap_status chain_score(struct chain_plan *plan, const chain_operations *operations,
                        struct simulation *score) {
  TRY(chain_emit(plan, operations));
  return score_emitted(plan, score);
}

neap_status chain_keep_all(struct chain_plan *plan, struct simulation *score) {
  plan->emitted.nodes.count = 0;
  for (int32_t v = 0; v < plan->chain.step->node_count; v++) TRY(vector_push(&plan->emitted.nodes, v));
  return score_emitted(plan, score);
}

neap_status chain_verdict(const struct chain_plan *plan, const char *name) {
  RETURN_IF(!plan->any || plan->score.peak_bytes > plan->budget, NEAP_OVER_BUDGET,
            "%s: the least peak it finds is above %llu bytes", name, (unsigned long long)plan->budget);
  return NEAP_OK;
}
