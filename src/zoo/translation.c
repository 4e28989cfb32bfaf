/* Encoders and decoders of pairs of sequences, in the sizes for IWSLT: the Transformer (Vaswani et al. 2017),
 * and networks that have lightweight or dynamic convolutions in place of self-attention (Wu et al. 2019).
 * Norms stand behind the sums. Places of dropout, first values and positions are those of Wu et al.'s code.
 *
 * A decoder that translates reads one word a run. What it needs of earlier words lies in states, by target:
 * of attention keys and values, of a convolution as many rows as its kernel reads. Targets take the place of
 * others between two runs, so their rows are gathered first. What it needs of the source is prepared.
 */
#include <math.h>
#include <stdio.h>

#include "zoo/sequence.h"

enum { HEADS = 4, LONGEST = 7 };
static const int64_t usual_width = 512;

/* The position of the first word: the published code counts from behind padding, which is token 1. */
static const int64_t first_position = 2;

enum mixing { ATTENTION, LIGHT, DYNAMIC };

/* The ways in which the family's members look at other words of a sequence, and their numbers of layers. */
struct style {
  enum mixing mixing;
  int64_t layers[2];           /* of encoder and decoder */
  int64_t kernels[2][LONGEST]; /* of convolutions: taps by layer */
};

struct pair {
  neap_builder *b;
  const struct style *style;
  int64_t batch, source, target, width;
  int64_t beams;                      /* targets of each source; in training 1 */
  bool decodes;                       /* one word a run: */
  neap_tensor position, parent, held; /* its inputs: zoo_build_decoder */
  neap_tensor lengths;                /* of the source */
  double dropout;                     /* of the terms of the sum */
  double weights;                     /* of attention's weights and of kernels */
};

/* One of the two networks: which sequences it is about. */
struct side {
  const struct pair *pair;
  bool decoder;
  int64_t length;
  neap_tensor memory; /* of a decoder: the encoder's output */
};

/* ---- Layers ---- */

/* Uniform with the variance of Glorot and Bengio 2010 for this many inputs and outputs. */
static neap_tensor uniform(const struct side *s, const char *name, int64_t rows, int64_t columns,
                           int64_t fans) {
  const neap_parameter_options options = {.initial = NEAP_INITIAL_UNIFORM,
                                          .scale = (float)sqrt(6 / (double)fans)};
  return neap_parameter(s->pair->b, name, 2, (int64_t[]){rows, columns}, options);
}

/* Layer "SCOPE.PART" of x [N, T, inputs]; `fans`: see above. */
static neap_tensor linear(const struct side *s, neap_tensor x, const char *scope, const char *part,
                          int64_t outputs, int64_t fans, bool bias) {
  char name[SEQUENCE_NAME], weight[SEQUENCE_NAME];
  int64_t dims[NEAP_MAX_RANK] = {0};
  const int rank = neap_shape(s->pair->b, x, dims);
  sequence_name(name, scope, part);
  sequence_name(weight, name, "weight");
  const neap_tensor w = uniform(s, weight, outputs, rank > 0 ? dims[rank - 1] : 1, fans),
                    offset = bias ? sequence_parameter(s->pair->b, name, "bias", 1, &outputs, 0) : -1;
  return neap_linear_with(s->pair->b, x, w, offset);
}

/* The same, to as many outputs as inputs. */
static neap_tensor square(const struct side *s, neap_tensor x, const char *scope, const char *part) {
  const int64_t width = s->pair->width;
  return linear(s, x, scope, part, width, 2 * width, true);
}

/* norm(x + dropout(y)) */
static neap_tensor add_norm(const struct side *s, neap_tensor x, neap_tensor y) {
  neap_builder *b = s->pair->b;
  return neap_layer_norm(b, neap_add(b, x, sequence_dropout(b, y, s->pair->dropout)), 0);
}

/* [N, length, width] as heads, and back. */
static neap_tensor heads_of(const struct side *s, neap_tensor x, int64_t length, int64_t heads) {
  const int64_t dims[] = {-1, length, heads, s->pair->width / HEADS};
  return neap_reshape(s->pair->b, x, 4, dims);
}
static neap_tensor whole(const struct side *s, neap_tensor x) {
  return neap_reshape(s->pair->b, x, 3, (int64_t[]){-1, s->length, s->pair->width});
}

