/* Operators that move elements: concatenation, slices, other memory layouts. */
#include "op/builder.h"

static const struct attribute_row part_attributes[] = {
    ATTRIBUTE(part.axis, INTEGER),
    ATTRIBUTE(part.first, INTEGER),
    ATTRIBUTE(part.count, INTEGER),
};

/* ---- Concatenation ---- */

/* The parts are equal in all but the axis, whose sizes are added. */
static neap_status infer_concat(const struct neap_graph *graph, const struct node *node,
                                struct tensor *outputs) {
  const struct tensor *x = node_input(graph, node, 0);
  const int64_t axis = node->attributes.part.axis;
  TRY(need_real(graph, node, -1, "tensors"));
  TRY(need_axis(node, x, axis));
  int64_t total = 0;
  for (int32_t i = 0; i < node->input_count; i++) {
    const struct tensor *part = node_input(graph, node, i);
    bool fits = part->rank == x->rank;
    for (int32_t d = 0; fits && d < x->rank; d++) fits = d == axis || part->dims[d] == x->dims[d];
    RETURN_IF(!fits, NEAP_INVALID_ARGUMENT,
              "Concat '%s': '%s' %s and '%s' %s must be equal in all but axis %lld", node->name, x->name,
              shape_text(x).text, part->name, shape_text(part).text, (long long)axis);
    TRY(need_same_type(node, x, part));
    RETURN_IF(__builtin_add_overflow(total, part->dims[axis], &total), NEAP_TOO_LARGE,
              "Concat '%s': with '%s' %s, axis %lld is longer than 64 bits can count", node->name, part->name,
              shape_text(part).text, (long long)axis);
  }
  outputs[0] = value_like(x);
  outputs[0].dims[axis] = total;
  return NEAP_OK;
}

/* Each part gets the gradient of its own elements; its earlier gradient is added in the same pass. */
static neap_status gradient_concat(struct gradient *g, const struct node *n) {
  const int32_t dy = g->of[n->outputs[0]];
  struct node part = *n;
  struct part_attributes *a = &part.attributes.part;
  a->first = 0;
  for (int32_t i = 0; i < n->input_count; i++) {
    a->count = g->graph->tensors.data[n->inputs[i]].dims[a->axis];
    const int32_t before = gradient_take(g, n->inputs[i]);
    TRY(GRADIENT_EMIT(g, OP_SLICE, &part, n->inputs[i], dy, before));
    a->first += a->count;
  }
  return NEAP_OK;
}

const struct op_row op_row_concat = {"Concat",
                                     "several tensors one after the other along an axis",
                                     "concat",
                                     1,
                                     infer_concat,
                                     gradient_concat,
                                     .attributes = part_attributes,
                                     .attribute_count = 1, /* the axis */
                                     .split = {(uint32_t)ALL_OPERANDS, 1, 0},
                                     .split_of = split_along_axis};

neap_tensor neap_concat(neap_builder *b, const neap_tensor *parts, int count, int axis) {
  if (!builder_ready(b)) return FAILED;
  if (parts == NULL || count < 1)
    return builder_fail(
        b, neap_fail(NEAP_INVALID_ARGUMENT, "Concat of %d tensors: at least one is needed", count));
  const union attributes a = {.part = {.axis = builder_axis(b, parts[0], axis)}};
  return builder_next(b, OP_CONCAT, a, parts, count);
}

/* ---- Slices ---- */

static neap_status infer_slice(const struct neap_graph *graph, const struct node *node,
                               struct tensor *outputs) {
  const struct tensor *x = node_input(graph, node, 0);
  const struct part_attributes *a = &node->attributes.part;
  TRY(need_real(graph, node, -1, "a tensor"));
  TRY(need_axis(node, x, a->axis));
  RETURN_IF(a->first < 0 || a->count < 1 || a->count > x->dims[a->axis] ||
                a->first > x->dims[a->axis] - a->count,
            NEAP_INVALID_ARGUMENT,
            "Slice '%s': axis %lld of '%s' %s has %lld elements; it does not have %lld from %lld on",
            node->name, (long long)a->axis, x->name, shape_text(x).text, (long long)x->dims[a->axis],
            (long long)a->count, (long long)a->first);
  outputs[0] = value_like(x);
  outputs[0].dims[a->axis] = a->count;
  return NEAP_OK;
}

