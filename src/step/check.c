/* The independent checker: the rules of docs/formats.md, applied to a plan's own list of instances and
 * offsets. It shares no code with the planners, so it does not repeat their faults.
 *
 * Three passes over the schedule's positions: which nodes run and which instances that makes; how long these
 * live, and the figures; where they are in memory. O((reads + instances) log instances). */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "step/plan.h"
#include "step/rank_set.h"

/* Sums of the same costs in another order may differ by this share. */
static const double cost_tolerance = 1e-9;

/* The lifetime and the host that the rules give an instance of the plan. */
struct life {
  int32_t last;       /* position of its last read; `length`, after all positions, for an output at the end */
  int32_t host;       /* instance in whose bytes it may lie at the position that makes it; -1: none */
  int32_t next_ended; /* another instance whose last position is the same; -1: none */
  int32_t rank;       /* place in the order by offset; -1 when it has no bytes */
  bool is_host;
};

struct checker {
  const struct neap_step *step;
  const struct neap_plan *plan;
  neap_check_result *result;
  int32_t *current; /* of each tensor the instance made last; -1: none yet */
  bool *updated;    /* each tensor: its update has run */
  bool *has_run;    /* each node */
  struct life *lives;
  int32_t *first;   /* of each position its first instance; [length]: how many there are */
  int32_t *ended;   /* of each position the first instance whose last it is; -1: none */
  int32_t *by_rank; /* instances that have bytes, by offset */
  int32_t rank_count;
  struct rank_set placed; /* ranks of what lives at the position under examination */
};

/* ---- Refusing ---- */

static neap_status refuse(struct checker *c, int32_t position, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static neap_status refuse(struct checker *c, int32_t position, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(c->result->reason, sizeof c->result->reason, format, arguments);
  va_end(arguments);
  c->result->position = position;
  if (position < 0) return neap_fail(NEAP_INVALID_PLAN, "the plan is not valid: %s", c->result->reason);
  return neap_fail(NEAP_INVALID_PLAN, "the plan is not valid, at position %d of its schedule: %s", position,
                   c->result->reason);
}

#define REFUSE_IF(condition, position, ...)                                                                  \
  do {                                                                                                       \
    if (condition) return refuse(c, (position), __VA_ARGS__);                                                \
  } while (0)

/* ---- Running the nodes, and the instances that this makes ---- */

static neap_status check_may_run(struct checker *c, int32_t t) {
  const int32_t v = c->plan->schedule[t];
  REFUSE_IF(v < 0 || v >= c->step->node_count, t, "node %d does not exist; ids are 0 to %d", v,
            c->step->node_count - 1);
  const struct step_node *node = &c->step->nodes[v];
  REFUSE_IF(c->has_run[v] && node->update_count > 0, t, "node %d ('%s') updates and runs a second time", v,
            node->name);
  REFUSE_IF(c->has_run[v] && !node->repeatable, t, "node %d ('%s') is not repeatable and runs a second time",
            v, node->name);
  c->has_run[v] = true;
  return NEAP_OK;
}

static neap_status check_reads(struct checker *c, int32_t t) {
  const int32_t v = c->plan->schedule[t];
  const struct step_node *node = &c->step->nodes[v];
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t id = node->inputs[i];
    const struct step_tensor *tensor = &c->step->tensors[id];
    REFUSE_IF(c->updated[id], t, "node %d ('%s') reads tensor %d ('%s') after its update", v, node->name, id,
              tensor->name);
    if (tensor->role != NEAP_ROLE_VALUE) continue;
    REFUSE_IF(c->current[id] < 0, t, "node %d ('%s') reads tensor %d ('%s') before it is made", v, node->name,
              id, tensor->name);
    c->lives[c->current[id]].last = t;
  }
  for (int32_t i = 0; i < node->update_count; i++) c->updated[node->updates[i]] = true;
  return NEAP_OK;
}

/* Fails unless instance k of the plan is that of `tensor` (-1: the workspace) at position t, inside the
 * arena. */
