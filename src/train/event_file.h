/* Event files of TensorBoard: each process that trains adds a file to the folder. A record is its length
 * (u64), the masked CRC-32C of that, an Event message of Protocol Buffers, and the masked CRC-32C of it; all
 * little-endian. */
#ifndef NEAP_TRAIN_EVENT_FILE_H
#define NEAP_TRAIN_EVENT_FILE_H

#include <stdio.h>

#include "base/region.h"
#include "base/status.h"

struct event_file {
  FILE *file; /* NULL: none is kept, and the other functions do nothing */
  const char *path;
};

/* Begins a file in `folder`, which is made if it is missing; NULL: none is kept. A `resumed_step` of 0 or
 * more invalidates later steps in other files there. The region owns the path. NEAP_IO_FAILED: writing
 * failed. */
neap_status event_file_open(const char *folder, int64_t resumed_step, struct region *region,
                            struct event_file *events);

/* Writes a step's numbers as scalars: loss/train, loss/test, accuracy/train, accuracy/test, mae/test,
 * rmse/test, r2/test, bits_per_byte/test, learning_rate, seconds, gradient_norm, loss_scale; only those that
 * exist. */
neap_status event_file_write(struct event_file *events, const neap_train_progress *progress);

neap_status event_file_close(struct event_file *events);

#endif
