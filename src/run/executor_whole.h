/* The executor of the whole step, of one process or of several that each run it, and those of its functions
 * that others call. */
#ifndef NEAP_RUN_EXECUTOR_WHOLE_H
#define NEAP_RUN_EXECUTOR_WHOLE_H

#include "session/executor.h"

extern const struct executor whole_executor;

/* Lists the named outputs of a graph. */
neap_status session_list_outputs(struct neap_session *session, const struct neap_graph *graph);

/* Makes the evaluation, which must fit into the arena of training. Leaves out named outputs that do not fit,
 * the largest first. */
neap_status session_make_evaluation(struct neap_session *session, const struct neap_graph *graph,
                                    struct session_program *program);

/* Resolves the places of session.programs. */
neap_status session_make_programs(struct neap_session *session);

/* Runs one of them. NEAP_INVALID_ARGUMENT: the session does not have it. */
neap_status session_run_program(struct neap_session *session, enum program_kind kind, float learning_rate,
                                float share, neap_step_result *result);

/* Says why a session runs no step and no evaluation. */
extern const char only_predicts[];

void session_program_free(struct session_program *program);

#endif
