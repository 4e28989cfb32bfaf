/* From a step and a budget to a plan: planners, the simulator and the layout together. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/region.h"
#include "layout/layout.h"
#include "plan/plan.h"
#include "plan/planner.h"

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- One schedule ---- */

/* Simulates and lays out. `enough`: bytes of arena that will do. */
static neap_status plan_of_schedule(const neap_step *step, const struct schedule *schedule,
                                    const char *planner, uint64_t enough, struct neap_plan **out) {
  struct simulation score;
  struct instance *instances = NULL;
  int32_t count = 0;
  TRY(simulate_instances(step, schedule->nodes.data, (int32_t)schedule->nodes.count, &score, &instances,
                         &count));
  struct layout layout = {0};
  struct placed *placed = malloc(((size_t)count + 1) * sizeof *placed);
  neap_status status = placed == NULL ? neap_fail(NEAP_OUT_OF_MEMORY, "plan: out of memory")
                                      : layout_instances(instances, count, enough, &layout);
  if (status == NEAP_OK) {
    for (int32_t i = 0; i < count; i++)
      placed[i] =
          (struct placed){instances[i].at, instances[i].tensor, layout.offsets[i], instances[i].bytes};
    const struct neap_plan draft = {.graph = step->name,
                                    .planner = planner,
                                    .length = (int32_t)schedule->nodes.count,
                                    .schedule = schedule->nodes.data,
                                    .instance_count = count,
                                    .instances = placed,
                                    .resident_bytes = step->resident_bytes,
                                    .peak_bytes = score.peak_bytes,
                                    .arena_bytes = layout.arena_bytes,
                                    .cost = score.cost,
                                    .base_cost = step->base_cost,
                                    .recomputed = score.recomputed,
                                    .proven_optimal = score.recomputed == 0};
    status = plan_create(&draft, out);
  }
  free(layout.offsets);
  free(placed);
  free(instances);
  return status;
}

/* One planner: where the layout needs more than the live bytes and the budget, the planner gets that much
 * less. */
static neap_status run_planner(const neap_step *step, uint64_t budget, const struct planner *planner,
                               struct neap_plan **out) {
  const struct planner_options options = {0};
  uint64_t limit = budget;
  enum { ROUNDS = 4 };
  for (int round = 0; round < ROUNDS; round++) {
    struct schedule schedule = {0};
    struct neap_plan *plan = NULL;
    neap_status status = planner->plan(step, limit, &options, &schedule);
    if (status == NEAP_OK)
      status = plan_of_schedule(step, &schedule, planner->name,
                                budget == UINT64_MAX ? 0 : budget - step->resident_bytes, &plan);
    schedule_free(&schedule);
    if (status != NEAP_OK) return status;
    const uint64_t needed = plan->resident_bytes + plan->arena_bytes;
    if (needed <= budget) {
      *out = plan;
      return NEAP_OK;
    }
    neap_plan_free(plan);
    const uint64_t excess =
        (needed - budget) * (uint64_t)(1 + round / 2); /* the same excess again: give in faster */
    if (limit < excess + step->resident_bytes) break;
    limit -= excess;
  }
  return neap_fail(NEAP_OVER_BUDGET, "%s: found no layout within %llu bytes", planner->name,
                   (unsigned long long)budget);
}

/* ---- Several planners ---- */

/* The cheapest plan of one row, or of all rows where `name` is "auto". */
static neap_status best_plan(const neap_step *step, uint64_t budget, const char *name,
                             struct neap_plan **out) {
  struct neap_plan *best = NULL;
  const bool all = strcmp(name, "auto") == 0;
  neap_status worst = NEAP_OK;
  for (int32_t i = 0; i < planner_count; i++) {
    if (!all && strcmp(planners[i].name, name) != 0) continue;
    struct neap_plan *plan = NULL;
    const neap_status status = run_planner(step, budget, &planners[i], &plan);
    if (status != NEAP_OK && status != NEAP_OVER_BUDGET) {
      neap_plan_free(best);
      return status;
    }
    if (status != NEAP_OK) worst = status;
    if (plan != NULL && (best == NULL || plan->cost < best->cost)) {
      neap_plan_free(best);
      best = plan;
    } else {
      neap_plan_free(plan);
    }
    if (best != NULL && best->recomputed == 0) break; /* nothing is cheaper */
  }
  if (best == NULL) return worst;
  *out = best;
  return NEAP_OK;
}

/* The plan with the least peak that is found: bisection between the bound that no plan beats and a budget
 * that is met, then down from plan to plan until a byte less is not met. It is the same whatever budget was
 * asked for: so a budget is met exactly when it is no smaller than this peak. */
