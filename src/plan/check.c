/* The independent checker: plans against the rules of docs/formats.md alone. It shares no code with the
 * simulator: it goes by the instances that the plan lists, tensor by tensor, where the simulator walks the
 * schedule. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plan/plan.h"

struct life {
  int64_t begin, end;  /* first and last position */
  int32_t shares_from; /* the instance that an in-place pair lets it overlap at `begin`; -1: none */
};

struct checker {
  const neap_step *step;
  const struct neap_plan *plan;
  neap_check_result *result;
  struct region region;
  struct life *lives; /* by instance of the plan */
  int32_t *newest;    /* tensor -> its newest instance while walking */
  int32_t *runs;      /* by node */
  int64_t *last_run;  /* by node */
};

static neap_status __attribute__((format(printf, 3, 4)))
refuse(struct checker *c, int64_t position, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(c->result->reason, sizeof c->result->reason, format, arguments);
  va_end(arguments);
  c->result->position = position;
  return position < 0 ? neap_fail(NEAP_INVALID_PLAN, "the plan is not valid: %s", c->result->reason)
                      : neap_fail(NEAP_INVALID_PLAN, "the plan is not valid at position %lld: %s",
                                  (long long)position, c->result->reason);
}

#define REFUSE_IF(condition, position, ...)                                                                  \
  do {                                                                                                       \
    if (condition) return refuse(c, position, __VA_ARGS__);                                                  \
  } while (0)

/* Rule: ids in range, every node runs, those that must not repeat run once. */
static neap_status check_schedule(struct checker *c) {
  for (int32_t p = 0; p < c->plan->length; p++) {
    const int32_t v = c->plan->schedule[p];
    REFUSE_IF(v < 0 || v >= c->step->node_count, p, "node id %d is out of range", v);
    const struct step_node *node = &c->step->nodes[v];
    REFUSE_IF(c->runs[v] > 0 && !node->repeatable, p, "node '%s' is not repeatable but runs again",
              node->name);
    REFUSE_IF(c->runs[v] > 0 && node->update_count > 0, p, "node '%s' updates and may run only once",
              node->name);
    c->runs[v]++;
    c->last_run[v] = p;
  }
  for (int32_t v = 0; v < c->step->node_count; v++)
    REFUSE_IF(c->runs[v] == 0, -1, "node %d ('%s') never runs", v, c->step->nodes[v].name);
  return NEAP_OK;
}

/* Rule: an update comes after the last run of every other node that reads what it changes. */
static neap_status check_updates(struct checker *c) {
  for (int32_t v = 0; v < c->step->node_count; v++)
    for (int32_t i = 0; i < c->step->nodes[v].input_count; i++) {
      const int32_t updater = c->step->tensors[c->step->nodes[v].inputs[i]].updater;
      if (updater < 0 || updater == v) continue;
      REFUSE_IF(c->last_run[v] > c->last_run[updater], c->last_run[v], "'%s' reads '%s' after its update",
                c->step->nodes[v].name, c->step->tensors[c->step->nodes[v].inputs[i]].name);
    }
  return NEAP_OK;
}

/* Rule: the plan lists one instance for each value made, in order, then the workspace; sizes are the graph's.
 */
static neap_status check_instances(struct checker *c) {
  int32_t k = 0;
  for (int32_t p = 0; p < c->plan->length; p++) {
    const struct step_node *node = &c->step->nodes[c->plan->schedule[p]];
    for (int32_t i = 0; i < node->output_count + (node->workspace > 0); i++, k++) {
      const int32_t tensor = i < node->output_count ? node->outputs[i] : -1;
      const uint64_t bytes = tensor >= 0 ? c->step->tensors[tensor].bytes : node->workspace;
      REFUSE_IF(k >= c->plan->instance_count, p, "the instance of output %d of '%s' is missing", i,
                node->name);
      const struct placed *placed = &c->plan->instances[k];
      REFUSE_IF(placed->at != p || placed->tensor != tensor, p,
                "instance %d should be tensor %d at position %d", k, tensor, p);
      REFUSE_IF(placed->bytes != bytes, p, "instance %d has %llu bytes where the graph says %llu", k,
                (unsigned long long)placed->bytes, (unsigned long long)bytes);
      uint64_t end;
      REFUSE_IF(__builtin_add_overflow(placed->offset, bytes, &end) || end > c->plan->arena_bytes, p,
                "instance %d lies outside the arena", k);
      c->lives[k] = (struct life){p, p, -1};
    }
  }
  REFUSE_IF(k != c->plan->instance_count, -1, "there are %d instances but the schedule makes %d",
            c->plan->instance_count, k);
  return NEAP_OK;
}

