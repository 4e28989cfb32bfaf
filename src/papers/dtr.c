/* Dynamic tensor rematerialization: Kirisame, Lyubomirsky, Haan, Brennan, He, Roesch, Chen, Tatlock 2021
 * (2006.09616), simulated on the step's own order; its log is the plan. It knows nothing of later nodes. When
 * an output does not fit, it evicts the resident value with the least cost / (bytes * staleness), where the
 * cost includes that of the evicted values next to it. When an input is missing, it is made again. The
 * evicted neighbourhood is kept in union-find components, whose costs are summed, and from which a value that
 * is made again is subtracted without splitting them (h_DTR-eq, section 4.1). Values that the order no longer
 * reads are evicted at once (eager eviction, section 2). The simulation ignores in-place pairs and updates,
 * so its own limit is swept and every log scored exactly. */
#include "papers/dtr.h"

#include <math.h>
#include <string.h>

#include "base/stop.h"
#include "papers/contest.h"
#include "papers/forward_graph.h"
#include "step/lower_bound.h"

enum { DEPTH_LIMIT = 10000, COST_LIMIT = 3 };

/* A component of evicted values, or the rest of one. */
struct component {
  int32_t parent;
  double cost;
};

struct runtime {
  const neap_step *step;
  uint64_t limit, used;  /* bytes of values */
  double clock;          /* cost of all that has run */
  bool *resident, *made; /* by tensor */
  int32_t *locks;        /* by tensor: current nodes that read it, and one for an output at the end */
  int32_t *reads_left;   /* by tensor: of the order itself */
  double *access;        /* by tensor: the clock at its last use */
  int32_t *component;    /* by tensor, while it is evicted */
  int32_t *held;         /* resident tensors, in no order */
  int32_t *place;        /* by tensor: where it stands in `held` */
  int32_t held_count;
  VECTOR(struct component) components;
  struct schedule log;
};

static bool is_value(const struct runtime *r, int32_t t) {
  return r->step->tensors[t].role == NEAP_ROLE_VALUE;
}

static const struct step_node *producer_of(const struct runtime *r, int32_t t) {
  return &r->step->nodes[r->step->tensors[t].producer];
}

/* ---- Evicted neighbourhoods ---- */

static int32_t find_component(struct runtime *r, int32_t c) {
  struct component *components = r->components.data;
  while (components[c].parent != c) c = components[c].parent = components[components[c].parent].parent;
  return c;
}

static bool is_evicted(const struct runtime *r, int32_t t) {
  return is_value(r, t) && r->made[t] && !r->resident[t];
}

/* Calls `visit` for the evicted inputs of this value and the evicted values made from it. */
static void visit_neighbours(struct runtime *r, int32_t t, void (*visit)(struct runtime *, int32_t, void *),
                             void *context) {
  const struct step_node *node = producer_of(r, t);
  for (int32_t i = 0; i < node->input_count; i++)
    if (is_evicted(r, node->inputs[i])) visit(r, node->inputs[i], context);
  for (int32_t k = r->step->reader_start[t]; k < r->step->reader_start[t + 1]; k++) {
    const struct step_node *reader = &r->step->nodes[r->step->readers[k]];
    for (int32_t i = 0; i < reader->output_count; i++)
      if (is_evicted(r, reader->outputs[i])) visit(r, reader->outputs[i], context);
  }
}

static void join(struct runtime *r, int32_t neighbour, void *context) {
  const int32_t a = find_component(r, *(const int32_t *)context),
                b = find_component(r, r->component[neighbour]);
  if (a == b) return;
  r->components.data[b].parent = a;
  r->components.data[a].cost += r->components.data[b].cost;
}

enum { DISTINCT = 64 };

struct neighbourhood {
  double cost;
  int32_t seen[DISTINCT], count; /* components that are in it */
};

static void add_neighbour(struct runtime *r, int32_t neighbour, void *context) {
  struct neighbourhood *n = context;
  const int32_t c = find_component(r, r->component[neighbour]);
  for (int32_t i = 0; i < n->count; i++)
    if (n->seen[i] == c) return;
  if (n->count < DISTINCT) n->seen[n->count++] = c;
  n->cost += fmax(r->components.data[c].cost, 0);
}

/* Returns the heuristic; the value with the least goes first. */
static double score(struct runtime *r, int32_t t) {
  struct neighbourhood n = {.cost = producer_of(r, t)->cost};
  visit_neighbours(r, t, add_neighbour, &n);
  /* Bounds staleness from below: a value that was just read has no infinite score, nor has one in a step that
   * costs nothing. */
  const double moment = fmax(1e-9 * r->step->base_cost, 1e-300), staleness = r->clock - r->access[t];
  return n.cost / ((double)r->step->tensors[t].bytes * fmax(staleness, moment));
}