static neap_status find_least(const neap_step *step, const char *name, struct neap_plan **out) {
  struct neap_plan *plan = NULL;
  TRY(best_plan(step, UINT64_MAX, name, &plan));
  uint64_t missed = plan_lower_bound(step) - 1;
  for (bool narrow = false;;) {
    const uint64_t met = plan->resident_bytes + plan->arena_bytes;
    if (met <= missed + 1) break;
    const double below = (double)(missed - step->resident_bytes + 1),
                 above = (double)(met - step->resident_bytes);
    narrow = narrow || above < below * 1.02;
    /* The middle in ratio: what keeps everything is far above the least. */
    uint64_t tried = narrow ? met - 1 : step->resident_bytes + (uint64_t)sqrt(below * above);
    if (tried <= missed || tried >= met) tried = met - 1;
    struct neap_plan *lower = NULL;
    const neap_status status = best_plan(step, tried, name, &lower);
    if (status == NEAP_OVER_BUDGET && tried == met - 1) break;
    if (status == NEAP_OVER_BUDGET) {
      missed = tried;
      continue;
    }
    neap_plan_free(plan);
    plan = lower;
    if (status != NEAP_OK) return status;
  }
  *out = plan;
  return NEAP_OK;
}

/* The plan for a budget, or the least one where nothing else meets it and it does. */
static neap_status plan_within(const neap_step *step, uint64_t budget, const char *name, uint64_t *smallest,
                               struct neap_plan **out) {
  if (budget == NEAP_BUDGET_MAX) return best_plan(step, budget, "keep-all", out);
  if (budget != NEAP_BUDGET_MIN) {
    const neap_status status = best_plan(step, budget, name, out);
    if (status != NEAP_OVER_BUDGET) return status;
  }
  struct neap_plan *least;
  TRY(find_least(step, name, &least));
  const uint64_t peak = least->resident_bytes + least->arena_bytes;
  if (budget == NEAP_BUDGET_MIN || peak <= budget) {
    *out = least;
    return NEAP_OK;
  }
  neap_plan_free(least);
  if (smallest != NULL) *smallest = peak;
  return neap_fail(NEAP_OVER_BUDGET, "the budget of %llu bytes cannot be met; the smallest that can is %llu",
                   (unsigned long long)budget, (unsigned long long)peak);
}

neap_status neap_plan_make(const neap_step *step, uint64_t budget, const char *planner, uint64_t *smallest,
                           neap_plan **plan) {
  const char *name = planner != NULL ? planner : "auto";
  RETURN_IF(strcmp(name, "auto") != 0 && planner_find(name) == NULL, NEAP_INVALID_ARGUMENT,
            "there is no planner '%s'", name);
  const double start = now();
  struct neap_plan *made;
  TRY(plan_within(step, budget, name, smallest, &made));
  made->lower_bound_bytes = plan_lower_bound(step);
  made->seconds = now() - start;
  *plan = made;
  return NEAP_OK;
}

/* ---- What lives when ---- */

static neap_memory_kind kind_of(const neap_step *step, const struct instance *instance, const int32_t *made) {
  if (instance->tensor < 0) return NEAP_KIND_WORKSPACE;
  if (made[instance->tensor] > 1) return NEAP_KIND_RECOMPUTED;
  return step->nodes[step->tensors[instance->tensor].producer].pass == PASS_FORWARD ? NEAP_KIND_KEPT
                                                                                    : NEAP_KIND_GRADIENT;
}

neap_status neap_plan_profile(const neap_step *step, const neap_plan *plan, uint64_t *live) {
  struct simulation score;
  struct instance *instances = NULL;
  int32_t count = 0;
  TRY(simulate_instances(step, plan->schedule, plan->length, &score, &instances, &count));
  int32_t *made = calloc((size_t)step->tensor_count + 1, sizeof *made);
  if (made == NULL) {
    free(instances);
    return neap_fail(NEAP_OUT_OF_MEMORY, "profile: out of memory");
  }
  memset(live, 0, (size_t)plan->length * NEAP_KIND_COUNT * sizeof *live);
  for (int32_t i = 0; i < count; i++)
    if (instances[i].tensor >= 0) made[instances[i].tensor]++;
  for (int32_t i = 0; i < count; i++) {
    const neap_memory_kind kind = kind_of(step, &instances[i], made);
    const int32_t from =
        instances[i].at + (instances[i].takes_over >= 0); /* there it lies in its input's bytes */
    for (int32_t at = from; at <= instances[i].last; at++)
      live[(size_t)at * NEAP_KIND_COUNT + kind] += instances[i].bytes;
  }
  static const neap_memory_kind resident_kinds[ROLE_COUNT] = {NEAP_KIND_INPUT, NEAP_KIND_PARAMETER,
                                                              NEAP_KIND_STATE, NEAP_KIND_KEPT};
  for (int32_t t = 0; t < step->tensor_count; t++)
    for (int32_t at = 0; step->tensors[t].role != ROLE_VALUE && at < plan->length; at++)
      live[(size_t)at * NEAP_KIND_COUNT + resident_kinds[step->tensors[t].role]] += step->tensors[t].bytes;
  free(made);
  free(instances);
  return NEAP_OK;
}