static neap_tensor state(const struct side *s, const char *scope, const char *part, int64_t rows,
                         int64_t length) {
  char name[SEQUENCE_NAME];
  sequence_name(name, scope, part);
  return neap_state(s->pair->b, name, NEAP_F32, 3, (int64_t[]){rows, length, s->pair->width});
}

/* x [R, 1, width] behind what earlier words of its target gave: [R, target, width], which is held. */
static neap_tensor hold(const struct side *s, neap_tensor x, const char *scope, const char *part) {
  const struct pair *p = s->pair;
  neap_builder *b = p->b;
  const int64_t rows = p->batch * p->beams, flat[] = {-1, p->width};
  const neap_tensor held = state(s, scope, part, rows, p->target),
                    both[] = {neap_reshape(b, held, 2, flat), neap_reshape(b, x, 2, flat)},
                    all = neap_gather(b, neap_concat(b, both, 2, 0), p->held);
  neap_store(b, held, all, -1);
  return heads_of(s, all, p->target, HEADS);
}

/* The word that is read looks at itself and at those before it. */
static neap_tensor attend_held(const struct side *s, neap_tensor qkv, const char *scope) {
  const struct pair *p = s->pair;
  const neap_tensor k = hold(s, neap_slice(p->b, qkv, 2, HEADS, HEADS), scope, "keys"),
                    v = hold(s, neap_slice(p->b, qkv, 2, 2 * HEADS, HEADS), scope, "values");
  return neap_attention(p->b, neap_slice(p->b, qkv, 2, 0, HEADS), k, v, neap_sequence_lengths(p->b, p->held),
                        (neap_attention_options){0});
}

static neap_tensor attention(const struct side *s, neap_tensor x, const char *scope) {
  const struct pair *p = s->pair;
  const int64_t width = p->width;
  const neap_tensor qkv =
      heads_of(s, linear(s, x, scope, "qkv", 3 * width, 4 * width, true), s->length, 3 * HEADS);
  const neap_attention_options options = {
      .key_heads = HEADS, .causal = s->decoder, .dropout = (float)p->weights};
  const neap_tensor y = s->decoder && p->decodes
                            ? attend_held(s, qkv, scope)
                            : neap_attention(p->b, qkv, -1, -1, s->decoder ? -1 : p->lengths, options);
  return square(s, whole(s, y), scope, "projection");
}

/* Adds attention of each word in the decoder to the words of the source. All targets of a source share it as
 * if they were one: none of their words looks at another here. */
static neap_tensor cross_attention(const struct side *s, neap_tensor x, const char *scope) {
  const struct pair *p = s->pair;
  const int64_t width = p->width, fans = 4 * width;
  const neap_tensor q = heads_of(s, linear(s, x, scope, "query", width, fans, true), p->beams * s->length,
                                 HEADS),
                    made[] = {linear(s, s->memory, scope, "key", width, fans, true),
                              linear(s, s->memory, scope, "value", width, fans, true)};
  neap_tensor read[] = {made[0], made[1]};
  for (int i = 0; i < 2 && p->decodes; i++)
    read[i] = state(s, scope, i == 0 ? "source_keys" : "source_values", p->batch, p->source);
  const neap_tensor y =
      neap_attention(p->b, q, heads_of(s, read[0], p->source, HEADS), heads_of(s, read[1], p->source, HEADS),
                     p->lengths, (neap_attention_options){.dropout = (float)p->weights});
  for (int i = 0; i < 2 && p->decodes; i++) neap_prepare(p->b, read[i], made[i]);
  return square(s, whole(s, y), scope, "attended");
}

