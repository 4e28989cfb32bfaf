/* The lengths that weights with adapters begin with (DoRA). */
#ifndef NEAP_WEIGHTS_MAGNITUDES_H
#define NEAP_WEIGHTS_MAGNITUDES_H

#include "session/session.h"

/* Gives lengths that no file had, which are 0, the norms of their layers' weights. Once for a session, when
 * these have been loaded: before its first program runs, or its variables are saved. */
neap_status magnitudes_begin(struct neap_session *session);

#endif
