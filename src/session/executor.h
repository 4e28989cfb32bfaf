/* Executors: the ways to plan and run a session's graph. A row is all that the rest of a session knows of its
 * way; a new way is a row and a file of its own. */
#ifndef NEAP_SESSION_EXECUTOR_H
#define NEAP_SESSION_EXECUTOR_H

#include "session/session.h"

struct executor {
  const char *name;
  /* Plans: sets main, plan, budget, keep_all, outputs and programs of the session. Every rank makes the call.
   * `*smallest` (may be NULL): set after NEAP_OVER_BUDGET. */
  neap_status (*plan)(struct neap_session *session, const struct neap_graph *graph, uint64_t reserve,
                      uint64_t *smallest);
  /* Resolves the places of all programs, once the memory is mapped. */
  neap_status (*bind)(struct neap_session *session);
  /* Takes a micro-batch, `share` of the step's loss: runs it, or keeps it until `complete`. NULL: a session
   * of this way only predicts, and has neither this nor `end` nor `evaluate`. */
  neap_status (*take)(struct neap_session *session, float learning_rate, float share,
                      neap_step_result *result);
  /* Runs what micro-batches were kept; NULL: none are. */
  neap_status (*complete)(struct neap_session *session, float learning_rate, neap_step_result *result);
  /* Runs the updates behind the last micro-batch of a step in parts. */
  neap_status (*end)(struct neap_session *session, float learning_rate, float share);
  neap_status (*evaluate)(struct neap_session *session, neap_step_result *result);
  /* Return the nodes of all programs, and the bytes of resident memory that values between them take. NULL:
   * those of session.programs, and none. */
  uint64_t (*nodes)(const struct neap_session *session);
  uint64_t (*value_bytes)(const struct neap_session *session);
  /* Frees what the executor alone has, before the session's programs. NULL: nothing. */
  void (*free)(struct neap_session *session);
  bool in_parts;                      /* updates are always behind the micro-batches */
  const char *one_shape, *no_outputs; /* why it has no other graphs, and no outputs; NULL: it has them */
};

#endif
