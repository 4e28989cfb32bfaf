/* The line that tells how planning goes on. A thread of its own writes it: most planners report nothing until
 * they end. */
#ifndef NEAP_CLI_WATCH_H
#define NEAP_CLI_WATCH_H

#include "neap.h"

struct watch;

/* Begins a line on standard error, if that is a terminal, about planning that takes longer than a moment: its
 * seconds, of `limit` for a plan (0: none), and the best plan. The line is wiped whenever there is nothing to
 * tell. `plans`: how many times watch_plan will be called; 0: once, or not known. Returns NULL, which the
 * other functions take, if there is no terminal or no memory for it. */
struct watch *watch_begin(double limit, int64_t plans);
void watch_end(struct watch *watch);

struct plan_request {
  uint64_t budget;
  const char *planner;
  double seconds; /* as in neap_plan_options */
};

/* Calls source_plan, and tells of it. */
neap_status watch_plan(struct watch *watch, const neap_train_options *source, const neap_step *step,
                       const struct plan_request *request, uint64_t *smallest, neap_step **chosen,
                       neap_plan **plan);

/* Calls source_plan_alone with the planner of the source, and tells of it. `step`: one like that which is
 * planned. */
neap_status watch_plan_alone(struct watch *watch, const neap_train_options *source, const neap_step *step,
                             uint64_t budget, neap_step **own, neap_plan **plan);

/* Tells of a search that watch_plan did not begin: the context is the watch. */
neap_plan_progress_function watch_progress;

#endif
