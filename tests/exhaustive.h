/* Exact search over all schedules of a small step, in every order, with any number of repeats: the least cost
 * within a budget, and the least peak. An oracle for planners: it shares no code with them, nor with the
 * simulator.
 *
 * A* over states (nodes that have run, values that are resident). All that happens between two runs is
 * dropping, and dropping later than need be costs nothing; so a state's successors are: run one node, after
 * dropping a least set of values that makes room for it (a set of which no part would do), where its inputs
 * may be among what is given up, to be overwritten in place. What is left to pay is at least the cost of
 * every node that has run and must run again: the producers of missing values that nodes still to run read,
 * and of what those in turn miss. The estimate is consistent, so a state is final when it is taken. A state
 * with the same nodes run, no fewer values and no higher cost makes another superfluous.
 *
 * Peaks are counted as docs/formats.md says: while a node runs, all resident values, its outputs (a value
 * made again has no older copy) and its workspace are live, less the outputs that take over an input that
 * ends there. */
#ifndef NEAP_TESTS_EXHAUSTIVE_H
#define NEAP_TESTS_EXHAUSTIVE_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/vector.h"
#include "step/simulate.h"

enum { EXHAUSTIVE_LIMIT = 64 }; /* nodes, and values */

struct exhaustive_state {
  uint64_t done, resident; /* nodes; values */
  double paid, total;      /* cost of repeats so far; with the estimate of those to come */
  int32_t parent, node;    /* the state before, and the node that has run since; -1: none has */
  int32_t stage, slot;     /* in order: where the next node may stand (exhaustive_step_on) */
  bool superfluous;
};

/* The states with the same nodes run of which none makes another superfluous. */
struct exhaustive_group {
  uint64_t done;
  int32_t stage, slot;
  VECTOR(struct exhaustive_member {
    uint64_t resident;
    double paid;
    int32_t state;
  }) members;
};

struct exhaustive {
  const neap_step *step;
  uint64_t limit; /* bytes of values and workspace */
  bool any_cost;  /* any schedule that fits will do */
  bool in_order;  /* only stages in the step's own order */
  size_t state_limit;

  int32_t value_count, value_of[EXHAUSTIVE_LIMIT];                /* value -> tensor */
  uint64_t bytes[EXHAUSTIVE_LIMIT];                               /* by value */
  uint64_t inputs[EXHAUSTIVE_LIMIT], outputs[EXHAUSTIVE_LIMIT];   /* by node: values */
  uint64_t updaters[EXHAUSTIVE_LIMIT], readers[EXHAUSTIVE_LIMIT]; /* by node: updaters of what it reads; other
                                                                     readers of what it updates */
  uint64_t final;                                                 /* values that must be there at the end */

  VECTOR(struct exhaustive_state) states;
  VECTOR(int32_t) heap;            /* states by total, then by nodes run */
  struct exhaustive_group *groups; /* by hash of nodes run; those without room for members are free */
  size_t group_count, groups_used; /* the first is a power of two */
  struct exhaustive_seen {
    uint64_t done, resident;
    int32_t stage, slot;
    double paid; /* the least with which it has been met; the empty place: -1 */
  } * seen;      /* states met, by hash: most are met many times */
  size_t seen_count, seen_used;
};

enum exhaustive_kind {
  EXHAUSTIVE_LEAST_COST,
  EXHAUSTIVE_ANY_COST, /* whether the budget can be met at all */
  EXHAUSTIVE_IN_ORDER  /* the least cost of schedules in stages (src/papers/checkmate.h) */
};

struct exhaustive_result {
  bool proven;              /* the search came to its end; otherwise the rest is what it met */
  bool feasible;            /* there is a schedule within the budget */
  double cost;              /* of the schedule */
  struct schedule schedule; /* to be freed */
};

/* ---- The step as sets ---- */

