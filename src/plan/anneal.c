#include "plan/anneal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "plan/timeline.h"

struct change {
  int32_t run, node, successor; /* successor: of a removed run */
  bool inserted;
};

enum { CHANGE_LIMIT = 8192, DEPTH_LIMIT = 1000 };

struct annealing {
  struct timeline timeline;
  uint32_t random;
  double penalty; /* cost of a byte above the limit at one position */
  struct change changes[CHANGE_LIMIT];
  int32_t change_count;
  VECTOR(int32_t) runs;
  double gained;
};

static uint32_t draw(struct annealing *a, uint32_t below) {
  a->random ^= a->random << 13;
  a->random ^= a->random >> 17;
  a->random ^= a->random << 5;
  return (uint32_t)((uint64_t)a->random * below >> 32);
}

static double energy(const struct annealing *a) {
  return a->timeline.cost + a->penalty * (double)a->timeline.excess;
}

static double uniform(struct annealing *a) { return ((double)draw(a, 1u << 24) + 0.5) * 0x1p-24; }

/* ---- Changes that can be taken back ---- */

static int32_t insert(struct annealing *a, int32_t node, int32_t successor, bool moving) {
  if (a->change_count == CHANGE_LIMIT) return -1;
  const int32_t run = timeline_insert(&a->timeline, node, successor, moving);
  if (run >= 0) a->changes[a->change_count++] = (struct change){run, node, -1, true};
  return run;
}

static bool take_out_one(struct annealing *a, int32_t run) {
  if (a->change_count == CHANGE_LIMIT) return false;
  const int32_t node = a->timeline.runs[run].node, successor = timeline_successor(&a->timeline, run);
  if (!timeline_remove(&a->timeline, run)) return false;
  a->changes[a->change_count++] = (struct change){run, node, successor, false};
  return true;
}

static bool unread(const struct timeline *t, int32_t run) {
  const struct run *r = &t->runs[run];
  for (int32_t o = 0; o < t->step->nodes[r->node].output_count; o++)
    if (t->slots[r->first_slot + o].readers >= 0) return false;
  return true;
}

/* And what nobody reads any longer with it. */
static bool take_out(struct annealing *a, int32_t run) {
  const struct timeline *t = &a->timeline;
  const int32_t first_link = t->runs[run].first_link, reads = t->readings[t->runs[run].node].read_count;
  if (!take_out_one(a, run)) return false;
  for (int32_t i = 0; i < reads; i++) {
    const int32_t source = t->slots[t->links[first_link + i].slot].run;
    if (t->present_at[source] < 0) continue; /* gone already */
    if (t->run_count[t->runs[source].node] > 1 && unread(t, source)) take_out(a, source);
  }
  return true;
}

static void take_back_to(struct annealing *a, int32_t count) {
  while (a->change_count > count) {
    const struct change *change = &a->changes[--a->change_count];
    if (change->inserted)
      timeline_remove(&a->timeline, change->run);
    else
      timeline_insert(&a->timeline, change->node, change->successor, true);
  }
}

/* ---- Moves ---- */

static int32_t random_run(struct annealing *a) {
  return a->timeline.present[draw(a, (uint32_t)a->timeline.length)];
}

/* A run that repeats its node; -1: there is none. */
static int32_t random_repeat(struct annealing *a) {
  const struct timeline *t = &a->timeline;
  if (t->repeated_count == 0) return -1;
  const int32_t node = t->repeated[draw(a, (uint32_t)t->repeated_count)];
  int32_t run = t->first_run[node];
  for (uint32_t skip = draw(a, (uint32_t)t->run_count[node]); skip > 0; skip--) run = t->runs[run].next;
  return run;
}

static bool drop_repeat(struct annealing *a) {
  const int32_t run = random_repeat(a);
  return run >= 0 && take_out(a, run);
}

static void spare_later_run(struct annealing *a, int32_t run) {
  const int32_t later = a->timeline.runs[run].next, count = a->change_count;
  if (later < 0) return;
  const double before = energy(a);
  if (take_out(a, later) && energy(a) > before) take_back_to(a, count);
}

/* The last user of a slot before the run that reads it last. */
static int32_t last_but_one(const struct timeline *t, const struct slot *slot) {
  int32_t last = slot->run;
  for (int32_t link = slot->readers; link >= 0; link = t->links[link].next) {
    const int32_t reader = t->links[link].reader;
    if (reader != slot->last && timeline_before(t, last, reader)) last = reader;
  }
  return last;
}

