/* Earlier checkpoints of a run, in folders step-NUMBER of its own: each has the files of a checkpoint, as
 * links where the file system has them, and can be gone on with as the run's own. */
#ifndef NEAP_TRAIN_KEPT_CHECKPOINTS_H
#define NEAP_TRAIN_KEPT_CHECKPOINTS_H

#include "base/region.h"
#include "train/checkpoint.h"

/* Keeps the checkpoint that was just written, whose state is given, and removes all but the last `most` and
 * those that a run went on from. May be called twice. After a failure the folder has no state.json, and is
 * none of a checkpoint. */
neap_status kept_checkpoints_add(const char *folder, const struct checkpoint *state, int64_t most);

/* Removes all but those that a run went on from: for a run that replaces another. NEAP_IO_FAILED: one stays.
 */
neap_status kept_checkpoints_forget(const char *folder);

/* Finds the newest checkpoint of a run of a step before `step`, kept or the run's own: *path is its folder,
 * the region's; NULL: no such checkpoint exists. */
neap_status kept_checkpoints_before(const char *folder, int64_t step, struct region *region,
                                    const char **path);

#endif
