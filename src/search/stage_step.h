/* Makes a small step of a stage of a chain. */
#ifndef NEAP_SEARCH_STAGE_STEP_H
#define NEAP_SEARCH_STAGE_STEP_H

#include "search/chain.h"

/* Makes the step: node 0 makes the entering values; then come the forward nodes; the turn, which reads the
 * output boundary and makes its gradients; the backward nodes; the last reads the leaving values. The caller
 * frees the step. */
neap_status stage_extract(const struct chain *chain, int32_t stage, neap_step **out);

#endif