static neap_status check_instance(struct checker *c, int32_t k, int32_t t, int32_t tensor, uint64_t bytes) {
  const struct neap_plan *plan = c->plan;
  REFUSE_IF(k >= plan->instance_count, t, "the instance of tensor %d is missing: the list ends at %d", tensor,
            plan->instance_count);
  const struct placed *placed = &plan->instances[k];
  REFUSE_IF(
      placed->at != t || placed->tensor != tensor, t,
      "instances[%d] is missing or out of order: it is tensor %d at position %d where tensor %d is made", k,
      placed->tensor, placed->at, tensor);
  REFUSE_IF(placed->bytes != bytes, t, "instances[%d] (tensor %d) has the wrong size: %llu bytes, not %llu",
            k, tensor, (unsigned long long)placed->bytes, (unsigned long long)bytes);
  REFUSE_IF(bytes > plan->arena_bytes || placed->offset > plan->arena_bytes - bytes, t,
            "instances[%d] (tensor %d) lies outside the arena: %llu bytes at %llu of %llu", k, tensor,
            (unsigned long long)bytes, (unsigned long long)placed->offset,
            (unsigned long long)plan->arena_bytes);
  c->lives[k] = (struct life){.last = t, .host = -1, .next_ended = -1, .rank = -1};
  return NEAP_OK;
}

/* Checks every output in order, then the workspace if there is one. */
static neap_status check_made(struct checker *c, int32_t t, int32_t *next) {
  const struct step_node *node = &c->step->nodes[c->plan->schedule[t]];
  c->first[t] = *next;
  for (int32_t i = 0; i < node->output_count; i++) {
    const int32_t id = node->outputs[i];
    TRY(check_instance(c, *next, t, id, c->step->tensors[id].bytes));
    c->current[id] = (*next)++;
  }
  if (node->workspace > 0) TRY(check_instance(c, (*next)++, t, -1, node->workspace));
  return NEAP_OK;
}

static neap_status check_run(struct checker *c) {
  int32_t made = 0;
  for (int32_t t = 0; t < c->plan->length; t++) {
    TRY(check_may_run(c, t));
    TRY(check_reads(c, t));
    TRY(check_made(c, t, &made));
  }
  c->first[c->plan->length] = made;
  for (int32_t v = 0; v < c->step->required_count; v++)
    REFUSE_IF(!c->has_run[v], -1, "node %d ('%s') never runs", v, c->step->nodes[v].name);
  REFUSE_IF(made < c->plan->instance_count, -1,
            "instances[%d] (tensor %d at position %d) is superfluous: no node makes it", made,
            c->plan->instances[made].tensor, c->plan->instances[made].at);
  for (int32_t i = 0; i < c->step->output_count; i++) /* all have run: every output has an instance */
    c->lives[c->current[c->step->outputs[i]]].last = c->plan->length;
  return NEAP_OK;
}

/* ---- How long instances live, and the figures ---- */

/* Takes in-place pairs in their order: the read must be the input instance's last, the input at least as
 * large, and each side in one pair at most. Returns the bytes that count once instead of twice. `current`
 * must be as it was before the node ran. */
static uint64_t find_hosts(struct checker *c, int32_t t) {
  const struct step_node *node = &c->step->nodes[c->plan->schedule[t]];
  uint64_t shared = 0;
  for (int32_t i = 0; i < node->inplace_count; i++) {
    const int32_t input = node->inputs[node->inplace[i].input];
    if (c->step->tensors[input].role != NEAP_ROLE_VALUE) continue;
    const int32_t host = c->current[input], guest = c->first[t] + node->inplace[i].output;
    const uint64_t bytes = c->plan->instances[guest].bytes;
    if (c->lives[host].last != t || c->lives[host].is_host || c->lives[guest].host >= 0) continue;
    if (c->plan->instances[host].bytes < bytes) continue;
    c->lives[host].is_host = true;
    c->lives[guest].host = host;
    shared += bytes;
  }
  return shared;
}

/* Returns the largest live bytes at a position. No sum overflows: at any position a tensor has at most one
 * instance, and the sum of all tensors and workspaces of a step fits. */
