/* Operators that move elements, and sums over axes. */
#include <string.h>

#include "onnx/onnx_operators.h"

/* ---- Shapes ---- */

neap_status import_shape(struct import *m, const struct onnx_node *n) {
  struct constant *shape;
  TRY(need_inputs(m, n, 1));
  const struct value *v = input_of(m, n, 0);
  if (v->parts != NULL) return refuse(m, "a sequence has no shape");
  int64_t first = node_integer(n, "start", 0), end = node_integer(n, "end", v->rank);
  if (first < 0) first = first + v->rank < 0 ? 0 : first + v->rank;
  if (end < 0) end += v->rank;
  if (end > v->rank) end = v->rank;
  TRY(constant_of_integers(&m->pool, end > first ? end - first : 0, v->dims + (end > first ? first : 0),
                           &shape));
  return set_constant(m, n, 0, shape);
}

neap_status import_size(struct import *m, const struct onnx_node *n) {
  struct constant *size;
  TRY(need_inputs(m, n, 1));
  TRY(constant_create(&m->pool, ONNX_I64, 0, NULL, &size));
  size->integers[0] = 1;
  for (int32_t d = 0; d < input_of(m, n, 0)->rank; d++) size->integers[0] *= input_of(m, n, 0)->dims[d];
  return set_constant(m, n, 0, size);
}

/* Views the input in another shape; numbers of rows stay such. */
static neap_status set_view(struct import *m, const struct onnx_node *n, int32_t rank, const int64_t *dims) {
  struct value *v = input_of(m, n, 0), *out;
  neap_tensor x;
  static const int64_t one = 1;
  const bool integers = v->integers;
  TRY(value_tensor(m, v, &x));
  TRY(set_output_rank(m, n, 0, neap_reshape(m->builder, x, rank > 0 ? rank : 1, rank > 0 ? dims : &one),
                      rank));
  out = value_find(m, n->outputs[0]);
  if (out != NULL) out->integers = integers;
  return NEAP_OK;
}

neap_status import_reshape(struct import *m, const struct onnx_node *n) {
  const struct constant *wanted;
  int64_t dims[NEAP_MAX_RANK];
  TRY(need_inputs(m, n, 1));
  TRY(integers_of(m, n, "shape", 1, &wanted));
  if (wanted == NULL) return refuse(m, "its shape is missing");
  TRY(reshaped_dims(m, n, input_of(m, n, 0), wanted, dims));
  return set_view(m, n, (int32_t)wanted->elements, dims);
}

neap_status import_flatten(struct import *m, const struct onnx_node *n) {
  TRY(need_inputs(m, n, 1));
  const struct value *v = input_of(m, n, 0);
  const int64_t axis = node_integer(n, "axis", 1), from = axis < 0 ? axis + v->rank : axis;
  int64_t dims[2] = {1, 1};
  if (from < 0 || from > v->rank) return refuse(m, "its axis is not an axis of its input");
  for (int32_t d = 0; d < v->rank; d++) dims[d >= from] *= v->dims[d];
  return set_view(m, n, 2, dims);
}

neap_status import_squeeze(struct import *m, const struct onnx_node *n) {
  const struct constant *axes;
  int64_t dims[NEAP_MAX_RANK];
  int32_t rank = 0;
  unsigned gone = 0;
  TRY(need_inputs(m, n, 1));
  TRY(integers_of(m, n, "axes", 1, &axes));
  const struct value *v = input_of(m, n, 0);
  for (int64_t i = 0; axes != NULL && i < axes->elements; i++) {
    const int32_t axis = axis_of(constant_integer(axes, i), v->rank);
    if (axis < 0 || v->dims[axis] != 1)
      return refuse(m, "axis %lld must have 1 element", (long long)constant_integer(axes, i));
    gone |= 1u << axis;
  }
  for (int32_t d = 0; d < v->rank; d++)
    if (axes != NULL ? !(gone >> d & 1) : v->dims[d] != 1) dims[rank++] = v->dims[d];
  return set_view(m, n, rank, dims);
}

neap_status import_unsqueeze(struct import *m, const struct onnx_node *n) {
  const struct constant *axes;
  int64_t dims[NEAP_MAX_RANK];
  unsigned made = 0;
  TRY(need_inputs(m, n, 1));
  TRY(integers_of(m, n, "axes", 1, &axes));
  const struct value *v = input_of(m, n, 0);
  const int64_t rank = v->rank + (axes != NULL ? axes->elements : 0);
  if (axes == NULL || rank > NEAP_MAX_RANK) return refuse(m, "its axes are missing or too many");
  for (int64_t i = 0; i < axes->elements; i++) {
    const int32_t axis = axis_of(constant_integer(axes, i), (int32_t)rank);
    if (axis < 0 || made >> axis & 1) return refuse(m, "its axes are invalid");
    made |= 1u << axis;
  }
  for (int32_t d = 0, from = 0; d < rank; d++) dims[d] = made >> d & 1 ? 1 : v->dims[from++];
  return set_view(m, n, (int32_t)rank, dims);
}

