#include "formats/npy.h"

#include <string.h>

#include "base/file.h"

/* A prefix of magic bytes, two of version and the header's length, 2 bytes little-endian in format 1.0,
 * else 4. The header is a dictionary in Python's notation, whose keys come in any order:
 *     {'descr': '<u2', 'fortran_order': False, 'shape': (1000,), } */
enum { MAGIC_BYTES = 6, PREFIX_BYTES = 12, HEADER_LIMIT = 10000 /* NumPy's own */ };
static const char magic[] = "\x93NUMPY";

enum { KEY_TYPE = 1, KEY_ORDER = 2, KEY_SHAPE = 4, ALL_KEYS = 7 };

struct header {
  const char *at, *end;
  int keys; /* found so far */
  char type[NPY_TYPE_BYTES];
  bool fortran_order;
  int rank;
  int64_t dims[NEAP_MAX_RANK];
};

/* ---- Python's notation ---- */

static void skip_blanks(struct header *h) {
  while (h->at < h->end && (*h->at == ' ' || *h->at == '\t' || *h->at == '\r' || *h->at == '\n')) h->at++;
}

/* Skips blanks and takes the word if it follows. */
static bool take_word(struct header *h, const char *word) {
  const size_t length = strlen(word);
  skip_blanks(h);
  if ((size_t)(h->end - h->at) < length || memcmp(h->at, word, length) != 0) return false;
  h->at += length;
  return true;
}

static bool take(struct header *h, char wanted) { return take_word(h, (char[]){wanted, '\0'}); }

/* Takes a string of less than NPY_TYPE_BYTES bytes, without escapes and zeros. */
static bool take_string(struct header *h, char text[NPY_TYPE_BYTES]) {
  const char quote = take(h, '\'') ? '\'' : '"';
  if (quote == '"' && !take(h, '"')) return false;
  for (int i = 0; i < NPY_TYPE_BYTES && h->at < h->end && *h->at != '\\' && *h->at != '\0'; i++) {
    text[i] = *h->at++;
    if (text[i] != quote) continue;
    text[i] = '\0';
    return true;
  }
  return false;
}

static bool take_size(struct header *h, int64_t *size) {
  skip_blanks(h);
  const char *first = h->at;
  for (*size = 0; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++)
    if (__builtin_mul_overflow(*size, 10, size) || __builtin_add_overflow(*size, *h->at - '0', size))
      return false;
  return h->at > first;
}

/* Takes a tuple of sizes; one of a single size ends with a comma. */
static bool take_shape(struct header *h) {
  if (!take(h, '(')) return false;
  for (h->rank = 0; !take(h, ')'); h->rank++) {
    if (h->rank == NEAP_MAX_RANK || !take_size(h, &h->dims[h->rank])) return false;
    if (take(h, ',')) continue;
    h->rank++;
    return h->rank > 1 && take(h, ')');
  }
  return true;
}

static bool take_entry(struct header *h) {
  char key[NPY_TYPE_BYTES];
  if (!take_string(h, key) || !take(h, ':')) return false;
  int found = 0;
  if (strcmp(key, "descr") == 0) {
    found = take_string(h, h->type) ? KEY_TYPE : 0;
  } else if (strcmp(key, "fortran_order") == 0) {
    h->fortran_order = take_word(h, "True");
    found = h->fortran_order || take_word(h, "False") ? KEY_ORDER : 0;
  } else if (strcmp(key, "shape") == 0) {
    found = take_shape(h) ? KEY_SHAPE : 0;
  }
  const bool good = found != 0 && (h->keys & found) == 0;
  h->keys |= found;
  return good;
}

static bool take_header(struct header *h) {
  if (!take(h, '{')) return false;
  while (!take(h, '}')) {
    if (!take_entry(h)) return false;
    if (take(h, ',')) continue;
    if (!take(h, '}')) return false;
    break;
  }
  skip_blanks(h);
  return h->keys == ALL_KEYS && h->at == h->end;
}

/* ---- The file ---- */

/* Finds the start of the dictionary, and its length. */
static neap_status read_prefix(const char *path, int descriptor, uint64_t base, uint64_t *offset,
                               size_t *length) {
  unsigned char prefix[PREFIX_BYTES];
  TRY(file_need_at(path, descriptor, base, prefix, sizeof prefix));
  RETURN_IF(memcmp(prefix, magic, MAGIC_BYTES) != 0, NEAP_BAD_FORMAT, "%s: is not a NumPy file", path);
  const int major = prefix[6], minor = prefix[7];
  RETURN_IF(major < 1 || major > 3 || minor != 0, NEAP_UNSUPPORTED,
            "%s: has NumPy's format %d.%d; supported are 1.0, 2.0 and 3.0", path, major, minor);
  *offset = base + (major == 1 ? PREFIX_BYTES - 2 : PREFIX_BYTES);
  *length = (size_t)prefix[8] | (size_t)prefix[9] << 8;
  if (major > 1) *length |= (size_t)prefix[10] << 16 | (size_t)prefix[11] << 24;
  RETURN_IF(*length > HEADER_LIMIT, NEAP_BAD_FORMAT, "%s: its header has %zu bytes; the limit is %d", path,
            *length, HEADER_LIMIT);
  return NEAP_OK;
}

neap_status npy_read(const char *path, int descriptor, uint64_t base, struct npy *npy) {
  char text[HEADER_LIMIT];
  uint64_t offset;
  size_t length;
  TRY(read_prefix(path, descriptor, base, &offset, &length));
  TRY(file_need_at(path, descriptor, offset, text, length));
  struct header header = {.at = text, .end = text + length};
  RETURN_IF(!take_header(&header), NEAP_BAD_FORMAT,
            "%s: its header is not {'descr': TYPE, 'fortran_order': False, 'shape': (COUNT,)} at byte %zu",
            path, (size_t)(offset - base) + (size_t)(header.at - text));
  RETURN_IF(header.fortran_order, NEAP_UNSUPPORTED,
            "%s: is in Fortran order; save numpy.ascontiguousarray of it", path);
  *npy = (struct npy){.rank = header.rank, .count = 1, .offset = offset + length};
  for (int i = 0; i < header.rank; i++) {
    npy->dims[i] = header.dims[i];
    RETURN_IF(__builtin_mul_overflow(npy->count, header.dims[i], &npy->count), NEAP_TOO_LARGE,
              "%s: its shape has more than 2^63 elements", path);
  }
  memcpy(npy->type, header.type, sizeof npy->type);
  return NEAP_OK;
}
