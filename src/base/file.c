#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns true for a file that cannot be synced, and need not be. */
static bool has_no_sync(int why) { return why == EINVAL || why == ENOTSUP || why == EROFS; }

/* Syncs; a signal does not end it. */
static bool sync_file(int descriptor) {
  int result;
  do result = fsync(descriptor);
  while (result != 0 && errno == EINTR);
  return result == 0;
}

static neap_status say_why(const char *path, int why) {
  return neap_fail(why == ENOMEM ? NEAP_OUT_OF_MEMORY : NEAP_IO_FAILED, "%s: cannot be written: %s", path,
                   why != 0 ? strerror(why) : "unknown error");
}

/* A rename is safe on disk only when its folder is; some systems cannot sync one, and one that may not be
 * read cannot be opened. */
static neap_status sync_folder(const char *path) {
  char folder[PATH_MAX];
  snprintf(folder, sizeof folder, "%s", path);
  char *slash = strrchr(folder, '/');
  if (slash == NULL)
    snprintf(folder, sizeof folder, ".");
  else
    slash[slash == folder] = '\0';
  const int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return errno == EACCES ? NEAP_OK : say_why(path, errno);
  const int why = sync_file(descriptor) ? 0 : errno;
  close(descriptor);
  return why == 0 || has_no_sync(why) ? NEAP_OK : say_why(path, why);
}

/* Ends the writing of `file`. Reports the first failure: the stream remembers one that `write` was not told
 * of, as its last bytes fitted the buffer. */
static neap_status finish(FILE *file, const char *path, file_writer *write, const void *context,
                          bool lasting) {
  errno = 0;
  bool good =
      write(file, context) && fflush(file) == 0 && !ferror(file) && (!lasting || sync_file(fileno(file)));
  int why = errno;
  if (fclose(file) != 0 && good) good = false, why = errno;
  return good ? NEAP_OK : say_why(path, why);
}

/* A device, a pipe: a new file in its place is not what is meant. Nor is it where the file is what standard
 * output goes to (-o /dev/stdout > file): more may be written there, behind this. */
static neap_status write_through(const char *path, bool is_output, file_writer *write, const void *context) {
  const int copy = is_output ? dup(STDOUT_FILENO) : -1;
  FILE *file = !is_output ? fopen(path, "wb") : copy >= 0 ? fdopen(copy, "wb") : NULL;
  if (file != NULL) return finish(file, path, write, context, false);
  const int why = errno;
  if (copy >= 0) close(copy);
  return say_why(path, why);
}

/* A new file takes the place of `path`, which is no link; `old` (NULL: none exists) is what lies there. */
static neap_status replace(const char *path, const struct stat *old, file_writer *write,
                           const void *context) {
  char temporary[PATH_MAX];
  const int length = snprintf(temporary, sizeof temporary, "%s.%ld.part", path, (long)getpid());
  RETURN_IF(length < 0 || (size_t)length >= sizeof temporary, NEAP_IO_FAILED, "%s: the path is too long",
            path);
  if (old != NULL && access(path, W_OK) != 0) return say_why(path, errno);
  FILE *file = fopen(temporary, "wb");
  if (file == NULL) return say_why(path, errno);
  if (old != NULL) fchmod(fileno(file), old->st_mode & 07777); /* where it fails the usual mode will do */
  neap_status status = finish(file, path, write, context, true);
  if (status == NEAP_OK && rename(temporary, path) != 0) status = say_why(path, errno);
  if (status == NEAP_OK) return sync_folder(path);
  unlink(temporary);
  return status;
}

