/* What programs of a session and its pieces have in common. */
#ifndef NEAP_RUN_SESSION_PROGRAMS_H
#define NEAP_RUN_SESSION_PROGRAMS_H

#include "run/session.h"

/* Lowers the evaluation of a graph; variables keep the formats of `training`. `outputs`: as in
 * lower_options. */
neap_status lower_evaluation(const struct neap_graph *graph, const struct neap_session_options *options,
                             const struct lowered *training, int64_t outputs, struct lowered **out);

/* Resolves the places of a program; one that the session does not have is passed over. */
neap_status make_program(struct neap_session *session, struct session_program *program);

/* The numbers of a run. */
struct run_numbers {
  int32_t micro_batch;
  float learning_rate, share; /* share: of the step's loss */
};

/* Runs a program of a kind; `*result` (may be NULL) is set if the program makes the loss. */
neap_status session_run(struct neap_session *session, const struct session_program *program,
                        enum program_kind kind, struct run_numbers numbers, neap_step_result *result);

#endif
