/* The planner table. */
#include "plan/planners.h"

#include <string.h>

#include "papers/bptt.h"
#include "papers/checkmate.h"
#include "papers/chen.h"
#include "papers/dtr.h"
#include "papers/feng_huang.h"
#include "papers/hong.h"
#include "papers/kusumoto.h"
#include "papers/pofo_plan.h"
#include "papers/revolve.h"
#include "papers/teraio.h"
#include "search/evict.h"
#include "search/keep_all.h"
#include "search/plan_neap.h"
#include "search/rotor_plan.h"

/* `auto_limit` of planners for steps of any size. Larger steps leave time only for Neap's own planner, which
 * starts from the best of the others. */
enum { ANY_SIZE = INT32_MAX };

const struct planner planners[] = {
    {"keep-all", "keeps every value until its last reader", NULL, "any", "no recomputation", ANY_SIZE, false,
     plan_keep_all, NULL, false},
    {"chen-sqrt", "keeps every sqrt(n)-th cut of the forward pass", "Chen et al. 2016, section 4.1", "chains",
     "at most one forward pass more", LARGE_STEP, false, plan_chen_sqrt, NULL, false},
    {"chen-greedy", "cuts by gathered bytes, searched and scored exactly", "Chen et al. 2016, algorithm 3",
     "chains", "at most one forward pass more", LARGE_STEP, false, plan_chen_greedy, NULL, false},
    {"chen-recursive", "recomputes through halves: O(log n) cuts at once", "Chen et al. 2016, section 4.3",
     "chains", "at most O(log n) forward passes more", LARGE_STEP, false, plan_chen_recursive, NULL, false},
    {"revolve", "least forward steps of a chain for a number of checkpoints",
     "Griewank and Walther 2000, algorithm 799", "chains",
     "fewest steps for its checkpoints, were stages alike", LARGE_STEP, false, plan_revolve, NULL, false},
    {"bptt", "the same, where a checkpoint may also be all of a stage",
     "Gruslys et al. 2016, sections 3.1 and 3.3", "chains", "fewest steps for its slots, were stages alike",
     LARGE_STEP, false, plan_bptt, NULL, false},
    {"hong-n3", "checkpoints of least sum with the largest segment", "Hong et al. 2025, first objective",
     "chains", "at most one forward pass more", LARGE_STEP, false, plan_hong_n3, NULL, false},
    {"hong", "checkpoints of least peak, each freed with its segment", "Hong et al. 2025, revised objective",
     "chains", "at most one forward pass more; linear time but for the sweep", LARGE_STEP, false, plan_hong,
     NULL, false},
    {"rotor", "chooses what each stage of a chain keeps, by dynamic programming",
     "Beaumont et al. 2019, section 4", "chains",
     "optimal among persistent plans of its stages' options, but for rounding to slots", LARGE_STEP, false,
     plan_rotor, NULL, false},
    {"evict", "drops what is cheap, large and needed late", "after Kirisame et al. 2021 (DTR)", "any",
     "nothing", LARGE_STEP, false, plan_evict, NULL, false},
#ifndef NEAP_PLAN_ONLY /* it needs a solver */
    {"checkmate", "what runs and what is kept in each stage, as a 0-1 program",
     "Jain et al. 2020, sections 4 and 5", "any, of some hundred nodes",
     "for small steps the least cost in the step's own order", 0, false, plan_checkmate, NULL, false},
#endif
    {"kusumoto-exact", "best sequence of lower sets, all of them searched",
     "Kusumoto et al. 2019, section 4.2", "up to 4000 lower sets", "no worse than kusumoto", 24, false,
     plan_kusumoto_exact, NULL, false},
    {"kusumoto", "best sequence of lower sets of one node and its ancestors",
     "Kusumoto et al. 2019, section 4.3", "up to 20000 forward nodes",
     "at most one forward pass more; meets every budget above its least", 500, false, plan_kusumoto, NULL,
     false},
    {"feng-huang", "least sum of what stays and the largest segment, by closed sets", "Feng and Huang 2018",
     "up to 20000 forward nodes", "at most one forward pass more", LARGE_STEP, false, plan_feng_huang, NULL,
     false},
    {"dtr", "evicts what is cheap, large and stale, not knowing what comes",
     "Kirisame et al. 2021, section 4", "any", "nothing", 500, false, plan_dtr, NULL, false},
    {"teraio", "stores what lies idle where memory is above the budget, per time of transfer",
     "TeraIO 2025, sections 2 and 3", "any whose values can be stored elsewhere", "no recomputation",
     LARGE_STEP, false, plan_teraio, NULL, true},
    {"pofo", "keeps, makes again or stores what stages make, by dynamic programming", "Beaumont et al. 2021",
     "chains", "nothing: times of transfers are averages", LARGE_STEP, false, plan_pofo, NULL, true},
    {"neap", "descends under a rising price of memory, then rebuilds stretch by stretch", NULL, "any",
     "nothing", ANY_SIZE, true, plan_neap, plan_neap_least, false},
};
const int32_t planner_count = sizeof planners / sizeof *planners;

const struct planner *planner_find(const char *name) {
  for (int32_t i = 0; i < planner_count; i++)
    if (strcmp(planners[i].name, name) == 0) return &planners[i];
  return NULL;
}

bool neap_planner_at(int32_t index, neap_row *row) {
  if (row == NULL || index < 0 || index >= planner_count) return false;
  const struct planner *planner = &planners[index];
  *row = (neap_row){planner->name,
                    planner->summary,
                    planner->source,
                    planner->graphs,
                    planner->promise,
                    planner->auto_limit,
                    NULL};
  return true;
}
