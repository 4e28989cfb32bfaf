/* Agreements between sessions of several processes before the first step. Every rank makes the calls. */
#ifndef NEAP_SESSION_SESSION_RANKS_H
#define NEAP_SESSION_SESSION_RANKS_H

#include "collective/agree.h"
#include "session/session.h"

/* Gives every rank the plan of rank 0, to be freed; rank 0 gets a copy of its `own`, which other ranks do not
 * pass. */
neap_status ranks_hand_plan(const struct neap_collective *collective, const struct neap_plan *own,
                            struct neap_plan **plan);

/* Replaces a program's plan by that of rank 0, and checks it. Fails on all ranks with the first failure in
 * any rank's `status`. */
neap_status ranks_follow_first(const struct neap_collective *collective, struct session_program *program,
                               neap_status status);

/* Replaces a number by the largest of all ranks. */
neap_status ranks_most(const struct neap_collective *collective, uint64_t *number);

/* Replaces the smallest budget of a rank (NULL: not asked for) by the largest of all ranks where planning
 * ended with NEAP_OVER_BUDGET, which all ranks share, as any `status`. Returns the status. */
neap_status ranks_share_smallest(const struct neap_collective *collective, neap_status status,
                                 uint64_t *smallest);

#endif
