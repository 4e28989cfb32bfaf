/* Computes nodes of an ONNX graph whose inputs are all known: shapes, indices, masks, scales. */
#ifndef NEAP_ONNX_ONNX_CONSTANT_H
#define NEAP_ONNX_ONNX_CONSTANT_H

#include "onnx/onnx_file.h"

/* A known value. Truths are integers 0 and 1; real numbers are floats. */
struct constant {
  int32_t type; /* of ONNX */
  int32_t rank;
  int64_t dims[NEAP_MAX_RANK], elements;
  int64_t *integers; /* NULL: its elements are real numbers */
  double *reals;
};

/* The memory of constants. Their total number of elements is limited, as a small file could ask for any
 * memory. */
struct pool {
  struct region region;
  int64_t elements;
};

/* A node that is computed, and its results. */
struct folding {
  struct pool *pool;
  const struct onnx_file *file;
  const struct onnx_node *node;
  const struct constant *const *in; /* [input_count]; NULL: not given */
  struct constant **out;            /* [output_count], set by the function */
};

typedef neap_status fold_function(struct folding *f);

/* Makes a constant of this shape, with zeros. NEAP_UNSUPPORTED: too many to be computed before training. */
neap_status constant_create(struct pool *pool, int32_t type, int32_t rank, const int64_t *dims,
                            struct constant **out);
/* Makes a constant of integers [count]. */
neap_status constant_of_integers(struct pool *pool, int64_t count, const int64_t *integers,
                                 struct constant **out);
neap_status constant_of_tensor(struct pool *pool, const struct onnx_file *file,
                               const struct onnx_tensor *tensor, struct constant **out);
double constant_real(const struct constant *c, int64_t i);
/* Returns an element; a real number is cut to an integer. */
int64_t constant_integer(const struct constant *c, int64_t i);

/* Takes elements of `from` by strides: out[i...] is from[first + the sum of i_d strides_d]. */
neap_status constant_take(struct pool *pool, const struct constant *from, int32_t rank, const int64_t *dims,
                          int64_t first, const int64_t *strides, struct constant **out);
void strides_of(int32_t rank, const int64_t *dims, int64_t *strides);

/* Fails with "FILE: node 'NAME' (OP, opset N): ..." and the problem. */
neap_status node_fail(const struct onnx_file *file, const struct onnx_node *node, neap_status status,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The same, as an expression whose value a reader of the call sees. Evaluates `status` twice. */
#define node_fail(file, node, status, ...) (node_fail(file, node, status, __VA_ARGS__), (status))

/* Return attributes; the usual value if the node has none. */
int64_t node_integer(const struct onnx_node *node, const char *name, int64_t usual);
float node_real(const struct onnx_node *node, const char *name, float usual);
const char *node_text(const struct onnx_node *node, const char *name, const char *usual);

/* Returns an axis counted from the front; -1: it does not exist. */
int32_t axis_of(int64_t axis, int32_t rank);

/* Gives integers that are an input since some opset and were an attribute before. `*given` is NULL if the
 * node has neither. */
neap_status node_integers(struct pool *pool, const struct onnx_node *node, const char *name,
                          const struct constant *input, const struct constant **given);

/* Resolves the shape that Reshape, with `allowzero`, makes of another one: replaces -1 and 0. */
neap_status reshape_dims(const struct onnx_file *file, const struct onnx_node *node, int32_t rank,
                         const int64_t *dims, const struct constant *wanted, int64_t *shape);

/* A resolved Slice: for each axis the first element, the count and the step. */
struct slices {
  int64_t first[NEAP_MAX_RANK], count[NEAP_MAX_RANK], step[NEAP_MAX_RANK];
};
/* Resolves a Slice. `parts`: starts, ends, axes (NULL: the first ones), steps (NULL: 1). */
neap_status slices_of(const struct onnx_file *file, const struct onnx_node *node, int32_t rank,
                      const int64_t *dims, const struct constant *const parts[4], struct slices *slices);

/* Gives the shape that two shapes are broadcast to, which may replace one of them; returns false if they are
 * not. */
bool broadcast_dims(int32_t rank_a, const int64_t *a, int32_t rank_b, const int64_t *b, int32_t *rank,
                    int64_t *dims);

#endif
