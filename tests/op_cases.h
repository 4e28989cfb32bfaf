/* The list of operator cases. A row is an operator (or the few that one rewrite makes one of) on one shape.
 * Its network has parameters before and after it, so that gradients flow through all its inputs:
 *
 *     image -> stem (a 1x1 convolution or a linear layer) -> operator -> flatten, linear, cross-entropy
 *
 * The names of the stem's nodes and variables begin "stem.", the operator's "op.", the rest's "head.". */
#ifndef NEAP_TESTS_OP_CASES_H
#define NEAP_TESTS_OP_CASES_H

#include "grad/gradient.h"
#include "interpreter.h"
#include "rewrite/rewrite.h"

struct op_case {
  const char *name;
  neap_tensor (*apply)(neap_builder *b, neap_tensor x, const struct op_case *c);
  int64_t dims[4]; /* of the operator's input: [N, C, H, W]; H = 0: [N, K] */
  neap_conv_options conv;
  neap_pool_options pool;
  int64_t outputs; /* of a linear layer */
  bool bias;
  float probability, smoothing;
  neap_response_norm_options response;
  int64_t first, count; /* of a slice */
  const char *scope;    /* whose nodes the case is about; NULL: "op" */
  neap_conv_transposed_options transposed;
  neap_crop_options crop; /* of a resize: the output's height and width */
  bool align;
  bool dense; /* a label for each pixel: the head is a 1x1 convolution */
};

static inline neap_tensor apply_conv(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_conv(b, x, c->conv);
}

/* The shapes of x and the convolution are equal: fused, the sum is the convolution's addend. */
static inline neap_tensor apply_conv_add(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_add(b, neap_relu(b, x), neap_conv(b, x, c->conv));
}

static inline neap_tensor apply_batch_norm(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)c;
  return neap_batch_norm(b, x, (neap_batch_norm_options){0});
}

static inline neap_tensor apply_batch_norm_relu(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)c;
  return neap_relu(b, neap_batch_norm(b, x, (neap_batch_norm_options){.epsilon = 1e-3f, .momentum = 0.3f}));
}

/* What few elements are left of dropout stand out so far that batch norm takes some of them beyond 6. */
static inline neap_tensor apply_batch_norm_relu6(neap_builder *b, neap_tensor x, const struct op_case *c) {
  x = neap_dropout(b, x, c->probability);
  return neap_relu6(b, neap_batch_norm(b, x, (neap_batch_norm_options){0}));
}

/* x + conv(relu(batch_norm(x))): the gradient of batch norm has something to add to. */
static inline neap_tensor apply_residual(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_add(b, x, neap_conv(b, apply_batch_norm_relu(b, x, c), c->conv));
}

static inline neap_tensor apply_relu(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)c;
  return neap_relu(b, x);
}

static inline neap_tensor apply_add(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)c;
  return neap_add(b, x, neap_relu(b, x));
}

static inline neap_tensor apply_double(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)c;
  return neap_add(b, x, x);
}

static inline neap_tensor apply_max_pool(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_max_pool(b, x, c->pool);
}

static inline neap_tensor apply_average_pool(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_average_pool(b, x, c->pool);
}

static inline neap_tensor apply_global_average_pool(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)c;
  return neap_global_average_pool(b, x);
}

static inline neap_tensor apply_linear(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_linear(b, x, c->outputs, c->bias);
}

static inline neap_tensor apply_dropout(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_dropout(b, x, c->probability);
}

/* Every other row of pixels becomes a channel of its own; convolutions on both sides of the reshape. */
static inline neap_tensor apply_reshape(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int64_t dims[] = {c->dims[0], c->dims[1] * 2, c->dims[2] / 2, -1};
  return neap_conv(b, neap_reshape(b, x, 4, dims), c->conv);
}

/* A view that batch norm and a sum read, and its storage that another sum reads. */
static inline neap_tensor apply_views(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int64_t dims[] = {c->dims[0], c->dims[1] * 2, c->dims[2] / 2, -1};
  const neap_tensor view = neap_reshape(b, x, 4, dims), y = neap_add(b, view, apply_batch_norm(b, view, c));
  return neap_add(b, x, neap_reshape(b, y, 4, c->dims));
}

