/* GGUF, written. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/quantised.h"
#include "formats/gguf.h"

static struct gguf_pair scalar_pair(const char *key, enum gguf_type type, const void *value) {
  struct gguf_pair pair = {.key = key, .type = type};
  memcpy(&pair.scalar, value, gguf_value_bytes(type));
  return pair;
}

struct gguf_pair gguf_pair_text(const char *key, const char *text) {
  return (struct gguf_pair){.key = key, .type = GGUF_STRING, .text = text, .length = strlen(text)};
}

struct gguf_pair gguf_pair_u32(const char *key, uint32_t value) {
  return scalar_pair(key, GGUF_U32, &value);
}
struct gguf_pair gguf_pair_f32(const char *key, float value) {
  return scalar_pair(key, GGUF_F32, &value);
}
struct gguf_pair gguf_pair_bool(const char *key, bool value) {
  return scalar_pair(key, GGUF_BOOL, &(uint8_t){value});
}

struct gguf_pair gguf_pair_array(const char *key, enum gguf_type type, int64_t count, const void *data) {
  return (struct gguf_pair){.key = key, .type = GGUF_ARRAY, .array = {type, count, data}};
}

struct gguf_pair gguf_pair_strings(const char *key, struct gguf_strings strings) {
  return (struct gguf_pair){
      .key = key, .type = GGUF_ARRAY, .array = {GGUF_STRING, strings.count, NULL}, .strings = strings};
}

/* A file that is being written. */
struct saving {
  const char *path;
  const struct gguf_content *content;
  uint32_t alignment;
  FILE *file;
  uint64_t at;
  struct ending ending;
};

static neap_status put(struct saving *s, const void *data, size_t bytes) {
  RETURN_IF(bytes > 0 && fwrite(data, 1, bytes, s->file) != bytes, NEAP_IO_FAILED,
            "%s: cannot be written: %s", s->path, strerror(errno));
  s->at += bytes;
  return NEAP_OK;
}

static neap_status put_u32(struct saving *s, uint32_t value) { return put(s, &value, sizeof value); }
static neap_status put_u64(struct saving *s, uint64_t value) { return put(s, &value, sizeof value); }

static neap_status put_string(struct saving *s, const char *text, size_t length) {
  TRY(put_u64(s, length));
  return put(s, text, length);
}

static neap_status put_padding(struct saving *s) {
  static const char zeros[64];
  for (uint64_t left = -s->at & (s->alignment - 1); left > 0;) {
    const size_t bytes = left < sizeof zeros ? (size_t)left : sizeof zeros;
    TRY(put(s, zeros, bytes));
    left -= bytes;
  }
  return NEAP_OK;
}

static neap_status put_pair(struct saving *s, const struct gguf_pair *pair) {
  TRY(put_string(s, pair->key, strlen(pair->key)));
  TRY(put_u32(s, pair->type));
  if (pair->type == GGUF_STRING) return put_string(s, pair->text, pair->length);
  if (pair->type != GGUF_ARRAY) return put(s, &pair->scalar, gguf_value_bytes(pair->type));
  TRY(put_u32(s, pair->array.type));
  TRY(put_u64(s, (uint64_t)pair->array.count));
  if (pair->array.type != GGUF_STRING)
    return put(s, pair->array.data, (size_t)pair->array.count * gguf_value_bytes(pair->array.type));
  for (int64_t i = 0; i < pair->strings.count; i++)
    TRY(put_string(s, pair->strings.texts[i], pair->strings.lengths[i]));
  return NEAP_OK;
}

/* NULL: numbers do not become it. */
static const struct gguf_tensor_type *written_type(neap_dtype dtype) {
  return dtype_is_real(dtype) || can_quantise(dtype) ? gguf_type_of(dtype) : NULL;
}

static uint64_t aligned(const struct saving *s, uint64_t bytes) {
  return (bytes + s->alignment - 1) & ~(uint64_t)(s->alignment - 1);
}

static neap_status put_tensor_entry(struct saving *s, const struct gguf_tensor *tensor, uint64_t *offset) {
  const struct gguf_tensor_type *type = written_type(tensor->dtype);
  RETURN_IF(type == NULL, NEAP_INVALID_ARGUMENT, "%s: tensor '%s' cannot be written as %s", s->path,
            tensor->name, dtype_rows[tensor->dtype].name);
  RETURN_IF(gguf_row_elements(tensor) % type->block_elements != 0, NEAP_INVALID_ARGUMENT,
            "%s: tensor '%s': its rows of %lld elements must consist of whole blocks of %s (%d elements)",
            s->path, tensor->name, (long long)gguf_row_elements(tensor), type->name, type->block_elements);
  TRY(put_string(s, tensor->name, strlen(tensor->name)));
  TRY(put_u32(s, (uint32_t)tensor->rank));
  for (int i = tensor->rank - 1; i >= 0; i--) TRY(put_u64(s, (uint64_t)tensor->dims[i]));
  TRY(put_u32(s, (uint32_t)type->number));
  TRY(put_u64(s, *offset));
  *offset += aligned(s, dtype_bytes(tensor->dtype, (uint64_t)tensor->elements));
  return NEAP_OK;
}

