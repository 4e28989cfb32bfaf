/* Attention, and the rotary embedding of positions. */
#include "op/attention.h"

#include <math.h>

#include "op/builder.h"

/* ---- Attention ---- */

/* Slots. Places, where given, come last: ATTENTION_PLACES, or backward ATTENTION_BACK_PLACES. */
enum { QUERIES, KEYS, VALUES, LENGTHS, RESULT, LOG_SUM, RESULT_GRADIENT };

_Static_assert(ATTENTION_PATTERNS == 8, "each pattern has its attributes");
#define PATTERN(i)                                                                                           \
  ATTRIBUTE(attention.patterns.of[i].step, INTEGER), ATTRIBUTE(attention.patterns.of[i].reach, INTEGER),     \
      ATTRIBUTE(attention.patterns.of[i].block, INTEGER),                                                    \
      ATTRIBUTE(attention.patterns.of[i].columns, INTEGER),                                                  \
      ATTRIBUTE(attention.patterns.of[i].global, INTEGER)
static const struct attribute_row attention_attributes[] = {
    ATTRIBUTE(attention.key_heads, INTEGER),
    ATTRIBUTE(attention.causal, FLAG),
    PATTERN(0),
    PATTERN(1),
    PATTERN(2),
    PATTERN(3),
    PATTERN(4),
    PATTERN(5),
    PATTERN(6),
    PATTERN(7),
    ATTRIBUTE(attention.patterns.count, INTEGER),
    ATTRIBUTE(attention.scale, REAL),
    ATTRIBUTE(attention.cap, REAL),
    ATTRIBUTE(attention.probability, REAL),
    {"attention.stream", ATTRIBUTE_INT32, offsetof(union attributes, attention.stream), true, 0},
    ATTRIBUTE(attention.length, INTEGER),
};

struct attention_shape attention_shape_of(const struct neap_graph *graph, const struct node *node) {
  const struct attention_attributes *a = &node->attributes.attention;
  const struct tensor *q = node_input(graph, node, QUERIES), *k = node_input(graph, node, KEYS);
  const bool packed = k == NULL;
  const int64_t depth = q->dims[3],
                queries = a->length > 0 ? node_input(graph, node, ATTENTION_BACK_ROWS)->dims[0] : q->dims[1];
  return (struct attention_shape){.sequences = q->dims[0],
                                  .queries = queries,
                                  .length = a->length > 0 ? a->length : queries,
                                  .keys = packed ? q->dims[1] : k->dims[1],
                                  .heads = packed ? q->dims[2] - 2 * a->key_heads : q->dims[2],
                                  .key_heads = packed ? a->key_heads : k->dims[2],
                                  .depth = depth,
                                  .scale = a->scale != 0 ? a->scale : (float)(1 / sqrt((double)depth))};
}

static neap_status check_numbers(const struct node *node) {
  const struct attention_attributes *a = &node->attributes.attention;
  RETURN_IF(!(a->probability >= 0 && a->probability < 1), NEAP_INVALID_ARGUMENT,
            "Attention '%s': dropout %g is not in [0, 1)", node->name, (double)a->probability);
  RETURN_IF(!isfinite(a->scale), NEAP_INVALID_ARGUMENT, "Attention '%s': scale %g is not finite", node->name,
            (double)a->scale);
  RETURN_IF(!(a->cap >= 0 && a->cap < INFINITY), NEAP_INVALID_ARGUMENT,
            "Attention '%s': scores are capped at %g; the cap must be positive, or 0 for none", node->name,
            (double)a->cap);
  const struct attention_heads *p = &a->patterns;
  RETURN_IF(p->of[0].reach < 0, NEAP_INVALID_ARGUMENT, "Attention '%s': window %lld is negative", node->name,
            (long long)p->of[0].reach);
  RETURN_IF(p->count < 0 || p->count > ATTENTION_PATTERNS, NEAP_INVALID_ARGUMENT,
            "Attention '%s': patterns of %lld heads are more than %d", node->name, (long long)p->count,
            ATTENTION_PATTERNS);
  return NEAP_OK;
}

/* Fails if there are more patterns than heads, or a pattern depends on the origin of places, which cross
 * attention and packed rows do not have in common. */
