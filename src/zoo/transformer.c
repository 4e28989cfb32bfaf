#include "zoo/transformer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op/builder.h"
#include "zoo/side_net.h"

struct stack {
  neap_builder *b;
  const struct transformer *t;
  const struct blueprint *p;
  int64_t head;          /* width of one */
  int64_t times;         /* that the graph has of a sequence: all, or where it decodes one */
  neap_tensor position;  /* [1]: how many tokens go before that one; where it decodes */
  neap_tensor key_count; /* [N]: one more, for attention; of texts: their tokens; else -1 */
  neap_tensor places;    /* [N, T]: of tokens in their own sequences, where rows hold several; else -1 */
};

static const double deviation = 0.02; /* Radford et al. 2019 */

/* Returns the deviation of weights whose products are added to the sum: the more blocks, the smaller (Radford
 * et al. 2019). */
static double residual_deviation(const struct stack *s) { return deviation / sqrt(2 * (double)s->t->layers); }

static bool has(const struct stack *s, enum part part) { return s->t->parts[part].name != NULL; }

/* Writes a part's name with numbers in the place of %d, and of %e if there is one; else without "%e.". */
static void write_name(const struct transformer *t, enum part part, int64_t block, int64_t expert,
                       char name[SEQUENCE_NAME]) {
  const char *pattern = t->parts[part].name;
  size_t length = (size_t)snprintf(name, SEQUENCE_NAME, "%s", t->before != NULL ? t->before : "");
  block += t->first_block;
  for (const char *at = pattern; *at != '\0' && length < SEQUENCE_NAME; at++) {
    const bool number = at[0] == '%' && (at[1] == 'd' || at[1] == 'e');
    if (number && at[1] == 'e' && expert < 0) {
      at += 2; /* and the dot behind it */
      continue;
    }
    length += (size_t)(number ? snprintf(name + length, SEQUENCE_NAME - length, "%lld",
                                         (long long)(at[1] == 'd' ? block : expert))
                              : snprintf(name + length, SEQUENCE_NAME - length, "%c", *at));
    at += number;
  }
}

void transformer_name(const struct transformer *t, enum part part, int64_t block, char name[SEQUENCE_NAME]) {
  write_name(t, part, block, -1, name);
}

void transformer_expert_name(const struct transformer *t, enum part part, int64_t block, int64_t expert,
                             char name[SEQUENCE_NAME]) {
  write_name(t, part, block, expert, name);
}

bool transformer_is_bare(const struct transformer *t, enum part part) {
  return part == PART_FIRST_TOKEN || (part == PART_POSITION && t->parts[PART_PATCH].name != NULL);
}

/* ---- Layers ---- */

static neap_tensor linear(const struct stack *s, neap_tensor x, enum part part, int64_t block,
                          int64_t outputs, double spread) {
  char name[SEQUENCE_NAME];
  transformer_name(s->t, part, block, name);
  if (s->t->spread > 0) spread *= s->t->spread;
  return sequence_linear(s->b, x, name, outputs, spread, s->t->parts[part].bias);
}

static neap_tensor ones(const struct stack *s, const char *owner, const char *part, neap_initial initial,
                        int64_t width) {
  char name[2 * SEQUENCE_NAME];
  snprintf(name, sizeof name, "%s.%s", owner, part);
  return neap_parameter(s->b, name, 1, &width, (neap_parameter_options){.initial = initial});
}

/* Over the last axis of x. A part that is missing leaves x as it is. */
static neap_tensor norm(const struct stack *s, neap_tensor x, enum part part, int64_t block) {
  const struct transformer *t = s->t;
  int64_t dims[NEAP_MAX_RANK] = {0};
  char name[SEQUENCE_NAME];
  if (!has(s, part)) return x;
  transformer_name(t, part, block, name);
  const int rank = neap_shape(s->b, x, dims);
  const int64_t width = rank > 0 ? dims[rank - 1] : 1;
  const neap_tensor gamma =
      ones(s, name, t->norm_weight != NULL ? t->norm_weight : "weight", NEAP_INITIAL_ONE, width);
  const neap_tensor beta =
      t->rms ? NO_TENSOR
             : ones(s, name, t->norm_bias != NULL ? t->norm_bias : "bias", NEAP_INITIAL_ZERO, width);
  return builder_row_norm(s->b, x, (struct row_norm_attributes){width, 1, 1, t->epsilon, !t->rms}, gamma,
                          beta);
}

static neap_tensor activate(const struct stack *s, neap_tensor x) {
  switch (s->t->activation) {
  case ACTIVATION_GELU:
    return neap_gelu(s->b, x);
  case ACTIVATION_GELU_TANH:
    return neap_gelu_tanh(s->b, x);
  case ACTIVATION_SILU:
    return neap_silu(s->b, x);
  case ACTIVATION_RELU:
    return neap_relu(s->b, x);
  }
  return x;
}

/* ---- Attention ---- */

static bool is_each(int64_t every, int64_t block) { return every > 0 && (block + 1) % every == 0; }

/* The window of the block; 0: it has none. */
static int64_t own_window(const struct transformer *t, int64_t block) {
  if (t->windows != NULL) return t->windows[block];
  return is_each(t->full_every, block) ? 0 : t->window;
}

