/* Calls by which ranks share data and statuses. Every rank makes the call. */
#ifndef NEAP_COLLECTIVE_AGREE_H
#define NEAP_COLLECTIVE_AGREE_H

#include "base/status.h"
#include "neap_collective.h"

/* Gives every rank the records of all, `each` bytes long, in the order of ranks: `all` [size], where its own
 * is. */
neap_status collective_gather(const neap_collective *c, void *all, uint64_t each);

/* Gives every rank the `count` bytes that rank `root` has. */
neap_status collective_broadcast(const neap_collective *c, int root, void *bytes, uint64_t count);

/* Connects some of the ranks: `count` of them, every `stride`-th from `first` on, each of which makes the
 * call. NEAP_UNSUPPORTED: the engine has no parts. */
neap_status collective_part(const neap_collective *c, int first, int stride, int count,
                            neap_collective *part);

/* Fails on all ranks with NEAP_INVALID_ARGUMENT where the `bytes` bytes of `data` (or their number) differ
 * between ranks: their SHA-256 are compared. The message names the first rank that differs from rank 0, and
 * `what` ("model") differs. */
neap_status collective_agree(const neap_collective *c, const char *what, const void *data, size_t bytes);

/* Tells all ranks the status of each, with the message of a failure (this thread's last). Returns the same on
 * all: NEAP_OK, or the failure of the lowest rank that failed, with "rank R: " before its message. One rank
 * alone: its own, unchanged. */
neap_status collective_share_status(const neap_collective *c, neap_status own);

#endif