/* Makes a node's outputs again before `successor`, and what it reads too, where that pays more than holding it
 * until there. */
static bool make_again(struct annealing *a, int32_t node, int32_t successor, int depth) {
  const struct timeline *t = &a->timeline;
  const int32_t run = insert(a, node, successor, false);
  if (run < 0) return false;
  spare_later_run(a, run);
  for (int32_t i = 0; depth < DEPTH_LIMIT && i < t->readings[node].read_count; i++) {
    const struct slot *slot = &t->slots[t->links[t->runs[run].first_link + i].slot];
    if (slot->last != run) continue;
    const int32_t source = t->runs[slot->run].node;
    const int64_t relief = timeline_relief(t, last_but_one(t, slot), run, slot->bytes);
    if (a->penalty * (double)relief <= t->step->nodes[source].cost) continue;
    const int32_t count = a->change_count;
    const double before = energy(a);
    if (make_again(a, source, run, depth + 1) && energy(a) >= before)
      take_back_to(a, count);
  }
  return true;
}

/* A value that lives across a run without being read there: its next reader behind the run; -1: by this draw
 * none. */
static int32_t reader_across(struct annealing *a, int32_t hot, int32_t *node) {
  const struct timeline *t = &a->timeline;
  for (int attempt = 0; attempt < 24; attempt++) {
    const int32_t run = random_run(a);
    if (run == hot || timeline_before(t, hot, run)) continue;
    const struct run *r = &t->runs[run];
    const int32_t outputs = t->step->nodes[r->node].output_count;
    if (outputs == 0) continue;
    const struct slot *slot = &t->slots[r->first_slot + (int32_t)draw(a, (uint32_t)outputs)];
    if (slot->last == run || !timeline_before(t, hot, slot->last)) continue;
    int32_t next = slot->last;
    bool busy = false;
    for (int32_t link = slot->readers; link >= 0; link = t->links[link].next) {
      const int32_t reader = t->links[link].reader;
      busy = busy || reader == hot;
      if (timeline_before(t, hot, reader) && timeline_before(t, reader, next)) next = reader;
    }
    if (busy) continue;
    *node = r->node;
    return next;
  }
  return -1;
}

static bool relieve(struct annealing *a) {
  const int32_t hot = timeline_hottest(&a->timeline, draw(a, 1u << 16));
  int32_t node = -1;
  const int32_t reader = hot >= 0 ? reader_across(a, hot, &node) : -1;
  return reader >= 0 && make_again(a, node, reader, 0);
}

static bool make_something_again(struct annealing *a) {
  const struct timeline *t = &a->timeline;
  const int32_t reader = random_run(a);
  const struct run *r = &t->runs[reader];
  const int32_t reads = t->readings[r->node].read_count;
  if (reads == 0) return false;
  const int32_t slot = t->links[r->first_link + (int32_t)draw(a, (uint32_t)reads)].slot;
  return make_again(a, t->runs[t->slots[slot].run].node, reader, 0);
}

/* Another place for a run, between what it reads and who reads it. */
static bool shift(struct annealing *a) {
  const struct timeline *t = &a->timeline;
  const int32_t run = random_run(a);
  const struct run *r = &t->runs[run];
  const int32_t node = r->node;
  int32_t after = r->previous, before = r->next >= 0 ? r->next : t->end;
  for (int32_t i = 0; i < t->readings[node].read_count; i++) {
    const int32_t source = t->slots[t->links[r->first_link + i].slot].run;
    if (after < 0 || timeline_before(t, after, source)) after = source;
  }
  for (int32_t o = 0; o < t->step->nodes[node].output_count; o++)
    for (int32_t link = t->slots[r->first_slot + o].readers; link >= 0; link = t->links[link].next)
      if (timeline_before(t, t->links[link].reader, before)) before = t->links[link].reader;
  int32_t successor = before;
  const uint32_t kind = draw(a, 8);
  if (kind == 0) {
    successor = after >= 0 ? timeline_successor(t, after) : t->blocks[t->at[0]].runs[0];
  } else if (kind >= 2) {
    successor = run;
    const bool later = draw(a, 2);
    for (uint32_t steps = 1 + draw(a, kind < 6 ? 4 : 32); steps > 0; steps--) {
      const int32_t next = later ? timeline_successor(t, successor) : timeline_predecessor(t, successor);
      if (next < 0 || (!later && next == after)) break;
      successor = next;
      if (successor == before) break;
    }
    if (later && successor != before) successor = timeline_successor(t, successor);
  }
  if (successor < 0 || successor == run || successor == timeline_successor(t, run)) return false;
  if (insert(a, node, successor, true) < 0) return false;
  return take_out(a, run);
}