static bool same_file(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

neap_status file_write(const char *path, file_writer *write, const void *context) {
  struct stat old, output;
  char target[PATH_MAX]; /* of a link, which stays one */
  const bool exists = stat(path, &old) == 0;
  if (!exists && errno != ENOENT) return say_why(path, errno);
  const bool there = lstat(path, &output) == 0, link = there && S_ISLNK(output.st_mode);
  if (!there && errno != ENOENT) return say_why(path, errno);
  const bool is_output = exists && fstat(STDOUT_FILENO, &output) == 0 && same_file(&old, &output);
  if (is_output || (exists ? !S_ISREG(old.st_mode) : link))
    return write_through(path, is_output, write, context);
  if (link && realpath(path, target) == NULL) return say_why(path, errno);
  return replace(link ? target : path, exists ? &old : NULL, write, context);
}

struct text {
  const char *bytes;
  size_t count;
};

static bool write_text(FILE *file, const void *context) {
  const struct text *text = context;
  return fwrite(text->bytes, 1, text->count, file) == text->count;
}

neap_status neap_write_file(const char *path, const char *bytes, size_t count) {
  NEED(path);
  if (count > 0) NEED(bytes);
  return file_write(path, write_text, &(struct text){bytes, count});
}

int file_read_at(int descriptor, uint64_t offset, void *data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = pread(descriptor, (char *)data + done, bytes - done, (off_t)(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : FILE_ENDS;
    done += (size_t)got;
  }
  return 0;
}

neap_status file_need_at(const char *path, int descriptor, uint64_t offset, void *data, size_t bytes) {
  const int error = file_read_at(descriptor, offset, data, bytes);
  RETURN_IF(error == FILE_ENDS, NEAP_BAD_FORMAT, "%s: ends inside the %zu bytes at offset %llu", path, bytes,
            (unsigned long long)offset);
  RETURN_IF(error != 0, NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(error));
  return NEAP_OK;
}

neap_status file_stamp_take(const char *path, int descriptor, struct file_stamp *stamp) {
  struct stat status;
  RETURN_IF(fstat(descriptor, &status) != 0, NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
  *stamp =
      (struct file_stamp){.bytes = (uint64_t)status.st_size,
                          .modified = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec};
  return NEAP_OK;
}

neap_status file_stamp_check(const char *path, int descriptor, const struct file_stamp *stamp) {
  struct file_stamp now;
  TRY(file_stamp_take(path, descriptor, &now));
  RETURN_IF(
      now.bytes != stamp->bytes || now.modified != stamp->modified, NEAP_BAD_FORMAT,
      "%s: was changed since it was opened (it had %llu bytes, and has %llu); restore the file, or begin "
      "again",
      path, (unsigned long long)stamp->bytes, (unsigned long long)now.bytes);
  return NEAP_OK;
}

bool file_is_folder(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool file_exists(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 || (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG);
}

neap_status file_is_same(const char *one, const char *other, bool *same) {
  const char *const paths[2] = {one, other};
  struct stat of[2];
  *same = false;
  for (int i = 0; i < 2; i++)
    if (stat(paths[i], &of[i]) != 0)
      return errno == ENOENT || errno == ENOTDIR
                 ? NEAP_OK
                 : neap_fail(NEAP_IO_FAILED, "%s: cannot be read: %s", paths[i], strerror(errno));
  *same = of[0].st_dev == of[1].st_dev && of[0].st_ino == of[1].st_ino;
  return NEAP_OK;
}

const struct dirent *folder_next(DIR *entries) {
  errno = 0;
  return readdir(entries);
}

neap_status folder_close(DIR *entries, const char *folder, neap_status status) {
  const int why = status == NEAP_OK ? errno : 0;
  closedir(entries);
  RETURN_IF(why != 0, NEAP_IO_FAILED, "%s: cannot be read: %s", folder, strerror(why));
  return status;
}

neap_status file_open(const char *path, int *descriptor, uint64_t *bytes) {
  struct stat status;
  const int opened =
      open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer is not waited for */
  RETURN_IF(opened < 0, NEAP_IO_FAILED, "%s: cannot be opened: %s", path, strerror(errno));
  const int why = fstat(opened, &status) == 0 ? 0 : errno;
  if (why != 0 || !S_ISREG(status.st_mode)) {
    close(opened);
    return why != 0 ? neap_fail(NEAP_IO_FAILED, "%s: cannot be opened: %s", path, strerror(why))
                    : neap_fail(NEAP_IO_FAILED, "%s: is not a regular file", path);
  }
  *descriptor = opened;
  *bytes = (uint64_t)status.st_size;
  return NEAP_OK;
}

int file_open_nameless(const char *folder, const char *name) {
  char path[PATH_MAX];
  int descriptor = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL))
    return descriptor;
  const int length = snprintf(path, sizeof path, "%s/%s-XXXXXX", folder, name);
  errno = ENAMETOOLONG;
  if (length < 0 || (size_t)length >= sizeof path || (descriptor = mkostemp(path, O_CLOEXEC)) < 0) return -1;
  if (unlink(path) == 0) return descriptor;
  const int why = errno;
  close(descriptor);
  errno = why;
  return -1;
}

FILE *file_open_stream(const char *path) {
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return NULL;
  const int flags = fcntl(descriptor, F_GETFL);
  FILE *file =
      flags >= 0 && fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK) == 0 ? fdopen(descriptor, "rb") : NULL;
  if (file == NULL) close(descriptor);
  return file;
}

neap_status file_feed(const char *path, file_feeder *feed, void *context) {
  enum { CHUNK = 1 << 16 };
  uint64_t bytes;
  int descriptor;
  TRY(file_open(path, &descriptor, &bytes));
  neap_status status = NEAP_OK;
  unsigned char *chunk = malloc(CHUNK);
  if (chunk == NULL) status = neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  for (uint64_t at = 0; status == NEAP_OK && at < bytes; at += CHUNK) {
    const size_t some = bytes - at < CHUNK ? (size_t)(bytes - at) : CHUNK;
    status = file_need_at(path, descriptor, at, chunk, some);
    if (status == NEAP_OK) feed(context, chunk, some);
  }
  free(chunk);
  close(descriptor);
  return status;
}
