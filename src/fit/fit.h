/* Checks that a model's step fits: budgets that are shares, and other ways to make it fit. */
#ifndef NEAP_FIT_FIT_H
#define NEAP_FIT_FIT_H

#include "neap.h"

/* budget_share_to_bytes() of the model's graph at a shape. */
neap_status fit_budget_to_bytes(const neap_model *model, const neap_model_options *shape,
                                neap_session_options *session);

/* Returns true if a graph's step meets the budget once every convolution is a direct one; false if they are
 * already, or the plan is read from a file. */
bool fit_with_direct_convolutions(const neap_graph *graph, const neap_session_options *session);

#endif
