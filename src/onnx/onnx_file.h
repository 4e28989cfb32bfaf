/* ONNX files: the graph as plain structs, checked, so that all sizes are correct. The file owns all contents.
 * Weights are read on demand, from the open file; those in other files ("external data") need not exist
 * before. */
#ifndef NEAP_ONNX_ONNX_FILE_H
#define NEAP_ONNX_ONNX_FILE_H

#include "base/file.h"
#include "base/region.h"
#include "base/status.h"

/* Types of elements, by the numbers of the format (TensorProto.DataType). */
enum onnx_type {
  ONNX_F32 = 1,
  ONNX_U8 = 2,
  ONNX_I8 = 3,
  ONNX_U16 = 4,
  ONNX_I16 = 5,
  ONNX_I32 = 6,
  ONNX_I64 = 7,
  ONNX_BOOL = 9,
  ONNX_F16 = 10,
  ONNX_F64 = 11,
  ONNX_U32 = 12,
  ONNX_U64 = 13,
  ONNX_BF16 = 16
};
bool onnx_type_is_real(int32_t type);
const char *onnx_type_name(int32_t type); /* "float", "int64", ...; never NULL */

struct onnx_tensor {
  const char *name; /* "" if it has none */
  int32_t type, rank;
  int64_t dims[NEAP_MAX_RANK], elements; /* dimensions may be 0 */
  int32_t stored;                        /* type of the elements at `data` */
  const void *data;                      /* NULL: they are still in this file, or in another one */
  const char *location;                  /* of the other: a path below the folder of this one */
  uint64_t offset;
  bool mask; /* real numbers of this file, of which some are beyond 1e30: those of a mask */
};

enum onnx_kind { /* by the numbers of the format (AttributeProto.AttributeType) */
                 ONNX_FLOAT = 1,
                 ONNX_INT = 2,
                 ONNX_STRING = 3,
                 ONNX_TENSOR = 4,
                 ONNX_FLOATS = 6,
                 ONNX_INTS = 7
};

struct onnx_attribute {
  const char *name;
  int32_t kind; /* any other number: an unsupported kind */
  float real;
  int64_t integer;
  const char *text;
  const struct onnx_tensor *tensor;
  const float *reals;
  const int64_t *integers;
  int32_t count; /* of reals or integers */
};

struct onnx_node {
  const char *name, *op, *domain; /* domain "" is ONNX's own */
  char **inputs, **outputs;       /* names; "": not given */
  int32_t input_count, output_count, attribute_count;
  const struct onnx_attribute *attributes;
};

/* The beginning of the names of nodes that `neap export` adds for the data: they normalise the input, and
 * undo that for the output. Neap does both itself, by the data that it is given, and reads such a node as its
 * first input. */
#define ONNX_DATA_NODE "neap.data:"

/* An input or output of the graph. */
struct onnx_value {
  const char *name;
  int32_t type, rank;          /* rank -1: not given */
  int64_t dims[NEAP_MAX_RANK]; /* -1: open, a name in the file */
};

struct onnx_file {
  struct region region;
  const char *path;
  int descriptor;          /* of the open file; -1: none */
  struct file_stamp stamp; /* when it was opened */
  char digest[65];         /* SHA-256 */
  int64_t opset;
  int32_t node_count, tensor_count, input_count, output_count;
  const struct onnx_node *nodes;
  const struct onnx_tensor *tensors; /* initializers */
  const struct onnx_value *inputs;   /* without those that are initializers */
  const struct onnx_value *outputs;
  void *proto; /* the object of the format's own reader */
};

/* Reads a file. Close with onnx_close, whatever the status. NEAP_BAD_FORMAT: it is not an ONNX file, or is
 * cut or damaged; NEAP_UNSUPPORTED: it has an unsupported part. The message names the file and the part. */
neap_status onnx_open(const char *path, struct onnx_file *file);
void onnx_close(struct onnx_file *file);

/* Fails with NEAP_BAD_FORMAT if the file was written to since it was opened. */
neap_status onnx_check(const struct onnx_file *file);

/* Read elements of a tensor as floats, or as integers of 64 bits. NEAP_BAD_FORMAT: the other file ends before
 * them. */
neap_status onnx_read_reals(const struct onnx_file *file, const struct onnx_tensor *tensor, float *reals);
neap_status onnx_read_integers(const struct onnx_file *file, const struct onnx_tensor *tensor,
                               int64_t *integers);

/* Returns the attribute of this name; NULL: the node has none. */
const struct onnx_attribute *onnx_attribute(const struct onnx_node *node, const char *name);

#endif
