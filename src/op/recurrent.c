/* Recurrent layers: LSTM and GRU over consecutive times, and their builder calls. */
#include <math.h>

#include "op/builder.h"

/* Slots of OP_LSTM and of its outputs; of OP_GRU. */
enum { RECURRENT_LAYERS = 32 };
enum { LSTM_GATES_X, LSTM_WEIGHTS, LSTM_H0, LSTM_C0, LSTM_INPUTS };
enum { LSTM_Y, LSTM_LAST_C, LSTM_GATES };
enum { GRU_GATES_X, GRU_WEIGHTS, GRU_BIAS, GRU_H0, GRU_INPUTS };
enum { GRU_Y, GRU_GATES };

/* ---- Shapes ---- */

/* Fails unless the input's product [T, N, gates H], the recurrent weights [gates H, H] and the first state
 * [N, H], if given, fit each other. */
static neap_status need_recurrent(const struct neap_graph *graph, const struct node *node, int64_t gates,
                                  const struct tensor *h0) {
  TRY(need_real(graph, node, 3, "the product of a sequence [times, N, gates]"));
  const struct tensor *x = node_input(graph, node, 0), *w = node_input(graph, node, 1);
  const int64_t width = x->dims[2] / gates;
  RETURN_IF(
      x->dims[2] % gates != 0 || w->rank != 2 || w->dims[0] != x->dims[2] || w->dims[1] != width,
      NEAP_INVALID_ARGUMENT,
      "%s '%s': '%s' %s takes recurrent weights [%lld width, width], as wide as its last axis, but '%s' "
      "is %s",
      node_row(node)->name, node->name, x->name, shape_text(x).text, (long long)gates, w->name,
      shape_text(w).text);
  TRY(need_same_type(node, x, w));
  if (h0 == NULL) return NEAP_OK;
  RETURN_IF(h0->rank != 2 || h0->dims[0] != x->dims[1] || h0->dims[1] != width, NEAP_INVALID_ARGUMENT,
            "%s '%s': the state must be [%lld, %lld], but '%s' is %s", node_row(node)->name, node->name,
            (long long)x->dims[1], (long long)width, h0->name, shape_text(h0).text);
  return need_same_type(node, x, h0);
}

/* Returns [T, N, factor H] of the type of the input's product. */
static struct tensor of_times(const struct tensor *x, const struct tensor *w, int64_t factor) {
  struct tensor t = value_like(x);
  t.dims[2] = factor * w->dims[1];
  return t;
}

static neap_status infer_lstm(const struct neap_graph *graph, const struct node *node,
                              struct tensor *outputs) {
  const struct tensor *x = node_input(graph, node, LSTM_GATES_X), *w = node_input(graph, node, LSTM_WEIGHTS),
                      *c0 = node_input(graph, node, LSTM_C0);
  TRY(need_recurrent(graph, node, 4, node_input(graph, node, LSTM_H0)));
  RETURN_IF(c0 != NULL && (c0->rank != 2 || c0->dims[0] != x->dims[1] || c0->dims[1] != w->dims[1] ||
                           c0->dtype != NEAP_F32),
            NEAP_INVALID_ARGUMENT,
            "Lstm '%s': the cell state must be [%lld, %lld] of f32, but '%s' is %s of %s", node->name,
            (long long)x->dims[1], (long long)w->dims[1], c0->name, shape_text(c0).text,
            dtype_rows[c0->dtype].name);
  outputs[LSTM_Y] = of_times(x, w, 1);
  outputs[LSTM_LAST_C] = value_of(NEAP_F32, 2, x->dims[1], w->dims[1]);
  outputs[LSTM_GATES] = value_like(x);
  return NEAP_OK;
}

static neap_status infer_gru(const struct neap_graph *graph, const struct node *node,
                             struct tensor *outputs) {
  const struct tensor *x = node_input(graph, node, GRU_GATES_X), *w = node_input(graph, node, GRU_WEIGHTS);
  TRY(need_recurrent(graph, node, 3, node_input(graph, node, GRU_H0)));
  TRY(need_bias(node, node_input(graph, node, GRU_BIAS), x, x->dims[2]));
  outputs[GRU_Y] = of_times(x, w, 1);
  outputs[GRU_GATES] = of_times(x, w, 4);
  return NEAP_OK;
}

/* ---- FLOPs ---- */

