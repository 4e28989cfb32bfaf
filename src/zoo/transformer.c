/* Transformers that are one stack of blocks: decoders that tell the next token (GPT, GPT-2, Llama) and an
 * encoder that tells masked ones (BERT). */
#include <math.h>
#include <stdio.h>

#include "zoo/sequence.h"

/* What the members of the family differ in. */
struct style {
  bool causal;    /* a token sees those before it alone */
  bool norm_last; /* norms stand behind the sums, as in the first Transformer */
  bool llama;     /* RMS norm, rotary positions, SwiGLU, no biases */
  bool tied;      /* the head has the embedding's weights */
  bool tanh;      /* GELU by its approximation */
  bool segments;  /* tokens have an embedding of their segment */
  bool head;      /* a layer with GELU and norm before the head, whose bias is its own */
  float epsilon;
};

struct stack {
  neap_builder *b;
  const struct style *style;
  int64_t batch, width, heads, key_heads, layers;
  int64_t length;        /* of the sequences that it learns from */
  int64_t places;        /* that have an embedding */
  int64_t times;         /* that the graph has of them: all, or where it decodes one */
  int64_t window;        /* of attention; 0: none */
  int64_t decode;        /* the most tokens that go before that one; 0: it does not decode */
  neap_tensor position;  /* [1]: how many do; where it decodes */
  neap_tensor key_count; /* [N]: one more, for attention */
  double dropout;
};

static const double deviation = 0.02; /* Radford et al. 2019 */

/* What a block adds to the sum is smaller the more blocks there are (Radford et al. 2019). */
static double residual_deviation(const struct stack *s) { return deviation / sqrt(2 * (double)s->layers); }

static neap_tensor norm(const struct stack *s, neap_tensor x) {
  return s->style->llama ? neap_rms_norm(s->b, x, s->style->epsilon)
                         : neap_layer_norm(s->b, x, s->style->epsilon);
}

/* x [N, 1, G, D] before what earlier tokens gave, which it joins for the next one. */
static neap_tensor add_to_cache(const struct stack *s, neap_tensor x, const char *scope, const char *part) {
  char name[SEQUENCE_NAME];
  sequence_name(name, scope, part);
  const neap_tensor cache = neap_state(s->b, name, NEAP_F32, 4,
                                       (int64_t[]){s->batch, s->decode, s->key_heads, s->width / s->heads});
  const neap_tensor all = neap_concat(s->b, (neap_tensor[]){x, cache}, 2, 1);
  neap_store(s->b, cache, x, s->position);
  return all;
}

/* Attention of packed queries, keys and values. Of a token that is decoded the keys and values are those of
 * all before it, too; its own come first, so that those that count are the first ones. */
static neap_tensor attend(const struct stack *s, neap_tensor qkv, const char *scope) {
  if (s->decode == 0)
    return neap_attention(s->b, qkv, -1, -1, -1,
                          (neap_attention_options){.key_heads = s->key_heads,
                                                   .causal = s->style->causal,
                                                   .window = s->window,
                                                   .dropout = (float)s->dropout});
  const neap_tensor q = neap_slice(s->b, qkv, 2, 0, s->heads),
                    k = neap_slice(s->b, qkv, 2, s->heads, s->key_heads),
                    v = neap_slice(s->b, qkv, 2, s->heads + s->key_heads, s->key_heads),
                    keys = add_to_cache(s, k, scope, "key_cache"),
                    values = add_to_cache(s, v, scope, "value_cache");
  return neap_attention(s->b, q, keys, values, s->key_count, (neap_attention_options){0});
}

/* The first so many heads of x turned by their positions. */
static neap_tensor turn(const struct stack *s, neap_tensor x, int64_t heads) {
  return s->decode > 0 ? neap_rotary_at(s->b, x, heads, 0, s->position) : neap_rotary(s->b, x, heads, 0, 0);
}

