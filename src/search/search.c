#include "search/search.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/stop.h"
#include "step/planner.h"
#include "step/tuning.h"

#include <math.h>
#include <string.h>

static uint32_t draw(struct search *s, uint32_t below) {
  return random_below(random_next(&s->random), below);
}

static double uniform(struct search *s) { return ((double)draw(s, 1u << 24) + 0.5) * 0x1p-24; }

static double energy(const struct search *s) {
  return s->timeline.cost + s->price * (double)s->timeline.excess;
}

/* ---- Changes that can be undone ---- */

static int32_t insert(struct search *s, int32_t node, int32_t successor, bool moving) {
  if (s->change_count == CHANGE_LIMIT) return -1;
  const int32_t run = timeline_insert(&s->timeline, node, successor, moving);
  if (run >= 0) s->changes[s->change_count++] = (struct change){run, node, -1, true};
  return run;
}

static bool take_out_one(struct search *s, int32_t run) {
  if (s->change_count == CHANGE_LIMIT) return false;
  const int32_t node = s->timeline.runs[run].node, successor = timeline_successor(&s->timeline, run);
  if (!timeline_remove(&s->timeline, run)) return false;
  s->changes[s->change_count++] = (struct change){run, node, successor, false};
  return true;
}

static bool unread(const struct timeline *t, int32_t run) {
  const struct run *r = &t->runs[run];
  for (int32_t o = 0; o < t->step->nodes[r->node].output_count; o++)
    if (t->slots[r->first_slot + o].readers >= 0) return false;
  return true;
}

/* Returns true if a run may be left out: its maker has another, or it is optional. */
static bool is_spare(const struct timeline *t, int32_t run) {
  const int32_t node = t->runs[run].node;
  return t->run_count[t->step->maker[node]] > 1 || node >= t->step->required_count;
}

/* Removes a run, and with it the runs that then have no reader. */
static bool take_out(struct search *s, int32_t run) {
  const struct timeline *t = &s->timeline;
  const int32_t first_link = t->runs[run].first_link, reads = t->readings[t->runs[run].node].read_count;
  if (!take_out_one(s, run)) return false;
  for (int32_t i = 0; i < reads; i++) {
    const int32_t source = t->slots[t->links[first_link + i].slot].run;
    if (t->present_at[source] >= 0 && is_spare(t, source) && unread(t, source)) take_out(s, source);
  }
  return true;
}

static void take_back_to(struct search *s, int32_t count) {
  while (s->change_count > count) {
    const struct change *change = &s->changes[--s->change_count];
    if (change->inserted)
      timeline_remove(&s->timeline, change->run);
    else
      timeline_insert(&s->timeline, change->node, change->successor, true);
  }
}

/* ---- Making a value again ---- */

enum {
  PATIENCE = 5000
}; /* work that one value is worth: in a dense graph the ways to make it are without number */

static void spare_later_run(struct search *s, int32_t run) {
  const int32_t later = s->timeline.runs[run].next, count = s->change_count;
  if (later < 0) return;
  const double before = energy(s);
  if (take_out(s, later) && energy(s) > before) take_back_to(s, count);
}

/* Returns the last user of a slot before the run that reads it last. */
static int32_t last_but_one(const struct timeline *t, const struct slot *slot) {
  int32_t last = slot->run;
  for (int32_t link = slot->readers; link >= 0; link = t->links[link].next) {
    const int32_t reader = t->links[link].reader;
    if (reader != slot->last && timeline_before(t, last, reader)) last = reader;
  }
  return last;
}

/* Returns the least cost of making a node's outputs again. */
static double repeat_cost(const struct timeline *t, int32_t node) {
  const int32_t maker = t->step->maker[node], restorer = t->step->restorer[maker];
  const double cost = t->step->nodes[maker].cost;
  return restorer >= 0 && t->step->nodes[restorer].cost < cost ? t->step->nodes[restorer].cost : cost;
}

