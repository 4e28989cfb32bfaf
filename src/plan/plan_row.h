/* Makes a plan with one planner of the table, layout included. */
#ifndef NEAP_PLAN_PLAN_ROW_H
#define NEAP_PLAN_PLAN_ROW_H

#include "plan/planners.h"
#include "step/plan.h"

/* The number of nodes of a tiny step. In these every planner that misses a budget is asked for its least,
 * which may fit; in larger steps that takes too long. */
enum { TINY_STEP = 100 };

extern const struct planner_options quick_look; /* any plan within the budget, at any cost */

/* Finds the planner's cheapest plan within the budget. If a layout needs more, the planner gets less; the
 * layout of a loose planner is repaired (plan/repair.h). `*out`: NULL if no plan would be cheaper than `best`
 * (NULL: none exists); given `best`, one repair is enough. NEAP_OVER_BUDGET: no plan is found. */
neap_status plan_row(const neap_step *step, uint64_t budget, const struct planner *planner,
                     const struct planner_options *options, const struct neap_plan *best,
                     struct neap_plan **out);

/* Finds the planner's plan with the least peak; no plan has less than `bound`. Uses the planner's own way.
 * Without one, bisects between the bound and a budget that is met, then goes down from plan to plan, in cuts
 * that double, until a byte less is not met; only in tiny steps without an end, as it can be some bytes each
 * time. The result is the same whatever budget was asked for. */
neap_status plan_row_least(const neap_step *step, const struct planner *planner, uint64_t bound,
                           const struct planner_options *options, struct neap_plan **out);

#endif
