/* Sessions whose ranks divide the step by depth (options.pipeline): each rank has the weights and states of
 * its blocks, and runs their pieces for one micro-batch after another. The bits are those of one process with
 * as many micro-batches.
 *
 * With more processes than stages there are several pipelines, which take the micro-batches in turns. Process
 * r is rank r / D of pipeline r % D, of D. session->ranks connects the stages of a pipeline, session->batch
 * the pipelines' processes of a stage, which share sums and states as processes without pipelines do. */
#ifndef NEAP_RUN_PIPELINE_RUN_H
#define NEAP_RUN_PIPELINE_RUN_H

#include "session/executor.h"

extern const struct executor pipeline_executor;

/* Returns the results of the last step, by micro-batch; NULL: the session is no pipeline. */
const neap_step_result *session_part_results(const struct neap_session *session);

#endif
