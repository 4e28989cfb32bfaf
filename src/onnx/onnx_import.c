/* Values of an ONNX graph, and the walk over its nodes. */
#include "onnx/onnx_import.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "onnx/onnx_fold.h"

/* ---- Values by name ---- */

static uint64_t hash_name(const char *name) { return hash_bytes(name, strlen(name)); }

static uint64_t hash_value(const void *owner, int32_t value) {
  const struct import *m = owner;
  return hash_name(m->values.data[value]->name);
}

static bool has_name(const void *owner, int32_t value, const void *name) {
  const struct import *m = owner;
  return strcmp(m->values.data[value]->name, name) == 0;
}

static const struct index_keys names = {hash_value, has_name};

struct value *value_find(const struct import *m, const char *name) {
  const int32_t number = index_find(&m->names, &names, m, hash_name(name), name);
  return number >= 0 ? m->values.data[number] : NULL;
}

neap_status value_add(struct import *m, const char *name, struct value **out) {
  TRY(index_reserve(&m->names, &names, m));
  int32_t *slot = index_slot(&m->names, &names, m, hash_name(name), name);
  RETURN_IF(*slot >= 0, NEAP_BAD_FORMAT, "%s: two values are named '%.100s'", m->file->path, name);
  struct value *value = region_alloc(&m->region, 1, sizeof *value);
  RETURN_IF_NULL(value);
  *value = (struct value){.name = name, .tensor = NO_TENSOR};
  TRY(vector_push(&m->values, value));
  index_put(&m->names, slot);
  *out = value;
  return NEAP_OK;
}

struct value *input_of(const struct import *m, const struct onnx_node *n, int32_t i) {
  return i < n->input_count && n->inputs[i][0] != '\0' ? value_find(m, n->inputs[i]) : NULL;
}

neap_status need_inputs(struct import *m, const struct onnx_node *n, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    if (input_of(m, n, i) == NULL) return node_fail(m->file, n, NEAP_BAD_FORMAT, "input %d is missing", i);
  return NEAP_OK;
}

/* ---- Weights and constants ---- */

static neap_status add_parameter(struct import *m, const char *name, int32_t rank, const int64_t *dims,
                                 bool frozen, struct first_values first, neap_tensor *x) {
  static const int64_t one = 1;
  *x = neap_parameter(m->builder, name, rank > 0 ? rank : 1, rank > 0 ? dims : &one,
                      (neap_parameter_options){.frozen = frozen});
  if (*x < 0) return refuse(m, "%s", neap_error_message());
  first.name = name;
  return vector_push(&m->first, first);
}

/* Returns true if axis 0 is the batch and all records are equal. */
static bool is_repeated(const struct import *m, const struct constant *c) {
  if (c->rank < 2 || m->batch < 2 || c->dims[0] != m->batch || c->elements == 0) return false;
  const int64_t each = c->elements / m->batch;
  int64_t i = each;
  while (i < c->elements && constant_real(c, i) == constant_real(c, i % each)) i++;
  return i == c->elements;
}

/* Infinity in a mask becomes the largest number, as weights must be finite. */
neap_status constant_tensor(struct import *m, const char *name, const struct constant *c, neap_tensor *x) {
  struct constant *finite;
  int64_t dims[NEAP_MAX_RANK];
  const char *own = region_format(&m->region, "constant.%s", name);
  RETURN_IF_NULL(own);
  memcpy(dims, c->dims, sizeof dims);
  if (is_repeated(m, c)) dims[0] = 1;
  TRY(constant_create(&m->pool, ONNX_F32, c->rank, dims, &finite));
  for (int64_t i = 0; i < finite->elements; i++) {
    const double real = constant_real(c, i);
    finite->reals[i] = real > (double)FLT_MAX    ? (double)FLT_MAX
                       : real < -(double)FLT_MAX ? -(double)FLT_MAX
                                                 : real;
    if (real != real) return refuse(m, "a constant that it reads is NaN");
  }
  return add_parameter(m, own, finite->rank, dims, true, (struct first_values){.constant = finite}, x);
}