/* false: too large for this search. */
static inline bool exhaustive_prepare(struct exhaustive *x) {
  const neap_step *step = x->step;
  int32_t value_by_tensor[4 * EXHAUSTIVE_LIMIT];
  if (step->node_count > EXHAUSTIVE_LIMIT || step->tensor_count > 4 * EXHAUSTIVE_LIMIT) return false;
  for (int32_t t = 0; t < step->tensor_count; t++) {
    if (step->tensors[t].role != NEAP_ROLE_VALUE) continue;
    if (x->value_count == EXHAUSTIVE_LIMIT) return false;
    value_by_tensor[t] = x->value_count;
    x->bytes[x->value_count] = step->tensors[t].bytes;
    if (step->tensors[t].is_output) x->final |= UINT64_C(1) << x->value_count;
    x->value_of[x->value_count++] = t;
  }
  for (int32_t v = 0; v < step->node_count; v++) {
    const struct step_node *node = &step->nodes[v];
    for (int32_t i = 0; i < node->input_count; i++) {
      const int32_t t = node->inputs[i], updater = step->tensors[t].updater;
      if (step->tensors[t].role == NEAP_ROLE_VALUE)
        x->inputs[v] |= UINT64_C(1) << value_by_tensor[t];
      else if (updater >= 0 && updater != v) {
        x->updaters[v] |= UINT64_C(1) << updater;
        x->readers[updater] |= UINT64_C(1) << v;
      }
    }
    for (int32_t i = 0; i < node->output_count; i++)
      x->outputs[v] |= UINT64_C(1) << value_by_tensor[node->outputs[i]];
  }
  return true;
}

static inline bool exhaustive_can_repeat(const struct exhaustive *x, uint64_t done, int32_t v) {
  const struct step_node *node = &x->step->nodes[v];
  return node->repeatable && node->update_count == 0 && (x->updaters[v] & done) == 0;
}

static inline uint64_t exhaustive_bytes(const struct exhaustive *x, uint64_t values) {
  uint64_t sum = 0;
  for (; values != 0; values &= values - 1) sum += x->bytes[__builtin_ctzll(values)];
  return sum;
}

/* Values that something still to run may read, now or in a repeat. */
static inline uint64_t exhaustive_useful(const struct exhaustive *x, uint64_t done) {
  uint64_t useful = x->final;
  for (int32_t v = x->step->node_count; v-- > 0;)
    if (!(done >> v & 1) || ((x->outputs[v] & useful) != 0 && exhaustive_can_repeat(x, done, v)))
      useful |= x->inputs[v];
  return useful;
}

/* The least cost of the repeats to come; infinite where one of them is not allowed. */
static inline double exhaustive_estimate(const struct exhaustive *x, uint64_t done, uint64_t resident) {
  uint64_t needed = x->final, again = 0;
  double cost = 0;
  for (int32_t v = x->step->node_count; v-- > 0;) {
    if (done >> v & 1) {
      if ((x->outputs[v] & needed & ~resident) == 0) continue;
      if (!exhaustive_can_repeat(x, done, v)) return INFINITY;
      again |= UINT64_C(1) << v;
    }
    needed |= x->inputs[v];
  }
  for (; again != 0; again &= again - 1) cost += x->step->nodes[__builtin_ctzll(again)].cost;
  return cost;
}

/* ---- States ---- */

static inline struct exhaustive_group *exhaustive_group_of(const struct exhaustive *x, uint64_t done,
                                                           int32_t stage, int32_t slot) {
  const uint64_t key = done ^ (uint64_t)stage << 40 ^ (uint64_t)slot << 50;
  for (size_t at = (size_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 20);; at++) {
    struct exhaustive_group *group = &x->groups[at & (x->group_count - 1)];
    if (group->members.capacity == 0 || (group->done == done && group->stage == stage && group->slot == slot))
      return group;
  }
}

static inline neap_status exhaustive_grow_groups(struct exhaustive *x) {
  struct exhaustive bigger = {.group_count = x->group_count > 0 ? 2 * x->group_count : 1024};
  if (2 * x->groups_used < x->group_count) return NEAP_OK;
  bigger.groups = calloc(bigger.group_count, sizeof *bigger.groups);
  RETURN_IF_NULL(bigger.groups);
  for (size_t i = 0; i < x->group_count; i++) {
    const struct exhaustive_group *group = &x->groups[i];
    if (group->members.capacity > 0)
      *exhaustive_group_of(&bigger, group->done, group->stage, group->slot) = *group;
  }
  free(x->groups);
  x->groups = bigger.groups;
  x->group_count = bigger.group_count;
  return NEAP_OK;
}

