/* Convolutions of images, and transposed ones. */
#include "op/builder.h"
#include "op/window.h"

static const struct attribute_row attributes[] = {
    ATTRIBUTE_USUAL(conv.stride, INTEGER, 1), ATTRIBUTE_USUAL(conv.dilation, INTEGER, 1),
    ATTRIBUTE_USUAL(conv.groups, INTEGER, 1), ATTRIBUTE(conv.padding[0], INTEGER),
    ATTRIBUTE(conv.padding[1], INTEGER),      ATTRIBUTE(conv.output_padding, INTEGER),
};

/* The FLOPs of a convolution in any direction: 2 N K H' W' (C / groups) R S, from its larger two tensors. */
static double flops(const struct neap_graph *graph, const struct node *node) {
  const struct tensor *w, *y;
  if (node->op == OP_CONV) {
    w = node_input(graph, node, 1);
    y = &graph->tensors.data[node->outputs[0]];
  } else if (node->op == OP_CONV_TRANSPOSED) {
    w = node_input(graph, node, 1);
    y = node_input(graph, node, 0);
  } else {
    w = node->op == OP_CONV_BACKWARD_DATA ? node_input(graph, node, 0)
                                          : &graph->tensors.data[node->outputs[0]];
    y = node_input(graph, node, 1);
  }
  return 2.0 * (double)y->elements * (double)w->elements / (double)w->dims[0];
}

/* ---- Convolution ---- */

static neap_status infer_conv(const struct neap_graph *graph, const struct node *node,
                              struct tensor *outputs) {
  TRY(need_real(graph, node, 4, "[N, C, H, W]"));
  const struct tensor *x = node_input(graph, node, 0), *w = node_input(graph, node, 1);
  const struct conv_attributes *a = &node->attributes.conv;
  RETURN_IF(
      w->rank != 4 || w->dims[1] * a->groups != x->dims[1], NEAP_INVALID_ARGUMENT,
      "Conv '%s': '%s' %s with %lld groups takes weights [filters, channels / groups, rows, columns], but "
      "'%s' is %s",
      node->name, x->name, shape_text(x).text, (long long)a->groups, w->name, shape_text(w).text);
  TRY(need_same_type(node, x, w));
  TRY(need_bias(node, node_input(graph, node, CONV_BIAS), x, w->dims[0]));
  outputs[0] = value_like(x);
  outputs[0].dims[1] = w->dims[0];
  for (int i = 2; i < 4; i++) {
    const struct window_axis axis = {x->dims[i],        w->dims[i],  a->stride,
                                     a->padding[i - 2], a->dilation, false};
    TRY(window_count(node, x, axis, &outputs[0].dims[i]));
  }
  return NEAP_OK;
}

/* Returns true if the convolution, and so its gradient by data, is a matrix product of each pixel's
 * channels. */
static bool is_product(const struct conv_attributes *a, const struct tensor *weights) {
  return weights->dims[2] == 1 && weights->dims[3] == 1 && a->stride == 1 && a->groups == 1 &&
         a->padding[0] == 0 && a->padding[1] == 0;
}

static neap_status gradient_conv(struct gradient *g, const struct node *n) {
  const int32_t dy = g->of[n->outputs[0]], *in = n->inputs;
  if (in[CONV_BIAS] != NO_TENSOR) TRY(GRADIENT_EMIT(g, OP_BIAS_BACKWARD, n, in[CONV_BIAS], dy));
  TRY(GRADIENT_EMIT(g, OP_CONV_BACKWARD_WEIGHTS, n, in[CONV_WEIGHTS], in[CONV_X], dy)); /* then x may die */
  const bool product = is_product(&n->attributes.conv, node_input(g->graph, n, CONV_WEIGHTS));
  TRY(GRADIENT_EMIT(g, OP_CONV_BACKWARD_DATA, n, in[CONV_X], in[CONV_WEIGHTS], dy,
                    product ? gradient_take(g, in[CONV_X]) : NO_TENSOR));
  return in[CONV_ADDEND] != NO_TENSOR ? gradient_add(g, in[CONV_ADDEND], dy) : NEAP_OK;
}

static const struct inplace_pair addend[] = {{0, CONV_ADDEND}}, back_addend[] = {{0, CONV_BACK_ADDEND}};

const struct op_row op_row_conv = {"Conv",
                                   "convolution: stride, padding, dilation, groups, bias",
                                   "conv",
                                   1,
                                   infer_conv,
                                   gradient_conv,
                                   ROW_INPLACE(addend),
                                   .flops = flops,
                                   ROW_ATTRIBUTES(attributes),
                                   .slots = 4,
                                   .split = {1 << CONV_X | 1 << CONV_ADDEND, 1, 0}};
