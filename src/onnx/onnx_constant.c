#include "onnx/onnx_constant.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

neap_status(node_fail)(const struct onnx_file *file, const struct onnx_node *node, neap_status status,
                       const char *format, ...) {
  char text[MESSAGE_BYTES / 2];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return neap_fail(status, "%s: node '%.100s' (%.60s%s%.60s, opset %lld): %s", file->path, node->name,
                   node->domain, node->domain[0] != '\0' ? "." : "", node->op, (long long)file->opset, text);
}

/* ---- Attributes ---- */

int64_t node_integer(const struct onnx_node *node, const char *name, int64_t usual) {
  const struct onnx_attribute *a = onnx_attribute(node, name);
  return a != NULL && a->kind == ONNX_INT ? a->integer : usual;
}

float node_real(const struct onnx_node *node, const char *name, float usual) {
  const struct onnx_attribute *a = onnx_attribute(node, name);
  return a != NULL && a->kind == ONNX_FLOAT ? a->real : usual;
}

const char *node_text(const struct onnx_node *node, const char *name, const char *usual) {
  const struct onnx_attribute *a = onnx_attribute(node, name);
  return a != NULL && a->kind == ONNX_STRING ? a->text : usual;
}

int32_t axis_of(int64_t axis, int32_t rank) {
  if (axis < -(int64_t)rank || axis >= rank) return -1;
  return (int32_t)(axis < 0 ? axis + rank : axis);
}

neap_status node_integers(struct pool *pool, const struct onnx_node *node, const char *name,
                          const struct constant *input, const struct constant **given) {
  const struct onnx_attribute *a = onnx_attribute(node, name);
  struct constant *made = NULL;
  *given = input;
  if (input != NULL || a == NULL || a->kind != ONNX_INTS) return NEAP_OK;
  TRY(constant_of_integers(pool, a->count, a->integers, &made));
  *given = made;
  return NEAP_OK;
}

/* ---- Constants ---- */

enum { ELEMENTS_LIMIT = 1 << 27 }; /* 1 GiB */

neap_status constant_create(struct pool *pool, int32_t type, int32_t rank, const int64_t *dims,
                            struct constant **out) {
  struct constant *c = region_alloc(&pool->region, 1, sizeof *c);
  RETURN_IF_NULL(c);
  *c = (struct constant){.type = type, .rank = rank, .elements = 1};
  for (int32_t d = 0; d < rank; d++) {
    c->dims[d] = dims[d];
    RETURN_IF(dims[d] < 0 || __builtin_mul_overflow(c->elements, dims[d], &c->elements) ||
                  c->elements > ELEMENTS_LIMIT - pool->elements,
              NEAP_UNSUPPORTED,
              "a constant's dimension of %lld is negative, or brings the constants to more than %d elements "
              "together",
              (long long)dims[d], ELEMENTS_LIMIT);
  }
  pool->elements += c->elements;
  void *data = region_alloc(&pool->region, (size_t)c->elements + 1, sizeof(int64_t));
  RETURN_IF_NULL(data);
  if (onnx_type_is_real(type))
    c->reals = data;
  else
    c->integers = data;
  *out = c;
  return NEAP_OK;
}

neap_status constant_of_integers(struct pool *pool, int64_t count, const int64_t *integers,
                                 struct constant **out) {
  TRY(constant_create(pool, ONNX_I64, 1, &count, out));
  if (count > 0) memcpy((*out)->integers, integers, (size_t)count * sizeof *integers);
  return NEAP_OK;
}

neap_status constant_of_tensor(struct pool *pool, const struct onnx_file *file,
                               const struct onnx_tensor *tensor, struct constant **out) {
  TRY(constant_create(pool, tensor->type, tensor->rank, tensor->dims, out));
  struct constant *c = *out;
  if (c->integers != NULL) return onnx_read_integers(file, tensor, c->integers);
  float *reals = region_alloc(&pool->region, (size_t)c->elements + 1, sizeof *reals);
  RETURN_IF_NULL(reals);
  TRY(onnx_read_reals(file, tensor, reals));
  for (int64_t i = 0; i < c->elements; i++) c->reals[i] = (double)reals[i];
  return NEAP_OK;
}

double constant_real(const struct constant *c, int64_t i) {
  return c->reals != NULL ? c->reals[i] : (double)c->integers[i];
}

int64_t constant_integer(const struct constant *c, int64_t i) {
  if (c->integers != NULL) return c->integers[i];
  const double real = c->reals[i];
  if (!(real > -9e18)) return real == real ? INT64_MIN : 0;
  return real < 9e18 ? (int64_t)real : INT64_MAX;
}

/* ---- Shapes ---- */

void strides_of(int32_t rank, const int64_t *dims, int64_t *strides) {
  int64_t stride = 1;
  for (int32_t d = rank - 1; d >= 0; d--) {
    strides[d] = stride;
    stride *= dims[d];
  }
}

