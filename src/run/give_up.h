/* A step that is given up between two of its nodes, on request (base/stop.h). Running statistics are kept as
 * they were before the step; parameters and optimizer states are not: that would take their memory again. */
#ifndef NEAP_RUN_GIVE_UP_H
#define NEAP_RUN_GIVE_UP_H

#include "run/session.h"

/* Makes room for a session's running statistics. */
neap_status give_up_prepare(struct neap_session *session);

/* Keeps the running statistics, before the first program of a step. */
neap_status give_up_begin(struct neap_session *session);

/* Ends a step whose program was interrupted: the session is as before the step, or, where parameters or
 * optimizer states have changed, or statistics are not got back, torn until weights are loaded. */
void give_up(struct neap_session *session);

/* From here on a step may be given up when parameters have changed, too: the caller needs them no more. */
static inline void session_may_tear(struct neap_session *session, bool may) { session->may_tear = may; }
static inline bool session_is_torn(const struct neap_session *session) { return session->torn; }

#endif
