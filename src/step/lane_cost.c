#include "step/lane_cost.h"

/* Returns the position that made the last of a store's inputs. */
static int32_t begin_of(const struct step_node *store, const int32_t *made) {
  int32_t behind = 0;
  for (int32_t i = 0; i < store->input_count; i++)
    if (made[store->inputs[i]] > behind) behind = made[store->inputs[i]];
  return behind;
}

neap_status lane_find_stores(struct region *region, const neap_step *step, const int32_t *schedule,
                             int32_t length, struct lane_stores *out) {
  int32_t *made = region_alloc(region, (size_t)step->tensor_count + 1, sizeof *made),
          *last = region_alloc(region, (size_t)length + 1, sizeof *last); /* listed behind a position */
  out->first = region_alloc(region, (size_t)length + 1, sizeof *out->first);
  out->next = region_alloc(region, (size_t)length + 1, sizeof *out->next);
  RETURN_IF(!made || !last || !out->first || !out->next, NEAP_OUT_OF_MEMORY, "out of memory for a schedule");
  for (int32_t at = 0; at < length; at++) out->first[at] = out->next[at] = -1;
  for (int32_t at = 0; at < length; at++) {
    const struct step_node *node = &step->nodes[schedule[at]];
    if (is_lane_store(step, schedule[at])) {
      const int32_t behind = begin_of(node, made);
      *(out->first[behind] < 0 ? &out->first[behind] : &out->next[last[behind]]) = at;
      last[behind] = at;
    }
    for (int32_t i = 0; i < node->output_count; i++) made[node->outputs[i]] = at;
  }
  return NEAP_OK;
}

/* Runs both clocks over the schedule. `ended`: by position of a store, when it has; `ready`: by tensor, when
 * its newest instance is complete. */
static double run_clocks(const neap_step *step, const int32_t *schedule, int32_t length,
                         const struct lane_stores *stores, double *ended, double *ready) {
  double now = 0, lane = 0;
  for (int32_t at = 0; at < length; at++) {
    const int32_t v = schedule[at];
    const struct step_node *node = &step->nodes[v];
    double made = 0;
    for (int32_t i = 0; i < node->input_count; i++)
      if (ready[node->inputs[i]] > now) now = ready[node->inputs[i]];
    if (is_lane_store(step, v)) {
      if (ended[at] > now) now = ended[at];
    } else if (node->transfers) {
      made = lane = (lane > now ? lane : now) + node->cost;
    } else {
      now += node->cost;
    }
    for (int32_t i = 0; i < node->output_count; i++) ready[node->outputs[i]] = made;
    for (int32_t store = stores->first[at]; store >= 0; store = stores->next[store])
      ended[store] = lane = (lane > now ? lane : now) + step->nodes[schedule[store]].cost;
  }
  return now;
}

neap_status lane_cost(const neap_step *step, const int32_t *schedule, int32_t length, double *cost) {
  struct region region = {0};
  struct lane_stores stores;
  double *ended = region_alloc(&region, (size_t)length + 1, sizeof *ended),
         *ready = region_alloc(&region, (size_t)step->tensor_count + 1, sizeof *ready);
  neap_status status = !ended || !ready ? neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a schedule")
                                        : lane_find_stores(&region, step, schedule, length, &stores);
  if (status == NEAP_OK) *cost = run_clocks(step, schedule, length, &stores, ended, ready);
  region_free(&region);
  return status;
}
