/* The operators of images among the cases of op_cases.h, which includes this. */
#ifndef NEAP_TESTS_OP_CASES_IMAGES_H
#define NEAP_TESTS_OP_CASES_IMAGES_H

static inline neap_tensor apply_frozen_conv(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_conv_options *o = c->options;
  neap_freeze(b, true);
  x = neap_conv(b, x, *o);
  neap_freeze(b, false);
  return x;
}

static inline neap_tensor apply_conv(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_conv_options *o = c->options;
  return neap_conv(b, x, *o);
}

/* The shapes of x and the convolution are equal: fused, the sum is the convolution's addend. */
static inline neap_tensor apply_conv_add(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_conv_options *o = c->options;
  return neap_add(b, neap_relu(b, x), neap_conv(b, x, *o));
}

/* No addend, which would have to lie as the result does. */
static inline neap_tensor apply_conv_broadcast(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_conv_options *o = c->options;
  const neap_parameter_options normal = {NEAP_INITIAL_NORMAL, 0.5f, false, NEAP_F32};
  return neap_add(b, neap_conv(b, x, *o), neap_parameter(b, "op.v", 1, (int64_t[]){1}, normal));
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
  const float *o = c->options;
  x = neap_dropout(b, x, *o);
  return neap_relu6(b, neap_batch_norm(b, x, (neap_batch_norm_options){0}));
}

/* A normalised x and another tensor: fused, this is batch norm's addend. */
static inline neap_tensor apply_batch_norm_add(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_tensor addend = neap_tanh(b, x);
  return neap_add(b, addend, apply_batch_norm(b, x, c));
}

static inline neap_tensor apply_batch_norm_add_relu(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_relu(b, apply_batch_norm_add(b, x, c));
}

static inline neap_tensor apply_batch_norm_add_relu6(neap_builder *b, neap_tensor x,
                                                     const struct op_case *c) {
  const float *o = c->options;
  const neap_tensor few = neap_dropout(b, x, *o), addend = neap_tanh(b, x);
  return neap_relu6(b, neap_add(b, apply_batch_norm(b, few, c), addend));
}

/* x + batch_norm(x), and ReLU behind: x is its own addend. */
static inline neap_tensor apply_batch_norm_self(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_relu(b, neap_add(b, x, apply_batch_norm(b, x, c)));
}

/* What batch norm gives has a reader besides the sum: the sum stays a node. */
static inline neap_tensor apply_batch_norm_read_twice(neap_builder *b, neap_tensor x,
                                                      const struct op_case *c) {
  const neap_tensor y = apply_batch_norm(b, x, c);
  return neap_add(b, neap_add(b, y, neap_tanh(b, x)), neap_sigmoid(b, y));
}

/* Two normalised tensors in one sum, which one of the two takes; a pool takes the ReLU behind. */
static inline neap_tensor apply_batch_norm_twice(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_pool_options *o = c->options;
  const neap_tensor y = apply_batch_norm(b, x, c), z = apply_batch_norm(b, neap_scale(b, x, -0.7f, 0.1f), c);
  return neap_max_pool(b, neap_relu(b, neap_add(b, y, z)), *o);
}

/* The sum's addend is what the convolution reads, and its result is read again. */
static inline neap_tensor apply_conv_of_addend(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_conv_options *o = c->options;
  const neap_tensor y = neap_conv(b, x, *o), z = neap_add(b, x, y);
  return neap_concat(b, (neap_tensor[]){z, y}, 2, 1);
}

/* The gradient that the convolution gets and what is added to its own are one tensor. */
static inline neap_tensor apply_conv_beside_itself(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_conv_options *o = c->options;
  return neap_add(b, x, neap_conv(b, x, *o));
}

/* A convolution of a view, which another operator reads too. */
static inline neap_tensor apply_conv_of_view(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_conv_options *o = c->options;
  const int64_t dims[] = {c->dims[0], c->dims[1] * 2, c->dims[2] / 2, -1};
  const neap_tensor view = neap_reshape(b, x, 4, dims), y = neap_relu(b, neap_conv(b, view, *o));
  return neap_add(b, y, neap_tanh(b, view));
}

/* Of two that read x the convolution comes first: its gradient by x has something to add to. */
static inline neap_tensor apply_conv_beside(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_conv_options *o = c->options;
  const neap_tensor y = neap_relu(b, neap_conv(b, x, *o));
  return neap_add(b, y, neap_tanh(b, x));
}

/* x + conv(relu(batch_norm(x))): the gradient of batch norm has something to add to. */
static inline neap_tensor apply_residual(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_conv_options *o = c->options;
  return neap_add(b, x, neap_conv(b, apply_batch_norm_relu(b, x, c), *o));
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
  const neap_pool_options *o = c->options;
  return neap_max_pool(b, x, *o);
}

static inline neap_tensor apply_average_pool(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_pool_options *o = c->options;
  return neap_average_pool(b, x, *o);
}

static inline neap_tensor apply_global_average_pool(neap_builder *b, neap_tensor x, const struct op_case *c) {
  (void)c;
  return neap_global_average_pool(b, x);
}

#endif