/* Returns an upper bound on the gain of making a run's input again instead of holding it until then; 0 if it
 * cannot pay. */
static double gain_of_read(struct search *s, int32_t run, int32_t read) {
  struct timeline *t = &s->timeline;
  const struct slot *slot = &t->slots[t->links[t->runs[run].first_link + read].slot];
  if (slot->last != run) return 0;
  const double gain = s->price * (double)timeline_relief(t, last_but_one(t, slot), run, slot->bytes) -
                      repeat_cost(t, t->runs[slot->run].node);
  return gain > 0 ? gain : 0;
}

/* Inserts a run of a node before `successor`; -1: not possible. If that takes over all readers of the run
 * before it, it was a move; a node that must not repeat can only move, from its own run. */
static int32_t run_before(struct search *s, int32_t node, int32_t successor) {
  const struct timeline *t = &s->timeline;
  const bool repeatable = t->step->nodes[node].repeatable;
  const int32_t run = insert(s, node, successor, !repeatable);
  if (run < 0) return -1;
  const int32_t earlier = t->runs[run].previous;
  const bool own = earlier >= 0 && (repeatable || t->runs[earlier].node == node),
             moved = own && unread(t, earlier) && take_out(s, earlier);
  return moved || repeatable ? run : -1;
}

/* Returns the run right after `after` (-1: the first run), before which a moved run goes. */
static int32_t place_behind(const struct timeline *t, int32_t after) {
  return after >= 0 ? timeline_successor(t, after) : t->blocks[t->at[0]].runs[0];
}

/* Makes a node's outputs again by the node that restores it, and stores them where they are made first.
 * Returns false if there is none or the energy is not below `bound`; the changes stay, for the caller to
 * undo. */
static bool restore_again(struct search *s, int32_t node, int32_t successor, double bound) {
  const struct timeline *t = &s->timeline;
  const int32_t restorer = t->step->restorer[node], store = t->step->store[node];
  if (restorer < 0) return false;
  if (t->run_count[store] == 0 && insert(s, store, place_behind(t, t->first_run[node]), false) < 0)
    return false;
  const int32_t run = run_before(s, restorer, successor);
  if (run < 0) return false;
  spare_later_run(s, run);
  return energy(s) < bound;
}

static bool make_again(struct search *s, int32_t node, int32_t successor, double bound);

/* The same by a run of the node itself; makes its inputs again, too, if that pays more than holding them
 * until then. */
static bool compute_again(struct search *s, int32_t node, int32_t successor, double bound) {
  const struct timeline *t = &s->timeline;
  const int32_t run = run_before(s, node, successor), reads = t->readings[node].read_count;
  if (run < 0) return false;
  spare_later_run(s, run);
  double gain = 0;
  for (int32_t i = 0; i < reads; i++) gain += gain_of_read(s, run, i);
  if (energy(s) - gain >= bound || t->work > s->patience) return false;
  for (int32_t i = 0; gain > 0 && i < reads; i++) {
    if (gain_of_read(s, run, i) == 0) continue;
    const int32_t count = s->change_count;
    const double before = energy(s);
    const int32_t source = t->slots[t->links[t->runs[run].first_link + i].slot].run;
    if (!make_again(s, t->step->maker[t->runs[source].node], run, before)) take_back_to(s, count);
  }
  return energy(s) < bound;
}

/* Makes a node's outputs again before `successor`, in the cheaper way. Returns false as soon as the energy
 * cannot get below `bound`; the changes stay, for the caller to undo. */
static bool make_again(struct search *s, int32_t node, int32_t successor, double bound) {
  const int32_t count = s->change_count;
  if (!restore_again(s, node, successor, bound)) {
    take_back_to(s, count);
    return compute_again(s, node, successor, bound);
  }
  const double restored = energy(s);
  take_back_to(s, count);
  if (compute_again(s, node, successor, restored)) return true;
  take_back_to(s, count);
  return restore_again(s, node, successor, bound);
}

