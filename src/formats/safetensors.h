/* safetensors: named tensors in one file. Eight bytes little-endian N, N bytes of JSON that give each
 * tensor's dtype, shape and place, then the data, without a gap. The JSON may have texts under
 * "__metadata__". One of them, SAFETENSORS_SPARSE, says which tensors are values of a sparse one: JSON of
 * {"NAME": {"shape": [...], "indices": "OTHER"}, ...}, where OTHER, of I32, has the values' elements in
 * row-major order, rising; the rest is 0. Another, SAFETENSORS_QUANTISED, names the tensors of U8 that are
 * blocks of a quantised type, and their shapes: {"NAME": {"type": "q8_0", "shape": [...]}, ...}. */
#ifndef NEAP_FORMATS_SAFETENSORS_H
#define NEAP_FORMATS_SAFETENSORS_H

#include <stdio.h>

#include "base/direct_file.h"
#include "base/region.h"
#include "base/status.h"

#define SAFETENSORS_SPARSE    "sparse_tensors"
#define SAFETENSORS_QUANTISED "quantised_tensors"

struct safetensors_text {
  const char *key, *value;
};

struct safetensors_tensor {
  const char *name, *dtype; /* "F32", ...; in writing that (NULL: that), "BF16", "F16", "U8", "I32" or a
                               quantised one, as "Q8_0" */
  int rank;
  int64_t dims[NEAP_MAX_RANK], elements;    /* of a sparse or quantised tensor those of the dense one */
  int64_t part;                             /* in writing: the elements that are given at a time; 0: all */
  uint64_t offset, bytes;                   /* in the file; ignored in writing */
  const struct safetensors_tensor *indices; /* of a sparse tensor; NULL: it is dense. Ignored in writing */
};

/* The content of a file. `read` is called once a tensor, in order, and gives its elements [dims...], which
 * are rounded to the type that they are written in. For I32 it gives int32_t in place of float; for a
 * quantised type its blocks, which are written as they are. `read_part` does so for a tensor that is given in
 * parts, once a part. */
struct safetensors_content {
  const struct safetensors_tensor *tensors;
  int32_t tensor_count;
  const struct safetensors_text *metadata;
  int32_t metadata_count;
  neap_status (*read)(void *context, int32_t index, float *data);
  neap_status (*read_part)(void *context, int32_t index, int64_t first, float *data); /* NULL: no parts */
  void *context;
  float *buffer; /* room for the largest tensor or part; NULL: allocated temporarily */
};

/* Writes everything to `file`; `path` is for messages. */
neap_status safetensors_write(FILE *file, const char *path, const struct safetensors_content *content);

/* The same as a file, written whole or not at all. */
neap_status safetensors_save(const char *path, const struct safetensors_content *content);

/* A file that is open for reading and whose header was checked: every tensor has a known dtype, a size that
 * is that of its shape, and its own place inside the file; together they fill it. Sparse tensors have indices
 * that rise and lie in their shape. */
struct safetensors {
  struct region region; /* owns the texts and arrays */
  FILE *file;
  const char *path;
  int32_t tensor_count, metadata_count;
  struct safetensors_tensor *tensors; /* in the order of their data */
  struct safetensors_text *metadata;
  struct direct_file *direct; /* elements are read through it, by one thread; NULL: as usual */
};

/* Errors name the file, and the tensor and field where it is one. Close with safetensors_close, whatever the
 * status. */
neap_status safetensors_open(const char *path, struct safetensors *tensors);
void safetensors_close(struct safetensors *tensors);

/* The tensor of that name, -1 if none exists; the metadata of that key, NULL if none exists. */
int32_t safetensors_find(const struct safetensors *tensors, const char *name);
const char *safetensors_metadata(const struct safetensors *tensors, const char *key);

/* NEAP_UNSUPPORTED: the tensor is not of F32, BF16, F16 or a quantised type. */
neap_status safetensors_need_real(const struct safetensors *tensors, int32_t index);

/* Reads the elements of a tensor of one of these types, or of U8, as floats; a sparse one as a dense one. */
neap_status safetensors_read(const struct safetensors *tensors, int32_t index, float *data);

/* Reads `count` elements from element `first` on of a dense tensor, whole blocks where it has blocks.
 * `apart`: many such reads are small and lie apart. NEAP_INVALID_ARGUMENT: it has fewer. */
neap_status safetensors_read_part(const struct safetensors *tensors, int32_t index, int64_t first,
                                  int64_t count, bool apart, float *data);

/* Reads the blocks of `count` elements from `first` on of a tensor of a quantised type: whole blocks. */
neap_status safetensors_read_blocks(const struct safetensors *tensors, int32_t index, int64_t first,
                                    int64_t count, void *blocks);

/* Gives for each element of a sparse tensor 1 where it has a value, else 0. */
neap_status safetensors_read_positions(const struct safetensors *tensors, int32_t index, float *data);

#endif