static neap_status check_patterns(const struct node *node, const struct attention_shape *s, bool placed) {
  const struct attention_heads *p = &node->attributes.attention.patterns;
  RETURN_IF(p->count > s->heads, NEAP_INVALID_ARGUMENT,
            "Attention '%s': has %lld patterns for %lld heads; give at most one a head", node->name,
            (long long)p->count, (long long)s->heads);
  for (int i = 0; i < ATTENTION_PATTERNS; i++) {
    RETURN_IF((p->of[i].step > 1 || p->of[i].block > 0) && s->queries != s->keys, NEAP_UNSUPPORTED,
              "Attention '%s': strided, fixed and dilated patterns need as many keys as queries (got %lld of "
              "%lld queries); use a window",
              node->name, (long long)s->keys, (long long)s->queries);
    RETURN_IF(p->of[i].block > 0 && placed, NEAP_UNSUPPORTED,
              "Attention '%s': fixed patterns do not go with rows of several sequences, whose blocks would "
              "begin anywhere; use another pattern",
              node->name);
    RETURN_IF(p->of[i].global > 0 && placed, NEAP_UNSUPPORTED,
              "Attention '%s': global tokens do not go with rows of several sequences, of which the first "
              "alone would have them; leave global=... out",
              node->name);
  }
  return NEAP_OK;
}

static neap_status check_packed(const struct node *node, const struct tensor *q) {
  const int64_t heads = q->dims[2], key_heads = node->attributes.attention.key_heads;
  RETURN_IF(key_heads < 1 || key_heads > (heads - 1) / 2 || (heads - 2 * key_heads) % key_heads != 0,
            NEAP_INVALID_ARGUMENT,
            "Attention '%s': the %lld heads of '%s' %s must be H heads of queries and twice %lld heads of "
            "keys and values, where the second number divides H",
            node->name, (long long)heads, q->name, shape_text(q).text, (long long)key_heads);
  return NEAP_OK;
}

static neap_status check_apart(const struct node *node, const struct tensor *q, const struct tensor *k,
                               const struct tensor *v) {
  RETURN_IF(k == NULL || v == NULL, NEAP_INVALID_ARGUMENT,
            "Attention '%s': give both keys and values, or neither where '%s' holds all three", node->name,
            q->name);
  RETURN_IF(node->attributes.attention.key_heads != 0, NEAP_INVALID_ARGUMENT,
            "Attention '%s': the number of key heads must be 0 here, as '%s' has its own; it is only for "
            "packed operands",
            node->name, k->name);
  TRY(need_same_shape(node, k, v));
  TRY(need_same_type(node, q, k));
  RETURN_IF(
      k->rank != 4 || k->dims[0] != q->dims[0] || k->dims[3] != q->dims[3] || q->dims[2] % k->dims[2] != 0,
      NEAP_INVALID_ARGUMENT,
      "Attention '%s': queries '%s' %s take keys [%lld, S, G, %lld] with a G that divides %lld, but '%s' "
      "is %s",
      node->name, q->name, shape_text(q).text, (long long)q->dims[0], (long long)q->dims[3],
      (long long)q->dims[2], k->name, shape_text(k).text);
  return NEAP_OK;
}

static neap_status check_lengths(const struct node *node, const struct tensor *q,
                                 const struct tensor *lengths, const struct tensor *places) {
  RETURN_IF(lengths != NULL &&
                (lengths->dtype != NEAP_I32 || lengths->rank != 1 || lengths->dims[0] != q->dims[0]),
            NEAP_INVALID_ARGUMENT, "Attention '%s': lengths must be [%lld] of i32, but '%s' is %s of %s",
            node->name, (long long)q->dims[0], lengths->name, shape_text(lengths).text,
            dtype_rows[lengths->dtype].name);
  RETURN_IF(places != NULL && (places->dtype != NEAP_I32 || places->rank != 2 ||
                               places->dims[0] != q->dims[0] || places->dims[1] != q->dims[1]),
            NEAP_INVALID_ARGUMENT, "Attention '%s': places must be [%lld, %lld] of i32, but '%s' is %s of %s",
            node->name, (long long)q->dims[0], (long long)q->dims[1], places->name, shape_text(places).text,
            dtype_rows[places->dtype].name);
  return NEAP_OK;
}

