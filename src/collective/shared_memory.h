/* Ranks that share a region of memory: processes that were forked after it was mapped, or threads.
 *
 * Each rank has an outbox of OUTBOX_BYTES in the region. In an exchange it is a ring for each receiver; in an
 * allgather it is one ring that all others read. A rank without progress waits for its doorbell, a futex.
 * What a rank left in its outbox is read after its death, too; nothing here waits for a lock that a dead rank
 * could hold. */
#ifndef NEAP_COLLECTIVE_SHARED_MEMORY_H
#define NEAP_COLLECTIVE_SHARED_MEMORY_H

#include <stdbool.h>

#include "base/status.h"
#include "neap_collective.h"

enum { OUTBOX_BYTES = 1 << 20, SHARED_MOST_RANKS = 128 };

struct shared_region;

/* Bytes that a region for `size` ranks takes: an outbox a rank, and 128 bytes for each pair of ranks. */
uint64_t shared_memory_bytes(int size);

/* Maps a region for 1 to SHARED_MOST_RANKS ranks, for this process and those that it forks. */
neap_status shared_memory_map(int size, struct shared_region **region);
void shared_memory_unmap(struct shared_region *region);

/* Makes `*out` the collective of a rank. Its close, shared_memory_close, marks that the rank has left. Both
 * ways to end it leave the region mapped; shared_memory_disconnect marks nothing. */
neap_status shared_memory_connect(struct shared_region *region, int rank, neap_collective *out);
void shared_memory_close(void *self);
void shared_memory_disconnect(void *self);

/* The region of a collective that shared_memory_connect made, by its `self`. */
struct shared_region *shared_memory_region(const void *self);

/* Returns true if a rank has closed its collective; marks that it has. Calls that need it then fail on the
 * other ranks. */
bool shared_memory_has_left(const struct shared_region *region, int rank);
void shared_memory_leave(struct shared_region *region, int rank);

/* Ends the current and every later call of all ranks with this status and message. The first failure counts;
 * later ones change nothing. `rank` (size: none of them, the supervisor) is who says so. */
void shared_memory_fail(struct shared_region *region, int rank, neap_status status, const char *message);

/* The same, after the death of rank `dead`, which may have died while it was recording its own failure. */
void shared_memory_fail_dead(struct shared_region *region, int dead, neap_status status, const char *message);

/* NEAP_OK, or the failure that was recorded, with its message. `*rank` (may be NULL) is who recorded it. */
neap_status shared_memory_failure(const struct shared_region *region, int *rank);

#endif