/* The shorter of the block's window and the one that is asked for; 0: there is no window. */
static int64_t window_of(const struct stack *s, int64_t block) {
  const int64_t asked = s->p->window, own = own_window(s->t, block);
  return asked > 0 && (own == 0 || asked < own) ? asked : own;
}

/* x [N, 1, G, D] before what earlier tokens gave, which it joins for the next one. */
static neap_tensor add_to_cache(const struct stack *s, neap_tensor x, int64_t block, const char *part) {
  char name[SEQUENCE_NAME];
  snprintf(name, sizeof name, "%sblock%lld.%s", s->t->before != NULL ? s->t->before : "",
           (long long)block + 1, part);
  const neap_tensor cache =
      neap_state(s->b, name, NEAP_F32, 4, (int64_t[]){s->p->batch, s->p->decode, s->t->key_heads, s->head});
  const neap_tensor all = neap_concat(s->b, (neap_tensor[]){x, cache}, 2, 1);
  neap_store(s->b, cache, x, s->position);
  return all;
}

/* Adds attention of the token that is decoded to itself and all before it. Its own keys and values come
 * first, so that those that count are the first ones. */
static neap_tensor attend_cached(const struct stack *s, neap_tensor q, neap_tensor k, neap_tensor v,
                                 int64_t block) {
  const neap_tensor keys = add_to_cache(s, k, block, "key_cache"),
                    values = add_to_cache(s, v, block, "value_cache");
  return neap_attention(s->b, q, keys, values, s->key_count,
                        (neap_attention_options){.scale = s->t->attention_scale, .cap = s->t->score_cap});
}

/* The first heads of x turned by their positions. */
static neap_tensor turn(const struct stack *s, neap_tensor x, int64_t heads, int64_t block) {
  const struct transformer *t = s->t;
  const int64_t longest = s->p->decode > 0 ? s->p->decode : s->p->length;
  const float *divisors = longest > t->divisors.places ? t->divisors.beyond : t->divisors.within;
  struct rotary_attributes a = {
      .heads = heads, .width = t->turned, .base = t->rotary_base, .scaling = t->scaling};
  if (has(s, PART_POSITION) || is_each(t->still_every, block)) return x;
  if (t->local_base > 0 && own_window(t, block) > 0) {
    a.base = t->local_base;
    a.scaling = (struct rotary_scaling){0};
    divisors = NULL;
  }
  return builder_rotary(s->b, x, a, s->p->decode > 0 ? s->position : NO_TENSOR, divisors);
}

/* The patterns that are asked for, else the model's own; NULL: no pattern. */
static const char *patterns_of(const struct stack *s) {
  const bool first = s->t->first_global && s->t->head == STACK_CLASSES;
  return s->p->attention == NULL && first ? "global=first" : s->p->attention;
}

static neap_attention_options attention_options(const struct stack *s, int64_t block) {
  return (neap_attention_options){.causal = s->t->causal,
                                  .window = window_of(s, block),
                                  .pattern = patterns_of(s),
                                  .layer = block,
                                  .scale = s->t->attention_scale,
                                  .cap = s->t->score_cap,
                                  .dropout = s->p->dropout};
}

static neap_tensor by_head(const struct stack *s, neap_tensor x, int64_t heads) {
  return neap_reshape(s->b, x, 4, (int64_t[]){s->p->batch, s->times, heads, s->head});
}

/* Queries, keys and values of one layer. */
static neap_tensor attend_packed(const struct stack *s, neap_tensor x, int64_t block) {
  const struct transformer *t = s->t;
  const int64_t all = t->heads + 2 * t->key_heads;
  neap_tensor qkv = by_head(s, linear(s, x, PART_QKV, block, all * s->head, deviation), all);
  qkv = turn(s, qkv, t->heads + t->key_heads, block);
  if (s->p->decode > 0)
    return attend_cached(s, neap_slice(s->b, qkv, 2, 0, t->heads),
                         neap_slice(s->b, qkv, 2, t->heads, t->key_heads),
                         neap_slice(s->b, qkv, 2, t->heads + t->key_heads, t->key_heads), block);
  neap_attention_options options = attention_options(s, block);
  options.key_heads = t->key_heads;
  return neap_attention_at(s->b, qkv, -1, -1, s->key_count, s->places, options);
}

/* Queries or keys by head, with their norm. */
static neap_tensor norm_by_head(const struct stack *s, neap_tensor x, int64_t heads, enum part part,
                                int64_t block) {
  return s->t->wide_norms ? by_head(s, norm(s, x, part, block), heads)
                          : norm(s, by_head(s, x, heads), part, block);
}

static neap_tensor attend_apart(const struct stack *s, neap_tensor x, int64_t block) {
  const struct transformer *t = s->t;
  const int64_t width = t->heads * s->head, key_width = t->key_heads * s->head;
  neap_tensor q = linear(s, x, PART_QUERY, block, width, deviation),
              k = linear(s, x, PART_KEY, block, key_width, deviation),
              v = by_head(s, linear(s, x, PART_VALUE, block, key_width, deviation), t->key_heads);
  q = turn(s, norm_by_head(s, q, t->heads, PART_QUERY_NORM, block), t->heads, block);
  k = turn(s, norm_by_head(s, k, t->key_heads, PART_KEY_NORM, block), t->key_heads, block);
  return s->p->decode > 0
             ? attend_cached(s, q, k, v, block)
             : neap_attention_at(s->b, q, k, v, s->key_count, s->places, attention_options(s, block));
}