/* Kernels of this many taps: [heads, taps] for all times, or made of the word of each time. */
static neap_tensor kernels(const struct side *s, neap_tensor x, const char *scope, int64_t taps) {
  const struct pair *p = s->pair;
  char name[SEQUENCE_NAME];
  neap_tensor w; /* before the softmax */
  if (p->style->mixing == DYNAMIC) {
    /* 6 / (6 width): the bound of a linear layer that is left as it is made. */
    w = linear(s, x, scope, "kernels", HEADS * taps, 6 * p->width, false);
    w = neap_reshape(p->b, w, 4, (int64_t[]){-1, s->length, HEADS, taps});
  } else {
    sequence_name(name, scope, "kernels.weight");
    w = uniform(s, name, HEADS, taps, taps + HEADS * taps);
  }
  return sequence_dropout(p->b, neap_softmax(p->b, w, -1), p->weights);
}

/* x [R, 1, width] behind the `earlier` rows before it, which are held: [R, earlier + 1, width]. */
static neap_tensor hold_last(const struct side *s, neap_tensor x, const char *scope, int64_t earlier) {
  const struct pair *p = s->pair;
  neap_builder *b = p->b;
  const int64_t rows = p->batch * p->beams, dims[] = {rows, earlier, p->width};
  const neap_tensor held = state(s, scope, "rows", rows, earlier),
                    before = neap_gather(b, neap_reshape(b, held, 2, (int64_t[]){rows, earlier * p->width}),
                                         p->parent),
                    all = neap_concat(b, (neap_tensor[]){neap_reshape(b, before, 3, dims), x}, 2, 1);
  neap_store(b, held, neap_slice(b, all, 1, 1, earlier), -1);
  return all;
}

/* The convolution of a decoder sees no later word; that of an encoder no padding, which is made 0. Taps
 * beyond the sequence meet zeros: a kernel that is longer needs no cutting. */
static neap_tensor convolution(const struct side *s, neap_tensor x, const char *scope, int64_t taps) {
  neap_builder *b = s->pair->b;
  x = square(s, x, scope, "input");
  if (!s->decoder) x = neap_sequence_mask(b, x, s->pair->lengths);
  const neap_tensor w = kernels(s, x, scope, taps);
  if (s->decoder && s->pair->decodes)
    x = neap_sequence_conv_from(b, hold_last(s, x, scope, taps - 1), w, taps - 1, taps - 1);
  else
    x = neap_sequence_conv(b, x, w, s->decoder ? taps - 1 : taps / 2);
  return square(s, x, scope, "projection");
}

static neap_tensor feed_forward(const struct side *s, neap_tensor x, const char *scope) {
  const int64_t width = s->pair->width, hidden = 2 * width;
  x = neap_relu(s->pair->b, linear(s, x, scope, "hidden", hidden, width + hidden, true));
  return linear(s, x, scope, "output", width, width + hidden, true);
}

/* ---- Networks ---- */

static neap_tensor add_layers(const struct side *s, neap_tensor x) {
  const struct style *style = s->pair->style;
  for (int64_t i = 0; i < style->layers[s->decoder]; i++) {
    char scope[SEQUENCE_NAME];
    snprintf(scope, sizeof scope, "%s%lld", s->decoder ? "decoder" : "encoder", (long long)i + 1);
    neap_scope(s->pair->b, scope);
    x = add_norm(s, x,
                 style->mixing == ATTENTION ? attention(s, x, scope)
                                            : convolution(s, x, scope, style->kernels[s->decoder][i]));
    if (s->decoder) x = add_norm(s, x, cross_attention(s, x, scope));
    x = add_norm(s, x, feed_forward(s, x, scope));
  }
  return x;
}

/* The embedding of the position that is read: [1, width]. */
static neap_tensor read_position(const struct pair *p) {
  const neap_tensor table = neap_state(p->b, "positions", NEAP_F32, 2, (int64_t[]){p->target, p->width});
  const neap_tensor row = neap_gather(p->b, table, p->position);
  neap_prepare(p->b, table, neap_positions(p->b, p->target, p->width, first_position));
  return row;
}

