/* Files written whole or not at all, and read at a place. */
#ifndef NEAP_BASE_FILE_H
#define NEAP_BASE_FILE_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

/* Writes through `write` (which returns false when it could not; errno says why) to a temporary name in the
 * same folder, syncs it and renames it to `path`, whose mode it takes. On failure nothing is left behind and
 * the old file is as it was, unless the folder alone could not be synced: then the new one is there. A link
 * stays one: what it points to is replaced. What is no regular file (a device, a pipe), and the file that
 * standard output goes to, are written to as they are. */
typedef bool file_writer(FILE *file, const void *context);
neap_status file_write(const char *path, file_writer *write, const void *context);

/* Reads this many bytes from `offset` on, whatever the position of the file. 0; FILE_ENDS: it ends before
 * them; else an errno. Allocates nothing. */
enum { FILE_ENDS = -1 };
int file_read_at(int descriptor, uint64_t offset, void *data, size_t bytes);

/* The same, with a message that names `path`. NEAP_BAD_FORMAT: the file ends before. */
neap_status file_need_at(const char *path, int descriptor, uint64_t offset, void *data, size_t bytes);

/* Returns true if a folder has this path. */
bool file_is_folder(const char *path);

/* Returns false if nothing has this path; true where the system does not tell, too: what opens it says why.
 */
bool file_exists(const char *path);

/* Says whether two paths lead to one file or folder. NEAP_IO_FAILED: the system does not tell. */
neap_status file_is_same(const char *one, const char *other, bool *same);

/* Returns the next entry of an open folder; NULL: it has no more, or cannot be read, which folder_close says.
 */
const struct dirent *folder_next(DIR *entries);

/* Closes a folder at once after folder_next gave NULL, or after `status`, which it returns, was a failure.
 * NEAP_IO_FAILED: the folder was not read to its end. */
neap_status folder_close(DIR *entries, const char *folder, neap_status status);

/* Opens a regular file for reading; the caller closes the descriptor. NEAP_IO_FAILED: it cannot be opened or
 * is not a regular file; then no descriptor is open. */
neap_status file_open(const char *path, int *descriptor, uint64_t *bytes);

/* The size of an open file and the time of its last change, which show that it was written to. */
struct file_stamp {
  uint64_t bytes;
  int64_t modified; /* nanoseconds */
};

/* NEAP_IO_FAILED: the system does not tell; the message names `path`. */
neap_status file_stamp_take(const char *path, int descriptor, struct file_stamp *stamp);
/* Fails with NEAP_BAD_FORMAT if the file was written to since. */
neap_status file_stamp_check(const char *path, int descriptor, const struct file_stamp *stamp);

/* Opens a new file without a name in a folder, for reading and writing, where the file system has such files;
 * else under FOLDER/NAME-XXXXXX, which is removed at once. -1: errno says why. */
int file_open_nameless(const char *folder, const char *name);

/* Opens a file for reading as fopen does, but never waits for the writer of a pipe. NULL: errno says why. */
FILE *file_open_stream(const char *path);

/* Gives the bytes of a regular file to `feed`, in order, some at a time. NEAP_IO_FAILED: as file_open, or it
 * cannot be read to its end. */
typedef void file_feeder(void *context, const void *bytes, size_t count);
neap_status file_feed(const char *path, file_feeder *feed, void *context);

#endif