static neap_status infer_attention(const struct neap_graph *graph, const struct node *node,
                                   struct tensor *outputs) {
  TRY(need_real(graph, node, 4, "[N, T, H, D]"));
  TRY(check_numbers(node));
  const struct tensor *q = node_input(graph, node, QUERIES), *k = node_input(graph, node, KEYS),
                      *v = node_input(graph, node, VALUES), *lengths = node_input(graph, node, LENGTHS);
  TRY(k == NULL && v == NULL ? check_packed(node, q) : check_apart(node, q, k, v));
  TRY(check_lengths(node, q, lengths, node_input(graph, node, ATTENTION_PLACES)));
  const struct attention_shape s = attention_shape_of(graph, node);
  TRY(check_patterns(node, &s, node_input(graph, node, ATTENTION_PLACES) != NULL));
  outputs[0] = value_like(q);
  outputs[0].dims[2] = s.heads;
  outputs[1] = value_of(NEAP_F32, 3, s.sequences, s.heads);
  outputs[1].dims[2] = s.queries;
  return NEAP_OK;
}

/* The pairs of a query and a key that it sees, over the heads of a sequence, if no lengths are given. */
static double visible_pairs(const struct attention_shape *s, const struct attention_attributes *a) {
  const int64_t patterns = a->patterns.count > 1 ? a->patterns.count : 1;
  double pairs = 0;
  for (int64_t i = 0; i < patterns && i < s->heads; i++)
    pairs += (double)((s->heads - i - 1) / patterns + 1) *
             attention_pairs(&a->patterns.of[i], a->causal, s->queries, s->keys);
  return pairs;
}

/* The forward pass has products with keys and with values. The backward pass repeats both and has three
 * more. */
static double flops_attention(const struct neap_graph *graph, const struct node *node) {
  struct attention_shape s = attention_shape_of(graph, node);
  const double products = node->op == OP_ATTENTION ? 2 : 5, given = (double)s.queries / (double)s.length;
  s.queries = s.length;
  return 2 * products * given * (double)(s.sequences * s.depth) *
         visible_pairs(&s, &node->attributes.attention);
}

static neap_status gradient_attention(struct gradient *g, const struct node *n) {
  static const char *const names[] = {"dq", "dk", "dv"};
  const int32_t *in = n->inputs;
  const bool placed = n->input_count > ATTENTION_PLACES;
  const int32_t inputs[] = {
      in[QUERIES],   in[KEYS],      in[VALUES],           in[LENGTHS],
      n->outputs[0], n->outputs[1], g->of[n->outputs[0]], placed ? in[ATTENTION_PLACES] : NO_TENSOR};
  const int32_t count = in[KEYS] == NO_TENSOR ? 1 : 3;
  int32_t outputs[3];
  for (int32_t i = 0; i < count; i++) TRY(graph_add_like(g->graph, in[i], names[i], &outputs[i]));
  TRY(graph_add_node(g->graph, (struct node){.name = n->name,
                                             .op = OP_ATTENTION_BACKWARD,
                                             .pass = NEAP_PASS_BACKWARD,
                                             .attributes = n->attributes,
                                             .inputs = inputs,
                                             .input_count = ATTENTION_BACK_PLACES + placed,
                                             .outputs = outputs,
                                             .output_count = count}));
  for (int32_t i = 0; i < count; i++) TRY(gradient_add(g, in[i], outputs[i]));
  return NEAP_OK;
}

/* The numbers of rows are those of each sequence. */
static void split_attention_backward(const struct neap_graph *graph, const struct node *node,
                                     struct row_split *split) {
  (void)graph;
  if (node->attributes.attention.length > 0) split->inputs &= ~(1u << ATTENTION_BACK_ROWS);
}

static void without_dropout(union attributes *attributes) { attributes->attention.probability = 0; }

static const struct inplace_pair attention_backward_pairs[] = {
    {0, RESULT_GRADIENT}, {0, RESULT}, {0, QUERIES}, {1, KEYS}, {2, VALUES}};

