/* Weights of the last epochs' ends, kept beside a checkpoint as epoch-NUMBER.safetensors, to take the mean
 * of.
 */
#ifndef NEAP_TRAIN_EPOCHS_H
#define NEAP_TRAIN_EPOCHS_H

#include "base/region.h"
#include "base/status.h"

/* Keeps the weights of the checkpoint that was just written, in the file of that name, as those of an epoch's
 * end, and removes those of all epochs but the last `most`. Twice is as good as once. */
neap_status epochs_keep(const char *folder, const char *weights, int64_t epoch, int64_t most,
                        neap_session *session);

/* A second name for a file of the session's weights that is there already; where the file system has no such
 * thing, the same again. What is there of that name gives way. */
neap_status weights_keep(const char *weights, const char *path, neap_session *session);

/* Removes all that were kept, as far as it can: of a run that is replaced by another. */
void epochs_forget(const char *folder);

/* The paths [count] of the last that were kept, the latest first; the region's. NEAP_INVALID_ARGUMENT: so
 * many are missing. NEAP_IO_FAILED: the folder cannot be read. */
neap_status epochs_find(const char *folder, int32_t count, struct region *region, const char ***paths);

#endif
