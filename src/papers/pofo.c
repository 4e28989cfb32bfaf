#include "papers/pofo.h"

#include <math.h>

#include "base/stop.h"

/* A state; `kept` is A, `sending` f, `owed` g. */
struct state {
  int32_t stage, kept, sending, owed;
  bool inside;
};

/* A decision in a state: its stage keeps all if `next.inside`; else the stages before the next one are made
 * again. */
struct decision {
  struct state next;
  bool stores;    /* the input */
  int32_t within; /* the slots for the backward pass of stages that are made again */
};

struct pofo {
  const struct pofo_chain *chain;
  struct rotor *rotor;
  struct region region;
  float **least; /* by stage, inside and kept: [sending][owed], negative where not known yet; NULL: none is */
  bool failed;   /* memory ran out */
};

static const float NOWAY = INFINITY;

/* Returns where the least cost from a state on is kept; NULL if memory ran out. */
static float *entry_of(struct pofo *p, struct state at) {
  const size_t size = (size_t)p->chain->slots + 1;
  float **plane = &p->least[((size_t)at.stage * 2 + at.inside) * size + (size_t)at.kept];
  if (*plane == NULL) {
    *plane = region_alloc(&p->region, size * size, sizeof **plane);
    p->failed = p->failed || *plane == NULL;
    if (*plane == NULL) return NULL;
    for (size_t i = 0; i < size * size; i++) (*plane)[i] = -1;
  }
  return &(*plane)[(size_t)at.sending * size + (size_t)at.owed];
}

static int32_t largest(int32_t a, int32_t b) { return a > b ? a : b; }

/* Returns the slots that move in a time. */
static int32_t moved(const struct pofo *p, double rate, double time) {
  const double slots = rate * time;
  return slots < p->chain->slots ? (int32_t)(slots + 0.5) : p->chain->slots;
}

static float wait_for(int32_t slots, double rate) { return slots <= 0 ? 0 : (float)(slots / rate); }

static const struct rotor_mode *mode_of(const struct pofo *p, int32_t stage) {
  return &p->chain->stages[stage].modes[0];
}

/* Returns the slots of a state's input, and of those the ones that can be stored. */
static int32_t input_of(const struct pofo *p, struct state at, int32_t *stored) {
  const struct pofo_chain *c = p->chain;
  const int32_t inside = at.inside ? mode_of(p, at.stage - 1)->options[0].kept : 0,
                input = c->stages[at.stage].input + inside;
  const int32_t can = c->input_stored[at.stage] + (at.inside ? c->inside_stored[at.stage - 1] : 0);
  *stored = can < input ? can : input;
  return input;
}

static float least_from(struct pofo *p, struct state at, struct decision *best);

/* A way on from a state, but for the choice whether its input is stored. */
struct way {
  int32_t until; /* the stage that comes next */
  bool keeps;
  int32_t within;
  float time;
  int32_t sent, got; /* slots that leave and arrive meanwhile */
};

/* Takes a way if it is the cheapest, with the input kept or stored. */
static void offer(struct pofo *p, struct state at, struct way way, float *least, struct decision *best) {
  int32_t storable;
  const int32_t input = input_of(p, at, &storable);
  for (int stores = 0; stores <= (storable > 0); stores++) {
    const int32_t moves = stores ? storable : 0;
    const struct state next = {.stage = way.until,
                               .kept = at.kept + input - moves,
                               .sending = largest(0, at.sending + moves - way.sent),
                               .owed = largest(0, at.owed - way.got) + moves,
                               .inside = way.keeps};
    if (next.kept + next.sending > p->chain->slots || next.owed > p->chain->slots) continue;
    const float cost = way.time + least_from(p, next, NULL);
    if (cost >= *least) continue;
    *least = cost;
    *best = (struct decision){next, stores, way.within};
  }
}

/* The last stage runs forward and backward, and what is left to move is waited for. */
static float end_at(const struct pofo *p, struct state at) {
  const struct pofo_chain *c = p->chain;
  int32_t storable;
  const struct rotor_leaf *leaf = &mode_of(p, at.stage)->leaves[0];
  const float forward = mode_of(p, at.stage)->forward_cost;
  const int32_t room = c->slots - at.kept - input_of(p, at, &storable);
  if (leaf->peak > room) return NOWAY;
  const int32_t sending = largest(largest(0, leaf->peak - room + at.sending),
                                  at.sending - moved(p, c->write, forward)),
                owed = largest(largest(0, leaf->peak - room + at.owed),
                               at.owed - moved(p, c->read, leaf->cost - forward));
  return leaf->cost + wait_for(sending, c->write) + wait_for(owed, c->read);
}

static void offer_keep(struct pofo *p, struct state at, int32_t room, float *least, struct decision *best) {
  const struct pofo_chain *c = p->chain;
  const struct rotor_mode *mode = mode_of(p, at.stage);
  const struct rotor_option *option = &mode->options[0];
  const int32_t forward = largest(option->forward_peak + c->stages[c->count - 1].gradient,
                                  option->kept + c->stages[at.stage + 1].input);
  if (largest(forward, option->backward_peak) > room) return;
  const int32_t leaving = largest(0, forward - room + at.sending),
                arriving = largest(0, option->backward_peak - room + at.owed);
  const float back = option->cost - mode->forward_cost;
  offer(p, at,
        (struct way){.until = at.stage + 1,
                     .keeps = true,
                     .time = option->cost + wait_for(leaving, c->write) + wait_for(arriving, c->read),
                     .sent = moved(p, c->write, mode->forward_cost) + leaving,
                     .got = moved(p, c->read, back) + arriving},
        least, best);
}

