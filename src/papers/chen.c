/* Chen, Xu, Zhang, Guestrin 2016, Training Deep Nets with Sublinear Memory Cost. The forward part is cut
 * where one value, or a few together, lead from the earlier to the later nodes. The values between cuts are
 * dropped at the end of the forward pass and made again when the backward pass first needs them, just in
 * time. */
#include "papers/chen.h"

#include <math.h>
#include <string.h>

#include "base/region.h"
#include "search/chain.h"
#include "step/simulate.h"

/* ---- Cuts ---- */

struct cuts {
  const neap_step *step;
  struct chain_cuts all;
  int32_t *segment; /* forward node -> how many cuts lie before it */
};

static neap_status cuts_create(const neap_step *step, struct region *region, struct cuts *cuts) {
  cuts->step = step;
  TRY(chain_cuts_find(step, region, &cuts->all));
  cuts->segment = region_alloc(region, (size_t)cuts->all.border + 1, sizeof *cuts->segment);
  RETURN_IF(cuts->segment == NULL, NEAP_OUT_OF_MEMORY, "chen: out of memory");
  for (int32_t v = 0, before = 0; v < cuts->all.border; v++) {
    cuts->segment[v] = before;
    before += before < cuts->all.count && cuts->all.cuts[before].after == v;
  }
  return NEAP_OK;
}

static bool have_cut(const struct cuts *cuts, int32_t cut, const bool *have) {
  for (int32_t i = cuts->all.cuts[cut].begin; i < cuts->all.cuts[cut].end; i++)
    if (!have[cuts->all.values[i]]) return false;
  return true;
}

/* ---- From kept values to a schedule ---- */

struct emission {
  const struct cuts *cuts;
  bool *have;                /* by tensor */
  bool *updated;             /* by tensor */
  bool *need;                /* scratch, by tensor */
  bool halving;              /* recompute through halves, keeping the middles */
  VECTOR(int32_t) made;      /* values made since somebody began to watch */
  VECTOR(int32_t) postponed; /* updates that wait for the end */
  struct schedule *out;
};

enum { DEPTH_LIMIT = 10000 }; /* of calls: a stack has some hundred kilobytes at least */

/* Runs a node after its missing inputs. NEAP_OVER_BUDGET: one of them cannot be made again. */
static neap_status emit(struct emission *e, int32_t v, int depth) {
  const neap_step *step = e->cuts->step;
  const struct step_node *node = &step->nodes[v];
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t t = node->inputs[i];
    if (step->tensors[t].role != NEAP_ROLE_VALUE || e->have[t]) continue;
    const struct step_node *producer = &step->nodes[step->tensors[t].producer];
    bool can = producer->repeatable;
    for (int32_t k = 0; k < producer->input_count; k++) can = can && !e->updated[producer->inputs[k]];
    RETURN_IF(!can, NEAP_OVER_BUDGET, "chen: '%s' must not run again, but the backward pass needs its value",
              producer->name);
    RETURN_IF(depth == DEPTH_LIMIT, NEAP_OVER_BUDGET, "chen: one node needs more than %d others to run again",
              DEPTH_LIMIT);
    TRY(emit(e, step->tensors[t].producer, depth + 1));
  }
  for (int32_t i = 0; i < node->output_count; i++) {
    e->have[node->outputs[i]] = true;
    TRY(vector_push(&e->made, node->outputs[i]));
  }
  return vector_push(&e->out->nodes, v);
}

/* Makes the values of a cut again, and drops those that this needed. */
static neap_status emit_cut(struct emission *e, int32_t cut) {
  const struct chain_cuts *all = &e->cuts->all;
  e->made.count = 0;
  for (int32_t i = all->cuts[cut].begin; i < all->cuts[cut].end; i++)
    if (!e->have[all->values[i]]) TRY(emit(e, e->cuts->step->tensors[all->values[i]].producer, 0));
  for (size_t i = 0; i < e->made.count; i++) e->have[e->made.data[i]] = false;
  for (int32_t i = all->cuts[cut].begin; i < all->cuts[cut].end; i++) e->have[all->values[i]] = true;
  return NEAP_OK;
}

