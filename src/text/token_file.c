#include "text/token_file.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/stop.h"
#include "formats/npy.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "files are little-endian and ids are copied as they are");

enum { BUFFER_BYTES = 16384, TYPES = 4 };
static const size_t type_bytes[TYPES] = {[TOKEN_U8] = 1, [TOKEN_U16] = 2, [TOKEN_I32] = 4, [TOKEN_I64] = 8};
static const char *const type_names[TYPES] = {
    [TOKEN_U8] = "|u1", [TOKEN_U16] = "<u2", [TOKEN_I32] = "<i4", [TOKEN_I64] = "<i8"};

/* ---- Opening ---- */

static neap_status read_npy_header(struct token_file *file) {
  struct npy npy;
  int type = 0;
  TRY(npy_read(file->path, file->descriptor, 0, &npy));
  RETURN_IF(npy.rank != 1, NEAP_UNSUPPORTED, "%s: its shape has rank %d; ids must have one dimension",
            file->path, npy.rank);
  while (type < TYPES && strcmp(type_names[type], npy.type) != 0) type++;
  RETURN_IF(type == TYPES, NEAP_UNSUPPORTED,
            "%s: has elements of type '%s'; supported are |u1, <u2, <i4 and <i8", file->path, npy.type);
  file->type = (enum token_type)type;
  file->offset = npy.offset;
  file->count = npy.count;
  return NEAP_OK;
}

static bool is_npy(const char *path) {
  const size_t length = strlen(path);
  return length >= 4 && strcmp(path + length - 4, ".npy") == 0;
}

neap_status token_file_open(const char *path, enum token_type type, struct token_file *file) {
  uint64_t bytes;
  *file = (struct token_file){.path = path, .descriptor = -1, .type = type};
  TRY(file_open(path, &file->descriptor, &bytes));
  const bool npy = is_npy(path);
  if (npy) TRY(read_npy_header(file));
  const uint64_t data = bytes - file->offset, size = type_bytes[file->type];
  RETURN_IF(bytes < file->offset || data % size != 0, NEAP_BAD_FORMAT,
            "%s: its %llu bytes of data are not a multiple of the %llu bytes of an id", path,
            (unsigned long long)data, (unsigned long long)size);
  const int64_t count = (int64_t)(data / size);
  RETURN_IF(npy && file->count != count, NEAP_BAD_FORMAT, "%s: has %lld ids; its header says %lld", path,
            (long long)count, (long long)file->count);
  RETURN_IF(count == 0, NEAP_BAD_FORMAT, "%s: has no ids", path);
  file->count = count;
  return NEAP_OK;
}

void token_file_close(struct token_file *file) {
  if (file->descriptor >= 0) close(file->descriptor);
  file->descriptor = -1;
}

/* ---- Reading ---- */

static int64_t id_at(enum token_type type, const unsigned char *bytes) {
  uint16_t u16;
  int32_t i32;
  int64_t i64;
  switch (type) {
  case TOKEN_U8:
    return bytes[0];
  case TOKEN_U16:
    memcpy(&u16, bytes, sizeof u16);
    return u16;
  case TOKEN_I32:
    memcpy(&i32, bytes, sizeof i32);
    return i32;
  case TOKEN_I64:
    memcpy(&i64, bytes, sizeof i64);
    return i64;
  }
  return -1;
}

/* Reads as many ids as the buffer holds, at most `count`; gives their number. */
static neap_status read_some(const struct token_file *file, int64_t first, int64_t count, int32_t *ids,
                             int64_t *got) {
  unsigned char buffer[BUFFER_BYTES];
  const size_t size = type_bytes[file->type];
  const int64_t room = (int64_t)(BUFFER_BYTES / size), some = count < room ? count : room;
  TRY(file_need_at(file->path, file->descriptor, file->offset + (uint64_t)first * size, buffer,
                   (size_t)some * size));
  for (int64_t i = 0; i < some; i++) {
    const int64_t id = id_at(file->type, buffer + (size_t)i * size);
    RETURN_IF(id < 0 || id > INT32_MAX, NEAP_BAD_FORMAT, "%s: id %lld at place %lld; ids must be 0 to %d",
              file->path, (long long)id, (long long)(first + i), INT32_MAX);
    ids[i] = (int32_t)id;
  }
  *got = some;
  return NEAP_OK;
}

neap_status token_file_read(const struct token_file *file, int64_t first, int64_t count, int32_t *ids) {
  RETURN_IF(first < 0 || count < 0 || count > file->count || first > file->count - count,
            NEAP_INVALID_ARGUMENT, "%s: does not have %lld ids from place %lld on; it has %lld", file->path,
            (long long)count, (long long)first, (long long)file->count);
  for (int64_t done = 0, got; done < count; done += got)
    TRY(read_some(file, first + done, count - done, ids + done, &got));
  return NEAP_OK;
}

neap_status token_file_largest(const struct token_file *file, int32_t *largest, int64_t *place) {
  int32_t ids[BUFFER_BYTES];
  *largest = -1;
  for (int64_t done = 0, got; done < file->count; done += got) {
    TRY(stop_check());
    TRY(read_some(file, done, file->count - done, ids, &got));
    for (int64_t i = 0; i < got; i++)
      if (ids[i] > *largest) *largest = ids[i], *place = done + i;
  }
  return NEAP_OK;
}
