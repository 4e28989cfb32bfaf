/* Evict by need: walk a valid order once inside the budget; when an output does not fit, drop the resident
 * value that is cheap to make again, large, and needed late; when an input is missing, make it again. The
 * walk is repeated over a small grid of weights and the cheapest schedule is cleaned of recomputations that
 * the budget does not need. In the manner of Kirisame et al. 2021 (DTR), with exact knowledge of the future
 * in the place of staleness. */
#include <math.h>
#include <string.h>

#include "plan/clean.h"
#include "plan/planners.h"
#include "plan/simulator.h"

enum {
  NEVER = INT32_MAX,
  DEPTH_LIMIT = 10000,
  COST_LIMIT = 16 /* times the step: a walk that thrashes is given up */
};

struct weights {
  double cost, bytes, distance; /* exponents */
};

struct walk {
  const neap_step *step;
  uint64_t limit, used;            /* bytes of values */
  int32_t now;                     /* position in the step's own order */
  bool *resident, *done, *updated; /* by tensor; by node; by tensor */
  int32_t *locks;                  /* by tensor: nodes in hand that read it */
  int32_t *cursor;                 /* by tensor: index of its next reader */
  int32_t *need;                   /* by tensor, of the last sweep */
  double *remake; /* by tensor, of the last sweep: cost of making it and what it would miss again */
  int32_t *held;  /* resident tensors, in no order */
  int32_t *place; /* by tensor: where it stands in `held` */
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

static bool is_value(const struct walk *w, int32_t t) { return w->step->tensors[t].role == ROLE_VALUE; }

/* A node may run again while nothing that it reads has been updated. */
static bool can_repeat(const struct walk *w, int32_t v) {
  const struct step_node *node = &w->step->nodes[v];
  if (!node->repeatable || node->update_count > 0) return false;
  for (int32_t i = 0; i < node->input_count; i++)
    if (w->updated[node->inputs[i]]) return false;
  return true;
}

/* ---- What is needed when ---- */

/* Where the order itself next reads a value. */
static int32_t next_read(struct walk *w, int32_t t) {
  const neap_step *step = w->step;
  while (w->cursor[t] < step->reader_start[t + 1] &&
         (step->readers[w->cursor[t]] < w->now || w->done[step->readers[w->cursor[t]]]))
    w->cursor[t]++;
  if (w->cursor[t] < step->reader_start[t + 1]) return step->readers[w->cursor[t]];
  return step->tensors[t].is_output ? step->node_count : NEVER;
}

/* A dropped value's need is passed on to what it is made from; its cost to what is made from it. */
static void sweep(struct walk *w) {
  const neap_step *step = w->step;
  for (int32_t v = 0; v < w->now; v++) {
    const struct step_node *node = &step->nodes[v];
    double cost = node->cost;
    for (int32_t i = 0; i < node->input_count; i++) {
      const int32_t t = node->inputs[i];
      if (is_value(w, t) && !w->resident[t]) cost += w->remake[t];
    }
    for (int32_t i = 0; i < node->output_count; i++) {
      w->remake[node->outputs[i]] = cost;
      w->need[node->outputs[i]] = next_read(w, node->outputs[i]);
    }
  }
  for (int32_t v = w->now; v-- > 0;) {
    const struct step_node *node = &step->nodes[v];
    int32_t earliest = NEVER;
    for (int32_t i = 0; i < node->output_count; i++) {
      const int32_t t = node->outputs[i];
      if (!w->resident[t] && w->need[t] < earliest) earliest = w->need[t];
    }
    for (int32_t i = 0; earliest < NEVER && i < node->input_count; i++)
      if (is_value(w, node->inputs[i]) && earliest < w->need[node->inputs[i]])
        w->need[node->inputs[i]] = earliest;
  }
}

/* After one more value has been dropped: what it is made from is needed by then. */
static void pass_on(struct walk *w, int32_t t) {
  const struct step_node *node = &w->step->nodes[w->step->tensors[t].producer];
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t u = node->inputs[i];
    if (!is_value(w, u) || w->need[u] <= w->need[t]) continue;
    w->need[u] = w->need[t];
    if (!w->resident[u]) pass_on(w, u);
  }
}

/* ---- Making room ---- */

