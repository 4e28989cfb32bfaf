/* Code that the engines share: the kinds of calls, the check that two ranks' calls belong together, and an
 * allgather as an exchange. */
#ifndef NEAP_COLLECTIVE_CALLS_H
#define NEAP_COLLECTIVE_CALLS_H

#include "base/status.h"
#include "neap_collective.h"

enum call_kind { CALL_BARRIER, CALL_EXCHANGE, CALL_ALLGATHER };

/* Fails with NEAP_INVALID_ARGUMENT where rank `from` makes another kind of call than rank `to`, or sends
 * another number of bytes than that expects. */
neap_status calls_check(int from, enum call_kind from_kind, uint64_t sent, int to, enum call_kind to_kind,
                        uint64_t expected);

/* Copies the message of a rank's failure, with "rank R: " before it. One that ranks have shared begins so
 * already, perhaps with another rank, and stays as it is. */
void calls_name_rank(int rank, const char *message, char *to, size_t bytes);

/* Fills send [size] and receive [size] with the pieces of neap_collective.allgather(all, bytes) at `rank`:
 * its own part for every other rank. */
static inline void calls_allgather_pieces(int rank, int size, void *all, const uint64_t *bytes,
                                          neap_piece *send, neap_piece *receive) {
  char *part = all;
  for (int r = 0; r < size; r++) {
    receive[r] = (neap_piece){part, bytes[r]};
    if (bytes[r] > 0) part += bytes[r]; /* `all` may be NULL where nobody has a part */
  }
  for (int r = 0; r < size; r++) send[r] = receive[rank];
}

#endif
