/* Eviction by need. Walks a valid order once inside the budget. If an output does not fit, drops the resident
 * value that is cheap to make again, large, and needed late; if an input is missing, makes it again. Repeats
 * the walk over a small grid of weights and removes from the cheapest schedule the recomputations that the
 * budget does not need. Follows Kirisame et al. 2021 (DTR), with exact knowledge of the future in place of
 * staleness. */
#include "search/evict.h"

#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "base/stop.h"
#include "search/clean.h"
#include "step/simulate.h"
#include "step/tuning.h"

enum { NEVER = INT32_MAX, DEPTH_LIMIT = 10000 };

struct weights {
  double cost, bytes, distance; /* exponents */
};

/* The facts that every walk of a step looks up, packed for the sweep. */
struct facts {
  int32_t *read_start, *reads; /* of node v: the values that it reads, from read_start[v] */
  double *log_bytes;           /* by tensor: log2 */
  double *log_distance;        /* by positions between: log2 */
};

struct walk {
  const neap_step *step;
  const struct facts *facts;
  uint64_t limit, used;     /* bytes of values */
  int32_t now;              /* position in the step's own order */
  bool *resident, *updated; /* by tensor */
  bool *made;               /* by tensor: an output of the current node that was not resident */
  bool *by_restorer;        /* by node, of the last sweep: restoring what it makes is the cheaper way */
  int32_t *locks;           /* by tensor: current nodes that read it */
  int32_t *cursor;          /* by tensor: index of its next reader */
  int32_t *next;            /* by tensor: where the order itself next reads it */
  int32_t *need;            /* by tensor, of the last sweep */
  double *remake;           /* by tensor, of the last sweep: cost of making it and what it would miss again */
  double *logged, *log_remake; /* by tensor: a cost to make it again, and its log2 */
  int32_t *held;               /* resident tensors, in no order */
  int32_t *place;              /* by tensor: where it stands in `held` */
  int32_t *pending;            /* scratch, by tensor */
  int32_t held_count;
  VECTOR(int32_t) postponed; /* updates that had to wait */
  struct schedule schedule;
  struct weights weights;
  double cost;
  double cost_limit; /* a walk that costs more is given up */
};

/* ---- Resident values ---- */

static void hold(struct walk *w, int32_t t) {
  if (w->resident[t]) return;
  w->resident[t] = true;
  w->place[t] = w->held_count;
  w->held[w->held_count++] = t;
  w->used += w->step->tensors[t].bytes;
}

static void drop(struct walk *w, int32_t t) {
  w->resident[t] = false;
  w->held[w->place[t]] = w->held[--w->held_count];
  w->place[w->held[w->place[t]]] = w->place[t];
  w->used -= w->step->tensors[t].bytes;
}

static bool is_value(const struct walk *w, int32_t t) { return w->step->tensors[t].role == NEAP_ROLE_VALUE; }

/* Returns true if a node may run again: none of its inputs has been updated. */
static bool can_repeat(const struct walk *w, int32_t v) {
  const struct step_node *node = &w->step->nodes[v];
  if (!node->repeatable || node->update_count > 0) return false;
  for (int32_t i = 0; i < node->input_count; i++)
    if (w->updated[node->inputs[i]]) return false;
  return true;
}

/* ---- Restoring ---- */

/* Returns true if a node's outputs are stored. */
static bool is_stored(const struct walk *w, int32_t v) {
  const int32_t store = w->step->store[v];
  return store >= 0 && w->resident[w->step->nodes[store].outputs[0]];
}

/* Returns the cost of restoring what a node made, and of storing it if that is not done; INFINITY: not
 * possible. */
static double restore_cost(const struct walk *w, int32_t v) {
  const struct step_node *node = &w->step->nodes[v];
  if (w->step->restorer[v] < 0) return INFINITY;
  const double cost = w->step->nodes[w->step->restorer[v]].cost;
  if (is_stored(w, v)) return cost;
  for (int32_t i = 0; i < node->output_count; i++)
    if (!w->resident[node->outputs[i]]) return INFINITY;
  return cost + w->step->nodes[w->step->store[v]].cost;
}

