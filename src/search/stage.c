#include "search/stage.h"

#include <stdlib.h>
#include <string.h>

#include "search/stage_step.h"
#include "step/simulate.h"
#include "step/tuning.h"

/* Returns the small step's node for local number i of the stage: i + 1 before the turn, i + 2 after it. */
static int32_t node_of(const struct stage *s, int32_t local) { return local + 1 + (local >= s->forward); }
static int32_t turn_of(const struct stage *s) { return s->forward + 1; }
static int32_t last_of(const struct stage *s) { return s->forward + s->backward + 2; }
static bool is_inside(const struct stage *s, int32_t t) { /* made by a forward node of the stage */
  const int32_t producer = s->step->tensors[t].producer;
  return producer > 0 && producer < turn_of(s);
}

/* ---- Measuring ---- */

static neap_status append(struct schedule *schedule, const struct stage *s, const int32_t *locals,
                          int32_t count) {
  for (int32_t i = 0; i < count; i++) TRY(vector_push(&schedule->nodes, node_of(s, locals[i])));
  return NEAP_OK;
}

static double cost_of(const struct stage *s, const int32_t *locals, int32_t count) {
  double cost = 0;
  for (int32_t i = 0; i < count; i++) cost += s->step->nodes[node_of(s, locals[i])].cost;
  return cost;
}

static uint64_t most_live(const struct simulator *simulator, int32_t begin, int32_t end) {
  uint64_t most = 0;
  for (int32_t i = begin; i < end; i++)
    if (simulator->live.data[i] > most) most = simulator->live.data[i];
  return most;
}

static uint64_t bytes_of(const neap_step *step, const int32_t *tensors, int32_t count) {
  uint64_t bytes = 0;
  for (int32_t i = 0; i < count; i++) bytes += step->tensors[tensors[i]].bytes;
  return bytes;
}

/* Runs the small step: forward, the turn, `first` and then the backward part. Gives the positions at which
 * `first` and the backward part begin; the peaks are the simulator's. */
static neap_status run_option(const struct stage *s, struct simulator *simulator, const int32_t *first,
                              int32_t first_count, const struct stage_option *option, int32_t *after,
                              int32_t *backward, int32_t *end) {
  struct schedule schedule = {0};
  struct simulation score;
  neap_status status = NEAP_OK;
  for (int32_t v = 0; status == NEAP_OK && v <= turn_of(s); v++) status = vector_push(&schedule.nodes, v);
  *after = (int32_t)schedule.nodes.count;
  if (status == NEAP_OK) status = append(&schedule, s, first, first_count);
  *backward = (int32_t)schedule.nodes.count;
  if (status == NEAP_OK) status = append(&schedule, s, option->backward, option->backward_count);
  if (status == NEAP_OK) status = vector_push(&schedule.nodes, last_of(s));
  *end = (int32_t)schedule.nodes.count;
  if (status == NEAP_OK) status = simulator_run(simulator, schedule.nodes.data, *end, &score);
  schedule_free(&schedule);
  return status;
}

static uint64_t less(uint64_t bytes, uint64_t by) { return bytes > by ? bytes - by : 0; }

static neap_status measure(const struct stage *s, struct simulator *simulator, int32_t mode,
                           struct stage_option *option) {
  const struct step_node *turn = &s->step->nodes[turn_of(s)];
  const uint64_t gradients = bytes_of(s->step, turn->outputs, turn->output_count),
                 output = bytes_of(s->step, turn->inputs, turn->input_count),
                 beside = s->input_bytes + s->modes[mode].held_bytes;
  const bool final = s->stage == s->chain->stage_count - 1; /* its backward part follows at once */
  int32_t after, backward, end;
  TRY(run_option(s, simulator, NULL, 0, option, &after, &backward, &end));
  option->forward_peak = less(most_live(simulator, 1, after - 1), beside);
  option->backward_peak = less(most_live(simulator, after, end), beside);
  option->kept_bytes = less(simulator->live.data[after - 1] - output - gradients, beside);
  if (mode > 0 && !final) {
    TRY(run_option(s, simulator, option->again, option->again_count, option, &after, &backward, &end));
    option->forward_peak = less(most_live(simulator, after, backward), beside + gradients);
  }
  TRY(run_option(s, simulator, option->make, final ? 0 : option->make_count, option, &after, &backward,
                 &end));
  option->leaf_peak = less(most_live(simulator, final ? 1 : after, end), beside);
  option->again_cost = cost_of(s, option->again, option->again_count);
  option->make_cost = cost_of(s, option->make, option->make_count);
  option->backward_cost = cost_of(s, option->backward, option->backward_count);
  return NEAP_OK;
}

