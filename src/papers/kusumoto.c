/* Kusumoto, Inoue, Watanabe, Akiba, Koyama 2019: canonical strategies over all lower sets or over those of
 * one node and its ancestors. The programme's budget is not the caller's: in-place pairs and liveness lower
 * the exact peak by varying amounts. So it is swept, every strategy is scored exactly, and the rest of the
 * caller's budget saves recomputations. */
#include "papers/kusumoto.h"

#include "papers/contest.h"
#include "papers/strategy_search.h"

/* ---- The sweep ---- */

enum { HOPELESS = 4 };

struct sweep {
  struct contest contest;
  struct strategy_search search;
  struct schedule schedule;
  VECTOR(uint64_t) scored; /* digests of strategies */
  int picks;               /* strategies that are scored, of a front */
  double small, large;     /* ratios of the programme's budgets, up to twice the least and beyond */
};

/* Finds out whether the current strategy has been scored, by a 64-bit digest (FNV-1a): a false yes skips
 * one. */
static neap_status is_known(struct sweep *s, bool *known) {
  uint64_t digest = 14695981039346656037u;
  for (size_t i = 0; i < s->search.chain.count; i++)
    digest = (digest ^ (uint64_t)s->search.chain.data[i]) * 1099511628211u;
  *known = false;
  for (size_t i = 0; i < s->scored.count && !*known; i++) *known = s->scored.data[i] == digest;
  return *known ? NEAP_OK : vector_push(&s->scored, digest);
}

static neap_status offer(struct sweep *s, int32_t point) {
  bool known;
  TRY(strategy_search_trace(&s->search, point));
  TRY(is_known(s, &known));
  if (known) return NEAP_OK;
  TRY(lower_sets_schedule(s->search.sets, s->search.chain.data, (int32_t)s->search.chain.count,
                          &s->schedule));
  return contest_offer(&s->contest, &s->schedule);
}

/* Offers the end of V's front that the paper chooses, and points between it and the one that keeps the
 * least. */
static neap_status offer_front(struct sweep *s, uint64_t budget, bool most) {
  int32_t low, high;
  TRY(strategy_search_run(&s->search, budget, most, &low, &high));
  const int64_t span = high - 1 - low;
  for (int32_t k = 0; span >= 0 && k < s->picks; k++)
    TRY(offer(s, high - 1 - (int32_t)(span * k / (s->picks - 1))));
  return NEAP_OK;
}

/* Sweeps from the least budget of the programme to twice that, which includes the true least peak; then on
 * until everything may stay, or until no strategy fits the caller's budget. */
static neap_status sweep_all(struct sweep *s) {
  const uint64_t everything = strategy_search_everything(&s->search);
  const double caller = (double)s->contest.budget - (double)s->contest.simulator.step->resident_bytes;
  uint64_t least;
  TRY(strategy_search_least(&s->search, &least));
  for (double limit = (double)least;; limit *= limit < 2 * (double)least ? s->small : s->large) {
    const uint64_t within = limit < (double)everything ? (uint64_t)limit : everything;
    TRY(offer_front(s, within, false));
    TRY(offer_front(s, within, true));
    const bool enough = limit > 2 * (double)least &&
                        (s->contest.effort == EFFORT_QUICK || limit > HOPELESS * caller) &&
                        contest_is_met(&s->contest);
    if (within == everything || enough) return NEAP_OK;
  }
}

/* ---- The planners ---- */

enum {
  EXACT_LIMIT = 4000,    /* lower sets that the exact row takes */
  ANCESTOR_LIMIT = 1200, /* vertices whose L^v the other takes; see lower_sets_of_ancestors */
  VERTEX_LIMIT = 20000,  /* forward nodes that both take */
  LARGE_FAMILY = 1000,   /* lower sets from which on the sweep is coarser, as in large steps */
  BUCKETS = 256          /* of overhead; see strategy_search.h */
};

static neap_status sweep_family(const struct lower_sets *sets, struct region *region, struct sweep *s) {
  const bool coarse = sets->graph->step->node_count > LARGE_STEP || sets->count > LARGE_FAMILY;
  s->picks = coarse ? 6 : 8;
  s->small = coarse ? 1.08 : 1.06;
  s->large = 1.2;
  s->scored.count = 0;
  neap_status status = strategy_search_create(sets, BUCKETS, region, &s->search);
  if (status == NEAP_OK) status = sweep_all(s);
  strategy_search_free(&s->search);
  return status;
}

/* Plans. The exact planner also tries the other's strategies, in the same way, so it is never worse. */
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
    status = neap_fail(NEAP_OVER_BUDGET, "%s: the step has too many forward nodes; the limit is %d", name,
                       VERTEX_LIMIT);
  if (status == NEAP_OK && exact) status = lower_sets_all(&graph, EXACT_LIMIT, &region, &all);
  if (status == NEAP_OK) status = lower_sets_of_ancestors(&graph, ANCESTOR_LIMIT, &region, &ancestors);
  if (status == NEAP_OK) status = sweep_family(&ancestors, &region, &s);
  if (status == NEAP_OK && exact) status = sweep_family(&all, &region, &s);
  if (status == NEAP_OK) status = contest_result(&s.contest, name);
  vector_free(&s.scored);
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
