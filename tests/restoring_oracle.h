/* An oracle for plans of chains whose values may be restored (restoring_step.h): a clock of its own for any
 * schedule, and an exhaustive search. They share no code with the library but the step.
 *
 * The search walks over states (nodes that have run, values that are there, stores that have begun or ended,
 * and by how much the lane is behind), the cheapest first. A chain's nodes have one order. What may happen in
 * a state: the next node runs, a forward node runs again, or a restorer begins. Where there is no room for
 * what that makes, a least set of values is dropped, of which no part would do. A value whose store has begun
 * waits for its end then: to end it earlier is never better, and the value lives until then in any case. Of
 * two states that differ only in times, one that is nowhere later makes the other superfluous. */
#ifndef NEAP_TESTS_RESTORING_ORACLE_H
#define NEAP_TESTS_RESTORING_ORACLE_H

#include <math.h>
#include <stdlib.h>

#include "base/vector.h"
#include "restoring_step.h"

/* ---- Two clocks ---- */

/* Returns the position below `before` that makes the instance of `tensor` that is there; -1: none. */
static inline int32_t clocked_maker(const neap_step *step, const int32_t *schedule, int32_t before,
                                    int32_t tensor) {
  for (int32_t p = before - 1; p >= 0; p--)
    for (int32_t i = 0; i < step->nodes[schedule[p]].output_count; i++)
      if (step->nodes[schedule[p]].outputs[i] == tensor) return p;
  return -1;
}

static inline int32_t clocked_begin(const neap_step *step, const int32_t *schedule, int32_t p) {
  const struct step_node *node = &step->nodes[schedule[p]];
  int32_t begin = 0;
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t maker = clocked_maker(step, schedule, p, node->inputs[i]);
    if (maker > begin) begin = maker;
  }
  return begin;
}

/* Returns when the last node of a valid schedule has ended, by the rules of step/step.h. */
static inline double clocked_cost(const neap_step *step, const int32_t *schedule, int32_t length) {
  double now = 0, lane = 0, *ended = calloc((size_t)length + 1, sizeof *ended);
  assert_non_null(ended);
  for (int32_t p = 0; p < length; p++) {
    const struct step_node *node = &step->nodes[schedule[p]];
    const bool job = node->transfers, restores = job && step->maker[schedule[p]] != schedule[p];
    for (int32_t i = 0; i < node->input_count; i++) {
      const int32_t maker = clocked_maker(step, schedule, p, node->inputs[i]);
      const int32_t v = maker < 0 ? -1 : schedule[maker];
      if (maker >= 0 && step->nodes[v].transfers && step->maker[v] != v) now = fmax(now, ended[maker]);
    }
    if (restores) lane = ended[p] = fmax(lane, now) + node->cost;
    if (job && !restores) now = fmax(now, ended[p]);
    if (!job) now += node->cost;
    for (int32_t q = p + 1; q < length; q++) {
      const int32_t v = schedule[q];
      if (!step->nodes[v].transfers || step->maker[v] != v || clocked_begin(step, schedule, q) != p) continue;
      lane = ended[q] = fmax(lane, now) + step->nodes[v].cost;
    }
  }
  free(ended);
  return now;
}

/* ---- Exhaustive search in a chain ---- */

enum { ORACLE_FORWARD = 8, ORACLE_TABLE = 1 << 16 };

struct oracle_state {
  uint8_t ran;                    /* nodes that have run, in their order */
  uint8_t present, begun, stored; /* forward values; stores that have begun and not ended; that have ended */
  int32_t now, lane;              /* until when the nodes and the lane are busy */
  int32_t ready[ORACLE_FORWARD];  /* by value: when its store, or its restorer, has ended; 0: neither runs */
};

struct oracle_visit {
  struct oracle_state state;
  int32_t parent, node; /* before it, and the node that has run since; -1: none */
  int32_t next, alike;  /* others of its bucket, and of its place in the table; -1: none */
};

struct oracle {
  const neap_step *step;
  int32_t forward, limit, most;           /* bytes; time that is of interest */
  int32_t left[2 * ORACLE_FORWARD + 1];   /* cost of the nodes from here on */
  uint8_t useful[2 * ORACLE_FORWARD + 1]; /* values that these may need */
  VECTOR(struct oracle_visit) visits;
  int32_t *buckets; /* by the least time at the end: the visits to go on from */
  int32_t table[ORACLE_TABLE];
};

static inline int32_t oracle_bytes(const struct oracle *o, int32_t tensor) {
  return (int32_t)o->step->tensors[tensor].bytes;
}

