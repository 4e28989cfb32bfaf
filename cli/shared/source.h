/* A training step to plan, of a model with its settings or of a graph file, and its plans. */
#ifndef NEAP_CLI_SOURCE_H
#define NEAP_CLI_SOURCE_H

#include <jansson.h>

#include "shared/options.h"

#define ALLOW_ALL "micro,f16,sparse=0.3"

const char *precision_name(neap_dtype dtype);

/* ---- The step ---- */

/* Makes the first operand --model, and takes it from the list, if it is the file or folder of a model.
 * Returns EXIT_DONE, or another status after a message. */
int take_model_file(const struct verb *verb, struct arguments *a);

/* Reports an operand that take_model_file left, if only a model may stand there. Returns EXIT_USAGE. */
int report_no_model(const struct verb *verb, const struct arguments *a);

/* Opens the step of --model or of a step file; exactly one of them is given. Returns EXIT_DONE, or another
 * status after a message. */
int source_open(const struct verb *verb, struct arguments *a, const char *file, neap_step **step);

/* Return the session of a step to plan, without budget and planner, and the shape of its graph. */
neap_session_options source_session(const neap_train_options *source);
neap_model_options source_shape(const neap_train_options *source);

/* Gives the step of a model, whose batch may be left open. */
neap_status source_step(const neap_train_options *source, neap_step **step);

/* Gives the bytes that one of several processes sends in a step, if the session's options have their number.
 */
neap_status source_exchanges(const neap_train_options *source, const neap_plan *plan,
                             neap_exchanges *exchanges);

/* Checks that the micro-batch divides the batch, and that each process has the same number of them, at least
 * one. Sets the micro-batch if none was given. Returns EXIT_DONE, or EXIT_USAGE after a message. */
int check_micro_batch(const struct verb *verb, neap_train_options *source);

/* Sets the usual batch of the model. */
neap_status source_usual_batch(neap_train_options *source);

/* Calls neap_combinations for a model, within its budget. */
neap_status source_combinations(const neap_train_options *source, neap_combination *list, int *count);

/* ---- Its plans ---- */

/* Plans as neap_plan_make_with; a model that leaves its variant open takes the one that pays. `*chosen` (may
 * be NULL): the step of the plan, which the caller frees, if it is not `step`; else NULL. */
neap_status source_plan(const neap_train_options *source, const neap_step *step, uint64_t budget,
                        const neap_plan_options *options, uint64_t *smallest, neap_step **chosen,
                        neap_plan **plan);

/* Plans a model as neap_plan_graph: gives the plan that its run has within the budget, and its step. */
neap_status source_plan_alone(const neap_train_options *source, uint64_t budget,
                              const neap_plan_options *options, neap_step **step, neap_plan **plan);

/* Reads and checks a plan file for the step, or for any variant of a model. `*chosen` as above. */
neap_status source_read_plan(const neap_train_options *source, const neap_step *step, const char *file,
                             neap_step **chosen, neap_plan **plan);

/* Gives the bytes of a budget for this step; a share is one of keeping everything. */
neap_status source_budget(const neap_step *step, const neap_train_options *source, uint64_t *bytes);

/* Returns the largest batch, up to that of the source, whose step fits the budget; 0: none, or a graph file.
 */
int64_t source_largest_batch(const neap_train_options *source, uint64_t budget, const char *planner);

/* Returns whether the model fits with the direct algorithm for its convolutions, if it has another. */
bool source_fits_direct(const neap_train_options *source, uint64_t budget, const char *planner);

/* Returns the bytes of a plan: resident memory and arena. */
uint64_t plan_bytes(const neap_plan *plan);

/* Returns one plan as JSON. `asked`: the budget, or a special one. "planner" is the one named; for "auto" the
 * one that made the plan. */
json_t *plan_json(const neap_plan *plan, uint64_t asked, const char *planner);

/* ---- Planners ---- */

/* Returns whether the name is "auto" or a row of the planner table. */
bool planner_exists(const char *name);

/* Returns its place among the rows, from 1 for the last one; 0: "auto". A planner looks the same in all
 * pictures. */
int planner_from_end(const char *name);

/* Returns which graphs the planner takes, as its row says. */
const char *planner_graphs(const char *name);

#endif
