/* The operators of sequences among the cases of op_cases.h, which includes this. */
#ifndef NEAP_TESTS_OP_CASES_SEQUENCES_H
#define NEAP_TESTS_OP_CASES_SEQUENCES_H

struct recurrent_case {
  int64_t times, width;
  bool gru;           /* or an LSTM */
  int64_t first_part; /* times of the first of three parts; the second has one */
  bool states;        /* parameters are the first state, and the last state is added to all times */
};

/* A recurrent layer in one part. */
static inline neap_tensor apply_recurrent(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct recurrent_case *o = c->options;
  const neap_tensor sequence = neap_reshape(b, x, 3, (int64_t[]){o->times, -1, c->dims[1]});
  neap_tensor y;
  (o->gru ? neap_gru : neap_lstm)(b, &sequence, 1, (neap_recurrent_options){.width = o->width}, &y);
  return neap_reshape(b, y, 2, (int64_t[]){c->dims[0], o->width});
}

/* In three parts. */
static inline neap_tensor apply_recurrent_parts(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct recurrent_case *o = c->options;
  const int64_t rows = c->dims[0] / o->times, dims[] = {rows, o->width},
                begin[] = {0, o->first_part, o->first_part + 1, o->times}, flat[] = {c->dims[0], o->width};
  const neap_tensor sequence = neap_reshape(b, x, 3, (int64_t[]){o->times, rows, c->dims[1]});
  const neap_parameter_options normal = {NEAP_INITIAL_NORMAL, 0.5f, false, NEAP_F32};
  neap_recurrent_state initial, last;
  neap_recurrent_options layer = {.width = o->width};
  neap_tensor parts[3], y[3];
  if (o->states) {
    initial.h = neap_parameter(b, "op.h", 2, dims, normal);
    initial.c = o->gru ? NO_TENSOR : neap_parameter(b, "op.c", 2, dims, normal);
    layer.initial = &initial;
    layer.last = &last;
  }
  for (int i = 0; i < 3; i++) parts[i] = neap_slice(b, sequence, 0, begin[i], begin[i + 1] - begin[i]);
  (o->gru ? neap_gru : neap_lstm)(b, parts, 3, layer, y);
  neap_tensor all = neap_concat(b, y, 3, 0);
  if (o->states) all = neap_add(b, all, last.h);
  if (o->states && !o->gru) all = neap_add(b, all, neap_tanh(b, last.c));
  return neap_reshape(b, all, 2, flat);
}

/* Packed: rows of pixels are heads. */
static inline neap_tensor apply_streamed_attention(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_attention_options *o = c->options;
  return neap_attention(b, x, -1, -1, -1, *o);
}

/* Fewer queries than keys, which are the last heads, as values are the first. */
static inline neap_tensor apply_attention_apart(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const neap_attention_options *o = c->options;
  neap_attention_options apart = *o;
  const int64_t heads = c->dims[2];
  const neap_tensor q = neap_slice(b, x, 1, 2, c->dims[1] - 2), k = neap_slice(b, x, 2, 0, o->key_heads),
                    v = neap_slice(b, x, 2, heads - o->key_heads, o->key_heads);
  apart.key_heads = 0; /* as k has them */
  apart.scale = 0.5f;
  return neap_attention(b, q, k, v, -1, apart);
}

struct rotary_case {
  int64_t heads; /* that are turned; 0: all */
  int64_t position;
};

/* There and back. */
static inline neap_tensor apply_rotary(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct rotary_case *o = c->options;
  return neap_rotary(b, neap_tanh(b, neap_rotary(b, x, o->heads, 0, o->position)), 0, 100, -3);
}

/* The first row stands where an input says. */
static inline neap_tensor apply_rotary_at(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct rotary_case *o = c->options;
  return neap_rotary_at(b, x, o->heads, 0, neap_input(b, "op.position", NEAP_I32, 1, (int64_t[]){1}));
}

struct expert_case {
  int64_t experts;
  neap_route_options route;
};

