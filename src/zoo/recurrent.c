/* Recurrent networks that tell something at every time: of vectors (Chen et al. 2016), of characters. */
#include <math.h>
#include <stdio.h>

#include "zoo/sequence.h"

enum { PARTS_LIMIT = 4096, LAYERS_LIMIT = 32 };

/* This many times go through the network at once that its products are large: a part of the sequence. By
 * shape alone. */
static int64_t times_of(int64_t batch, int64_t length) {
  static const int64_t rows = 512;
  const int64_t fewest = (length + PARTS_LIMIT - 1) / PARTS_LIMIT, times = rows / batch;
  return times > length ? length : times > fewest ? times : fewest;
}

/* The layer that tells; as wide as the network. */
struct head {
  neap_tensor weight, bias;
};

static struct head add_head(neap_builder *b, const struct blueprint *p) {
  const int64_t width = p->numbers[1];
  const neap_parameter_options uniform = {.initial = NEAP_INITIAL_UNIFORM,
                                          .scale = (float)(1 / sqrt((double)width))};
  struct head head;
  head.weight = neap_parameter(b, "head.weight", 2, (int64_t[]){p->classes, width}, uniform);
  head.bias = neap_parameter(b, "head.bias", 1, &p->classes, uniform);
  return head;
}

/* One time, x [1, N, K], that goes on where the run before ended: its logits [N, 1, classes]. */
static neap_tensor build_decoding(neap_builder *b, const struct blueprint *p, neap_tensor x) {
  const int64_t width = p->numbers[1], shape[] = {p->batch, width};
  const int layers = (int)p->numbers[0];
  neap_recurrent_state before[LAYERS_LIMIT], after[LAYERS_LIMIT];
  const struct head head = add_head(b, p);
  neap_tensor y;
  for (int i = 0; i < layers; i++) {
    char scope[SEQUENCE_NAME], name[SEQUENCE_NAME];
    snprintf(scope, sizeof scope, "lstm%d", i + 1);
    sequence_name(name, scope, "hidden_state");
    before[i].h = neap_state(b, name, NEAP_F32, 2, shape);
    sequence_name(name, scope, "cell_state");
    before[i].c = neap_state(b, name, NEAP_F32, 2, shape);
  }
  neap_lstm(b, &x, 1,
            (neap_recurrent_options){.width = width, .layers = layers, .initial = before, .last = after}, &y);
  for (int i = 0; i < layers; i++) {
    neap_store(b, before[i].h, after[i].h, -1);
    neap_store(b, before[i].c, after[i].c, -1);
  }
  return sequence_logits(b, neap_reshape(b, y, 3, (int64_t[]){p->batch, 1, width}), head.weight, head.bias);
}

/* x [T, N, K] part by part, through all layers and to the loss, so that a part can be made again without the
 * others; a loss at every time, and the logits [N, T, classes]. */
static neap_tensor build(neap_builder *b, const struct blueprint *p, neap_tensor x) {
  const int64_t width = p->numbers[1], times = times_of(p->batch, p->length),
                labels[] = {p->batch, p->length};
  const int count = (int)((p->length + times - 1) / times), layers = (int)p->numbers[0];
  neap_recurrent_weights weights[LAYERS_LIMIT] = {0};
  neap_recurrent_state states[LAYERS_LIMIT];
  neap_tensor logits[PARTS_LIMIT], loss = -1;
  const struct head head = add_head(b, p);
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 2, labels);
  for (int i = 0; i < count; i++) {
    const int64_t first = i * times;
    const neap_tensor part = neap_slice(b, x, 0, first, i + 1 < count ? times : p->length - first);
    neap_tensor y;
    neap_lstm(b, &part, 1,
              (neap_recurrent_options){.width = width,
                                       .layers = layers,
                                       .dropout = p->dropout,
                                       .initial = i > 0 ? states : NULL,
                                       .last = i + 1 < count ? states : NULL,
                                       .weights = weights},
              &y);
    loss = neap_linear_cross_entropy(
        b, y, head.weight, head.bias, label,
        (neap_linear_cross_entropy_options){
            .smoothing = p->smoothing, .first = first * p->batch, .before = loss, .by_time = true});
    logits[i] = neap_linear_with(b, y, head.weight, head.bias);
  }
  neap_output(b, "logits", neap_transpose(b, neap_concat(b, logits, count, 0), (int[]){1, 0, 2}));
  return loss;
}

neap_status check_lstm(const struct blueprint *p) {
  RETURN_IF(p->numbers[0] > LAYERS_LIMIT, NEAP_INVALID_ARGUMENT,
            "an LSTM of %lld layers: 1 to %d are possible", (long long)p->numbers[0], LAYERS_LIMIT);
  return NEAP_OK;
}

neap_tensor build_lstm(neap_builder *b, const struct blueprint *p) {
  const neap_tensor x = neap_input(b, "sequence", NEAP_F32, 3, (int64_t[]){p->batch, p->length, p->channels});
  return build(b, p, neap_transpose(b, x, (int[]){1, 0, 2}));
}

neap_tensor build_char_lstm(neap_builder *b, const struct blueprint *p) {
  const int64_t times = p->decode > 0 ? 1 : p->length;
  const neap_tensor tokens = neap_input(b, "tokens", NEAP_I32, 2, (int64_t[]){p->batch, times}),
                    table = sequence_parameter(b, "token", "weight", 2,
                                               (int64_t[]){p->classes, p->numbers[1]}, 1);
  const neap_tensor x = neap_transpose(b, neap_gather(b, table, tokens), (int[]){1, 0, 2});
  return p->decode > 0 ? build_decoding(b, p, x) : build(b, p, x);
}
