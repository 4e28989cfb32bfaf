/* Checkmate (Jain et al. 2020): schedules from its program (checkmate_model.h). */
#ifndef NEAP_PAPERS_CHECKMATE_H
#define NEAP_PAPERS_CHECKMATE_H

#include "papers/milp.h"
#include "step/planner.h"

/* Finds the cheapest schedule of the model's shape within a budget, by branch and bound with a limit on nodes
 * and, if `seconds` is above 0, on time. `cutoff`: only a schedule that costs less is wanted.
 * NEAP_OVER_BUDGET: none was found, and `out` is empty. In both cases `proved` says that none is cheaper, or
 * that none exists. `bound`: none below the cutoff costs less. NEAP_UNSUPPORTED: no solver. */
neap_status checkmate_solve(const neap_step *step, uint64_t budget, const struct milp_limits *limits,
                            struct schedule *out, bool *proved, double *bound);

/* The planner: checkmate_solve for small steps, rounding of the relaxation for others (section 5). */
planner_function plan_checkmate;

#endif