/* Returns true if a resident value could be there again after it was dropped. */
static bool can_return(const struct walk *w, int32_t t) {
  const int32_t maker = w->step->tensors[t].producer;
  return can_repeat(w, maker) || restore_cost(w, maker) < INFINITY;
}

/* Returns the node that brings a missing value back; -1: none can. A stored one is made anew only if nothing
 * else has to be. */
static int32_t way_back(const struct walk *w, int32_t t) {
  const int32_t maker = w->step->tensors[t].producer;
  const struct step_node *node = &w->step->nodes[maker];
  if (!can_repeat(w, maker)) return is_stored(w, maker) ? w->step->restorer[maker] : -1;
  if (!is_stored(w, maker)) return maker;
  bool at_hand = node->cost <= w->step->nodes[w->step->restorer[maker]].cost;
  for (int32_t i = 0; at_hand && i < node->input_count; i++)
    at_hand = !is_value(w, node->inputs[i]) || w->resident[node->inputs[i]];
  return at_hand ? maker : w->step->restorer[maker];
}

/* ---- The next need of each value ---- */

static void find_next(struct walk *w, int32_t t) {
  const neap_step *step = w->step;
  if (w->cursor[t] < step->reader_start[t + 1] && step->readers[w->cursor[t]] < step->required_count)
    w->next[t] = step->readers[w->cursor[t]];
  else
    w->next[t] = step->tensors[t].is_output ? step->node_count : NEVER;
}

/* Ends the reads of the order up to a node. */
static void pass_reads(struct walk *w, int32_t v) {
  const struct facts *f = w->facts;
  for (int32_t i = f->read_start[v]; i < f->read_start[v + 1]; i++) {
    const int32_t t = f->reads[i];
    while (w->cursor[t] < w->step->reader_start[t + 1] && w->step->readers[w->cursor[t]] <= v) w->cursor[t]++;
    find_next(w, t);
  }
}

/* Sweeps over the nodes that have run before `end`: a dropped value passes its need on to its inputs, and its
 * cost to the values made from it. */
static void sweep(struct walk *w, int32_t end) {
  const neap_step *step = w->step;
  const struct facts *f = w->facts;
  for (int32_t v = 0; v < end; v++) {
    const struct step_node *node = &step->nodes[v];
    double cost = node->cost;
    for (int32_t i = f->read_start[v]; i < f->read_start[v + 1]; i++)
      if (!w->resident[f->reads[i]]) cost += w->remake[f->reads[i]];
    const double restored = restore_cost(w, v);
    w->by_restorer[v] = restored < INFINITY && (restored < cost || !can_repeat(w, v));
    if (w->by_restorer[v]) cost = restored;
    for (int32_t i = 0; i < node->output_count; i++) {
      w->remake[node->outputs[i]] = cost;
      w->need[node->outputs[i]] = w->next[node->outputs[i]];
    }
  }
  for (int32_t v = end; v-- > 0;) {
    const struct step_node *node = &step->nodes[v];
    int32_t earliest = NEVER;
    for (int32_t i = 0; i < node->output_count; i++) {
      const int32_t t = node->outputs[i];
      if (!w->resident[t] && w->need[t] < earliest) earliest = w->need[t];
    }
    if (earliest == NEVER || w->by_restorer[v]) continue;
    for (int32_t i = f->read_start[v]; i < f->read_start[v + 1]; i++)
      if (earliest < w->need[f->reads[i]]) w->need[f->reads[i]] = earliest;
  }
}

/* Passes on the need of one more dropped value: its inputs are needed by then, and so on. */
static void pass_on(struct walk *w, int32_t dropped) {
  const int32_t need = w->need[dropped];
  int32_t count = 0;
  w->pending[count++] = dropped;
  while (count > 0) {
    const int32_t maker = w->step->tensors[w->pending[--count]].producer;
    const struct step_node *node = &w->step->nodes[maker];
    if (w->by_restorer[maker]) continue;
    for (int32_t i = 0; i < node->input_count; i++) {
      const int32_t t = node->inputs[i];
      if (!is_value(w, t) || w->need[t] <= need) continue;
      w->need[t] = need;
      if (!w->resident[t]) w->pending[count++] = t;
    }
  }
}

/* ---- Making room ---- */