static uint64_t trace_lives(struct checker *c) {
  uint64_t live = 0, most = 0;
  for (int32_t t = 0; t < c->plan->length; t++) {
    const uint64_t shared = find_hosts(c, t);
    for (int32_t k = c->first[t]; k < c->first[t + 1]; k++) {
      const struct placed *placed = &c->plan->instances[k];
      if (placed->tensor >= 0) c->current[placed->tensor] = k;
      live += placed->bytes;
      if (c->lives[k].last == c->plan->length) continue;
      c->lives[k].next_ended = c->ended[c->lives[k].last];
      c->ended[c->lives[k].last] = k;
    }
    if (live - shared > most) most = live - shared;
    for (int32_t k = c->ended[t]; k >= 0; k = c->lives[k].next_ended) live -= c->plan->instances[k].bytes;
  }
  return most;
}

/* A job of the lane. One that restores begins at its own position, a store behind the latest position that
 * made what it reads. */
struct transfer {
  int32_t begin, at; /* positions */
};

static int compare_transfers(const void *a, const void *b) {
  const struct transfer *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return (x->at > y->at) - (x->at < y->at);
}

/* Lists the plan's transfers in the order in which they begin. `latest` [tensors]. One that restores begins
 * when its position is reached, so before those behind that position, which are later in the schedule. */
static int32_t list_transfers(const struct checker *c, int32_t *latest, struct transfer *list) {
  int32_t count = 0;
  for (int32_t t = 0; t < c->plan->length; t++) {
    const int32_t v = c->plan->schedule[t];
    const struct step_node *node = &c->step->nodes[v];
    int32_t begin = t;
    if (node->transfers && c->step->maker[v] == v) {
      begin = 0;
      for (int32_t i = 0; i < node->input_count; i++)
        if (latest[node->inputs[i]] > begin) begin = latest[node->inputs[i]];
    }
    if (node->transfers) list[count++] = (struct transfer){begin, t};
    for (int32_t i = 0; i < node->output_count; i++) latest[node->outputs[i]] = t;
  }
  qsort(list, (size_t)count, sizeof *list, compare_transfers);
  return count;
}

/* Sums the times of nodes up to each position, with the waits for transfers: of a store at its own position,
 * of a restorer at the first position that reads what it made. `needed` [tensors]: when a tensor is there. */
static double sum_with_waits(const struct checker *c, struct transfer *list, int32_t count, double *needed,
                             double *ended) {
  double time = 0, lane = 0;
  int32_t next = 0;
  for (int32_t t = 0; t < c->plan->length; t++) {
    const int32_t v = c->plan->schedule[t];
    const struct step_node *node = &c->step->nodes[v];
    for (int32_t i = 0; i < node->input_count; i++) time = fmax(time, needed[node->inputs[i]]);
    const bool restores = c->step->maker[v] != v;
    if (node->transfers && !restores) time = fmax(time, ended[t]);
    if (!node->transfers) time += node->cost;
    for (; next < count && list[next].begin <= t; next++) {
      lane = fmax(lane, time) + c->step->nodes[c->plan->schedule[list[next].at]].cost;
      ended[list[next].at] = lane;
    }
    for (int32_t i = 0; i < node->output_count; i++)
      needed[node->outputs[i]] = node->transfers && restores ? ended[t] : 0;
  }
  return time;
}

/* Sums the bytes that transfers move. */
static void add_transfers(struct checker *c) {
  for (int32_t t = 0; t < c->plan->length; t++) {
    const int32_t v = c->plan->schedule[t];
    const struct step_node *node = &c->step->nodes[v];
    const bool restores = c->step->maker[v] != v;
    const int32_t *moved = restores ? node->outputs : node->inputs;
    for (int32_t i = 0; node->transfers && i < (restores ? node->output_count : node->input_count); i++)
      *(restores ? &c->result->restored_bytes : &c->result->stored_bytes) += c->step->tensors[moved[i]].bytes;
  }
}

/* Gives the plan's cost where transfers run beside the nodes. */
static neap_status cost_with_lane(const struct checker *c, double *cost) {
  struct region region = {0};
  const size_t tensors = (size_t)c->step->tensor_count, length = (size_t)c->plan->length;
  struct transfer *list = region_alloc(&region, length, sizeof *list);
  int32_t *latest = region_alloc(&region, tensors, sizeof *latest);
  double *needed = region_alloc(&region, tensors, sizeof *needed),
         *ended = region_alloc(&region, length, sizeof *ended);
  const bool got = list && latest && needed && ended;
  if (got) *cost = sum_with_waits(c, list, list_transfers(c, latest, list), needed, ended);
  region_free(&region);
  return got ? NEAP_OK
             : neap_fail(NEAP_OUT_OF_MEMORY, "checking a plan of %d positions: out of memory",
                         c->plan->length);
}

