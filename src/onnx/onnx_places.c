/* Operators that read elements at regular places: padding, repetition, nearest pixels. */
#include <math.h>
#include <string.h>

#include "onnx/onnx_nearest.h"
#include "onnx/onnx_operators.h"

/* ---- Padding ---- */

static neap_status border_of(struct import *m, const struct onnx_node *n, neap_border *border) {
  static const struct {
    const char *mode;
    neap_border border;
  } rows[] = {{"constant", NEAP_BORDER_CONSTANT},
              {"reflect", NEAP_BORDER_REFLECT},
              {"edge", NEAP_BORDER_EDGE},
              {"wrap", NEAP_BORDER_WRAP}};
  const char *mode = node_text(n, "mode", "constant");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].mode, mode) == 0) {
      *border = rows[i].border;
      return NEAP_OK;
    }
  return refuse(m, "mode %s is not supported", mode);
}

/* Reads the numbers before and behind each axis: of all axes, or of those that are given. */
static neap_status read_pads(struct import *m, const struct onnx_node *n, const struct value *v,
                             struct padding *p) {
  const struct constant *pads, *axes;
  TRY(integers_of(m, n, "pads", 1, &pads));
  TRY(constant_of(m, n, 3, &axes));
  const int64_t count = axes != NULL ? axes->elements : v->rank;
  if (pads == NULL || pads->elements != 2 * count || count > v->rank)
    return refuse(m, "pads does not fit its input");
  for (int64_t i = 0; i < count; i++) {
    const int32_t d = axes != NULL ? axis_of(constant_integer(axes, i), v->rank) : (int32_t)i;
    if (d < 0) return refuse(m, "its axes are not axes of its input");
    p->before[d] = constant_integer(pads, i);
    p->behind[d] = constant_integer(pads, count + i);
  }
  for (int32_t d = 0; d < v->rank; d++) {
    const int64_t least = p->before[d] < p->behind[d] ? p->before[d] : p->behind[d],
                  most = p->before[d] > p->behind[d] ? p->before[d] : p->behind[d];
    if (least < -v->dims[d] || most > INT32_MAX || v->dims[d] + p->before[d] + p->behind[d] < 1)
      return refuse(m, "pads %lld before and %lld behind do not fit axis %d, which has %lld elements",
                    (long long)p->before[d], (long long)p->behind[d], d, (long long)v->dims[d]);
    if (p->border == NEAP_BORDER_REFLECT && most >= v->dims[d] && most > 0)
      return refuse(m, "a reflection of %lld elements at an axis of %lld is not supported", (long long)most,
                    (long long)v->dims[d]);
    if (p->border == NEAP_BORDER_REFLECT || p->border == NEAP_BORDER_WRAP)
      if (least < 0)
        return refuse(m, "mode %s with negative pads is not supported", node_text(n, "mode", ""));
  }
  return NEAP_OK;
}

/* Pads when the value is read, so that a window that follows can do it. */
neap_status import_pad(struct import *m, const struct onnx_node *n) {
  struct padding *p = region_alloc(&m->region, 1, sizeof *p);
  const struct constant *value;
  RETURN_IF_NULL(p);
  *p = (struct padding){0};
  TRY(tensor_of(m, n, 0, &p->x));
  TRY(constant_of(m, n, 2, &value));
  TRY(border_of(m, n, &p->border));
  const struct value *v = input_of(m, n, 0);
  p->value =
      value != NULL && value->elements == 1 ? (float)constant_real(value, 0) : node_real(n, "value", 0);
  TRY(read_pads(m, n, v, p));
  struct value *out;
  TRY(same_value(m, n, v));
  out = value_find(m, n->outputs[0]);
  if (out == NULL) return NEAP_OK;
  *out = (struct value){.name = n->outputs[0], .tensor = NO_TENSOR, .rank = v->rank, .padding = p};
  for (int32_t d = 0; d < v->rank; d++) out->dims[d] = v->dims[d] + p->before[d] + p->behind[d];
  return NEAP_OK;
}