/* The earlier gradient of x is the addend: if the result takes its place, only the slice is touched. */
static neap_status gradient_slice(struct gradient *g, const struct node *n) {
  const int32_t dy = g->of[n->outputs[0]], before = gradient_take(g, n->inputs[0]);
  if (n->inputs[1] != NO_TENSOR) TRY(gradient_add(g, n->inputs[1], dy));
  return GRADIENT_EMIT(g, OP_SLICE_BACKWARD, n, n->inputs[0], dy, before);
}

const struct op_row op_row_slice = {"Slice",
                                    "some of an axis, added to what is there; gradient of a concatenation",
                                    "slice",
                                    1,
                                    infer_slice,
                                    gradient_slice,
                                    ROW_INPLACE(inplace_second),
                                    ROW_ATTRIBUTES(part_attributes),
                                    .slots = 2,
                                    .split = {3, 1, 0},
                                    .split_of = split_along_axis};
const struct op_row op_row_slice_backward = {
    "SliceBackward",
    "gradient of a slice, added to what is there or with zeros around it",
    .output_count = 1,
    ROW_INPLACE(inplace_second),
    ROW_ATTRIBUTES(part_attributes),
    .addend = 1 + 1,
    .split = {3, 1, 0},
    .split_of = split_along_axis};

neap_tensor neap_slice(neap_builder *b, neap_tensor x, int axis, int64_t first, int64_t count) {
  const union attributes a = {.part = {.axis = builder_axis(b, x, axis), .first = first, .count = count}};
  return builder_next(b, OP_SLICE, a, (int32_t[]){x, NO_TENSOR}, 2);
}

void neap_split(neap_builder *b, neap_tensor x, int axis, int count, neap_tensor *parts) {
  for (int i = 0; parts != NULL && i < count; i++) parts[i] = FAILED;
  if (!builder_usable(b, x)) return;
  const struct tensor t = *builder_tensor(b, x);
  const int64_t at = builder_axis(b, x, axis);
  char name[2 * NAME_LIMIT];
  builder_peek(b, OP_SLICE, name);
  neap_status status = need_axis(&(struct node){.name = name, .op = OP_SLICE}, &t, at);
  if (status == NEAP_OK && (parts == NULL || count < 1 || t.dims[at] % count != 0))
    status =
        neap_fail(NEAP_INVALID_ARGUMENT, "split of '%s' %s along axis %d: cannot be cut into %d equal parts",
                  t.name, shape_text(&t).text, axis, count);
  if (status != NEAP_OK) {
    builder_fail(b, status);
    return;
  }
  const int64_t size = t.dims[at] / count;
  for (int i = 0; i < count; i++) parts[i] = neap_slice(b, x, axis, i * size, size);
}

/* ---- Regular places ---- */

static const struct attribute_row take_attributes[] = {
    ATTRIBUTE(take.axis, INTEGER),
    ATTRIBUTE(take.count, INTEGER),
    ATTRIBUTE(take.places.first, INTEGER),
    ATTRIBUTE_USUAL(take.places.step, INTEGER, 1),
    ATTRIBUTE_USUAL(take.places.divisor, INTEGER, 1),
    ATTRIBUTE(take.places.border, INTEGER),
    ATTRIBUTE(take.value, REAL),
};