/* Returns the value's worth, log of cost^a / (bytes^b distance^c); the least goes first. */
static double worth(struct walk *w, int32_t t) {
  const double cost = w->remake[t] > 0 ? w->remake[t] : 1e-12;
  const double log_distance = w->need[t] > w->now ? w->facts->log_distance[w->need[t] - w->now] : -1;
  if (w->logged[t] != cost) {
    w->logged[t] = cost;
    w->log_remake[t] = log2(cost);
  }
  return w->weights.cost * w->log_remake[t] - w->weights.bytes * w->facts->log_bytes[t] -
         w->weights.distance * log_distance;
}

static int32_t find_victim(struct walk *w) {
  int32_t victim = -1;
  double least = INFINITY;
  for (int32_t i = 0; i < w->held_count; i++) {
    const int32_t t = w->held[i];
    if (w->locks[t] > 0 || w->step->tensors[t].bytes == 0) continue;
    if (w->step->tensors[t].producer >= w->step->required_count) continue; /* a store's output stays */
    if (w->need[t] == NEVER) return t;
    if (!can_return(w, t)) continue;
    const double value = worth(w, t);
    if (value < least || (value == least && t < victim)) least = value, victim = t;
  }
  return victim;
}

/* Returns the bytes that a node's outputs need beyond those that are resident already, less those of inputs
 * that they may take over in place: inputs that are not needed afterwards, or that are in `given`. Only the
 * first 32 entries of long lists are considered: a pair that is passed over counts in full. */
static uint64_t extra_bytes(struct walk *w, const struct step_node *node, const int32_t *given,
                            int32_t given_count) {
  uint64_t extra = node->workspace, taken = 0;
  for (int32_t i = 0; i < node->output_count; i++)
    if (!w->resident[node->outputs[i]]) extra += w->step->tensors[node->outputs[i]].bytes;
  uint32_t used_outputs = 0, used_inputs = 0;
  for (int32_t p = 0; p < node->inplace_count; p++) {
    const struct inplace_pair pair = node->inplace[p];
    if (pair.output >= 32 || pair.input >= 32 || used_outputs >> pair.output & 1 ||
        used_inputs >> pair.input & 1)
      continue;
    const int32_t in = node->inputs[pair.input], out = node->outputs[pair.output];
    bool again = false; /* the same tensor at another place of the list */
    for (int32_t i = 0; i < node->input_count && i < 32; i++)
      again = again || (used_inputs >> i & 1 && node->inputs[i] == in);
    if (again) continue;
    if (!is_value(w, in) || w->step->tensors[in].bytes < w->step->tensors[out].bytes || w->resident[out])
      continue;
    bool free_to_take = w->need[in] == NEVER && w->locks[in] == 1;
    for (int32_t g = 0; g < given_count; g++) free_to_take = free_to_take || given[g] == in;
    if (!free_to_take) continue;
    used_outputs |= 1u << pair.output;
    used_inputs |= 1u << pair.input;
    taken += w->step->tensors[out].bytes;
  }
  return extra - taken;
}

/* Finds an input of the current node that an output could overwrite, though it is needed again later. */
static int32_t find_overwritable(struct walk *w, const struct step_node *node, const int32_t *given,
                                 int32_t given_count) {
  int32_t best = -1;
  double least = INFINITY;
  for (int32_t p = 0; p < node->inplace_count; p++) {
    const int32_t t = node->inputs[node->inplace[p].input];
    bool known = !is_value(w, t) || w->locks[t] > 1 || w->need[t] == NEVER || !can_return(w, t) ||
                 w->step->tensors[t].bytes < w->step->tensors[node->outputs[node->inplace[p].output]].bytes;
    for (int32_t g = 0; g < given_count; g++) known = known || given[g] == t;
    if (!known && worth(w, t) < least) least = worth(w, t), best = t;
  }
  return best;
}

enum { GIVEN_LIMIT = 8 };

/* Sweeps as if the current node had run: its outputs exist, and its own reads are over. */
static void sweep_after(struct walk *w, int32_t v) {
  const struct step_node *node = &w->step->nodes[v];
  for (int32_t i = 0; i < node->output_count; i++) {
    const int32_t t = node->outputs[i];
    w->made[t] = !w->resident[t];
    w->resident[t] = true;
  }
  if (v == w->now) pass_reads(w, v);
  sweep(w, v == w->now ? w->now + 1 : w->now);
  for (int32_t i = 0; i < node->output_count; i++)
    if (w->made[node->outputs[i]]) w->resident[node->outputs[i]] = false;
}