static neap_tensor attention(const struct stack *s, neap_tensor x, const char *scope) {
  const int64_t head = s->width / s->heads, all = s->heads + 2 * s->key_heads;
  const bool bias = !s->style->llama;
  char name[SEQUENCE_NAME];
  sequence_name(name, scope, "qkv");
  neap_tensor qkv = neap_reshape(s->b, sequence_linear(s->b, x, name, all * head, deviation, bias), 4,
                                 (int64_t[]){s->batch, s->times, all, head});
  if (s->style->llama) qkv = turn(s, qkv, s->heads + s->key_heads);
  const neap_tensor y = attend(s, qkv, scope);
  sequence_name(name, scope, "projection");
  return sequence_linear(s->b, neap_reshape(s->b, y, 3, (int64_t[]){s->batch, s->times, s->width}), name,
                         s->width, residual_deviation(s), bias);
}

/* Llama's hidden layer: 8/3 of the width, in whole multiples. */
static int64_t gated_width(int64_t width) {
  static const int64_t multiple = 256;
  return (8 * width / 3 + multiple - 1) / multiple * multiple;
}

static neap_tensor feed_forward(const struct stack *s, neap_tensor x, const char *scope) {
  const bool llama = s->style->llama;
  char name[SEQUENCE_NAME];
  sequence_name(name, scope, "hidden");
  x = sequence_linear(s->b, x, name, llama ? 2 * gated_width(s->width) : 4 * s->width, deviation, !llama);
  x = llama ? neap_swiglu(s->b, x) : s->style->tanh ? neap_gelu_tanh(s->b, x) : neap_gelu(s->b, x);
  sequence_name(name, scope, "output");
  return sequence_linear(s->b, x, name, s->width, residual_deviation(s), !llama);
}

typedef neap_tensor layer(const struct stack *s, neap_tensor x, const char *scope);

/* x + layer(norm(x)), or norm(x + layer(x)). */
static neap_tensor add_layer(const struct stack *s, neap_tensor x, const char *scope, layer *made) {
  const neap_tensor y = made(s, s->style->norm_last ? x : norm(s, x), scope);
  x = neap_add(s->b, x, sequence_dropout(s->b, y, s->dropout));
  return s->style->norm_last ? norm(s, x) : x;
}

static neap_tensor add_blocks(const struct stack *s, neap_tensor x) {
  for (int64_t i = 0; i < s->layers; i++) {
    char scope[SEQUENCE_NAME];
    snprintf(scope, sizeof scope, "block%lld", (long long)i + 1);
    neap_scope(s->b, scope);
    x = add_layer(s, x, scope, attention);
    x = add_layer(s, x, scope, feed_forward);
  }
  return x;
}

/* The rows of the table of places that the graph's times have. */
static neap_tensor places_of(const struct stack *s, neap_tensor table) {
  if (s->decode > 0) return neap_gather(s->b, table, s->position);
  return s->places > s->length ? neap_slice(s->b, table, 0, 0, s->length) : table;
}

/* The embedding of the tokens, with that of their places. */
static neap_tensor embed(const struct stack *s, neap_tensor tokens, neap_tensor table) {
  const int64_t places[] = {s->places, s->width}, segments[] = {2, s->width};
  neap_tensor x = neap_gather(s->b, table, tokens);
  neap_scope(s->b, "embedding");
  if (!s->style->llama) {
    const neap_tensor position = sequence_parameter(s->b, "position", "weight", 2, places, deviation);
    x = neap_add(s->b, x, places_of(s, position));
  }
  if (s->style->segments) { /* all tokens are of the first */
    const neap_tensor segment = sequence_parameter(s->b, "segment", "weight", 2, segments, deviation);
    x = neap_add(s->b, x, neap_slice(s->b, segment, 0, 0, 1));
  }
  if (s->style->norm_last) x = norm(s, x);
  return sequence_dropout(s->b, x, s->dropout);
}

