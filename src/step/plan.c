#include "step/plan.h"

#include <stdlib.h>

#include "base/ids.h"

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

int64_t plan_count_repeats(int32_t *ids, int32_t length) {
  int64_t repeats = 0;
  if (length > 1) qsort(ids, (size_t)length, sizeof *ids, compare_ids);
  for (int32_t i = 1; i < length; i++) repeats += ids[i] == ids[i - 1];
  return repeats;
}

static neap_status check_arrays(const neap_plan_arrays *a) {
  enum { MOST = INT32_MAX - 2 };
  RETURN_IF(a == NULL, NEAP_INVALID_ARGUMENT, "neap_plan_create: 'arrays' is NULL");
  RETURN_IF(a->length < 0 || a->instance_count < 0, NEAP_INVALID_ARGUMENT,
            "neap_plan_create: got %lld positions and %lld instances; counts must not be negative",
            (long long)a->length, (long long)a->instance_count);
  RETURN_IF(a->length > MOST || a->instance_count > MOST, NEAP_TOO_LARGE,
            "neap_plan_create: got %lld positions and %lld instances; the limit is %d", (long long)a->length,
            (long long)a->instance_count, MOST);
  RETURN_IF(a->length > 0 && a->schedule == NULL, NEAP_INVALID_ARGUMENT,
            "neap_plan_create: 'schedule' is NULL");
  RETURN_IF(a->instance_count > 0 && a->instances == NULL, NEAP_INVALID_ARGUMENT,
            "neap_plan_create: 'instances' is NULL");
  return NEAP_OK;
}

/* Makes a draft that refers to the arrays and to the region. */
static neap_status fill_draft(const neap_plan_arrays *a, struct region *region, struct neap_plan *draft) {
  struct placed *placed = region_alloc(region, (size_t)a->instance_count, sizeof *placed);
  int32_t *ids = region_copy(region, a->schedule, (size_t)a->length, sizeof *ids);
  RETURN_IF(placed == NULL || ids == NULL, NEAP_OUT_OF_MEMORY, "plan: out of memory");
  for (int64_t i = 0; i < a->instance_count; i++)
    placed[i] = (struct placed){a->instances[i].at, a->instances[i].tensor, a->instances[i].offset,
                                a->instances[i].bytes};
  *draft = (struct neap_plan){.graph = a->graph != NULL ? a->graph : "",
                              .planner = a->planner != NULL ? a->planner : "",
                              .length = (int32_t)a->length,
                              .instance_count = (int32_t)a->instance_count,
                              .schedule = a->schedule,
                              .instances = placed,
                              .resident_bytes = a->resident_bytes,
                              .live_peak_bytes = a->live_peak_bytes,
                              .arena_bytes = a->arena_bytes,
                              .cost = a->cost,
                              .base_cost = a->base_cost,
                              .recomputed = plan_count_repeats(ids, (int32_t)a->length)};
  return NEAP_OK;
}

neap_status neap_plan_create(const neap_plan_arrays *arrays, neap_plan **plan) {
  NEED(plan);
  TRY(check_arrays(arrays));
  struct region region = {0};
  struct neap_plan draft;
  neap_status status = fill_draft(arrays, &region, &draft);
  if (status == NEAP_OK) status = plan_create(&draft, plan);
  region_free(&region);
  return status;
}

neap_status plan_over_budget(const char *planner, uint64_t budget, uint64_t smallest) {
  RETURN_IF(smallest == 0, NEAP_OVER_BUDGET, "planner '%s' finds no plan for this graph under any budget",
            planner != NULL ? planner : "auto");
  return neap_fail(NEAP_OVER_BUDGET,
                   "a budget of %llu bytes is too small; the smallest that can be met is %llu",
                   (unsigned long long)budget, (unsigned long long)smallest);
}

void neap_plan_free(neap_plan *plan) {
  if (plan == NULL) return;
  region_free(&plan->region);
  free(plan);
}

void neap_plan_describe(const neap_plan *plan, neap_plan_info *info) {
  if (info == NULL) return;
  *info = (neap_plan_info){.graph = "", .planner = ""};
  if (plan == NULL) return;
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
  if (length != NULL) *length = plan != NULL ? plan->length : 0;
  return plan != NULL ? plan->schedule : NULL;
}