/* Where a state has been noted, or is to be. */
static inline struct exhaustive_seen *exhaustive_seen_of(const struct exhaustive *x,
                                                         const struct exhaustive_seen *key) {
  uint64_t hash = (key->done * UINT64_C(0x9E3779B97F4A7C15)) ^ (key->resident * UINT64_C(0xC2B2AE3D27D4EB4F));
  hash ^= hash >> 32 ^ (uint64_t)key->stage << 8 ^ (uint64_t)key->slot << 14;
  for (size_t at = (size_t)hash;; at++) {
    struct exhaustive_seen *seen = &x->seen[at & (x->seen_count - 1)];
    if (seen->paid < 0 || (seen->done == key->done && seen->resident == key->resident &&
                           seen->stage == key->stage && seen->slot == key->slot))
      return seen;
  }
}

static inline neap_status exhaustive_grow_seen(struct exhaustive *x) {
  struct exhaustive bigger = {.seen_count = x->seen_count > 0 ? 2 * x->seen_count : 4096};
  if (2 * x->seen_used < x->seen_count) return NEAP_OK;
  bigger.seen = malloc(bigger.seen_count * sizeof *bigger.seen);
  RETURN_IF_NULL(bigger.seen);
  for (size_t i = 0; i < bigger.seen_count; i++) bigger.seen[i].paid = -1;
  for (size_t i = 0; i < x->seen_count; i++)
    if (x->seen[i].paid >= 0) *exhaustive_seen_of(&bigger, &x->seen[i]) = x->seen[i];
  free(x->seen);
  x->seen = bigger.seen;
  x->seen_count = bigger.seen_count;
  return NEAP_OK;
}

static inline bool exhaustive_before(const struct exhaustive *x, int32_t a, int32_t b) {
  const struct exhaustive_state *p = &x->states.data[a], *q = &x->states.data[b];
  const int p_count = __builtin_popcountll(p->done), q_count = __builtin_popcountll(q->done);
  if (x->any_cost && p_count != q_count) return p_count > q_count;
  if (p->total != q->total) return p->total < q->total;
  if (p_count != q_count) return p_count > q_count;
  return a < b;
}

static inline void exhaustive_sift_up(struct exhaustive *x, size_t at) {
  int32_t *heap = x->heap.data;
  for (; at > 0 && exhaustive_before(x, heap[at], heap[(at - 1) / 2]); at = (at - 1) / 2) {
    const int32_t other = heap[(at - 1) / 2];
    heap[(at - 1) / 2] = heap[at];
    heap[at] = other;
  }
}

static inline int32_t exhaustive_take(struct exhaustive *x) {
  int32_t *heap = x->heap.data;
  const int32_t first = heap[0];
  heap[0] = heap[--x->heap.count];
  for (size_t at = 0;;) {
    size_t least = at;
    for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < x->heap.count; child++)
      if (exhaustive_before(x, heap[child], heap[least])) least = child;
    if (least == at) return first;
    const int32_t other = heap[least];
    heap[least] = heap[at];
    heap[at] = other;
    at = least;
  }
}

static inline neap_status exhaustive_add(struct exhaustive *x, struct exhaustive_state state) {
  TRY(exhaustive_grow_seen(x));
  const struct exhaustive_seen key = {state.done, state.resident, state.stage, state.slot, state.paid};
  struct exhaustive_seen *seen = exhaustive_seen_of(x, &key);
  if (seen->paid >= 0 && (x->any_cost || seen->paid <= state.paid)) return NEAP_OK;
  x->seen_used += seen->paid < 0;
  *seen = key;
  const double estimate = exhaustive_estimate(x, state.done, state.resident);
  if (estimate == INFINITY) return NEAP_OK;
  TRY(exhaustive_grow_groups(x));
  struct exhaustive_group *group = exhaustive_group_of(x, state.done, state.stage, state.slot);
  x->groups_used += group->members.capacity == 0;
  group->done = state.done;
  group->stage = state.stage;
  group->slot = state.slot;
  size_t kept = 0;
  for (size_t i = 0; i < group->members.count; i++) {
    const struct exhaustive_member member = group->members.data[i];
    if ((state.resident & ~member.resident) == 0 && (x->any_cost || member.paid <= state.paid))
      return NEAP_OK; /* then the new one makes none of those before superfluous: nothing has moved */
    if ((member.resident & ~state.resident) == 0 && (x->any_cost || state.paid <= member.paid))
      x->states.data[member.state].superfluous = true;
    else
      group->members.data[kept++] = member;
  }
  group->members.count = kept;
  state.total = state.paid + estimate;
  const int32_t id = (int32_t)x->states.count;
  TRY(vector_push(&group->members, (struct exhaustive_member){state.resident, state.paid, id}));
  TRY(vector_push(&x->heap, id));
  TRY(vector_push(&x->states, state));
  exhaustive_sift_up(x, x->heap.count - 1);
  return NEAP_OK;
}