/* Tokens that are global in a block, which attend to all. A causal model has none: its global tokens are seen
 * by all behind them, and do as others otherwise. */
static neap_status count_global(const struct stack *s, int64_t block, int64_t *count) {
  const char *patterns = patterns_of(s);
  struct attention_heads heads = {0};
  *count = 0;
  if (s->t->causal || patterns == NULL) return NEAP_OK;
  TRY(attention_read(patterns, block, window_of(s, block), &heads));
  *count = heads.of[0].global < s->times ? heads.of[0].global : s->times;
  RETURN_IF(*count > 0 && !has(s, PART_GLOBAL_QUERY), NEAP_UNSUPPORTED,
            "attention '%s': the model has no projections of global tokens; take bert-* or a folder of "
            "Longformer, or leave global=... out",
            patterns);
  return NEAP_OK;
}

/* Puts what the first `count` tokens of x give, which attend to all with projections of their own, in the
 * place of their rows of y. */
static neap_tensor attend_global(const struct stack *s, neap_tensor x, neap_tensor y, int64_t block,
                                 int64_t count) {
  const struct transformer *t = s->t;
  const int64_t width = t->heads * s->head, key_width = t->key_heads * s->head,
                own[] = {s->p->batch, count, t->heads, s->head};
  const neap_tensor first = neap_slice(s->b, x, 1, 0, count),
                    q = neap_reshape(s->b, linear(s, first, PART_GLOBAL_QUERY, block, width, deviation), 4,
                                     own),
                    k = by_head(s, linear(s, x, PART_GLOBAL_KEY, block, key_width, deviation), t->key_heads),
                    v = by_head(s, linear(s, x, PART_GLOBAL_VALUE, block, key_width, deviation),
                                t->key_heads);
  const neap_tensor all = neap_attention(
      s->b, q, k, v, s->key_count,
      (neap_attention_options){.scale = t->attention_scale, .cap = t->score_cap, .dropout = s->p->dropout});
  if (count == s->times) return all;
  return neap_concat(s->b, (neap_tensor[]){all, neap_slice(s->b, y, 1, count, s->times - count)}, 2, 1);
}

static neap_tensor attention(const struct stack *s, neap_tensor x, int64_t block) {
  int64_t global;
  const neap_status status = count_global(s, block, &global);
  if (status != NEAP_OK) return builder_fail(s->b, status);
  neap_tensor y = -1; /* without tokens that are not global */
  if (global < s->times) y = has(s, PART_QKV) ? attend_packed(s, x, block) : attend_apart(s, x, block);
  if (global > 0) y = attend_global(s, x, y, block, global);
  const int64_t dims[] = {s->p->batch, s->times, s->t->heads * s->head};
  return linear(s, neap_reshape(s->b, y, 3, dims), PART_ATTENTION_OUT, block, s->t->width,
                residual_deviation(s));
}

/* ---- The rest of a block ---- */

static neap_tensor feed_forward(const struct stack *s, neap_tensor x, int64_t block) {
  const struct transformer *t = s->t;
  neap_tensor y;
  if (t->packed_gate) {
    y = neap_swiglu(s->b, linear(s, x, PART_UP, block, 2 * t->hidden, deviation));
  } else if (has(s, PART_GATE)) {
    y = activate(s, linear(s, x, PART_GATE, block, t->hidden, deviation));
    y = neap_multiply(s->b, y, linear(s, x, PART_UP, block, t->hidden, deviation));
  } else {
    y = activate(s, linear(s, x, PART_UP, block, t->hidden, deviation));
  }
  return linear(s, y, PART_DOWN, block, t->width, residual_deviation(s));
}

static neap_tensor expert_layer(const struct stack *s, neap_tensor x, enum part part, int64_t block,
                                int64_t outputs, double spread, neap_tensor ends) {
  char name[SEQUENCE_NAME];
  int64_t dims[NEAP_MAX_RANK] = {0};
  transformer_name(s->t, part, block, name);
  neap_shape(s->b, x, dims);
  const int64_t shape[] = {s->t->experts * outputs, dims[1]};
  return neap_expert_linear(s->b, x, sequence_parameter(s->b, name, "weight", 2, shape, spread), ends);
}

static neap_tensor mix_experts(const struct stack *s, neap_tensor x, int64_t block) {
  const struct transformer *t = s->t;
  const int64_t rows[] = {s->p->batch * s->times, t->width}, whole[] = {s->p->batch, s->times, t->width};
  neap_routes routes;
  x = neap_reshape(s->b, x, 2, rows);
  neap_route(s->b, linear(s, x, PART_ROUTER, block, t->experts, deviation),
             (neap_route_options){t->experts_used, t->experts_normalised}, &routes);
  x = neap_gather(s->b, x, routes.rows);
  neap_tensor y =
      activate(s, expert_layer(s, x, PART_EXPERT_GATE, block, t->expert_hidden, deviation, routes.ends));
  y = neap_multiply(s->b, y,
                    expert_layer(s, x, PART_EXPERT_UP, block, t->expert_hidden, deviation, routes.ends));
  y = expert_layer(s, y, PART_EXPERT_DOWN, block, t->width, residual_deviation(s), routes.ends);
  return neap_reshape(s->b, neap_expert_sum(s->b, y, routes.weights, routes.places), 3, whole);
}

