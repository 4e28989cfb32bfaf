/* The answer of one planner for a budget: a plan, or the smallest budget that it meets. */
#ifndef NEAP_CLI_ANSWER_H
#define NEAP_CLI_ANSWER_H

#include <jansson.h>

#include "shared/options.h"
#include "shared/watch.h"

struct plan_answer {
  const char *planner;
  neap_plan *plan;   /* the caller's; NULL: it is over the budget */
  uint64_t smallest; /* then; 0: the planner has no plan for such a graph under any budget */
  char why[256];     /* then */
  int64_t largest_batch;
};

/* Asks as watch_plan. "No plan" is a result, not a failure. */
neap_status answer_ask(const neap_train_options *source, const neap_step *step, uint64_t budget,
                       const char *planner, double seconds, struct watch *watch, neap_step **chosen,
                       struct plan_answer *answer);

/* Returns the answer, which the caller frees; NULL: out of memory. */
json_t *answer_json(const struct plan_answer *answer, const neap_step *step, uint64_t budget);

/* Tells why there is no plan: on standard error for people, and as JSON if the arguments ask for that.
 * Returns an exit status. */
int answer_explain(const struct plan_answer *answer, const struct arguments *a, const neap_step *step,
                   uint64_t budget);

#endif
