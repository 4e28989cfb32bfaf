/* Builds ONNX graphs and writes their files. All memory is the writer's region; every failure shows in
 * onnx_write. */
#ifndef NEAP_ONNX_ONNX_WRITER_H
#define NEAP_ONNX_ONNX_WRITER_H

#include "base/region.h"
#include "base/vector.h"
#include "onnx/onnx_file.h"
#include <onnx.pb-c.h>

enum { WRITER_OPSET = 17 };

struct onnx_writer {
  struct region region;
  neap_status status; /* the first failure; its message is kept in `message` */
  char message[MESSAGE_BYTES];
  int32_t names; /* given so far */
  Onnx__GraphProto graph;
  VECTOR(Onnx__NodeProto *) nodes;
  VECTOR(Onnx__TensorProto *) tensors;
  VECTOR(Onnx__ValueInfoProto *) inputs;
  VECTOR(Onnx__ValueInfoProto *) outputs;
};

/* Keeps the first failure, with this thread's message. */
void writer_fail(struct onnx_writer *w, neap_status status);

/* Returns a name that nothing else has. */
const char *writer_name(struct onnx_writer *w, const char *stem);

/* Adds a node of one output; returns its name. Inputs that are NULL are not given. `output` NULL: a new
 * name. */
const char *writer_node(struct onnx_writer *w, const char *op, const char *output, int32_t count,
                        const char *const *inputs);
#define NODE(w, op, ...)                                                                                     \
  writer_node(w, op, NULL, (int32_t)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)),           \
              (const char *const[]){__VA_ARGS__})

/* Names the last node PREFIX and its output. */
void writer_prefix(struct onnx_writer *w, const char *prefix);
/* Set attributes of the last node. */
void writer_integer(struct onnx_writer *w, const char *name, int64_t value);
void writer_real(struct onnx_writer *w, const char *name, float value);
void writer_text(struct onnx_writer *w, const char *name, const char *value);
void writer_integers(struct onnx_writer *w, const char *name, int32_t count, const int64_t *values);

/* Add a tensor of known values, which are copied, except the floats of writer_weight, which are borrowed
 * until the end. */
const char *writer_integers_tensor(struct onnx_writer *w, int32_t count, const int64_t *values);
const char *writer_number(struct onnx_writer *w, float value); /* of rank 0 */
const char *writer_reals(struct onnx_writer *w, int32_t rank, const int64_t *dims, const float *values);
void writer_weight(struct onnx_writer *w, const char *name, int32_t rank, const int64_t *dims,
                   const float *values);

/* Adds an input. A dimension of -1 is open: "batch" if it is the first. */
void writer_input(struct onnx_writer *w, const char *name, int32_t type, int32_t rank, const int64_t *dims);
void writer_output(struct onnx_writer *w, const char *name, int32_t type, int32_t rank, const int64_t *dims);

/* Writes the file, completely or not at all; weights beyond the limit of one file go to PATH.data next to it.
 * Fails with the first failure of any call. */
neap_status onnx_write(struct onnx_writer *w, const char *path, const char *title);
void writer_free(struct onnx_writer *w);

#endif