/* Rule: every input is resident. Each read extends the life of the newest instance. */
static neap_status check_reads(struct checker *c) {
  for (int32_t t = 0; t < c->step->tensor_count; t++) c->newest[t] = -1;
  int32_t k = 0;
  for (int32_t p = 0; p < c->plan->length; p++) {
    const struct step_node *node = &c->step->nodes[c->plan->schedule[p]];
    for (int32_t i = 0; i < node->input_count; i++) {
      const int32_t t = node->inputs[i];
      if (c->step->tensors[t].role != ROLE_VALUE) continue;
      REFUSE_IF(c->newest[t] < 0, p, "'%s' reads '%s', which is not there", node->name,
                c->step->tensors[t].name);
      c->lives[c->newest[t]].end = p;
    }
    for (; k < c->plan->instance_count && c->plan->instances[k].at == p; k++)
      if (c->plan->instances[k].tensor >= 0) c->newest[c->plan->instances[k].tensor] = k;
  }
  for (int32_t i = 0; i < c->step->output_count; i++)
    c->lives[c->newest[c->step->outputs[i]]].end = c->plan->length - 1;
  return NEAP_OK;
}

/* Which instance each output may share bytes with at its position: pairs in their order, each side once, only
 * where that read is the input's last and the input is at least as large. */
static void find_shares(struct checker *c) {
  for (int32_t t = 0; t < c->step->tensor_count; t++) c->newest[t] = -1;
  int32_t k = 0;
  for (int32_t p = 0; p < c->plan->length; p++) {
    const struct step_node *node = &c->step->nodes[c->plan->schedule[p]];
    for (int32_t i = 0; i < node->inplace_count; i++) {
      const int32_t in = c->newest[node->inputs[node->inplace[i].input]], out = k + node->inplace[i].output;
      if (in < 0 || c->lives[in].end != p || c->lives[in].begin == p ||
          c->plan->instances[in].bytes < c->plan->instances[out].bytes || c->lives[out].shares_from >= 0)
        continue;
      bool taken = false;
      for (int32_t o = 0; o < node->output_count; o++) taken = taken || c->lives[k + o].shares_from == in;
      if (!taken) c->lives[out].shares_from = in;
    }
    for (; k < c->plan->instance_count && c->plan->instances[k].at == p; k++)
      if (c->plan->instances[k].tensor >= 0) c->newest[c->plan->instances[k].tensor] = k;
  }
}

/* Rule: peak = resident + the most that lives at one position, a shared pair counting once with the larger.
 */
static neap_status check_peak(struct checker *c) {
  int64_t *change = region_alloc(&c->region, (size_t)c->plan->length + 1, sizeof *change);
  RETURN_IF_NULL(change);
  for (int32_t k = 0; k < c->plan->instance_count; k++) {
    const int64_t bytes = (int64_t)c->plan->instances[k].bytes;
    change[c->lives[k].begin + (c->lives[k].shares_from >= 0)] +=
        bytes; /* the input, which is no smaller, counts there */
    change[c->lives[k].end + 1] -= bytes;
  }
  int64_t live = 0, most = 0;
  for (int32_t p = 0; p < c->plan->length; p++) {
    live += change[p];
    if (live > most) most = live;
  }
  uint64_t resident = 0;
  for (int32_t t = 0; t < c->step->tensor_count; t++)
    if (c->step->tensors[t].role != ROLE_VALUE) resident += c->step->tensors[t].bytes;
  c->result->peak_bytes = resident + (uint64_t)most;
  REFUSE_IF(c->plan->resident_bytes != resident, -1, "resident_bytes is %llu, but the graph's is %llu",
            (unsigned long long)c->plan->resident_bytes, (unsigned long long)resident);
  REFUSE_IF(c->plan->peak_bytes != c->result->peak_bytes, -1,
            "peak_bytes is %llu, but the schedule needs %llu", (unsigned long long)c->plan->peak_bytes,
            (unsigned long long)c->result->peak_bytes);
  REFUSE_IF(c->plan->arena_bytes < (uint64_t)most, -1, "arena_bytes is less than what lives at once");
  return NEAP_OK;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b)); }

static neap_status check_cost(struct checker *c) {
  double cost = 0, base = 0;
  for (int32_t p = 0; p < c->plan->length; p++) cost += c->step->nodes[c->plan->schedule[p]].cost;
  for (int32_t v = 0; v < c->step->node_count; v++) base += c->step->nodes[v].cost;
  c->result->cost = cost;
  REFUSE_IF(!near(c->plan->cost, cost), -1, "cost is %.17g, but the schedule's is %.17g", c->plan->cost,
            cost);
  REFUSE_IF(!near(c->plan->base_cost, base), -1, "base_cost is %.17g, but the graph's is %.17g",
            c->plan->base_cost, base);
  return NEAP_OK;
}