/* ---- One run ---- */

/* Returns the first reader of a slot after `run`; -1: none. */
static int32_t next_reader(const struct timeline *t, const struct slot *slot, int32_t run) {
  int32_t next = -1;
  for (int32_t link = slot->readers; link >= 0; link = t->links[link].next) {
    const int32_t reader = t->links[link].reader;
    if (timeline_before(t, run, reader) && (next < 0 || timeline_before(t, reader, next))) next = reader;
  }
  return next;
}

/* Replaces a repeat by one of the other way to make its outputs, if that lowers the energy. */
static bool change_way(struct search *s, int32_t run) {
  struct timeline *t = &s->timeline;
  const int32_t node = t->runs[run].node, maker = t->step->maker[node], count = s->change_count;
  const int32_t successor = timeline_successor(t, run);
  if (t->step->restorer[maker] < 0 || t->runs[run].previous < 0 || successor < 0) return false;
  const double before = energy(s);
  s->patience = t->work + PATIENCE;
  const bool changed = node == maker ? restore_again(s, maker, successor, INFINITY)
                                     : compute_again(s, maker, successor, INFINITY);
  if (changed && (t->present_at[run] < 0 || take_out(s, run)) && energy(s) < before) return true;
  take_back_to(s, count);
  return false;
}

/* Tries to do without a run, or else to make its outputs again before each of their reads, whatever lowers
 * the energy. */
static void improve_run(struct search *s, int32_t run) {
  struct timeline *t = &s->timeline;
  const struct run *r = &t->runs[run];
  const double cost = repeat_cost(t, r->node);
  const int32_t count = s->change_count;
  double best = energy(s);
  if (is_spare(t, run) && take_out(s, run)) {
    if (energy(s) <= best) return;
    take_back_to(s, count);
  }
  if (change_way(s, run)) return;
  for (int32_t o = 0; o < t->step->nodes[r->node].output_count; o++) {
    const struct slot *slot = &t->slots[r->first_slot + o];
    for (int32_t use = run, reader; (reader = next_reader(t, slot, use)) >= 0; use = reader) {
      const bool may_move = use == run;
      if (s->price * (double)timeline_relief(t, use, reader, slot->bytes) <= (may_move ? 0 : cost)) continue;
      const int32_t before = s->change_count;
      best = energy(s);
      s->patience = t->work + PATIENCE;
      if (make_again(s, t->step->maker[r->node], reader, best))
        break; /* the readers behind are another run's now */
      take_back_to(s, before);
    }
  }
}

/* Finds the range of a run: it may be anywhere after `after` (-1: from the start) and before `before`. */
static void find_range(const struct timeline *t, int32_t run, int32_t *after, int32_t *before) {
  const struct run *r = &t->runs[run];
  *after = r->previous;
  *before = r->next >= 0 ? r->next : t->end;
  for (int32_t i = 0; i < t->readings[r->node].read_count; i++) {
    const int32_t source = t->slots[t->links[r->first_link + i].slot].run;
    if (*after < 0 || timeline_before(t, *after, source)) *after = source;
  }
  for (int32_t o = 0; o < t->step->nodes[r->node].output_count; o++)
    for (int32_t link = t->slots[r->first_slot + o].readers; link >= 0; link = t->links[link].next)
      if (timeline_before(t, t->links[link].reader, *before)) *before = t->links[link].reader;
}

/* Returns the run before which a run goes if it moves a few places earlier or later within its range. */
static int32_t near_place(struct search *s, int32_t run, int32_t after, int32_t before, uint32_t most) {
  const struct timeline *t = &s->timeline;
  const bool later = draw(s, 2);
  int32_t successor = run;
  for (uint32_t steps = 1 + draw(s, most); steps > 0; steps--) {
    const int32_t next = later ? timeline_successor(t, successor) : timeline_predecessor(t, successor);
    if (next < 0 || (!later && next == after)) break;
    successor = next;
    if (successor == before) return successor;
  }
  return later ? timeline_successor(t, successor) : successor;
}