/* ---- Successors ---- */

/* Bytes that outputs take over from the inputs that end here, by the pairs in their order. */
static inline uint64_t exhaustive_taken(const struct exhaustive *x, int32_t v, uint64_t ending) {
  const struct step_node *node = &x->step->nodes[v];
  uint64_t outputs = 0, inputs = 0, taken = 0;
  for (int32_t p = 0; p < node->inplace_count; p++) {
    const int32_t in = node->inputs[node->inplace[p].input];
    const uint64_t output = UINT64_C(1) << node->inplace[p].output;
    uint64_t input = 0;
    for (int32_t i = 0; i < x->value_count; i++)
      if (x->value_of[i] == in) input = UINT64_C(1) << i;
    const uint64_t bytes = x->step->tensors[node->outputs[node->inplace[p].output]].bytes;
    if ((outputs & output) != 0 || (inputs & input) != 0 || (ending & input) == 0 ||
        x->step->tensors[in].bytes < bytes)
      continue;
    outputs |= output;
    inputs |= input;
    taken += bytes;
  }
  return taken;
}

struct exhaustive_move {
  int32_t from, node;
  uint64_t keep_at_most; /* values that are resident afterwards, unless they are dropped before */
  uint64_t done;
  double paid;
  int32_t stage, slot;
};

/* Drops least sets of `candidates` that free `excess` bytes; `dropped` has been decided on. */
static inline neap_status exhaustive_drop(struct exhaustive *x, const struct exhaustive_move *move,
                                          uint64_t candidates, uint64_t dropped, uint64_t freed,
                                          uint64_t excess) {
  if (freed >= excess) {
    for (uint64_t rest = dropped; rest != 0; rest &= rest - 1)
      if (freed - x->bytes[__builtin_ctzll(rest)] >= excess) return NEAP_OK; /* a part would do */
    return exhaustive_add(x, (struct exhaustive_state){.done = move->done,
                                                       .resident = move->keep_at_most & ~dropped,
                                                       .paid = move->paid,
                                                       .parent = move->from,
                                                       .node = move->node,
                                                       .stage = move->stage,
                                                       .slot = move->slot});
  }
  if (freed + exhaustive_bytes(x, candidates) < excess) return NEAP_OK;
  const uint64_t one = candidates & -candidates;
  TRY(exhaustive_drop(x, move, candidates ^ one, dropped | one, freed + x->bytes[__builtin_ctzll(one)],
                      excess));
  return exhaustive_drop(x, move, candidates ^ one, dropped, freed, excess);
}

/* In order: the next node of a stage stands after the one before it, and the stage's own node is its last; a
 * node runs first in its own stage, but an update may run in a later one. Without order all of this stays 0.
 */
static inline bool exhaustive_in_turn(const struct exhaustive *x, const struct exhaustive_state *state,
                                      int32_t v) {
  if (!x->in_order) return true;
  const bool waits = x->step->nodes[v].update_count > 0, again = state->done >> v & 1;
  const bool ended = state->stage == x->step->node_count; /* the last stage's node has run: nothing follows */
  return !ended && v >= state->slot && v <= state->stage && (again || waits || v == state->stage);
}

static inline void exhaustive_step_on(const struct exhaustive *x, int32_t v, int32_t *stage, int32_t *slot) {
  if (!x->in_order) return;
  *slot = v == *stage ? 0 : v + 1;
  *stage += v == *stage;
}