typedef neap_tensor layer(const struct stack *s, neap_tensor x, int64_t block);

/* x + layer(norm(x)), with a norm of what the layer gives where there is one; or norm(x + layer(x)), where
 * norms come last. */
static neap_tensor add_layer(const struct stack *s, neap_tensor x, int64_t block, layer *made,
                             enum part of_norm, enum part behind) {
  const bool last = s->t->norm_last;
  const neap_tensor y = norm(s, made(s, last ? x : norm(s, x, of_norm, block), block), behind, block);
  x = neap_add(s->b, x, sequence_dropout(s->b, y, (double)s->p->dropout));
  return last ? norm(s, x, of_norm, block) : x;
}

static void enter_block(const struct stack *s, int64_t block) {
  char scope[SEQUENCE_NAME];
  snprintf(scope, sizeof scope, "%sblock%lld", s->t->before != NULL ? s->t->before : "",
           (long long)block + 1);
  neap_scope(s->b, scope);
}

static neap_tensor add_block(const struct stack *s, neap_tensor x, int64_t block) {
  x = add_layer(s, x, block, attention, PART_ATTENTION_NORM, PART_ATTENTION_POST);
  return add_layer(s, x, block, has(s, PART_ROUTER) ? mix_experts : feed_forward, PART_FEED_NORM,
                   PART_FEED_POST);
}

/* ---- A side net ---- */

/* Fails unless a stack's widths can be divided. */
static neap_status check_side(const struct transformer *t, int64_t head, int64_t divisor) {
  RETURN_IF(t->experts > 0, NEAP_UNSUPPORTED,
            "a side net needs a model without experts (got %lld a block); adapters of low rank (lora) serve "
            "such models",
            (long long)t->experts);
  RETURN_IF(t->divisors.within != NULL, NEAP_UNSUPPORTED,
            "a side net needs a model without LongRoPE, whose divisors belong to heads of another width; "
            "adapters of low rank (lora) serve such models");
  const struct {
    const char *name;
    int64_t width, multiple;
  } widths[] = {{"width", t->width, divisor},
                {"hidden width", t->hidden, divisor},
                {"head width", head, t->parts[PART_POSITION].name == NULL ? 2 * divisor : divisor},
                {"turned width", t->turned, 2 * divisor}};
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
    RETURN_IF(widths[i].width % widths[i].multiple != 0, NEAP_INVALID_ARGUMENT,
              "side %lld: the model's %s is %lld, which is no multiple of %lld; give a divisor of it",
              (long long)divisor, widths[i].name, (long long)widths[i].width, (long long)widths[i].multiple);
  return NEAP_OK;
}

/* Describes the narrow stack: the same layers with every width divided, and as many heads. */
static neap_status describe_side(const struct stack *s, struct transformer *narrow) {
  const int64_t divisor = s->p->side;
  TRY(check_side(s->t, s->head, divisor));
  *narrow = *s->t;
  narrow->before = SIDE_NET;
  narrow->width /= divisor;
  narrow->hidden /= divisor;
  narrow->head_width = s->head / divisor;
  narrow->turned /= divisor;
  narrow->attention_scale *= (float)sqrt((double)divisor);
  narrow->spread = sqrt((double)divisor);
  return NEAP_OK;
}

/* All blocks, with a side net beside them. */
static neap_tensor add_with_side(const struct stack *s, neap_tensor x) {
  struct transformer narrow;
  struct stack side = *s;
  const neap_status status = describe_side(s, &narrow);
  if (status != NEAP_OK) return builder_fail(s->b, status);
  side.t = &narrow;
  side.head = narrow.head_width;
  neap_tensor y = side_net_begin(s->b, narrow.width, x);
  for (int64_t i = 0; i < s->t->layers; i++) {
    enter_block(s, i);
    x = add_block(s, x, i);
    enter_block(&side, i);
    y = add_block(&side, side_net_mix(s->b, i, y, x), i);
  }
  neap_scope(s->b, SIDE_NET "head");
  return side_net_end(s->b, norm(&side, y, PART_FINAL_NORM, 0), x);
}

static neap_tensor add_blocks(const struct stack *s, neap_tensor x) {
  if (s->p->side > 0) return add_with_side(s, x);
  for (int64_t i = 0; i < s->t->layers; i++) {
    enter_block(s, i);
    x = add_block(s, x, i);
  }
  return x;
}

/* ---- Both ends ---- */

static neap_tensor table_of(const struct stack *s, enum part part, int64_t rows) {
  char name[SEQUENCE_NAME];
  transformer_name(s->t, part, 0, name);
  return sequence_parameter(s->b, name, "weight", 2, (int64_t[]){rows, s->t->width}, deviation);
}