/* Moves a run: as late as possible, as early as possible, or nearby. */
static bool shift(struct search *s, int32_t run) {
  const struct timeline *t = &s->timeline;
  int32_t after, before, successor;
  find_range(t, run, &after, &before);
  const uint32_t kind = draw(s, 8);
  if (kind == 0)
    successor = place_behind(t, after);
  else if (kind == 1)
    successor = before;
  else
    successor = near_place(s, run, after, before, kind < 6 ? 4 : 32);
  if (successor < 0 || successor == run || successor == timeline_successor(t, run)) return false;
  return insert(s, t->runs[run].node, successor, true) >= 0 && take_out(s, run);
}

/* Returns true if the area fell: fewer bytes live for less time. */
static bool is_smaller(const struct timeline *t, uint64_t area) { return (int64_t)(t->area - area) < 0; }

/* Moves a run if that lowers the energy; to a place that is equally good only if the area falls, unless the
 * search drifts. */
static void improve_place(struct search *s, int32_t run) {
  const int32_t count = s->change_count;
  const double before = energy(s);
  const uint64_t area = s->timeline.area;
  bool better = false;
  if (shift(s, run))
    better = energy(s) < before || (energy(s) == before && (s->drifts || is_smaller(&s->timeline, area)));
  if (!better) take_back_to(s, count);
}

/* ---- Tidying up ---- */

/* Returns the bytes that live from a run on, less those that end with it. */
static int64_t added_by(const struct timeline *t, int32_t run) {
  const struct run *r = &t->runs[run];
  int64_t bytes = 0;
  for (int32_t o = 0; o < t->step->nodes[r->node].output_count; o++)
    if (t->slots[r->first_slot + o].readers >= 0) bytes += t->slots[r->first_slot + o].bytes;
  for (int32_t i = 0; i < t->readings[r->node].read_count; i++) {
    const struct slot *slot = &t->slots[t->links[r->first_link + i].slot];
    if (slot->last == run) bytes -= slot->bytes;
  }
  return bytes;
}

/* Moves a run as late as possible if more bytes begin than end with it, else as early as possible; returns
 * true if it moved. */
static bool tidy_run(struct search *s, int32_t run) {
  const struct timeline *t = &s->timeline;
  const int64_t excess = t->excess, added = added_by(t, run);
  const uint64_t area = t->area;
  int32_t after, before;
  if (added == 0) return false;
  find_range(t, run, &after, &before);
  const int32_t successor = added > 0 ? before : place_behind(t, after);
  if (successor == run || successor == timeline_successor(t, run)) return false;
  s->change_count = 0;
  if (insert(s, t->runs[run].node, successor, true) >= 0 && take_out(s, run) && t->excess <= excess &&
      is_smaller(t, area))
    return true;
  take_back_to(s, 0);
  return false;
}

neap_status search_tidy(struct search *s) {
  const struct timeline *t = &s->timeline;
  bool moved = true;
  for (int round = 0; round < TIDY_ROUNDS && moved; round++) {
    moved = false;
    s->runs.count = 0;
    TRY(stop_check());
    for (int32_t i = 0; i < t->length; i++) TRY(vector_push(&s->runs, t->present[i]));
    for (size_t k = 0; k < s->runs.count; k++)
      if (t->present_at[s->runs.data[k]] >= 0 && tidy_run(s, s->runs.data[k])) moved = true;
  }
  return NEAP_OK;
}

/* ---- Stretches of nodes ---- */

struct stretch {
  int32_t first, end; /* node ids */
};