/* Stages at.stage .. until - 1 run forward in `peak` slots and `time`, and are made again later. */
static void offer_later(struct pofo *p, struct state at, int32_t room, int32_t until, int32_t peak,
                        float time, float *least, struct decision *best) {
  const struct pofo_chain *c = p->chain;
  const int32_t leaving = largest(0, peak - room + at.sending);
  int32_t former = -1;
  for (int half = 0; half <= 2; half++) {
    const int32_t there = at.owed * half / 2, within = room - there;
    if (there == former || within < 0) continue;
    former = there;
    const float again = rotor_part_cost(p->rotor, at.stage, until - 1, within);
    if (again == NOWAY) continue;
    offer(
        p, at,
        (struct way){.until = until,
                     .within = within,
                     .time = time + again + wait_for(leaving, c->write) + wait_for(at.owed - there, c->read),
                     .sent = moved(p, c->write, time) + leaving,
                     .got = at.owed - there + moved(p, c->read, again)},
        least, best);
  }
}

/* Returns the least cost from a state on; `best` not NULL: and the decision that reaches it. */
static float least_from(struct pofo *p, struct state at, struct decision *best) {
  const struct pofo_chain *c = p->chain;
  float *entry = entry_of(p, at), least = NOWAY, time = 0;
  struct decision decision = {0};
  int32_t storable, peak = 0;
  if (entry == NULL) return NOWAY;
  if (best == NULL && *entry >= 0) return *entry;
  if (at.stage == c->count - 1) return *entry = end_at(p, at);
  const int32_t room = c->slots - at.kept - input_of(p, at, &storable);
  if (room >= 0 && !stop_is_requested()) {
    offer_keep(p, at, room, &least, &decision);
    for (int32_t j = at.stage + 1; j < c->count; j++) {
      const struct rotor_mode *mode = mode_of(p, j - 1);
      const int32_t gradient = c->stages[c->count - 1].gradient;
      peak = largest(peak, mode->forward_peak + (j - 1 > at.stage ? c->stages[j - 1].input : 0) + gradient);
      time += mode->forward_cost;
      if (peak > room) break;
      offer_later(p, at, room, j, peak, time, &least, &decision);
    }
  }
  if (best != NULL) *best = decision;
  return *entry = least;
}

/* Appends the operations from a state on. */
static neap_status trace(struct pofo *p, struct state at, chain_operations *out, enum pofo_stored *stored) {
  struct decision d;
  if (at.stage == p->chain->count - 1)
    return vector_push(out, (struct chain_operation){CHAIN_LEAF, at.stage, 0, 0});
  least_from(p, at, &d);
  if (d.stores) stored[at.stage] = at.inside ? POFO_INPUT_AND_INSIDE : POFO_INPUT;
  if (d.next.inside) {
    TRY(vector_push(out, (struct chain_operation){CHAIN_FORWARD_KEEP, at.stage, 0, 0}));
    TRY(trace(p, d.next, out, stored));
    return vector_push(out, (struct chain_operation){CHAIN_BACKWARD, at.stage, 0, 0});
  }
  for (int32_t s = at.stage; s < d.next.stage; s++)
    TRY(vector_push(out, (struct chain_operation){CHAIN_FORWARD, s, 0, -1}));
  TRY(trace(p, d.next, out, stored));
  return rotor_part_trace(p->rotor, at.stage, d.next.stage - 1, d.within, out);
}

static neap_status solve(struct pofo *p, float *cost, chain_operations *out, enum pofo_stored *stored) {
  const struct state begin = {0};
  *cost = least_from(p, begin, NULL);
  TRY(stop_check());
  RETURN_IF(p->failed, NEAP_OUT_OF_MEMORY, "pofo: out of memory for its tables");
  RETURN_IF(*cost == NOWAY, NEAP_OVER_BUDGET, "pofo: the chain cannot be run in %d slots", p->chain->slots);
  return trace(p, begin, out, stored);
}

neap_status pofo_solve(const struct pofo_chain *chain, float *cost, chain_operations *out,
                       enum pofo_stored *stored) {
  struct pofo p = {.chain = chain};
  p.least = region_alloc(&p.region, 2 * (size_t)chain->count * ((size_t)chain->slots + 1), sizeof *p.least);
  RETURN_IF(p.least == NULL, NEAP_OUT_OF_MEMORY, "pofo: out of memory for its tables");
  for (int32_t s = 0; s < chain->count; s++) stored[s] = POFO_NOTHING;
  neap_status status = rotor_create(chain->stages, chain->count, 1, chain->slots, &p.rotor);
  if (status == NEAP_OK) status = solve(&p, cost, out, stored);
  rotor_free(p.rotor);
  region_free(&p.region);
  return status;
}