static neap_tensor build(neap_builder *b, const struct blueprint *p, int64_t layers, int64_t width,
                         int64_t heads, int64_t key_heads, const struct style *style) {
  const bool decodes = p->decode > 0;
  const int64_t table_dims[] = {p->classes, width}, times = decodes ? 1 : p->length;
  const neap_tensor tokens = neap_input(b, "tokens", NEAP_I32, 2, (int64_t[]){p->batch, times}),
                    position = decodes ? neap_input(b, "position", NEAP_I32, 1, (int64_t[]){1}) : -1,
                    key_count = decodes ? neap_input(b, "length", NEAP_I32, 1, &p->batch) : -1,
                    table = sequence_parameter(b, "token", "weight", 2, table_dims, deviation);
  const struct stack s = {.b = b,
                          .style = style,
                          .batch = p->batch,
                          .width = width,
                          .heads = heads,
                          .key_heads = key_heads,
                          .layers = layers,
                          .length = p->length,
                          .places = p->places,
                          .times = times,
                          .window = p->window,
                          .decode = p->decode,
                          .position = position,
                          .key_count = key_count,
                          .dropout = p->dropout};
  neap_tensor x = add_blocks(&s, embed(&s, tokens, table));
  neap_scope(b, "head");
  if (style->head) {
    x = neap_gelu(b, sequence_linear(b, x, "head.dense", width, deviation, true));
    x = norm(&s, x);
  } else {
    x = norm(&s, x);
  }
  const neap_tensor bias = style->head ? sequence_parameter(b, "head", "bias", 1, table_dims, 0) : -1,
                    weight = style->tied ? table
                                         : sequence_parameter(b, "head", "weight", 2, table_dims, deviation);
  return decodes ? sequence_logits(b, x, weight, bias) : sequence_loss(b, x, weight, bias, p->smoothing);
}

static neap_status check_heads(const char *what, int64_t width, int64_t heads, int64_t key_heads) {
  RETURN_IF(width % heads != 0 || heads % key_heads != 0, NEAP_INVALID_ARGUMENT,
            "%s: a width of %lld in %lld heads with %lld key heads: the heads must divide the width, and the "
            "key heads the heads",
            what, (long long)width, (long long)heads, (long long)key_heads);
  return NEAP_OK;
}

/* ---- Decoders ---- */

static const struct style gpt = {.causal = true, .epsilon = 1e-5f},
                          gpt2 = {.causal = true, .tied = true, .tanh = true, .epsilon = 1e-5f};

neap_status check_gpt(const struct blueprint *p) {
  return check_heads("gpt-LAYERSxWIDTHxHEADS", p->numbers[1], p->numbers[2], p->numbers[2]);
}

neap_tensor build_gpt(neap_builder *b, const struct blueprint *p) {
  return build(b, p, p->numbers[0], p->numbers[1], p->numbers[2], p->numbers[2], &gpt);
}

neap_tensor build_gpt2(neap_builder *b, const struct blueprint *p) {
  return build(b, p, 12, 768, 12, 12, &gpt2);
}
neap_tensor build_gpt2_medium(neap_builder *b, const struct blueprint *p) {
  return build(b, p, 24, 1024, 16, 16, &gpt2);
}
neap_tensor build_gpt2_large(neap_builder *b, const struct blueprint *p) {
  return build(b, p, 36, 1280, 20, 20, &gpt2);
}
neap_tensor build_gpt2_xl(neap_builder *b, const struct blueprint *p) {
  return build(b, p, 48, 1600, 25, 25, &gpt2);
}

neap_status check_llama(const struct blueprint *p) {
  TRY(check_heads("llama-LAYERSxWIDTHxHEADSxKEYHEADS", p->numbers[1], p->numbers[2], p->numbers[3]));
  RETURN_IF(p->numbers[1] / p->numbers[2] % 2 != 0, NEAP_INVALID_ARGUMENT,
            "llama: heads of %lld elements: rotary positions turn pairs, so it must be even",
            (long long)(p->numbers[1] / p->numbers[2]));
  return NEAP_OK;
}

neap_tensor build_llama(neap_builder *b, const struct blueprint *p) {
  static const struct style style = {.causal = true, .llama = true, .epsilon = 1e-5f};
  return build(b, p, p->numbers[0], p->numbers[1], p->numbers[2], p->numbers[3], &style);
}

/* ---- BERT ---- */

neap_status check_bert(const struct blueprint *p) {
  return check_heads("bert-LAYERSxWIDTHxHEADS", p->numbers[1], p->numbers[2], p->numbers[2]);
}

neap_tensor build_bert(neap_builder *b, const struct blueprint *p) {
  static const struct style style = {
      .norm_last = true, .tied = true, .segments = true, .head = true, .epsilon = 1e-12f};
  return build(b, p, p->numbers[0], p->numbers[1], p->numbers[2], p->numbers[2], &style);
}