const struct op_row op_row_attention = {"Attention",
                                        "softmax of products with keys, times values, without the scores",
                                        "attention",
                                        2,
                                        infer_attention,
                                        gradient_attention,
                                        .flops = flops_attention,
                                        ROW_ATTRIBUTES(attention_attributes),
                                        .evaluated = without_dropout,
                                        .slots = 4,
                                        .takes = {[LENGTHS] = TYPE_I32, [ATTENTION_PLACES] = TYPE_I32},
                                        .split = {31, 3, 0}};
const struct op_row op_row_attention_backward = {
    "AttentionBackward",
    "gradients of attention, whose scores are computed again",
    .output_count = 3,
    ROW_INPLACE(attention_backward_pairs),
    .flops = flops_attention,
    ROW_ATTRIBUTES(attention_attributes),
    .takes = {[LENGTHS] = TYPE_I32, [LOG_SUM] = TYPE_F32, [ATTENTION_BACK_PLACES] = TYPE_I32},
    .split = {255, 7, 0},
    .split_of = split_attention_backward,
    .exact = 1u << LOG_SUM};

neap_tensor neap_attention(neap_builder *b, neap_tensor q, neap_tensor k, neap_tensor v, neap_tensor lengths,
                           neap_attention_options o) {
  return neap_attention_at(b, q, k, v, lengths, -1, o);
}

static neap_status read_patterns(const neap_attention_options *o, struct attention_heads *patterns) {
  RETURN_IF(o->layer < 0, NEAP_INVALID_ARGUMENT, "attention '%s': layer %lld is negative", o->pattern,
            (long long)o->layer);
  return attention_read(o->pattern, o->layer, o->window, patterns);
}

neap_tensor neap_attention_at(neap_builder *b, neap_tensor q, neap_tensor k, neap_tensor v,
                              neap_tensor lengths, neap_tensor places, neap_attention_options o) {
  if (!builder_usable(b, q)) return FAILED;
  const struct tensor *t = builder_tensor(b, q);
  if (k < 0 && v < 0 && o.key_heads == 0 && t->rank == 4 && t->dims[2] % 3 == 0) o.key_heads = t->dims[2] / 3;
  struct attention_heads patterns = {.of = {{.reach = o.window}}};
  if (o.pattern != NULL) {
    const neap_status status = read_patterns(&o, &patterns);
    if (status != NEAP_OK) return builder_fail(b, status);
  }
  const union attributes a = {.attention = {.key_heads = o.key_heads,
                                            .causal = o.causal,
                                            .patterns = patterns,
                                            .scale = o.scale,
                                            .cap = o.cap,
                                            .probability = o.dropout,
                                            .stream = o.dropout != 0 ? builder_stream(b) : 0}};
  const int32_t inputs[] = {q, k < 0 ? NO_TENSOR : k, v < 0 ? NO_TENSOR : v,
                            lengths < 0 ? NO_TENSOR : lengths, places};
  return builder_next(b, OP_ATTENTION, a, inputs, places < 0 ? ATTENTION_PLACES : ATTENTION_PLACES + 1);
}

/* ---- Rotary position embedding ---- */

static const struct attribute_row rotary_attributes[] = {
    ATTRIBUTE(rotary.heads, INTEGER),          ATTRIBUTE(rotary.first, INTEGER),
    ATTRIBUTE_USUAL(rotary.base, REAL, 10000), ATTRIBUTE(rotary.back, FLAG),
    ATTRIBUTE(rotary.scaling.factor, REAL),    ATTRIBUTE(rotary.scaling.low, REAL),
    ATTRIBUTE(rotary.scaling.high, REAL),      ATTRIBUTE(rotary.scaling.places, INTEGER),
    ATTRIBUTE(rotary.scaling.amplitude, REAL), ATTRIBUTE(rotary.width, INTEGER)};

