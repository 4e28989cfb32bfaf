/* Preloaded into a command: fails one read or write of a session's file on disk (program/spill_file.h), which
 * has no name. FAIL_DISK is "KIND NUMBER HOW": KIND read or write, NUMBER from 1, HOW one of error  fails
 * with EIO full   fails with ENOSPC short  moves one page alone none   moves nothing flip   a write changes a
 * byte on its way "slow" alone makes each of them take a millisecond more. */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

typedef ssize_t moving(int, void *, size_t, off_t);

enum { PAGE = 4096 };

static bool is_of_session(int descriptor) {
  char link[64], path[4096] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  return readlink(link, path, sizeof path - 1) > 0 && strstr(path, "/neap-variables-") != NULL &&
         strstr(path, " (deleted)") != NULL;
}

/* Returns how this call fails; NULL: it does not. */
static const char *fault(const char *kind, atomic_int *count, int descriptor) {
  static char how[16];
  char wanted[16] = "";
  int number = 0;
  const char *given = getenv("FAIL_DISK");
  if (given == NULL || !is_of_session(descriptor)) return NULL;
  if (strcmp(given, "slow") == 0) usleep(1000);
  const int at = ++*count;
  if (sscanf(given, "%15s %d %15s", wanted, &number, how) != 3) return NULL;
  return strcmp(wanted, kind) == 0 && at == number ? how : NULL;
}

static ssize_t move(const char *how, moving *real, int descriptor, void *data, size_t bytes, off_t at) {
  if (how == NULL) return real(descriptor, data, bytes, at);
  if (strcmp(how, "short") == 0) return real(descriptor, data, bytes < PAGE ? bytes : PAGE, at);
  if (strcmp(how, "none") == 0) return 0;
  if (strcmp(how, "flip") != 0) {
    errno = strcmp(how, "full") == 0 ? ENOSPC : EIO;
    return -1;
  }
  unsigned char *copy = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
  if (copy == NULL) return real(descriptor, data, bytes, at);
  memcpy(copy, data, bytes);
  copy[bytes / 2] ^= 16;
  const ssize_t moved = real(descriptor, copy, bytes, at);
  free(copy);
  return moved;
}

ssize_t pread(int descriptor, void *data, size_t bytes, off_t at) {
  static moving *real;
  static atomic_int count;
  if (real == NULL) real = (moving *)dlsym(RTLD_NEXT, "pread");
  return move(fault("read", &count, descriptor), real, descriptor, data, bytes, at);
}

ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t at) {
  static moving *real;
  static atomic_int count;
  if (real == NULL) real = (moving *)dlsym(RTLD_NEXT, "pwrite");
  return move(fault("write", &count, descriptor), real, descriptor, (void *)data, bytes, at);
}

/* The same under the names of 64-bit offsets. */
ssize_t pread64(int descriptor, void *data, size_t bytes, off_t at) {
  return pread(descriptor, data, bytes, at);
}
ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off_t at) {
  return pwrite(descriptor, data, bytes, at);
}