static neap_status check_names(const struct saving *s) {
  const struct gguf_content *content = s->content;
  for (int32_t i = 0; i < content->tensor_count; i++)
    for (int32_t k = 0; k < i; k++)
      RETURN_IF(strcmp(content->tensors[i].name, content->tensors[k].name) == 0, NEAP_INVALID_ARGUMENT,
                "%s: two tensors are named '%s'", s->path, content->tensors[i].name);
  for (int32_t i = 0; i < content->pair_count; i++)
    for (int32_t k = 0; k < i; k++)
      RETURN_IF(strcmp(content->pairs[i].key, content->pairs[k].key) == 0, NEAP_INVALID_ARGUMENT,
                "%s: two pairs have the key '%s'", s->path, content->pairs[i].key);
  return NEAP_OK;
}

static neap_status put_header(struct saving *s) {
  const struct gguf_content *content = s->content;
  const struct gguf_pair *alignment = NULL;
  uint64_t offset = 0;
  TRY(check_names(s));
  for (int32_t i = 0; i < content->pair_count; i++)
    if (strcmp(content->pairs[i].key, "general.alignment") == 0) alignment = &content->pairs[i];
  TRY(gguf_alignment(s->path, NEAP_INVALID_ARGUMENT, alignment, &s->alignment));
  TRY(put(s, GGUF_MAGIC, 4));
  TRY(put_u32(s, 3));
  TRY(put_u64(s, (uint64_t)content->tensor_count));
  TRY(put_u64(s, (uint64_t)content->pair_count));
  for (int32_t i = 0; i < content->pair_count; i++) TRY(put_pair(s, &content->pairs[i]));
  for (int32_t i = 0; i < content->tensor_count; i++) TRY(put_tensor_entry(s, &content->tensors[i], &offset));
  return put_padding(s);
}

/* To the type that a tensor is written in, in place. */
static neap_status narrow(const struct gguf_tensor *tensor, float *data) {
  if (dtype_is_quantised(tensor->dtype))
    return quantise(tensor->dtype, tensor->name, gguf_row_elements(tensor), tensor->elements, data, data);
  for (int64_t i = 0; i < tensor->elements && tensor->dtype != NEAP_F32; i++) {
    const float value = data[i];
    const uint16_t bits = tensor->dtype == NEAP_F16 ? f16_from_float(value) : bf16_from_float(value);
    memcpy((unsigned char *)data + (size_t)i * sizeof bits, &bits, sizeof bits);
  }
  return NEAP_OK;
}

static neap_status put_tensors(struct saving *s, float *data) {
  for (int32_t i = 0; i < s->content->tensor_count; i++) {
    const struct gguf_tensor *tensor = &s->content->tensors[i];
    TRY(s->content->read(s->content->context, i, data));
    TRY(narrow(tensor, data));
    TRY(put(s, data, (size_t)dtype_bytes(tensor->dtype, (uint64_t)tensor->elements)));
    TRY(put_padding(s));
  }
  return NEAP_OK;
}

static neap_status put_all(struct saving *s) {
  int64_t largest = 1;
  TRY(put_header(s));
  for (int32_t i = 0; i < s->content->tensor_count; i++)
    if (s->content->tensors[i].elements > largest) largest = s->content->tensors[i].elements;
  if (s->content->buffer != NULL) return put_tensors(s, s->content->buffer);
  float *data = calloc((size_t)largest, sizeof *data);
  RETURN_IF(data == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for %lld elements", s->path,
            (long long)largest);
  const neap_status status = put_tensors(s, data);
  free(data);
  return status;
}

/* Keeps why it failed: the file's writer knows only that. */
static bool save(FILE *file, const void *context) {
  struct saving *s = *(struct saving *const *)context;
  s->file = file;
  s->at = 0;
  ending_keep(&s->ending, put_all(s));
  return s->ending.status == NEAP_OK;
}

neap_status gguf_save(const char *path, const struct gguf_content *content) {
  struct saving saving = {.path = path, .content = content}, *context = &saving;
  const neap_status status = file_write(path, save, &context);
  TRY(ending_tell(&saving.ending));
  return status;
}