/* Stores a value that is dropped, if it will be restored. */
static neap_status store_before_drop(struct walk *w, int32_t t) {
  const int32_t maker = w->step->tensors[t].producer, store = w->step->store[maker];
  if (w->need[t] == NEVER || store < 0 || !w->by_restorer[maker] || is_stored(w, maker)) return NEAP_OK;
  TRY(vector_push(&w->schedule.nodes, store));
  hold(w, w->step->nodes[store].outputs[0]);
  w->cost += w->step->nodes[store].cost;
  return NEAP_OK;
}

/* Drops values until the node fits. The node itself locks its inputs once. `given`: inputs that it
 * overwrites. */
static neap_status make_room(struct walk *w, int32_t v, int32_t *given, int32_t *given_count, bool *tight) {
  const struct step_node *node = &w->step->nodes[v];
  *given_count = 0;
  *tight = false;
  uint64_t most = node->workspace;
  for (int32_t i = 0; i < node->output_count; i++) most += w->step->tensors[node->outputs[i]].bytes;
  if (w->used + most <= w->limit) return NEAP_OK;
  *tight = true;
  sweep_after(w, v);
  while (w->used + extra_bytes(w, node, given, *given_count) > w->limit) {
    const int32_t victim = find_victim(w);
    const int32_t over = *given_count < GIVEN_LIMIT ? find_overwritable(w, node, given, *given_count) : -1;
    if (victim < 0 && over < 0) return NEAP_OVER_BUDGET;
    if (over >= 0 && (victim < 0 || (w->need[victim] < NEVER && worth(w, over) < worth(w, victim)))) {
      TRY(store_before_drop(w, over));
      given[(*given_count)++] = over;
      continue;
    }
    TRY(store_before_drop(w, victim));
    drop(w, victim);
    if (w->need[victim] < NEVER) pass_on(w, victim);
  }
  return NEAP_OK;
}

/* ---- The walk ---- */

static neap_status run_node(struct walk *w, int32_t v, int depth);

/* Makes all inputs present, and locks them even if it fails. NEAP_OVER_BUDGET: they do not fit. */
static neap_status ensure_inputs(struct walk *w, const struct step_node *node, int depth) {
  neap_status status = NEAP_OK;
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t t = node->inputs[i];
    if (!is_value(w, t)) continue;
    w->locks[t]++;
    if (w->resident[t] || status != NEAP_OK) continue;
    const int32_t way = depth < DEPTH_LIMIT ? way_back(w, t) : -1;
    status = way >= 0 ? run_node(w, way, depth + 1) : NEAP_OVER_BUDGET;
  }
  return status;
}

static neap_status run_node(struct walk *w, int32_t v, int depth) {
  const struct step_node *node = &w->step->nodes[v];
  TRY(stop_check());
  neap_status status = ensure_inputs(w, node, depth);
  int32_t given[GIVEN_LIMIT], given_count = 0;
  bool tight = false;
  if (status == NEAP_OK) status = make_room(w, v, given, &given_count, &tight);
  if (status == NEAP_OK) status = vector_push(&w->schedule.nodes, v);
  for (int32_t i = 0; i < node->input_count; i++)
    if (is_value(w, node->inputs[i])) w->locks[node->inputs[i]]--;
  if (status != NEAP_OK) return status;
  for (int32_t g = 0; g < given_count; g++)
    if (w->resident[given[g]]) drop(w, given[g]);
  for (int32_t i = 0; tight && i < node->input_count;
       i++) { /* some of the dead inputs have been taken over */
    const int32_t t = node->inputs[i];
    if (is_value(w, t) && w->resident[t] && w->locks[t] == 0 && w->need[t] == NEVER) drop(w, t);
  }
  for (int32_t i = 0; i < node->output_count; i++) hold(w, node->outputs[i]);
  w->cost += node->cost;
  return w->cost > w->cost_limit ? NEAP_OVER_BUDGET : NEAP_OK;
}