/* Fails if a place has more digits than are counted, or lies outside although nothing stands for it. */
static neap_status infer_take(const struct neap_graph *graph, const struct node *node,
                              struct tensor *outputs) {
  const struct tensor *x = node_input(graph, node, 0);
  const struct take_attributes *a = &node->attributes.take;
  const struct take_places p = a->places;
  TRY(need_real(graph, node, -1, "a tensor"));
  TRY(need_axis(node, x, a->axis));
  int64_t last;
  const bool counted = a->count >= 1 && p.divisor >= 1 && p.border >= BORDER_NONE &&
                       p.border <= BORDER_WRAP && !__builtin_mul_overflow(a->count - 1, p.step, &last) &&
                       !__builtin_add_overflow(last, p.first, &last) && p.first > -INT64_MAX / 2 &&
                       last > -INT64_MAX / 2;
  RETURN_IF(
      !counted, NEAP_INVALID_ARGUMENT,
      "Take '%s' of '%s' %s: %lld elements at (%lld + i %lld) / %lld with border %lld: the number and the "
      "divisor must be 1 or more, the border 0 to %d, and all places within 62 bits",
      node->name, x->name, shape_text(x).text, (long long)a->count, (long long)p.first, (long long)p.step,
      (long long)p.divisor, (long long)p.border, BORDER_WRAP);
  const int64_t size = x->dims[a->axis], from = place_at(p, 0), to = place_at(p, a->count - 1);
  RETURN_IF(
      p.border == BORDER_NONE && (from < 0 || from >= size || to < 0 || to >= size), NEAP_INVALID_ARGUMENT,
      "Take '%s': axis %lld of '%s' %s has %lld elements; places %lld to %lld are not all among them, and "
      "no border stands for those outside",
      node->name, (long long)a->axis, x->name, shape_text(x).text, (long long)size, (long long)from,
      (long long)to);
  outputs[0] = value_like(x);
  outputs[0].dims[a->axis] = a->count;
  return NEAP_OK;
}

static neap_status gradient_take_places(struct gradient *g, const struct node *n) {
  return GRADIENT_EMIT(g, OP_TAKE_BACKWARD, n, n->inputs[0], g->of[n->outputs[0]]);
}

static void split_take(const struct neap_graph *graph, const struct node *node, struct row_split *split) {
  (void)graph;
  if (node->attributes.take.axis == 0) *split = (struct row_split){0};
}

const struct op_row op_row_take = {
    "Take",
    "elements of an axis at regular places: strides, padding, repeats, nearest",
    "take",
    1,
    infer_take,
    gradient_take_places,
    ROW_ATTRIBUTES(take_attributes),
    .split = {1, 1, 0},
    .split_of = split_take};
const struct op_row op_row_take_backward = {
    "TakeBackward",     "gradient of elements at regular places: sums over their readers",
    .output_count = 1,  ROW_ATTRIBUTES(take_attributes),
    .split = {1, 1, 0}, .split_of = split_take};

neap_tensor neap_take(neap_builder *b, neap_tensor x, int axis, int64_t count, neap_take_options o) {
  const union attributes a = {.take = {.axis = builder_axis(b, x, axis),
                                       .count = count,
                                       .places = {o.first, o.step != 0 ? o.step : 1,
                                                  o.divisor != 0 ? o.divisor : 1, (int64_t)o.border},
                                       .value = o.value}};
  return builder_next(b, OP_TAKE, a, &x, 1);
}

/* ---- Transposition ---- */

static const struct attribute_row order_attributes[] = {
    ATTRIBUTE(order.order[0], INTEGER), ATTRIBUTE(order.order[1], INTEGER),
    ATTRIBUTE(order.order[2], INTEGER), ATTRIBUTE(order.order[3], INTEGER),
    ATTRIBUTE(order.order[4], INTEGER), ATTRIBUTE(order.order[5], INTEGER),
    ATTRIBUTE(order.order[6], INTEGER), ATTRIBUTE(order.order[7], INTEGER),
};

