/* Kusumoto, Inoue, Watanabe, Akiba, Koyama 2019: the dynamic programme over increasing sequences of lower
 * sets (sections 4.1 to 4.4). opt[L][t] is the least bytes that stay behind a strategy that has reached the
 * lower set L with overhead t; a segment is admissible within the programme's own budget B when what stays
 * and the segment's peak fit in it. At V the least overhead is chosen (time-centric) or the largest
 * (memory-centric), which leaves liveness the most room. B is not the caller's budget: in-place pairs and
 * liveness make the exact peak lower, by how much differs; so B is swept and every strategy scored exactly.
 * The strategies do not depend on the caller's budget. */
#include <math.h>
#include <string.h>

#include "plan/contest.h"
#include "plan/lower_set.h"
#include "plan/planners.h"

/* ---- The programme ---- */

/* A point of the Pareto front of a lower set. */
struct point {
  double overhead;
  uint64_t kept;
  int32_t set, from; /* its own set; the point before it, -1 for {} */
};

enum { LEAST_BUCKETS = 64, MOST_BUCKETS = 512, FRONT_WORK = 60000000 };

struct programme {
  const struct lower_sets *sets;
  int32_t buckets;  /* overheads in the same bucket count as equal: the least bytes stay */
  double width;     /* of a bucket */
  bool most;        /* memory-centric */
  int32_t *first;   /* set -> its first point; has one more */
  struct point *in; /* scratch: by bucket, the best so far of the set in hand */
  VECTOR(struct point) points;
  VECTOR(int32_t) chain; /* a strategy: indices of L_1 .. L_k */
};

static neap_status programme_create(const struct lower_sets *sets, int32_t buckets, struct region *region,
                                    struct programme *p) {
  *p = (struct programme){.sets = sets, .buckets = buckets};
  p->width = sets->cost[sets->count - 1] / (buckets - 0.5);
  p->first = region_alloc(region, (size_t)sets->count + 1, sizeof *p->first);
  p->in = region_alloc(region, (size_t)buckets, sizeof *p->in);
  RETURN_IF(!p->first || !p->in, NEAP_OUT_OF_MEMORY, "kusumoto: out of memory");
  return NEAP_OK;
}

static void programme_free(struct programme *p) {
  vector_free(&p->points);
  vector_free(&p->chain);
}

static int32_t bucket_of(const struct programme *p, double overhead, int32_t buckets) {
  if (!(p->width > 0) || buckets == 1) return 0;
  const double bucket = fmax(overhead, 0) / p->width;
  return bucket < buckets - 1 ? (int32_t)bucket : buckets - 1;
}

/* Points of set `from` carried over to set `to`. */
static void extend(struct programme *p, int32_t from, int32_t to, uint64_t limit, int32_t buckets) {
  const struct lower_set_segment segment = lower_set_segment(p->sets, from, to);
  if (segment.needed > limit) return;
  for (int32_t i = p->first[from]; i < p->first[from + 1]; i++) {
    const struct point *point = &p->points.data[i];
    if (point->kept > limit - segment.needed) break; /* they rise */
    const double overhead = point->overhead + segment.overhead;
    struct point *best = &p->in[bucket_of(p, overhead, buckets)];
    const uint64_t kept = point->kept + segment.kept;
    const bool beyond = p->most ? overhead > best->overhead : overhead < best->overhead;
    if (best->set == to && (kept > best->kept || (kept == best->kept && !beyond))) continue;
    *best = (struct point){overhead, kept, to, i};
  }
}

/* The front of the set in hand: from the overhead that is wanted to the one that is not, while bytes fall;
 * stored by rising bytes. */