/* Approaches a segment by halves from the last cut that exists: O(log n) cuts stay (section 4.3, k = 1). */
static neap_status approach(struct emission *e, int32_t segment) {
  int32_t low = segment - 1;
  while (low >= 0 && !have_cut(e->cuts, low, e->have)) low--;
  while (segment - 1 - low > 1) {
    low += (segment - 1 - low + 1) / 2;
    TRY(emit_cut(e, low));
  }
  return NEAP_OK;
}

/* Returns true if a dropped value is made from a tensor that the node updates. */
static bool may_wait(const struct emission *e, int32_t v) {
  const neap_step *step = e->cuts->step;
  for (int32_t k = 0; k < step->nodes[v].update_count; k++) {
    const int32_t t = step->nodes[v].updates[k];
    for (int32_t r = step->reader_start[t]; r < step->reader_start[t + 1]; r++) {
      const struct step_node *reader = &step->nodes[step->readers[r]];
      for (int32_t i = 0; i < reader->output_count; i++)
        if (!e->have[reader->outputs[i]]) return true;
    }
  }
  return false;
}

/* Returns true if a waiting update reads a tensor that the node changes. */
static bool is_read_later(const struct emission *e, int32_t v) {
  const neap_step *step = e->cuts->step;
  for (size_t i = 0; i < e->postponed.count; i++) {
    const struct step_node *waiting = &step->nodes[e->postponed.data[i]];
    for (int32_t k = 0; k < waiting->input_count; k++)
      if (step->tensors[waiting->inputs[k]].updater == v) return true;
  }
  return false;
}

/* Returns true if the node must wait: such a value is needed later. */
static bool must_wait(struct emission *e, int32_t v) {
  const neap_step *step = e->cuts->step;
  if (is_read_later(e, v)) return true;
  if (!may_wait(e, v)) return false;
  memset(e->need, 0, (size_t)step->tensor_count * sizeof *e->need);
  for (int32_t u = step->node_count; u-- > 0;) {
    const struct step_node *node = &step->nodes[u];
    bool asks = u > v;
    for (int32_t i = 0; i < node->output_count; i++)
      asks = asks || (e->need[node->outputs[i]] && !e->have[node->outputs[i]]);
    for (int32_t i = 0; asks && i < node->input_count; i++) {
      if (u < v)
        for (int32_t k = 0; k < step->nodes[v].update_count; k++)
          if (step->nodes[v].updates[k] == node->inputs[i]) return true;
      e->need[node->inputs[i]] = true;
    }
  }
  return false;
}

static neap_status emit_update(struct emission *e, int32_t v) {
  TRY(emit(e, v, 0));
  for (int32_t i = 0; i < e->cuts->step->nodes[v].update_count; i++)
    e->updated[e->cuts->step->nodes[v].updates[i]] = true;
  return NEAP_OK;
}

/* Emits the step. `keep`: values of the forward pass that stay, by tensor. */
static neap_status emit_all(struct emission *e, const bool *keep) {
  const neap_step *step = e->cuts->step;
  for (int32_t v = 0; v < step->node_count; v++) {
    const struct step_node *node = &step->nodes[v];
    if (v == e->cuts->all.border)
      for (int32_t t = 0; t < step->tensor_count; t++) {
        const int32_t producer = step->tensors[t].producer;
        e->have[t] =
            e->have[t] && (keep[t] || step->tensors[t].is_output || !step->nodes[producer].repeatable);
      }
    if (node->update_count > 0 && v >= e->cuts->all.border && must_wait(e, v)) {
      TRY(vector_push(&e->postponed, v));
      continue;
    }
    for (int32_t i = 0; e->halving && i < node->input_count; i++) {
      const int32_t producer = step->tensors[node->inputs[i]].producer;
      if (producer >= 0 && producer < e->cuts->all.border && !e->have[node->inputs[i]])
        TRY(approach(e, e->cuts->segment[producer]));
    }
    TRY(node->update_count > 0 ? emit_update(e, v) : emit(e, v, 0));
  }
  for (size_t i = 0; i < e->postponed.count; i++) TRY(emit_update(e, e->postponed.data[i]));
  return NEAP_OK;
}

