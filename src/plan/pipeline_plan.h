/* Functions that a run of a pipeline needs besides the public ones. */
#ifndef NEAP_PLAN_PIPELINE_PLAN_H
#define NEAP_PLAN_PIPELINE_PLAN_H

#include "pipeline/pipeline.h"
#include "search/chain.h"

/* Finds the blocks of a step: stage_of tells that of each node. It depends on the step's structure alone, not
 * on its costs. Free it with chain_free. */
neap_status pipeline_chain(const neap_step *step, struct chain *out);

/* Returns true for a way whose ranks have one memory for variables and for values between parts (struct
 * pipeline_problem); NULL: ours, whose ranks do not. */
bool pipeline_is_common(const char *way);

/* Return the schedule of a pipeline, and its problem; borrowed. */
const struct pipeline_schedule *pipeline_schedule_of(const neap_pipeline *pipeline);
const struct pipeline_problem *pipeline_problem_of(const neap_pipeline *pipeline);

#endif