/* Improves the runs of the stretches' nodes in random order. `for_good`: no change will be undone. */
static neap_status sweep(struct search *s, const struct stretch *stretches, int count, bool for_good) {
  const struct timeline *t = &s->timeline;
  s->runs.count = 0;
  for (int i = 0; i < count; i++)
    for (int32_t v = stretches[i].first; v < stretches[i].end; v++)
      for (int32_t run = t->first_run[v]; run >= 0; run = t->runs[run].next) TRY(vector_push(&s->runs, run));
  for (size_t left = s->runs.count; left > 0; left--) {
    TRY(stop_check());
    const uint32_t pick = draw(s, (uint32_t)left);
    const int32_t run = s->runs.data[pick];
    s->runs.data[pick] = s->runs.data[left - 1];
    if (for_good) s->change_count = 0;
    if (t->present_at[run] >= 0) improve_run(s, run);
    if (t->excess > 0 && t->present_at[run] >= 0) improve_place(s, run);
  }
  return NEAP_OK;
}

/* Saves cost once the limit is kept: at this price nothing exceeds it. */
static neap_status spare(struct search *s, const struct stretch *stretches, int count, bool for_good) {
  if (s->timeline.excess > 0) return NEAP_OK;
  s->price = s->timeline.step->base_cost * 2 + 1;
  return sweep(s, stretches, count, for_good);
}

neap_status search_descend(struct search *s, int64_t work) {
  const struct stretch all = {0, s->timeline.step->node_count};
  const int64_t end = s->timeline.work + work;
  double rise = DESCEND_SLOW;
  s->price = s->floor / 5;
  for (int round = 0; round < DESCEND_ROUNDS && s->timeline.excess > 0 && s->timeline.work < end; round++) {
    const int64_t excess = s->timeline.excess;
    TRY(sweep(s, &all, 1, true));
    const bool idle = s->timeline.excess == excess;
    rise = idle ? fmin(rise * DESCEND_SLOW, DESCEND_FAST) : DESCEND_SLOW;
    s->price *= rise;
  }
  s->ceiling = s->price * 4;
  return spare(s, &all, 1, true);
}

/* ---- Ruin and recreate ---- */

/* Picks a node that is made again, or one near the highest position over the limit, or any node. */
static int32_t random_centre(struct search *s) {
  const struct timeline *t = &s->timeline;
  const uint32_t kind = draw(s, 8);
  if (t->excess > 0 && kind < 5) {
    int32_t run = timeline_hottest(t, draw(s, 1u << 16));
    for (uint32_t steps = draw(s, 24); steps > 0 && run >= 0; steps--) {
      const int32_t next = kind & 1 ? timeline_successor(t, run) : timeline_predecessor(t, run);
      if (next < 0 || next == t->end) break;
      run = next;
    }
    if (run >= 0 && run != t->end) return t->step->maker[t->runs[run].node];
  }
  if (t->repeated_count > 0 && kind < 7) return t->repeated[draw(s, (uint32_t)t->repeated_count)];
  return (int32_t)draw(s, (uint32_t)t->step->required_count);
}

enum { STRETCH_LIMIT = 64 };

/* Picks up to three stretches in the order of the step; disjoint, as a run must not be swept twice. */
static int random_stretches(struct search *s, struct stretch *out) {
  const int32_t nodes = s->timeline.step->node_count;
  const int wanted = 1 + (int)draw(s, RUIN_STRETCHES);
  int count = 0;
  for (int i = 0; i < wanted; i++) {
    const int32_t width = 4 << draw(s, 6), centre = random_centre(s);
    struct stretch stretch = {centre - width / 2, centre - width / 2 + width};
    if (stretch.first < 0) stretch.first = 0;
    if (stretch.end > nodes) stretch.end = nodes;
    bool apart = true;
    for (int k = 0; k < count; k++)
      apart = apart && (stretch.end <= out[k].first || out[k].end <= stretch.first);
    if (apart) out[count++] = stretch;
  }
  return count;
}

/* Picks a node that makes an input of this one, or one of the first readers of its outputs; -1: none
 * exists. */
