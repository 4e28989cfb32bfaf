#include "data/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "text/tokenizer.h"

void source_close(struct source *source) {
  if (source->close != NULL) source->close(source);
  for (size_t i = 0; i < source->files.count; i++) close(source->files.data[i]);
  vector_free(&source->files);
  vector_free(&source->problems.list);
  understood_free(&source->understood);
  tokenizer_free(source->tokenizer);
  region_free(&source->region);
  *source = (struct source){0};
}

/* ---- Fields ---- */

neap_status source_add_field(struct source *source, struct field field) {
  RETURN_IF(source->field_count == FIELD_LIMIT, NEAP_UNSUPPORTED, "data '%s': has more than %d fields",
            source->name, FIELD_LIMIT);
  source->fields[source->field_count++] = field;
  return NEAP_OK;
}

int source_find_field(const struct source *source, const char *name) {
  for (int f = 0; f < source->field_count; f++)
    if (strcmp(source->fields[f].name, name) == 0) return f;
  return -1;
}

int64_t field_elements(const struct field *field) {
  int64_t elements = 1;
  for (int i = 0; i < field->rank; i++) elements *= field->dims[i];
  return elements;
}

const struct field *source_image(const struct source *source) {
  for (int f = 0; f < source->field_count; f++)
    if (source->fields[f].dtype == NEAP_U8 && source->fields[f].rank == 3) return &source->fields[f];
  return NULL;
}

/* ---- Files ---- */

neap_status source_keep_file(struct source *source, const char *path, int descriptor) {
  if (vector_push(&source->files, descriptor) == NEAP_OK) return NEAP_OK;
  close(descriptor);
  return neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
}

neap_status source_open_file(struct source *source, const char *path, int *descriptor, size_t *size) {
  uint64_t bytes;
  TRY(file_open(path, descriptor, &bytes));
  TRY(source_keep_file(source, path, *descriptor));
  RETURN_IF(bytes == 0, NEAP_BAD_FORMAT, "%s: is empty", path);
  *size = (size_t)bytes;
  return NEAP_OK;
}

neap_status source_read_file(const char *path, int descriptor, size_t offset, int64_t count, size_t stride,
                             size_t bytes, uint8_t *data) {
  for (int64_t i = 0; i < count; i++, data += bytes)
    TRY(file_need_at(path, descriptor, offset + (size_t)i * stride, data, bytes));
  return NEAP_OK;
}

neap_status source_temporary_file(struct source *source, const char *path, int *descriptor) {
  const char *wish = getenv("TMPDIR"), *folder = wish != NULL ? wish : "/tmp";
  *descriptor = file_open_nameless(folder, "neap-data");
  RETURN_IF(*descriptor < 0, NEAP_IO_FAILED,
            "%s: cannot create a temporary file for its content in %s: %s (TMPDIR?)", path, folder,
            strerror(errno));
  return source_keep_file(source, path, *descriptor);
}

neap_status source_write_file(const char *path, int descriptor, const void *bytes, size_t count) {
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

/* ---- Names ---- */

/* Fails if no such place exists and its name ends with a word that is none of the keys: ",lable=price". */
static neap_status check_words_known(const struct source *source, const char *place,
                                     const char *const *keys) {
  const char *comma = strrchr(place, ','), *sign = comma != NULL ? strchr(comma, '=') : NULL;
  if (sign == NULL || strspn(comma + 1, "abcdefghijklmnopqrstuvwxyz_-") != (size_t)(sign - comma - 1) ||
      file_exists(place))
    return NEAP_OK;
  char known[256] = "";
  size_t at = 0;
  for (int k = 1; keys[k] != NULL && at < sizeof known; k++)
    at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", k > 1 ? ", " : "", keys[k]);
  return neap_fail(NEAP_INVALID_ARGUMENT, "data '%s': unknown word '%.*s' (known are %s), or '%s' is missing",
                   source->name, (int)(sign - comma - 1), comma + 1, known, place);
}

neap_status source_parse(struct source *source, const char *argument, const char *const *keys,
                         const char **const *values) {
  char *text = region_format(&source->region, "%s", argument);
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
  return check_words_known(source, text, keys);
}

bool source_is_tokenizer(const char *name) {
  static const char ending[] = ".json";
  const size_t length = strlen(name), end = sizeof ending - 1;
  return length > end && strcmp(name + length - end, ending) == 0;
}