/* ---- Scoring ---- */

struct chen {
  struct cuts cuts;
  struct simulator simulator;
  struct region region;
  uint64_t budget;
  bool *keep, *chosen; /* by tensor; by cut */
  struct schedule *best;
  double best_cost;
  uint64_t best_peak;
};

static neap_status emission_create(struct chen *c, struct region *region, bool halving, struct schedule *out,
                                   struct emission *e) {
  const size_t tensors = (size_t)c->cuts.step->tensor_count + 1;
  *e = (struct emission){.cuts = &c->cuts, .halving = halving, .out = out};
  e->have = region_alloc(region, tensors, sizeof *e->have);
  e->updated = region_alloc(region, tensors, sizeof *e->updated);
  e->need = region_alloc(region, tensors, sizeof *e->need);
  RETURN_IF(!e->have || !e->updated || !e->need, NEAP_OUT_OF_MEMORY, "chen: out of memory");
  return NEAP_OK;
}

/* Keeps the values of the last segment, with which the backward pass begins. */
static void keep_cuts(struct chen *c) {
  const neap_step *step = c->cuts.step;
  int32_t last = -1;
  memset(c->keep, 0, (size_t)step->tensor_count * sizeof *c->keep);
  for (int32_t i = 0; i < c->cuts.all.count; i++) {
    if (!c->chosen[i]) continue;
    last = i;
    for (int32_t k = c->cuts.all.cuts[i].begin; k < c->cuts.all.cuts[i].end; k++)
      c->keep[c->cuts.all.values[k]] = true;
  }
  for (int32_t t = 0; t < step->tensor_count; t++) {
    const int32_t producer = step->tensors[t].producer;
    if (producer >= 0 && producer < c->cuts.all.border && c->cuts.segment[producer] > last) c->keep[t] = true;
  }
}

/* Emits and scores the chosen cuts. Keeps the cheapest schedule that fits; if none fits, the one with the
 * least peak. */
static neap_status try_cuts(struct chen *c, bool halving) {
  struct region region = {0};
  struct emission e;
  struct schedule schedule = {0};
  struct simulation score;
  keep_cuts(c);
  neap_status status = emission_create(c, &region, halving, &schedule, &e);
  if (status == NEAP_OK) status = emit_all(&e, c->keep);
  if (status == NEAP_OK)
    status = simulator_run(&c->simulator, schedule.nodes.data, (int32_t)schedule.nodes.count, &score);
  if (status == NEAP_OK) {
    const bool fits = score.peak_bytes <= c->budget, fitted = c->best_peak <= c->budget;
    if (fits ? !fitted || score.cost < c->best_cost : !fitted && score.peak_bytes < c->best_peak) {
      swap_schedules(c->best, &schedule);
      c->best_cost = score.cost;
      c->best_peak = score.peak_bytes;
    }
  } else if (status == NEAP_OVER_BUDGET) {
    status = NEAP_OK; /* these cuts do not fit; others may */
  }
  schedule_free(&schedule);
  vector_free(&e.made);
  vector_free(&e.postponed);
  region_free(&region);
  return status;
}

/* ---- Choosing cuts ---- */

/* Chooses every k-th candidate, k = sqrt(n) (section 4.1). */
static neap_status choose_sqrt(struct chen *c) {
  const int32_t n = c->cuts.all.count, k = (int32_t)lround(sqrt((double)n));
  for (int32_t i = 0; i < n; i++) c->chosen[i] = k > 0 && (i + 1) % k == 0;
  return try_cuts(c, false);
}

/* Cuts where more than `segment` bytes have accumulated (algorithm 3). x: bytes of the cuts, y: of the
 * largest segment. */