neap_status import_transpose(struct import *m, const struct onnx_node *n) {
  const struct onnx_attribute *perm = onnx_attribute(n, "perm");
  neap_tensor x;
  int order[NEAP_MAX_RANK];
  TRY(tensor_of(m, n, 0, &x));
  const int32_t rank = input_of(m, n, 0)->rank;
  if (perm != NULL && (perm->kind != ONNX_INTS || perm->count != rank))
    return refuse(m, "perm does not fit its input");
  bool same = true;
  for (int32_t d = 0; d < rank; d++) {
    order[d] = perm != NULL ? axis_of(perm->integers[d], rank) : rank - 1 - d;
    if (order[d] < 0) return refuse(m, "perm does not fit its input");
    same = same && order[d] == d;
  }
  if (same) return same_value(m, n, input_of(m, n, 0));
  return set_output(m, n, 0, neap_transpose(m->builder, x, order));
}

/* Expands; a shape with the file's own batch gets the one asked for. */
neap_status import_expand(struct import *m, const struct onnx_node *n) {
  const struct constant *wanted;
  neap_tensor x;
  int64_t dims[NEAP_MAX_RANK], shape[NEAP_MAX_RANK];
  int32_t rank;
  TRY(tensor_of(m, n, 0, &x));
  TRY(constant_of(m, n, 1, &wanted));
  const struct value *v = input_of(m, n, 0);
  if (wanted == NULL || wanted->integers == NULL || wanted->rank != 1 || wanted->elements > NEAP_MAX_RANK)
    return refuse(m, "its shape is missing or too long");
  const int32_t count = (int32_t)wanted->elements;
  memcpy(shape, wanted->integers, (size_t)count * sizeof *shape);
  const struct value *made = m->as_made != NULL ? value_find(m->as_made, v->name) : NULL;
  for (int32_t d = 0; made != NULL && d < v->rank && v->rank <= count; d++) {
    int64_t *to = &shape[count - v->rank + d];
    if (made->dims[d] != v->dims[d] && *to == made->dims[d]) *to = v->dims[d];
  }
  if (!broadcast_dims(v->rank, v->dims, count, shape, &rank, dims))
    return refuse(
        m,
        "its shape does not fit its input; where the file's batch is fixed, export it with dynamic_shapes");
  if (rank == v->rank && memcmp(dims, v->dims, (size_t)rank * sizeof *dims) == 0) return same_value(m, n, v);
  return set_output(m, n, 0, neap_expand(m->builder, x, rank, dims));
}

/* ---- Parts ---- */

/* Repeats a part that does not depend on the record for each one, if the file has a batch of 1. */
static neap_tensor as_long(struct import *m, neap_tensor x, int64_t batch) {
  int64_t dims[NEAP_MAX_RANK];
  const int rank = neap_shape(m->builder, x, dims);
  if (m->as_made == NULL || m->file_batch != 1 || rank < 2 || dims[0] != 1 || batch == 1) return x;
  dims[0] = batch;
  return neap_expand(m->builder, x, rank, dims);
}

neap_status import_concat(struct import *m, const struct onnx_node *n) {
  neap_tensor *parts = region_alloc(&m->region, (size_t)n->input_count + 1, sizeof *parts);
  RETURN_IF_NULL(parts);
  TRY(need_inputs(m, n, n->input_count > 0 ? n->input_count : 1));
  const struct value *v = input_of(m, n, 0);
  const int32_t axis = axis_of(node_integer(n, "axis", 1), v->rank);
  int64_t batch = 1;
  if (axis < 0) return refuse(m, "its axis is not an axis of its inputs");
  for (int32_t i = 0; i < n->input_count; i++) {
    TRY(tensor_of(m, n, i, &parts[i]));
    if (input_of(m, n, i)->rank > 0 && input_of(m, n, i)->dims[0] == m->batch) batch = m->batch;
  }
  for (int32_t i = 0; axis > 0 && i < n->input_count; i++) parts[i] = as_long(m, parts[i], batch);
  if (n->input_count == 1) return same_value(m, n, v);
  return set_output(m, n, 0, neap_concat(m->builder, parts, n->input_count, axis));
}

