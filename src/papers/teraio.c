/* TeraIO (2506.06472), sections 2 and 3: a static plan of transfers for any graph, in the step's own order;
 * nothing is recomputed. Takes, again and again, the idle interval of a value with the best benefit per cost,
 * until no position is above the budget. The benefit is the integral, over the time that the value is away,
 * of those of its bytes by which the memory is above the budget; the cost is the time to write and to read
 * it. Transfers run beside the nodes: writing uses up time of the nodes behind the one that made the value,
 * reading time of those before its next reader, and the value is away in between. So an interval shrinks by
 * the time that is given away already. Where no such interval helps, one is taken as far as memory is
 * above the budget, and nodes wait.
 *
 * A position is a node of the order. What a node makes is moved together. */
#include "papers/teraio.h"

#include <math.h>

#include "base/stop.h"
#include "papers/contest.h"

/* The time of a node that costs nothing, in an integral over time: a share of the mean cost. */
static const double FREE_TIME = 1e-6;

/* A node's outputs between two of their uses. */
struct interval {
  int32_t maker;
  int32_t after, before; /* the uses; `before`: the number of positions at the end of the step */
  int32_t from, end;     /* away at positions from .. end - 1; none yet if they are equal */
  uint64_t bytes;        /* of the outputs that are used again */
};

/* A way to take an interval. */
struct offer {
  int32_t from, end; /* positions */
  double worth;      /* benefit per cost; 0: it does not help */
};

struct traffic {
  const neap_step *step;
  uint64_t capacity; /* for values */
  int32_t length;
  double moment;    /* FREE_TIME of this step */
  uint64_t *live;   /* by position */
  double *left;     /* by position: time of the lane that is not given away */
  int32_t *written; /* by node: its store ends before this position; length: it is not stored */
  VECTOR(struct interval) intervals;
  VECTOR(int32_t) uses;
};

/* ---- Idle intervals ---- */