/* Runs node v from a state, in every way. `alone` is set where no other move needs to be looked at. */
static inline neap_status exhaustive_run(struct exhaustive *x, int32_t from, int32_t v, uint64_t useful,
                                         bool *alone) {
  const struct exhaustive_state state = x->states.data[from];
  const struct step_node *node = &x->step->nodes[v];
  const bool again = state.done >> v & 1;
  *alone = false;
  if (!exhaustive_in_turn(x, &state, v)) return NEAP_OK;
  if ((x->inputs[v] & ~state.resident) != 0 || (x->readers[v] & ~state.done) != 0) return NEAP_OK;
  if (again && ((x->outputs[v] & useful & ~state.resident) == 0 || !exhaustive_can_repeat(x, state.done, v)))
    return NEAP_OK;
  const uint64_t done = state.done | UINT64_C(1) << v, useful_after = exhaustive_useful(x, done);
  const uint64_t ending = x->inputs[v] & ~useful_after,
                 others = state.resident & ~x->inputs[v] & ~x->outputs[v];
  const uint64_t live = exhaustive_bytes(x, state.resident | x->outputs[v]) + node->workspace;
  uint64_t given_up = 0; /* inputs, to be overwritten: all sets of them */
  for (int32_t p = 0; p < node->inplace_count; p++)
    for (int32_t i = 0; i < x->value_count; i++)
      if (x->value_of[i] == node->inputs[node->inplace[p].input]) given_up |= UINT64_C(1) << i;
  given_up &= ~ending;
  for (uint64_t part = 0;; part = (part - given_up) & given_up) {
    const uint64_t need = live - exhaustive_taken(x, v, ending | part);
    struct exhaustive_move move = {.from = from,
                                   .node = v,
                                   .keep_at_most = ((state.resident & ~part) | x->outputs[v]) & useful_after,
                                   .done = done,
                                   .paid = state.paid + (again ? node->cost : 0),
                                   .stage = state.stage,
                                   .slot = state.slot};
    exhaustive_step_on(x, v, &move.stage, &move.slot);
    TRY(exhaustive_drop(x, &move, others, 0, 0, need > x->limit ? need - x->limit : 0));
    if (part == 0 && need <= x->limit) {
      /* Nothing is given up for it. If it leaves nothing behind, or what can be had again where costs do not
       * count, and stands in nobody's way, it may as well run now. */
      *alone = !x->in_order && ((x->any_cost && exhaustive_can_repeat(x, done, v)) ||
                                (!again && (move.keep_at_most & x->outputs[v]) == 0));
      for (uint64_t blocked = x->readers[v]; *alone && blocked != 0; blocked &= blocked - 1)
        *alone = (x->outputs[__builtin_ctzll(blocked)] & useful) == 0;
      break;
    }
    if (part == given_up) break;
  }
  return NEAP_OK;
}

static inline neap_status exhaustive_expand(struct exhaustive *x, int32_t from) {
  const uint64_t useful = exhaustive_useful(x, x->states.data[from].done);
  bool alone;
  for (int again = 0; again < 2; again++)
    for (int32_t v = 0; v < x->step->node_count; v++) {
      if ((x->states.data[from].done >> v & 1) != (uint64_t)again) continue;
      TRY(exhaustive_run(x, from, v, useful, &alone));
      if (alone) return NEAP_OK;
    }
  const struct exhaustive_state state = x->states.data[from];
  if (!x->in_order || state.stage == x->step->node_count || x->step->nodes[state.stage].update_count == 0)
    return NEAP_OK;
  struct exhaustive_state later = state; /* the update waits, or has run */
  later.parent = from;
  later.node = -1;
  later.stage++;
  later.slot = 0;
  return exhaustive_add(x, later);
}

/* ---- Search ---- */