neap_status broadcast_tensor(struct import *m, struct value *v, neap_tensor *x) {
  if (v->constant == NULL || v->in_graph) return value_tensor(m, v, x);
  if (!v->has_once) TRY(constant_tensor(m, v->name, v->constant, &v->once));
  v->has_once = true;
  *x = v->once;
  return NEAP_OK;
}

neap_status value_tensor(struct import *m, struct value *v, neap_tensor *x) {
  int64_t dims[NEAP_MAX_RANK];
  *x = v->tensor;
  if (v->in_graph) return NEAP_OK;
  if (v->parts != NULL) return refuse(m, "'%.100s' is a sequence of tensors", v->name);
  if (v->padding != NULL) {
    *x = pad_all(m->builder, v->padding);
    if (*x < 0) return refuse(m, "%s", neap_error_message());
  } else if (v->constant != NULL) {
    TRY(broadcast_tensor(m, v, x));
    neap_shape(m->builder, *x, dims);
    if (v->rank > 0 && dims[0] != v->dims[0]) *x = neap_expand(m->builder, *x, v->rank, v->dims);
    if (*x < 0) return refuse(m, "%s", neap_error_message());
  } else {
    TRY(add_parameter(m, v->name, v->rank, v->dims, false, (struct first_values){.weight = v->weight}, x));
  }
  v->tensor = *x;
  v->in_graph = true;
  return NEAP_OK;
}

neap_status tensor_of(struct import *m, const struct onnx_node *n, int32_t i, neap_tensor *x) {
  struct value *v = input_of(m, n, i);
  TRY(need_inputs(m, n, i + 1));
  if (v->integers)
    return refuse(
        m,
        "'%.100s' contains integers that are not known before training; they can only select rows of a table",
        v->name);
  return value_tensor(m, v, x);
}

enum { SMALL_WEIGHT = 64 }; /* elements of one that may say what an operator does */

neap_status constant_of(struct import *m, const struct onnx_node *n, int32_t i, const struct constant **c) {
  struct value *v = input_of(m, n, i);
  struct constant *made;
  *c = NULL;
  if (v == NULL) return NEAP_OK;
  *c = v->constant;
  if (*c != NULL) return NEAP_OK;
  int64_t elements = 1;
  for (int32_t d = 0; d < v->rank; d++) elements *= v->dims[d];
  if (v->weight == NULL || elements > SMALL_WEIGHT)
    return refuse(m, "input %d, '%.100s', must be known before training, but it is computed", i, v->name);
  TRY(constant_of_tensor(&m->pool, m->file, v->weight, &made));
  *c = made;
  return NEAP_OK;
}

bool number_of(struct import *m, const struct onnx_node *n, int32_t i, double *number) {
  const struct value *v = input_of(m, n, i);
  if (v == NULL || v->constant == NULL || v->constant->elements != 1) return false;
  *number = constant_real(v->constant, 0);
  return true;
}

neap_status integers_of(struct import *m, const struct onnx_node *n, const char *name, int32_t input,
                        const struct constant **given) {
  const struct constant *c;
  TRY(constant_of(m, n, input, &c));
  return node_integers(&m->pool, n, name, c, given);
}

/* ---- Results ---- */

static neap_status add_output(struct import *m, const struct onnx_node *n, int32_t i, struct value **out) {
  RETURN_IF(i >= n->output_count, NEAP_BAD_FORMAT, "%s: node '%.100s' has no output %d", m->file->path,
            n->name, i);
  if (n->outputs[i][0] != '\0') return value_add(m, n->outputs[i], out);
  *out = region_alloc(&m->region, 1, sizeof **out); /* nobody reads it */
  RETURN_IF_NULL(*out);
  return NEAP_OK;
}