/* The rows of the table of places that the graph's times have. */
static neap_tensor places_of(const struct stack *s, neap_tensor table) {
  const int64_t first = s->t->first_place;
  if (s->p->decode > 0 || s->places >= 0) {
    if (first > 0) table = neap_slice(s->b, table, 0, first, s->p->places);
    return neap_gather(s->b, table, s->places >= 0 ? s->places : s->position);
  }
  return first > 0 || s->p->places > s->p->length ? neap_slice(s->b, table, 0, first, s->p->length) : table;
}

static neap_tensor first_segment(const struct stack *s) {
  const neap_tensor table = table_of(s, PART_SEGMENT, s->t->segments > 0 ? s->t->segments : 2);
  return neap_slice(s->b, table, 0, 0, 1);
}

/* The embedding of the tokens, with that of their places. */
static neap_tensor embed(const struct stack *s, neap_tensor tokens, neap_tensor table) {
  neap_tensor x = neap_gather(s->b, table, tokens);
  neap_scope(s->b, "embedding");
  if (s->t->embedding_scale != 0) x = neap_scale(s->b, x, s->t->embedding_scale, 0);
  if (has(s, PART_POSITION))
    x = neap_add(s->b, x, places_of(s, table_of(s, PART_POSITION, s->p->places + s->t->first_place)));
  if (has(s, PART_SEGMENT)) x = neap_add(s->b, x, first_segment(s));
  x = norm(s, x, PART_EMBEDDING_NORM, 0);
  return sequence_dropout(s->b, x, (double)s->p->dropout);
}

static neap_tensor bare(const struct stack *s, enum part part, int64_t rows) {
  return neap_parameter(s->b, s->t->parts[part].name, 3, (int64_t[]){1, rows, s->t->width},
                        (neap_parameter_options){.initial = NEAP_INITIAL_NORMAL, .scale = (float)deviation});
}

/* The squares of an image [N, C, H, W] as rows [N, squares, width]. */
static neap_tensor embed_patches(const struct stack *s, neap_tensor image) {
  const struct transformer *t = s->t;
  const char *name = t->parts[PART_PATCH].name;
  const int64_t dims[] = {t->width, t->image[0], t->patch, t->patch},
                rows[] = {s->p->batch, t->width, s->times - 1};
  const neap_tensor weight = sequence_parameter(s->b, name, "weight", 4, dims, deviation),
                    bias = sequence_parameter(s->b, name, "bias", 1, &t->width, 0);
  const neap_tensor x =
      neap_conv_with(s->b, image, weight, bias, (neap_conv_options){.stride = t->patch, .size = t->patch});
  return neap_transpose(s->b, neap_reshape(s->b, x, 3, rows), (int[]){0, 2, 1});
}

static neap_tensor embed_image(const struct stack *s) {
  const struct transformer *t = s->t;
  const int64_t dims[] = {s->p->batch, t->image[0], t->image[1], t->image[2]},
                first[] = {s->p->batch, 1, t->width};
  const neap_tensor image = neap_input(s->b, "image", NEAP_F32, 4, dims);
  neap_scope(s->b, "embedding");
  const neap_tensor parts[] = {neap_expand(s->b, bare(s, PART_FIRST_TOKEN, 1), 3, first),
                               embed_patches(s, image)};
  const neap_tensor x = neap_add(s->b, neap_concat(s->b, parts, 2, 1), bare(s, PART_POSITION, s->times));
  return sequence_dropout(s->b, x, (double)s->p->dropout);
}

/* The same of logits [N, T, classes] with a cap, which are made whole. */
static neap_tensor finish_capped(const struct stack *s, neap_tensor logits) {
  const float cap = s->t->logit_cap;
  const int64_t dims[] = {s->p->batch, s->times}, rows = s->p->batch * s->times;
  logits = neap_scale(s->b, neap_tanh(s->b, neap_scale(s->b, logits, 1 / cap, 0)), cap, 0);
  neap_output(s->b, "logits", logits);
  if (s->p->decode > 0) return -1;
  const neap_tensor label = neap_input(s->b, "label", NEAP_I32, 2, dims);
  return neap_softmax_cross_entropy(s->b, neap_reshape(s->b, logits, 2, (int64_t[]){rows, -1}),
                                    neap_reshape(s->b, label, 1, &rows), s->p->smoothing);
}

static neap_tensor finish(const struct stack *s, neap_tensor x, neap_tensor table, int64_t rows) {
  const struct transformer *t = s->t;
  char name[SEQUENCE_NAME];
  neap_scope(s->b, "head");
  if (has(s, PART_HEAD_DENSE)) x = activate(s, linear(s, x, PART_HEAD_DENSE, 0, t->width, deviation));
  x = norm(s, norm(s, x, PART_FINAL_NORM, 0), PART_HEAD_NORM, 0);
  transformer_name(t, PART_HEAD, 0, name);
  const neap_tensor bias =
      t->parts[PART_HEAD].bias ? sequence_parameter(s->b, name, "bias", 1, &rows, 0) : -1;
  const neap_tensor weight = t->tied ? table : table_of(s, PART_HEAD, rows);
  if (t->logit_cap > 0) return finish_capped(s, neap_linear_with(s->b, x, weight, bias));
  return s->p->decode > 0 ? sequence_logits(s->b, x, weight, bias)
                          : sequence_loss(s->b, x, weight, bias, s->p->smoothing);
}

