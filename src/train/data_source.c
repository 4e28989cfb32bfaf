#include "train/data_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

bool data_file_exists(const char *path) {
  struct stat status;
  return stat(path, &status) == 0;
}

neap_status data_keep_file(struct data_set *set, const char *path, int descriptor) {
  if (set->file_count == DATA_MAX_FILES) {
    close(descriptor);
    return neap_fail(NEAP_UNSUPPORTED, "%s: a data set has at most %d files", path, DATA_MAX_FILES);
  }
  set->files[set->file_count++] = descriptor;
  return NEAP_OK;
}

neap_status data_open_file(struct data_set *set, const char *path, int *descriptor, size_t *size) {
  uint64_t bytes;
  TRY(file_open(path, descriptor, &bytes));
  TRY(data_keep_file(set, path, *descriptor));
  RETURN_IF(bytes == 0, NEAP_BAD_FORMAT, "%s: is empty", path);
  *size = (size_t)bytes;
  return NEAP_OK;
}

neap_status data_read_file(const char *path, int descriptor, size_t offset, int64_t count, size_t stride,
                           size_t bytes, uint8_t *data) {
  for (int64_t i = 0; i < count; i++, data += bytes)
    TRY(file_need_at(path, descriptor, offset + (size_t)i * stride, data, bytes));
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

neap_status data_temporary_file(struct data_set *set, const char *path, int *descriptor) {
  const char *folder = getenv("TMPDIR");
  char *name = region_format(&set->region, "%s/neap-data-XXXXXX", folder != NULL ? folder : "/tmp");
  RETURN_IF_NULL(name);
  *descriptor = mkostemp(name, O_CLOEXEC);
  RETURN_IF(*descriptor < 0, NEAP_IO_FAILED, "%s: no temporary file for its content: %s: %s (TMPDIR?)", path,
            name, strerror(errno));
  unlink(name); /* it lives as long as it is open */
  return data_keep_file(set, path, *descriptor);
}

neap_status data_write_file(const char *path, int descriptor, const void *bytes, size_t count) {
  for (const char *data = bytes; count > 0;) {
    const ssize_t put = write(descriptor, data, count);
    if (put < 0 && errno == EINTR) continue;
    RETURN_IF(put < 0, NEAP_IO_FAILED, "%s: its temporary file cannot be written: %s (TMPDIR?)", path,
              strerror(errno));
    data += put;
    count -= (size_t)put;
  }
  return NEAP_OK;
}

neap_status data_parse(struct data_set *set, const char *argument, const char *const *keys,
                       const char **const *values) {
  char *text = region_format(&set->region, "%s", argument);
  RETURN_IF_NULL(text);
  *values[0] = text;
  for (char *comma = strchr(text, ','); comma != NULL; comma = strchr(comma + 1, ','))
    for (int k = 1; keys[k] != NULL; k++) {
      const size_t length = strlen(keys[k]);
      if (strncmp(comma + 1, keys[k], length) != 0 || comma[1 + length] != '=') continue;
      *comma = '\0';
      *values[k] = comma + 1 + length + 1;
      break;
    }
  return NEAP_OK;
}

bool data_is_tokenizer(const char *name) {
  static const char ending[] = ".json";
  const size_t length = strlen(name), end = sizeof ending - 1;
  return length > end && strcmp(name + length - end, ending) == 0;
}