static neap_status copy_list(struct stage *s, int32_t **list, int32_t count) {
  *list = region_copy(&s->region, *list, (size_t)count, sizeof **list);
  RETURN_IF(*list == NULL, NEAP_OUT_OF_MEMORY, "stage: out of memory");
  return NEAP_OK;
}

/* Measures an option of given lists (only lists and counts are read) and adds it to a mode. The lists are
 * copied. NEAP_INVALID_PLAN: they are not a valid way through the stage. */
static neap_status add_measured(struct stage *s, struct simulator *simulator, int32_t mode,
                                const struct stage_option *lists) {
  struct stage_option option = *lists;
  TRY(measure(s, simulator, mode, &option));
  TRY(copy_list(s, &option.again, option.again_count));
  TRY(copy_list(s, &option.make, option.make_count));
  TRY(copy_list(s, &option.backward, option.backward_count));
  return vector_push(&s->modes[mode].options, option);
}

/* ---- From kept values to lists ---- */

typedef VECTOR(int32_t) ids;

struct listing {
  struct stage *stage;
  struct simulator simulator;
  struct region region;
  int32_t mode;
  bool *pinned;      /* by tensor: never made again, so there from the first run on */
  bool *there;       /* by tensor: pinned, or held in this mode */
  bool *kept, *have; /* by tensor */
  bool *need;        /* by tensor */
  bool lean;         /* what was made again is dropped once the node that asked for it has run */
  ids stack, made;   /* current nodes; values that were made again */
  ids again, make, backward;
  ids settled, places; /* backward with updates in their places */
  int32_t *reach;      /* by tensor: the place of its last reader */
  ids candidates;      /* values that the backward part reads, large ones, in the order of their making */
};

static neap_status run(struct listing *l, int32_t v) {
  const struct step_node *node = &l->stage->step->nodes[v];
  for (int32_t i = 0; i < node->output_count; i++) {
    l->have[node->outputs[i]] = true;
    TRY(vector_push(&l->made, node->outputs[i]));
  }
  return vector_push(&l->backward, v - 1);
}

/* Makes a value after the values that it lacks. The stack holds nodes whose inputs are being made. */
static neap_status make_value(struct listing *l, int32_t t) {
  const neap_step *step = l->stage->step;
  TRY(vector_push(&l->stack, step->tensors[t].producer));
  while (l->stack.count > 0) {
    const int32_t v = l->stack.data[l->stack.count - 1];
    const struct step_node *node = &step->nodes[v];
    int32_t missing = -1;
    for (int32_t i = 0; i < node->input_count && missing < 0; i++)
      if (is_inside(l->stage, node->inputs[i]) && !l->have[node->inputs[i]]) missing = node->inputs[i];
    if (missing >= 0) {
      TRY(vector_push(&l->stack, step->tensors[missing].producer));
      continue;
    }
    TRY(run(l, v));
    l->stack.count--;
  }
  return NEAP_OK;
}

/* Drops the values that were made again for a node, except its own inputs. */
static void drop_made(struct listing *l, const struct step_node *node) {
  size_t left = 0;
  for (size_t i = 0; i < l->made.count; i++)
    l->have[l->made.data[i]] = l->kept[l->made.data[i]] || l->there[l->made.data[i]];
  for (int32_t i = 0; i < node->input_count; i++) l->have[node->inputs[i]] = true;
  for (size_t i = 0; i < l->made.count; i++)
    if (l->have[l->made.data[i]]) l->made.data[left++] = l->made.data[i];
  l->made.count = left;
}