static bool same_cost(double said, double summed) {
  return isfinite(said) && fabs(said - summed) <= cost_tolerance * summed;
}

static neap_status check_figures(struct checker *c) {
  const struct neap_plan *plan = c->plan;
  uint64_t resident = 0;
  double cost = 0, base_cost = 0;
  for (int32_t i = 0; i < c->step->tensor_count; i++)
    if (c->step->tensors[i].role != NEAP_ROLE_VALUE) resident += c->step->tensors[i].bytes;
  for (int32_t v = 0; v < c->step->required_count; v++) base_cost += c->step->nodes[v].cost;
  for (int32_t t = 0; t < plan->length; t++) cost += c->step->nodes[plan->schedule[t]].cost;
  if (c->step->has_lane) TRY(cost_with_lane(c, &cost));
  add_transfers(c);
  const uint64_t live = trace_lives(c);
  c->result->live_peak_bytes = resident + live;
  c->result->cost = cost;
  REFUSE_IF(plan->resident_bytes != resident, -1, "resident_bytes is %llu; the resident tensors have %llu",
            (unsigned long long)plan->resident_bytes, (unsigned long long)resident);
  REFUSE_IF(plan->live_peak_bytes != resident + live, -1, "peak_bytes is %llu; the schedule's peak is %llu",
            (unsigned long long)plan->live_peak_bytes, (unsigned long long)(resident + live));
  REFUSE_IF(plan->arena_bytes < live, -1, "arena_bytes is %llu; up to %llu bytes live at one position",
            (unsigned long long)plan->arena_bytes, (unsigned long long)live);
  REFUSE_IF(plan->arena_bytes > (uint64_t)INT64_MAX - resident, -1,
            "arena_bytes is %llu; together with %llu resident bytes it exceeds 2^63",
            (unsigned long long)plan->arena_bytes, (unsigned long long)resident);
  REFUSE_IF(!isfinite(cost), -1, "the cost of the schedule overflows");
  REFUSE_IF(!same_cost(plan->cost, cost), -1, "cost is %.17g; the schedule's sum is %.17g", plan->cost, cost);
  REFUSE_IF(!same_cost(plan->base_cost, base_cost), -1, "base_cost is %.17g; the sum over the nodes is %.17g",
            plan->base_cost, base_cost);
  return NEAP_OK;
}

/* ---- Where instances are in memory ---- */

struct by_offset {
  uint64_t offset;
  int32_t instance;
};

static int compare_offsets(const void *a, const void *b) {
  const struct by_offset *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return (x->instance > y->instance) - (x->instance < y->instance);
}

static neap_status rank_instances(struct checker *c) {
  const size_t count = (size_t)c->plan->instance_count;
  struct by_offset *order = calloc(count + 1, sizeof *order);
  RETURN_IF_NULL(order);
  for (int32_t k = 0; k < c->plan->instance_count; k++)
    if (c->plan->instances[k].bytes > 0)
      order[c->rank_count++] = (struct by_offset){c->plan->instances[k].offset, k};
  qsort(order, (size_t)c->rank_count, sizeof *order, compare_offsets);
  for (int32_t rank = 0; rank < c->rank_count; rank++) {
    c->by_rank[rank] = order[rank].instance;
    c->lives[order[rank].instance].rank = rank;
  }
  free(order);
  return NEAP_OK;
}

