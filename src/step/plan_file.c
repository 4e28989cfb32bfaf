/* Plan files (docs/formats.md). */
#include <math.h>
#include <stdio.h>

#include "formats/json.h"
#include "step/plan.h"

static neap_status read_instances(const json_t *root, const char *file, struct region *region,
                                  struct neap_plan *draft) {
  struct json_place place = {.file = file};
  json_t *list, *value;
  TRY(json_need_array(root, "instances", &place, &list));
  RETURN_IF(json_array_size(list) > INT32_MAX - 2, NEAP_BAD_FORMAT, "%s: field 'instances': too many", file);
  struct placed *placed = region_alloc(region, json_array_size(list), sizeof *placed);
  RETURN_IF_NULL(placed);
  size_t i;
  json_array_foreach(list, i, value) {
    uint64_t at;
    json_t *tensor;
    snprintf(place.path, sizeof place.path, "instances[%zu]", i);
    if (!json_is_object(value)) return json_bad(&place, "must be an object");
    TRY(json_need_size(value, "at", &place, &at));
    TRY(json_need(value, "tensor", &place, &tensor));
    TRY(json_need_size(value, "offset", &place, &placed[i].offset));
    TRY(json_need_size(value, "bytes", &place, &placed[i].bytes));
    const bool id = json_is_integer(tensor) && json_integer_value(tensor) >= -1 &&
                    json_integer_value(tensor) <= INT32_MAX;
    if (!id || at > INT32_MAX) return json_bad(&place, "'tensor' must be an id or -1 and 'at' a position");
    placed[i].tensor = (int32_t)json_integer_value(tensor);
    placed[i].at = (int32_t)at;
  }
  draft->instances = placed;
  draft->instance_count = (int32_t)json_array_size(list);
  return NEAP_OK;
}

static neap_status read_draft(const json_t *root, const char *file, struct region *region,
                              struct neap_plan *draft) {
  const struct json_place place = {.file = file};
  json_t *list;
  TRY(json_need_string(root, "graph", &place, &draft->graph));
  TRY(json_need_string(root, "planner", &place, &draft->planner));
  TRY(json_need_size(root, "resident_bytes", &place, &draft->resident_bytes));
  TRY(json_need_size(root, "peak_bytes", &place, &draft->live_peak_bytes));
  TRY(json_need_size(root, "arena_bytes", &place, &draft->arena_bytes));
  TRY(json_need_number(root, "cost", &place, &draft->cost));
  TRY(json_need_number(root, "base_cost", &place, &draft->base_cost));
  TRY(json_need_array(root, "schedule", &place, &list));
  RETURN_IF(json_array_size(list) > INT32_MAX - 2, NEAP_BAD_FORMAT, "%s: field 'schedule': too long", file);
  int32_t *schedule = region_alloc(region, json_array_size(list), sizeof *schedule);
  RETURN_IF_NULL(schedule);
  TRY(json_to_ids(list, "schedule", &place, 0, schedule));
  draft->schedule = schedule;
  draft->length = (int32_t)json_array_size(list);
  int32_t *copy = region_copy(region, schedule, (size_t)draft->length, sizeof *copy);
  RETURN_IF_NULL(copy);
  draft->recomputed = plan_count_repeats(copy, draft->length);
  return read_instances(root, file, region, draft);
}

neap_status neap_plan_read(const char *path, neap_plan **plan) {
  NEED(path);
  NEED(plan);
  json_t *root;
  TRY(json_read(path, "neap-plan", &root));
  struct region region = {0};
  struct neap_plan draft = {0};
  neap_status status = read_draft(root, path, &region, &draft);
  if (status == NEAP_OK) status = plan_create(&draft, plan);
  region_free(&region);
  json_decref(root);
  return status;
}

/* Fails if the plan has numbers that a reader refuses. */
static neap_status check_numbers(const neap_plan *plan, const char *path) {
  const uint64_t most = INT64_MAX;
  RETURN_IF(plan->resident_bytes > most || plan->live_peak_bytes > most || plan->arena_bytes > most,
            NEAP_INVALID_PLAN, "%s: cannot be written: the plan's bytes are 2^63 or more", path);
  RETURN_IF(!isfinite(plan->cost) || !isfinite(plan->base_cost), NEAP_INVALID_PLAN,
            "%s: cannot be written: a cost of the plan is not finite", path);
  for (int32_t i = 0; i < plan->length; i++)
    RETURN_IF(plan->schedule[i] < 0, NEAP_INVALID_PLAN,
              "%s: cannot be written: schedule[%d] is %d, which is not a node", path, i, plan->schedule[i]);
  for (int32_t i = 0; i < plan->instance_count; i++) {
    const struct placed *p = &plan->instances[i];
    RETURN_IF(p->at < 0 || p->tensor < -1 || p->offset > most || p->bytes > most, NEAP_INVALID_PLAN,
              "%s: cannot be written: instances[%d] has a negative position or tensor, or 2^63 bytes or more",
              path, i);
  }
  return NEAP_OK;
}

neap_status neap_plan_write(const neap_plan *plan, const char *path) {
  NEED(plan);
  NEED(path);
  TRY(check_numbers(plan, path));
  json_t *schedule = json_array(), *instances = json_array();
  bool good = schedule != NULL && instances != NULL;
  for (int32_t i = 0; good && i < plan->length; i++)
    good = json_array_append_new(schedule, json_integer(plan->schedule[i])) == 0;
  for (int32_t i = 0; good && i < plan->instance_count; i++) {
    const struct placed *p = &plan->instances[i];
    good = json_array_append_new(instances, json_pack("{s:i, s:i, s:I, s:I}", "at", (int)p->at, "tensor",
                                                      (int)p->tensor, "offset", (json_int_t)p->offset,
                                                      "bytes", (json_int_t)p->bytes)) == 0;
  }
  json_t *root = json_pack("{s:s, s:i, s:s, s:s, s:o, s:o, s:I, s:I, s:I, s:f, s:f}", "format", "neap-plan",
                           "version", 1, "graph", plan->graph, "planner", plan->planner, "schedule", schedule,
                           "instances", instances, "resident_bytes", (json_int_t)plan->resident_bytes,
                           "peak_bytes", (json_int_t)plan->live_peak_bytes, "arena_bytes",
                           (json_int_t)plan->arena_bytes, "cost", plan->cost, "base_cost", plan->base_cost);
  return json_write_new(root, good, path);
}