static bool is_postponed(const struct walk *w, int32_t v) {
  for (size_t i = 0; i < w->postponed.count; i++)
    if (w->postponed.data[i] == v) return true;
  return false;
}

/* Returns true if a waiting update reads a tensor that the node changes. */
static bool is_read_later(const struct walk *w, const struct step_node *node) {
  for (int32_t u = 0; w->postponed.count > 0 && u < node->update_count; u++)
    for (int32_t r = w->step->reader_start[node->updates[u]]; r < w->step->reader_start[node->updates[u] + 1];
         r++)
      if (w->step->nodes[w->step->readers[r]].update_count > 0 && is_postponed(w, w->step->readers[r]))
        return true;
  return false;
}

/* Returns true if an update must wait: a needed value that was dropped is made from a tensor that it changes,
 * or a waiting update reads one. */
static bool must_wait(struct walk *w, const struct step_node *node) {
  bool waiting = false;
  if (is_read_later(w, node)) return true;
  for (int32_t u = 0; u < node->update_count; u++) {
    const int32_t t = node->updates[u];
    for (int32_t r = w->step->reader_start[t]; r < w->step->reader_start[t + 1]; r++) {
      const int32_t reader = w->step->readers[r];
      if (&w->step->nodes[reader] == node || w->step->nodes[reader].update_count > 0) continue;
      if (is_stored(w, reader)) continue;
      for (int32_t i = 0; i < w->step->nodes[reader].output_count; i++)
        waiting = waiting || !w->resident[w->step->nodes[reader].outputs[i]];
    }
  }
  if (!waiting) return false;
  sweep(w, w->now);
  for (int32_t u = 0; u < node->update_count; u++)
    for (int32_t r = w->step->reader_start[node->updates[u]]; r < w->step->reader_start[node->updates[u] + 1];
         r++) {
      const struct step_node *reader = &w->step->nodes[w->step->readers[r]];
      if (reader == node || reader->update_count > 0 || is_stored(w, w->step->readers[r])) continue;
      for (int32_t i = 0; i < reader->output_count; i++)
        if (!w->resident[reader->outputs[i]] && w->need[reader->outputs[i]] != NEVER) return true;
    }
  return false;
}

static neap_status run_update(struct walk *w, int32_t v) {
  TRY(run_node(w, v, 0));
  for (int32_t i = 0; i < w->step->nodes[v].update_count; i++)
    w->updated[w->step->nodes[v].updates[i]] = true;
  return NEAP_OK;
}

static neap_status walk_order(struct walk *w) {
  const neap_step *step = w->step;
  for (w->now = 0; w->now < step->required_count; w->now++) {
    const int32_t v = w->now;
    const struct step_node *node = &step->nodes[v];
    if (node->update_count == 0)
      TRY(run_node(w, v, 0));
    else if (must_wait(w, node))
      TRY(vector_push(&w->postponed, v));
    else
      TRY(run_update(w, v));
    pass_reads(w, v);
  }
  /* Makes the missing outputs before the updates that waited for them. */
  for (int32_t i = 0; i < step->output_count; i++) {
    const int32_t t = step->outputs[i], way = w->resident[t] ? 0 : way_back(w, t);
    if (way < 0) return NEAP_OVER_BUDGET;
    if (!w->resident[t]) TRY(run_node(w, way, 0));
    w->locks[t]++;
  }
  for (size_t i = 0; i < w->postponed.count; i++) TRY(run_update(w, w->postponed.data[i]));
  return NEAP_OK;
}

static void walk_reset(struct walk *w, struct weights weights) {
  const neap_step *step = w->step;
  memset(w->resident, 0, (size_t)step->tensor_count * sizeof *w->resident);
  memset(w->updated, 0, (size_t)step->tensor_count * sizeof *w->updated);
  memset(w->locks, 0, (size_t)step->tensor_count * sizeof *w->locks);
  memcpy(w->cursor, step->reader_start, (size_t)step->tensor_count * sizeof *w->cursor);
  for (int32_t t = 0; t < step->tensor_count; t++) find_next(w, t);
  w->held_count = 0;
  w->used = 0;
  w->cost = 0;
  w->schedule.nodes.count = w->postponed.count = 0;
  w->weights = weights;
}