static inline neap_tensor apply_dropout_twice(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_dropout(b, neap_relu(b, neap_dropout(b, x, c->probability)), c->probability);
}

/* Nothing but ReLU's own gradient reads its output in the backward pass. */
static inline neap_tensor apply_relu_pool(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_max_pool(b, neap_relu(b, x), c->pool);
}

static inline neap_tensor apply_relu_dropout(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_dropout(b, neap_relu(b, x), c->probability);
}

static inline neap_tensor apply_conv_transposed(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_conv_transposed(b, x, c->transposed);
}

static inline neap_tensor apply_crop(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_crop(b, x, c->crop);
}

/* A crop's gradient adds to what a max pool's has made. */
static inline neap_tensor apply_crop_and_pool(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_tensor y = neap_crop(b, x, c->crop);
  return neap_add(b, y, neap_max_pool(b, x, c->pool));
}

static inline neap_tensor apply_resize(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_resize(b, x, c->crop.height, c->crop.width, c->align);
}

static inline neap_tensor apply_adaptive_pool(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_adaptive_average_pool(b, x, c->pool.size);
}

static inline neap_tensor apply_relu6(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)c;
  for (int i = 0; i < 2; i++) x = neap_add(b, x, x); /* so that some exceed 6 */
  return neap_relu6(b, x);
}

/* Parts of other widths, one of them twice, and one that has another reader before and another behind. */
static inline neap_tensor apply_concat(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_tensor wide = neap_conv(b, x, c->conv), parts[] = {x, wide, neap_relu(b, x), wide};
  const neap_tensor y = neap_concat(b, parts, 4);
  return neap_add(b, neap_conv(b, y, c->conv), neap_relu(b, wide));
}

static inline neap_tensor apply_concat_of_matrices(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_concat(b, (neap_tensor[]){x, neap_linear(b, x, c->outputs, false)}, 2);
}

/* A part under another shape: its gradient goes back through the view. */
static inline neap_tensor apply_concat_of_view(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int64_t dims[] = {c->dims[0], c->dims[1] * 2, c->dims[2] / 2, -1};
  const neap_tensor view = neap_reshape(b, x, 4, dims);
  return neap_concat(b, (neap_tensor[]){view, neap_relu(b, view), view}, 3);
}

static inline neap_tensor apply_slice(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_slice(b, x, c->first, c->count);
}

/* Both halves, swapped. */
static inline neap_tensor apply_swap(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int64_t half = c->dims[1] / 2;
  return neap_concat(b, (neap_tensor[]){neap_slice(b, x, half, half), neap_slice(b, x, 0, half)}, 2);
}

static inline neap_tensor apply_response_norm(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_local_response_norm(b, x, c->response);
}

static inline neap_tensor apply_nothing(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)b, (void)c;
  return x;
}

