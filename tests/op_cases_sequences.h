/* The operators of sequences among the cases of op_cases.h, which includes this. */
#ifndef NEAP_TESTS_OP_CASES_SEQUENCES_H
#define NEAP_TESTS_OP_CASES_SEQUENCES_H

/* A recurrent layer over `count` times, in one part. */
static inline neap_tensor apply_recurrent(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_tensor sequence = neap_reshape(b, x, 3, (int64_t[]){c->count, -1, c->dims[1]});
  neap_tensor y;
  (c->align ? neap_gru : neap_lstm)(b, &sequence, 1, (neap_recurrent_options){.width = c->outputs}, &y);
  return neap_reshape(b, y, 2, (int64_t[]){c->dims[0], c->outputs});
}

/* In three parts, `first` and 1 times long and the rest; with `bias` parameters are the first state, and the
 * last state is added to all times. */
static inline neap_tensor apply_recurrent_parts(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int64_t rows = c->dims[0] / c->count, dims[] = {rows, c->outputs},
                begin[] = {0, c->first, c->first + 1, c->count}, flat[] = {c->dims[0], c->outputs};
  const neap_tensor sequence = neap_reshape(b, x, 3, (int64_t[]){c->count, rows, c->dims[1]});
  const neap_parameter_options normal = {NEAP_INITIAL_NORMAL, 0.5f, false, NEAP_F32};
  neap_recurrent_state initial, last;
  neap_recurrent_options o = {.width = c->outputs};
  neap_tensor parts[3], y[3];
  if (c->bias) {
    initial.h = neap_parameter(b, "op.h", 2, dims, normal);
    initial.c = c->align ? NO_TENSOR : neap_parameter(b, "op.c", 2, dims, normal);
    o.initial = &initial;
    o.last = &last;
  }
  for (int i = 0; i < 3; i++) parts[i] = neap_slice(b, sequence, 0, begin[i], begin[i + 1] - begin[i]);
  (c->align ? neap_gru : neap_lstm)(b, parts, 3, o, y);
  neap_tensor all = neap_concat(b, y, 3, 0);
  if (c->bias) all = neap_add(b, all, last.h);
  if (c->bias && !c->align) all = neap_add(b, all, neap_tanh(b, last.c));
  return neap_reshape(b, all, 2, flat);
}

/* Packed: rows of pixels are heads, with `count` key heads; `outputs` is a window, `align` causality,
 * half of `first` the cap of scores. */
static inline neap_tensor apply_streamed_attention(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_attention(b, x, -1, -1, -1,
                        (neap_attention_options){.key_heads = c->count,
                                                 .causal = c->align,
                                                 .window = c->outputs,
                                                 .dropout = c->probability,
                                                 .cap = 0.5f * (float)c->first});
}

/* Fewer queries than keys, which are `count` of the heads, as values are. */
static inline neap_tensor apply_attention_apart(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int64_t heads = c->dims[2];
  const neap_tensor q = neap_slice(b, x, 1, 2, c->dims[1] - 2), k = neap_slice(b, x, 2, 0, c->count),
                    v = neap_slice(b, x, 2, heads - c->count, c->count);
  return neap_attention(b, q, k, v, -1,
                        (neap_attention_options){.causal = c->align,
                                                 .window = c->outputs,
                                                 .scale = 0.5f,
                                                 .dropout = c->probability,
                                                 .cap = 0.5f * (float)c->first});
}

/* There and back; `count` heads are turned. */
static inline neap_tensor apply_rotary(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_rotary(b, neap_tanh(b, neap_rotary(b, x, c->count, 0, c->first)), 0, 100, -3);
}

/* The first row stands where an input says. */
static inline neap_tensor apply_rotary_at(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_rotary_at(b, x, c->count, 0, neap_input(b, "op.position", NEAP_I32, 1, (int64_t[]){1}));
}

/* Some rows go into a state that is longer, from the place on that an input says or, with `align`,
 * from the first row on. */