/* Returns the bytes of what is there: forward values, and the gradient that was made last. */
static inline int32_t oracle_held(const struct oracle *o, const struct oracle_state *s) {
  int32_t held = s->ran > o->forward ? oracle_bytes(o, s->ran) : 0;
  for (int32_t i = 0; i < o->forward; i++)
    if (s->present >> i & 1) held += oracle_bytes(o, 1 + i);
  return held;
}

static inline bool oracle_is_no_later(const struct oracle *o, const struct oracle_state *a,
                                      const struct oracle_state *b) {
  bool no_later = a->now <= b->now && a->lane <= (b->lane > b->now ? b->lane : b->now);
  for (int32_t i = 0; i < o->forward; i++)
    no_later = no_later && a->ready[i] <= (b->ready[i] > b->now ? b->ready[i] : b->now);
  return no_later;
}

static inline int32_t oracle_record(struct oracle *o, struct oracle_visit visit) {
  ASSERT_OK(vector_push(&o->visits, visit));
  return (int32_t)o->visits.count - 1;
}

static inline void oracle_add(struct oracle *o, struct oracle_state s, int32_t parent, int32_t node) {
  const int32_t least = s.now + o->left[s.ran];
  const uint8_t useful = o->useful[s.ran];
  if (least > o->most || (s.begun & ~useful)) return; /* a store in vain is no better than none */
  s.present &= useful;
  s.stored &= useful;
  const uint32_t key = s.ran | (uint32_t)s.present << 8 | (uint32_t)s.begun << 16 | (uint32_t)s.stored << 24;
  int32_t *place = &o->table[(key * 2654435761u) >> 16];
  for (int32_t i = *place; i >= 0; i = o->visits.data[i].alike) {
    const struct oracle_state *other = &o->visits.data[i].state;
    if (other->ran == s.ran && other->present == s.present && other->begun == s.begun &&
        other->stored == s.stored && oracle_is_no_later(o, other, &s))
      return;
  }
  o->buckets[least] = *place =
      oracle_record(o, (struct oracle_visit){s, parent, node, o->buckets[least], *place});
}

/* Begins a job of a value. Returns false if it would end too late to be of use. */
static inline bool oracle_begin(const struct oracle *o, struct oracle_state *s, int32_t value, int32_t job) {
  const double ends = (s->lane > s->now ? s->lane : s->now) + o->step->nodes[job].cost;
  if (ends > o->most) return false;
  s->ready[value] = s->lane = (int32_t)ends;
  return true;
}

/* Drops values. `*visit`: the last store that ends with that. */
static inline void oracle_drop(struct oracle *o, uint32_t values, struct oracle_state *s, int32_t *visit) {
  for (int32_t i = 0; i < o->forward; i++) {
    if (!(values >> i & 1)) continue;
    if (s->begun >> i & 1) {
      if (s->ready[i] > s->now) s->now = s->ready[i];
      s->stored |= (uint8_t)(1 << i);
      *visit = oracle_record(o, (struct oracle_visit){*s, *visit, o->step->store[i], -1, -1});
    }
    s->ready[i] = 0;
  }
  s->present &= (uint8_t)~values;
  s->begun &= (uint8_t)~values;
}

/* Finds the next set, from `set` on, of values besides `kept` that must go for `bytes` more to fit, and of
 * which no part would do. Returns -1 if no such set exists. */
static inline int32_t oracle_next_set(const struct oracle *o, const struct oracle_state *s, uint32_t kept,
                                      int32_t bytes, int32_t set) {
  const int32_t excess = oracle_held(o, s) + bytes - o->limit;
  for (; set < 1 << o->forward; set++) {
    int32_t freed = 0, least = INT32_MAX;
    for (int32_t i = 0; i < o->forward; i++) {
      if (!(set >> i & 1)) continue;
      freed += oracle_bytes(o, 1 + i);
      if (oracle_bytes(o, 1 + i) < least) least = oracle_bytes(o, 1 + i);
    }
    const bool may = !((uint32_t)set & (kept | ~(uint32_t)s->present));
    if (may && freed >= excess && (set == 0 || freed - least < excess)) return set;
  }
  return -1;
}

/* Runs the next node, or a forward node again, in a state that has room; without and with the begin of its
 * store. */
static inline void oracle_run_in(struct oracle *o, struct oracle_state s, int32_t visit, int32_t v) {
  const struct step_node *node = &o->step->nodes[v];
  for (int32_t i = 0; i < node->input_count; i++) {
    const int32_t value = node->inputs[i] - 1;
    if (value < 0 || value >= o->forward || (s.begun >> value & 1)) continue;
    if (s.ready[value] > s.now) s.now = s.ready[value];
  }
  s.now += (int32_t)node->cost;
  if (v == s.ran) s.ran++;
  if (v < o->forward) s.present |= (uint8_t)(1 << v);
  oracle_add(o, s, visit, v);
  if (v >= o->forward || ((s.stored | s.begun) >> v & 1)) return;
  if (!oracle_begin(o, &s, v, o->step->store[v])) return;
  s.begun |= (uint8_t)(1 << v);
  oracle_add(o, s, visit, v);
}

