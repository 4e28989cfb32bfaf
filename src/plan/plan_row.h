/* What one row of the planner table makes of a budget, layout included. */
#ifndef NEAP_PLAN_PLAN_ROW_H
#define NEAP_PLAN_PLAN_ROW_H

#include "plan/planners.h"
#include "step/plan.h"

/* Nodes. In a tiny step every row that misses a budget is asked for its least, which may fit it; in others
 * that takes too long. */
enum { TINY_STEP = 100 };

extern const struct planner_options quick_look; /* any plan within the budget, whatever it costs */

/* The cheapest plan within the budget that one planner leads to. Where a layout needs more, the planner gets
 * less; a loose one's is repaired (plan/repair.h). `*out`: NULL where no plan would cost less than `best`
 * (NULL: none exists), beside which one repair is enough. NEAP_OVER_BUDGET: none is found. */
neap_status plan_row(const neap_step *step, uint64_t budget, const struct planner *planner,
                     const struct planner_options *options, const struct neap_plan *best,
                     struct neap_plan **out);

/* The plan with the least peak that a planner finds; no plan has less than `bound`. By the planner's own way;
 * else by bisection between the bound and a budget that is met, then down from plan to plan, in cuts that
 * double, until a byte less is not met (but for a tiny step, not for ever: it can be some bytes each time).
 * It is the same whatever budget was asked for. */
neap_status plan_row_least(const neap_step *step, const struct planner *planner, uint64_t bound,
                           const struct planner_options *options, struct neap_plan **out);

#endif
