/* Files of GGUF. What can be opened has tensors that lie in the file without overlap and are found by name;
 * each is read by rows as it is read whole, and its blocks are the file's bytes. Its pairs and tensors of
 * real numbers, written and opened again, are the same. Whatever is refused gives a message that names the
 * file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "formats/gguf.h"
#include "support.h"

enum { ELEMENTS_LIMIT = 1 << 20 };

static bool same(float a, float b) { return a == b || (isnan(a) && isnan(b)); }

static int64_t row_of(const struct gguf_tensor *t) { return t->rank > 0 ? t->dims[t->rank - 1] : 1; }
static int64_t rows_of(const struct gguf_tensor *t) { return row_of(t) > 0 ? t->elements / row_of(t) : 0; }

static neap_status read_all(const struct gguf *file, int32_t index, float *data) {
  return gguf_read(file, index, 0, rows_of(&file->tensors[index]), data);
}

static void check_rows(const struct gguf *file, int32_t index) {
  const struct gguf_tensor *t = &file->tensors[index];
  const int64_t row = row_of(t), rows = rows_of(t);
  float *whole = malloc(((size_t)t->elements + 1) * sizeof *whole),
        *one = malloc(((size_t)row + 1) * sizeof *one);
  CHECK(whole != NULL && one != NULL);
  CHECK_OK(read_all(file, index, whole));
  for (int64_t r = 0; r < rows; r++) {
    CHECK_OK(gguf_read(file, index, r, 1, one));
    for (int64_t i = 0; i < row; i++) CHECK(same(one[i], whole[r * row + i]));
  }
  CHECK(gguf_read(file, index, rows, 1, one) == NEAP_INVALID_ARGUMENT);
  free(whole);
  free(one);
}

static void check_tensor(const struct gguf *file, int32_t index, const uint8_t *data, size_t size) {
  const struct gguf_tensor *t = &file->tensors[index];
  CHECK(t->offset <= size && t->bytes <= size - t->offset);
  CHECK(gguf_find(file, t->name) == index && gguf_type_name(t->type) != NULL);
  for (int32_t k = 0; k < index; k++) {
    const struct gguf_tensor *o = &file->tensors[k];
    CHECK(o->bytes == 0 || t->bytes == 0 || o->offset + o->bytes <= t->offset ||
          t->offset + t->bytes <= o->offset);
  }
  uint8_t *blocks = malloc((size_t)t->bytes + 1);
  CHECK(blocks != NULL);
  const int64_t row = t->rank > 0 ? t->dims[t->rank - 1] : 1, rows = row > 0 ? t->elements / row : 0;
  CHECK_OK(gguf_read_blocks(file, index, 0, rows, blocks));
  CHECK(memcmp(blocks, data + t->offset, (size_t)t->bytes) == 0);
  free(blocks);
  if (!t->known) {
    float unused;
    CHECK(gguf_read(file, index, 0, 0, &unused) == NEAP_UNSUPPORTED);
  } else if (t->elements <= ELEMENTS_LIMIT &&
             row_of(t) <= ELEMENTS_LIMIT) { /* an empty one may have any row */
    CHECK(t->bytes == dtype_bytes(t->dtype, (uint64_t)t->elements));
    check_rows(file, index);
  }
}

/* Reads the strings of all pairs. */
static void read_strings(struct gguf *file) {
  for (int32_t i = 0; i < file->pair_count; i++)
    CHECK_OK(gguf_read_strings(file, file->pairs[i].key, &file->region, &file->pairs[i].strings));
}

static void check_pair(const struct gguf *file, const struct gguf_pair *pair) {
  int64_t integer;
  double real;
  bool truth;
  const bool is_integer = gguf_integer(file, pair->key, &integer);
  CHECK(!is_integer || gguf_real(file, pair->key, &real));
  const struct gguf_strings *strings = pair->strings.texts != NULL ? &pair->strings : NULL;
  const struct gguf_array *integers = gguf_integers(file, pair->key), *reals = gguf_reals(file, pair->key);
  for (int64_t i = 0; strings != NULL && i < strings->count; i++)
    CHECK(strings->texts[i][strings->lengths[i]] == '\0');
  for (int64_t i = 0; integers != NULL && i < integers->count; i++) gguf_integer_at(integers, i);
  for (int64_t i = 0; reals != NULL && i < reals->count; i++) gguf_real_at(reals, i);
  CHECK(is_integer + gguf_bool(file, pair->key, &truth) + (gguf_text(file, pair->key) != NULL) +
            (strings != NULL) + (integers != NULL) + (reals != NULL) <=
        1);
}