static const struct op_case op_cases[] = {
    {"conv 1x1", apply_conv, .dims = {3, 16, 5, 4}, .conv = {.filters = 32, .size = 1}},
    {"conv 1x1 stride 2", apply_conv, .dims = {2, 32, 6, 7}, .conv = {.filters = 16, .size = 1, .stride = 2}},
    {"conv 3x3", apply_conv, .dims = {2, 16, 7, 5}, .conv = {.filters = 16, .size = 3, .padding = 1}},
    {"conv 3x3 without padding", apply_conv, .dims = {2, 16, 5, 5}, .conv = {.filters = 32, .size = 3}},
    {"conv 3x3 stride 2 bias", apply_conv, .dims = {2, 16, 7, 7},
     .conv = {.filters = 32, .size = 3, .stride = 2, .padding = 1, .bias = true}},
    {"conv 3x3 dilation 2", apply_conv, .dims = {2, 16, 7, 6},
     .conv = {.filters = 16, .size = 3, .padding = 2, .dilation = 2}},
    {"conv 3x3 64 to 64", apply_conv, .dims = {1, 64, 6, 5},
     .conv = {.filters = 64, .size = 3, .padding = 1}},
    {"conv 7x7 stride 2 of 3 channels", apply_conv, .dims = {2, 3, 13, 11},
     .conv = {.filters = 16, .size = 7, .stride = 2, .padding = 3}},
    {"conv 5x5 of 1 channel", apply_conv, .dims = {2, 1, 9, 9},
     .conv = {.filters = 6, .size = 5, .bias = true}},
    {"conv odd channels", apply_conv, .dims = {2, 5, 6, 6},
     .conv = {.filters = 7, .size = 3, .padding = 1, .bias = true}},
    {"conv 4 groups", apply_conv, .dims = {2, 16, 5, 5},
     .conv = {.filters = 32, .size = 3, .padding = 1, .groups = 4}},
    {"conv 2 groups stride 2 bias", apply_conv, .dims = {2, 6, 7, 7},
     .conv = {.filters = 4, .size = 3, .stride = 2, .padding = 1, .groups = 2, .bias = true}},
    {"conv depthwise", apply_conv, .dims = {2, 16, 6, 5},
     .conv = {.filters = 16, .size = 3, .padding = 1, .groups = 16}},
    {"conv depthwise stride 2", apply_conv, .dims = {2, 12, 7, 6},
     .conv = {.filters = 24, .size = 3, .stride = 2, .padding = 1, .groups = 12, .bias = true}},
    {"conv depthwise 5x5", apply_conv, .dims = {2, 24, 9, 8},
     .conv = {.filters = 24, .size = 5, .padding = 2, .groups = 24}},
    {"conv 8 channels a group", apply_conv, .dims = {2, 32, 6, 5},
     .conv = {.filters = 32, .size = 3, .padding = 1, .groups = 4}},
    {"conv 1x7", apply_conv, .dims = {2, 16, 6, 9},
     .conv = {.filters = 32, .kernel_height = 1, .kernel_width = 7, .padding_width = 3}},
    {"conv 7x1 bias", apply_conv, .dims = {2, 16, 9, 6},
     .conv = {.filters = 16, .size = 7, .kernel_width = 1, .padding_height = 3, .bias = true}},
    {"conv 3x1 stride 2 odd channels", apply_conv, .dims = {2, 5, 7, 8},
     .conv = {.filters = 6, .kernel_height = 3, .kernel_width = 1, .padding_height = 1, .stride = 2}},
    {"conv 2x5 padding 1 and 4", apply_conv, .dims = {1, 16, 5, 6},
     .conv = {.filters = 16, .size = 2, .kernel_width = 5, .padding = 1, .padding_width = 4}},
    {"conv of one pixel", apply_conv, .dims = {3, 16, 1, 1}, .conv = {.filters = 16, .size = 1}},
    {"conv addend", apply_conv_add, .dims = {2, 16, 5, 5}, .conv = {.filters = 16, .size = 3, .padding = 1}},
    {"conv addend 64", apply_conv_add, .dims = {1, 64, 4, 4},
     .conv = {.filters = 64, .size = 3, .padding = 1}},
    {"conv addend bias", apply_conv_add, .dims = {2, 16, 5, 5},
     .conv = {.filters = 16, .size = 3, .padding = 1, .bias = true}},
    {"conv addend odd channels", apply_conv_add, .dims = {2, 5, 4, 5},
     .conv = {.filters = 5, .size = 3, .padding = 1, .bias = true}},
    {"batch norm", apply_batch_norm, .dims = {3, 16, 5, 4}},
    {"batch norm odd channels", apply_batch_norm, .dims = {2, 5, 3, 7}},
    {"batch norm of a matrix", apply_batch_norm, .dims = {6, 9}},
    {"batch norm relu", apply_batch_norm_relu, .dims = {3, 32, 5, 4}},
    {"batch norm relu odd channels", apply_batch_norm_relu, .dims = {2, 19, 3, 7}},
    {"batch norm relu6", apply_batch_norm_relu6, .dims = {2, 16, 9, 8}, .probability = 0.98f},
    {"batch norm relu6 odd channels", apply_batch_norm_relu6, .dims = {3, 7, 9, 8}, .probability = 0.98f},
    {"residual", apply_residual, .dims = {2, 16, 5, 6}, .conv = {.filters = 16, .size = 3, .padding = 1}},
    {"residual odd channels", apply_residual, .dims = {2, 10, 5, 6},
     .conv = {.filters = 10, .size = 3, .padding = 1, .bias = true}},
    {"relu", apply_relu, .dims = {2, 16, 5, 7}},
    {"relu odd channels", apply_relu, .dims = {2, 3, 5, 7}},
    {"relu of a matrix", apply_relu, .dims = {5, 13}},
    {"add", apply_add, .dims = {2, 16, 5, 7}},
    {"add odd channels", apply_add, .dims = {2, 3, 5, 7}},
    {"add to itself", apply_double, .dims = {2, 16, 5, 3}},
    {"max pool 2x2", apply_max_pool, .dims = {2, 16, 6, 8}, .pool = {.size = 2}},
    {"max pool 3x3 stride 2 padding 1", apply_max_pool, .dims = {2, 16, 7, 8},
     .pool = {.size = 3, .stride = 2, .padding = 1}},
    {"max pool 3x3 stride 1 odd channels", apply_max_pool, .dims = {2, 5, 6, 5},
     .pool = {.size = 3, .stride = 1, .padding = 1}},
    {"max pool that leaves a rest", apply_max_pool, .dims = {1, 6, 7, 5}, .pool = {.size = 2}},
    {"average pool 2x2", apply_average_pool, .dims = {2, 16, 6, 8}, .pool = {.size = 2}},
    {"average pool 3x3 stride 2 padding 1", apply_average_pool, .dims = {2, 16, 7, 8},
     .pool = {.size = 3, .stride = 2, .padding = 1}},
    {"average pool 3x3 stride 1 odd channels", apply_average_pool, .dims = {2, 5, 6, 5},
     .pool = {.size = 3, .stride = 1, .padding = 1}},
    {"max pool 3x3 stride 2 ceil", apply_max_pool, .dims = {2, 16, 8, 7},
     .pool = {.size = 3, .stride = 2, .ceil = true}},
    {"max pool 2x2 ceil padding 1", apply_max_pool, .dims = {2, 5, 6, 7},
     .pool = {.size = 2, .padding = 1, .ceil = true}},
    {"average pool 3x3 stride 1 of padding", apply_average_pool, .dims = {2, 16, 5, 6},
     .pool = {.size = 3, .stride = 1, .padding = 1, .count_padding = true}},
    {"average pool 3x3 stride 2 ceil", apply_average_pool, .dims = {2, 6, 8, 7},
     .pool = {.size = 3, .stride = 2, .ceil = true}},
    {"average pool 5x5 stride 3 ceil of padding", apply_average_pool, .dims = {2, 16, 9, 8},
     .pool = {.size = 5, .stride = 3, .padding = 2, .ceil = true, .count_padding = true}},
    {"average pool of all pixels", apply_average_pool, .dims = {2, 16, 4, 4}, .pool = {.size = 4}},
    {"global average pool", apply_global_average_pool, .dims = {3, 32, 5, 4}},
    {"global average pool odd channels", apply_global_average_pool, .dims = {3, 7, 3, 3}},
    {"linear", apply_linear, .dims = {5, 16}, .outputs = 32},
    {"linear bias odd sizes", apply_linear, .dims = {3, 13}, .outputs = 11, .bias = true},
    {"linear one row", apply_linear, .dims = {1, 64}, .outputs = 10, .bias = true},
    {"dropout", apply_dropout, .dims = {2, 16, 5, 6}, .probability = 0.3f},
    {"dropout odd channels", apply_dropout, .dims = {2, 3, 5, 7}, .probability = 0.5f},
    {"dropout of a matrix", apply_dropout, .dims = {7, 19}, .probability = 0.7f},
    {"dropout of nothing", apply_dropout, .dims = {2, 16, 3, 3}, .probability = 0},
    {"reshape", apply_reshape, .dims = {2, 16, 4, 6}, .conv = {.filters = 16, .size = 3, .padding = 1}},
    {"reshape odd channels", apply_reshape, .dims = {2, 3, 4, 5}, .conv = {.filters = 4, .size = 2}},
    {"views", apply_views, .dims = {3, 16, 4, 3}},
    {"views odd channels", apply_views, .dims = {3, 5, 4, 3}},
    {"dropout twice", apply_dropout_twice, .dims = {2, 16, 5, 6}, .probability = 0.4f},
    {"relu6", apply_relu6, .dims = {2, 16, 5, 7}},
    {"relu6 odd channels", apply_relu6, .dims = {2, 3, 5, 7}},
    {"concat", apply_concat, .dims = {2, 16, 5, 4}, .conv = {.filters = 32, .size = 1}},
    {"concat of one image", apply_concat, .dims = {1, 32, 3, 3}, .conv = {.filters = 16, .size = 1}},
    {"concat odd channels", apply_concat, .dims = {3, 5, 4, 3}, .conv = {.filters = 8, .size = 1}},
    {"concat of one pixel", apply_concat, .dims = {3, 16, 1, 1}, .conv = {.filters = 48, .size = 1}},
    {"concat of matrices", apply_concat_of_matrices, .dims = {4, 7}, .outputs = 9},
    {"concat of a view", apply_concat_of_view, .dims = {2, 8, 4, 3}},
    {"slice", apply_slice, .dims = {2, 48, 5, 4}, .first = 16, .count = 16},
    {"slice across blocks", apply_slice, .dims = {2, 32, 5, 4}, .first = 10, .count = 20},
    {"slice of the first channel", apply_slice, .dims = {3, 7, 2, 3}, .first = 0, .count = 1},
    {"slice of a matrix", apply_slice, .dims = {5, 13}, .first = 4, .count = 9},
    {"swapped halves", apply_swap, .dims = {2, 32, 3, 5}},
    {"response norm", apply_response_norm, .dims = {2, 16, 5, 7}, .response = {.alpha = 0.5f}},
    {"response norm of 4", apply_response_norm, .dims = {2, 32, 3, 3},
     .response = {.size = 4, .alpha = 2, .beta = 0.6f, .k = 2}},
    {"response norm odd channels", apply_response_norm, .dims = {3, 3, 5, 4},
     .response = {.size = 7, .alpha = 1, .beta = 1, .k = 0.5f}},
    {"cross-entropy", apply_nothing, .dims = {6, 8}, .scope = "head"},
    {"cross-entropy smoothing", apply_nothing, .dims = {6, 8}, .smoothing = 0.1f, .scope = "head"},
    {"cross-entropy by pixel", apply_nothing, .dims = {2, 16, 4, 5}, .dense = true, .scope = "head"},
    {"cross-entropy by pixel, smoothing", apply_nothing, .dims = {3, 4, 5, 3}, .smoothing = 0.1f,
     .dense = true, .scope = "head"},
    {"relu and max pool", apply_relu_pool, .dims = {2, 16, 6, 8}, .pool = {.size = 2}},
    {"relu and max pool, odd channels", apply_relu_pool, .dims = {1, 5, 7, 5},
     .pool = {.size = 2, .stride = 1}},
    {"relu and max pool, many elements", apply_relu_pool, .dims = {2, 48, 10, 9}, .pool = {.size = 3}},
    {"relu and dropout of a matrix", apply_relu_dropout, .dims = {5, 13}, .probability = 0.3f},
    {"conv transposed 2x2 stride 2", apply_conv_transposed, .dims = {2, 32, 4, 3},
     .transposed = {.filters = 16, .size = 2, .stride = 2, .bias = true}},
    {"conv transposed 2x2 stride 2 odd channels", apply_conv_transposed, .dims = {2, 6, 3, 4},
     .transposed = {.filters = 5, .size = 2, .stride = 2}},
    {"conv transposed 3x3 stride 2 output padding", apply_conv_transposed, .dims = {2, 16, 4, 5},
     .transposed = {.filters = 16, .size = 3, .stride = 2, .padding = 1, .output_padding = 1, .bias = true}},
    {"conv transposed 4x4 stride 2 padding 1", apply_conv_transposed, .dims = {1, 16, 3, 4},
     .transposed = {.filters = 32, .size = 4, .stride = 2, .padding = 1}},
    {"conv transposed 3x3 stride 3 padding 2 output padding 2", apply_conv_transposed, .dims = {2, 3, 3, 4},
     .transposed = {.filters = 7, .size = 3, .stride = 3, .padding = 2, .output_padding = 2, .bias = true}},
    {"conv transposed 3x3", apply_conv_transposed, .dims = {2, 16, 5, 4},
     .transposed = {.filters = 16, .size = 3, .bias = true}},
    {"conv transposed of one pixel", apply_conv_transposed, .dims = {3, 16, 1, 1},
     .transposed = {.filters = 16, .size = 2, .stride = 2}},
    {"crop", apply_crop, .dims = {2, 16, 7, 8}, .crop = {.top = 1, .left = 3, .height = 4, .width = 5}},
    {"crop of a corner, odd channels", apply_crop, .dims = {2, 5, 6, 5},
     .crop = {.top = 0, .left = 4, .height = 3, .width = 1}},
    {"crop and pool", apply_crop_and_pool, .dims = {2, 16, 7, 6}, .pool = {.size = 2},
     .crop = {.top = 2, .left = 1, .height = 3, .width = 3}},
    {"crop and pool, odd channels", apply_crop_and_pool, .dims = {2, 5, 4, 8}, .pool = {.size = 2},
     .crop = {.top = 2, .left = 0, .height = 2, .width = 4}},
    {"crop of everything", apply_crop, .dims = {2, 16, 4, 3}, .crop = {.height = 4, .width = 3}},
    {"resize up", apply_resize, .dims = {2, 16, 3, 4}, .crop = {.height = 7, .width = 9}},
    {"resize up, corners aligned", apply_resize, .dims = {2, 16, 3, 4}, .crop = {.height = 7, .width = 9},
     .align = true},
    {"resize down", apply_resize, .dims = {2, 16, 7, 9}, .crop = {.height = 4, .width = 2}},
    {"resize down, corners aligned", apply_resize, .dims = {1, 16, 7, 9}, .crop = {.height = 4, .width = 1},
     .align = true},
    {"resize up and down, odd channels", apply_resize, .dims = {2, 5, 3, 8},
     .crop = {.height = 11, .width = 3}},
    {"resize one pixel", apply_resize, .dims = {2, 3, 1, 1}, .crop = {.height = 3, .width = 4},
     .align = true},
    {"resize to the same size", apply_resize, .dims = {2, 16, 4, 3}, .crop = {.height = 4, .width = 3}},
    {"adaptive average pool to 3", apply_adaptive_pool, .dims = {2, 16, 6, 9}, .pool = {.size = 3}},
    {"adaptive average pool to 3, overlapping", apply_adaptive_pool, .dims = {2, 16, 7, 8},
     .pool = {.size = 3}},
    {"adaptive average pool to 6 of 7, odd channels", apply_adaptive_pool, .dims = {2, 5, 7, 6},
     .pool = {.size = 6}},
    {"adaptive average pool to 1", apply_adaptive_pool, .dims = {3, 80, 5, 4}, .pool = {.size = 1}},
};

