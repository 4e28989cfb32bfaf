#include "data/zip.h"

#include <string.h>
#include <zlib.h>

#include "base/file.h"
#include "base/stop.h"

enum {
  END_BYTES = 22, /* of the record at the end, before its comment of up to COMMENT_BYTES */
  COMMENT_BYTES = 65535,
  END64_BYTES = 56,
  LOCATOR_BYTES = 20, /* tells where that is, right before the end */
  CENTRAL_BYTES = 46,
  LOCAL_BYTES = 30,
  NAME_BYTES = 256,
  ENTRY_LIMIT = 10000
};

static uint64_t number(const uint8_t *bytes, int count) {
  uint64_t value = 0;
  for (int i = count - 1; i >= 0; i--) value = value << 8 | bytes[i];
  return value;
}

static neap_status bad(const struct zip *zip, const char *why) {
  return neap_fail(NEAP_BAD_FORMAT, "%s: is not a complete .npz file (%s); was it copied completely?",
                   zip->path, why);
}

static neap_status read_at(const struct zip *zip, uint64_t offset, void *bytes, size_t count) {
  if (offset > zip->size || count > zip->size - offset) return bad(zip, "it ends too early");
  return file_need_at(zip->path, zip->descriptor, offset, bytes, count);
}

/* ---- The list of entries ---- */

struct directory {
  uint64_t offset, count;
};

/* Reads the end record of a large file, whose usual end record has no room for its numbers. */
static neap_status read_end64(const struct zip *zip, uint64_t end, struct directory *directory) {
  uint8_t locator[LOCATOR_BYTES], record[END64_BYTES];
  if (end < LOCATOR_BYTES) return bad(zip, "its end is damaged");
  TRY(read_at(zip, end - LOCATOR_BYTES, locator, sizeof locator));
  if (memcmp(locator, "PK\6\7", 4) != 0) return NEAP_OK; /* the numbers are as they are */
  TRY(read_at(zip, number(locator + 8, 8), record, sizeof record));
  if (memcmp(record, "PK\6\6", 4) != 0) return bad(zip, "its end is damaged");
  *directory = (struct directory){.count = number(record + 32, 8), .offset = number(record + 48, 8)};
  return NEAP_OK;
}

/* Finds the end record, which a comment may follow. */
static neap_status find_directory(const struct zip *zip, struct directory *directory) {
  static const uint8_t magic[] = {'P', 'K', 5, 6};
  uint8_t record[END_BYTES];
  for (uint64_t back = END_BYTES; back <= END_BYTES + COMMENT_BYTES && back <= zip->size; back++) {
    TRY(read_at(zip, zip->size - back, record, sizeof record));
    if (memcmp(record, magic, sizeof magic) != 0 || number(record + 20, 2) != back - END_BYTES) continue;
    *directory = (struct directory){.count = number(record + 10, 2), .offset = number(record + 16, 4)};
    return read_end64(zip, zip->size - back, directory);
  }
  return bad(zip, "it has no end record");
}

/* Reads the numbers of a large entry from its extra field, in the order of those that had no room. */
static neap_status read_extra(const struct zip *zip, struct zip_entry *entry, uint64_t offset, size_t bytes) {
  uint64_t *const wanted[] = {&entry->size, &entry->compressed, &entry->offset};
  uint8_t extra[1024];
  if (bytes > sizeof extra) bytes = sizeof extra;
  TRY(read_at(zip, offset, extra, bytes));
  for (size_t at = 0; at + 4 <= bytes; at += 4 + (size_t)number(extra + at + 2, 2)) {
    const size_t length = (size_t)number(extra + at + 2, 2);
    if (number(extra + at, 2) != 1 || at + 4 + length > bytes) continue;
    size_t used = 0;
    for (int i = 0; i < 3; i++)
      if (*wanted[i] == UINT32_MAX && used + 8 <= length)
        *wanted[i] = number(extra + at + 4 + used, 8), used += 8;
  }
  return NEAP_OK;
}

static neap_status read_entry(struct source *source, struct zip *zip, uint64_t *at) {
  uint8_t record[CENTRAL_BYTES];
  char name[NAME_BYTES];
  TRY(read_at(zip, *at, record, sizeof record));
  if (memcmp(record, "PK\1\2", 4) != 0) return bad(zip, "its list of entries is damaged");
  const size_t length = (size_t)number(record + 28, 2), extra = (size_t)number(record + 30, 2);
  struct zip_entry entry = {.method = (int)number(record + 10, 2),
                            .checksum = (uint32_t)number(record + 16, 4),
                            .compressed = number(record + 20, 4),
                            .size = number(record + 24, 4),
                            .offset = number(record + 42, 4)};
  RETURN_IF(length >= sizeof name, NEAP_UNSUPPORTED, "%s: has an entry whose name is longer than %d bytes",
            zip->path, NAME_BYTES - 1);
  TRY(read_at(zip, *at + CENTRAL_BYTES, name, length));
  name[length] = '\0';
  TRY(read_extra(zip, &entry, *at + CENTRAL_BYTES + length, extra));
  entry.name = region_string(&source->region, name);
  RETURN_IF_NULL(entry.name);
  *at += CENTRAL_BYTES + length + extra + (size_t)number(record + 32, 2);
  return vector_push(&zip->entries, entry);
}

