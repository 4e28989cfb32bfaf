/* Reads records while the session computes: threads of its own fill the next batch, in memory of its own.
 * That memory has one batch. */
#ifndef NEAP_DATA_AHEAD_H
#define NEAP_DATA_AHEAD_H

#include <stdint.h>

#include "base/status.h"

enum { AHEAD_THREADS = 16 };

/* Reads record `i` of a batch; `thread` counts from 0. */
typedef neap_status ahead_reader(void *context, const void *batch, int64_t i, int thread);

struct ahead;

/* Creates up to AHEAD_THREADS threads, which start with the first batch. `batch_bytes`: the size of the
 * description that tells one batch from another; it is copied, and all zeros mean no batch. Free with
 * ahead_free, which waits for the threads and takes NULL. */
neap_status ahead_create(int threads, ahead_reader *reader, void *context, size_t batch_bytes,
                         struct ahead **ahead);
void ahead_free(struct ahead *ahead);

/* Begins to read `count` records; the previous batch must be done or taken. Does nothing if no thread can be
 * started. */
void ahead_begin(struct ahead *ahead, const void *batch, int64_t count);

/* Waits for the batch that was begun. Returns true if it is this batch; *status is then that of its first
 * record that failed. Returns false if it is another batch or none; that batch is forgotten. */
bool ahead_take(struct ahead *ahead, const void *batch, neap_status *status);

#endif