static neap_status walk_create(struct region *region, const neap_step *step, const struct facts *facts,
                               uint64_t limit, struct walk *w) {
  const size_t tensors = (size_t)step->tensor_count + 1;
  *w = (struct walk){.step = step, .facts = facts, .limit = limit, .cost_limit = INFINITY};
  w->resident = region_alloc(region, tensors, sizeof *w->resident);
  w->updated = region_alloc(region, tensors, sizeof *w->updated);
  w->locks = region_alloc(region, tensors, sizeof *w->locks);
  w->cursor = region_alloc(region, tensors, sizeof *w->cursor);
  w->next = region_alloc(region, tensors, sizeof *w->next);
  w->need = region_alloc(region, tensors, sizeof *w->need);
  w->remake = region_alloc(region, tensors, sizeof *w->remake);
  w->logged = region_alloc(region, tensors, sizeof *w->logged);
  w->log_remake = region_alloc(region, tensors, sizeof *w->log_remake);
  w->held = region_alloc(region, tensors, sizeof *w->held);
  w->place = region_alloc(region, tensors, sizeof *w->place);
  w->pending = region_alloc(region, tensors, sizeof *w->pending);
  w->made = region_alloc(region, tensors, sizeof *w->made);
  w->by_restorer = region_alloc(region, (size_t)step->node_count + 1, sizeof *w->by_restorer);
  RETURN_IF(!w->resident || !w->updated || !w->locks || !w->cursor || !w->next || !w->need || !w->remake ||
                !w->logged || !w->log_remake || !w->held || !w->place || !w->pending || !w->made ||
                !w->by_restorer,
            NEAP_OUT_OF_MEMORY, "evict: out of memory");
  return NEAP_OK;
}

static void walk_free(struct walk *w) {
  vector_free(&w->postponed);
  schedule_free(&w->schedule);
}

static neap_status facts_create(struct region *region, const neap_step *step, struct facts *f) {
  size_t reads = 0;
  for (int32_t v = 0; v < step->node_count; v++) reads += (size_t)step->nodes[v].input_count;
  f->read_start = region_alloc(region, (size_t)step->node_count + 1, sizeof *f->read_start);
  f->reads = region_alloc(region, reads + 1, sizeof *f->reads);
  f->log_bytes = region_alloc(region, (size_t)step->tensor_count + 1, sizeof *f->log_bytes);
  f->log_distance = region_alloc(region, (size_t)step->node_count + 1, sizeof *f->log_distance);
  RETURN_IF(!f->read_start || !f->reads || !f->log_bytes || !f->log_distance, NEAP_OUT_OF_MEMORY,
            "evict: out of memory");
  int32_t count = 0;
  for (int32_t v = 0; v < step->node_count; v++) {
    const struct step_node *node = &step->nodes[v];
    f->read_start[v] = count;
    for (int32_t i = 0; i < node->input_count; i++)
      if (step->tensors[node->inputs[i]].role == NEAP_ROLE_VALUE) f->reads[count++] = node->inputs[i];
  }
  f->read_start[step->node_count] = count;
  for (int32_t t = 0; t < step->tensor_count; t++) f->log_bytes[t] = log2((double)step->tensors[t].bytes + 1);
  for (int32_t d = 1; d <= step->node_count; d++) f->log_distance[d] = log2(d);
  return NEAP_OK;
}

/* ---- The grid ---- */

static const double cost_exponents[] = {0.5, 1}, byte_exponents[] = {0, 0.5, 1, 1.5},
                    distance_exponents[] = {0, 0.5, 1, 2};
enum { GRID = 32 };

/* Returns a point of the grid. The usually good ones come first: a large step tries only those,
 * unless none of them fits. */
static struct weights grid_point(int index) {
  static const unsigned char order[GRID] = {26, 22, 21, 25, 10, 6, 5,  9,  30, 18, 29, 17, 27, 23, 14, 2,
                                            0,  1,  3,  4,  7,  8, 11, 12, 13, 15, 16, 19, 20, 24, 28, 31};
  const int i = order[index];
  return (struct weights){.cost = cost_exponents[i / 16],
                          .bytes = byte_exponents[i / 4 % 4],
                          .distance = distance_exponents[i % 4]};
}