neap_status zip_open(struct source *source, const char *path, struct zip *zip) {
  struct directory directory;
  size_t size;
  *zip = (struct zip){.path = path};
  TRY(source_open_file(source, path, &zip->descriptor, &size));
  zip->size = size;
  TRY(find_directory(zip, &directory));
  RETURN_IF(directory.count > ENTRY_LIMIT, NEAP_UNSUPPORTED, "%s: has more than %d entries", path,
            ENTRY_LIMIT);
  for (uint64_t i = 0; i < directory.count; i++) TRY(read_entry(source, zip, &directory.offset));
  return NEAP_OK;
}

void zip_free(struct zip *zip) { vector_free(&zip->entries); }

const struct zip_entry *zip_find(const struct zip *zip, const char *name) {
  for (size_t i = 0; i < zip->entries.count; i++)
    if (strcmp(zip->entries.data[i].name, name) == 0) return &zip->entries.data[i];
  return NULL;
}

/* ---- Bytes ---- */

/* Inflates compressed bytes from `offset` on into an open file, and checks size and checksum. */
static neap_status inflate_entry(const struct zip *zip, const struct zip_entry *entry, uint64_t offset,
                                 z_stream *stream, int descriptor) {
  enum { PIECE = 1 << 16 };
  uint8_t in[PIECE], out[PIECE];
  uint64_t left = entry->compressed, done = 0;
  uLong checksum = crc32(0, NULL, 0);
  for (int state = Z_OK; state != Z_STREAM_END;) {
    if (stream->avail_in == 0 && left > 0) {
      const size_t some = left < PIECE ? (size_t)left : PIECE;
      TRY(read_at(zip, offset, in, some));
      stream->next_in = in;
      stream->avail_in = (uInt)some;
      offset += some, left -= some;
    }
    stream->next_out = out;
    stream->avail_out = PIECE;
    state = inflate(stream, Z_NO_FLUSH);
    const size_t got = PIECE - stream->avail_out;
    if ((state != Z_OK && state != Z_STREAM_END) || (done += got) > entry->size) break;
    checksum = crc32(checksum, out, (uInt)got);
    TRY(source_write_file(zip->path, descriptor, out, got));
    if (state == Z_STREAM_END && done == entry->size && checksum == entry->checksum) return NEAP_OK;
  }
  return neap_fail(NEAP_BAD_FORMAT, "%s: entry '%s' is damaged after %llu of its %llu bytes", zip->path,
                   entry->name, (unsigned long long)done, (unsigned long long)entry->size);
}

/* Checks the checksum of bytes that are not compressed. */
static neap_status check_stored(const struct zip *zip, const struct zip_entry *entry, uint64_t offset) {
  enum { PIECE = 1 << 16 };
  uint8_t bytes[PIECE];
  uLong checksum = crc32(0, NULL, 0);
  if (entry->size != entry->compressed) return bad(zip, "an entry is damaged");
  for (uint64_t left = entry->size; left > 0;) {
    const size_t some = left < PIECE ? (size_t)left : PIECE;
    TRY(stop_check());
    TRY(read_at(zip, offset, bytes, some));
    checksum = crc32(checksum, bytes, (uInt)some);
    offset += some, left -= some;
  }
  RETURN_IF(checksum != entry->checksum, NEAP_BAD_FORMAT,
            "%s: entry '%s' is damaged: its checksum is another one; was it copied completely?", zip->path,
            entry->name);
  return NEAP_OK;
}

neap_status zip_open_entry(struct source *source, const struct zip *zip, const struct zip_entry *entry,
                           int *descriptor, uint64_t *offset) {
  enum { RATIO = 1032 }; /* the most by which deflate makes bytes fewer */
  uint8_t local[LOCAL_BYTES];
  TRY(read_at(zip, entry->offset, local, sizeof local));
  if (memcmp(local, "PK\3\4", 4) != 0) return bad(zip, "an entry is damaged");
  *descriptor = zip->descriptor;
  *offset = entry->offset + LOCAL_BYTES + number(local + 26, 2) + number(local + 28, 2);
  if (*offset > zip->size || entry->compressed > zip->size - *offset) return bad(zip, "it ends too early");
  if (entry->method == 0) return check_stored(zip, entry, *offset);
  RETURN_IF(entry->method != 8, NEAP_UNSUPPORTED,
            "%s: entry '%s' has compression method %d; numpy.savez and savez_compressed write 0 and 8",
            zip->path, entry->name, entry->method);
  RETURN_IF(entry->size / RATIO > entry->compressed, NEAP_BAD_FORMAT,
            "%s: entry '%s' should have %llu bytes, but %llu compressed bytes cannot hold them", zip->path,
            entry->name, (unsigned long long)entry->size, (unsigned long long)entry->compressed);
  TRY(source_temporary_file(source, zip->path, descriptor));
  z_stream stream = {0};
  RETURN_IF(inflateInit2(&stream, -MAX_WBITS) != Z_OK, NEAP_OUT_OF_MEMORY, "%s: out of memory", zip->path);
  const neap_status status = inflate_entry(zip, entry, *offset, &stream, *descriptor);
  inflateEnd(&stream);
  *offset = 0;
  return status;
}