/* Two layers of experts. */
static inline neap_tensor apply_experts(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct expert_case *o = c->options;
  const neap_parameter_options normal = {NEAP_INITIAL_NORMAL, 0.5f, false, NEAP_F32};
  const int64_t width = c->dims[1], hidden = 2 * width + 1;
  const neap_tensor router = neap_parameter(b, "op.router", 2, (int64_t[]){o->experts, width}, normal),
                    up = neap_parameter(b, "op.up", 3, (int64_t[]){o->experts, hidden, width}, normal),
                    down = neap_parameter(b, "op.down", 2, (int64_t[]){o->experts * width, hidden}, normal);
  neap_routes routes;
  neap_route(b, neap_linear_with(b, x, router, -1), o->route, &routes);
  const neap_tensor y = neap_silu(b, neap_expert_linear(b, neap_gather(b, x, routes.rows), up, routes.ends));
  return neap_expert_sum(b, neap_expert_linear(b, y, down, routes.ends), routes.weights, routes.places);
}

struct store_case {
  bool from_first_row; /* or from the one that an input says */
};

/* Some rows go into a state that is longer. */
static inline neap_tensor apply_store(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct store_case *o = c->options;
  const int64_t dims[] = {c->dims[0], c->dims[1] + 3, c->dims[2], c->dims[3]}, one = 1;
  const neap_tensor state = neap_state(b, "op.state", NEAP_F32, 4, dims);
  neap_store(b, state, x, o->from_first_row ? -1 : neap_input(b, "op.position", NEAP_I32, 1, &one));
  return neap_tanh(b, x);
}

struct sequence_conv_case {
  int64_t taps, heads, padding;
  bool dynamic;  /* kernels are made of x by softmax, for every time */
  bool given;    /* kernels are an input; else, where they are not dynamic, parameters */
  int64_t first; /* time of the result */
};

/* Rows of pixels are times: x [N, C H, W]. */
static inline neap_tensor apply_sequence_conv(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct sequence_conv_case *o = c->options;
  const int64_t times = c->dims[1] * c->dims[2], dims[] = {c->dims[0], times, c->dims[3]},
                kernels[] = {o->heads, o->taps}, of_times[] = {c->dims[0], times, o->heads, o->taps};
  x = neap_reshape(b, x, 3, dims);
  if (o->given)
    return neap_sequence_conv(b, x, neap_input(b, "op.kernels", NEAP_F32, 2, kernels), o->padding);
  neap_tensor w =
      o->dynamic
          ? neap_softmax(b, neap_reshape(b, neap_linear(b, x, o->heads * o->taps, false), 4, of_times), -1)
          : neap_parameter(b, "op.w", 2, kernels,
                           (neap_parameter_options){NEAP_INITIAL_NORMAL, 0.5f, false, NEAP_F32});
  if (o->dynamic && o->first > 0) w = neap_slice(b, w, 1, o->first, times - o->first);
  return neap_sequence_conv_from(b, x, w, o->padding, o->first);
}

static inline neap_tensor apply_sequence_mask(neap_builder *b, neap_tensor x, const struct op_case *c) {
  return neap_sequence_mask(b, x, neap_input(b, "op.lengths", NEAP_I32, 1, c->dims));
}

static inline neap_tensor apply_positions(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const int64_t *o = c->options;
  return neap_multiply(b, x, neap_positions(b, c->dims[0], c->dims[1], *o));
}

struct linear_loss_case {
  int64_t classes;
  bool bias;
  float smoothing;
};

/* Rows in two parts, with labels of their own: a loss that goes on from the other. */
static inline neap_tensor apply_linear_loss(neap_builder *b, neap_tensor x, const struct op_case *c) {
  const struct linear_loss_case *o = c->options;
  const neap_parameter_options normal = {NEAP_INITIAL_NORMAL, 0.5f, false, NEAP_F32};
  const int64_t half = c->dims[0] / 2, shape[] = {o->classes, c->dims[1]};
  const neap_tensor ids = neap_input(b, "op.ids", NEAP_I32, 1, c->dims),
                    w = neap_parameter(b, "op.w", 2, shape, normal),
                    bias = o->bias ? neap_parameter(b, "op.v", 1, shape, normal) : -1,
                    one = neap_linear_cross_entropy(
                        b, neap_slice(b, x, 0, 0, half), w, bias, ids,
                        (neap_linear_cross_entropy_options){.smoothing = o->smoothing}),
                    two = neap_linear_cross_entropy(
                        b, neap_slice(b, x, 0, half, c->dims[0] - half), w, bias, ids,
                        (neap_linear_cross_entropy_options){
                            .smoothing = o->smoothing, .first = half, .before = one});
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