neap_status import_slice(struct import *m, const struct onnx_node *n) {
  static const char *const names[] = {"starts", "ends", "axes", "steps"};
  const struct constant *parts[4];
  struct slices s;
  struct value *v = input_of(m, n, 0);
  neap_tensor x;
  TRY(need_inputs(m, n, 1));
  for (int32_t i = 0; i < 4; i++) TRY(integers_of(m, n, names[i], i + 1, &parts[i]));
  TRY(slices_of(m->file, n, v->rank, v->dims, parts, &s));
  bool whole = true;
  for (int32_t d = 0; d < v->rank; d++) {
    whole = whole && s.count[d] == v->dims[d] && s.step[d] == 1;
    if (s.count[d] < 1) return refuse(m, "it leaves no element of axis %d", d);
  }
  if (whole) return same_value(m, n, v);
  TRY(tensor_of(m, n, 0, &x));
  for (int32_t d = 0; d < v->rank; d++)
    if (s.step[d] != 1)
      x = neap_take(m->builder, x, d, s.count[d],
                    (neap_take_options){.first = s.first[d], .step = s.step[d]});
    else if (s.count[d] != v->dims[d])
      x = neap_slice(m->builder, x, d, s.first[d], s.count[d]);
  return set_output(m, n, 0, x);
}

/* Gives the sizes of the parts of a split: given, or `count` equal ones, of which the last may be shorter. */
static neap_status part_sizes(struct import *m, const struct constant *given, int64_t count, int64_t length,
                              int64_t *sizes) {
  const int64_t each = count > 0 ? (length + count - 1) / count : 0;
  int64_t left = length;
  for (int64_t i = 0; i < count; i++) {
    sizes[i] = given != NULL ? constant_integer(given, i) : left < each ? left : each;
    if (sizes[i] < 1 || sizes[i] > left) return refuse(m, "its parts do not fit its input");
    left -= sizes[i];
  }
  return left == 0 ? NEAP_OK : refuse(m, "its parts do not fit its input");
}

enum { PART_LIMIT = 4096 };

neap_status import_split(struct import *m, const struct onnx_node *n) {
  const struct constant *given;
  int64_t sizes[PART_LIMIT], first = 0;
  neap_tensor x;
  TRY(tensor_of(m, n, 0, &x));
  TRY(integers_of(m, n, "split", 1, &given));
  const struct value *v = input_of(m, n, 0);
  const int32_t axis = axis_of(node_integer(n, "axis", 0), v->rank), count = n->output_count;
  if (axis < 0 || count < 1 || count > PART_LIMIT || (given != NULL && given->elements != count))
    return refuse(m, "its axis or parts do not fit its input");
  TRY(part_sizes(m, given, count, v->dims[axis], sizes));
  for (int32_t i = 0; i < count; first += sizes[i++])
    TRY(set_output(m, n, i, count == 1 ? x : neap_slice(m->builder, x, axis, first, sizes[i])));
  return NEAP_OK;
}

neap_status import_split_to_sequence(struct import *m, const struct onnx_node *n) {
  const struct constant *given;
  int64_t sizes[PART_LIMIT], first = 0;
  struct value *out;
  neap_tensor x;
  TRY(tensor_of(m, n, 0, &x));
  TRY(constant_of(m, n, 1, &given));
  const struct value *v = input_of(m, n, 0);
  const int32_t axis = axis_of(node_integer(n, "axis", 0), v->rank);
  if (axis < 0 || given == NULL || given->elements < 1) return refuse(m, "its axis or parts are invalid");
  const int64_t each = constant_integer(given, 0), count = given->rank == 1 ? given->elements
                                                           : each > 0 ? (v->dims[axis] + each - 1) / each
                                                                      : 0;
  if (count < 1 || count > PART_LIMIT) return refuse(m, "its parts are invalid");
  for (int64_t i = 0, left = v->dims[axis]; given->rank == 0 && i < count; left -= each, i++)
    sizes[i] = left < each ? left : each;
  if (given->rank == 1) TRY(part_sizes(m, given, count, v->dims[axis], sizes));
  struct value *parts = region_alloc(&m->region, (size_t)count, sizeof *parts);
  RETURN_IF_NULL(parts);
  for (int64_t i = 0; i < count; first += sizes[i++]) {
    const neap_tensor part = neap_slice(m->builder, x, axis, first, sizes[i]);
    if (part < 0) return refuse(m, "%s", neap_error_message());
    parts[i] = (struct value){.tensor = part, .in_graph = true, .rank = v->rank};
    neap_shape(m->builder, part, parts[i].dims);
  }
  if (n->output_count < 1) return refuse(m, "it has no output");
  TRY(value_add(m, n->outputs[0], &out));
  out->parts = parts;
  out->part_count = (int32_t)count;
  return NEAP_OK;
}