/* The words' embeddings, as long as their positions'. */
static neap_tensor embed(const struct side *s, neap_tensor table, neap_tensor tokens) {
  const struct pair *p = s->pair;
  const neap_tensor words =
      neap_scale(p->b, neap_gather(p->b, table, tokens), (float)sqrt((double)p->width), 0);
  const neap_tensor positions =
      s->decoder && p->decodes ? read_position(p) : neap_positions(p->b, s->length, p->width, first_position);
  return sequence_dropout(p->b, neap_add(p->b, words, positions), p->dropout);
}

/* The logits behind the words that are read; there is no loss. */
static neap_tensor next_logits(const struct pair *p, neap_tensor x, neap_tensor table) {
  const neap_tensor rows = neap_reshape(p->b, x, 2, (int64_t[]){-1, p->width});
  neap_output(p->b, "logits", neap_linear_with(p->b, rows, table, -1));
  return -1;
}

/* The inputs that say how targets go on. */
static void add_step_inputs(struct pair *p) {
  const int64_t rows = p->batch * p->beams, one = 1;
  p->position = neap_input(p->b, "position", NEAP_I32, 1, &one);
  if (p->style->mixing == ATTENTION)
    p->held = neap_input(p->b, "held", NEAP_I32, 2, (int64_t[]){rows, p->target});
  else
    p->parent = neap_input(p->b, "parent", NEAP_I32, 1, &rows);
}

static neap_tensor build(neap_builder *b, const struct blueprint *p, const struct style *style) {
  const int64_t width = p->numbers[0] > 0 ? p->numbers[0] : usual_width, batch = p->batch;
  /* Wu et al. 2019: 0.3, and 0.1 for weights; the Transformer has none for weights. */
  struct pair pair = {.b = b,
                      .style = style,
                      .batch = batch,
                      .source = p->source_length,
                      .target = p->length,
                      .width = width,
                      .beams = p->beams > 0 ? p->beams : 1,
                      .decodes = p->beams > 0,
                      .dropout = p->dropout,
                      .weights = style->mixing == ATTENTION ? 0 : p->dropout / 3};
  const int64_t length = pair.decodes ? 1 : pair.target;
  const neap_tensor source = neap_input(b, "source", NEAP_I32, 2, (int64_t[]){batch, pair.source}),
                    tokens = neap_input(b, "tokens", NEAP_I32, 2, (int64_t[]){batch * pair.beams, length}),
                    table = sequence_parameter(b, "token", "weight", 2, (int64_t[]){p->classes, width},
                                               1 / sqrt((double)width));
  pair.lengths = neap_sequence_lengths(b, source);
  const struct side encoder = {.pair = &pair, .length = pair.source};
  struct side decoder = {.pair = &pair, .length = length, .decoder = true};
  if (pair.decodes) add_step_inputs(&pair);
  decoder.memory = add_layers(&encoder, embed(&encoder, table, source));
  neap_scope(b, NULL);
  const neap_tensor x = add_layers(&decoder, embed(&decoder, table, tokens));
  return pair.decodes ? next_logits(&pair, x, table) : sequence_loss(b, x, table, -1, p->smoothing);
}

neap_status check_translation(const struct blueprint *p) {
  RETURN_IF(p->numbers[0] % HEADS != 0, NEAP_INVALID_ARGUMENT,
            "a network for pairs of width %lld: it has %d heads, which must divide the width",
            (long long)p->numbers[0], HEADS);
  return NEAP_OK;
}

neap_tensor build_transformer(neap_builder *b, const struct blueprint *p) {
  static const struct style style = {.mixing = ATTENTION, .layers = {6, 6}};
  return build(b, p, &style);
}

neap_tensor build_lightconv(neap_builder *b, const struct blueprint *p) {
  static const struct style style = {
      .mixing = LIGHT, .layers = {7, 6}, .kernels = {{3, 7, 15, 31, 31, 31, 31}, {3, 7, 15, 31, 31, 31}}};
  return build(b, p, &style);
}

neap_tensor build_dynamicconv(neap_builder *b, const struct blueprint *p) {
  static const struct style style = {
      .mixing = DYNAMIC, .layers = {7, 6}, .kernels = {{3, 7, 15, 31, 31, 31, 31}, {3, 7, 15, 31, 31, 31}}};
  return build(b, p, &style);
}