const struct op_row op_row_conv_backward_data = {
    "ConvBackwardData",
    "gradient of a convolution's input, added to what is there",
    .output_count = 1,
    ROW_INPLACE(back_addend),
    .flops = flops,
    ROW_ATTRIBUTES(attributes),
    .split = {1 << CONV_BACK_GRADIENT | 1 << CONV_BACK_ADDEND, 1, 0}};
const struct op_row op_row_conv_backward_weights = {
    "ConvBackwardWeights",      "gradient of a convolution's kernels",
    .output_count = 1,          .flops = flops,
    ROW_ATTRIBUTES(attributes), .split = {3, 0, 1}};

static neap_tensor refuse_filters(neap_builder *b, const struct tensor *x, int64_t filters, int64_t height,
                                  int64_t width, int64_t groups) {
  return builder_fail(
      b, neap_fail(NEAP_INVALID_ARGUMENT,
                   "Conv: %lld filters of %lld x %lld in %lld groups do not fit '%s' %s, "
                   "which must be [N, C, H, W]; all numbers are 1 or more, and the groups divide "
                   "C and the filters",
                   (long long)filters, (long long)height, (long long)width, (long long)groups, x->name,
                   shape_text(x).text));
}

neap_tensor neap_conv_with(neap_builder *b, neap_tensor x, neap_tensor weight, neap_tensor bias,
                           neap_conv_options o) {
  const struct conv_attributes given = {.stride = o.stride,
                                        .dilation = o.dilation,
                                        .groups = o.groups,
                                        .padding = {o.padding_height ? o.padding_height : o.padding,
                                                    o.padding_width ? o.padding_width : o.padding}};
  const union attributes a = builder_attributes(OP_CONV, (union attributes){.conv = given});
  if (!builder_usable(b, x) || !builder_usable(b, weight)) return FAILED;
  const struct tensor *t = builder_tensor(b, x), *w = builder_tensor(b, weight);
  if (a.conv.groups < 1 || w->rank != 4 || w->dims[0] % a.conv.groups)
    return refuse_filters(b, t, w->dims[0], w->rank > 2 ? w->dims[2] : 0, w->rank > 3 ? w->dims[3] : 0,
                          a.conv.groups);
  char name[2 * NAME_LIMIT];
  builder_name(b, OP_CONV, name);
  return builder_apply(b, OP_CONV, name, a, (int32_t[]){x, weight, NO_TENSOR, bias}, 4, NULL);
}

/* The parameters are named after the layer, whose name comes next. */
neap_tensor neap_conv(neap_builder *b, neap_tensor x, neap_conv_options o) {
  if (!builder_usable(b, x)) return FAILED;
  const struct tensor *t = builder_tensor(b, x);
  const int64_t groups = o.groups ? o.groups : 1, height = o.kernel_height ? o.kernel_height : o.size,
                width = o.kernel_width ? o.kernel_width : o.size;
  if (t->rank != 4 || o.filters < 1 || height < 1 || width < 1 || groups < 1 || t->dims[1] % groups ||
      o.filters % groups)
    return refuse_filters(b, t, o.filters, height, width, groups);
  const int64_t dims[] = {o.filters, t->dims[1] / groups, height, width};
  const neap_dtype dtype = t->dtype;
  char name[2 * NAME_LIMIT];
  builder_peek(b, OP_CONV, name);
  const neap_tensor weight =
      builder_variable(b, name, "weight", dtype, NEAP_ROLE_PARAMETER, NEAP_INITIAL_HE, 4, dims);
  const neap_tensor zeros =
      o.bias ? builder_variable(b, name, "bias", dtype, NEAP_ROLE_PARAMETER, NEAP_INITIAL_ZERO, 1, dims)
             : NO_TENSOR;
  return neap_conv_with(b, x, weight, zeros, o);
}

/* ---- Transposed convolution ---- */

/* The size is (size - 1) stride - 2 padding + window + output_padding. A convolution with this window takes
 * `stride` different sizes to `size`; output_padding picks one. */
