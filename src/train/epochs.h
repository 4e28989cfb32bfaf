/* Weights at the ends of the last epochs, kept with a checkpoint as epoch-NUMBER.safetensors, for their
 * mean. */
#ifndef NEAP_TRAIN_EPOCHS_H
#define NEAP_TRAIN_EPOCHS_H

#include "base/region.h"
#include "base/status.h"

/* Keeps the weights of the checkpoint that was just written, in the file of that name, as those of an epoch's
 * end, and removes those of all but the last `most` epochs. May be called twice. */
neap_status epochs_keep(const char *folder, const char *weights, int64_t epoch, int64_t most,
                        neap_session *session);

/* Gives a written file of the session's weights a second name; if the file system cannot, writes it again.
 * Replaces an existing file of that name. */
neap_status weights_keep(const char *weights, const char *path, neap_session *session);

/* Removes all kept weights: for a run that replaces another. NEAP_IO_FAILED: one stays, and would join the
 * mean. */
neap_status epochs_forget(const char *folder);

/* Gives the paths [count] of the last kept weights, the latest first; the region's. NEAP_INVALID_ARGUMENT:
 * there are fewer. NEAP_IO_FAILED: the folder cannot be read. */
neap_status epochs_find(const char *folder, int32_t count, struct region *region, const char ***paths);

#endif
