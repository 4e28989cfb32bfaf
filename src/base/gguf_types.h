/* The types of GGUF's values and tensors. */
#ifndef NEAP_BASE_GGUF_TYPES_H
#define NEAP_BASE_GGUF_TYPES_H

#include "base/gguf.h"

#define GGUF_MAGIC "GGUF"

struct gguf_tensor_type {
  int32_t number; /* ggml's */
  const char *name;
  int32_t block_elements, block_bytes;
  int32_t dtype; /* -1: such tensors are listed alone */
};

/* NULL: there is no type of that number; of that dtype. */
const struct gguf_tensor_type *gguf_find_type(int64_t number);
const struct gguf_tensor_type *gguf_type_of(neap_dtype dtype);

/* Elements of the last dimension. */
int64_t gguf_row_elements(const struct gguf_tensor *tensor);

/* Bytes of a value; 0: it is a string or an array. */
size_t gguf_value_bytes(enum gguf_type type);

/* Give a value of that type. False: it is no whole number or truth, or none of 63 bits and a sign (*value is
 * INT64_MAX then); it is no real. */
bool gguf_integer_of(enum gguf_type type, const void *data, int64_t *value);
bool gguf_real_of(enum gguf_type type, const void *data, double *value);

/* What the pair "general.alignment" says; without it (NULL) 32. Fails with `failure` where it is no power of
 * 2. */
neap_status gguf_alignment(const char *path, neap_status failure, const struct gguf_pair *pair,
                           uint32_t *alignment);

#endif