static neap_status infer_transpose(const struct neap_graph *graph, const struct node *node,
                                   struct tensor *outputs) {
  const struct tensor *x = node_input(graph, node, 0);
  unsigned seen = 0;
  TRY(need_real(graph, node, -1, "a tensor"));
  outputs[0] = value_like(x);
  for (int32_t i = 0; i < x->rank; i++) {
    const int64_t axis = node->attributes.order.order[i];
    RETURN_IF(axis < 0 || axis >= x->rank || seen >> axis & 1, NEAP_INVALID_ARGUMENT,
              "Transpose '%s': the order %s must have each axis of '%s' %s once", node->name,
              dims_text(x->rank, node->attributes.order.order).text, x->name, shape_text(x).text);
    seen |= 1u << axis;
    outputs[0].dims[i] = x->dims[axis];
  }
  return NEAP_OK;
}

/* Transposes back by the inverse order. */
static neap_status gradient_transpose(struct gradient *g, const struct node *n) {
  const int32_t rank = g->graph->tensors.data[n->inputs[0]].rank;
  struct node back = *n;
  for (int32_t i = 0; i < rank; i++) back.attributes.order.order[n->attributes.order.order[i]] = i;
  return GRADIENT_EMIT(g, OP_TRANSPOSE, &back, n->inputs[0], g->of[n->outputs[0]]);
}

/* Zeroes the split if dimension 0 moves. */
static void split_transpose(const struct neap_graph *graph, const struct node *node,
                            struct row_split *split) {
  (void)graph;
  if (node->attributes.order.order[0] != 0) *split = (struct row_split){0};
}

const struct op_row op_row_transpose = {"Transpose",
                                        "axes in another order; its own gradient",
                                        "transpose",
                                        1,
                                        infer_transpose,
                                        gradient_transpose,
                                        ROW_ATTRIBUTES(order_attributes),
                                        .split = {1, 1, 0},
                                        .split_of = split_transpose};

neap_tensor neap_transpose(neap_builder *b, neap_tensor x, const int *order) {
  if (!builder_usable(b, x)) return FAILED;
  const int32_t rank = builder_tensor(b, x)->rank;
  union attributes a = {0};
  for (int32_t i = 0; i < rank; i++)
    a.order.order[i] = order != NULL ? builder_axis(b, x, order[i]) : rank - 1 - i;
  return builder_next(b, OP_TRANSPOSE, a, &x, 1);
}

/* ---- Rows by number ---- */

/* The type of the rows that are read from a table in blocks. */
static const struct attribute_row gather_attributes[] = {ATTRIBUTE(dtype, INT32)};

static neap_status infer_gather(const struct neap_graph *graph, const struct node *node,
                                struct tensor *outputs) {
  const struct tensor *table = node_input(graph, node, 0), *ids = node_input(graph, node, 1);
  if (!dtype_is_quantised(table->dtype)) TRY(need_real(graph, node, 2, "a table [rows, width]"));
  RETURN_IF(ids->dtype != NEAP_I32 || ids->rank >= NEAP_MAX_RANK, NEAP_INVALID_ARGUMENT,
            "Gather '%s': row numbers must be of i32 with fewer than %d dimensions, but '%s' is %s of %s",
            node->name, NEAP_MAX_RANK, ids->name, shape_text(ids).text, dtype_rows[ids->dtype].name);
  outputs[0] = value_like(ids);
  outputs[0].dtype = dtype_is_quantised(table->dtype) ? (neap_dtype)node->attributes.dtype : table->dtype;
  outputs[0].dims[outputs[0].rank++] = table->dims[1];
  return NEAP_OK;
}

/* Adds to the earlier gradient of the table, which may be large while few of its rows change. */
static neap_status gradient_gather(struct gradient *g, const struct node *n) {
  const int32_t before = gradient_take(g, n->inputs[0]);
  return GRADIENT_EMIT(g, OP_GATHER_BACKWARD, n, n->inputs[0], n->inputs[1], g->of[n->outputs[0]], before);
}

static const struct inplace_pair gather_backward_pairs[] = {{0, 2}};

const struct op_row op_row_gather = {"Gather",
                                     "rows of a table by their numbers: embedding",
                                     "embedding",
                                     1,
                                     infer_gather,
                                     .gradient = gradient_gather,
                                     ROW_ATTRIBUTES(gather_attributes),
                                     .takes = {TYPES_FLOAT | TYPES_QUANTISED, TYPE_I32},
                                     .split = {2, 1, 0}};