static int32_t random_neighbour(struct search *s, int32_t node) {
  enum { FIRST = 8 };
  const struct timeline *t = &s->timeline;
  const struct reading *reading = &t->readings[node];
  if (reading->read_count > 0 && draw(s, 2))
    return t->reads[reading->first_read + (int32_t)draw(s, (uint32_t)reading->read_count)].producer;
  const int32_t outputs = t->step->nodes[node].output_count;
  if (outputs == 0) return -1;
  const struct run *run = &t->runs[draw(s, 2) ? t->first_run[node] : t->last_run[node]];
  int32_t link = t->slots[run->first_slot + (int32_t)draw(s, (uint32_t)outputs)].readers;
  for (uint32_t steps = draw(s, FIRST); steps > 0 && link >= 0 && t->links[link].next >= 0; steps--)
    link = t->links[link].next;
  return link < 0 || t->links[link].reader == t->end ? -1
                                                     : t->step->maker[t->runs[t->links[link].reader].node];
}

/* Picks nodes around a centre in the graph, each a stretch of its own: a radial ruin (Schrimpf et al. 2000).
 * Neighbours in the graph can be far apart in the order. */
static int radial_stretches(struct search *s, struct stretch *out) {
  const int wanted = 2 << draw(s, 6);
  const int32_t centre = random_centre(s);
  int count = 0;
  out[count++] = (struct stretch){centre, centre + 1};
  for (int left = RUIN_RADIAL_TRIES * wanted; left > 0 && count < wanted; left--) {
    const int32_t node = random_neighbour(s, out[draw(s, (uint32_t)count)].first);
    bool is_new = node >= 0;
    for (int k = 0; is_new && k < count; k++) is_new = out[k].first != node;
    if (is_new) out[count++] = (struct stretch){node, node + 1};
  }
  return count;
}

static void forget_repeats(struct search *s, const struct stretch *stretch, uint32_t share) {
  const struct timeline *t = &s->timeline;
  for (int32_t v = stretch->first; v < stretch->end; v++) {
    if (draw(s, 4) >= share) continue;
    while (t->run_count[v] > 1)
      if (!take_out(s, t->last_run[v])) break;
  }
}

/* Rebuilds. `exchange`: the price of a byte less above the limit at one position; 0: any price. */
static neap_status rebuild(struct search *s, double exchange) {
  struct timeline *t = &s->timeline;
  struct stretch stretches[STRETCH_LIMIT];
  const int count = s->radial && draw(s, 2) ? radial_stretches(s, stretches) : random_stretches(s, stretches);
  const double cost = t->cost;
  const int64_t excess = t->excess;
  const uint32_t share = 1 + draw(s, 4);
  TRY(stop_check());
  s->change_count = 0;
  for (int i = 0; i < count; i++) forget_repeats(s, &stretches[i], share);
  const double low = exchange > 0 ? exchange * RUIN_PRICE_FIRST : s->floor;
  const double high = exchange > 0 ? exchange : s->ceiling;
  const double most = exchange > 0 ? exchange * RUIN_PRICE_LAST : INFINITY;
  s->price = low * pow(high / low, uniform(s));
  for (int round = 0; round < RUIN_ROUNDS && t->excess > 0 && s->price <= most; round++) {
    TRY(sweep(s, stretches, count, false));
    s->price *= 2;
  }
  TRY(spare(s, stretches, count, false));
  const bool worse = exchange > 0 ? t->cost - cost > exchange * (double)(excess - t->excess)
                                  : t->excess > excess || (t->excess == excess && t->cost > cost);
  if (worse || s->change_count == CHANGE_LIMIT) take_back_to(s, 0);
  return NEAP_OK;
}

