/* Drops a step between two of its nodes, on request (base/stop.h) or because one failed. Running statistics
 * are restored; parameters and optimizer states are not, as that would need as much memory again. */
#ifndef NEAP_SESSION_DROP_STEP_H
#define NEAP_SESSION_DROP_STEP_H

#include "session/session.h"

/* Allocates the backup of a session's running statistics. */
neap_status drop_step_prepare(struct neap_session *session);

/* Backs up the running statistics, before the first program of a step. */
neap_status drop_step_begin(struct neap_session *session);

/* Ends a step whose program was interrupted or failed. The session is as before the step; or, if parameters
 * or optimizer states have changed, or statistics cannot be restored, it is torn until weights are loaded. */
void drop_step(struct neap_session *session);

/* Allows to drop a step even after parameters have changed, as the caller no longer needs them. */
static inline void session_may_tear(struct neap_session *session, bool may) { session->may_tear = may; }
static inline bool session_is_torn(const struct neap_session *session) { return session->torn; }

#endif
