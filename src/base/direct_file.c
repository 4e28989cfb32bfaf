#include "base/direct_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { PAGE = 4096 }; /* no file system asks for more */

neap_status direct_buffer_create(uint64_t bytes, struct direct_buffer *buffer) {
  *buffer = (struct direct_buffer){.memory = aligned_alloc(PAGE, bytes), .bytes = bytes};
  RETURN_IF(buffer->memory == NULL, NEAP_OUT_OF_MEMORY, "out of memory for a buffer of %llu bytes",
            (unsigned long long)bytes);
  return NEAP_OK;
}

void direct_buffer_free(struct direct_buffer *buffer) {
  free(buffer->memory);
  *buffer = (struct direct_buffer){0};
}

/* ---- Files ---- */

neap_status direct_file_open(const char *path, int descriptor, struct direct_buffer *buffer,
                             struct direct_file *file) {
  char same[64];
  *file = (struct direct_file){.path = path, .plain = descriptor, .direct = -1, .buffer = buffer};
  struct stat status;
  RETURN_IF(fstat(descriptor, &status) != 0, NEAP_IO_FAILED, "%s: cannot be read: %s", path, strerror(errno));
  RETURN_IF(!S_ISREG(status.st_mode), NEAP_IO_FAILED, "%s: is not a regular file", path);
  TRY(file_stamp_take(path, descriptor, &file->stamp));
  snprintf(same, sizeof same, "/proc/self/fd/%d", descriptor);
  file->direct = open(same, O_RDONLY | O_CLOEXEC | O_DIRECT);
  return NEAP_OK;
}

void direct_file_close(struct direct_file *file) {
  if (file->buffer == NULL) return;
  if (file->direct >= 0) close(file->direct);
  if (file->buffer->of == file) file->buffer->of = NULL;
  *file = (struct direct_file){.direct = -1};
}

/* ---- Reading ---- */

static neap_status fail_changed(const struct direct_file *file, uint64_t offset) {
  return neap_fail(NEAP_BAD_FORMAT,
                   "%s: was changed or cut while it was read (at offset %llu; it had %llu bytes); restore "
                   "the file that the run began with, and resume from the last checkpoint (`resume`)",
                   file->path, (unsigned long long)offset, (unsigned long long)file->stamp.bytes);
}

static neap_status check_same(const struct direct_file *file, uint64_t offset) {
  return file_stamp_check(file->path, file->plain, &file->stamp) == NEAP_OK ? NEAP_OK
                                                                            : fail_changed(file, offset);
}

static neap_status fail_read(const struct direct_file *file, uint64_t offset, int why) {
  if (why == FILE_ENDS) return fail_changed(file, offset);
  return neap_fail(
      NEAP_IO_FAILED,
      "%s: cannot be read at offset %llu: %s; check the disk, and resume from the last checkpoint (`resume`)",
      file->path, (unsigned long long)offset, strerror(why));
}

static bool has(const struct direct_file *file, uint64_t offset, uint64_t bytes) {
  const struct direct_buffer *b = file->buffer;
  return b->of == file && offset >= b->at && offset + bytes <= b->at + b->filled;
}

/* Returns 0 or an errno; the file may end first. */
static int read_some(int descriptor, uint64_t offset, unsigned char *to, uint64_t bytes, uint64_t *done) {
  for (*done = 0; *done < bytes;) {
    const ssize_t got = pread(descriptor, to + *done, bytes - *done, (off_t)(offset + *done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) break;
    *done += (uint64_t)got;
    if (got % PAGE != 0) break; /* the end, behind which no direct read may begin */
  }
  return 0;
}

/* Fills the buffer from the page of `offset` on, with at least `bytes`, of which one page's less than it has
 * room for, and with what follows up to file->until if that was announced. */
static neap_status fill(struct direct_file *file, uint64_t offset, uint64_t bytes) {
  struct direct_buffer *b = file->buffer;
  const uint64_t begin = offset / PAGE * PAGE, wanted = offset + bytes,
                 end = offset >= file->from && file->until > wanted ? file->until : wanted,
                 pages = (end - begin + PAGE - 1) / PAGE * PAGE, length = pages < b->bytes ? pages : b->bytes;
  b->of = NULL;
  TRY(check_same(file, offset));
  int why = file->direct >= 0 ? read_some(file->direct, begin, b->memory, length, &b->filled) : EINVAL;
  if (why == EINVAL) { /* the file system takes none of these after all */
    why = read_some(file->plain, begin, b->memory, length, &b->filled);
    posix_fadvise(file->plain, (off_t)begin, (off_t)length, POSIX_FADV_DONTNEED);
  }
  if (why != 0) return fail_read(file, offset, why);
  b->at = begin;
  b->of = file;
  b->total += b->filled;
  return has(file, offset, 1) ? NEAP_OK : fail_read(file, offset, FILE_ENDS);
}

neap_status direct_file_cover(struct direct_file *file, uint64_t offset, uint64_t bytes, uint64_t until) {
  file->from = offset;
  file->until = until;
  if (has(file, offset, bytes) || bytes > file->buffer->bytes - PAGE) return NEAP_OK;
  return fill(file, offset, bytes);
}

neap_status direct_file_read(struct direct_file *file, uint64_t offset, void *to, uint64_t bytes) {
  struct direct_buffer *b = file->buffer;
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t at = offset + done;
    if (!has(file, at, 1)) TRY(fill(file, at, bytes - done));
    const uint64_t here = b->at + b->filled - at, some = here < bytes - done ? here : bytes - done;
    memcpy((unsigned char *)to + done, b->memory + (at - b->at), some);
    done += some;
  }
  return NEAP_OK;
}

neap_status direct_file_read_apart(struct direct_file *file, uint64_t offset, void *to, uint64_t bytes) {
  TRY(check_same(file, offset));
  const int why = file_read_at(file->plain, offset, to, bytes);
  if (why != 0) return fail_read(file, offset, why);
  file->buffer->total += bytes;
  return NEAP_OK;
}