enum { OP_CASES = sizeof op_cases / sizeof *op_cases, OP_CASE_CLASSES = 5 };

/* The forward graph of a case, fused or as built. */
static inline struct neap_graph *op_case_graph(const struct op_case *c, bool fuse) {
  neap_builder *b = neap_builder_create(c->name);
  const bool image = c->dims[2] > 0;
  const int64_t dims[] = {c->dims[0], image ? 3 : 7, c->dims[2], c->dims[3]};
  neap_tensor x = neap_input(b, "image", NEAP_F32, image ? 4 : 2, dims),
              labels = c->dense ? neap_input(b, "label", NEAP_I32, 3, (int64_t[]){dims[0], dims[2], dims[3]})
                                : neap_input(b, "label", NEAP_I32, 1, dims);
  neap_scope(b, "stem");
  x = image ? neap_conv(b, x, (neap_conv_options){.filters = c->dims[1], .size = 1, .bias = true})
            : neap_linear(b, x, c->dims[1], true);
  neap_scope(b, "op");
  x = c->apply(b, x, c);
  neap_scope(b, "head");
  x = c->dense ? neap_conv(b, x, (neap_conv_options){.filters = OP_CASE_CLASSES, .size = 1, .bias = true})
               : neap_linear(b, neap_flatten(b, x), OP_CASE_CLASSES, true);
  const neap_tensor loss = neap_softmax_cross_entropy(b, x, labels, c->smoothing);
  struct neap_graph *graph = NULL, *fused = NULL;
  const neap_status status = neap_builder_finish(b, loss, &graph);
  neap_builder_free(b);
  assert_ok(status);
  if (!fuse) return graph;
  assert_ok(rewrite_fuse(graph, &fused));
  neap_graph_free(graph);
  return fused;
}

