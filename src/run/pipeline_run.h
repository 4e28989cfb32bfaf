/* Sessions whose ranks divide the step by depth (options.pipeline): each rank has the weights and states of
 * its blocks, and runs their pieces for one micro-batch after another. The bits are those of one process with
 * as many micro-batches.
 *
 * With more processes than stages there are several pipelines, which take the micro-batches in turns. Process
 * r is rank r / D of pipeline r % D, of D. session->ranks connects the stages of a pipeline, session->batch
 * the pipelines' processes of a stage, which share sums and states as processes without pipelines do. */
#ifndef NEAP_RUN_PIPELINE_RUN_H
#define NEAP_RUN_PIPELINE_RUN_H

#include "run/session.h"

/* Resolves the places of all pieces, once the memory is mapped. */
neap_status pipeline_bind(struct neap_session *session);

/* Keeps the inputs of the next micro-batch, and its share of the loss. */
neap_status pipeline_take(struct neap_session *session, float share);

/* Runs all micro-batches that were taken, without the updates behind them. `*result`: that of the last. */
neap_status pipeline_run_step(struct neap_session *session, float learning_rate, neap_step_result *result);

/* Runs the updates. */
neap_status pipeline_run_end(struct neap_session *session, float learning_rate);

/* Evaluates; every rank gets the result. */
neap_status pipeline_evaluate(struct neap_session *session, neap_step_result *result);

/* Returns the results of the last step, by micro-batch; NULL: the session is no pipeline. */
const neap_step_result *session_part_results(const struct neap_session *session);

#endif