static neap_status infer_conv_transposed(const struct neap_graph *graph, const struct node *node,
                                         struct tensor *outputs) {
  TRY(need_real(graph, node, 4, "[N, C, H, W]"));
  const struct tensor *x = node_input(graph, node, 0), *w = node_input(graph, node, 1);
  const struct conv_attributes *a = &node->attributes.conv;
  TRY(need_same_type(node, x, w));
  RETURN_IF(w->rank != 4 || w->dims[0] != x->dims[1], NEAP_INVALID_ARGUMENT,
            "ConvTransposed '%s': '%s' %s takes weights [channels, filters, rows, columns], but '%s' is %s",
            node->name, x->name, shape_text(x).text, w->name, shape_text(w).text);
  RETURN_IF(a->output_padding < 0 || a->output_padding >= a->stride, NEAP_INVALID_ARGUMENT,
            "ConvTransposed '%s': output padding %lld must be at least 0 and less than the stride of %lld",
            node->name, (long long)a->output_padding, (long long)a->stride);
  outputs[0] = value_like(x);
  outputs[0].dims[1] = w->dims[1];
  for (int i = 2; i < 4; i++) {
    int64_t size, count;
    const int64_t padding = a->padding[i - 2];
    const bool overflow = __builtin_mul_overflow(x->dims[i] - 1, a->stride, &size) ||
                          __builtin_sub_overflow(size, padding, &size) ||
                          __builtin_sub_overflow(size, padding, &size) ||
                          __builtin_add_overflow(size, w->dims[i], &size) ||
                          __builtin_add_overflow(size, a->output_padding, &size);
    RETURN_IF(overflow || size < 1, NEAP_INVALID_ARGUMENT,
              "ConvTransposed '%s': padding %lld leaves no pixel of the %lld of '%s' %s", node->name,
              (long long)padding, (long long)x->dims[i], x->name, shape_text(x).text);
    TRY(window_count(node, x, (struct window_axis){size, w->dims[i], a->stride, padding, 1, false}, &count));
    outputs[0].dims[i] = size;
  }
  return NEAP_OK;
}

/* A transposed convolution is a convolution's gradient by its input, so its own gradients are that
 * convolution and that convolution's gradient by its kernels, with input and output exchanged. */
static neap_status gradient_conv_transposed(struct gradient *g, const struct node *n) {
  const int32_t dy = g->of[n->outputs[0]], *in = n->inputs;
  if (in[2] != NO_TENSOR) TRY(GRADIENT_EMIT(g, OP_BIAS_BACKWARD, n, in[2], dy));
  TRY(GRADIENT_EMIT(g, OP_CONV_BACKWARD_WEIGHTS, n, in[1], dy, in[0]));
  return GRADIENT_EMIT(g, OP_CONV, n, in[0], dy, in[1], NO_TENSOR, NO_TENSOR);
}

const struct op_row op_row_conv_transposed = {"ConvTransposed",
                                              "a convolution from its output to its input: upsampling",
                                              "conv_transposed",
                                              1,
                                              infer_conv_transposed,
                                              gradient_conv_transposed,
                                              .flops = flops,
                                              ROW_ATTRIBUTES(attributes),
                                              .slots = 3,
                                              .split = {1, 1, 0}};

neap_tensor neap_conv_transposed(neap_builder *b, neap_tensor x, neap_conv_transposed_options o) {
  if (!builder_usable(b, x)) return FAILED;
  const struct tensor *t = builder_tensor(b, x);
  if (t->rank != 4 || o.filters < 1 || o.size < 1)
    return builder_fail(
        b,
        neap_fail(NEAP_INVALID_ARGUMENT,
                  "ConvTransposed: %lld filters of size %lld do not fit '%s' %s, which must be [N, C, H, W]",
                  (long long)o.filters, (long long)o.size, t->name, shape_text(t).text));
  const struct conv_attributes given = {
      .stride = o.stride, .padding = {o.padding, o.padding}, .output_padding = o.output_padding};
  const union attributes a = builder_attributes(OP_CONV_TRANSPOSED, (union attributes){.conv = given});
  const int64_t dims[] = {t->dims[1], o.filters, o.size, o.size};
  const neap_dtype dtype = t->dtype;
  char name[2 * NAME_LIMIT];
  builder_name(b, OP_CONV_TRANSPOSED, name);
  int32_t inputs[] = {
      x, builder_variable(b, name, "weight", dtype, NEAP_ROLE_PARAMETER, NEAP_INITIAL_HE, 4, dims),
      NO_TENSOR};
  if (o.bias)
    inputs[2] = builder_variable(b, name, "bias", dtype, NEAP_ROLE_PARAMETER, NEAP_INITIAL_ZERO, 1, &dims[1]);
  return builder_apply(b, OP_CONV_TRANSPOSED, name, a, inputs, 3, NULL);
}