static bool exchange(struct annealing *a) {
  if (!drop_repeat(a)) return false;
  for (int i = 0; i < 3 && a->timeline.excess > 0; i++) relieve(a);
  return true;
}

static bool move(struct annealing *a) {
  const bool over = a->timeline.excess > 0;
  const uint32_t kind = draw(a, 16);
  if (kind < 4) return drop_repeat(a);
  if (kind < 8) return over ? relieve(a) : make_something_again(a);
  if (kind < 9) return make_something_again(a);
  if (kind < 12) return exchange(a);
  return shift(a);
}

/* ---- Descent ---- */

/* The reader of a slot that comes next behind `run`; -1: none. */
static int32_t next_reader(const struct timeline *t, const struct slot *slot, int32_t run) {
  int32_t next = -1;
  for (int32_t link = slot->readers; link >= 0; link = t->links[link].next) {
    const int32_t reader = t->links[link].reader;
    if (timeline_before(t, run, reader) && (next < 0 || timeline_before(t, reader, next))) next = reader;
  }
  return next;
}

/* Tries to do without a run, and else to make its outputs again before each of their reads: whatever lowers
 * the energy. */
static void improve_run(struct annealing *a, int32_t run) {
  const struct timeline *t = &a->timeline;
  const struct run *r = &t->runs[run];
  const double cost = t->step->nodes[r->node].cost;
  const int32_t count = a->change_count;
  double best = energy(a);
  if (t->run_count[r->node] > 1 && take_out(a, run)) {
    if (energy(a) <= best) return;
    take_back_to(a, count);
  }
  if (!t->step->nodes[r->node].repeatable) return;
  for (int32_t o = 0; o < t->step->nodes[r->node].output_count; o++) {
    const struct slot *slot = &t->slots[r->first_slot + o];
    for (int32_t use = run, reader; (reader = next_reader(t, slot, use)) >= 0; use = reader) {
      if (a->penalty * (double)timeline_relief(t, use, reader, slot->bytes) <= cost) continue;
      best = energy(a);
      const int32_t before = a->change_count;
      if (!make_again(a, r->node, reader, 0)) break;
      if (energy(a) < best) break; /* the readers behind are another run's now */
      take_back_to(a, before);
    }
  }
}

/* Improves the runs of the nodes in [first, end) in random order. */
static neap_status sweep(struct annealing *a, int32_t first, int32_t end) {
  const struct timeline *t = &a->timeline;
  a->runs.count = 0;
  for (int32_t v = first; v < end; v++)
    for (int32_t run = t->first_run[v]; run >= 0; run = t->runs[run].next) TRY(vector_push(&a->runs, run));
  for (size_t left = a->runs.count; left > 0; left--) {
    const uint32_t pick = draw(a, (uint32_t)left);
    const int32_t run = a->runs.data[pick];
    a->runs.data[pick] = a->runs.data[left - 1];
    if (t->present_at[run] >= 0) improve_run(a, run);
  }
  return NEAP_OK;
}

/* The price of memory rises until the limit is kept; then what can be spared is. */
static neap_status descend(struct annealing *a, int32_t first, int32_t end, double penalty, double factor,
                           int rounds) {
  a->penalty = penalty;
  for (int round = 0; round < rounds && a->timeline.excess > 0; round++, a->penalty *= factor) {
    TRY(sweep(a, first, end));
    if (end - first == a->timeline.step->node_count) a->change_count = 0;
  }
  return NEAP_OK;
}

static neap_status keep(const struct annealing *a, struct schedule *out, double *cost);

