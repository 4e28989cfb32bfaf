/* Finds out that a rank died where the engine would wait for it, as MPI does over a network: each rank has a
 * thread and a TCP connection with rank 0, over which both send a sign of life every second. A rank in a long
 * kernel is alive. */
#ifndef NEAP_COLLECTIVE_HEARTBEAT_H
#define NEAP_COLLECTIVE_HEARTBEAT_H

#include <stdbool.h>

#include "base/status.h"
#include "neap_collective.h"

struct heartbeat_options {
  double beat_seconds,
      silent_seconds; /* between signs of life, and without them until a rank counts as dead; 0: 1 and 8 */
  double connect_seconds; /* for all ranks to connect; 0: 30 */
  const char *address;    /* where rank 0 is reached, a name or a number; NULL: all its addresses are tried */
  /* Called once, by the heartbeat's thread with `context`, when another rank died, failed, or closed while
   * this rank still calls. The main thread may be inside a call of the inner collective for ever: this is to
   * end the process where that does not end by itself. It prints the message where it `speaks`, and closes
   * nothing. NULL: nothing is called. */
  void (*lost)(void *context, bool speaks, const char *message);
  void *context;
};

/* Makes `*out` a collective that makes the calls of `*inner` and has a heartbeat. Every rank calls it. The
 * calls of `*out` fail with the heartbeat's message after a rank was lost. Its close says that this rank ends
 * well, closes `*inner` and ends the heartbeat; after a failure it leaves `*inner` open, whose close may wait
 * for a rank that is dead: the process has to end then. `*options` is copied, but for what it points to.
 *
 * A rank whose connection ends, or that is silent, is lost; its death is known to all within `silent_seconds`
 * and one. Time in which this process did not run (SIGSTOP) is not counted as silence of others.
 *
 * A failure is the same on all ranks; `*inner` stays the caller's then. */
neap_status heartbeat_start(const neap_collective *inner, const struct heartbeat_options *options,
                            neap_collective *out);

/* Tells all ranks that this one failed, with this thread's last message: they are lost (see above). Only the
 * first failure counts. NEAP_OK, or
 * another engine's collective: does nothing. To be called before close. */
void heartbeat_report(const neap_collective *own, neap_status status);

/* Returns true if this rank must print the failure that a call returned or that it reported; false if `lost`
 * or another rank prints it. The rank then closes and exits with a status that is not 0. Another engine's
 * collective: true. */
bool heartbeat_speaks(const neap_collective *own);

#endif