/* The FLOPs of a product with the recurrent weights, or of their gradient, for each of `products` times. */
static double flops_of_products(const struct tensor *w, double rows, double products) {
  return 2.0 * (double)w->elements * rows * products;
}

/* A first state of zeros needs no product. */
static double flops_forward(const struct neap_graph *graph, const struct node *node) {
  const struct tensor *x = node_input(graph, node, 0);
  const bool given = node_input(graph, node, node->op == OP_LSTM ? LSTM_H0 : GRU_H0) != NULL;
  return flops_of_products(node_input(graph, node, 1), (double)x->dims[1], (double)(x->dims[0] - !given));
}

/* Nor do the gates of the first time, if the gradient of the state before it is not needed. */
static double flops_backward(const struct neap_graph *graph, const struct node *node) {
  const struct tensor *gates = node_input(graph, node, 0);
  const bool first = node->output_count > (node->op == OP_LSTM_BACKWARD ? 1 : 2);
  return flops_of_products(node_input(graph, node, 1), (double)gates->dims[1],
                           (double)(gates->dims[0] - !first));
}

static double flops_weights(const struct neap_graph *graph, const struct node *node) {
  const struct tensor *y = node_input(graph, node, RECURRENT_Y);
  const bool given = node_input(graph, node, RECURRENT_H0) != NULL;
  return flops_of_products(&graph->tensors.data[node->outputs[0]], (double)y->dims[1],
                           (double)(y->dims[0] - !given));
}

/* ---- Gradients ---- */

/* Adds the backward node of a forward one; its outputs exist. */
static neap_status add_backward(struct gradient *g, enum op op, const struct node *n, const int32_t *inputs,
                                int32_t input_count, const int32_t *outputs, int32_t output_count) {
  return graph_add_node(g->graph, (struct node){.name = n->name,
                                                .op = op,
                                                .pass = NEAP_PASS_BACKWARD,
                                                .attributes = n->attributes,
                                                .inputs = inputs,
                                                .input_count = input_count,
                                                .outputs = outputs,
                                                .output_count = output_count});
}

/* Adds the gradient of the recurrent weights, from the gradient of their product. One time that starts from
 * zeros has none. */
static neap_status gradient_weights(struct gradient *g, const struct node *n, int32_t y, int32_t h0,
                                    int32_t dgates) {
  const int32_t w = n->inputs[1];
  if (!gradient_wanted(g, w) || (h0 == NO_TENSOR && g->graph->tensors.data[y].dims[0] == 1)) return NEAP_OK;
  const int32_t before = gradient_take(g, w);
  return GRADIENT_EMIT(g, OP_RECURRENT_BACKWARD_WEIGHTS, n, w, y, h0, dgates, before);
}

static neap_status gradient_lstm(struct gradient *g, const struct node *n) {
  const int32_t *in = n->inputs, dy = g->of[n->outputs[LSTM_Y]], dc = g->of[n->outputs[LSTM_LAST_C]];
  const bool wants_c = gradient_wanted(g, in[LSTM_C0]), wants_h = gradient_wanted(g, in[LSTM_H0]);
  if (dy == NO_TENSOR && dc == NO_TENSOR) return NEAP_OK;
  const int32_t inputs[] = {n->outputs[LSTM_GATES], in[LSTM_WEIGHTS], in[LSTM_C0], dy, dc};
  int32_t outputs[3];
  TRY(graph_add_like(g->graph, n->outputs[LSTM_GATES], "dgates", &outputs[0]));
  if (wants_h || wants_c) {
    struct tensor dh0 = value_of(g->graph->tensors.data[n->outputs[LSTM_Y]].dtype, 2, 0, 0);
    dh0.name = "dh0";
    for (int32_t i = 0; i < 2; i++) dh0.dims[i] = g->graph->tensors.data[n->outputs[LSTM_LAST_C]].dims[i];
    TRY(graph_add_tensor(g->graph, dh0, &outputs[1]));
  }
  if (wants_c) TRY(graph_add_like(g->graph, n->outputs[LSTM_LAST_C], "dc0", &outputs[2]));
  TRY(add_backward(g, OP_LSTM_BACKWARD, n, inputs, 5, outputs, wants_c ? 3 : wants_h ? 2 : 1));
  TRY(gradient_weights(g, n, n->outputs[LSTM_Y], in[LSTM_H0], outputs[0]));
  if (wants_h) TRY(gradient_add(g, in[LSTM_H0], outputs[1]));
  if (wants_c) TRY(gradient_add(g, in[LSTM_C0], outputs[2]));
  return gradient_add(g, in[LSTM_GATES_X], outputs[0]);
}