static neap_status greedy(struct chen *c, double segment, double *x, double *y) {
  const neap_step *step = c->cuts.step;
  double gathered = 0;
  *x = *y = 0;
  for (int32_t v = 0, next = 0; v < c->cuts.all.border; v++) {
    for (int32_t i = 0; i < step->nodes[v].output_count; i++)
      gathered += (double)step->tensors[step->nodes[v].outputs[i]].bytes;
    if (next >= c->cuts.all.count || c->cuts.all.cuts[next].after != v) continue;
    c->chosen[next] = gathered > segment;
    if (c->chosen[next]) {
      for (int32_t i = c->cuts.all.cuts[next].begin; i < c->cuts.all.cuts[next].end; i++)
        *x += (double)step->tensors[c->cuts.all.values[i]].bytes;
      *y = fmax(*y, gathered);
      gathered = 0;
    }
    next++;
  }
  *y = fmax(*y, gathered);
  return try_cuts(c, false);
}

enum { GREEDY_ROUNDS = 3, GREEDY_GRID = 24 };

static neap_status choose_greedy(struct chen *c) {
  double x, y, segment = 0, first = 0;
  for (int round = 0; round < GREEDY_ROUNDS; round++) {
    TRY(greedy(c, segment, &x, &y));
    if (round == 0) first = y;
    segment = sqrt(x * y / 2);
  }
  /* Around where the rounds lead, and on to segments so large that little is dropped: budgets differ. */
  double total = 0;
  for (int32_t t = 0; t < c->cuts.step->tensor_count; t++)
    if (c->cuts.step->tensors[t].producer >= 0 && c->cuts.step->tensors[t].producer < c->cuts.all.border)
      total += (double)c->cuts.step->tensors[t].bytes;
  const double low = fmax(fmin(segment, first) / sqrt(2), 1);
  for (int i = 0; i < GREEDY_GRID; i++)
    TRY(greedy(c, low * pow(total / low, (double)i / (GREEDY_GRID - 1)), &x, &y));
  return NEAP_OK;
}

/* Keeps only the cuts of halving; then also every second, fourth, ... candidate. */
static neap_status choose_recursive(struct chen *c) {
  for (int32_t apart = c->cuts.all.count + 1; apart > 0; apart = apart / 2) {
    for (int32_t i = 0; i < c->cuts.all.count; i++) c->chosen[i] = (i + 1) % apart == 0;
    TRY(try_cuts(c, true));
    if (c->best_peak <= c->budget && apart < c->cuts.all.count / 8) break;
  }
  return NEAP_OK;
}

static neap_status plan(const neap_step *step, uint64_t budget, struct schedule *out,
                        neap_status (*choose)(struct chen *c), const char *name) {
  struct chen c = {.budget = budget, .best = out, .best_cost = INFINITY, .best_peak = UINT64_MAX};
  neap_status status = cuts_create(step, &c.region, &c.cuts);
  if (status == NEAP_OK) {
    c.keep = region_alloc(&c.region, (size_t)step->tensor_count + 1, sizeof *c.keep);
    c.chosen = region_alloc(&c.region, (size_t)c.cuts.all.count + 1, sizeof *c.chosen);
    status = c.keep == NULL || c.chosen == NULL ? neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", name)
                                                : simulator_create(step, &c.simulator);
  }
  if (status == NEAP_OK) status = choose(&c);
  simulator_free(&c.simulator);
  region_free(&c.region);
  if (status == NEAP_OK && (c.best_peak > budget || c.best_cost == INFINITY))
    return neap_fail(NEAP_OVER_BUDGET, "%s: the least peak it finds is above %llu bytes", name,
                     (unsigned long long)budget);
  return status;
}

neap_status plan_chen_sqrt(const neap_step *step, uint64_t budget, const struct planner_options *options,
                           struct schedule *out) {
  (void)options;
  return plan(step, budget, out, choose_sqrt, "chen-sqrt");
}

neap_status plan_chen_greedy(const neap_step *step, uint64_t budget, const struct planner_options *options,
                             struct schedule *out) {
  (void)options;
  return plan(step, budget, out, choose_greedy, "chen-greedy");
}

neap_status plan_chen_recursive(const neap_step *step, uint64_t budget, const struct planner_options *options,
                                struct schedule *out) {
  (void)options;
  return plan(step, budget, out, choose_recursive, "chen-recursive");
}
