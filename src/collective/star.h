/* TCP connections from every rank to rank 0. */
#ifndef NEAP_COLLECTIVE_STAR_H
#define NEAP_COLLECTIVE_STAR_H

#include "base/status.h"
#include "neap_collective.h"

/* Connects every rank with rank 0, whose address `c` hands round. sockets[r] [size] becomes the socket to
 * rank r: at rank 0 one for every other rank, at the others that to rank 0 alone; the rest are -1. They do
 * not block.
 *
 * `address` is where rank 0 is reached (a name or a number); NULL: every address of its machine is tried. A
 * secret that `c` hands round keeps others out. Fails where a rank did not come within `seconds`; then no
 * socket is left open. The status is this rank's alone: the caller shares it. */
neap_status star_connect(const neap_collective *c, const char *address, double seconds, int *sockets);

/* Closes those that are open. */
void star_close(int *sockets, int size);

#endif