static neap_status gradient_gru(struct gradient *g, const struct node *n) {
  const int32_t *in = n->inputs, y = n->outputs[GRU_Y], dy = g->of[y];
  const bool wants_h = gradient_wanted(g, in[GRU_H0]);
  if (dy == NO_TENSOR) return NEAP_OK;
  const int32_t inputs[] = {n->outputs[GRU_GATES], in[GRU_WEIGHTS], y, in[GRU_H0], dy};
  int32_t outputs[3];
  TRY(graph_add_like(g->graph, in[GRU_GATES_X], "dgates_x", &outputs[0]));
  TRY(graph_add_like(g->graph, in[GRU_GATES_X], "dgates_h", &outputs[1]));
  if (wants_h) TRY(graph_add_like(g->graph, in[GRU_H0], "dh0", &outputs[2]));
  TRY(add_backward(g, OP_GRU_BACKWARD, n, inputs, 5, outputs, wants_h ? 3 : 2));
  TRY(gradient_weights(g, n, y, in[GRU_H0], outputs[1]));
  if (gradient_wanted(g, in[GRU_BIAS])) {
    const struct tensor dgates = g->graph->tensors.data[outputs[1]];
    int32_t rows;
    TRY(graph_add_view(g->graph, outputs[1], 2, (int64_t[]){dgates.elements / dgates.dims[2], dgates.dims[2]},
                       &rows));
    TRY(GRADIENT_EMIT(g, OP_BIAS_BACKWARD, n, in[GRU_BIAS], rows));
  }
  if (wants_h) TRY(gradient_add(g, in[GRU_H0], outputs[2]));
  return gradient_add(g, in[GRU_GATES_X], outputs[0]);
}

/* ---- Rows ---- */

static const struct inplace_pair lstm_inplace[] = {{LSTM_GATES, LSTM_GATES_X}, {LSTM_LAST_C, LSTM_C0}},
                                 lstm_backward_inplace[] = {{0, 0}, {2, 4}},
                                 weights_inplace[] = {{0, RECURRENT_ADDEND}};

const struct op_row op_row_lstm = {"Lstm",
                                   "a long short-term memory over some times, given its input's product",
                                   "lstm",
                                   3,
                                   infer_lstm,
                                   gradient_lstm,
                                   ROW_INPLACE(lstm_inplace),
                                   .flops = flops_forward,
                                   .slots = LSTM_INPUTS,
                                   .takes = {[LSTM_C0] = TYPE_F32}};
const struct op_row op_row_lstm_backward = {
    "LstmBackward",          "gradients of an LSTM by its input's product and its first state",
    .output_count = 3,       ROW_INPLACE(lstm_backward_inplace),
    .flops = flops_backward, .takes = {[2] = TYPE_F32, [4] = TYPE_F32}};
const struct op_row op_row_gru = {"Gru",
                                  "gated recurrent units over some times, given their input's product",
                                  "gru",
                                  2,
                                  infer_gru,
                                  gradient_gru,
                                  .flops = flops_forward,
                                  .slots = GRU_INPUTS};
const struct op_row op_row_gru_backward = {"GruBackward",
                                           "gradients of a GRU by both products and its first state",
                                           .output_count = 3, .flops = flops_backward};
const struct op_row op_row_recurrent_backward_weights = {
    "RecurrentBackwardWeights", "gradient of recurrent weights, added to what is there",
    .output_count = 1,          ROW_INPLACE(weights_inplace),
    .flops = flops_weights,     .addend = 1 + RECURRENT_ADDEND};

/* ---- Layers ---- */

/* The values that all parts of a layer share. */
struct layer {
  enum op op;
  const char *name;
  int64_t gates, width, rows; /* rows: N */
  neap_recurrent_weights w;
};

