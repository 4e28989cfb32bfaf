/* The instances of a plan: when each lives, its kind, and its place in memory. */
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "step/plan.h"
#include "step/simulate.h"

/* Returns the kind of an instance. `made` counts the instances of each tensor so far; this one is added. */
static neap_memory_kind kind_of(const neap_step *step, int32_t tensor, int32_t *made) {
  if (tensor < 0) return NEAP_KIND_WORKSPACE;
  if (made[tensor]++ > 0) return NEAP_KIND_RECOMPUTED;
  return step->nodes[step->tensors[tensor].producer].pass == NEAP_PASS_FORWARD ? NEAP_KIND_KEPT
                                                                               : NEAP_KIND_GRADIENT;
}

/* Returns true if an instance is inside the bytes of the one that it may take over, at any offset. */
static bool is_in_place(const struct instance *simulated, const struct placed *placed, int32_t i) {
  const int32_t host = simulated[i].takes_over;
  return host >= 0 && placed[i].offset >= placed[host].offset &&
         simulated[i].bytes <= simulated[host].bytes &&
         placed[i].offset - placed[host].offset <= simulated[host].bytes - simulated[i].bytes;
}

/* Joins the simulated instances with the plan's offsets. */
static neap_status place_instances(const neap_step *step, const neap_plan *plan,
                                   const struct instance *simulated, int32_t count, int32_t *made,
                                   neap_instance *out) {
  RETURN_IF(count != plan->instance_count, NEAP_INVALID_PLAN,
            "the plan lists %d instances where its schedule makes %d", plan->instance_count, count);
  for (int32_t i = 0; i < count; i++) {
    const struct instance *instance = &simulated[i];
    const struct placed *placed = &plan->instances[i];
    RETURN_IF(placed->at != instance->at || placed->tensor != instance->tensor, NEAP_INVALID_PLAN,
              "instance %d of the plan must be tensor %d at position %d", i, instance->tensor, instance->at);
    out[i] = (neap_instance){.tensor = instance->tensor,
                             .first = instance->at,
                             .last = instance->last,
                             .in_place = is_in_place(simulated, plan->instances, i),
                             .kind = kind_of(step, instance->tensor, made),
                             .offset = placed->offset,
                             .bytes = instance->bytes};
  }
  return NEAP_OK;
}

neap_status neap_plan_instances(const neap_step *step, const neap_plan *plan, neap_instance **instances,
                                int64_t *count) {
  NEED(step);
  NEED(plan);
  NEED(instances);
  NEED(count);
  struct simulation score;
  struct instance *simulated = NULL;
  int32_t simulated_count = 0;
  const volatile int *before = stop_listen(NULL);
  neap_status status =
      simulate_instances(step, plan->schedule, plan->length, &score, &simulated, &simulated_count);
  stop_listen(before);
  TRY(status);
  int32_t *made = calloc((size_t)step->tensor_count + 1, sizeof *made);
  neap_instance *out = calloc((size_t)simulated_count + 1, sizeof *out);
  if (made == NULL || out == NULL)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", __func__);
  else
    status = place_instances(step, plan, simulated, simulated_count, made, out);
  free(made);
  free(simulated);
  if (status != NEAP_OK) {
    free(out);
    return status;
  }
  *instances = out;
  *count = simulated_count;
  return NEAP_OK;
}

neap_status neap_plan_profile(const neap_step *step, const neap_plan *plan, uint64_t *live) {
  NEED(step);
  NEED(plan);
  NEED(live);
  static const neap_memory_kind resident_kinds[ROLE_COUNT] = {[NEAP_ROLE_VALUE] = NEAP_KIND_KEPT,
                                                              [NEAP_ROLE_INPUT] = NEAP_KIND_INPUT,
                                                              [NEAP_ROLE_PARAMETER] = NEAP_KIND_PARAMETER,
                                                              [NEAP_ROLE_STATE] = NEAP_KIND_STATE};
  neap_instance *instances;
  int64_t count;
  TRY(neap_plan_instances(step, plan, &instances, &count));
  const int64_t length = plan->length;
  memset(live, 0, (size_t)length * NEAP_KIND_COUNT * sizeof *live);
  /* Differences modulo 2^64, then their sums. */
  for (int64_t i = 0; i < count; i++) {
    const neap_instance *instance = &instances[i];
    const int64_t from = (int64_t)instance->first + instance->in_place, to = (int64_t)instance->last + 1;
    if (from >= to) continue;
    live[from * NEAP_KIND_COUNT + instance->kind] += instance->bytes;
    if (to < length) live[to * NEAP_KIND_COUNT + instance->kind] -= instance->bytes;
  }
  for (int32_t t = 0; length > 0 && t < step->tensor_count; t++)
    if (step->tensors[t].role != NEAP_ROLE_VALUE)
      live[resident_kinds[step->tensors[t].role]] += step->tensors[t].bytes;
  for (int64_t i = NEAP_KIND_COUNT; i < length * NEAP_KIND_COUNT; i++) live[i] += live[i - NEAP_KIND_COUNT];
  free(instances);
  return NEAP_OK;
}