/* The first row of each sequence: [N, K]. */
static neap_tensor first_row(const struct stack *s, neap_tensor x) {
  return neap_reshape(s->b, neap_slice(s->b, x, 1, 0, 1), 2, (int64_t[]){s->p->batch, s->t->width});
}

/* The loss of classes or values of the first token, dropout before the last layer. */
static neap_tensor classify(const struct stack *s, neap_tensor x) {
  const struct transformer *t = s->t;
  x = norm(s, first_row(s, x), PART_FINAL_NORM, 0);
  if (has(s, PART_POOLER)) x = neap_tanh(s->b, linear(s, x, PART_POOLER, 0, t->width, deviation));
  x = sequence_dropout(s->b, x, (double)s->p->dropout);
  x = linear(s, x, PART_CLASSIFIER, 0, t->outputs, deviation);
  neap_output(s->b, t->values ? "prediction" : "logits", x);
  if (t->values)
    return neap_mse_loss(s->b, x,
                         neap_input(s->b, "label", NEAP_F32, 2, (int64_t[]){s->p->batch, t->outputs}));
  return neap_softmax_cross_entropy(s->b, x, neap_input(s->b, "label", NEAP_I32, 1, &s->p->batch),
                                    s->p->smoothing);
}

/* The sum over the tokens of a text: [N, K]. */
static neap_tensor sum_tokens(const struct stack *s, neap_tensor x) {
  return neap_sum(s->b, neap_sequence_mask(s->b, x, s->key_count), (int[]){1}, 1, false);
}

static neap_tensor mean_tokens(const struct stack *s, neap_tensor x) {
  const neap_tensor ones = neap_scale(s->b, neap_slice(s->b, x, 2, 0, 1), 0, 1);
  return neap_divide(s->b, sum_tokens(s, x), sum_tokens(s, ones));
}

/* As torch.nn.functional.normalize: what is nearly zeros stays so. */
static neap_tensor to_unit_length(const struct stack *s, neap_tensor x) {
  static const float least = 1e-24f, most = 1e30f;
  const neap_tensor squares = neap_sum(s->b, neap_multiply(s->b, x, x), (int[]){1}, 1, true);
  return neap_multiply(s->b, x, neap_power(s->b, neap_clip(s->b, squares, least, most), -0.5f));
}

/* Has no loss. */
static neap_tensor give_sentence(const struct stack *s, neap_tensor x) {
  x = s->t->head == STACK_MEAN ? mean_tokens(s, x) : first_row(s, x);
  neap_output(s->b, "sentence", s->t->unit ? to_unit_length(s, x) : x);
  return -1;
}

/* The loss of preferences of x [2 N, T, K], whose sequences are pairs. Each sequence has a loss of its own
 * rows, as a share of all labels. */
static neap_tensor finish_preferences(const struct stack *s, neap_tensor x, neap_tensor table, int64_t rows) {
  enum { PAIRS_MOST = 64 };
  neap_builder *b = s->b;
  const int64_t pairs = s->p->batch / 2, sequence[] = {pairs, 2, s->times}, pair[] = {pairs, 2};
  neap_tensor losses[2 * PAIRS_MOST], none = -1;
  char name[SEQUENCE_NAME];
  if (pairs > PAIRS_MOST)
    return builder_fail(b, neap_fail(NEAP_TOO_LARGE,
                                     "preferences: %lld pairs are too many at once; at most %d are possible "
                                     "(`micro-batch`)",
                                     (long long)pairs, PAIRS_MOST));
  neap_scope(b, "head");
  x = norm(s, x, PART_FINAL_NORM, 0);
  transformer_name(s->t, PART_HEAD, 0, name);
  const neap_tensor weight = s->t->tied ? table : table_of(s, PART_HEAD, rows),
                    label = neap_input(b, "label", NEAP_I32, 3, sequence),
                    count = neap_input(b, "count", NEAP_F32, 2, pair),
                    before = neap_input(b, "reference", NEAP_F32, 2, pair);
  for (int64_t i = 0; i < s->p->batch; i++) {
    losses[i] =
        neap_linear_cross_entropy(b, neap_slice(b, x, 0, i, 1), weight, -1, label,
                                  (neap_linear_cross_entropy_options){.first = i * s->times, .before = none});
    if (i == 0) none = neap_scale(b, losses[0], 0, 0);
  }
  const neap_tensor all = neap_sum(b, count, (int[]){0, 1}, 2, true),
                    each = neap_reshape(b, neap_concat(b, losses, (int)s->p->batch, 0), 2, pair),
                    now = neap_scale(b, neap_multiply(b, each, all), -1, 0),
                    more = neap_subtract(b, now, before),
                    margin = neap_subtract(b, neap_slice(b, more, 1, 0, 1), neap_slice(b, more, 1, 1, 1)),
                    logit = neap_scale(b, margin, s->p->beta, 0);
  neap_output(b, "log_probability", now);
  neap_output(b, "margin", neap_reshape(b, margin, 1, &pairs));
  const neap_tensor loss = neap_binary_cross_entropy(b, logit, neap_scale(b, logit, 0, 1));
  if (loss >= 0) builder_graph(b)->correct = -1; /* those of single tokens */
  return loss;
}