/* ---- Residence ---- */

static void hold(struct runtime *r, int32_t t) {
  r->access[t] = r->clock;
  if (r->resident[t]) return;
  if (r->made[t]) r->components.data[find_component(r, r->component[t])].cost -= producer_of(r, t)->cost;
  r->resident[t] = r->made[t] = true;
  r->place[t] = r->held_count;
  r->held[r->held_count++] = t;
  r->used += r->step->tensors[t].bytes;
}

static neap_status evict(struct runtime *r, int32_t t) {
  r->resident[t] = false;
  r->held[r->place[t]] = r->held[--r->held_count];
  r->place[r->held[r->place[t]]] = r->place[t];
  r->used -= r->step->tensors[t].bytes;
  int32_t c = (int32_t)r->components.count;
  TRY(vector_push(&r->components, (struct component){c, producer_of(r, t)->cost}));
  visit_neighbours(r, t, join, &c);
  r->component[t] = c;
  return NEAP_OK;
}

static neap_status evict_if_released(struct runtime *r, int32_t t) {
  if (!is_value(r, t) || !r->resident[t] || r->locks[t] > 0 || r->reads_left[t] > 0) return NEAP_OK;
  return producer_of(r, t)->repeatable ? evict(r, t) : NEAP_OK;
}

/* Evicts until this many more bytes fit. NEAP_OVER_BUDGET: no value is left to evict. */
static neap_status make_room(struct runtime *r, uint64_t bytes) {
  while (r->used + bytes > r->limit) {
    int32_t victim = -1;
    double least = INFINITY;
    for (int32_t i = 0; i < r->held_count; i++) {
      const int32_t t = r->held[i];
      if (r->locks[t] > 0 || r->step->tensors[t].bytes == 0 || !producer_of(r, t)->repeatable) continue;
      const double value = score(r, t);
      if (value < least || (value == least && t < victim)) least = value, victim = t;
    }
    if (victim < 0) return NEAP_OVER_BUDGET;
    TRY(evict(r, victim));
  }
  return NEAP_OK;
}

/* ---- The run ---- */

static neap_status run_node(struct runtime *r, int32_t v, int depth);

static neap_status ensure(struct runtime *r, int32_t t, int depth) {
  if (r->resident[t]) return NEAP_OK;
  if (depth >= DEPTH_LIMIT || !producer_of(r, t)->repeatable) return NEAP_OVER_BUDGET;
  return run_node(r, r->step->tensors[t].producer, depth + 1);
}

/* Runs a node. NEAP_OVER_BUDGET: the run cannot finish within this limit. */
static neap_status run_node(struct runtime *r, int32_t v, int depth) {
  const struct step_node *node = &r->step->nodes[v];
  TRY(stop_check());
  neap_status status = r->clock > COST_LIMIT * r->step->base_cost ? NEAP_OVER_BUDGET : NEAP_OK;
  for (int32_t i = 0; i < node->input_count; i++) {
    if (!is_value(r, node->inputs[i])) continue;
    r->locks[node->inputs[i]]++;
    if (status == NEAP_OK) status = ensure(r, node->inputs[i], depth);
  }
  uint64_t bytes = node->workspace;
  for (int32_t i = 0; i < node->output_count; i++)
    if (!r->resident[node->outputs[i]]) bytes += r->step->tensors[node->outputs[i]].bytes;
  if (status == NEAP_OK) status = make_room(r, bytes);
  if (status == NEAP_OK) status = vector_push(&r->log.nodes, v);
  r->clock += node->cost;
  for (int32_t i = 0; i < node->input_count; i++) {
    if (!is_value(r, node->inputs[i])) continue;
    r->locks[node->inputs[i]]--;
    r->access[node->inputs[i]] = r->clock;
  }
  if (status != NEAP_OK) return status;
  for (int32_t i = 0; i < node->output_count; i++) hold(r, node->outputs[i]);
  /* Evicts the values that were made again for this node alone. */
  for (int32_t i = 0; depth > 0 && i < node->input_count; i++) TRY(evict_if_released(r, node->inputs[i]));
  return NEAP_OK;
}

/* Ends the reads of a node of the order that has run, or of an update, which gets its place later. */
static neap_status release(struct runtime *r, const struct step_node *node) {
  for (int32_t i = 0; i < node->input_count; i++) {
    bool first = is_value(r, node->inputs[i]);
    for (int32_t k = 0; k < i; k++) first = first && node->inputs[k] != node->inputs[i];
    if (!first) continue;
    r->reads_left[node->inputs[i]]--;
    TRY(evict_if_released(r, node->inputs[i]));
  }
  for (int32_t i = 0; i < node->output_count; i++) TRY(evict_if_released(r, node->outputs[i]));
  return NEAP_OK;
}

