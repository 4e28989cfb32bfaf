/* Records that are read while the session computes: threads of their own fill the next batch into memory of
 * their own. What they hold is one batch. */
#ifndef NEAP_DATA_AHEAD_H
#define NEAP_DATA_AHEAD_H

#include <stdint.h>

#include "base/status.h"

enum { AHEAD_THREADS = 16 };

/* Reads record `i` of a batch; `thread` counts from 0. */
typedef neap_status ahead_reader(void *context, const void *batch, int64_t i, int thread);

struct ahead;

/* Threads, up to AHEAD_THREADS, that begin with the first batch. `batch_bytes`: of what tells one batch from
 * another, which is copied, and is all zero of none. Free with ahead_free, which waits for them and takes
 * NULL. */
neap_status ahead_create(int threads, ahead_reader *reader, void *context, size_t batch_bytes,
                         struct ahead **ahead);
void ahead_free(struct ahead *ahead);

/* Begins to read `count` records; the batch before is done or was taken. Where no thread can be had nothing
 * begins. */
void ahead_begin(struct ahead *ahead, const void *batch, int64_t count);

/* Waits for what was begun. True: it is that batch, and *status that of its first record that failed. False:
 * it is another or none; it is forgotten. */
bool ahead_take(struct ahead *ahead, const void *batch, neap_status *status);

#endif
