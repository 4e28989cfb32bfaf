#include "formats/gguf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/quantised.h"

/* ---- The header, read piece by piece ---- */

struct cursor {
  const char *path;
  int descriptor;
  uint64_t at, size; /* in the file */
  uint64_t buffer_at;
  size_t buffered;
  char subject[160]; /* the object that is read, for messages */
  unsigned char buffer[16384];
};

static uint64_t bytes_left(const struct cursor *c) { return c->at < c->size ? c->size - c->at : 0; }

static neap_status cut_short(const struct cursor *c, uint64_t bytes) {
  return neap_fail(NEAP_BAD_FORMAT,
                   "%s: offset %llu: %s needs %llu bytes, but the file ends after %llu (cut short?)", c->path,
                   (unsigned long long)c->at, c->subject, (unsigned long long)bytes,
                   (unsigned long long)bytes_left(c));
}

static neap_status take(struct cursor *c, void *data, size_t bytes) {
  if (bytes > bytes_left(c)) return cut_short(c, bytes);
  const bool buffered = c->at >= c->buffer_at && c->at + bytes <= c->buffer_at + c->buffered;
  if (!buffered && bytes < sizeof c->buffer) {
    const uint64_t left = bytes_left(c);
    c->buffered = left < sizeof c->buffer ? (size_t)left : sizeof c->buffer;
    c->buffer_at = c->at;
    TRY(file_need_at(c->path, c->descriptor, c->at, c->buffer, c->buffered));
  }
  if (bytes < sizeof c->buffer)
    memcpy(data, c->buffer + (c->at - c->buffer_at), bytes);
  else
    TRY(file_need_at(c->path, c->descriptor, c->at, data, bytes));
  c->at += bytes;
  return NEAP_OK;
}

static neap_status take_u32(struct cursor *c, uint32_t *value) { return take(c, value, sizeof *value); }
static neap_status take_u64(struct cursor *c, uint64_t *value) { return take(c, value, sizeof *value); }

/* A length, and that number of bytes, which are there. */
static neap_status take_length(struct cursor *c, uint64_t *length) {
  TRY(take_u64(c, length));
  return *length > bytes_left(c) ? cut_short(c, *length) : NEAP_OK;
}

/* A number of things that have `least` bytes or more each. */
static neap_status check_count(const struct cursor *c, const char *things, uint64_t count, uint64_t least) {
  RETURN_IF(count > bytes_left(c) / least || count > INT32_MAX, NEAP_BAD_FORMAT,
            "%s: offset %llu: %s: %llu %s do not fit in the file's last %llu bytes (damaged, or cut short?)",
            c->path, (unsigned long long)c->at, c->subject, (unsigned long long)count, things,
            (unsigned long long)bytes_left(c));
  return NEAP_OK;
}

