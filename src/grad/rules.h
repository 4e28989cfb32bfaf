/* The update rule that each parameter follows. */
#ifndef NEAP_GRAD_RULES_H
#define NEAP_GRAD_RULES_H

#include "grad/optimizer.h"

/* Decides for each parameter which rule updates it, where that is not the same for all: by how the forward
 * graph's nodes read it, never by its name. Parameters that follow a rule of matrices lie row by row.
 * NEAP_UNSUPPORTED: the rule is for hidden matrices, and none exists. */
neap_status choose_rules(struct neap_graph *graph, const struct optimizer *optimizer);

#endif