/* Does fusion change the case? */
static inline bool op_case_fuses(const struct op_case *c) {
  struct neap_graph *plain = op_case_graph(c, false), *fused = op_case_graph(c, true);
  const bool fuses = fused->nodes.count < plain->nodes.count;
  neap_graph_free(plain);
  neap_graph_free(fused);
  return fuses;
}

/* The same with gradients and updates. */
static inline struct neap_graph *op_case_training(const struct op_case *c, bool fuse,
                                                  const struct optimizer *optimizer) {
  struct neap_graph *graph = op_case_graph(c, fuse);
  assert_ok(graph_add_training(graph, optimizer));
  return graph;
}

/* The same where ReLU keeps bits. */
static inline struct neap_graph *op_case_masked(const struct op_case *c, const struct optimizer *optimizer) {
  struct neap_graph *graph = op_case_training(c, true, optimizer), *masked = NULL;
  assert_ok(rewrite_mask(graph, &masked));
  neap_graph_free(graph);
  return masked;
}

static inline int32_t count_nodes(const struct neap_graph *graph, enum op op) {
  int32_t count = 0;
  for (size_t v = 0; v < graph->nodes.count; v++) count += graph->nodes.data[v].op == op;
  return count;
}

/* An unrelated stream of numbers in [0, 1): xorshift64* (Vigna 2016), seeded by what is filled. */
static inline double op_case_random(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (double)(*state * 0x2545F4914F6CDD1Du >> 11) * 0x1p-53;
}

