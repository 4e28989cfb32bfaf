/* Another order of a step's nodes, in which less lives before anything is made again. The order that a step
 * comes in can be a poor one: what is read late made early, branches side by side. */
#ifndef NEAP_PLAN_LEAN_ORDER_H
#define NEAP_PLAN_LEAN_ORDER_H

#include "plan/schedule.h"

/* Every node once, chosen from the last to the first: of those whose readers all stand already the one that
 * adds the fewest bytes; of these the one whose last reader came to stand the latest. O((nodes + reads) log).
 */
neap_status lean_order(const neap_step *step, struct schedule *out);

/* A step with its nodes in another order. */
struct leaner_step {
  neap_step *step;      /* NULL: the order that was given is about as good */
  struct schedule back; /* for each of its nodes the one that it is in the step that was given */
};

/* The step in lean order, where its peak is clearly lower without recomputation, each order tidied. */
neap_status leaner_step_create(const neap_step *step, struct leaner_step *out);
void leaner_step_free(struct leaner_step *leaner);

/* Names the nodes of a schedule of the leaner step as in the step that was given. */
void leaner_step_rename(const struct leaner_step *leaner, struct schedule *schedule);

#endif
