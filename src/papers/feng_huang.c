/* Feng and Huang 2018 (1808.00079): keeps the set of values for which the sum of their bytes and those of the
 * largest segment between them is least (max_term.h, division.h). That is one plan. For the caller's budget
 * others over a grid of max terms are scored too, and the rest of the budget saves recomputations. */
#include "papers/feng_huang.h"

#include <math.h>

#include "papers/contest.h"
#include "papers/max_term.h"

struct enumeration {
  struct contest contest;
  struct division division;
  struct max_term_search terms;
  struct schedule schedule;
};

/* Scores the kept values of a max term; the last segment is kept too, as the backward pass begins with it. */
static neap_status offer(struct enumeration *s, uint64_t term) {
  const struct forward_graph *graph = s->division.graph;
  bool *stays = s->terms.stays;
  uint64_t kept, largest;
  max_term_solve(&s->terms, term, &kept, &largest);
  for (int32_t v = graph->count; v-- > 0 && !stays[v];) stays[v] = true;
  TRY(forward_graph_schedule(graph, NULL, stays, &s->schedule));
  return contest_offer(&s->contest, &s->schedule);
}

enum { GRID = 40, LARGE_GRID = 16, VERTEX_LIMIT = 20000 };

/* Tries the paper's plan, then max terms from one so small that everything stays to one that holds
 * everything. */
static neap_status search_all(struct enumeration *s) {
  const struct division *division = &s->division;
  const double total = division->sets.count > 0 ? (double)division->sets.data[0].bytes : 0;
  const int grid = division->graph->step->node_count > LARGE_STEP ? LARGE_GRID : GRID;
  uint64_t best_term;
  TRY(max_term_find_best(&s->terms, &best_term));
  TRY(offer(s, best_term));
  for (int i = 0; i < grid; i++) TRY(offer(s, (uint64_t)(total * exp2(-12.0 * i / (grid - 1)))));
  return offer(s, 0);
}

neap_status plan_feng_huang(const neap_step *step, uint64_t budget, const struct planner_options *options,
                            struct schedule *out) {
  struct region region = {0};
  struct forward_graph graph;
  struct enumeration s = {0};
  neap_status status = contest_create(step, budget, options, out, &s.contest);
  if (status == NEAP_OK) status = forward_graph_create(step, &region, &graph);
  if (status == NEAP_OK && graph.count > VERTEX_LIMIT)
    status = neap_fail(NEAP_OVER_BUDGET, "feng-huang: the step has too many forward nodes; the limit is %d",
                       VERTEX_LIMIT);
  if (status == NEAP_OK) status = division_create(&graph, &region, &s.division);
  if (status == NEAP_OK) status = max_term_create(&s.division, &region, &s.terms);
  if (status == NEAP_OK) status = search_all(&s);
  if (status == NEAP_OK) status = contest_result(&s.contest, "feng-huang");
  schedule_free(&s.schedule);
  division_free(&s.division);
  contest_free(&s.contest);
  region_free(&region);
  return status;
}