neap_status set_output_rank(struct import *m, const struct onnx_node *n, int32_t i, neap_tensor x,
                            int32_t rank) {
  struct value *v;
  if (x < 0) return refuse(m, "%s", neap_error_message());
  TRY(add_output(m, n, i, &v));
  *v = (struct value){.name = n->outputs[i], .tensor = x, .in_graph = true};
  neap_shape(m->builder, x, v->dims);
  v->rank = rank;
  return NEAP_OK;
}

neap_status set_output(struct import *m, const struct onnx_node *n, int32_t i, neap_tensor x) {
  if (i >= n->output_count) return NEAP_OK;
  return set_output_rank(m, n, i, x, x < 0 ? 0 : neap_shape(m->builder, x, NULL));
}

neap_status set_broadcast(struct import *m, const struct onnx_node *n, int32_t first, int32_t end,
                          neap_tensor x) {
  int64_t dims[NEAP_MAX_RANK], own[NEAP_MAX_RANK];
  int32_t rank = 0;
  for (int32_t i = first; i < end; i++) {
    const struct value *v = input_of(m, n, i);
    if (!broadcast_dims(rank, dims, v->rank, v->dims, &rank, dims))
      return refuse(m, "the shapes of its inputs do not broadcast");
  }
  if (x >= 0 && rank > 0 && neap_shape(m->builder, x, own) == rank &&
      memcmp(own, dims, (size_t)rank * sizeof *own) != 0)
    x = neap_expand(m->builder, x, rank, dims);
  return set_output_rank(m, n, 0, x, rank);
}

neap_status set_constant(struct import *m, const struct onnx_node *n, int32_t i, const struct constant *c) {
  struct value *v;
  if (i >= n->output_count) return NEAP_OK;
  TRY(add_output(m, n, i, &v));
  *v = (struct value){.name = n->outputs[i], .constant = c, .tensor = NO_TENSOR, .rank = c->rank};
  memcpy(v->dims, c->dims, sizeof v->dims);
  return NEAP_OK;
}

neap_status same_value(struct import *m, const struct onnx_node *n, const struct value *from) {
  struct value *v;
  TRY(add_output(m, n, 0, &v));
  const char *name = n->outputs[0];
  *v = *from;
  v->name = name;
  return NEAP_OK;
}

/* ---- Another batch than the file's ---- */

static int64_t product(int32_t first, int32_t end, const int64_t *dims) {
  int64_t count = 1;
  for (int32_t d = first; d < end; d++) count *= dims[d];
  return count;
}

/* Returns the axis whose outer part is the batch: the one in which this value differs from itself at the
 * file's own batch. */
static int32_t batch_axis(const struct import *m, const struct value *x) {
  const struct value *made = m->as_made != NULL ? value_find(m->as_made, x->name) : NULL;
  int32_t axis = -1;
  if (made == NULL || made->rank != x->rank) return -1;
  for (int32_t d = 0; d < x->rank; d++) {
    if (made->dims[d] == x->dims[d]) continue;
    if (axis >= 0 || made->dims[d] % m->file_batch != 0 ||
        made->dims[d] / m->file_batch != x->dims[d] / m->batch)
      return -1;
    axis = d;
  }
  return axis;
}

/* Finds the batch in a new shape. Elements keep their order, so its axis begins where the old one does. With
 * a batch of 1, axes of 1 before it make two places possible: the one with the batch's length is taken; two
 * such are refused. */
neap_status reshaped_dims(struct import *m, const struct onnx_node *n, const struct value *x,
                          const struct constant *wanted, int64_t *shape) {
  const struct value *made = m->as_made != NULL ? value_find(m->as_made, x->name) : NULL;
  const int32_t axis = batch_axis(m, x), rank = (int32_t)wanted->elements;
  if (axis < 0) return reshape_dims(m->file, n, x->rank, x->dims, wanted, shape);
  TRY(reshape_dims(m->file, n, made->rank, made->dims, wanted, shape));
  const int64_t before = product(0, axis, made->dims);
  int32_t best = -1, exact = 0;
  bool other = false; /* an axis behind the batch that is as long as a batch of 1: it may be the batch */
  for (int32_t d = 0; d < rank; d++) {
    other = other || (best >= 0 && shape[best] != 1 && shape[d] == 1);
    if (product(0, d, shape) != before || shape[d] % m->file_batch != 0) continue;
    exact += shape[d] == m->file_batch;
    if (best < 0 || (shape[best] != m->file_batch && shape[d] == m->file_batch)) best = d;
  }
  if (best < 0 || exact > 1 || (other && m->file_batch == 1) || shape[best] > INT64_MAX / m->batch)
    return refuse(m,
                  "the file was exported for a batch of %lld, which may be one of several axes of this "
                  "shape; export it with dynamic_shapes, or use `batch` %lld",
                  (long long)m->file_batch, (long long)m->file_batch);
  shape[best] = shape[best] / m->file_batch * m->batch;
  return NEAP_OK;
}