/* Moves updates after the last reader of the tensors that they change: it may be a node that runs again, or
 * an update that moves itself. `place`: the position after which a node goes; its own if it stays. */
static neap_status settle_updates(struct listing *l) {
  const neap_step *step = l->stage->step;
  const size_t count = l->backward.count;
  TRY(vector_reserve(&l->places, 3 * count + 1));
  TRY(vector_reserve(&l->settled, count + 1));
  l->settled.count = 0;
  /* first[i]: the last of those that move behind i; next[i]: the one of them before i */
  int32_t *place = l->places.data, *first = place + count, *next = first + count;
  memset(l->reach, -1, (size_t)step->tensor_count * sizeof *l->reach);
  for (size_t i = count; i-- > 0;) {
    const struct step_node *node = &step->nodes[node_of(l->stage, l->backward.data[i])];
    place[i] = (int32_t)i;
    first[i] = -1;
    for (int32_t u = 0; u < node->update_count; u++)
      if (l->reach[node->updates[u]] > place[i]) place[i] = l->reach[node->updates[u]];
    for (int32_t n = 0; n < node->input_count; n++)
      if (l->reach[node->inputs[n]] < place[i]) l->reach[node->inputs[n]] = place[i];
  }
  /* Puts the later of two that move behind one place first: it may read what the earlier one changes. */
  for (size_t i = 0; i < count; i++)
    if (place[i] != (int32_t)i) next[i] = first[place[i]], first[place[i]] = (int32_t)i;
  for (size_t i = 0; i < count; i++) {
    if (place[i] == (int32_t)i) l->settled.data[l->settled.count++] = l->backward.data[i];
    for (int32_t m = first[i]; m >= 0; m = next[m]) l->settled.data[l->settled.count++] = l->backward.data[m];
  }
  return NEAP_OK;
}

/* Lists the backward nodes. *too_long: dropped values would be made again too often. */
static neap_status list_backward(struct listing *l, bool *too_long) {
  struct stage *s = l->stage;
  const neap_step *step = s->step;
  for (int32_t t = 0; t < step->tensor_count; t++) l->have[t] = l->kept[t] || l->there[t] || !is_inside(s, t);
  for (int32_t i = 0; i < step->nodes[turn_of(s)].input_count; i++)
    l->have[step->nodes[turn_of(s)].inputs[i]] = true;
  l->backward.count = l->made.count = 0;
  *too_long = false;
  for (int32_t v = turn_of(s) + 1; v < last_of(s) && !*too_long; v++) {
    const struct step_node *node = &step->nodes[v];
    for (int32_t i = 0; i < node->input_count; i++)
      if (!l->have[node->inputs[i]] && is_inside(s, node->inputs[i])) TRY(make_value(l, node->inputs[i]));
    TRY(vector_push(&l->backward, v - 2));
    if (l->lean) drop_made(l, node);
    *too_long = l->lean && l->backward.count / STAGE_LONGEST > (size_t)s->step->node_count;
  }
  return settle_updates(l);
}

/* Lists the forward nodes that make the values in `need`, in order; for the last stage all of them, as it
 * runs forward once. */
static neap_status list_forward(struct listing *l, ids *list) {
  const struct stage *s = l->stage;
  const bool all = s->stage == s->chain->stage_count - 1;
  list->count = 0;
  for (int32_t v = turn_of(s); v-- > 1;) {
    const struct step_node *node = &s->step->nodes[v];
    bool needed = all;
    for (int32_t i = 0; i < node->output_count; i++)
      needed = needed || (l->need[node->outputs[i]] && !l->there[node->outputs[i]]);
    if (!needed) continue;
    for (int32_t i = 0; i < node->input_count; i++) l->need[node->inputs[i]] = true;
    TRY(vector_push(list, v - 1));
  }
  for (size_t i = 0, k = list->count; i + 1 < k; i++) {
    const int32_t swap = list->data[i];
    list->data[i] = list->data[--k];
    list->data[k] = swap;
  }
  return NEAP_OK;
}

