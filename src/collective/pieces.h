/* An allgather is an exchange in which each rank sends its own part to every other. */
#ifndef NEAP_COLLECTIVE_PIECES_H
#define NEAP_COLLECTIVE_PIECES_H

#include "neap_collective.h"

/* Fills send [size] and receive [size] with the pieces of neap_collective.allgather(all, bytes) at `rank`. */
static inline void pieces_of_allgather(int rank, int size, void *all, const uint64_t *bytes, neap_piece *send,
                                       neap_piece *receive) {
  char *part = all;
  for (int r = 0; r < size; r++) {
    receive[r] = (neap_piece){part, bytes[r]};
    part += bytes[r];
  }
  for (int r = 0; r < size; r++) send[r] = receive[rank];
}

#endif