/* ---- Nodes ---- */

/* Adds the node's name to a failure to make a constant. */
static neap_status with_node(struct import *m, neap_status status) {
  if (status != NEAP_UNSUPPORTED || strncmp(neap_error_message(), "a constant", 10) != 0) return status;
  char message[256];
  snprintf(message, sizeof message, "%s", neap_error_message());
  return refuse(m, "%s", message);
}

/* Computes a node whose inputs are all known. */
static neap_status fold_node(struct import *m, const struct onnx_node *n, fold_function *fold, bool *folded) {
  struct constant **out = region_alloc(&m->region, (size_t)n->output_count + 1, sizeof *out);
  const struct constant **in = region_alloc(&m->region, (size_t)n->input_count + 1, sizeof *in);
  RETURN_IF(out == NULL || in == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", m->file->path);
  *folded = false;
  for (int32_t i = 0; i < n->input_count; i++) {
    const struct value *v = input_of(m, n, i);
    in[i] = v != NULL ? v->constant : NULL;
    if (v != NULL && in[i] == NULL) return NEAP_OK;
  }
  struct folding f = {.pool = &m->pool, .file = m->file, .node = n, .in = in, .out = out};
  if (n->output_count < 1) return NEAP_OK;
  const neap_status status = fold(&f);
  TRY(with_node(m, status));
  *folded = true;
  return set_constant(m, n, 0, out[0]);
}

static const struct operator_row *find_operator(const char *op) {
  for (int32_t i = 0; i < operator_count; i++)
    if (strcmp(operator_rows[i].op, op) == 0) return &operator_rows[i];
  return NULL;
}

static neap_status import_node(struct import *m, const struct onnx_node *n) {
  const bool own = n->domain[0] == '\0';
  const struct operator_row *row = own ? find_operator(n->op) : NULL;
  fold_function *fold = own ? fold_find(n->op) : NULL;
  bool folded = false;
  m->node = n;
  if (row == NULL && fold == NULL)
    return refuse(m,
                  "this operator is not supported; remove it from the model, or export another form of it");
  for (int32_t i = 0; i < n->input_count; i++)
    if (n->inputs[i][0] != '\0' && value_find(m, n->inputs[i]) == NULL)
      return node_fail(
          m->file, n, NEAP_BAD_FORMAT,
          "it reads '%.100s', which no earlier node makes; nodes must be in order, without cycles",
          n->inputs[i]);
  if (strncmp(n->name, ONNX_DATA_NODE, strlen(ONNX_DATA_NODE)) == 0) {
    TRY(need_inputs(m, n, 1));
    return same_value(m, n, input_of(m, n, 0));
  }
  if (fold != NULL) TRY(fold_node(m, n, fold, &folded));
  if (folded) return NEAP_OK;
  if (row == NULL) return refuse(m, "it is supported only if its inputs are known before training");
  if (m->file->opset < row->opset)
    return refuse(m, "it is supported from opset %lld on; export the model with that or a newer one",
                  (long long)row->opset);
  return with_node(m, row->read(m, n));
}

neap_status import_nodes(struct import *m) {
  for (int32_t i = 0; i < m->file->node_count; i++) TRY(import_node(m, &m->file->nodes[i]));
  return NEAP_OK;
}
