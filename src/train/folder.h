/* The folder that a run writes its checkpoints to: one run at a time. */
#ifndef NEAP_TRAIN_FOLDER_H
#define NEAP_TRAIN_FOLDER_H

#include "base/region.h"
#include "base/status.h"

struct folder_lock {
  const char *folder, *path; /* of the file `lock` in it; NULL: nothing is held */
  int file;
  bool made; /* the folder was not there before */
};

/* Makes the folder where it is missing and holds it until folder_release or the end of the process, however
 * that comes. NEAP_IO_FAILED: it cannot be written, or another process holds it, which the message names.
 * Where the file system has no locks nothing is held. The region keeps what the lock needs. */
neap_status folder_hold(const char *folder, struct region *region, struct folder_lock *lock);

/* Lets go, and removes a folder that was made and stayed empty. A zeroed lock is nothing to let go. */
void folder_release(struct folder_lock *lock);

/* Whether two paths lead to one folder. */
bool folder_is_same(const char *one, const char *other);

#endif
