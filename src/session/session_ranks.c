#include "session/session_ranks.h"

#include <stdlib.h>
#include <string.h>

/* A plan in transit: this header, then schedule, instances and both names, each with its ending 0. */
struct plan_header {
  struct neap_plan plan;   /* its numbers */
  uint64_t graph, planner; /* bytes of the names */
};

static uint64_t bytes_of(const struct plan_header *h) {
  return (uint64_t)h->plan.length * sizeof *h->plan.schedule +
         (uint64_t)h->plan.instance_count * sizeof *h->plan.instances + h->graph + h->planner;
}

static struct plan_header header_of(const struct neap_plan *plan) {
  return (struct plan_header){*plan, strlen(plan->graph) + 1, strlen(plan->planner) + 1};
}

/* Finds the parts of a plan in `bytes`. */
static void point_into(struct plan_header *h, char *bytes) {
  h->plan.instances = (const struct placed *)bytes;
  bytes += (uint64_t)h->plan.instance_count * sizeof *h->plan.instances;
  h->plan.schedule = (const int32_t *)bytes;
  bytes += (uint64_t)h->plan.length * sizeof *h->plan.schedule;
  h->plan.graph = bytes;
  h->plan.planner = bytes + h->graph;
}

static void pack(const struct neap_plan *plan, const struct plan_header *to) {
  memcpy((void *)to->plan.instances, plan->instances, (size_t)plan->instance_count * sizeof *plan->instances);
  memcpy((void *)to->plan.schedule, plan->schedule, (size_t)plan->length * sizeof *plan->schedule);
  memcpy((void *)to->plan.graph, plan->graph, to->graph);
  memcpy((void *)to->plan.planner, plan->planner, to->planner);
}

neap_status ranks_hand_plan(const struct neap_collective *c, const struct neap_plan *own,
                            struct neap_plan **plan) {
  struct plan_header header = c->rank == 0 ? header_of(own) : (struct plan_header){0};
  TRY(collective_broadcast(c, 0, &header, sizeof header));
  char *bytes = malloc(bytes_of(&header) + 1);
  TRY(collective_share_status(c, bytes != NULL ? NEAP_OK
                                               : neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a plan")));
  point_into(&header, bytes);
  if (c->rank == 0) pack(own, &header);
  neap_status status = collective_broadcast(c, 0, bytes, bytes_of(&header));
  if (status == NEAP_OK) status = plan_create(&header.plan, plan);
  free(bytes);
  return status;
}

neap_status ranks_follow_first(const struct neap_collective *c, struct session_program *program,
                               neap_status status) {
  struct neap_plan *first = NULL;
  struct neap_check_result result;
  TRY(collective_share_status(c, status));
  TRY(ranks_hand_plan(c, program->plan, &first));
  neap_plan_free(program->plan);
  program->plan = first;
  return collective_share_status(c, neap_plan_check(program->lowered->step, first, &result));
}

neap_status ranks_most(const struct neap_collective *c, uint64_t *number) {
  uint64_t *all = calloc((size_t)c->size, sizeof *all);
  RETURN_IF_NULL(all);
  all[c->rank] = *number;
  const neap_status status = collective_gather(c, all, sizeof *all);
  for (int rank = 0; status == NEAP_OK && rank < c->size; rank++)
    if (all[rank] > *number) *number = all[rank];
  free(all);
  return status;
}

neap_status ranks_share_smallest(const struct neap_collective *c, neap_status status, uint64_t *smallest) {
  struct ending ending;
  if (status != NEAP_OVER_BUDGET || smallest == NULL) return status;
  ending_keep(&ending, status);
  TRY(ranks_most(c, smallest));
  return ending_tell(&ending);
}