/* ---- Repetition ---- */

neap_status import_tile(struct import *m, const struct onnx_node *n) {
  const struct constant *repeats;
  neap_tensor x;
  TRY(tensor_of(m, n, 0, &x));
  TRY(constant_of(m, n, 1, &repeats));
  const struct value *v = input_of(m, n, 0);
  if (repeats == NULL || repeats->elements != v->rank) return refuse(m, "its repeats do not fit its input");
  for (int32_t d = 0; d < v->rank; d++) {
    const int64_t times = constant_integer(repeats, d);
    if (times < 1 || times > INT32_MAX) return refuse(m, "it repeats an axis %lld times", (long long)times);
    if (times > 1)
      x = neap_take(m->builder, x, d, v->dims[d] * times, (neap_take_options){.border = NEAP_BORDER_WRAP});
  }
  return set_output_rank(m, n, 0, x, v->rank);
}

/* ---- Other sizes ---- */

/* Reads the nearest elements of each axis. */
static neap_status resize_nearest(struct import *m, const struct onnx_node *n, const int64_t *dims) {
  const char *coordinates = node_text(n, "coordinate_transformation_mode", "half_pixel"),
             *rounding = node_text(n, "nearest_mode", "round_prefer_floor");
  const struct value *v = input_of(m, n, 0);
  neap_tensor x;
  TRY(tensor_of(m, n, 0, &x));
  for (int32_t d = 0; d < v->rank; d++) {
    struct take_places p;
    if (dims[d] == v->dims[d]) continue; /* every mode reads pixel i at i */
    if (!nearest_places(coordinates, rounding, v->dims[d], dims[d], &p))
      return refuse(m, "coordinate_transformation_mode %s with nearest_mode %s is not supported", coordinates,
                    rounding);
    if (!nearest_is_exact(coordinates, rounding, v->dims[d], dims[d]))
      return refuse(m,
                    "%s with %s of %lld pixels to %lld depends on rounding; another nearest_mode, or other "
                    "sizes, do not",
                    coordinates, rounding, (long long)v->dims[d], (long long)dims[d]);
    x = neap_take(m->builder, x, d, dims[d],
                  (neap_take_options){p.first, p.step, p.divisor, (neap_border)p.border, 0});
  }
  return set_output(m, n, 0, x);
}

/* Gives the axes that sizes or scales are given for: all, or those of the attribute. */
static neap_status resized_axes(struct import *m, const struct onnx_node *n, int32_t rank, int32_t *count,
                                int32_t axes[NEAP_MAX_RANK]) {
  const struct onnx_attribute *given = onnx_attribute(n, "axes");
  if (given != NULL && (given->kind != ONNX_INTS || given->count < 1 || given->count > rank))
    return refuse(m, "its axes do not fit its input");
  *count = given != NULL ? (int32_t)given->count : rank;
  for (int32_t i = 0; i < *count; i++) {
    axes[i] = given != NULL ? axis_of(given->integers[i], rank) : i;
    if (axes[i] < 0) return refuse(m, "its axes do not fit its input");
  }
  return NEAP_OK;
}

/* Gives the number of pixels that a scale makes, by the standard's floor of a product in f32. Points are
 * taken at distances of 1 / scale, which is the ratio of the sizes only if nothing is cut off. */
static neap_status scaled_size(struct import *m, int64_t size, float scale, int64_t *pixels) {
  const float exact = (float)size * scale, whole = floorf(exact);
  if (!(whole >= 1 && whole < 1e6f)) return refuse(m, "its sizes or scales do not fit an image");
  if (exact - whole > 1e-5f * exact)
    return refuse(m, "a scale that gives a fractional number of pixels is not supported");
  *pixels = (int64_t)whole;
  return NEAP_OK;
}

