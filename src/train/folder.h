/* The folder that a run writes its checkpoints to: one run at a time. */
#ifndef NEAP_TRAIN_FOLDER_H
#define NEAP_TRAIN_FOLDER_H

#include "base/region.h"
#include "base/status.h"

struct folder_lock {
  const char *folder, *path; /* of the file `lock` in it; NULL: not held */
  int file;
  bool made; /* the folder did not exist before */
};

/* Makes the folder if it is missing and holds it until folder_release or any end of the process.
 * NEAP_IO_FAILED: it cannot be written, it has a link, a pipe or a device, or another process
 * holds it, which the message names. On a file system without locks nothing is held. The region owns
 * the lock's data. */
neap_status folder_hold(const char *folder, struct region *region, struct folder_lock *lock);

/* Releases the folder, and removes it if it was made and stayed empty. Does nothing for a zeroed lock. */
void folder_release(struct folder_lock *lock);

#endif