static bool overlap(const struct placed *x, const struct placed *y) {
  return x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

static neap_status refuse_overlap(struct checker *c, int32_t t, int32_t a, int32_t b) {
  const struct placed *x = &c->plan->instances[a], *y = &c->plan->instances[b];
  return refuse(
      c, t,
      "instances[%d] (tensor %d made at %d, %llu bytes at %llu) and instances[%d] (tensor %d made at "
      "%d, %llu bytes at %llu) live together and overlap",
      a, x->tensor, x->at, (unsigned long long)x->bytes, (unsigned long long)x->offset, b, y->tensor, y->at,
      (unsigned long long)y->bytes, (unsigned long long)y->offset);
}

/* Adds an instance to the live ones. These do not overlap, so only its neighbours can overlap it. */
static neap_status place(struct checker *c, int32_t t, int32_t k) {
  const int32_t rank = c->lives[k].rank;
  if (rank < 0) return NEAP_OK;
  const int32_t near[] = {rank_set_below(&c->placed, rank), rank_set_above(&c->placed, rank)};
  for (int i = 0; i < 2; i++)
    if (near[i] >= 0 && overlap(&c->plan->instances[k], &c->plan->instances[c->by_rank[near[i]]]))
      return refuse_overlap(c, t, c->by_rank[near[i]], k);
  rank_set_insert(&c->placed, rank);
  return NEAP_OK;
}

/* Finds out whether the instance is inside its host's bytes; if not, it must be apart from them. */
static neap_status check_guest(struct checker *c, int32_t t, int32_t k, bool *inside) {
  *inside = false;
  if (c->lives[k].host < 0 || c->lives[k].rank < 0) return NEAP_OK;
  const struct placed *guest = &c->plan->instances[k], *host = &c->plan->instances[c->lives[k].host];
  *inside = guest->offset >= host->offset && guest->offset + guest->bytes <= host->offset + host->bytes;
  REFUSE_IF(!*inside && overlap(guest, host), t,
            "instances[%d] (tensor %d) is in place of tensor %d but only partly inside its bytes", k,
            guest->tensor, host->tensor);
  return NEAP_OK;
}

/* At its first position a guest shares its host's bytes, all of which are live: others must avoid the host.
 * From the next position on the guest has its own bytes. */
static neap_status check_places(struct checker *c) {
  TRY(rank_instances(c));
  TRY(rank_set_create(c->rank_count, &c->placed));
  for (int32_t t = 0; t < c->plan->length; t++) {
    bool inside;
    for (int32_t k = c->first[t]; k < c->first[t + 1]; k++) {
      TRY(check_guest(c, t, k, &inside));
      if (!inside) TRY(place(c, t, k));
    }
    for (int32_t k = c->ended[t]; k >= 0; k = c->lives[k].next_ended)
      if (c->lives[k].rank >= 0) rank_set_erase(&c->placed, c->lives[k].rank);
    for (int32_t k = c->first[t]; k < c->first[t + 1]; k++) {
      TRY(check_guest(c, t, k, &inside));
      if (inside && c->lives[k].last > t) TRY(place(c, t, k));
    }
  }
  return NEAP_OK;
}

/* ---- All of it ---- */

static neap_status allocate(struct checker *c, struct region *region) {
  const size_t tensors = (size_t)c->step->tensor_count, length = (size_t)c->plan->length;
  const size_t instances = (size_t)c->plan->instance_count;
  c->current = region_alloc(region, tensors, sizeof *c->current);
  c->updated = region_alloc(region, tensors, sizeof *c->updated);
  c->has_run = region_alloc(region, (size_t)c->step->node_count, sizeof *c->has_run);
  c->lives = region_alloc(region, instances, sizeof *c->lives);
  c->by_rank = region_alloc(region, instances, sizeof *c->by_rank);
  c->first = region_alloc(region, length + 1, sizeof *c->first);
  c->ended = region_alloc(region, length, sizeof *c->ended);
  RETURN_IF(!c->current || !c->updated || !c->has_run || !c->lives || !c->by_rank || !c->first || !c->ended,
            NEAP_OUT_OF_MEMORY, "checking a plan of %d positions: out of memory", c->plan->length);
  for (size_t i = 0; i < tensors; i++) c->current[i] = -1;
  for (size_t t = 0; t < length; t++) c->ended[t] = -1;
  return NEAP_OK;
}

static neap_status check_all(struct checker *c, struct region *region) {
  TRY(allocate(c, region));
  TRY(check_run(c));
  TRY(check_figures(c));
  return check_places(c);
}

neap_status neap_plan_check(const neap_step *step, const neap_plan *plan, neap_check_result *result) {
  NEED(step);
  NEED(plan);
  NEED(result);
  *result = (neap_check_result){.position = -1};
  struct checker checker = {.step = step, .plan = plan, .result = result};
  struct region region = {0};
  const neap_status status = check_all(&checker, &region);
  result->valid = status == NEAP_OK;
  rank_set_free(&checker.placed);
  region_free(&region);
  return status;
}
