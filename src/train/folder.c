#include "train/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { TRIES = 8 };

static neap_status make_folder(const char *folder, bool *made) {
  *made = mkdir(folder, 0777) == 0;
  if (*made) return NEAP_OK;
  struct stat status;
  RETURN_IF(errno != EEXIST || stat(folder, &status) != 0 || !S_ISDIR(status.st_mode), NEAP_IO_FAILED,
            "%s: cannot be made a folder: %s", folder, strerror(errno));
  return NEAP_OK;
}

/* Returns true if the process lives on this machine. */
static bool lives(long process) { return kill((pid_t)process, 0) == 0 || errno == EPERM; }

/* Fails with the number of the process that the lock names, and says whether it lives. A lock can still be
 * held after that process ended, if it ran on another machine or a process that it started holds it. */
static neap_status fail_held(const struct folder_lock *lock, int file) {
  char text[24] = "";
  const ssize_t length = pread(file, text, sizeof text - 1, 0);
  const long process = length > 0 ? strtol(text, NULL, 10) : 0;
  RETURN_IF(process <= 0, NEAP_IO_FAILED,
            "%s: another run is writing its checkpoints there; name another folder, or wait for its end",
            lock->folder);
  RETURN_IF(lives(process), NEAP_IO_FAILED,
            "%s: a run (process %ld, which is alive) is writing its checkpoints there; name another folder, "
            "or wait for its end",
            lock->folder, process);
  return neap_fail(NEAP_IO_FAILED,
                   "%s: is locked by process %ld, which does not live on this machine: it runs on another "
                   "one, or left the lock behind; if no run writes there, remove %s",
                   lock->folder, process, lock->path);
}

/* Says whether the file still has this path: a holder that ends removes it, so a removed file may have been
 * locked. */
static neap_status find_whether_at(int file, const char *path, bool *is_at) {
  struct stat ours, there;
  const bool seen = fstat(file, &ours) == 0 && stat(path, &there) == 0;
  RETURN_IF(!seen && errno != ENOENT, NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
  *is_at = seen && ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
  return NEAP_OK;
}

static void write_process(int file) {
  char text[24];
  const int length = snprintf(text, sizeof text, "%ld\n", (long)getpid());
  /* It is for a message only. */
  if (ftruncate(file, 0) == 0 && pwrite(file, text, (size_t)length, 0) < 0) return;
}

static neap_status take(struct folder_lock *lock) {
  for (int i = 0; i < TRIES; i++) {
    const int file = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    RETURN_IF(file < 0, NEAP_IO_FAILED, "%s: cannot be written: %s", lock->path, strerror(errno));
    if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      const neap_status status = fail_held(lock, file);
      close(file);
      return status;
    }
    bool is_at = false;
    const neap_status status = find_whether_at(file, lock->path, &is_at);
    if (is_at) {
      lock->file = file;
      write_process(file);
      return NEAP_OK;
    }
    close(file);
    TRY(status);
  }
  return neap_fail(NEAP_IO_FAILED, "%s: other runs begin and end there all the time; name another folder",
                   lock->folder);
}

/* Refuses links, through which a run would write elsewhere, pipes and devices. */
static neap_status need_regular(const char *folder) {
  neap_status status = NEAP_OK;
  DIR *entries = opendir(folder);
  RETURN_IF(entries == NULL, NEAP_IO_FAILED, "%s: cannot be read: %s", folder, strerror(errno));
  for (const struct dirent *e; status == NEAP_OK && (e = folder_next(entries)) != NULL;) {
    struct stat s;
    const bool there = fstatat(dirfd(entries), e->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0;
    if (!there && errno != ENOENT)
      status = neap_fail(NEAP_IO_FAILED, "%s/%s: cannot be read: %s", folder, e->d_name, strerror(errno));
    else if (there && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode))
      status = neap_fail(
          NEAP_IO_FAILED,
          "%s/%s: is %s; a run's folder has files and folders alone, remove it or name another folder",
          folder, e->d_name, S_ISLNK(s.st_mode) ? "a symbolic link" : "not a regular file");
  }
  return folder_close(entries, folder, status);
}

neap_status folder_hold(const char *folder, struct region *region, struct folder_lock *lock) {
  *lock = (struct folder_lock){.folder = folder};
  struct folder_lock draft = {.folder = folder, .path = region_format(region, "%s/lock", folder)};
  RETURN_IF_NULL(draft.path);
  TRY(make_folder(folder, &draft.made));
  neap_status status = need_regular(folder);
  if (status == NEAP_OK) status = take(&draft);
  if (status == NEAP_OK)
    *lock = draft;
  else if (draft.made)
    rmdir(folder);
  return status;
}

void folder_release(struct folder_lock *lock) {
  if (lock->path == NULL) return;
  unlink(lock->path);
  close(lock->file);
  if (lock->made) rmdir(lock->folder); /* it stays where anything is in it */
  *lock = (struct folder_lock){0};
}
