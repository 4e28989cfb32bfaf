#include "run/prefetch.h"

#include "plan/repair.h"
#include "step/simulate.h"

struct prefetch {
  const struct lowered *lowered;
  const struct neap_step *step;
  uint64_t capacity; /* that live bytes keep to */
  int32_t *nodes;    /* the schedule */
  uint64_t *live;    /* by position */
  int32_t length;
  int32_t moves; /* positions that jobs have come forward */
};

/* Returns true for a job of a lane (run/lane.h), which runs beside the nodes behind it. */
static bool is_job(const struct prefetch *p, int32_t node) {
  const enum op op = p->lowered->graph->nodes.data[node].op;
  return op == OP_FETCH || op == OP_ALL_GATHER;
}

static bool has(const int32_t *ids, int32_t count, int32_t id) {
  for (int32_t i = 0; i < count; i++)
    if (ids[i] == id) return true;
  return false;
}

/* Returns true if the result of `job` may be made before `other` instead of after it. */
static bool may_pass(const struct prefetch *p, int32_t job, int32_t other) {
  const struct step_node *before = &p->step->nodes[other], *own = &p->step->nodes[job];
  if (is_job(p, other) || has(before->inputs, before->input_count, own->outputs[0])) return false;
  for (int32_t i = 0; i < own->input_count; i++)
    if (has(before->updates, before->update_count, own->inputs[i])) return false;
  return true;
}

/* Moves the job at a position. Its result then also lives at the nodes that it passes; the position before
 * one of them has no more live bytes than the node. */
static void move_job(struct prefetch *p, int32_t at) {
  const int32_t job = p->nodes[at];
  const uint64_t bytes = p->step->tensors[p->step->nodes[job].outputs[0]].bytes;
  double passed = 0;
  while (at > 0 && passed < p->step->nodes[job].cost && may_pass(p, job, p->nodes[at - 1]) &&
         p->live[at - 1] + bytes <= p->capacity) {
    passed += p->step->nodes[p->nodes[at - 1]].cost;
    p->live[at - 1] += bytes;
    p->live[at] = p->live[at - 1];
    p->nodes[at] = p->nodes[at - 1];
    p->nodes[--at] = job;
    p->moves++;
  }
}

/* Rebuilds the schedule with the live bytes of each position. */
static neap_status begin(struct prefetch *p, const struct neap_plan *plan) {
  struct simulator simulator;
  struct simulation unused;
  neap_status status = simulator_create(p->step, &simulator);
  if (status == NEAP_OK) status = simulator_run(&simulator, plan->schedule, plan->length, &unused);
  for (int32_t i = 0; status == NEAP_OK && i < plan->length; i++) {
    p->nodes[i] = plan->schedule[i];
    p->live[i] = simulator.live.data[i];
  }
  p->moves = 0;
  simulator_free(&simulator);
  return status;
}

static neap_status lay_out(const struct prefetch *p, const struct neap_plan *plan, uint64_t capacity,
                           struct neap_plan **out) {
  const struct demand demand = {.planner = plan->planner, .capacity = capacity, .goal = GOAL_FIT};
  struct schedule schedule = {0};
  neap_status status = schedule_copy(&schedule, p->nodes, (size_t)p->length);
  if (status == NEAP_OK) status = plan_of_schedule(p->step, &schedule, &demand, out);
  schedule_free(&schedule);
  return status;
}

static void take(struct neap_plan **plan, struct neap_plan **moved) {
  (*moved)->lower_bound_bytes = (*plan)->lower_bound_bytes;
  (*moved)->cost_lower_bound = (*plan)->cost_lower_bound;
  (*moved)->seconds = (*plan)->seconds;
  (*moved)->proven_optimal = (*plan)->proven_optimal;
  swap_plans(plan, moved);
}

/* Tries all moves. Live bytes near the capacity may have no layout; then fewer jobs are moved. */
static neap_status try_all(struct prefetch *p, uint64_t capacity, struct neap_plan **plan) {
  static const double shares[] = {1, 31.0 / 32, 7.0 / 8, 3.0 / 4};
  for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
    struct neap_plan *moved = NULL;
    p->capacity = (uint64_t)(shares[i] * (double)capacity);
    TRY(begin(p, *plan));
    for (int32_t at = 1; at < p->length; at++)
      if (is_job(p, p->nodes[at])) move_job(p, at);
    if (p->moves == 0) return NEAP_OK;
    TRY(lay_out(p, *plan, capacity, &moved));
    const bool fits = moved->arena_bytes <= capacity;
    if (fits) take(plan, &moved);
    neap_plan_free(moved);
    if (fits) return NEAP_OK;
  }
  return NEAP_OK;
}

neap_status prefetch(const struct lowered *lowered, uint64_t budget, struct neap_plan **plan) {
  const int32_t length = (*plan)->length;
  struct prefetch p = {.lowered = lowered, .step = lowered->step, .length = length};
  bool any = false;
  for (int32_t i = 0; i < length; i++) any = any || is_job(&p, (*plan)->schedule[i]);
  if (!any || budget < (*plan)->resident_bytes) return NEAP_OK;
  p.nodes = calloc((size_t)length, sizeof *p.nodes);
  p.live = calloc((size_t)length, sizeof *p.live);
  neap_status status = p.nodes == NULL || p.live == NULL
                           ? neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a plan")
                           : try_all(&p, budget - (*plan)->resident_bytes, plan);
  free(p.live);
  free(p.nodes);
  return status;
}
