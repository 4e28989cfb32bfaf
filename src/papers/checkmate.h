/* Checkmate (Jain et al. 2020): schedules from its program (checkmate_model.h). */
#ifndef NEAP_PAPERS_CHECKMATE_H
#define NEAP_PAPERS_CHECKMATE_H

#include "papers/milp.h"
#include "step/planner.h"

/* The cheapest schedule of the shape above within a budget, by branch and bound with a limit on nodes and,
 * where `seconds` is above 0, on time. `cutoff`: only one that costs less is wanted. NEAP_OVER_BUDGET: none
 * was found, and `out` is empty. `proved`, in both cases: none exists cheaper, or none at all. `bound`:
 * none below the cutoff costs less. NEAP_UNSUPPORTED: no solver. */
neap_status checkmate_solve(const neap_step *step, uint64_t budget, const struct milp_limits *limits,
                            struct schedule *out, bool *proved, double *bound);

/* The row: that where the step is small, rounding of the relaxation where it is not (section 5). */
planner_function plan_checkmate;

#endif
