/* GGUF: named tensors and pairs of keys and values in one file, little-endian, versions 2 and 3. It begins
 * with the pairs and the tensors' types, shapes and places; the data follow, each tensor at a multiple of the
 * value of "general.alignment" (32 without it). Blocks of quantised types are base/quantised.h's. */
#ifndef NEAP_FORMATS_GGUF_H
#define NEAP_FORMATS_GGUF_H

#include <stdio.h>

#include "base/direct_file.h"
#include "base/region.h"
#include "base/vector.h"
#include "formats/gguf_types.h"

/* A file that is open for reading and whose header was checked: keys and names are unique, every tensor has a
 * type of ggml, rows of whole blocks, and its own place inside the file. */
struct gguf {
  struct region region; /* owns the texts and arrays */
  FILE *file;
  const char *path;
  uint32_t version;
  int32_t tensor_count, pair_count;
  struct gguf_tensor *tensors;
  struct gguf_pair *pairs;
  const struct gguf_tensor **tensors_by_name;
  const struct gguf_pair **pairs_by_key;
  struct direct_file *direct; /* elements are read through it, by one thread; NULL: as usual */
};

/* Opens a file and reads its header. Arrays of strings, of which a vocabulary has megabytes, are checked and
 * not kept. The memory is at most ten times the file's size; for a sound file usually twice its header.
 * Errors name the file, and the tensor or key where it is one. NEAP_IO_FAILED: it cannot be read.
 * NEAP_BAD_FORMAT: it is damaged or no GGUF. NEAP_UNSUPPORTED: another version or byte order, or arrays of
 * arrays. Close with gguf_close, whatever the status. */
neap_status gguf_open(const char *path, struct gguf *gguf);
void gguf_close(struct gguf *gguf);

/* ---- Pairs ---- */

/* The value of a key; false or NULL if none exists or it has another type. An integer is of any type of
 * whole numbers that fits; a real may also be a whole number. */
bool gguf_integer(const struct gguf *gguf, const char *key, int64_t *value);
bool gguf_real(const struct gguf *gguf, const char *key, double *value);
bool gguf_bool(const struct gguf *gguf, const char *key, bool *value);
const char *gguf_text(const struct gguf *gguf, const char *key);
const struct gguf_array *gguf_integers(const struct gguf *gguf, const char *key); /* truths are 0 and 1 */
const struct gguf_array *gguf_reals(const struct gguf *gguf, const char *key);    /* f32 or f64 */

/* Reads the strings of an array from the open file, into the region; `strings->texts` is NULL if there is no
 * such array. NEAP_BAD_FORMAT: the file was changed since it was opened. */
neap_status gguf_read_strings(const struct gguf *gguf, const char *key, struct region *region,
                              struct gguf_strings *strings);

/* ---- Tensors ---- */

/* Returns the tensor of that name, or -1. */
int32_t gguf_find(const struct gguf *gguf, const char *name);

/* Reads `rows` rows from `first_row` on as floats; a row is the elements of the last dimension. Allocates
 * nothing, and may be called by several threads. NEAP_UNSUPPORTED: the type is not known.
 * NEAP_INVALID_ARGUMENT: there are fewer rows. */
neap_status gguf_read(const struct gguf *gguf, int32_t tensor, int64_t first_row, int64_t rows,
                      float *values);

/* Reads the bytes of rows, whatever the type. NEAP_INVALID_ARGUMENT: there are fewer rows. */
neap_status gguf_read_blocks(const struct gguf *gguf, int32_t tensor, int64_t first_row, int64_t rows,
                             void *blocks);

/* Tells that `rows` rows are read next, in whatever order, and then others up to row `end`. Does nothing
 * where elements are read as usual. */
neap_status gguf_expect_rows(const struct gguf *gguf, int32_t tensor, int64_t first_row, int64_t rows,
                             int64_t end);

/* ---- Writing (gguf_save.c) ---- */

/* Pairs to write; they borrow their arguments. */
struct gguf_pairs {
  VECTOR(struct gguf_pair) list;
};
struct gguf_pair gguf_pair_text(const char *key, const char *text);
struct gguf_pair gguf_pair_u32(const char *key, uint32_t value);
struct gguf_pair gguf_pair_f32(const char *key, float value);
struct gguf_pair gguf_pair_bool(const char *key, bool value);
struct gguf_pair gguf_pair_array(const char *key, enum gguf_type type, int64_t count, const void *data);
struct gguf_pair gguf_pair_strings(const char *key, struct gguf_strings strings);

/* The content of a file. Pairs may be those of an open file. Each tensor needs its name, dtype, rank, dims
 * and elements; its type is one of GGUF's that numbers can become: F32, F16, BF16, Q8_0, ... `read` is called
 * once a tensor, in order, and gives its elements [dims...]. */
struct gguf_content {
  const struct gguf_tensor *tensors;
  int32_t tensor_count;
  const struct gguf_pair *pairs;
  int32_t pair_count;
  neap_status (*read)(void *context, int32_t index, float *data);
  void *context;
  float *buffer; /* room for the largest tensor; NULL: allocated while it is needed */
};

/* Writes a file of version 3, whole or not at all. NEAP_INVALID_ARGUMENT: a tensor's type cannot be written,
 * its rows are no whole blocks, two tensors or keys have one name, or the alignment is no power of 2. */
neap_status gguf_save(const char *path, const struct gguf_content *content);

#endif
