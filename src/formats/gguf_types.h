/* The types of GGUF's values and tensors (formats/gguf.h). */
#ifndef NEAP_FORMATS_GGUF_TYPES_H
#define NEAP_FORMATS_GGUF_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define GGUF_MAGIC "GGUF"

/* Types of values. */
enum gguf_type {
  GGUF_U8,
  GGUF_I8,
  GGUF_U16,
  GGUF_I16,
  GGUF_U32,
  GGUF_I32,
  GGUF_F32,
  GGUF_BOOL,
  GGUF_STRING,
  GGUF_ARRAY,
  GGUF_U64,
  GGUF_I64,
  GGUF_F64
};

/* Numbers or truths as they are in the file, by their type. */
struct gguf_array {
  enum gguf_type type;
  int64_t count;
  const void *data;
};

/* Texts that end with a 0 and may have others inside; the lengths count all bytes but that at the end. */
struct gguf_strings {
  int64_t count;
  const char *const *texts;
  const size_t *lengths;
};

struct gguf_pair {
  const char *key;
  enum gguf_type type;
  uint64_t scalar; /* the bytes of a number or truth */
  const char *text;
  size_t length;               /* the string */
  struct gguf_array array;     /* of an array its type and count, and its data unless they are strings */
  struct gguf_strings strings; /* of an array of strings */
  uint64_t place;              /* of such an array in a file that was read: where its first string begins */
};

struct gguf_tensor {
  const char *name;
  neap_dtype dtype; /* where it is known */
  bool known;       /* its elements can be read; else `type` is one of ggml's other types */
  int32_t type;     /* ggml's number */
  int rank;
  int64_t dims[NEAP_MAX_RANK], elements; /* row-major: the contiguous dimension is the last */
  uint64_t offset, bytes;                /* in the file; ignored in writing */
};

/* Element i of an array of whole numbers (a u64 of 2^63 and more gives INT64_MAX) or of reals. */
int64_t gguf_integer_at(const struct gguf_array *array, int64_t i);
double gguf_real_at(const struct gguf_array *array, int64_t i);

/* ggml's name of a type of tensors, as Q4_K; NULL where the number is not known. */
const char *gguf_type_name(int32_t type);

/* ---- For the reader and the writer ---- */

struct gguf_tensor_type {
  int32_t number; /* ggml's */
  const char *name;
  int32_t block_elements, block_bytes;
  int32_t dtype; /* -1: such tensors are listed alone */
};

/* Return the type with this number, or of this dtype; NULL: none. */
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

/* Gives the value of the pair "general.alignment"; without it (NULL) 32. Fails with `failure` if it is no
 * power of 2. */
neap_status gguf_alignment(const char *path, neap_status failure, const struct gguf_pair *pair,
                           uint32_t *alignment);

#endif
