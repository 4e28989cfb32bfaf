/* Other orders of a step's nodes. The given order can be a poor one: values made long before they are read,
 * branches in parallel, gradients that do not follow their nodes. */
#ifndef NEAP_SEARCH_NODE_ORDER_H
#define NEAP_SEARCH_NODE_ORDER_H

#include "step/schedule.h"

/* Lists every node once, chosen from the last to the first. Among nodes whose readers are all placed, takes
 * the one that adds the fewest bytes; among equals, the one whose last reader was placed most recently.
 * O((nodes + reads) log). */
neap_status lean_order(const neap_step *step, struct schedule *out);

/* Lists every node once: forward nodes as given; then, of the backward nodes that may run, always the one
 * whose input was made latest in the forward pass; updates as soon as they may run. O((nodes + reads)
 * log). */
neap_status mirrored_order(const neap_step *step, struct schedule *out);

/* A step with its nodes in another order. */
struct reordered_step {
  neap_step *step;      /* NULL: the given order is about as good */
  struct schedule back; /* for each of its nodes the same node of the given step */
};

/* Makes the step in mirrored order if keeping everything then needs clearly less. */
neap_status mirrored_step_create(const neap_step *step, struct reordered_step *out);

/* Makes the step in lean order if keeping everything then needs clearly less, with both orders tidied. */
neap_status leaner_step_create(const neap_step *step, struct reordered_step *out);

void reordered_step_free(struct reordered_step *reordered);

/* Renames the nodes of a schedule from the reordered step to the given one. */
void reordered_step_rename(const struct reordered_step *reordered, struct schedule *schedule);

/* Makes a copy, into an empty schedule, with the names of the reordered step. */
neap_status reordered_step_take(const struct reordered_step *reordered, const struct schedule *schedule,
                                struct schedule *out);

#endif