neap_status import_sequence_at(struct import *m, const struct onnx_node *n) {
  double at;
  TRY(need_inputs(m, n, 2));
  const struct value *v = input_of(m, n, 0);
  if (v->parts == NULL || !number_of(m, n, 1, &at))
    return refuse(m, "it is supported for the parts of SplitToSequence, with a known number");
  const int32_t part = axis_of((int64_t)at, v->part_count);
  if (part < 0) return refuse(m, "part %g does not exist", at);
  return same_value(m, n, &v->parts[part]);
}

/* ---- Rows by number ---- */

/* A run of known indices: each is the first plus a step times its number, or its number in the last axis. */
struct run {
  int64_t first, step, period;
};

static neap_status find_run(struct import *m, const struct value *v, int64_t length,
                            const struct constant *ids, struct run *run) {
#define ID(i) (ids->integers[i] < 0 ? ids->integers[i] + length : ids->integers[i])
  const int64_t last = ids->rank > 0 ? ids->dims[ids->rank - 1] : 1, periods[] = {ids->elements, last};
  for (int64_t i = 0; i < ids->elements; i++)
    if (ID(i) < 0 || ID(i) >= length)
      return refuse(m,
                    "it reads row %lld of '%.100s', which has %lld; if that is a position, use a `length` "
                    "that the model has",
                    (long long)ids->integers[i], v->name, (long long)length);
  for (int k = 0; k < 2; k++) {
    *run = (struct run){ID(0), periods[k] > 1 ? ID(1) - ID(0) : 0, periods[k]};
    bool all = true;
    for (int64_t i = 0; all && i < ids->elements; i++)
      all = ID(i) == run->first + run->step * (i % run->period);
    if (all) return NEAP_OK;
  }
#undef ID
  return refuse(m, "its indices are known, but are not at equal distances");
}

/* Gathers rows at equal distances, or one row repeatedly, along an axis. */
static neap_status gather_known(struct import *m, const struct onnx_node *n, int32_t axis,
                                const struct constant *ids) {
  const struct value *v = input_of(m, n, 0);
  int64_t dims[NEAP_MAX_RANK], wide[NEAP_MAX_RANK];
  int32_t rank = 0;
  neap_tensor x;
  struct run run;
  TRY(tensor_of(m, n, 0, &x));
  if (ids->elements < 1 || v->rank - 1 + ids->rank > NEAP_MAX_RANK)
    return refuse(m, "it has no indices, or they have too many axes");
  TRY(find_run(m, v, v->dims[axis], ids, &run));
  if (run.step == 0 || run.step == 1)
    x = neap_slice(m->builder, x, axis, run.first, run.step == 1 ? run.period : 1);
  else
    x = neap_take(m->builder, x, axis, run.period, (neap_take_options){.first = run.first, .step = run.step});
  /* [before, of the indices, behind]: those of the run, the others of 1, which are then made as long as they
   * are */
  for (int32_t d = 0; d < axis; d++) dims[rank] = wide[rank] = v->dims[d], rank++;
  for (int32_t d = 0; d < ids->rank; d++, rank++) {
    wide[rank] = ids->dims[d];
    dims[rank] = run.step != 0 && (run.period == ids->elements || d == ids->rank - 1) ? ids->dims[d] : 1;
  }
  for (int32_t d = axis + 1; d < v->rank; d++) dims[rank] = wide[rank] = v->dims[d], rank++;
  static const int64_t one = 1;
  x = neap_reshape(m->builder, x, rank > 0 ? rank : 1, rank > 0 ? dims : &one);
  if (rank > 0 && memcmp(dims, wide, (size_t)rank * sizeof *wide) != 0)
    x = neap_expand(m->builder, x, rank, wide);
  return set_output_rank(m, n, 0, x, rank);
}

neap_status import_gather(struct import *m, const struct onnx_node *n) {
  neap_tensor table;
  TRY(need_inputs(m, n, 2));
  struct value *v = input_of(m, n, 0), *ids = input_of(m, n, 1);
  const int32_t axis = axis_of(node_integer(n, "axis", 0), v->rank);
  if (axis < 0) return refuse(m, "its axis is not an axis of its input");
  if (ids->constant != NULL && ids->constant->integers != NULL)
    return gather_known(m, n, axis, ids->constant);
  if (!ids->integers || axis != 0 || v->rank != 2)
    return refuse(m,
                  "numbers that are not known before training can only select rows of a table [rows, width]");
  TRY(tensor_of(m, n, 0, &table));
  return set_output(m, n, 0, neap_gather(m->builder, table, ids->tensor));
}