/* Lists the nodes that run for the kept values, and adds the lists to the stage as an option unless they are
 * too long. `lean`: values that are made again are dropped after they are read. */
static neap_status add_kept(struct listing *l, bool lean) {
  const struct stage *s = l->stage;
  const struct step_node *turn = &s->step->nodes[turn_of(s)];
  const size_t tensors = (size_t)s->step->tensor_count;
  l->lean = lean;
  bool too_long;
  TRY(list_backward(l, &too_long));
  if (too_long) return NEAP_OK;
  memcpy(l->need, l->kept, tensors);
  for (int32_t i = 0; i < turn->input_count; i++) { /* read at the boundary by the backward part itself */
    const int32_t t = turn->inputs[i];
    const int32_t end = s->step->reader_start[t + 1];
    l->need[t] = l->need[t] || s->step->readers[end - 1] > turn_of(s);
  }
  TRY(list_forward(l, &l->make));
  memcpy(l->need, l->kept, tensors);
  for (int32_t i = 0; i < turn->input_count; i++) l->need[turn->inputs[i]] = true;
  TRY(list_forward(l, &l->again));
  const struct stage_option lists = {.again = l->again.data,
                                     .make = l->make.data,
                                     .backward = l->settled.data,
                                     .again_count = (int32_t)l->again.count,
                                     .make_count = (int32_t)l->make.count,
                                     .backward_count = (int32_t)l->settled.count};
  return add_measured(l->stage, &l->simulator, l->mode, &lists);
}

/* ---- Choosing kept values ---- */

/* Finds the values inside that the backward part reads: large ones are candidates, small ones are kept. */
static neap_status find_candidates(struct listing *l) {
  const struct stage *s = l->stage;
  const neap_step *step = s->step;
  uint64_t total = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int32_t t = 0; t < step->tensor_count; t++) {
      if (!is_inside(s, t) || l->there[t]) continue;
      bool read = false, boundary = false;
      for (int32_t r = step->reader_start[t]; r < step->reader_start[t + 1]; r++) {
        read = read || (step->readers[r] > turn_of(s) && step->readers[r] < last_of(s));
        boundary = boundary || step->readers[r] == turn_of(s);
      }
      if (!read || boundary) continue;
      if (pass == 0)
        total += step->tensors[t].bytes;
      else if (step->tensors[t].bytes > total / STAGE_SMALL_SHARE)
        TRY(vector_push(&l->candidates, t));
      else
        l->kept[t] = true;
    }
  return NEAP_OK;
}

static void keep_all_candidates(struct listing *l, bool keep) {
  for (size_t i = 0; i < l->candidates.count; i++) l->kept[l->candidates.data[i]] = keep;
}

/* Adds an option for every set of kept values. */
static neap_status add_subsets(struct listing *l) {
  const uint32_t sets = (uint32_t)1 << l->candidates.count;
  for (uint32_t set = sets; set-- > 0;) { /* the full one first */
    for (size_t i = 0; i < l->candidates.count; i++) l->kept[l->candidates.data[i]] = set >> i & 1;
    TRY(add_kept(l, false));
    if (set + 1 < sets) TRY(add_kept(l, true));
  }
  return NEAP_OK;
}

/* Finds the candidate, by its place in the list, that frees most bytes for the cost of dropping it. */
static neap_status find_cheapest_drop(struct listing *l, const struct stage_option *now, size_t *out) {
  struct stage_mode *mode = &l->stage->modes[l->mode];
  double best = -1;
  for (size_t i = 0; i < l->candidates.count; i++) {
    const int32_t t = l->candidates.data[i];
    l->kept[t] = false;
    TRY(add_kept(l, false));
    l->kept[t] = true;
    const struct stage_option without = mode->options.data[--mode->options.count];
    const double ratio = ((double)now->kept_bytes - (double)without.kept_bytes) /
                         (without.backward_cost - now->backward_cost + 1e-30);
    if (ratio > best) best = ratio, *out = i;
  }
  return NEAP_OK;
}

