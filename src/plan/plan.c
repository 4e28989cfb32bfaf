#include "plan/plan.h"

neap_status plan_create(const struct neap_plan *draft, struct neap_plan **out) {
  struct neap_plan *plan = calloc(1, sizeof *plan);
  RETURN_IF_NULL(plan);
  *plan = *draft;
  plan->region = (struct region){0};
  plan->graph = region_string(&plan->region, draft->graph);
  plan->planner = region_string(&plan->region, draft->planner);
  plan->schedule = region_copy(&plan->region, draft->schedule, (size_t)draft->length, sizeof *plan->schedule);
  plan->instances =
      region_copy(&plan->region, draft->instances, (size_t)draft->instance_count, sizeof *plan->instances);
  if (!plan->graph || !plan->planner || !plan->schedule || !plan->instances) {
    neap_plan_free(plan);
    return neap_fail(NEAP_OUT_OF_MEMORY, "plan: out of memory");
  }
  *out = plan;
  return NEAP_OK;
}

neap_status plan_over_budget(const char *planner, uint64_t budget, uint64_t smallest) {
  RETURN_IF(smallest == 0, NEAP_OVER_BUDGET, "planner '%s' finds no plan for this graph under any budget",
            planner != NULL ? planner : "auto");
  return neap_fail(NEAP_OVER_BUDGET, "the budget of %llu bytes cannot be met; the smallest that can is %llu",
                   (unsigned long long)budget, (unsigned long long)smallest);
}

void neap_plan_free(neap_plan *plan) {
  if (plan == NULL) return;
  region_free(&plan->region);
  free(plan);
}

void neap_plan_describe(const neap_plan *plan, neap_plan_info *info) {
  *info = (neap_plan_info){.graph = plan->graph,
                           .planner = plan->planner,
                           .peak_bytes = plan_bytes(plan),
                           .resident_bytes = plan->resident_bytes,
                           .arena_bytes = plan->arena_bytes,
                           .lower_bound_bytes = plan->lower_bound_bytes,
                           .cost = plan->cost,
                           .base_cost = plan->base_cost,
                           .cost_lower_bound = plan->cost_lower_bound,
                           .seconds = plan->seconds,
                           .length = plan->length,
                           .recomputed = plan->recomputed,
                           .proven_optimal = plan->proven_optimal};
}

const int32_t *neap_plan_schedule(const neap_plan *plan, int64_t *length) {
  *length = plan->length;
  return plan->schedule;
}