/* The least of these goes first: log of cost^a / (bytes^b distance^c). */
static double worth(const struct walk *w, int32_t t) {
  const double cost = w->remake[t] > 0 ? w->remake[t] : 1e-12, bytes = (double)w->step->tensors[t].bytes + 1;
  const double distance = w->need[t] > w->now ? (double)(w->need[t] - w->now) : 0.5;
  return w->weights.cost * log2(cost) - w->weights.bytes * log2(bytes) - w->weights.distance * log2(distance);
}

static int32_t find_victim(const struct walk *w) {
  int32_t victim = -1;
  double least = INFINITY;
  for (int32_t i = 0; i < w->held_count; i++) {
    const int32_t t = w->held[i];
    if (w->locks[t] > 0 || w->step->tensors[t].bytes == 0) continue;
    if (w->need[t] == NEVER) return t;
    if (!can_repeat(w, w->step->tensors[t].producer)) continue;
    const double value = worth(w, t);
    if (value < least || (value == least && t < victim)) least = value, victim = t;
  }
  return victim;
}

/* Bytes that a node's outputs take beyond those that are resident already, and what it may take over in place
 * from inputs that nobody needs afterwards; `spare`, the tensor that has been given up for it, counts as
 * such. */
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

/* An input of the node in hand that an output could overwrite, though it is needed again later. */
static int32_t find_overwritable(const struct walk *w, const struct step_node *node, const int32_t *given,
                                 int32_t given_count) {
  int32_t best = -1;
  double least = INFINITY;
  for (int32_t p = 0; p < node->inplace_count; p++) {
    const int32_t t = node->inputs[node->inplace[p].input];
    bool known = !is_value(w, t) || w->locks[t] > 1 || w->need[t] == NEVER ||
                 !can_repeat(w, w->step->tensors[t].producer) ||
                 w->step->tensors[t].bytes < w->step->tensors[node->outputs[node->inplace[p].output]].bytes;
    for (int32_t g = 0; g < given_count; g++) known = known || given[g] == t;
    if (!known && worth(w, t) < least) least = worth(w, t), best = t;
  }
  return best;
}

enum { GIVEN_LIMIT = 8 };

/* The sweep as it will be when the node in hand has run: its outputs are there, and its own reads are over.
 */
static void sweep_after(struct walk *w, int32_t v) {
  const struct step_node *node = &w->step->nodes[v];
  uint64_t made = 0; /* outputs that were not resident */
  for (int32_t i = 0; i < node->output_count; i++) {
    if (!w->resident[node->outputs[i]] && i < 64) made |= (uint64_t)1 << i;
    w->resident[node->outputs[i]] = true;
  }
  const bool next = v == w->now;
  if (next) w->done[v] = true, w->now++;
  sweep(w);
  if (next) w->done[v] = false, w->now--;
  for (int32_t i = 0; i < node->output_count && i < 64; i++)
    if (made >> i & 1) w->resident[node->outputs[i]] = false;
}

/* Drops values until the node fits. Its inputs are locked once by itself. `given`: inputs that it overwrites.
 */
static bool make_room(struct walk *w, int32_t v, int32_t *given, int32_t *given_count, bool *tight) {
  const struct step_node *node = &w->step->nodes[v];
  *given_count = 0;
  *tight = false;
  uint64_t most = node->workspace;
  for (int32_t i = 0; i < node->output_count; i++) most += w->step->tensors[node->outputs[i]].bytes;
  if (w->used + most <= w->limit) return true;
  *tight = true;
  sweep_after(w, v);
  while (w->used + extra_bytes(w, node, given, *given_count) > w->limit) {
    const int32_t victim = find_victim(w);
    const int32_t over = *given_count < GIVEN_LIMIT ? find_overwritable(w, node, given, *given_count) : -1;
    if (victim < 0 && over < 0) return false;
    if (over >= 0 && (victim < 0 || (w->need[victim] < NEVER && worth(w, over) < worth(w, victim)))) {
      given[(*given_count)++] = over;
      continue;
    }
    drop(w, victim);
    if (w->need[victim] < NEVER) pass_on(w, victim);
  }
  return true;
}

/* ---- The walk ---- */

static neap_status run_node(struct walk *w, int32_t v, int depth);