static inline neap_status exhaustive_trace(const struct exhaustive *x, int32_t state, struct schedule *out) {
  out->nodes.count = 0;
  for (int32_t i = state; x->states.data[i].parent >= 0; i = x->states.data[i].parent)
    if (x->states.data[i].node >= 0) TRY(vector_push(&out->nodes, x->states.data[i].node));
  for (size_t i = 0; i < out->nodes.count / 2; i++) {
    const int32_t node = out->nodes.data[i];
    out->nodes.data[i] = out->nodes.data[out->nodes.count - 1 - i];
    out->nodes.data[out->nodes.count - 1 - i] = node;
  }
  return NEAP_OK;
}

static inline neap_status exhaustive_walk(struct exhaustive *x, struct exhaustive_result *out) {
  const uint64_t all = x->step->node_count == 64 ? UINT64_MAX : (UINT64_C(1) << x->step->node_count) - 1;
  TRY(exhaustive_add(x, (struct exhaustive_state){.parent = -1, .node = -1}));
  while (x->heap.count > 0) {
    const int32_t state = exhaustive_take(x);
    if (x->states.data[state].superfluous) continue;
    if (x->states.data[state].done == all && (x->final & ~x->states.data[state].resident) == 0) {
      out->proven = out->feasible = true;
      out->cost = x->step->base_cost + x->states.data[state].paid;
      return exhaustive_trace(x, state, &out->schedule);
    }
    if (x->states.count > x->state_limit) return NEAP_OK;
    TRY(exhaustive_expand(x, state));
  }
  out->proven = true;
  return NEAP_OK;
}

/* The least cost within a budget (resident bytes included). Not
 * proven where the step is too large or takes more than `state_limit` states. `out` starts empty and is to be
 * freed. */
static inline neap_status exhaustive_search(const neap_step *step, uint64_t budget, enum exhaustive_kind kind,
                                            size_t state_limit, struct exhaustive_result *out) {
  struct exhaustive x = {.step = step,
                         .any_cost = kind == EXHAUSTIVE_ANY_COST,
                         .in_order = kind == EXHAUSTIVE_IN_ORDER,
                         .state_limit = state_limit};
  out->proven = out->feasible = false;
  if (!exhaustive_prepare(&x)) return NEAP_OK;
  out->proven = budget < step->resident_bytes;
  if (out->proven) return NEAP_OK;
  x.limit = budget - step->resident_bytes;
  const neap_status status = exhaustive_walk(&x, out);
  vector_free(&x.states);
  vector_free(&x.heap);
  for (size_t i = 0; i < x.group_count; i++) vector_free(&x.groups[i].members);
  free(x.groups);
  free(x.seen);
  return status;
}

static inline uint64_t exhaustive_common_divisor(uint64_t a, uint64_t b) {
  while (b != 0) {
    const uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* The least peak of any schedule, resident bytes included, between `bound`, which none is below, and that of
 * keeping everything. */
static inline neap_status exhaustive_least_peak(const neap_step *step, uint64_t bound, size_t state_limit,
                                                uint64_t *peak, bool *proven) {
  struct exhaustive_result result = {0};
  struct simulation score = {0};
  uint64_t unit = 0, low = bound, high = UINT64_MAX / 4; /* below low: none; high: one */
  neap_status status = NEAP_OK;
  for (int32_t t = 0; t < step->tensor_count; t++)
    if (step->tensors[t].role == NEAP_ROLE_VALUE)
      unit = exhaustive_common_divisor(step->tensors[t].bytes, unit);
  for (int32_t v = 0; v < step->node_count; v++)
    unit = exhaustive_common_divisor(step->nodes[v].workspace, unit);
  for (*proven = true; low < high;) {
    /* Peaks less the resident bytes are multiples of the unit. */
    uint64_t tried = high == UINT64_MAX / 4 ? high : low + (high - low) / 2;
    if (unit > 0 && tried < high) tried -= (tried - step->resident_bytes) % unit;
    TRY_DONE(exhaustive_search(step, tried, EXHAUSTIVE_ANY_COST, state_limit, &result));
    *proven = result.proven;
    if (!result.proven) break;
    if (!result.feasible) {
      low = tried + (unit > 0 ? unit : 1);
      continue;
    }
    TRY_DONE(simulate(step, result.schedule.nodes.data, (int32_t)result.schedule.nodes.count, &score));
    high = score.peak_bytes;
  }
  *peak = high;
done:
  schedule_free(&result.schedule);
  return status;
}

#endif