neap_status constant_take(struct pool *pool, const struct constant *from, int32_t rank, const int64_t *dims,
                          int64_t first, const int64_t *strides, struct constant **out) {
  int64_t index[NEAP_MAX_RANK] = {0}, at = first;
  TRY(constant_create(pool, from->type, rank, dims, out));
  for (int64_t i = 0; i < (*out)->elements; i++) {
    if (from->reals != NULL)
      (*out)->reals[i] = from->reals[at];
    else
      (*out)->integers[i] = from->integers[at];
    for (int32_t d = rank - 1; d >= 0; d--) {
      at += strides[d];
      if (++index[d] < dims[d]) break;
      at -= index[d] * strides[d];
      index[d] = 0;
    }
  }
  return NEAP_OK;
}

bool broadcast_dims(int32_t rank_a, const int64_t *a, int32_t rank_b, const int64_t *b, int32_t *rank,
                    int64_t *dims) {
  const int32_t longer = rank_a > rank_b ? rank_a : rank_b;
  int64_t both[NEAP_MAX_RANK]; /* `dims` may be one of the two */
  for (int32_t d = 0; d < longer; d++) {
    const int32_t at_a = d - (longer - rank_a), at_b = d - (longer - rank_b);
    const int64_t of_a = at_a >= 0 ? a[at_a] : 1, of_b = at_b >= 0 ? b[at_b] : 1;
    if (of_a != of_b && of_a != 1 && of_b != 1) return false;
    both[d] = of_a == 1 ? of_b : of_a;
  }
  memcpy(dims, both, (size_t)longer * sizeof *dims);
  *rank = longer;
  return true;
}

neap_status reshape_dims(const struct onnx_file *file, const struct onnx_node *node, int32_t rank,
                         const int64_t *dims, const struct constant *wanted, int64_t *shape) {
  const bool zeros = node_integer(node, "allowzero", 0) != 0;
  int64_t elements = 1, known = 1;
  int32_t open = -1;
  bool fits = wanted->rank == 1 && wanted->elements <= NEAP_MAX_RANK && wanted->integers != NULL;
  for (int32_t d = 0; d < rank; d++) elements *= dims[d];
  for (int32_t d = 0; fits && d < wanted->elements; d++) {
    shape[d] = wanted->integers[d];
    if (shape[d] == 0 && !zeros && d < rank) shape[d] = dims[d];
    if (shape[d] == -1 && open < 0)
      open = d;
    else
      fits = shape[d] >= 0 && !__builtin_mul_overflow(known, shape[d], &known);
  }
  if (fits && open >= 0) {
    fits = known > 0 && elements % known == 0;
    if (fits) shape[open] = elements / known;
  } else {
    fits = fits && known == elements;
  }
  if (fits) return NEAP_OK;
  return node_fail(file, node, NEAP_UNSUPPORTED,
                   "a shape of %lld elements cannot become the requested one; if the file has a fixed batch "
                   "or length, export it with dynamic_shapes",
                   (long long)elements);
}

/* Resolves one axis of a slice, as in Python. */
static bool slice_axis(int64_t size, int64_t start, int64_t end, int64_t step, int64_t *first,
                       int64_t *count) {
  if (step == 0 || step == INT64_MIN) return false;
  const int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? size : size - 1;
  if (start < 0) start = start < -size ? lowest : start + size;
  if (end < 0) end = end < -size ? lowest : end + size;
  start = start < lowest ? lowest : start > highest ? highest : start;
  end = end < lowest ? lowest : end > highest ? highest : end;
  const int64_t span = step > 0 ? end - start : start - end, by = step > 0 ? step : -step;
  *first = start;
  *count = span > 0 ? (span - 1) / by + 1 : 0;
  return true;
}

neap_status slices_of(const struct onnx_file *file, const struct onnx_node *node, int32_t rank,
                      const int64_t *dims, const struct constant *const parts[4], struct slices *s) {
  const struct constant *starts = parts[0], *ends = parts[1], *axes = parts[2], *steps = parts[3];
  for (int32_t d = 0; d < rank; d++) {
    s->first[d] = 0;
    s->count[d] = dims[d];
    s->step[d] = 1;
  }
  bool fits = starts != NULL && ends != NULL && ends->elements == starts->elements &&
              starts->elements <= rank && (axes == NULL || axes->elements == starts->elements) &&
              (steps == NULL || steps->elements == starts->elements);
  for (int64_t i = 0; fits && i < starts->elements; i++) {
    const int32_t axis = axes != NULL ? axis_of(constant_integer(axes, i), rank) : (int32_t)i;
    fits = axis >= 0;
    if (fits) s->step[axis] = steps != NULL ? constant_integer(steps, i) : 1;
    fits = fits && slice_axis(dims[axis], constant_integer(starts, i), constant_integer(ends, i),
                              s->step[axis], &s->first[axis], &s->count[axis]);
    if (fits && s->count[axis] < 2) s->step[axis] = 1;
  }
  return fits ? NEAP_OK
              : node_fail(file, node, NEAP_BAD_FORMAT,
                          "its starts, ends, axes and steps do not fit a tensor of rank %d", rank);
}