static void reset(struct runtime *r, uint64_t limit) {
  const size_t tensors = (size_t)r->step->tensor_count;
  r->limit = limit;
  r->used = 0;
  r->clock = 0;
  r->held_count = 0;
  r->components.count = r->log.nodes.count = 0;
  memset(r->resident, 0, tensors * sizeof *r->resident);
  memset(r->made, 0, tensors * sizeof *r->made);
  memset(r->locks, 0, tensors * sizeof *r->locks);
  for (int32_t t = 0; t < r->step->tensor_count; t++)
    r->reads_left[t] =
        r->step->reader_start[t + 1] - r->step->reader_start[t] + r->step->tensors[t].is_output;
}

/* Runs the order once within a limit; the log is a schedule of the step. */
static neap_status run_order(struct runtime *r, uint64_t limit) {
  const neap_step *step = r->step;
  reset(r, limit);
  for (int32_t v = 0; v < step->node_count; v++) {
    const struct step_node *node = &step->nodes[v];
    if (!is_plain_update(node)) TRY(run_node(r, v, 0));
    TRY(release(r, node));
  }
  for (int32_t i = 0; i < step->output_count; i++) {
    TRY(ensure(r, step->outputs[i], 0));
    r->locks[step->outputs[i]]++;
  }
  return schedule_add_updates(step, &r->log);
}

/* ---- The sweep ---- */

/* Sweeps limits on fixed rungs, from a little below the caller's up to where in-place pairs no longer make up
 * for the difference. */
static neap_status sweep(struct runtime *r, struct contest *contest) {
  const neap_step *step = r->step;
  const bool large = step->node_count > LARGE_STEP;
  const double ratio = large ? 1.15 : 1.03, caller = (double)contest->budget - (double)step->resident_bytes;
  double everything = 0, limit = (double)(plan_lower_bound(step) - step->resident_bytes) + 1;
  for (int32_t t = 0; t < step->tensor_count; t++)
    if (is_value(r, t)) everything += (double)step->tensors[t].bytes;
  for (int32_t v = 0; v < step->node_count; v++) everything += (double)step->nodes[v].workspace;
  while (large && limit < everything && limit < 0.8 * caller) limit *= ratio;
  for (; limit < 2 * caller; limit *= ratio) {
    const neap_status status = run_order(r, (uint64_t)fmin(limit, everything));
    if (status == NEAP_OK) TRY(contest_offer(contest, &r->log));
    if (status != NEAP_OK && status != NEAP_OVER_BUDGET) return status;
    if (limit >= everything) break;
    if (contest_is_met(contest) && (contest->effort == EFFORT_QUICK || contest->cost <= step->base_cost))
      break;
  }
  return NEAP_OK;
}

static neap_status runtime_create(const neap_step *step, struct region *region, struct runtime *r) {
  const size_t tensors = (size_t)step->tensor_count + 1;
  *r = (struct runtime){.step = step};
  r->resident = region_alloc(region, tensors, sizeof *r->resident);
  r->made = region_alloc(region, tensors, sizeof *r->made);
  r->locks = region_alloc(region, tensors, sizeof *r->locks);
  r->reads_left = region_alloc(region, tensors, sizeof *r->reads_left);
  r->access = region_alloc(region, tensors, sizeof *r->access);
  r->component = region_alloc(region, tensors, sizeof *r->component);
  r->held = region_alloc(region, tensors, sizeof *r->held);
  r->place = region_alloc(region, tensors, sizeof *r->place);
  RETURN_IF(!r->resident || !r->made || !r->locks || !r->reads_left || !r->access || !r->component ||
                !r->held || !r->place,
            NEAP_OUT_OF_MEMORY, "dtr: out of memory");
  return NEAP_OK;
}

neap_status plan_dtr(const neap_step *step, uint64_t budget, const struct planner_options *options,
                     struct schedule *out) {
  RETURN_IF(budget < step->resident_bytes, NEAP_OVER_BUDGET,
            "dtr: the resident tensors alone need %llu bytes", (unsigned long long)step->resident_bytes);
  struct region region = {0};
  struct runtime runtime = {0};
  struct contest contest;
  neap_status status = contest_create(step, budget, options, out, &contest);
  if (status == NEAP_OK) status = runtime_create(step, &region, &runtime);
  if (status == NEAP_OK) status = sweep(&runtime, &contest);
  if (status == NEAP_OK) status = contest_result(&contest, "dtr");
  vector_free(&runtime.components);
  schedule_free(&runtime.log);
  contest_free(&contest);
  region_free(&region);
  return status;
}