/* Reads a resize: bilinear of images, or of any tensor to the nearest element. */
neap_status import_resize(struct import *m, const struct onnx_node *n) {
  neap_tensor x;
  const struct constant *scales, *sizes;
  TRY(need_inputs(m, n, 1));
  TRY(constant_of(m, n, 2, &scales));
  TRY(constant_of(m, n, 3, &sizes));
  const struct value *v = input_of(m, n, 0);
  const char *place = node_text(n, "coordinate_transformation_mode", "half_pixel");
  const bool nearest = strcmp(node_text(n, "mode", "nearest"), "nearest") == 0,
             corners = strcmp(place, "align_corners") == 0,
             half = strcmp(place, "half_pixel") == 0 || strcmp(place, "pytorch_half_pixel") == 0;
  if (node_integer(n, "antialias", 0) != 0 ||
      strcmp(node_text(n, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0)
    return refuse(m, "antialias, and a policy that keeps the aspect ratio, are not supported");
  if (!nearest && (v->rank != 4 || strcmp(node_text(n, "mode", ""), "linear") != 0 || !(corners || half)))
    return refuse(m, "only mode nearest, and mode linear of images with half_pixel or align_corners, are "
                     "supported");
  int32_t count, axes[NEAP_MAX_RANK];
  TRY(resized_axes(m, n, v->rank, &count, axes));
  const bool by_size = sizes != NULL && sizes->elements == count,
             by_scale = !by_size && scales != NULL && scales->elements == count;
  if (!by_size && !by_scale) return refuse(m, "its sizes or scales do not fit its input");
  int64_t dims[NEAP_MAX_RANK];
  memcpy(dims, v->dims, sizeof dims);
  for (int32_t i = 0; i < count; i++) {
    const int32_t d = axes[i];
    int64_t size = by_size ? constant_integer(sizes, i) : 0;
    if (by_scale) TRY(scaled_size(m, v->dims[d], (float)constant_real(scales, i), &size));
    if (size < 1 || size >= 1000000 || (d < 2 && size != v->dims[d] && !(d == 0 && by_size)))
      return refuse(m, "its sizes or scales do not fit an image");
    if (!nearest && strcmp(place, "pytorch_half_pixel") == 0 && d > 1 && size == 1)
      return refuse(m, "pytorch_half_pixel to one pixel is not supported");
    if (d > 1) dims[d] = size;
  }
  if (nearest) return resize_nearest(m, n, dims);
  TRY(tensor_of(m, n, 0, &x));
  return set_output(m, n, 0, neap_resize(m->builder, x, dims[2], dims[3], corners));
}

/* ---- The largest of all pixels ---- */

/* Takes the maximum over windows of neighbours in row-major order until one is left, so that of equal ones
 * the first wins. */
neap_status import_global_max_pool(struct import *m, const struct onnx_node *n) {
  enum { SIZE = 15 };
  neap_tensor x;
  int64_t dims[NEAP_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1}, pixels = 1;
  TRY(tensor_of(m, n, 0, &x));
  const struct value *v = input_of(m, n, 0);
  if (v->rank < 3) return refuse(m, "its input has no pixels");
  for (int32_t d = 2; d < v->rank; d++) pixels *= v->dims[d];
  if (v->rank == 4 && v->dims[2] == v->dims[3] && v->dims[2] <= SIZE) {
    x = neap_max_pool(m->builder, x, (neap_pool_options){.size = v->dims[2]});
  } else {
    x = neap_reshape(m->builder, x, 4, (int64_t[]){v->dims[0], v->dims[1], 1, pixels});
    while (pixels > 1 && x >= 0) {
      x = neap_max_pool(m->builder, x, (neap_pool_options){.size = SIZE, .padding = SIZE / 2, .ceil = true});
      if (x >= 0) neap_shape(m->builder, x, dims);
      pixels = x >= 0 ? dims[3] : 1;
    }
    for (int32_t d = 2; d < NEAP_MAX_RANK; d++) dims[d] = 1;
  }
  memcpy(dims, v->dims, 2 * sizeof *dims);
  return set_output(m, n, 0, neap_reshape(m->builder, x, v->rank, dims));
}
