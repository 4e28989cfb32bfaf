/* Finds a larger budget at which recomputation costs little. */
#ifndef NEAP_CLI_AFFORDABLE_H
#define NEAP_CLI_AFFORDABLE_H

#include "neap.h"

/* The overhead above which recomputation costs too much: half of the step. */
extern const double half_more;

/* Returns whether the overhead is above half_more. */
bool costs_too_much(double cost, double base_cost);

/* Returns a budget at which the planner, by its name or "auto", has a plan of at most that overhead; as small
 * as a few looks find. INFINITY: any overhead. 0: not known. */
uint64_t affordable_budget(const neap_step *step, const char *planner, double overhead);

/* Reports what a budget of `min` costs in recomputation. */
void tell_affordable(double cost, double base_cost, uint64_t budget);

#endif