static void check_same_pair(const struct gguf_pair *a, const struct gguf_pair *b) {
  CHECK(strcmp(a->key, b->key) == 0 && a->type == b->type && a->scalar == b->scalar);
  CHECK(a->length == b->length && (a->text == NULL || memcmp(a->text, b->text, a->length) == 0));
  CHECK(a->array.type == b->array.type && a->array.count == b->array.count);
  for (int64_t i = 0; a->type == GGUF_ARRAY && a->array.type == GGUF_STRING && i < a->array.count; i++)
    CHECK(a->strings.lengths[i] == b->strings.lengths[i] &&
          memcmp(a->strings.texts[i], b->strings.texts[i], a->strings.lengths[i]) == 0);
  static const size_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  if (a->type == GGUF_ARRAY && a->array.type != GGUF_STRING)
    CHECK(memcmp(a->array.data, b->array.data, (size_t)a->array.count * bytes[a->array.type]) == 0);
}

struct copying {
  const struct gguf *file;
  const int32_t *indices;
};

static neap_status copy_tensor(void *context, int32_t index, float *data) {
  const struct copying *copying = context;
  return read_all(copying->file, copying->indices[index], data);
}

static void check_same(const struct gguf *file, const struct gguf_content *content, const int32_t *indices,
                       const char *path) {
  struct gguf again;
  CHECK_OK(gguf_open(path, &again));
  read_strings(&again);
  CHECK(again.version == 3 && again.pair_count == file->pair_count &&
        again.tensor_count == content->tensor_count);
  for (int32_t i = 0; i < file->pair_count; i++) check_same_pair(&file->pairs[i], &again.pairs[i]);
  for (int32_t i = 0; i < again.tensor_count; i++) {
    const struct gguf_tensor *t = &again.tensors[i], *was = &content->tensors[i];
    CHECK(strcmp(t->name, was->name) == 0 && t->rank == was->rank && t->type == was->type &&
          t->bytes == was->bytes && memcmp(t->dims, was->dims, sizeof t->dims) == 0);
    float *a = malloc(((size_t)t->elements + 1) * sizeof *a),
          *b = malloc(((size_t)t->elements + 1) * sizeof *b);
    CHECK(a != NULL && b != NULL);
    CHECK_OK(read_all(file, indices[i], a));
    CHECK_OK(read_all(&again, i, b));
    for (int64_t e = 0; e < t->elements; e++) CHECK(same(a[e], b[e]));
    free(a);
    free(b);
  }
  gguf_close(&again);
}

static void check_copy(const struct gguf *file) {
  const char *path = fuzz_path("copy.gguf");
  struct gguf_tensor *tensors = calloc((size_t)file->tensor_count + 1, sizeof *tensors);
  int32_t *indices = calloc((size_t)file->tensor_count + 1, sizeof *indices), count = 0;
  CHECK(tensors != NULL && indices != NULL);
  for (int32_t i = 0; i < file->tensor_count; i++) {
    const struct gguf_tensor *t = &file->tensors[i];
    if (!t->known || !dtype_is_real(t->dtype) || t->elements > ELEMENTS_LIMIT) continue;
    tensors[count] = *t;
    indices[count++] = i;
  }
  struct copying copying = {file, indices};
  const struct gguf_content content = {.tensors = tensors,
                                       .tensor_count = count,
                                       .pairs = file->pairs,
                                       .pair_count = file->pair_count,
                                       .read = copy_tensor,
                                       .context = &copying};
  int64_t alignment = 0;
  if (gguf_integer(file, "general.alignment", &alignment) && alignment > 1 << 20) count = -1;
  if (count >= 0) { /* a larger alignment makes large files */
    CHECK_OK(gguf_save(path, &content));
    check_same(file, &content, indices, path);
  }
  free(tensors);
  free(indices);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_path("input.gguf");
  struct gguf file;
  fuzz_write(path, data, size);
  const neap_status status = gguf_open(path, &file);
  fuzz_taken = status == NEAP_OK;
  if (status == NEAP_OK) {
    read_strings(&file);
    for (int32_t i = 0; i < file.tensor_count; i++) check_tensor(&file, i, data, size);
    for (int32_t i = 0; i < file.pair_count; i++) check_pair(&file, &file.pairs[i]);
    check_copy(&file);
  } else {
    CHECK(status == NEAP_BAD_FORMAT || status == NEAP_UNSUPPORTED);
    fuzz_check_refused(status, path);
  }
  gguf_close(&file);
  return 0;
}