static inline neap_tensor apply_store(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int64_t dims[] = {c->dims[0], c->dims[1] + 3, c->dims[2], c->dims[3]}, one = 1;
  const neap_tensor state = neap_state(b, "op.state", NEAP_F32, 4, dims);
  neap_store(b, state, x, c->align ? -1 : neap_input(b, "op.position", NEAP_I32, 1, &one));
  return neap_tanh(b, x);
}

/* Rows of pixels are times: x [N, C H, W], `count` heads, kernels of `outputs` taps; those of every time
 * (`align`) are made of x by softmax; the others are given (`bias`), or parameters. The result has the times
 * from crop.top on. */
static inline neap_tensor apply_sequence_conv(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int64_t times = c->dims[1] * c->dims[2], dims[] = {c->dims[0], times, c->dims[3]},
                kernels[] = {c->count, c->outputs}, of_times[] = {c->dims[0], times, c->count, c->outputs};
  x = neap_reshape(b, x, 3, dims);
  if (c->bias) return neap_sequence_conv(b, x, neap_input(b, "op.kernels", NEAP_F32, 2, kernels), c->first);
  neap_tensor w =
      c->align
          ? neap_softmax(b, neap_reshape(b, neap_linear(b, x, c->count * c->outputs, false), 4, of_times), -1)
          : neap_parameter(b, "op.w", 2, kernels,
                           (neap_parameter_options){NEAP_INITIAL_NORMAL, 0.5f, false, NEAP_F32});
  if (c->align && c->crop.top > 0) w = neap_slice(b, w, 1, c->crop.top, times - c->crop.top);
  return neap_sequence_conv_from(b, x, w, c->first, c->crop.top);
}

static inline neap_tensor apply_sequence_mask(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_sequence_mask(b, x, neap_input(b, "op.lengths", NEAP_I32, 1, c->dims));
}

static inline neap_tensor apply_positions(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_multiply(b, x, neap_positions(b, c->dims[0], c->dims[1], c->first));
}

/* Rows in two parts, with labels of their own: a loss that goes on from the other. */
static inline neap_tensor apply_linear_loss(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_parameter_options normal = {NEAP_INITIAL_NORMAL, 0.5f, false, NEAP_F32};
  const int64_t half = c->dims[0] / 2, shape[] = {c->outputs, c->dims[1]};
  const neap_tensor ids = neap_input(b, "op.ids", NEAP_I32, 1, c->dims),
                    w = neap_parameter(b, "op.w", 2, shape, normal),
                    bias = c->bias ? neap_parameter(b, "op.v", 1, shape, normal) : -1,
                    one = neap_linear_cross_entropy(
                        b, neap_slice(b, x, 0, 0, half), w, bias, ids,
                        (neap_linear_cross_entropy_options){.smoothing = c->probability}),
                    two = neap_linear_cross_entropy(
                        b, neap_slice(b, x, 0, half, c->dims[0] - half), w, bias, ids,
                        (neap_linear_cross_entropy_options){
                            .smoothing = c->probability, .first = half, .before = one});
  return neap_multiply(b, x, neap_reshape(b, two, 2, (int64_t[]){1, 1}));
}

/* One table there and back: both gradients of it add up. */
static inline neap_tensor apply_tied_embedding(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int64_t dims[] = {OP_CASE_CLASSES - 1, c->dims[1]};
  const neap_tensor ids = neap_input(b, "op.ids", NEAP_I32, 1, c->dims);
  const neap_tensor w =
      neap_parameter(b, "op.w", 2, dims, (neap_parameter_options){NEAP_INITIAL_HE, 0, false, NEAP_F32});
  return neap_linear_with(b, neap_tanh(b, neap_add(b, x, neap_gather(b, w, ids))), w, -1);
}

/* Numbers between -1 and 4: of rows that are there and of one that is not. */
static inline neap_tensor apply_embedding(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_tensor ids = neap_input(b, "op.ids", NEAP_I32, 1, c->dims);
  return neap_add(b, x, neap_embedding(b, ids, OP_CASE_CLASSES - 1, c->dims[1]));
}

#endif