/* Forgets how a stretch of the step is recomputed and finds it anew. */
static neap_status rebuild(struct annealing *a, double lowest, double highest, double temperature) {
  const struct timeline *t = &a->timeline;
  const int32_t nodes = t->step->node_count;
  int32_t width = 4 << draw(a, 6);
  if (width > nodes) width = nodes;
  const int32_t first = (int32_t)draw(a, (uint32_t)(nodes - width + 1)), end = first + width;
  const double before = t->cost;
  a->change_count = 0;
  const uint32_t share = 1 + draw(a, 4);
  for (int32_t v = first; v < end; v++) {
    if (draw(a, 4) >= share) continue;
    while (t->run_count[v] > 1)
      if (!take_out(a, t->last_run[v])) break;
  }
  const double start = lowest * pow(highest / lowest, uniform(a));
  TRY(descend(a, first, end, start, 2, 24));
  a->penalty *= 1000;
  TRY(sweep(a, first, end));
  if (t->excess > 0 || t->cost > before - temperature * log(uniform(a)) || a->change_count >= CHANGE_LIMIT) take_back_to(a, 0);
  a->gained += before - t->cost;
  return NEAP_OK;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static neap_status keep(const struct annealing *a, struct schedule *out, double *cost) {
  if (a->timeline.excess > 0 || a->timeline.cost >= *cost) return NEAP_OK;
  TRY(vector_reserve(&out->nodes, (size_t)a->timeline.length + 1));
  timeline_copy(&a->timeline, out->nodes.data);
  out->nodes.count = (size_t)a->timeline.length;
  *cost = a->timeline.cost;
  return NEAP_OK;
}

enum { ROUND = 256 };

static neap_status search(struct annealing *a, const struct anneal_options *options, struct schedule *out,
                          double *cost) {
  const double unit = a->timeline.step->base_cost / (a->timeline.step->node_count + 1);
  const double base = a->penalty;
  if (options->descend) {
    const int32_t nodes = a->timeline.step->node_count;
    const bool given = a->timeline.excess == 0;
    TRY(descend(a, 0, nodes, base * 0.1, 1.12, 120));
    if (given) TRY(keep(a, out, cost));
    const double highest = given ? base * 1000 : a->penalty * 4;
    a->penalty *= 1000;
    TRY(sweep(a, 0, nodes));
    TRY(keep(a, out, cost));
    fprintf(stderr,"descent: %.4f %.3g %.3g\n",*cost/a->timeline.step->base_cost,base,highest);
    for (int64_t i = 0; i < options->moves; i++) {
      TRY(rebuild(a, base * 0.5, highest, options->hot*a->timeline.step->base_cost*pow(0.01, (double)i/(double)options->moves)));
      TRY(keep(a, out, cost));
      if(i%(options->moves/10)==0) fprintf(stderr," %ld %.4f\n",i,*cost/a->timeline.step->base_cost);
    }
    return NEAP_OK;
  }
  TRY(keep(a, out, cost));
  for (int64_t i = 0, feasible = 0; i < options->moves; i++) {
    const double done = (double)i / (double)options->moves;
    const double temperature = unit * options->hot * pow(options->cold / options->hot, done);
    const double before = energy(a);
    a->change_count = 0;
    const bool moved = move(a);
    const double worse = energy(a) - before;
    if (!moved || (worse > 0 && uniform(a) >= exp(-worse / temperature)))
      take_back_to(a, 0);
    else if (a->timeline.excess == 0)
      TRY(keep(a, out, cost));
    feasible += a->timeline.excess == 0;
    if (i % ROUND != ROUND - 1) continue;
    if (options->deadline > 0 && now() > options->deadline) break;
    if (feasible < ROUND / 4) a->penalty *= 1.1;
    if (feasible > ROUND / 2) a->penalty /= 1.1;
    feasible = 0;
  }
  return NEAP_OK;
}

neap_status anneal(const neap_step *step, uint64_t limit, const struct schedule *start,
                   const struct anneal_options *options, struct schedule *out, double *cost) {
  struct annealing *a = calloc(1, sizeof *a);
  RETURN_IF(a == NULL, NEAP_OUT_OF_MEMORY, "anneal: out of memory");
  const int32_t length = (int32_t)start->nodes.count;
  a->random = options->seed * 2654435761u + 1;
  *cost = INFINITY;
  out->nodes.count = 0;
  neap_status status =
      timeline_create(step, limit, start->nodes.data, length, 2 * step->node_count + 1024, &a->timeline);
  double area = 1;
  if (status == NEAP_OK) {
    for (int32_t i = 0; i < a->timeline.length; i++)
      area += (double)timeline_live(&a->timeline, a->timeline.present[i]);
    a->penalty = 2 * step->base_cost / area;
    status = search(a, options, out, cost);
  }
  timeline_free(&a->timeline);
  vector_free(&a->runs);
  free(a);
  return status;
}