/* Brings single positions down to the limit, at an exchange that doubles if it brings nothing. */
static neap_status ease(struct search *s, int64_t work) {
  const struct timeline *t = &s->timeline;
  const int64_t end = t->work + work;
  double exchange = EASE_FIRST * (t->step->base_cost + 1e-300) / ((double)t->excess + 1);
  for (int doubled = 0; doubled < EASE_DOUBLINGS && t->excess > 0 && t->work < end;) {
    const double cost = t->cost;
    const int64_t excess = t->excess;
    for (int i = 0; i < EASE_TRIES && t->excess > 0; i++) TRY(rebuild(s, exchange));
    if (t->cost != cost || t->excess != excess) continue;
    exchange *= 2;
    doubled++;
  }
  return NEAP_OK;
}

neap_status search_mend(struct search *s, int64_t work) {
  const struct stretch all = {0, s->timeline.step->node_count};
  TRY(ease(s, work));
  const int64_t end = s->timeline.work + work;
  /* All that is over the limit is worth as much as the whole step. */
  s->price = s->timeline.step->base_cost / ((double)s->timeline.excess + 1);
  for (int round = 0; round < MEND_ROUNDS && s->timeline.excess > 0 && s->timeline.work < end; round++) {
    TRY(sweep(s, &all, 1, true));
    s->price *= 2;
  }
  s->ceiling = s->price * 4;
  return spare(s, &all, 1, true);
}

bool search_is_optimal(const struct search *s) {
  return s->timeline.excess == 0 && s->timeline.cost <= s->timeline.step->base_cost;
}

neap_status search_rebuild(struct search *s, int64_t work, double deadline, bool feasible_is_enough) {
  const int64_t end = s->timeline.work + work;
  const int32_t patience =
      50 + 12 * (s->timeline.step->node_count < 100000 ? s->timeline.step->node_count : 100000);
  for (; s->timeline.work < end && s->in_vain < patience; s->in_vain++) {
    const double cost = s->timeline.cost;
    const int64_t excess = s->timeline.excess;
    if (search_is_optimal(s)) break;
    if (feasible_is_enough && s->timeline.excess == 0) break;
    if (clock_is_past(deadline)) break;
    TRY(rebuild(s, 0));
    if (s->timeline.excess != excess || s->timeline.cost < cost) s->in_vain = 0;
  }
  return NEAP_OK;
}

/* ---- Making one ---- */

static neap_status begin(struct search *s, const neap_step *step, uint64_t limit,
                         const struct schedule *start, uint32_t seed) {
  s->random = seed * 2654435761u + 1;
  s->drifts = step->node_count > LARGE_STEP;
  TRY(timeline_create(step, limit, start->nodes.data, (int32_t)start->nodes.count,
                      2 * step->node_count + 1024, &s->timeline));
  double area = 1;
  for (int32_t i = 0; i < s->timeline.length; i++)
    area += (double)timeline_live(&s->timeline, s->timeline.present[i]);
  /* To make everything again costs about as much as all memory of all positions at this price. */
  s->floor = (step->base_cost + 1e-300) / area;
  s->ceiling = s->floor * 1000;
  return NEAP_OK;
}

neap_status search_create(const neap_step *step, uint64_t limit, const struct schedule *start, uint32_t seed,
                          struct search **out) {
  struct search *s = calloc(1, sizeof *s);
  RETURN_IF_NULL(s);
  const neap_status status = begin(s, step, limit, start, seed);
  if (status == NEAP_OK)
    *out = s;
  else
    search_free(s);
  return status;
}

void search_free(struct search *s) {
  if (s == NULL) return;
  timeline_free(&s->timeline);
  vector_free(&s->runs);
  free(s);
}

bool search_better(const struct search *s, const struct search *other) {
  const struct timeline *a = &s->timeline, *b = &other->timeline;
  return a->excess != b->excess ? a->excess < b->excess : a->cost < b->cost;
}

neap_status search_result(struct search *s, struct schedule *out) {
  TRY(search_tidy(s));
  TRY(vector_reserve(&out->nodes, (size_t)s->timeline.length + 1));
  timeline_copy(&s->timeline, out->nodes.data);
  out->nodes.count = (size_t)s->timeline.length;
  return NEAP_OK;
}