const struct op_row op_row_gather_backward = {
    "GatherBackward",   "gradient of gathered rows: sums by row, added to what is there",
    .output_count = 1,  ROW_INPLACE(gather_backward_pairs),
    .slots = 3,         .addend = 1 + 2,
    .takes = {TYPE_I32}};

neap_tensor neap_gather(neap_builder *b, neap_tensor table, neap_tensor ids) {
  return builder_next(b, OP_GATHER, (union attributes){0}, (int32_t[]){table, ids}, 2);
}

neap_tensor neap_embedding(neap_builder *b, neap_tensor ids, int64_t rows, int64_t width) {
  if (!builder_usable(b, ids)) return FAILED;
  if (rows < 1 || width < 1)
    return builder_fail(b, neap_fail(NEAP_INVALID_ARGUMENT,
                                     "embedding of %lld rows of %lld: both must be positive", (long long)rows,
                                     (long long)width));
  char name[2 * NAME_LIMIT];
  builder_name(b, OP_GATHER, name);
  const int64_t dims[] = {rows, width};
  const neap_tensor table =
      builder_variable(b, name, "weight", NEAP_F32, NEAP_ROLE_PARAMETER, NEAP_INITIAL_NORMAL, 2, dims);
  return builder_apply(b, OP_GATHER, name, (union attributes){0}, (int32_t[]){table, ids}, 2, NULL);
}

/* ---- Constants ---- */

static const struct attribute_row fill_attributes[] = {ATTRIBUTE(scalar.a, REAL)};

const struct op_row op_row_fill = {"Fill", "one number everywhere; a gradient begins with 1",
                                   .output_count = 1, ROW_ATTRIBUTES(fill_attributes), .split = {0, 1, 0}};

const struct op_row op_row_loss_share = {"LossShare", "a micro-batch's share of the loss: its gradient",
                                         .output_count = 1};

/* ---- Memory ---- */

const struct op_row op_row_reorder = {"Reorder",
                                      "the same tensor in another memory layout",
                                      .output_count = 1,
                                      .any_place = true,
                                      .takes = {TYPES_ANY},
                                      .split = {1, 1, 0}};

/* ---- Views ---- */

neap_tensor neap_reshape(neap_builder *b, neap_tensor x, int rank, const int64_t *dims) {
  if (!builder_usable(b, x)) return FAILED;
  const struct tensor *t = builder_tensor(b, x);
  if (rank < 1 || rank > NEAP_MAX_RANK || dims == NULL)
    return builder_fail(b, neap_fail(NEAP_INVALID_ARGUMENT,
                                     "reshape of '%s' %s to %d dimensions: the number must be 1 to %d",
                                     t->name, shape_text(t).text, rank, NEAP_MAX_RANK));
  int64_t shape[NEAP_MAX_RANK], known = 1;
  int open = -1;
  bool fits = true;
  for (int i = 0; i < rank; i++) {
    shape[i] = dims[i];
    if (dims[i] == -1 && open < 0)
      open = i;
    else
      fits = fits && dims[i] > 0 && !__builtin_mul_overflow(known, dims[i], &known);
  }
  if (fits && open >= 0) {
    fits = t->elements % known == 0;
    shape[open] = t->elements / known;
  } else {
    fits = fits && known == t->elements;
  }
  if (!fits)
    return builder_fail(
        b, neap_fail(NEAP_INVALID_ARGUMENT,
                     "reshape of '%s' %s to %s: the new shape does not have its %lld elements", t->name,
                     shape_text(t).text, dims_text(rank, dims).text, (long long)t->elements));
  return builder_view(b, x, rank, shape);
}

neap_tensor neap_flatten(neap_builder *b, neap_tensor x) {
  if (!builder_usable(b, x)) return FAILED;
  return neap_reshape(b, x, 2, (int64_t[]){builder_tensor(b, x)->dims[0], -1});
}