static neap_status take_string(struct cursor *c, struct region *region, const char **text, size_t *length) {
  uint64_t bytes;
  TRY(take_length(c, &bytes));
  char *copy = region_alloc(region, (size_t)bytes + 1, 1);
  RETURN_IF(copy == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for %s", c->path, c->subject);
  *text = copy;
  *length = (size_t)bytes;
  return take(c, copy, (size_t)bytes);
}

/* A key or a name becomes the subject. */
static neap_status take_name(struct cursor *c, struct region *region, const char *kind, const char **name) {
  size_t length;
  TRY(take_string(c, region, name, &length));
  RETURN_IF(strlen(*name) != length, NEAP_BAD_FORMAT, "%s: offset %llu: %s: its name contains a zero byte",
            c->path, (unsigned long long)c->at, c->subject);
  snprintf(c->subject, sizeof c->subject, "%s '%.128s'", kind, *name);
  return NEAP_OK;
}

/* ---- Pairs ---- */

static neap_status take_type(struct cursor *c, enum gguf_type *type) {
  uint32_t number;
  TRY(take_u32(c, &number));
  RETURN_IF(number > GGUF_F64, NEAP_BAD_FORMAT, "%s: offset %llu: %s: unknown type of values %u", c->path,
            (unsigned long long)c->at - 4, c->subject, number);
  *type = (enum gguf_type)number;
  return NEAP_OK;
}

static neap_status check_truths(const struct cursor *c, const unsigned char *truths, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    RETURN_IF(truths[i] > 1, NEAP_BAD_FORMAT, "%s: %s: boolean %lld is %d; it must be 0 or 1", c->path,
              c->subject, (long long)i, truths[i]);
  return NEAP_OK;
}

/* Passes strings, and gives the bytes of a block that has them all, each with a 0. */
static neap_status pass_strings(struct cursor *c, int64_t count, uint64_t *bytes) {
  uint64_t length;
  *bytes = 0;
  for (int64_t i = 0; i < count; i++) {
    TRY(take_length(c, &length));
    c->at += length;
    *bytes += length + 1;
  }
  return NEAP_OK;
}

/* The bytes of all strings lie in one block. Their lengths are read first. */
static neap_status take_strings(struct cursor *c, struct region *region, int64_t count,
                                struct gguf_strings *strings) {
  const uint64_t begin = c->at;
  uint64_t bytes, used = 0, length;
  TRY(pass_strings(c, count, &bytes));
  c->at = begin;
  char *block = region_alloc(region, (size_t)bytes, 1);
  const char **texts = region_alloc(region, (size_t)count, sizeof *texts);
  size_t *lengths = region_alloc(region, (size_t)count, sizeof *lengths);
  RETURN_IF(block == NULL || texts == NULL || lengths == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for %s",
            c->path, c->subject);
  *strings = (struct gguf_strings){count, texts, lengths};
  for (int64_t i = 0; i < count; i++) {
    TRY(take_length(c, &length));
    /* The file may have been written to since. */
    RETURN_IF(length >= bytes - used, NEAP_BAD_FORMAT, "%s: %s: the file changed while it was read", c->path,
              c->subject);
    texts[i] = block + used;
    lengths[i] = (size_t)length;
    TRY(take(c, block + used, (size_t)length));
    used += length + 1;
  }
  return NEAP_OK;
}

static neap_status take_array(struct cursor *c, struct region *region, struct gguf_pair *pair) {
  struct gguf_array *array = &pair->array;
  uint64_t count, passed;
  TRY(take_type(c, &array->type));
  RETURN_IF(array->type == GGUF_ARRAY, NEAP_UNSUPPORTED,
            "%s: %s: is an array of arrays, which is not supported", c->path, c->subject);
  TRY(take_u64(c, &count));
  const size_t bytes = gguf_value_bytes(array->type);
  TRY(check_count(c, "values", count, bytes != 0 ? bytes : sizeof(uint64_t)));
  array->count = (int64_t)count;
  pair->place = c->at;
  if (array->type == GGUF_STRING) return pass_strings(c, array->count, &passed);
  void *data = region_alloc(region, (size_t)count, bytes);
  RETURN_IF(data == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for %s", c->path, c->subject);
  array->data = data;
  TRY(take(c, data, (size_t)count * bytes));
  return array->type == GGUF_BOOL ? check_truths(c, data, array->count) : NEAP_OK;
}

static neap_status take_pair(struct cursor *c, struct region *region, struct gguf_pair *pair) {
  TRY(take_name(c, region, "key", &pair->key));
  TRY(take_type(c, &pair->type));
  if (pair->type == GGUF_ARRAY) return take_array(c, region, pair);
  if (pair->type == GGUF_STRING) return take_string(c, region, &pair->text, &pair->length);
  TRY(take(c, &pair->scalar, gguf_value_bytes(pair->type)));
  return pair->type == GGUF_BOOL ? check_truths(c, (unsigned char *)&pair->scalar, 1) : NEAP_OK;
}

/* ---- Tensors ---- */

static neap_status take_dims(struct cursor *c, struct gguf_tensor *tensor) {
  uint32_t rank;
  TRY(take_u32(c, &rank));
  RETURN_IF(rank > NEAP_MAX_RANK, NEAP_BAD_FORMAT, "%s: %s: has %u dimensions, at most %d", c->path,
            c->subject, rank, NEAP_MAX_RANK);
  tensor->rank = (int)rank;
  tensor->elements = 1;
  for (int i = tensor->rank - 1; i >= 0; i--) {
    uint64_t dim;
    TRY(take_u64(c, &dim));
    RETURN_IF(dim > INT64_MAX, NEAP_BAD_FORMAT, "%s: %s: dimension %d is %llu; it must be below 2^63",
              c->path, c->subject, i, (unsigned long long)dim);
    tensor->dims[i] = (int64_t)dim;
    RETURN_IF(__builtin_mul_overflow(tensor->elements, tensor->dims[i], &tensor->elements), NEAP_BAD_FORMAT,
              "%s: %s: has more than 2^63 elements", c->path, c->subject);
  }
  return NEAP_OK;
}

static neap_status take_tensor(struct cursor *c, struct region *region, struct gguf_tensor *tensor) {
  uint32_t number;
  TRY(take_name(c, region, "tensor", &tensor->name));
  TRY(take_dims(c, tensor));
  TRY(take_u32(c, &number));
  TRY(take_u64(c, &tensor->offset));
  const struct gguf_tensor_type *type = gguf_find_type(number);
  RETURN_IF(type == NULL, NEAP_BAD_FORMAT, "%s: %s: has the unknown type %u", c->path, c->subject, number);
  RETURN_IF(gguf_row_elements(tensor) % type->block_elements != 0, NEAP_BAD_FORMAT,
            "%s: %s: its rows of %lld elements must consist of whole blocks of %s (%d elements)", c->path,
            c->subject, (long long)gguf_row_elements(tensor), type->name, type->block_elements);
  RETURN_IF(__builtin_mul_overflow((uint64_t)(tensor->elements / type->block_elements),
                                   (uint64_t)type->block_bytes, &tensor->bytes),
            NEAP_BAD_FORMAT, "%s: %s: has more than 2^64 bytes", c->path, c->subject);
  tensor->type = type->number;
  tensor->known = type->dtype >= 0;
  tensor->dtype = tensor->known ? (neap_dtype)type->dtype : NEAP_U8;
  return NEAP_OK;
}

static int by_place(const void *a, const void *b) {
  const struct gguf_tensor *x = *(const struct gguf_tensor *const *)a,
                           *y = *(const struct gguf_tensor *const *)b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* empty ones first */
}

/* Refuses a tensor that is not aligned, ends past the file, or overlaps another; the data begin at `data_at`.
 * Then makes offsets those of the file. */
static neap_status place_tensors(struct gguf *gguf, uint64_t data_at, uint64_t size, uint32_t alignment) {
  const uint64_t data_bytes = data_at < size ? size - data_at : 0;
  uint64_t end = data_at;
  for (int32_t i = 0; i < gguf->tensor_count; i++) {
    struct gguf_tensor *tensor = &gguf->tensors[i];
    RETURN_IF(tensor->offset % alignment != 0, NEAP_BAD_FORMAT,
              "%s: tensor '%s': offset %llu must be a multiple of the alignment, %u", gguf->path,
              tensor->name, (unsigned long long)tensor->offset, alignment);
    RETURN_IF(
        tensor->offset > data_bytes || tensor->bytes > data_bytes - tensor->offset, NEAP_BAD_FORMAT,
        "%s: tensor '%s': %llu bytes at offset %llu end past the file's %llu bytes of data (cut short?)",
        gguf->path, tensor->name, (unsigned long long)tensor->bytes, (unsigned long long)tensor->offset,
        (unsigned long long)data_bytes);
    tensor->offset += data_at;
    gguf->tensors_by_name[i] = tensor;
  }
  qsort(gguf->tensors_by_name, (size_t)gguf->tensor_count, sizeof *gguf->tensors_by_name, by_place);
  for (int32_t i = 0; i < gguf->tensor_count; i++) {
    const struct gguf_tensor *tensor = gguf->tensors_by_name[i];
    RETURN_IF(tensor->offset < end && tensor->bytes > 0, NEAP_BAD_FORMAT,
              "%s: tensor '%s' begins at offset %llu, but the one before it ends at %llu", gguf->path,
              tensor->name, (unsigned long long)tensor->offset, (unsigned long long)end);
    if (tensor->bytes > 0) end = tensor->offset + tensor->bytes;
  }
  return NEAP_OK;
}

/* ---- Names ---- */

static int by_name(const void *a, const void *b) {
  return strcmp((*(const struct gguf_tensor *const *)a)->name, (*(const struct gguf_tensor *const *)b)->name);
}

static int by_key(const void *a, const void *b) {
  return strcmp((*(const struct gguf_pair *const *)a)->key, (*(const struct gguf_pair *const *)b)->key);
}

static neap_status sort_tensors(struct gguf *gguf) {
  const struct gguf_tensor **sorted = gguf->tensors_by_name;
  qsort(sorted, (size_t)gguf->tensor_count, sizeof *sorted, by_name);
  for (int32_t i = 1; i < gguf->tensor_count; i++)
    RETURN_IF(strcmp(sorted[i - 1]->name, sorted[i]->name) == 0, NEAP_BAD_FORMAT,
              "%s: two tensors are named '%s'", gguf->path, sorted[i]->name);
  return NEAP_OK;
}

static neap_status sort_pairs(struct gguf *gguf) {
  const struct gguf_pair **sorted = gguf->pairs_by_key;
  for (int32_t i = 0; i < gguf->pair_count; i++) sorted[i] = &gguf->pairs[i];
  qsort(sorted, (size_t)gguf->pair_count, sizeof *sorted, by_key);
  for (int32_t i = 1; i < gguf->pair_count; i++)
    RETURN_IF(strcmp(sorted[i - 1]->key, sorted[i]->key) == 0, NEAP_BAD_FORMAT,
              "%s: two pairs have the key '%s'", gguf->path, sorted[i]->key);
  return NEAP_OK;
}

static const struct gguf_pair *find_pair(const struct gguf *gguf, const char *key) {
  const struct gguf_pair wanted = {.key = key}, *pointer = &wanted;
  if (gguf->pair_count == 0) return NULL;
  const struct gguf_pair *const *found =
      bsearch(&pointer, gguf->pairs_by_key, (size_t)gguf->pair_count, sizeof pointer, by_key);
  return found != NULL ? *found : NULL;
}

int32_t gguf_find(const struct gguf *gguf, const char *name) {
  const struct gguf_tensor wanted = {.name = name}, *pointer = &wanted;
  if (gguf->tensor_count == 0) return -1;
  const struct gguf_tensor *const *found =
      bsearch(&pointer, gguf->tensors_by_name, (size_t)gguf->tensor_count, sizeof pointer, by_name);
  return found != NULL ? (int32_t)(*found - gguf->tensors) : -1;
}

/* ---- The file ---- */

static neap_status check_version(const struct cursor *c, const char begin[4], uint32_t version) {
  RETURN_IF(memcmp(begin, GGUF_MAGIC, 4) != 0, NEAP_BAD_FORMAT,
            "%s: is not a GGUF file: it begins with %02x %02x %02x %02x, not with \"GGUF\"", c->path,
            (uint8_t)begin[0], (uint8_t)begin[1], (uint8_t)begin[2], (uint8_t)begin[3]);
  RETURN_IF(version != 0 && (version & 0xFFFF) == 0, NEAP_UNSUPPORTED,
            "%s: is a big-endian GGUF file; convert it (gguf_convert_endian of PyPI's gguf)", c->path);
  RETURN_IF(version < 2 || version > 3, NEAP_UNSUPPORTED,
            "%s: has GGUF version %u; versions 2 and 3 are supported: convert the model again", c->path,
            version);
  return NEAP_OK;
}

/* The two counts, and room for what they count. */
static neap_status take_counts(struct cursor *c, struct gguf *gguf) {
  enum { LEAST_TENSOR = 8 + 4 + 4 + 8, LEAST_PAIR = 8 + 4 + 1, COUNT_LIMIT = 1 << 20 };
  uint64_t tensors, pairs;
  TRY(take_u64(c, &tensors));
  TRY(take_u64(c, &pairs));
  RETURN_IF(tensors > COUNT_LIMIT || pairs > COUNT_LIMIT, NEAP_BAD_FORMAT,
            "%s: offset 8: %llu tensors and %llu pairs; a file has at most %d", c->path,
            (unsigned long long)tensors, (unsigned long long)pairs, COUNT_LIMIT);
  TRY(check_count(c, "tensors", tensors, LEAST_TENSOR));
  TRY(check_count(c, "pairs", pairs, LEAST_PAIR));
  gguf->tensors = region_alloc(&gguf->region, tensors, sizeof *gguf->tensors);
  gguf->tensors_by_name = region_alloc(&gguf->region, tensors, sizeof *gguf->tensors_by_name);
  gguf->pairs = region_alloc(&gguf->region, pairs, sizeof *gguf->pairs);
  gguf->pairs_by_key = region_alloc(&gguf->region, pairs, sizeof *gguf->pairs_by_key);
  RETURN_IF(gguf->tensors == NULL || gguf->tensors_by_name == NULL || gguf->pairs == NULL ||
                gguf->pairs_by_key == NULL,
            NEAP_OUT_OF_MEMORY, "%s: out of memory for the header", c->path);
  gguf->tensor_count = (int32_t)tensors;
  gguf->pair_count = (int32_t)pairs;
  return NEAP_OK;
}

static neap_status take_header(struct cursor *c, struct gguf *gguf) {
  char begin[4];
  uint32_t alignment;
  TRY(take(c, begin, sizeof begin));
  TRY(take_u32(c, &gguf->version));
  TRY(check_version(c, begin, gguf->version));
  TRY(take_counts(c, gguf));
  for (int32_t i = 0; i < gguf->pair_count; i++) {
    snprintf(c->subject, sizeof c->subject, "pair %d", i);
    TRY(take_pair(c, &gguf->region, &gguf->pairs[i]));
  }
  for (int32_t i = 0; i < gguf->tensor_count; i++) {
    snprintf(c->subject, sizeof c->subject, "tensor %d", i);
    TRY(take_tensor(c, &gguf->region, &gguf->tensors[i]));
  }
  TRY(sort_pairs(gguf));
  TRY(gguf_alignment(c->path, NEAP_BAD_FORMAT, find_pair(gguf, "general.alignment"), &alignment));
  TRY(place_tensors(gguf, (c->at + alignment - 1) / alignment * alignment, c->size, alignment));
  return sort_tensors(gguf);
}

neap_status gguf_open(const char *path, struct gguf *gguf) {
  *gguf = (struct gguf){.path = NULL};
  gguf->path = region_string(&gguf->region, path);
  RETURN_IF_NULL(gguf->path);
  gguf->file = fopen(path, "rbe");
  RETURN_IF(gguf->file == NULL, NEAP_IO_FAILED, "%s: cannot be opened: %s", path, strerror(errno));
  struct stat file;
  RETURN_IF(fstat(fileno(gguf->file), &file) != 0, NEAP_IO_FAILED, "%s: cannot be opened: %s", path,
            strerror(errno));
  RETURN_IF(!S_ISREG(file.st_mode), NEAP_IO_FAILED, "%s: is not a regular file", path);
  struct cursor c = {.path = gguf->path,
                     .descriptor = fileno(gguf->file),
                     .size = (uint64_t)file.st_size,
                     .subject = "the header"};
  const neap_status status = take_header(&c, gguf);
  if (status != NEAP_OK) gguf->tensor_count = gguf->pair_count = 0; /* they are not sorted */
  return status;
}

void gguf_close(struct gguf *gguf) {
  if (gguf->file != NULL) fclose(gguf->file);
  region_free(&gguf->region);
  *gguf = (struct gguf){.path = NULL};
}

neap_status gguf_read_strings(const struct gguf *gguf, const char *key, struct region *region,
                              struct gguf_strings *strings) {
  const struct gguf_pair *pair = find_pair(gguf, key);
  struct stat file;
  *strings = (struct gguf_strings){0};
  if (pair == NULL || pair->type != GGUF_ARRAY || pair->array.type != GGUF_STRING) return NEAP_OK;
  RETURN_IF(fstat(fileno(gguf->file), &file) != 0, NEAP_IO_FAILED, "%s: cannot be read: %s", gguf->path,
            strerror(errno));
  struct cursor c = {.path = gguf->path,
                     .descriptor = fileno(gguf->file),
                     .at = pair->place,
                     .size = (uint64_t)file.st_size};
  snprintf(c.subject, sizeof c.subject, "key '%.128s'", key);
  return take_strings(&c, region, pair->array.count, strings);
}

/* ---- Values ---- */

bool gguf_integer(const struct gguf *gguf, const char *key, int64_t *value) {
  const struct gguf_pair *pair = find_pair(gguf, key);
  int64_t integer;
  if (pair == NULL || pair->type == GGUF_BOOL || !gguf_integer_of(pair->type, &pair->scalar, &integer))
    return false;
  *value = integer;
  return true;
}

bool gguf_real(const struct gguf *gguf, const char *key, double *value) {
  const struct gguf_pair *pair = find_pair(gguf, key);
  int64_t integer;
  if (pair != NULL && gguf_real_of(pair->type, &pair->scalar, value)) return true;
  if (!gguf_integer(gguf, key, &integer)) return false;
  *value = (double)integer;
  return true;
}

bool gguf_bool(const struct gguf *gguf, const char *key, bool *value) {
  const struct gguf_pair *pair = find_pair(gguf, key);
  if (pair == NULL || pair->type != GGUF_BOOL) return false;
  *value = pair->scalar != 0;
  return true;
}

const char *gguf_text(const struct gguf *gguf, const char *key) {
  const struct gguf_pair *pair = find_pair(gguf, key);
  return pair != NULL ? pair->text : NULL;
}

/* An array of reals, or of other numbers and truths. */
static const struct gguf_array *find_array(const struct gguf *gguf, const char *key, bool reals) {
  const struct gguf_pair *pair = find_pair(gguf, key);
  if (pair == NULL || pair->type != GGUF_ARRAY || pair->array.type == GGUF_STRING) return NULL;
  const bool real = pair->array.type == GGUF_F32 || pair->array.type == GGUF_F64;
  return real == reals ? &pair->array : NULL;
}

const struct gguf_array *gguf_integers(const struct gguf *gguf, const char *key) {
  return find_array(gguf, key, false);
}

const struct gguf_array *gguf_reals(const struct gguf *gguf, const char *key) {
  return find_array(gguf, key, true);
}

/* ---- Elements ---- */

static neap_status need_rows(const struct gguf *gguf, const struct gguf_tensor *tensor, int64_t all,
                             int64_t first_row, int64_t rows) {
  RETURN_IF(first_row < 0 || rows < 0 || first_row > all || rows > all - first_row, NEAP_INVALID_ARGUMENT,
            "%s: tensor '%s' has %lld rows (got %lld from row %lld on)", gguf->path, tensor->name,
            (long long)all, (long long)rows, (long long)first_row);
  return NEAP_OK;
}

static neap_status read_bytes(const struct gguf *gguf, uint64_t offset, void *to, uint64_t bytes) {
  return gguf->direct != NULL ? direct_file_read(gguf->direct, offset, to, bytes)
                              : file_need_at(gguf->path, fileno(gguf->file), offset, to, (size_t)bytes);
}

neap_status gguf_read(const struct gguf *gguf, int32_t index, int64_t first_row, int64_t rows,
                      float *values) {
  const struct gguf_tensor *tensor = &gguf->tensors[index];
  const int64_t row = gguf_row_elements(tensor), all = row > 0 ? tensor->elements / row : 0;
  RETURN_IF(!tensor->known, NEAP_UNSUPPORTED,
            "%s: tensor '%s' has type %s, whose elements cannot be read; use F32, F16, BF16, Q8_0, Q4_0, "
            "Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K",
            gguf->path, tensor->name, gguf_type_name(tensor->type));
  TRY(need_rows(gguf, tensor, all, first_row, rows));
  const neap_dtype type = tensor->dtype;
  const int64_t count = rows * row;
  const uint64_t bytes = dtype_bytes(type, (uint64_t)count);
  /* The end of `values` is read into; the elements spread from there over the whole. */
  unsigned char *from = (unsigned char *)values + (size_t)count * sizeof *values - (size_t)bytes;
  TRY(read_bytes(gguf, tensor->offset + dtype_bytes(type, (uint64_t)(first_row * row)), from, bytes));
  if (dtype_is_quantised(type)) {
    dequantise(type, count, from, values);
    return NEAP_OK;
  }
  for (int64_t i = 0; i < count && type != NEAP_F32; i++) {
    uint16_t bits;
    memcpy(&bits, from + (size_t)i * sizeof bits, sizeof bits);
    values[i] = type == NEAP_F16 ? f16_to_float(bits) : bf16_to_float(bits);
  }
  return NEAP_OK;
}

neap_status gguf_read_blocks(const struct gguf *gguf, int32_t index, int64_t first_row, int64_t rows,
                             void *blocks) {
  const struct gguf_tensor *tensor = &gguf->tensors[index];
  const int64_t row = gguf_row_elements(tensor), all = row > 0 ? tensor->elements / row : 0;
  TRY(need_rows(gguf, tensor, all, first_row, rows));
  const uint64_t bytes = all > 0 ? tensor->bytes / (uint64_t)all : 0;
  return read_bytes(gguf, tensor->offset + (uint64_t)first_row * bytes, blocks, (uint64_t)rows * bytes);
}

neap_status gguf_expect_rows(const struct gguf *gguf, int32_t index, int64_t first_row, int64_t rows,
                             int64_t end) {
  const struct gguf_tensor *tensor = &gguf->tensors[index];
  const int64_t row = gguf_row_elements(tensor), all = row > 0 ? tensor->elements / row : 0;
  const uint64_t bytes = all > 0 ? tensor->bytes / (uint64_t)all : 0;
  if (gguf->direct == NULL) return NEAP_OK;
  TRY(need_rows(gguf, tensor, all, first_row, rows));
  return direct_file_cover(gguf->direct, tensor->offset + (uint64_t)first_row * bytes, (uint64_t)rows * bytes,
                           tensor->offset + (uint64_t)end * bytes);
}