/* Adds options from all values kept to none, dropping one at a time; if trying each would take too long, the
 * later ones first. */
static neap_status add_greedily(struct listing *l, int32_t effort) {
  ids *left = &l->candidates;
  struct stage_mode *mode = &l->stage->modes[l->mode];
  keep_all_candidates(l, true);
  TRY(add_kept(l, false));
  const size_t n = left->count;
  const bool thorough = n * n / 2 <= (size_t)effort;
  const size_t apart = effort == 0 ? n : thorough ? 1 : n / STAGE_ROUGH_OPTIONS + 1;
  struct stage_option now = mode->options.data[0];
  while (left->count > 0) {
    size_t dropped = left->count - 1;
    if (thorough) TRY(find_cheapest_drop(l, &now, &dropped));
    l->kept[left->data[dropped]] = false;
    left->data[dropped] = left->data[--left->count];
    if (left->count % apart != 0) continue;
    TRY(add_kept(l, false));
    now = mode->options.data[mode->options.count - 1];
    TRY(add_kept(l, true));
  }
  return NEAP_OK;
}

/* ---- Modes ---- */

static void begin_mode(struct listing *l, int32_t mode) {
  const size_t tensors = (size_t)l->stage->step->tensor_count;
  l->mode = mode;
  l->candidates.count = 0;
  memset(l->kept, 0, tensors);
  for (size_t t = 0; t < tensors; t++) l->there[t] = l->pinned[t] || l->stage->held[mode][t];
}

/* Finds the costs of running forward again from the input and the held values: once for the output boundary
 * alone, and once for all that the backward part reads. */
static neap_status forward_costs(struct listing *l, double *cost) {
  struct stage *s = l->stage;
  const struct step_node *turn = &s->step->nodes[turn_of(s)];
  *cost = 0;
  for (int all = 0; all < 2; all++) {
    memset(l->need, 0, (size_t)s->step->tensor_count);
    for (int32_t i = 0; i < turn->input_count; i++) l->need[turn->inputs[i]] = true;
    for (size_t i = 0; all && i < l->candidates.count; i++) l->need[l->candidates.data[i]] = true;
    TRY(list_forward(l, &l->again));
    *cost += cost_of(s, l->again.data, (int32_t)l->again.count);
  }
  return NEAP_OK;
}

/* Chooses what a mode holds: the values of the mode before it, the value that saves most work for its bytes,
 * and the small values that the backward part reads and that would otherwise be made again for their own
 * sake. */
static neap_status choose_held(struct listing *l, int32_t mode) {
  struct stage *s = l->stage;
  const size_t tensors = (size_t)s->step->tensor_count;
  double all, best = 0;
  int32_t chosen = -1;
  begin_mode(l, mode - 1);
  memcpy(s->held[mode], s->held[mode - 1], tensors);
  TRY(find_candidates(l));
  if (s->forward <= STAGE_HELD_NODES) TRY(forward_costs(l, &all));
  for (int32_t t = 0; s->forward <= STAGE_HELD_NODES && t < s->step->tensor_count; t++) {
    if (!is_inside(s, t) || l->there[t] || s->step->tensors[t].bytes == 0) continue;
    double with;
    l->there[t] = true;
    TRY(forward_costs(l, &with));
    l->there[t] = false;
    const double ratio = (all - with) / (double)s->step->tensors[t].bytes;
    if (ratio > best) best = ratio, chosen = t;
  }
  for (size_t t = 0; chosen >= 0 && t < tensors; t++) s->held[mode][t] |= l->kept[t] || t == (size_t)chosen;
  for (size_t t = 0; t < tensors; t++)
    s->modes[mode].held_bytes += s->held[mode][t] ? s->step->tensors[t].bytes : 0;
  return NEAP_OK;
}