static inline void oracle_run(struct oracle *o, int32_t from, int32_t v) {
  const struct oracle_state s = o->visits.data[from].state;
  const struct step_node *node = &o->step->nodes[v];
  uint32_t kept = 0;
  if (v < s.ran && (s.present >> v & 1)) return;
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] >= 1 && node->inputs[i] <= o->forward) kept |= 1u << (node->inputs[i] - 1);
  if (kept & ~(uint32_t)s.present) return;
  const int32_t bytes = oracle_bytes(o, node->outputs[0]);
  for (int32_t set = 0; (set = oracle_next_set(o, &s, kept, bytes, set)) >= 0; set++) {
    struct oracle_state roomy = s;
    int32_t visit = from;
    oracle_drop(o, (uint32_t)set, &roomy, &visit);
    oracle_run_in(o, roomy, visit, v);
  }
}

static inline void oracle_restore(struct oracle *o, int32_t from, int32_t value) {
  const struct oracle_state s = o->visits.data[from].state;
  const int32_t bytes = oracle_bytes(o, 1 + value);
  if ((s.present >> value & 1) || !(s.stored >> value & 1)) return;
  for (int32_t set = 0; (set = oracle_next_set(o, &s, 0, bytes, set)) >= 0; set++) {
    struct oracle_state roomy = s;
    int32_t visit = from;
    oracle_drop(o, (uint32_t)set, &roomy, &visit);
    roomy.present |= (uint8_t)(1 << value);
    if (oracle_begin(o, &roomy, value, o->step->restorer[value]))
      oracle_add(o, roomy, visit, o->step->restorer[value]);
  }
}

static inline void oracle_trace(const struct oracle *o, int32_t visit, int32_t *schedule, int32_t *length) {
  *length = 0;
  for (int32_t i = visit; o->visits.data[i].parent >= 0; i = o->visits.data[i].parent)
    schedule[(*length)++] = o->visits.data[i].node;
  for (int32_t i = 0; i < *length / 2; i++) {
    const int32_t node = schedule[i];
    schedule[i] = schedule[*length - 1 - i];
    schedule[*length - 1 - i] = node;
  }
}

/* Returns the first visit that is taken with all nodes run; -1: none. */
static inline int32_t oracle_walk(struct oracle *o) {
  for (int32_t least = 0; least <= o->most;) {
    const int32_t from = o->buckets[least];
    if (from < 0) {
      least++;
      continue;
    }
    o->buckets[least] = o->visits.data[from].next;
    const int32_t ran = o->visits.data[from].state.ran;
    if (ran == o->step->required_count) return from;
    oracle_run(o, from, ran);
    for (int32_t i = 0; i < o->forward; i++) {
      if (i < ran) oracle_run(o, from, i);
      oracle_restore(o, from, i);
    }
  }
  return -1;
}

/* Finds the least cost, of at most `most`, of a schedule of a restoring_chain within `limit` bytes of values,
 * and one that has it. -1: none is as cheap. */
static inline double oracle_least(const neap_step *step, uint64_t limit, double most, int32_t *schedule,
                                  int32_t *length) {
  static struct oracle o;
  o = (struct oracle){.step = step,
                      .forward = step->required_count / 2,
                      .limit = (int32_t)limit,
                      .most = (int32_t)floor(most + 0.5)};
  o.buckets = malloc(((size_t)o.most + 1) * sizeof *o.buckets);
  assert_true(o.buckets != NULL && o.forward <= ORACLE_FORWARD);
  memset(o.table, -1, sizeof o.table);
  memset(o.buckets, -1, ((size_t)o.most + 1) * sizeof *o.buckets);
  for (int32_t v = step->required_count - 1; v >= 0; v--) {
    o.left[v] = o.left[v + 1] + (int32_t)step->nodes[v].cost;
    o.useful[v] = o.useful[v + 1];
    for (int32_t i = 0; i < step->nodes[v].input_count; i++) {
      const int32_t t = step->nodes[v].inputs[i]; /* and what it is made of */
      if (t >= 1 && t <= o.forward) o.useful[v] |= (uint8_t)((1 << t) - 1);
    }
  }
  oracle_add(&o, (struct oracle_state){0}, -1, -1);
  const int32_t last = oracle_walk(&o);
  const double cost = last < 0 ? -1 : o.visits.data[last].state.now;
  if (last >= 0) oracle_trace(&o, last, schedule, length);
  vector_free(&o.visits);
  free(o.buckets);
  return cost;
}

#endif