/* Adds a parameter [parts, ...] that starts in +-1 / sqrt(width), as all of PyTorch's do. */
static neap_tensor add_parameter(neap_builder *b, const struct layer *l, const char *part, neap_dtype dtype,
                                 int32_t rank, int64_t inputs) {
  const neap_tensor id = builder_variable(b, l->name, part, dtype, NEAP_ROLE_PARAMETER, NEAP_INITIAL_UNIFORM,
                                          rank, (int64_t[]){l->gates * l->width, inputs});
  if (id >= 0) builder_graph(b)->tensors.data[id].scale = (float)(1 / sqrt((double)l->width));
  return id;
}

/* Fails unless all parts have the same number of rows, width and type. */
static neap_status check_parts(neap_builder *b, const struct layer *l, const neap_tensor *x, int count) {
  RETURN_IF(x == NULL || count < 1 || l->width < 1 || l->width > INT32_MAX, NEAP_INVALID_ARGUMENT,
            "%s '%s': %d parts of a sequence and a width of %lld; both must be positive",
            op_rows[l->op]->name, l->name, count, (long long)l->width);
  for (int i = 0; i < count; i++) {
    if (!builder_usable(b, x[i])) return NEAP_INVALID_ARGUMENT;
    const struct tensor *first = builder_tensor(b, x[0]), *t = builder_tensor(b, x[i]);
    RETURN_IF(t->rank != 3 || t->dims[1] != first->dims[1] || t->dims[2] != first->dims[2] ||
                  t->dtype != first->dtype,
              NEAP_INVALID_ARGUMENT,
              "%s '%s': each part must be [times, N, K] with one N, one K and one type, but '%s' is %s of %s "
              "and '%s' %s of %s",
              op_rows[l->op]->name, l->name, first->name, shape_text(first).text,
              dtype_rows[first->dtype].name, t->name, shape_text(t).text, dtype_rows[t->dtype].name);
  }
  return NEAP_OK;
}

/* Makes the parameters for a sequence x [T, N, K]; if `inputs` is not 0, it replaces K. */
static void add_parameters(neap_builder *b, struct layer *l, const struct tensor *x, int64_t inputs) {
  const neap_dtype dtype = x->dtype;
  l->rows = x->dims[1];
  if (inputs == 0) inputs = x->dims[2];
  if (l->w.made) return;
  l->w.made = true;
  l->w.weight_ih = add_parameter(b, l, "weight_ih", dtype, 2, inputs);
  l->w.weight_hh = add_parameter(b, l, "weight_hh", dtype, 2, l->width);
  l->w.bias_ih = add_parameter(b, l, "bias_ih", dtype, 1, 0);
  l->w.bias_hh = add_parameter(b, l, "bias_hh", dtype, 1, 0);
  if (l->op != OP_LSTM) return;
  l->w.bias_ih = builder_apply(b, OP_ADD, l->name, (union attributes){0},
                               (int32_t[]){l->w.bias_ih, l->w.bias_hh}, 2, NULL);
  l->w.bias_hh = NO_TENSOR;
}

/* Computes x W^T + b for all times of a part at once: [times, N, gates width]. */
static neap_tensor input_product(neap_builder *b, const struct layer *l, neap_tensor x) {
  const struct tensor t = *builder_tensor(b, x);
  const neap_tensor rows = builder_view(b, x, 2, (int64_t[]){t.dims[0] * l->rows, t.dims[2]}),
                    product = builder_apply(b, OP_LINEAR, l->name, (union attributes){0},
                                            (int32_t[]){rows, l->w.weight_ih, l->w.bias_ih}, 3, NULL);
  if (product < 0) return FAILED;
  return builder_view(b, product, 3, (int64_t[]){t.dims[0], l->rows, l->gates * l->width});
}

/* The last time of y [times, N, width]: [N, width]. */
static neap_tensor last_time(neap_builder *b, const struct layer *l, neap_tensor y) {
  const int64_t times = builder_tensor(b, y)->dims[0];
  const union attributes last = {.part = {.axis = 0, .first = times - 1, .count = 1}};
  if (times > 1) y = builder_apply(b, OP_SLICE, l->name, last, (int32_t[]){y, NO_TENSOR}, 2, NULL);
  return y < 0 ? FAILED : builder_view(b, y, 2, (int64_t[]){l->rows, l->width});
}