static neap_status listing_create(struct listing *l, struct stage *stage) {
  const size_t tensors = (size_t)stage->step->tensor_count + 1;
  *l = (struct listing){.stage = stage};
  l->pinned = region_alloc(&l->region, tensors, sizeof *l->pinned);
  l->there = region_alloc(&l->region, tensors, sizeof *l->there);
  l->kept = region_alloc(&l->region, tensors, sizeof *l->kept);
  l->have = region_alloc(&l->region, tensors, sizeof *l->have);
  l->need = region_alloc(&l->region, tensors, sizeof *l->need);
  l->reach = region_alloc(&l->region, tensors, sizeof *l->reach);
  RETURN_IF(!l->pinned || !l->there || !l->kept || !l->have || !l->need || !l->reach, NEAP_OUT_OF_MEMORY,
            "stage: out of memory");
  const struct chain_stage *s = &stage->chain->stages[stage->stage];
  for (int32_t v = 0; v < stage->forward; v++) {
    const struct step_node *node = &stage->chain->step->nodes[s->forward_begin + v];
    for (int32_t i = 0; i < node->output_count; i++)
      l->pinned[stage->step->nodes[v + 1].outputs[i]] = stage->chain->pinned[node->outputs[i]];
  }
  memcpy(l->there, l->pinned, tensors);
  return simulator_create(stage->step, &l->simulator);
}

static void listing_free(struct listing *l) {
  simulator_free(&l->simulator);
  vector_free(&l->stack);
  vector_free(&l->made);
  vector_free(&l->again);
  vector_free(&l->make);
  vector_free(&l->backward);
  vector_free(&l->settled);
  vector_free(&l->places);
  vector_free(&l->candidates);
  region_free(&l->region);
}

/* Adds the options of one mode. */
static neap_status fill_mode(struct listing *l, int32_t mode, int32_t effort) {
  struct stage_mode *m = &l->stage->modes[mode];
  begin_mode(l, mode);
  TRY(find_candidates(l));
  const size_t n = l->candidates.count;
  TRY(n < 20 && (int32_t)2 << n <= effort ? add_subsets(l) : add_greedily(l, effort));
  m->forward_peak = UINT64_MAX;
  for (size_t i = 0; i < m->options.count; i++) {
    const struct stage_option *option = &m->options.data[i];
    if (option->forward_peak < m->forward_peak) m->forward_peak = option->forward_peak;
    if (i == 0 || option->again_cost < m->forward_cost) {
      m->forward_cost = option->again_cost;
      m->bare = (int32_t)i;
    }
  }
  return NEAP_OK;
}

static neap_status find_options(struct stage *stage, int32_t effort) {
  struct listing l;
  neap_status status = listing_create(&l, stage);
  if (status == NEAP_OK) status = fill_mode(&l, 0, effort);
  for (int32_t mode = 1; status == NEAP_OK && effort > 0 && mode < STAGE_MODES; mode++) {
    status = choose_held(&l, mode);
    if (status == NEAP_OK) status = fill_mode(&l, mode, effort);
  }
  listing_free(&l);
  return status;
}

neap_status stage_create(const struct chain *chain, int32_t stage, int32_t effort, struct stage *out) {
  const struct chain_stage *s = &chain->stages[stage];
  *out = (struct stage){.chain = chain,
                        .stage = stage,
                        .forward = s->forward_end - s->forward_begin,
                        .backward = s->backward_end - s->backward_begin,
                        .input_bytes = stage > 0 ? chain->stages[stage - 1].output_bytes : 0};
  TRY(stage_extract(chain, stage, &out->step));
  for (int32_t mode = 0; mode < STAGE_MODES; mode++) {
    out->held[mode] = region_alloc(&out->region, (size_t)out->step->tensor_count, sizeof *out->held[mode]);
    RETURN_IF(out->held[mode] == NULL, NEAP_OUT_OF_MEMORY, "stage: out of memory");
  }
  const int32_t affordable = STAGE_WORK / out->step->node_count + 1;
  return find_options(out, effort < affordable ? effort : affordable);
}

void stage_free(struct stage *stage) {
  neap_step_free(stage->step);
  for (int mode = 0; mode < STAGE_MODES; mode++) vector_free(&stage->modes[mode].options);
  region_free(&stage->region);
}
