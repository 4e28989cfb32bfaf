/* NumPy's files of ids. What is taken has the ids that this file reads for itself behind the header, in
 * windows too, or names the first that is out of range; it has the same ids behind a header of the usual
 * form, and in a file without one. What is refused gives a message that names the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "text/token_file.h"

static const size_t sizes[] = {[TOKEN_U8] = 1, [TOKEN_U16] = 2, [TOKEN_I32] = 4, [TOKEN_I64] = 8};
static const char *const types[] = {
    [TOKEN_U8] = "|u1", [TOKEN_U16] = "<u2", [TOKEN_I32] = "<i4", [TOKEN_I64] = "<i8"};

static int64_t id_at(const uint8_t *data, enum token_type type, int64_t i) {
  uint64_t id = 0;
  for (size_t k = 0; k < sizes[type]; k++) id |= (uint64_t)data[(size_t)i * sizes[type] + k] << 8 * k;
  return type == TOKEN_I32 ? (int32_t)id : (int64_t)id;
}

/* The file's ids are those of the data, as far as they are ids. */
static void check_ids(const struct token_file *file, const uint8_t *data) {
  int64_t good = 0, place = 0;
  int32_t *ids = calloc((size_t)file->count, sizeof *ids), largest = -1, found;
  CHECK(ids != NULL);
  for (; good < file->count; good++) {
    const int64_t id = id_at(data, file->type, good);
    if (id < 0 || id > INT32_MAX) break;
    if (id > largest) largest = (int32_t)id, place = good;
  }
  CHECK_OK(token_file_read(file, 0, good, ids));
  for (int64_t i = 0; i < good; i++) CHECK(ids[i] == id_at(data, file->type, i));
  for (int64_t i = good / 2; i < good; i += 1 + good / 7) {
    CHECK_OK(token_file_read(file, i, good - i, ids));
    CHECK(ids[0] == id_at(data, file->type, i) && ids[good - i - 1] == id_at(data, file->type, good - 1));
  }
  int64_t at;
  const neap_status status = token_file_largest(file, &found, &at);
  if (good == file->count) {
    CHECK(status == NEAP_OK && found == largest && at == place);
  } else {
    char named[32];
    snprintf(named, sizeof named, "at place %lld", (long long)good);
    fuzz_check_refused(status, file->path);
    fuzz_check_refused(token_file_read(file, 0, file->count, ids), named);
  }
  free(ids);
}

static void check_copy(const char *path, enum token_type type, int64_t count, const uint8_t *data) {
  struct token_file file;
  CHECK_OK(token_file_open(path, type, &file));
  CHECK(file.type == type && file.count == count);
  check_ids(&file, data);
  token_file_close(&file);
}

static void check_copies(const struct token_file *file, const uint8_t *data) {
  const size_t bytes = (size_t)file->count * sizes[file->type];
  const char *usual = fuzz_path("usual.npy"), *bare = fuzz_path("bare.bin");
  char header[129];
  memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
  const int length = snprintf(header + 10, 119, "{'descr': '%s', 'fortran_order': False, 'shape': (%lld,), }",
                              types[file->type], (long long)file->count);
  memset(header + 10 + length, ' ', sizeof header - 10 - (size_t)length);
  header[127] = '\n';
  FILE *out = fopen(usual, "wb");
  CHECK(out != NULL && fwrite(header, 1, 128, out) == 128 && fwrite(data, 1, bytes, out) == bytes);
  CHECK(fclose(out) == 0);
  fuzz_write(bare, data, bytes);
  check_copy(usual, file->type, file->count, data);
  check_copy(bare, file->type, file->count, data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_path("ids.npy");
  struct token_file file;
  fuzz_write(path, data, size);
  const neap_status status = token_file_open(path, TOKEN_U16, &file);
  fuzz_taken = status == NEAP_OK;
  if (fuzz_taken) {
    CHECK(file.count > 0 && file.offset < size);
    CHECK((size - file.offset) % sizes[file.type] == 0 &&
          (size - file.offset) / sizes[file.type] == (uint64_t)file.count);
    check_ids(&file, data + file.offset);
    check_copies(&file, data + file.offset);
  } else {
    CHECK(status == NEAP_BAD_FORMAT || status == NEAP_UNSUPPORTED);
    fuzz_check_refused(status, path);
  }
  token_file_close(&file);
  return 0;
}
