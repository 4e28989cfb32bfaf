/* The import of an ONNX graph into a graph of Neap. Values are found by name; each is known before training
 * (a constant), a weight of the file, or computed by the graph. */
#ifndef NEAP_ONNX_ONNX_IMPORT_H
#define NEAP_ONNX_ONNX_IMPORT_H

#include "base/index.h"
#include "onnx/onnx_constant.h"
#include "onnx/onnx_padding.h"

struct value {
  const char *name;
  const struct constant *constant;  /* NULL: not known before training */
  const struct onnx_tensor *weight; /* an initializer; NULL: not one */
  neap_tensor tensor;               /* in the graph; NO_TENSOR: not yet */
  bool in_graph;                    /* `tensor` is set */
  neap_tensor once;                 /* of a constant that is the same for each record: one record of it */
  bool has_once;                    /* `once` is set */
  bool integers;                    /* of the graph: numbers of rows */
  bool softmax;                     /* made by Softmax: never NaN in sound training */
  const struct padding *padding;    /* that makes it of another value; NULL: none */
  int32_t readers;                  /* norms that have a running statistic of its values */
  int32_t rank;                     /* in ONNX; a number of rank 0 is [1] in the graph */
  int64_t dims[NEAP_MAX_RANK];
  struct value *parts; /* of a sequence */
  int32_t part_count;
};

/* The first values of a variable of the graph, from a weight of the file or a constant. */
struct first_values {
  const char *name;
  const struct onnx_tensor *weight;
  const struct constant *constant;
};

struct import {
  struct region region;
  struct pool pool;
  const struct onnx_file *file; /* borrowed */
  neap_builder *builder;
  VECTOR(struct value *) values;  /* in `region` */
  struct index names;             /* of the values */
  const struct onnx_node *node;   /* that is being read */
  const struct constant **inputs; /* its inputs that are known */
  int64_t batch, file_batch;      /* of this graph; the fixed one of the file, 0: any */
  const struct import *as_made;   /* the same file at its own batch; NULL: this has that batch */
  VECTOR(struct first_values) first;
};

/* Reads a node: from input values to set outputs. */
typedef neap_status import_function(struct import *m, const struct onnx_node *n);

struct operator_row {
  const char *op;
  int64_t opset; /* the lowest that this row reads */
  import_function *read;
};
extern const struct operator_row operator_rows[];
extern const int32_t operator_count;

/* Fails with a problem of the node that is being read: refuse(m, "...", ...). */
#define refuse(m, ...) node_fail((m)->file, (m)->node, NEAP_UNSUPPORTED, __VA_ARGS__)

/* ---- Values ---- */

struct value *value_find(const struct import *m, const char *name); /* NULL: none exists */

/* Adds a value. NEAP_BAD_FORMAT: the name exists already. */
neap_status value_add(struct import *m, const char *name, struct value **out);

/* Returns input `i` of a node; NULL: not given. Names were checked before. */
struct value *input_of(const struct import *m, const struct onnx_node *n, int32_t i);

/* Fails if there are fewer inputs. */
neap_status need_inputs(struct import *m, const struct onnx_node *n, int32_t count);

/* Gives the tensor of input `i`: weights become parameters, constants frozen ones. */
neap_status tensor_of(struct import *m, const struct onnx_node *n, int32_t i, neap_tensor *x);
neap_status value_tensor(struct import *m, struct value *v, neap_tensor *x);
/* The same for an operator that broadcasts: of a constant that is the same for each record, one record. */
neap_status broadcast_tensor(struct import *m, struct value *v, neap_tensor *x);
/* Makes a constant a frozen parameter; if it is the same for each record of the batch, only one record. So a
 * checkpoint does not depend on the batch. */
neap_status constant_tensor(struct import *m, const char *name, const struct constant *c, neap_tensor *x);

/* Gives input `i` as a constant; also a small weight. NULL: not given. Fails if the graph computes it. */
neap_status constant_of(struct import *m, const struct onnx_node *n, int32_t i, const struct constant **c);
/* Returns true if input `i` is one known number. */
bool number_of(struct import *m, const struct onnx_node *n, int32_t i, double *number);

/* Gives integers that are an attribute in older opsets and an input in newer ones. */
neap_status integers_of(struct import *m, const struct onnx_node *n, const char *name, int32_t input,
                        const struct constant **given);

/* Makes output `i` of the node a value of the graph, with this rank in ONNX, or with that of input 0. Fails
 * with the builder's message if the tensor failed. */
neap_status set_output(struct import *m, const struct onnx_node *n, int32_t i, neap_tensor x);
neap_status set_output_rank(struct import *m, const struct onnx_node *n, int32_t i, neap_tensor x,
                            int32_t rank);
/* The same with the rank of inputs `first` to `end` when broadcast. */
neap_status set_broadcast(struct import *m, const struct onnx_node *n, int32_t first, int32_t end,
                          neap_tensor x);
neap_status set_constant(struct import *m, const struct onnx_node *n, int32_t i, const struct constant *c);
neap_status same_value(struct import *m, const struct onnx_node *n, const struct value *from);

/* Gives the shape that a constant asks for, with the batch asked for in place of the file's fixed one.
 * `dims`: of the reshaped value. */
neap_status reshaped_dims(struct import *m, const struct onnx_node *n, const struct value *x,
                          const struct constant *wanted, int64_t *shape);

/* ---- The file ---- */

/* Reads the nodes of a file whose inputs are values already. */
neap_status import_nodes(struct import *m);

#endif