/* Inputs present and locked, room made, the node run. NEAP_OVER_BUDGET: it does not fit. */
static neap_status ensure_inputs(struct walk *w, const struct step_node *node, int depth) {
  neap_status status = NEAP_OK;
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t t = node->inputs[i];
    if (!is_value(w, t)) continue;
    w->locks[t]++;
    if (w->resident[t] || status != NEAP_OK) continue;
    const int32_t producer = w->step->tensors[t].producer;
    status =
        depth < DEPTH_LIMIT && can_repeat(w, producer) ? run_node(w, producer, depth + 1) : NEAP_OVER_BUDGET;
  }
  return status;
}

static neap_status run_node(struct walk *w, int32_t v, int depth) {
  const struct step_node *node = &w->step->nodes[v];
  neap_status status = ensure_inputs(w, node, depth);
  int32_t given[GIVEN_LIMIT], given_count = 0;
  bool tight = false;
  if (status == NEAP_OK && !make_room(w, v, given, &given_count, &tight)) status = NEAP_OVER_BUDGET;
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

/* An update has to wait while something that was dropped and is needed is made from what it changes. */
static bool must_wait(struct walk *w, const struct step_node *node) {
  bool waiting = false;
  for (int32_t u = 0; u < node->update_count; u++) {
    const int32_t t = node->updates[u];
    for (int32_t r = w->step->reader_start[t]; r < w->step->reader_start[t + 1]; r++) {
      const int32_t reader = w->step->readers[r];
      if (&w->step->nodes[reader] == node || w->step->nodes[reader].update_count > 0) continue;
      for (int32_t i = 0; i < w->step->nodes[reader].output_count; i++)
        waiting = waiting || !w->resident[w->step->nodes[reader].outputs[i]];
    }
  }
  if (!waiting) return false;
  sweep(w);
  for (int32_t u = 0; u < node->update_count; u++)
    for (int32_t r = w->step->reader_start[node->updates[u]]; r < w->step->reader_start[node->updates[u] + 1];
         r++) {
      const struct step_node *reader = &w->step->nodes[w->step->readers[r]];
      if (reader == node || reader->update_count > 0) continue;
      for (int32_t i = 0; i < reader->output_count; i++)
        if (!w->resident[reader->outputs[i]] && w->need[reader->outputs[i]] != NEVER) return true;
    }
  return false;
}

static neap_status run_update(struct walk *w, int32_t v) {
  TRY(run_node(w, v, 0));
  for (int32_t i = 0; i < w->step->nodes[v].update_count; i++)
    w->updated[w->step->nodes[v].updates[i]] = true;
  w->done[v] = true;
  return NEAP_OK;
}

static neap_status walk_order(struct walk *w) {
  const neap_step *step = w->step;
  for (w->now = 0; w->now < step->node_count; w->now++) {
    const int32_t v = w->now;
    const struct step_node *node = &step->nodes[v];
    if (node->update_count > 0 && must_wait(w, node)) {
      TRY(vector_push(&w->postponed, v));
      continue;
    }
    if (node->update_count > 0)
      TRY(run_update(w, v));
    else
      TRY(run_node(w, v, 0));
    w->done[v] = true;
  }
  /* What has to be there at the end is made while the updates that waited for it wait still. */
  for (int32_t i = 0; i < step->output_count; i++) {
    const int32_t t = step->outputs[i], producer = step->tensors[t].producer;
    if (!w->resident[t] && !can_repeat(w, producer)) return NEAP_OVER_BUDGET;
    if (!w->resident[t]) TRY(run_node(w, producer, 0));
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
  memset(w->done, 0, (size_t)step->node_count * sizeof *w->done);
  memcpy(w->cursor, step->reader_start, (size_t)step->tensor_count * sizeof *w->cursor);
  w->held_count = 0;
  w->used = 0;
  w->cost = 0;
  w->schedule.nodes.count = w->postponed.count = 0;
  w->weights = weights;
}

static neap_status walk_create(struct region *region, const neap_step *step, uint64_t limit, struct walk *w) {
  const size_t tensors = (size_t)step->tensor_count + 1;
  *w = (struct walk){.step = step, .limit = limit, .cost_limit = INFINITY};
  w->resident = region_alloc(region, tensors, sizeof *w->resident);
  w->updated = region_alloc(region, tensors, sizeof *w->updated);
  w->done = region_alloc(region, (size_t)step->node_count + 1, sizeof *w->done);
  w->locks = region_alloc(region, tensors, sizeof *w->locks);
  w->cursor = region_alloc(region, tensors, sizeof *w->cursor);
  w->need = region_alloc(region, tensors, sizeof *w->need);
  w->remake = region_alloc(region, tensors, sizeof *w->remake);
  w->held = region_alloc(region, tensors, sizeof *w->held);
  w->place = region_alloc(region, tensors, sizeof *w->place);
  RETURN_IF(!w->resident || !w->updated || !w->done || !w->locks || !w->cursor || !w->need || !w->remake ||
                !w->held || !w->place,
            NEAP_OUT_OF_MEMORY, "evict: out of memory");
  return NEAP_OK;
}

/* ---- The grid ---- */

static const double cost_exponents[] = {0.5, 1}, byte_exponents[] = {0, 0.5, 1, 1.5},
                    distance_exponents[] = {0, 0.5, 1, 2};
enum { GRID = 32 };

/* The points of the grid, the usually good ones first: a large step tries only those. */
static struct weights grid_point(int index) {
  static const unsigned char order[GRID] = {26, 22, 21, 25, 10, 6, 5,  9,  30, 18, 29, 17, 27, 23, 14, 2,
                                            0,  1,  3,  4,  7,  8, 11, 12, 13, 15, 16, 19, 20, 24, 28, 31};
  const int i = order[index];
  return (struct weights){.cost = cost_exponents[i / 16],
                          .bytes = byte_exponents[i / 4 % 4],
                          .distance = distance_exponents[i % 4]};
}

/* Keeps the cheaper of two schedules. */
static neap_status keep_better(struct simulator *simulator, uint64_t budget, const struct schedule *candidate,
                               struct schedule *best, double *best_cost) {
  struct schedule cleaned = {0};
  struct simulation score;
  neap_status status = schedule_clean(simulator, budget, candidate->nodes.data,
                                      (int32_t)candidate->nodes.count, &cleaned, &score);
  if (status == NEAP_OK && score.peak_bytes <= budget && score.cost < *best_cost) {
    *best_cost = score.cost;
    const struct schedule swap = *best;
    *best = cleaned;
    cleaned = swap;
  }
  schedule_free(&cleaned);
  return status;
}

struct search {
  struct walk walk;
  struct simulator simulator;
  uint64_t budget;
  double best; /* cost; INFINITY: none fits yet */
  struct schedule *out;
};

static neap_status try_weights(struct search *s, struct weights weights) {
  walk_reset(&s->walk, weights);
  s->walk.cost_limit = s->best < INFINITY
                           ? s->walk.step->base_cost + (s->best - s->walk.step->base_cost) * 1.5
                           : COST_LIMIT * s->walk.step->base_cost + 1;
  const neap_status status = walk_order(&s->walk);
  if (status == NEAP_OVER_BUDGET) return NEAP_OK; /* another point may do */
  if (status != NEAP_OK) return status;
  return keep_better(&s->simulator, s->budget, &s->walk.schedule, s->out, &s->best);
}

/* First whether the budget can be met, then, where that is asked for, how cheaply: so what can be met does
 * not hang on effort. */
static neap_status search_all(struct search *s, const struct planner_options *options) {
  const neap_step *step = s->walk.step;
  const int first = options->quick ? 0 : step->node_count > LARGE_STEP ? 6 : GRID;
  int i = 0;
  for (; i < GRID && (i < first || s->best == INFINITY); i++) TRY(try_weights(s, grid_point(i)));
  if (s->best == INFINITY)
    return neap_fail(NEAP_OVER_BUDGET, "evict: found no schedule within %llu bytes",
                     (unsigned long long)s->budget);
  return NEAP_OK;
}

neap_status plan_evict(const neap_step *step, uint64_t budget, const struct planner_options *options,
                       struct schedule *out) {
  RETURN_IF(budget < step->resident_bytes, NEAP_OVER_BUDGET, "evict: what is resident alone needs %llu bytes",
            (unsigned long long)step->resident_bytes);
  struct region region = {0};
  struct search search = {.budget = budget, .best = INFINITY, .out = out};
  neap_status status = walk_create(&region, step, budget - step->resident_bytes, &search.walk);
  if (status == NEAP_OK) status = simulator_create(step, &search.simulator);
  if (status == NEAP_OK) status = search_all(&search, options);
  simulator_free(&search.simulator);
  vector_free(&search.walk.postponed);
  schedule_free(&search.walk.schedule);
  region_free(&region);
  return status;
}
