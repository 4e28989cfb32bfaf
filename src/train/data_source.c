#include "train/data_source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool data_file_exists(const char *path) {
  struct stat status;
  return stat(path, &status) == 0;
}

neap_status data_map_file(struct data_set *set, const char *path, const uint8_t **bytes, size_t *size) {
  RETURN_IF(set->mapped_count == DATA_MAX_FILES, NEAP_UNSUPPORTED, "%s: a data set has at most %d files",
            path, DATA_MAX_FILES);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  RETURN_IF(file < 0, NEAP_IO_FAILED, "%s: cannot be opened: %s", path, strerror(errno));
  struct stat status;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file);
    return neap_fail(NEAP_IO_FAILED, "%s: is not a regular file", path);
  }
  if (status.st_size <= 0) {
    close(file);
    return neap_fail(NEAP_BAD_FORMAT, "%s: is empty", path);
  }
  /* Read now, not at the first use: what a session adds to the process must not include the data. */
  void *memory = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
  const int error = errno;
  close(file);
  RETURN_IF(memory == MAP_FAILED, NEAP_IO_FAILED, "%s: cannot be mapped: %s", path, strerror(error));
  set->mapped[set->mapped_count].memory = memory;
  set->mapped[set->mapped_count++].bytes = (size_t)status.st_size;
  *bytes = memory;
  *size = (size_t)status.st_size;
  return NEAP_OK;
}

neap_status data_add_part(struct data_split *split, const struct data_part *part) {
  RETURN_IF(split->part_count == DATA_MAX_FILES, NEAP_UNSUPPORTED, "%s: a data set has at most %d files",
            part->file, DATA_MAX_FILES);
  RETURN_IF(part->count > INT32_MAX - split->count, NEAP_TOO_LARGE, "%s: a data set has at most %d records",
            part->file, INT32_MAX);
  split->parts[split->part_count++] = *part;
  split->count += part->count;
  return NEAP_OK;
}