static int compare_ids(const void *a, const void *b) {
  const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* Returns the position that uses a tensor last. */
static int32_t last_use(const struct traffic *t, int32_t tensor) {
  int32_t last = t->step->tensors[tensor].producer;
  if (t->step->tensors[tensor].is_output) return t->length;
  for (int32_t i = t->step->reader_start[tensor]; i < t->step->reader_start[tensor + 1]; i++)
    if (t->step->readers[i] < t->length) last = t->step->readers[i];
  return last;
}

static neap_status list_uses(struct traffic *t, int32_t v) {
  const struct step_node *node = &t->step->nodes[v];
  t->uses.count = 0;
  TRY(vector_push(&t->uses, v));
  for (int32_t o = 0; o < node->output_count; o++) {
    const int32_t tensor = node->outputs[o];
    for (int32_t i = t->step->reader_start[tensor]; i < t->step->reader_start[tensor + 1]; i++)
      if (t->step->readers[i] < t->length) TRY(vector_push(&t->uses, t->step->readers[i]));
    if (t->step->tensors[tensor].is_output) TRY(vector_push(&t->uses, t->length));
  }
  qsort(t->uses.data, t->uses.count, sizeof *t->uses.data, compare_ids);
  return NEAP_OK;
}

static neap_status list_intervals(struct traffic *t, int32_t v) {
  const struct step_node *node = &t->step->nodes[v];
  TRY(list_uses(t, v));
  for (size_t i = 1; i < t->uses.count; i++) {
    struct interval interval = {.maker = v, .after = t->uses.data[i - 1], .before = t->uses.data[i]};
    if (interval.before <= interval.after + 1) continue;
    for (int32_t o = 0; o < node->output_count; o++)
      if (last_use(t, node->outputs[o]) >= interval.before)
        interval.bytes += t->step->tensors[node->outputs[o]].bytes;
    TRY(vector_push(&t->intervals, interval));
  }
  return NEAP_OK;
}

/* ---- The lane ---- */

/* Returns the position before which a write of what a node made has ended, in time that is left behind it; at
 * most `before`. `takes`: that time is given away. */
static int32_t write_end(const struct traffic *t, int32_t v, int32_t before, bool takes) {
  double rest = t->step->nodes[t->step->store[v]].cost;
  int32_t at = v + 1;
  for (; at < before && rest > 0; at++) {
    const double part = fmin(rest, t->left[at]);
    rest -= part;
    if (takes) t->left[at] -= part;
  }
  return rest > 0 ? before : at;
}

/* Returns the position before which a read begins, to end in time that is left before `before`; at least the
 * one behind `after`. */
static int32_t read_begin(const struct traffic *t, int32_t v, int32_t after, int32_t before, bool takes) {
  double rest = t->step->nodes[t->step->restorer[v]].cost;
  int32_t at = before;
  for (; at > after + 1 && rest > 0; at--) {
    const double part = fmin(rest, t->left[at - 1]);
    rest -= part;
    if (takes) t->left[at - 1] -= part;
  }
  return rest > 0 ? after + 1 : at;
}

/* ---- The choice ---- */

/* Returns the integral of the bytes above the capacity that an interval would remove from positions. */
static double benefit(const struct traffic *t, const struct interval *i, int32_t from, int32_t end) {
  double sum = 0;
  for (int32_t at = from; at < end; at++) {
    if ((at >= i->from && at < i->end) || t->live[at] <= t->capacity) continue;
    const uint64_t above = t->live[at] - t->capacity;
    sum += (double)(above < i->bytes ? above : i->bytes) * (t->step->nodes[at].cost + t->moment);
  }
  return sum;
}

/* Returns the part of an interval that the time that is left allows; of one that is taken, what it has. */
static struct offer part_of(const struct traffic *t, const struct interval *i) {
  const int32_t v = i->maker;
  if (i->from < i->end) return (struct offer){i->from, i->end, 0};
  const int32_t written = t->written[v] < i->before ? t->written[v] : write_end(t, v, i->before, false);
  return (struct offer){written > i->after ? written : i->after + 1,
                        read_begin(t, v, i->after, i->before, false), 0};
}

/* Returns how an interval would be taken: within the time that is left, or (`waits`) wherever memory is above
 * the budget. */
static struct offer offer_of(const struct traffic *t, const struct interval *i, bool waits) {
  const int32_t v = i->maker;
  const double read = t->step->nodes[t->step->restorer[v]].cost,
               write = t->step->nodes[t->step->store[v]].cost;
  struct offer offer = part_of(t, i);
  for (int32_t at = i->after + 1; waits && at < i->before; at++) {
    if (t->live[at] <= t->capacity) continue;
    if (at < offer.from) offer.from = at;
    if (at >= offer.end) offer.end = at + 1;
  }
  const double cost = read + (t->written[v] <= offer.from ? 0 : write) + t->moment;
  offer.worth = benefit(t, i, offer.from, offer.end) / cost;
  return offer;
}

static void take(struct traffic *t, struct interval *i, struct offer offer) {
  const int32_t v = i->maker;
  if (t->written[v] == t->length) write_end(t, v, i->before, true);
  if (t->written[v] > offer.from) t->written[v] = offer.from;
  if (i->from == i->end) read_begin(t, v, i->after, i->before, true);
  for (int32_t at = offer.from; at < offer.end; at++)
    if (at < i->from || at >= i->end) t->live[at] -= i->bytes;
  i->from = offer.from;
  i->end = offer.end;
}

/* Takes the best interval. Returns false if none helps. */
static bool take_best(struct traffic *t, bool waits) {
  struct interval *best = NULL;
  struct offer best_offer = {0};
  for (size_t i = 0; i < t->intervals.count; i++) {
    const struct offer offer = offer_of(t, &t->intervals.data[i], waits);
    if (offer.worth > best_offer.worth) best = &t->intervals.data[i], best_offer = offer;
  }
  if (best != NULL) take(t, best, best_offer);
  return best != NULL;
}

static neap_status take_all(struct traffic *t) {
  bool taken = true;
  while (taken) {
    TRY(stop_check());
    taken = take_best(t, false) || take_best(t, true);
  }
  return NEAP_OK;
}

/* ---- The schedule ---- */

static neap_status emit(const struct traffic *t, struct schedule *out) {
  for (int32_t at = 0; at <= t->length; at++) {
    for (int32_t v = 0; v < at && at < t->length; v++)
      if (t->written[v] == at) TRY(vector_push(&out->nodes, t->step->store[v]));
    for (size_t k = 0; k < t->intervals.count; k++) {
      const struct interval *i = &t->intervals.data[k];
      if (i->end == at && i->from < at) TRY(vector_push(&out->nodes, t->step->restorer[i->maker]));
    }
    if (at < t->length) TRY(vector_push(&out->nodes, at));
  }
  return NEAP_OK;
}

/* Finds what lives at each position of the step's own order, and the idle intervals. */
static neap_status traffic_create(const neap_step *step, uint64_t capacity, struct simulator *simulator,
                                  struct region *region, struct traffic *t) {
  const size_t nodes = (size_t)step->required_count + 1;
  struct simulation score;
  *t = (struct traffic){.step = step, .capacity = capacity, .length = step->required_count};
  t->moment = FREE_TIME * step->base_cost / (double)nodes + 1e-300;
  t->live = region_alloc(region, nodes, sizeof *t->live);
  t->left = region_alloc(region, nodes, sizeof *t->left);
  t->written = region_alloc(region, nodes, sizeof *t->written);
  RETURN_IF(!t->live || !t->left || !t->written, NEAP_OUT_OF_MEMORY, "teraio: out of memory");
  for (int32_t v = 0; v < t->length; v++) t->written[v] = v; /* the order, for now */
  TRY(simulator_run(simulator, t->written, t->length, &score));
  for (int32_t v = 0; v < t->length; v++) {
    t->live[v] = simulator->live.data[v];
    t->left[v] = step->nodes[v].transfers ? 0 : step->nodes[v].cost;
    t->written[v] = t->length;
    if (step->restorer[v] >= 0) TRY(list_intervals(t, v));
  }
  return NEAP_OK;
}

static neap_status plan_transfers(const neap_step *step, struct contest *contest) {
  struct region region = {0};
  struct traffic traffic = {0};
  struct schedule schedule = {0};
  neap_status status =
      traffic_create(step, contest->budget - step->resident_bytes, &contest->simulator, &region, &traffic);
  if (status == NEAP_OK) status = take_all(&traffic);
  if (status == NEAP_OK) status = emit(&traffic, &schedule);
  if (status == NEAP_OK) status = contest_offer(contest, &schedule);
  vector_free(&traffic.intervals);
  vector_free(&traffic.uses);
  schedule_free(&schedule);
  region_free(&region);
  return status;
}

neap_status plan_teraio(const neap_step *step, uint64_t budget, const struct planner_options *options,
                        struct schedule *out) {
  RETURN_IF(budget < step->resident_bytes, NEAP_OVER_BUDGET,
            "teraio: the resident tensors alone need %llu bytes", (unsigned long long)step->resident_bytes);
  struct contest contest;
  neap_status status = contest_create(step, budget, options, out, &contest);
  if (status == NEAP_OK) status = plan_transfers(step, &contest);
  if (status == NEAP_OK) status = contest_result(&contest, "teraio");
  contest_free(&contest);
  return status;
}
