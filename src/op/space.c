/* Operators that move pixels: crop and resize. */
#include "op/builder.h"

static const struct attribute_row crop_attributes[] = {
    ATTRIBUTE(crop.top, INTEGER),
    ATTRIBUTE(crop.left, INTEGER),
    ATTRIBUTE(crop.height, INTEGER),
    ATTRIBUTE(crop.width, INTEGER),
};

static neap_status infer_crop(const struct neap_graph *graph, const struct node *node,
                              struct tensor *outputs) {
  TRY(need_real(graph, node, 4, "[N, C, H, W]"));
  const struct tensor *x = node_input(graph, node, 0);
  const struct crop_attributes *a = &node->attributes.crop;
  const bool inside = a->top >= 0 && a->left >= 0 && a->height >= 1 && a->width >= 1 &&
                      a->height <= x->dims[2] && a->top <= x->dims[2] - a->height && a->width <= x->dims[3] &&
                      a->left <= x->dims[3] - a->width;
  RETURN_IF(!inside, NEAP_INVALID_ARGUMENT,
            "Crop '%s': %lldx%lld pixels from (%lld, %lld) are not inside '%s' %s", node->name,
            (long long)a->height, (long long)a->width, (long long)a->top, (long long)a->left, x->name,
            shape_text(x).text);
  outputs[0] = value_like(x);
  outputs[0].dims[2] = a->height;
  outputs[0].dims[3] = a->width;
  return NEAP_OK;
}

static neap_status gradient_crop(struct gradient *g, const struct node *n) {
  const int32_t before = gradient_take(g, n->inputs[0]);
  return GRADIENT_EMIT(g, OP_CROP_BACKWARD, n, n->inputs[0], g->of[n->outputs[0]], before);
}

const struct op_row op_row_crop = {"Crop",
                                   "a rectangle of pixels",
                                   "crop",
                                   1,
                                   infer_crop,
                                   gradient_crop,
                                   ROW_ATTRIBUTES(crop_attributes),
                                   .split = {1, 1, 0}};
const struct op_row op_row_crop_backward = {"CropBackward",
                                            "gradient of a crop: zeros around, added to what is there",
                                            .output_count = 1,
                                            ROW_INPLACE(inplace_second),
                                            ROW_ATTRIBUTES(crop_attributes),
                                            .split = {3, 1, 0}};

neap_tensor neap_crop(neap_builder *b, neap_tensor x, neap_crop_options o) {
  return builder_next(b, OP_CROP, (union attributes){.crop = {o.top, o.left, o.height, o.width}}, &x, 1);
}

static const struct attribute_row resize_attributes[] = {
    ATTRIBUTE(resize.height, INTEGER),
    ATTRIBUTE(resize.width, INTEGER),
    ATTRIBUTE(resize.align_corners, FLAG),
};

static neap_status infer_resize(const struct neap_graph *graph, const struct node *node,
                                struct tensor *outputs) {
  TRY(need_real(graph, node, 4, "[N, C, H, W]"));
  outputs[0] = value_like(node_input(graph, node, 0));
  outputs[0].dims[2] = node->attributes.resize.height;
  outputs[0].dims[3] = node->attributes.resize.width;
  return NEAP_OK;
}

static neap_status gradient_resize(struct gradient *g, const struct node *n) {
  return GRADIENT_EMIT(g, OP_RESIZE_BACKWARD, n, n->inputs[0], g->of[n->outputs[0]]);
}

const struct op_row op_row_resize = {"Resize",
                                     "bilinear interpolation, corners aligned or not",
                                     "resize",
                                     1,
                                     infer_resize,
                                     gradient_resize,
                                     ROW_ATTRIBUTES(resize_attributes),
                                     .split = {1, 1, 0}};
const struct op_row op_row_resize_backward = {"ResizeBackward", "gradient of a bilinear resize",
                                              .output_count = 1, ROW_ATTRIBUTES(resize_attributes),
                                              .split = {1, 1, 0}};

neap_tensor neap_resize(neap_builder *b, neap_tensor x, int64_t height, int64_t width, bool align_corners) {
  return builder_next(b, OP_RESIZE, (union attributes){.resize = {height, width, align_corners}}, &x, 1);
}