static neap_status infer_rotary(const struct neap_graph *graph, const struct node *node,
                                struct tensor *outputs) {
  const struct rotary_attributes *a = &node->attributes.rotary;
  TRY(need_real(graph, node, 4, "[N, T, heads, D]"));
  TRY(need_position(node, node_input(graph, node, ROTARY_POSITION)));
  const struct tensor *x = node_input(graph, node, ROTARY_X);
  RETURN_IF(
      x->dims[3] % 2 != 0 || a->heads < 0 || a->heads > x->dims[2], NEAP_INVALID_ARGUMENT,
      "Rotary '%s': cannot rotate %lld heads of '%s' %s: the number must be 0 to that of its heads, which "
      "must have an even number of elements each",
      node->name, (long long)a->heads, x->name, shape_text(x).text);
  RETURN_IF(!(a->base > 0 && a->base < INFINITY), NEAP_INVALID_ARGUMENT,
            "Rotary '%s': base %g must be positive", node->name, (double)a->base);
  const int64_t width = a->width != 0 ? a->width : x->dims[3];
  RETURN_IF(width < 2 || width % 2 != 0 || width > x->dims[3], NEAP_INVALID_ARGUMENT,
            "Rotary '%s': cannot rotate %lld elements of heads of %lld; the number must be even, and at most "
            "theirs",
            node->name, (long long)width, (long long)x->dims[3]);
  const struct rotary_scaling *s = &a->scaling;
  RETURN_IF(!(s->amplitude >= 0 && s->amplitude < INFINITY), NEAP_INVALID_ARGUMENT,
            "Rotary '%s': what is rotated is multiplied by %g; it must be positive", node->name,
            (double)s->amplitude);
  RETURN_IF(!(s->factor >= 0 && s->factor < INFINITY) || s->places < 0 ||
                (s->places > 0 && !(s->low > 0 && s->high > s->low && s->high < INFINITY)),
            NEAP_INVALID_ARGUMENT,
            "Rotary '%s': scaling by %g between %g and %g turns of %lld positions: the factor must not be "
            "negative, and the second number of turns must be above the first",
            node->name, (double)s->factor, (double)s->low, (double)s->high, (long long)s->places);
  return infer_same(graph, node, outputs);
}

static neap_status gradient_rotary(struct gradient *g, const struct node *n) {
  struct node back = *n;
  back.attributes.rotary.back = !n->attributes.rotary.back;
  return GRADIENT_EMIT(g, OP_ROTARY, &back, n->inputs[ROTARY_X], g->of[n->outputs[0]],
                       n->inputs[ROTARY_POSITION]);
}

const struct op_row op_row_rotary = {"Rotary",
                                     "pairs of elements turned by their row's position; its own gradient",
                                     "rotary",
                                     1,
                                     infer_rotary,
                                     gradient_rotary,
                                     ROW_INPLACE(inplace_first),
                                     ROW_ATTRIBUTES(rotary_attributes),
                                     .slots = ROTARY_INPUTS,
                                     .takes = {[ROTARY_POSITION] = TYPE_I32},
                                     .split = {1 << ROTARY_X, 1, 0}};

neap_tensor builder_rotary(neap_builder *b, neap_tensor x, struct rotary_attributes a, neap_tensor position,
                           const float *divisors) {
  const neap_tensor y =
      builder_next(b, OP_ROTARY, builder_attributes(OP_ROTARY, (union attributes){.rotary = a}),
                   (int32_t[]){x, position}, ROTARY_INPUTS);
  if (y < 0 || divisors == NULL) return y;
  struct neap_graph *graph = builder_graph(b);
  struct node *node = &graph->nodes.data[graph->nodes.count - 1];
  const int64_t width = a.width != 0 ? a.width : builder_tensor(b, x)->dims[3];
  node->numbers = region_copy(&graph->region, divisors, (size_t)width / 2, sizeof *divisors);
  if (node->numbers == NULL) return builder_fail(b, neap_fail(NEAP_OUT_OF_MEMORY, "Rotary: out of memory"));
  node->number_count = (int32_t)(width / 2);
  return y;
}

neap_tensor neap_rotary(neap_builder *b, neap_tensor x, int64_t heads, float base, int64_t first) {
  return builder_rotary(b, x, (struct rotary_attributes){.heads = heads, .first = first, .base = base},
                        NO_TENSOR, NULL);
}

neap_tensor neap_rotary_at(neap_builder *b, neap_tensor x, int64_t heads, float base, neap_tensor position) {
  if (!builder_usable(b, x) || !builder_usable(b, position)) return FAILED;
  return builder_rotary(b, x, (struct rotary_attributes){.heads = heads, .base = base}, position, NULL);
}