static neap_status store_front(struct programme *p, int32_t set, int32_t buckets) {
  const size_t start = p->points.count;
  uint64_t least = UINT64_MAX;
  for (int32_t k = 0; k < buckets; k++) {
    const struct point *point = &p->in[p->most ? buckets - 1 - k : k];
    if (point->set != set || point->kept >= least) continue;
    least = point->kept;
    TRY(vector_push(&p->points, *point));
  }
  for (size_t low = start, high = p->points.count; low + 1 < high; low++) {
    const struct point swap = p->points.data[low];
    p->points.data[low] = p->points.data[--high];
    p->points.data[high] = swap;
  }
  RETURN_IF(p->points.count > INT32_MAX, NEAP_OUT_OF_MEMORY, "kusumoto: the fronts are too large");
  return NEAP_OK;
}

/* Runs the programme with the budget `limit`. `buckets` 1: only whether V is reached counts. */
static neap_status solve(struct programme *p, uint64_t limit, bool most, int32_t buckets, bool *reached) {
  const struct lower_sets *sets = p->sets;
  p->most = most;
  p->points.count = 0;
  for (int32_t b = 0; b < p->buckets; b++) p->in[b].set = -1;
  TRY(vector_push(&p->points, (struct point){.from = -1}));
  p->first[0] = 0;
  p->first[1] = 1;
  for (int32_t to = 1; to < sets->count; to++) {
    for (int32_t from = to; from-- > 0;) {
      if (2 * (sets->bytes[to] - sets->bytes[from]) + sets->beyond[to] > limit) break;
      if (p->first[from] < p->first[from + 1] && lower_set_within(sets, from, to))
        extend(p, from, to, limit, buckets);
    }
    TRY(store_front(p, to, buckets));
    p->first[to + 1] = (int32_t)p->points.count;
  }
  *reached = p->first[sets->count - 1] < p->first[sets->count];
  return NEAP_OK;
}

/* Writes the strategy that ends in a point of V's front. */
static neap_status trace(struct programme *p, int32_t point) {
  int32_t length = 0;
  for (int32_t at = point; p->points.data[at].from >= 0; at = p->points.data[at].from) length++;
  TRY(vector_reserve(&p->chain, (size_t)length + 1));
  p->chain.count = (size_t)length;
  for (int32_t at = point; length > 0; at = p->points.data[at].from)
    p->chain.data[--length] = p->points.data[at].set;
  return NEAP_OK;
}

/* The least budget of the programme that reaches V, to one part in 500; `most_needed` does. */
static neap_status find_least(struct programme *p, uint64_t most_needed, uint64_t *least) {
  uint64_t missed = 0;
  for (*least = most_needed; *least - missed > *least / 500 + 1;) {
    /* Far from it, in ratio: the least of a deep graph is a small part. */
    const uint64_t tried = missed == 0 ? *least / 2 : missed + (*least - missed) / 2;
    bool reached;
    TRY(solve(p, tried, false, 1, &reached));
    *(reached ? least : &missed) = tried;
  }
  return NEAP_OK;
}

/* ---- The sweep ---- */

enum { HOPELESS = 4 };

struct sweep {
  struct contest contest;
  struct programme programme;
  struct schedule schedule;
  int picks;           /* strategies that are scored, of a front */
  double small, large; /* ratios of the programme's budgets, up to twice the least and beyond */
};

static neap_status offer(struct sweep *s, int32_t point) {
  struct programme *p = &s->programme;
  TRY(trace(p, point));
  TRY(lower_sets_schedule(p->sets, p->chain.data, (int32_t)p->chain.count, &s->schedule));
  return contest_offer(&s->contest, &s->schedule, NULL);
}

/* The end of V's front that the paper chooses, and points between it and the one that keeps the least. */
static neap_status offer_front(struct sweep *s) {
  const int32_t low = s->programme.first[s->programme.sets->count - 1],
                high = s->programme.first[s->programme.sets->count] - 1;
  for (int k = 0, before = -1; k < s->picks; k++) {
    const int32_t point = s->picks == 1 ? high : high - (int32_t)((int64_t)(high - low) * k / (s->picks - 1));
    if (point != before) TRY(offer(s, point));
    before = point;
  }
  return NEAP_OK;
}

/* From the least budget of the programme to twice that, where the true least peak lies; then on to where
 * everything may stay, or to so far above the caller's budget that no strategy fits. */
