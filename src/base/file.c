#include "base/file.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static neap_status sync_folder(const char *path) {
  char folder[PATH_MAX];
  snprintf(folder, sizeof folder, "%s", path);
  char *slash = strrchr(folder, '/');
  if (slash == NULL)
    snprintf(folder, sizeof folder, ".");
  else
    slash[slash == folder] = '\0';
  FILE *file =
      fopen(folder, "r"); /* a rename is safe on disk only when its folder is; some systems cannot sync one */
  if (file == NULL) return NEAP_OK;
  fsync(fileno(file));
  fclose(file);
  return NEAP_OK;
}

static neap_status say_why(const char *path, int why) {
  return neap_fail(NEAP_IO_FAILED, "%s: cannot be written: %s", path,
                   why != 0 ? strerror(why) : "unknown error");
}

/* A device, a pipe: a new file in its place is not what is meant. */
static bool takes_bytes_as_they_come(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

static neap_status write_through(const char *path, file_writer *write, const void *context) {
  FILE *file = fopen(path, "wb");
  if (file == NULL) return say_why(path, errno);
  errno = 0;
  bool good = write(file, context) && fflush(file) == 0;
  int why = errno;
  if (fclose(file) != 0 && good) good = false, why = errno;
  return good ? NEAP_OK : say_why(path, why);
}

neap_status file_write(const char *path, file_writer *write, const void *context) {
  char temporary[PATH_MAX];
  if (takes_bytes_as_they_come(path)) return write_through(path, write, context);
  const int length = snprintf(temporary, sizeof temporary, "%s.%ld.part", path, (long)getpid());
  RETURN_IF(length < 0 || (size_t)length >= sizeof temporary, NEAP_IO_FAILED, "%s: the path is too long",
            path);
  FILE *file = fopen(temporary, "wb");
  if (file == NULL) return say_why(path, errno);
  errno = 0;
  bool good = write(file, context) && fflush(file) == 0 && fsync(fileno(file)) == 0;
  int why = errno;
  if (fclose(file) != 0 && good) good = false, why = errno;
  if (good && rename(temporary, path) != 0) good = false, why = errno;
  if (good) return sync_folder(path);
  remove(temporary);
  return say_why(path, why);
}
