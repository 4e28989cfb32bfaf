/* A stage of a chain as a small step of its own. */
#ifndef NEAP_SEARCH_STAGE_STEP_H
#define NEAP_SEARCH_STAGE_STEP_H

#include "search/chain.h"

/* Node 0 gives what enters; then come the forward nodes; the turn, which reads the output boundary and gives
 * its gradients; the backward nodes; the last reads what leaves. The caller frees the step. */
neap_status stage_extract(const struct chain *chain, int32_t stage, neap_step **out);

#endif
