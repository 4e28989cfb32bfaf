/* Makes and runs the programs of a session, or pieces of them. */
#ifndef NEAP_SESSION_SESSION_RUN_H
#define NEAP_SESSION_SESSION_RUN_H

#include "session/session.h"

/* Returns the micro-batches of the current step. */
static inline int32_t session_parts(const struct neap_session *s) {
  return s->parts > 0 ? s->parts : s->options.micro_batches;
}

/* Returns the number of processes that divide the micro-batches of a step. */
static inline int32_t session_batch_ranks(const struct neap_session *s) {
  return s->batch != NULL ? s->batch->collective->size : 1;
}

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
  float noise;                /* factor of the noise of perturbed parameters */
};

/* Runs a program of a kind; `*result` (may be NULL) is set if the program makes the loss. */
neap_status session_run(struct neap_session *session, const struct session_program *program,
                        enum program_kind kind, struct run_numbers numbers, neap_step_result *result);

#endif
