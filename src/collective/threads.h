/* Ranks that are threads of one process: for tests, and for programs that have a thread for each rank. */
#ifndef NEAP_COLLECTIVE_THREADS_H
#define NEAP_COLLECTIVE_THREADS_H

#include "base/status.h"
#include "neap_collective.h"

/* Connects `size` ranks: ranks[r] [size] is for the thread that is rank r, which closes it. Bytes are copied
 * once, from the sender's piece into the receiver's. A call that the ranks do not all make, sizes that differ
 * between sender and receiver, and a rank that closes while others still call end the calls of all with
 * NEAP_INVALID_ARGUMENT or NEAP_IO_FAILED and a message that names the rank. After a failure of its own:
 * nothing is left to close. */
neap_status threads_connect(int size, neap_collective *ranks);

#endif