enum { AT_ONCE = 2 };

struct grid {
  const neap_step *step;
  uint64_t budget;
  struct facts facts;
  double best; /* cost; INFINITY: none fits yet */
  struct schedule *out;
  struct point {
    struct walk walk;
    struct simulator simulator;
    struct schedule cleaned;
    double cost; /* INFINITY: does not fit */
  } points[AT_ONCE];
};

static neap_status walk_point(const struct grid *g, struct weights weights, double cost_limit,
                              struct point *p) {
  struct simulation score;
  p->cost = INFINITY;
  walk_reset(&p->walk, weights);
  p->walk.cost_limit = cost_limit;
  const neap_status status = walk_order(&p->walk);
  if (status == NEAP_OVER_BUDGET) return NEAP_OK; /* another point may do */
  if (status != NEAP_OK) return status;
  TRY(schedule_clean(&p->simulator, g->budget, p->walk.schedule.nodes.data,
                     (int32_t)p->walk.schedule.nodes.count, &p->cleaned, &score));
  if (score.peak_bytes <= g->budget) p->cost = score.cost;
  return NEAP_OK;
}

/* Walks `count` points from `first` on. Gives one up if it costs much more than the best before it. A quick
 * look takes the first that fits. */
static neap_status walk_points(struct grid *g, int first, int count, bool quick) {
  const double base = g->step->base_cost, limit = g->best < INFINITY
                                                      ? base + (g->best - base) * EVICT_COST_OVER_BEST
                                                      : EVICT_COST_LIMIT * base + 1;
  struct ending ended[AT_ONCE];
#pragma omp parallel for schedule(dynamic, 1) copyin(stop_request) num_threads(threads_for(count))
  for (int i = 0; i < count; i++)
    ending_keep(&ended[i], walk_point(g, grid_point(first + i), limit, &g->points[i]));
  for (int i = 0; i < count && !(quick && g->best < INFINITY); i++) {
    if (ended[i].status != NEAP_OK || g->points[i].cost >= g->best) continue;
    g->best = g->points[i].cost;
    swap_schedules(g->out, &g->points[i].cleaned);
  }
  for (int i = 0; i < count; i++) schedule_free(&g->points[i].cleaned);
  return status_of_tasks(ended, count);
}

/* First finds out whether the budget can be met and then, if asked, how cheaply. So effort does not change
 * which budgets are met. */
static neap_status walk_grid(struct grid *g, bool quick) {
  const int wanted = quick ? 0 : g->step->node_count > LARGE_STEP ? EVICT_LARGE_GRID : GRID;
  /* Nothing depends on how many are walked side by side for a quick look. */
  const int count = quick ? threads_for(AT_ONCE) : AT_ONCE;
  for (int i = 0; i < GRID && (i < wanted || g->best == INFINITY); i += count)
    TRY(walk_points(g, i, count, quick));
  if (g->best == INFINITY)
    return neap_fail(NEAP_OVER_BUDGET, "evict: found no schedule within %llu bytes",
                     (unsigned long long)g->budget);
  return NEAP_OK;
}

neap_status plan_evict(const neap_step *step, uint64_t budget, const struct planner_options *options,
                       struct schedule *out) {
  RETURN_IF(budget < step->resident_bytes, NEAP_OVER_BUDGET,
            "evict: the resident tensors alone need %llu bytes", (unsigned long long)step->resident_bytes);
  struct region region = {0};
  struct grid grid = {.step = step, .budget = budget, .best = INFINITY, .out = out};
  neap_status status = facts_create(&region, step, &grid.facts);
  for (int i = 0; i < AT_ONCE && status == NEAP_OK; i++) {
    status = walk_create(&region, step, &grid.facts, budget - step->resident_bytes, &grid.points[i].walk);
    if (status == NEAP_OK) status = simulator_create(step, &grid.points[i].simulator);
  }
  if (status == NEAP_OK) status = walk_grid(&grid, options->effort == EFFORT_QUICK);
  for (int i = 0; i < AT_ONCE; i++) {
    simulator_free(&grid.points[i].simulator);
    walk_free(&grid.points[i].walk);
  }
  region_free(&region);
  return status;
}