/* Fills inputs, parameters and states (which are not negative) of any lowering of a case's graph, the same
 * for each, with numbers that floats hold exactly. Every third label is -1. */
static inline void op_case_fill(const struct interpreter *m) {
  const struct neap_graph *graph = m->lowered->graph;
  uint64_t state = 88172645463325252u;
  for (int32_t id = 0; id < (int32_t)graph->tensors.count; id++) {
    const struct tensor *t = &graph->tensors.data[id];
    if (t->role == NEAP_ROLE_VALUE || t->view_of >= 0) continue;
    /* Weights keep the variance of what they multiply. */
    const double fan = t->rank > 1 ? (double)(t->elements / t->dims[0]) : 12,
                 scale = t->role == NEAP_ROLE_PARAMETER ? __builtin_sqrt(12 / fan) : 2,
                 shift = t->initial == INITIAL_ONE ? 1 : 0;
    double *values = malloc((size_t)t->elements * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < t->elements; i++) {
      const double u = op_case_random(&state);
      values[i] = t->dtype == NEAP_I32         ? (i % 3 == 1 ? -1 : (double)(int)(u * OP_CASE_CLASSES))
                  : t->role == NEAP_ROLE_STATE ? (double)(float)u
                                               : (double)(float)(shift + scale * (u - 0.5));
    }
    interpreter_write(m, id, values);
    free(values);
  }
}

#endif