static neap_status sweep_all(struct sweep *s) {
  const struct lower_sets *sets = s->programme.sets;
  const uint64_t everything = 2 * sets->bytes[sets->count - 1] + sets->beyond[sets->count - 1];
  const double caller = (double)s->contest.budget - (double)sets->graph->step->resident_bytes;
  uint64_t least;
  TRY(find_least(&s->programme, everything, &least));
  for (double limit = (double)least;; limit *= limit < 2 * (double)least ? s->small : s->large) {
    const uint64_t within = limit < (double)everything ? (uint64_t)limit : everything;
    for (int most = 0; most < 2; most++) {
      bool reached;
      TRY(solve(&s->programme, within, most == 1, s->programme.buckets, &reached));
      if (reached) TRY(offer_front(s));
    }
    const bool enough = limit > 2 * (double)least && (s->contest.quick || limit > HOPELESS * caller) &&
                        contest_is_met(&s->contest);
    if (within == everything || enough) return NEAP_OK;
  }
}

/* ---- The rows ---- */

enum {
  EXACT_LIMIT = 6000,    /* lower sets that the exact row takes */
  ANCESTOR_LIMIT = 1200, /* vertices whose L^v the other takes; see lower_sets_of_ancestors */
  VERTEX_LIMIT = 100000, /* forward nodes that both take */
  LARGE_STEP = 2000      /* nodes from which on the sweep is coarser */
};

static neap_status sweep_family(const struct lower_sets *sets, struct region *region, struct sweep *s) {
  const int64_t pairs = (int64_t)sets->count * sets->count / 2 + 1, fine = FRONT_WORK / pairs;
  const int32_t buckets = fine < LEAST_BUCKETS  ? LEAST_BUCKETS
                          : fine > MOST_BUCKETS ? MOST_BUCKETS
                                                : (int32_t)fine;
  const bool coarse = sets->graph->step->node_count > LARGE_STEP;
  s->picks = coarse ? 6 : 8;
  s->small = coarse ? 1.08 : 1.06;
  s->large = coarse ? 1.2 : 1.2;
  neap_status status = programme_create(sets, buckets, region, &s->programme);
  if (status == NEAP_OK) status = sweep_all(s);
  programme_free(&s->programme);
  return status;
}

/* The exact row tries the other's strategies too: none of its schedules is then cheaper. */
static neap_status plan(const neap_step *step, uint64_t budget, const struct planner_options *options,
                        bool exact, struct schedule *out) {
  const char *name = exact ? "kusumoto-exact" : "kusumoto";
  struct region region = {0};
  struct forward_graph graph;
  struct lower_sets ancestors, all;
  struct sweep s = {0};
  neap_status status = contest_create(step, budget, options, out, &s.contest);
  if (status == NEAP_OK) status = forward_graph_create(step, &region, &graph);
  if (status == NEAP_OK && graph.count > VERTEX_LIMIT)
    status = neap_fail(NEAP_OVER_BUDGET, "%s: takes at most %d forward nodes", name, VERTEX_LIMIT);
  if (status == NEAP_OK && exact) status = lower_sets_all(&graph, EXACT_LIMIT, &region, &all);
  if (status == NEAP_OK && exact) status = sweep_family(&all, &region, &s);
  if (status == NEAP_OK) status = lower_sets_of_ancestors(&graph, ANCESTOR_LIMIT, &region, &ancestors);
  if (status == NEAP_OK) status = sweep_family(&ancestors, &region, &s);
  if (status == NEAP_OK) status = contest_result(&s.contest, name);
  schedule_free(&s.schedule);
  contest_free(&s.contest);
  region_free(&region);
  return status;
}

neap_status plan_kusumoto_exact(const neap_step *step, uint64_t budget, const struct planner_options *options,
                                struct schedule *out) {
  return plan(step, budget, options, true, out);
}

neap_status plan_kusumoto(const neap_step *step, uint64_t budget, const struct planner_options *options,
                          struct schedule *out) {
  return plan(step, budget, options, false, out);
}
