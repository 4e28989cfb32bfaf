/* Prepares a session whose ranks divide the step by depth (run/pipeline_run.h): chooses a schedule, cuts this
 * rank's pieces from the whole step, and plans them. */
#ifndef NEAP_RUN_PIPELINE_PREPARE_H
#define NEAP_RUN_PIPELINE_PREPARE_H

#include "plan/pipeline_plan.h"
#include "run/pipeline_pieces.h"
#include "session/session.h"

/* A value that this rank makes or reads. */
struct own_value {
  int32_t value;  /* of pieces.values */
  int32_t copies; /* micro-batches that have one at the same time */
  int32_t *slot;  /* by micro-batch: which of the copies is its own */
  uint64_t bytes; /* of one copy */
  uint64_t place; /* of the first */
};

struct pipeline {
  struct region region;
  bool common;                          /* struct pieces */
  struct lowered *whole[PROGRAM_COUNT]; /* what the pieces are cut from */
  struct chain chain;
  struct pipeline_schedule schedule;
  struct pieces pieces;
  struct tick *ticks;
  int32_t tick_count;
  struct own_value *own;
  int32_t own_count;
  int32_t *own_of; /* by value; -1: it is not on this rank */
  struct part_variable *variables[PROGRAM_COUNT];
  struct session_program *programs; /* by piece; those of other ranks are empty */
  uint64_t rest; /* of a budget of the process, what does not train; 0: the budget is not one */
  double until;  /* of the monotonic clock: when the plans of a schedule are to be made; 0: no limit */
  struct windows windows;
  float *shares;             /* by micro-batch */
  neap_step_result *results; /* by micro-batch */
  int32_t loss_part;         /* the part that makes the loss */
  const char *stages;        /* session_stages() */
};

/* Returns the rank in the pipeline: which of its stages this process has. */
static inline int pipeline_own_rank(const struct neap_session *session) {
  return session->ranks->collective->rank;
}

/* Chooses the schedule on rank 0, and plans this rank's pieces: sets main, plan, budget, keep_all and
 * programs of the session. Every rank makes the call. `*smallest` (may be NULL): set after NEAP_OVER_BUDGET.
 */
neap_status pipeline_plan(struct neap_session *session, const struct neap_graph *graph, uint64_t reserve,
                          uint64_t *smallest);

/* Returns the bytes of a value that pieces pass on, for one micro-batch. */
uint64_t pipeline_value_size(const struct pipeline *pipeline, const struct piece_value *value);

/* Frees the pieces and what they were cut from; the session's programs must be free by then. */
void session_pipeline_free(struct neap_session *session);

/* Returns the lowered step with all of its nodes: of a pipeline the one that pieces are cut from, else main.
 */
const struct lowered *session_whole_step(const struct neap_session *session);

/* Returns the nodes of this rank's pieces. */
uint64_t pipeline_node_count(const struct neap_session *session);

/* Returns the bytes of all values that pieces pass on, for all micro-batches that have them at once. */
uint64_t pipeline_value_bytes(const struct neap_session *session);

/* Returns the stages from the last to the first, as `neap plan --pipeline` prints them: how many blocks each
 * has, with r where it recomputes them; NULL: the session is no pipeline. */
const char *session_stages(const struct neap_session *session);

#endif