/* Adds one part; `state` becomes the state after it if `more` parts follow. */
static neap_tensor add_part(neap_builder *b, const struct layer *l, neap_tensor x, bool more,
                            neap_recurrent_state *state) {
  const neap_tensor product = input_product(b, l, x);
  if (product < 0) return FAILED;
  int32_t outputs[NODE_MAX_OUTPUTS];
  const int32_t lstm[] = {product, l->w.weight_hh, state->h, state->c},
                gru[] = {product, l->w.weight_hh, l->w.bias_hh, state->h};
  const neap_tensor y =
      builder_apply(b, l->op, l->name, (union attributes){0}, l->op == OP_LSTM ? lstm : gru, 4, outputs);
  if (y < 0 || !more) return y;
  state->h = last_time(b, l, y);
  state->c = l->op == OP_LSTM ? outputs[LSTM_LAST_C] : NO_TENSOR;
  return y;
}

/* Fails if a first state is a failed tensor, which is not the same as no state. */
static bool usable_state(neap_builder *b, enum op op, const neap_recurrent_state *s) {
  return s == NULL || (builder_usable(b, s->h) && (op != OP_LSTM || builder_usable(b, s->c)));
}

/* Adds the layers with their parameters; each takes the output of the one before. */
static neap_status add_layers(neap_builder *b, enum op op, int64_t gates, const neap_tensor *x, int count,
                              const neap_recurrent_options *o, char (*names)[2 * NAME_LIMIT],
                              struct layer *layers) {
  const int depth = o->layers > 0 ? o->layers : 1;
  for (int i = 0; i < depth; i++) {
    builder_name(b, op, names[i]);
    layers[i] = (struct layer){.op = op, .name = names[i], .gates = gates, .width = o->width};
    if (i == 0) TRY(check_parts(b, &layers[i], x, count));
    if (o->weights != NULL) layers[i].w = o->weights[i];
    add_parameters(b, &layers[i], builder_tensor(b, x[0]), i > 0 ? o->width : 0);
    if (o->weights != NULL) o->weights[i] = layers[i].w;
  }
  return NEAP_OK;
}

/* Adds part by part through all layers, so that a part can be recomputed without the others. */
static void recurrent(neap_builder *b, enum op op, int64_t gates, const neap_tensor *x, int count,
                      neap_recurrent_options o, neap_tensor *y) {
  char names[RECURRENT_LAYERS][2 * NAME_LIMIT];
  struct layer layers[RECURRENT_LAYERS];
  neap_recurrent_state states[RECURRENT_LAYERS];
  const int depth = o.layers > 0 ? o.layers : 1;
  for (int i = 0; y != NULL && i < count; i++) y[i] = FAILED;
  neap_status status = NEAP_OK;
  if (o.layers < 0 || depth > RECURRENT_LAYERS)
    status = neap_fail(NEAP_INVALID_ARGUMENT, "%s of %d layers: the number must be 1 to %d",
                       op_rows[op]->name, o.layers, RECURRENT_LAYERS);
  for (int i = 0; i < depth && i < RECURRENT_LAYERS; i++) { /* `last` may be where `initial` is */
    states[i] = o.initial != NULL ? o.initial[i] : (neap_recurrent_state){NO_TENSOR, NO_TENSOR};
    if (o.initial != NULL && status == NEAP_OK) usable_state(b, op, &states[i]);
    if (o.last != NULL) o.last[i] = (neap_recurrent_state){FAILED, FAILED};
  }
  if (!builder_ready(b)) return;
  if (status == NEAP_OK) status = add_layers(b, op, gates, x, y != NULL ? count : 0, &o, names, layers);
  if (status != NEAP_OK) {
    builder_fail(b, status);
    return;
  }
  for (int i = 0; i < count && builder_ready(b); i++) {
    y[i] = x[i];
    for (int k = 0; k < depth && builder_ready(b); k++) {
      if (k > 0 && o.dropout > 0) y[i] = neap_dropout(b, y[i], o.dropout);
      y[i] = add_part(b, &layers[k], y[i], i + 1 < count || o.last != NULL, &states[k]);
    }
  }
  for (int i = 0; o.last != NULL && builder_ready(b) && i < depth; i++) o.last[i] = states[i];
}

void neap_lstm(neap_builder *b, const neap_tensor *x, int count, neap_recurrent_options options,
               neap_tensor *y) {
  recurrent(b, OP_LSTM, 4, x, count, options, y);
}

void neap_gru(neap_builder *b, const neap_tensor *x, int count, neap_recurrent_options options,
              neap_tensor *y) {
  recurrent(b, OP_GRU, 3, x, count, options, y);
}