/* ---- Overlaps ---- */

/* Instances that live now, sorted by offset. */
struct occupied {
  int32_t *instance;
  int32_t count;
};

static int32_t find_slot(const struct checker *c, const struct occupied *o, uint64_t offset) {
  int32_t low = 0, high = o->count;
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    if (c->plan->instances[o->instance[middle]].offset < offset)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool overlap(const struct placed *a, const struct placed *b) {
  return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* Adds instance k after comparing it with its neighbours. What lives is disjoint but for shared pairs, so
 * that the scan may end at a neighbour that does not meet it, unless that one is part of such a pair and
 * hides a larger one. */
static neap_status occupy(struct checker *c, struct occupied *o, int32_t k) {
  const struct placed *placed = &c->plan->instances[k];
  if (placed->bytes == 0) return NEAP_OK;
  const int32_t slot = find_slot(c, o, placed->offset);
  for (int side = 0; side < 2; side++)
    for (int32_t i = side == 0 ? slot - 1 : slot; i >= 0 && i < o->count; i += side == 0 ? -1 : 1) {
      const int32_t other = o->instance[i];
      const bool meets = overlap(placed, &c->plan->instances[other]);
      const bool shared = c->lives[k].shares_from == other || c->lives[other].shares_from == k;
      REFUSE_IF(meets && !shared, placed->at, "instances %d and %d overlap", other, k);
      if (!meets && c->lives[other].end != placed->at && c->lives[other].begin != placed->at) break;
    }
  memmove(o->instance + slot + 1, o->instance + slot, (size_t)(o->count - slot) * sizeof *o->instance);
  o->instance[slot] = k;
  o->count++;
  return NEAP_OK;
}

static void vacate(const struct checker *c, struct occupied *o, int32_t k) {
  int32_t slot = find_slot(c, o, c->plan->instances[k].offset);
  while (slot < o->count && o->instance[slot] != k) slot++;
  if (slot == o->count) return; /* of no bytes */
  memmove(o->instance + slot, o->instance + slot + 1, (size_t)(o->count - slot - 1) * sizeof *o->instance);
  o->count--;
}

static neap_status check_overlaps(struct checker *c) {
  const size_t n = (size_t)c->plan->instance_count;
  struct occupied o = {.instance = region_alloc(&c->region, n + 1, sizeof *o.instance)};
  int32_t *head = region_alloc(&c->region, (size_t)c->plan->length + 1, sizeof *head),
          *next = region_alloc(&c->region, n + 1, sizeof *next);
  RETURN_IF(!o.instance || !head || !next, NEAP_OUT_OF_MEMORY, "checker: out of memory");
  for (int32_t k = 0; k < c->plan->instance_count; k++) { /* lists by last position; 0 ends one */
    next[k] = head[c->lives[k].end];
    head[c->lives[k].end] = k + 1;
  }
  int32_t k = 0;
  for (int32_t p = 0; p < c->plan->length; p++) {
    for (; k < c->plan->instance_count && c->plan->instances[k].at == p; k++) TRY(occupy(c, &o, k));
    for (int32_t dead = head[p]; dead > 0; dead = next[dead - 1]) vacate(c, &o, dead - 1);
  }
  return NEAP_OK;
}

static neap_status check_all(struct checker *c) {
  TRY(check_schedule(c));
  TRY(check_updates(c));
  TRY(check_instances(c));
  TRY(check_reads(c));
  find_shares(c);
  TRY(check_peak(c));
  TRY(check_overlaps(c));
  return check_cost(c);
}

neap_status neap_plan_check(const neap_step *step, const neap_plan *plan, neap_check_result *result) {
  struct checker c = {.step = step, .plan = plan, .result = result};
  *result = (neap_check_result){.position = -1};
  c.lives = region_alloc(&c.region, (size_t)plan->instance_count + 1, sizeof *c.lives);
  c.newest = region_alloc(&c.region, (size_t)step->tensor_count + 1, sizeof *c.newest);
  c.runs = region_alloc(&c.region, (size_t)step->node_count + 1, sizeof *c.runs);
  c.last_run = region_alloc(&c.region, (size_t)step->node_count + 1, sizeof *c.last_run);
  neap_status status = NEAP_OK;
  if (!c.lives || !c.newest || !c.runs || !c.last_run)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "checker: out of memory");
  if (status == NEAP_OK) status = check_all(&c);
  result->valid = status == NEAP_OK;
  region_free(&c.region);
  return status;
}
