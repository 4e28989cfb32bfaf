/* Other orders of a step's nodes. The one that a step comes in can be a poor one: what is read late made
 * early, branches side by side, gradients that do not follow their nodes. */
#ifndef NEAP_SEARCH_NODE_ORDER_H
#define NEAP_SEARCH_NODE_ORDER_H

#include "step/schedule.h"

/* Every node once, chosen from the last to the first: of those whose readers all stand already the one that
 * adds the fewest bytes; of these the one whose last reader came to stand the latest. O((nodes + reads) log).
 */
neap_status lean_order(const neap_step *step, struct schedule *out);

/* Every node once: forward nodes as they are given; then of the backward nodes that may run always the one
 * that reads what was made latest on the way forward; updates as soon as they may. O((nodes + reads) log). */
neap_status mirrored_order(const neap_step *step, struct schedule *out);

/* A step with its nodes in another order. */
struct reordered_step {
  neap_step *step;      /* NULL: the order that was given is about as good */
  struct schedule back; /* for each of its nodes the one that it is in the step that was given */
};

/* The step in mirrored order, where keeping everything then needs clearly less. */
neap_status mirrored_step_create(const neap_step *step, struct reordered_step *out);

/* The step in lean order, where keeping everything then needs clearly less, each order tidied. */
neap_status leaner_step_create(const neap_step *step, struct reordered_step *out);

void reordered_step_free(struct reordered_step *reordered);

/* Names the nodes of a schedule of the reordered step as in the step that was given. */
void reordered_step_rename(const struct reordered_step *reordered, struct schedule *schedule);

/* The other way round: a copy into an empty schedule. */
neap_status reordered_step_take(const struct reordered_step *reordered, const struct schedule *schedule,
                                struct schedule *out);

#endif