/* ---- Sums ---- */

static neap_status import_reduction(struct import *m, const struct onnx_node *n, bool mean) {
  const struct constant *axes;
  neap_tensor x;
  int list[NEAP_MAX_RANK], count = 0;
  int64_t dims[NEAP_MAX_RANK];
  int32_t rank = 0;
  unsigned gone = 0;
  TRY(tensor_of(m, n, 0, &x));
  TRY(integers_of(m, n, "axes", 1, &axes));
  const struct value *v = input_of(m, n, 0);
  const bool keep = node_integer(n, "keepdims", 1) != 0, all = axes == NULL || axes->elements == 0;
  if (all && node_integer(n, "noop_with_empty_axes", 0) != 0) return same_value(m, n, v);
  for (int64_t i = 0; !all && i < axes->elements; i++) {
    const int32_t axis = axis_of(constant_integer(axes, i), v->rank);
    if (axis < 0 || gone >> axis & 1) return refuse(m, "its axes do not fit its input");
    gone |= 1u << axis;
  }
  for (int32_t d = 0; d < v->rank; d++) {
    const bool over = all || gone >> d & 1;
    if (over) list[count++] = d;
    if (!over || keep) dims[rank++] = over ? 1 : v->dims[d];
  }
  if (count == 0) return same_value(m, n, v);
  const bool pixels = mean && v->rank > 2 && count == v->rank - 2 && list[0] == 2;
  const neap_tensor y = pixels ? neap_global_average_pool(m->builder, x)
                        : mean ? neap_mean(m->builder, x, list, count, true)
                               : neap_sum(m->builder, x, list, count, true);
  static const int64_t one = 1;
  return set_output_rank(m, n, 0, neap_reshape(m->builder, y, rank > 0 ? rank : 1, rank > 0 ? dims : &one),
                         rank);
}

neap_status import_reduce_mean(struct import *m, const struct onnx_node *n) {
  return import_reduction(m, n, true);
}
neap_status import_reduce_sum(struct import *m, const struct onnx_node *n) {
  return import_reduction(m, n, false);
}

/* ---- Pixels and channels ---- */

/* Makes a view of six axes, permutes the axes, and makes a view of four. */
static neap_status blocks(struct import *m, const struct onnx_node *n, const int64_t from[6],
                          const int order[6], const int64_t to[4]) {
  neap_tensor x;
  TRY(tensor_of(m, n, 0, &x));
  const neap_tensor y = neap_transpose(m->builder, neap_reshape(m->builder, x, 6, from), order);
  return set_output(m, n, 0, neap_reshape(m->builder, y, 4, to));
}

neap_status import_depth_to_space(struct import *m, const struct onnx_node *n) {
  TRY(need_inputs(m, n, 1));
  const struct value *v = input_of(m, n, 0);
  const int64_t b = node_integer(n, "blocksize", 0), *d = v->dims;
  if (v->rank != 4 || b < 1 || b > 4096 || d[1] % (b * b) != 0)
    return refuse(m, "its blocksize does not fit its input");
  const int64_t c = d[1] / (b * b), to[] = {d[0], c, d[2] * b, d[3] * b};
  if (strcmp(node_text(n, "mode", "DCR"), "CRD") == 0)
    return blocks(m, n, (int64_t[]){d[0], c, b, b, d[2], d[3]}, (int[]){0, 1, 4, 2, 5, 3}, to);
  return blocks(m, n, (int64_t[]){d[0], b, b, c, d[2], d[3]}, (int[]){0, 3, 4, 1, 5, 2}, to);
}

neap_status import_space_to_depth(struct import *m, const struct onnx_node *n) {
  TRY(need_inputs(m, n, 1));
  const struct value *v = input_of(m, n, 0);
  const int64_t b = node_integer(n, "blocksize", 0), *d = v->dims;
  if (v->rank != 4 || b < 1 || b > 4096 || d[2] % b != 0 || d[3] % b != 0)
    return refuse(m, "its blocksize does not fit its input");
  if (strcmp(node_text(n, "mode", "DCR"), "DCR") != 0)
    return refuse(m, "mode %s is not supported", node_text(n, "mode", ""));
  return blocks(m, n, (int64_t[]){d[0], d[1], d[2] / b, b, d[3] / b, b}, (int[]){0, 3, 5, 1, 2, 4},
                (int64_t[]){d[0], d[1] * b * b, d[2] / b, d[3] / b});
}