/* The places of an image: its squares, and one before them. */
static int64_t places_of_image(const struct transformer *t) {
  return t->image[1] / t->patch * (t->image[2] / t->patch) + 1;
}

static neap_tensor build_on_image(neap_builder *b, const struct transformer *t, const struct blueprint *p) {
  const struct stack s = {.b = b,
                          .t = t,
                          .p = p,
                          .head = t->head_width > 0 ? t->head_width : t->width / t->heads,
                          .times = places_of_image(t),
                          .position = -1,
                          .key_count = -1,
                          .places = -1};
  const neap_tensor x = add_blocks(&s, embed_image(&s));
  neap_scope(b, "head");
  return classify(&s, x);
}

static neap_tensor build_on_preferences(neap_builder *b, const struct transformer *t,
                                        const struct blueprint *given) {
  struct blueprint p = *given;
  const int64_t rows = t->vocabulary > 0 ? t->vocabulary : p.classes,
                dims[] = {given->batch, 2, given->length}, flat[] = {2 * given->batch, given->length};
  p.batch *= 2;
  const struct stack s = {.b = b,
                          .t = t,
                          .p = &p,
                          .head = t->head_width > 0 ? t->head_width : t->width / t->heads,
                          .times = p.length,
                          .position = -1,
                          .key_count = -1,
                          .places = -1};
  const neap_tensor tokens = neap_reshape(b, neap_input(b, "tokens", NEAP_I32, 3, dims), 2, flat),
                    table = table_of(&s, PART_TOKEN, rows);
  return finish_preferences(&s, add_blocks(&s, embed(&s, tokens, table)), table, rows);
}

static neap_status check_attention(const struct transformer *t, const struct blueprint *p) {
  const int64_t entries = p->attention != NULL ? attention_entries(p->attention) : 0;
  RETURN_IF(entries > 0 && p->decode > 0, NEAP_UNSUPPORTED,
            "attention '%s': a graph that decodes attends to all tokens; leave the patterns out",
            p->attention);
  RETURN_IF(entries > t->layers, NEAP_INVALID_ARGUMENT,
            "attention '%s': has %lld entries for %lld layers; give at most one a layer", p->attention,
            (long long)entries, (long long)t->layers);
  return NEAP_OK;
}

static neap_tensor build_on_tokens(neap_builder *b, const struct transformer *t, const struct blueprint *p) {
  const bool decodes = p->decode > 0;
  const int64_t rows = t->vocabulary > 0 ? t->vocabulary : p->classes, times = decodes ? 1 : p->length;
  struct stack s = {.b = b,
                    .t = t,
                    .p = p,
                    .head = t->head_width > 0 ? t->head_width : t->width / t->heads,
                    .times = times};
  const neap_tensor tokens = neap_input(b, "tokens", NEAP_I32, 2, (int64_t[]){p->batch, times});
  s.position = decodes ? neap_input(b, "position", NEAP_I32, 1, (int64_t[]){1}) : -1;
  s.key_count = decodes ? neap_input(b, "length", NEAP_I32, 1, &p->batch) : -1;
  s.places = p->packed ? neap_input(b, "place", NEAP_I32, 2, (int64_t[]){p->batch, times}) : -1;
  if (t->head != STACK_TOKENS) s.key_count = neap_sequence_lengths(b, tokens);
  const neap_tensor table = table_of(&s, PART_TOKEN, rows), x = add_blocks(&s, embed(&s, tokens, table));
  if (t->head == STACK_TOKENS) return finish(&s, x, table, rows);
  neap_scope(b, "head");
  return t->head == STACK_CLASSES ? classify(&s, x) : give_sentence(&s, x);
}

neap_tensor transformer_build(neap_builder *b, const struct transformer *t, const struct blueprint *p) {
  const neap_status status = check_attention(t, p);
  if (status != NEAP_OK) return builder_fail(b, status);
  const neap_tensor loss = t->parts[PART_PATCH].name != NULL ? build_on_image(b, t, p)
                           : p->beta > 0                     ? build_on_preferences(b, t, p)
                                                             : build_on_tokens(b, t, p);
  if (p->side > 0) side_net_mark(b);
  return loss;
}

neap_status transformer_check(const char *what, const struct transformer *t) {
  const int64_t head = t->head_width > 0 ? t->head_width : t->width / t->heads;
  RETURN_IF((t->head_width == 0 && t->width % t->heads != 0) || t->heads % t->key_heads != 0,
            NEAP_INVALID_ARGUMENT,
            "%s: a width of %lld in %lld heads with %lld key heads: the heads must divide the width, and the "
            "key heads the heads",
            what, (long long)t->width, (long long)t->heads, (long long)t->key_heads);
  RETURN_IF(t->parts[PART_POSITION].name == NULL && head % 2 != 0, NEAP_INVALID_ARGUMENT,
            "%s: heads of %lld elements: rotary positions turn pairs, so it must be even", what,
            (long long)head);
  return NEAP_OK;
}

/* ---- Ready-made ones ---- */

#define READY_MADE .first_block = 1, .norm_weight = "gamma", .norm_bias = "beta"
#define READY_MADE_BLOCK(with_bias)                                                                          \
  [PART_TOKEN] = {"token"}, [PART_QKV] = {"block%d.qkv", with_bias},                                         \
  [PART_ATTENTION_OUT] = {"block%d.projection", with_bias}, [PART_UP] = {"block%d.hidden", with_bias},       \
  [PART_DOWN] = {"block%d.output", with_bias}, [PART_ATTENTION_NORM] = {"block%d.row_norm1"},                \
  [PART_FEED_NORM] = {"block%d.row_norm2"}

static const struct transformer gpt = {
    READY_MADE,
    .parts = {READY_MADE_BLOCK(true), [PART_POSITION] = {"position"}, [PART_FINAL_NORM] = {"head.row_norm1"},
              [PART_HEAD] = {"head"}},
    .causal = true, .epsilon = 1e-5f};
static const struct transformer llama = {
    READY_MADE,
    .parts = {READY_MADE_BLOCK(false), [PART_FINAL_NORM] = {"head.row_norm1"}, [PART_HEAD] = {"head"}},
    .causal = true,
    .rms = true,
    .packed_gate = true,
    .epsilon = 1e-5f};
static const struct transformer bert = {
    READY_MADE,
    .parts = {READY_MADE_BLOCK(true), [PART_POSITION] = {"position"}, [PART_SEGMENT] = {"segment"},
              [PART_GLOBAL_QUERY] = {"block%d.global_query", true},
              [PART_GLOBAL_KEY] = {"block%d.global_key", true},
              [PART_GLOBAL_VALUE] = {"block%d.global_value", true},
              [PART_EMBEDDING_NORM] = {"embedding.row_norm1"}, [PART_HEAD_DENSE] = {"head.dense", true},
              [PART_HEAD_NORM] = {"head.row_norm1"}, [PART_HEAD] = {"head", true}},
    .norm_last = true, .tied = true, .epsilon = 1e-12f};

static struct transformer sized(struct transformer t, int64_t layers, int64_t width, int64_t heads,
                                int64_t key_heads) {
  t.layers = layers;
  t.width = width;
  t.heads = heads;
  t.key_heads = key_heads;
  t.hidden = 4 * width;
  return t;
}

static neap_tensor build(neap_builder *b, const struct blueprint *p, struct transformer t) {
  return transformer_build(b, &t, p);
}

static struct transformer gpt_of(const struct blueprint *p) {
  return sized(gpt, p->numbers[0], p->numbers[1], p->numbers[2], p->numbers[2]);
}

neap_status check_gpt(const struct blueprint *p) {
  const struct transformer t = gpt_of(p);
  return transformer_check("gpt-LAYERSxWIDTHxHEADS", &t);
}

neap_tensor build_gpt(neap_builder *b, const struct blueprint *p) { return build(b, p, gpt_of(p)); }

static struct transformer gpt2(int64_t layers, int64_t width, int64_t heads) {
  struct transformer t = sized(gpt, layers, width, heads, heads);
  t.tied = true;
  t.activation = ACTIVATION_GELU_TANH;
  return t;
}

neap_tensor build_gpt2(neap_builder *b, const struct blueprint *p) { return build(b, p, gpt2(12, 768, 12)); }
neap_tensor build_gpt2_medium(neap_builder *b, const struct blueprint *p) {
  return build(b, p, gpt2(24, 1024, 16));
}
neap_tensor build_gpt2_large(neap_builder *b, const struct blueprint *p) {
  return build(b, p, gpt2(36, 1280, 20));
}
neap_tensor build_gpt2_xl(neap_builder *b, const struct blueprint *p) {
  return build(b, p, gpt2(48, 1600, 25));
}

/* Llama's hidden layer: 8/3 of the width, in whole multiples. */
static int64_t gated_width(int64_t width) {
  static const int64_t multiple = 256;
  return (8 * width / 3 + multiple - 1) / multiple * multiple;
}

static struct transformer llama_of(const struct blueprint *p) {
  struct transformer t = sized(llama, p->numbers[0], p->numbers[1], p->numbers[2], p->numbers[3]);
  t.hidden = gated_width(t.width);
  return t;
}

neap_status check_llama(const struct blueprint *p) {
  const struct transformer t = llama_of(p);
  return transformer_check("llama-LAYERSxWIDTHxHEADSxKEYHEADS", &t);
}

neap_tensor build_llama(neap_builder *b, const struct blueprint *p) { return build(b, p, llama_of(p)); }

static struct transformer bert_of(const struct blueprint *p) {
  return sized(bert, p->numbers[0], p->numbers[1], p->numbers[2], p->numbers[2]);
}

neap_status check_bert(const struct blueprint *p) {
  const struct transformer t = bert_of(p);
  return transformer_check("bert-LAYERSxWIDTHxHEADS", &t);
}

neap_tensor build_bert(neap_builder *b, const struct blueprint *p) { return build(b, p, bert_of(p)); }
