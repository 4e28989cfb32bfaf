/* Low-rank adapters of linear layers: LoRA (Hu et al. 2021). */
#include <math.h>
#include <string.h>

#include "base/pattern.h"
#include "op/layers.h"
#include "rewrite/copy.h"

/* ---- Choosing layers ---- */

/* Named lists of layers. Without a name, the first list that matches a layer is used. */
static const struct {
  const char *name, *layers;
} layer_sets[] = {
    {"all", "*"},
    {"attention", "q_proj,k_proj,v_proj,o_proj,out_proj,"   /* Llama and its kin, OPT */
                  "c_attn,attn.c_proj,"                     /* GPT-2 */
                  "query,key,value,attention.output.dense," /* BERT */
                  "qkv,projection,attended"},               /* src/zoo */
    {NULL, "q_proj,v_proj"},
    {NULL, "c_attn"},
    {NULL, "qkv,query,value"},
};
enum { LAYER_SETS = sizeof layer_sets / sizeof *layer_sets };

/* How products of a graph use a parameter. */
enum layer_kind {
  LAYER_NONE,
  LAYER_LINEAR,
  LAYER_HEAD, /* its product gives the logits */
  LAYER_TIED, /* the same of one that is an embedding, too: no file has an adapter of one of the two uses */
  LAYER_LOSS  /* a loss has the product in itself: an adapter has no place there */
};

/* Returns each tensor's kind, which the caller frees; NULL: out of memory. */
static enum layer_kind *find_layers(const struct neap_graph *graph) {
  enum layer_kind *kinds = calloc(graph->tensors.count + 1, sizeof *kinds);
  bool *logits = calloc(graph->tensors.count + 1, sizeof *logits);
  if (kinds != NULL && logits != NULL) mark_logits(graph, logits);
  for (size_t v = 0; kinds != NULL && logits != NULL && v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    const int32_t w = matrix_of(graph, node);
    if (node->op == OP_LINEAR_CROSS_ENTROPY)
      kinds[graph_storage(graph, node->inputs[LOSS_WEIGHTS])] = LAYER_LOSS;
    if (w == NO_TENSOR || kinds[w] > LAYER_LINEAR || graph->tensors.data[w].kept) continue;
    const bool head = logits[graph_storage(graph, node->outputs[0])];
    kinds[w] = !head ? LAYER_LINEAR : is_embedding(graph, w) ? LAYER_TIED : LAYER_HEAD;
  }
  if (logits == NULL) free(kinds);
  free(logits);
  return logits != NULL ? kinds : NULL;
}

neap_status find_linear_weights(const struct neap_graph *graph, bool *linear) {
  enum layer_kind *kinds = find_layers(graph);
  RETURN_IF(kinds == NULL, NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", graph->name);
  for (size_t t = 0; t < graph->tensors.count; t++) linear[t] = kinds[t] == LAYER_LINEAR;
  free(kinds);
  return NEAP_OK;
}

static size_t module_length(const char *weight) {
  static const char ending[] = ".weight";
  const size_t length = strlen(weight), end = sizeof ending - 1;
  return length > end && strcmp(weight + length - end, ending) == 0 ? length - end : length;
}

/* Returns true if a pattern matches the weight's name or, without * and ?, the end of its layer's name. */
static bool matches_layer(const struct pattern *pattern, const char *weight) {
  const size_t module = module_length(weight), length = strlen(pattern->text);
  if (pattern_matches(pattern, weight)) return true;
  if (length > module || memcmp(weight + module - length, pattern->text, length) != 0) return false;
  return length == module || weight[module - length - 1] == '.';
}

/* Marks the layers of a list. `*unmatched` is a pattern that matches no layer; its text is "" if there is no
 * such pattern. */
static neap_status mark_list(const struct neap_graph *graph, const enum layer_kind *kinds, const char *list,
                             bool *chosen, struct pattern *unmatched) {
  struct pattern pattern;
  bool any;
  unmatched->text[0] = '\0';
  memset(chosen, 0, graph->tensors.count * sizeof *chosen);
  for (;;) {
    bool matched = false;
    TRY(pattern_next(&list, &pattern, &any));
    if (!any) return NEAP_OK;
    for (size_t t = 0; t < graph->tensors.count; t++)
      if (kinds[t] != LAYER_NONE && matches_layer(&pattern, graph->tensors.data[t].name)) {
        chosen[t] = !pattern.without;
        matched = true;
      }
    if (!matched && unmatched->text[0] == '\0') *unmatched = pattern;
  }
}

static int32_t count_chosen(const struct neap_graph *graph, const bool *chosen) {
  int32_t count = 0;
  for (size_t t = 0; t < graph->tensors.count; t++) count += chosen[t];
  return count;
}

/* Marks the layers of a row, without heads. */
static neap_status mark_set(const struct neap_graph *graph, const enum layer_kind *kinds, const char *layers,
                            bool *chosen) {
  struct pattern unmatched;
  TRY(mark_list(graph, kinds, layers, chosen, &unmatched));
  for (size_t t = 0; t < graph->tensors.count; t++) chosen[t] = chosen[t] && kinds[t] == LAYER_LINEAR;
  return NEAP_OK;
}

/* Returns the first linear layer, for messages. */
static const char *first_layer(const struct neap_graph *graph, const enum layer_kind *kinds) {
  for (size_t t = 0; t < graph->tensors.count; t++)
    if (kinds[t] == LAYER_LINEAR || kinds[t] == LAYER_HEAD) return graph->tensors.data[t].name;
  return "none";
}

static neap_status mark_patterns(const struct neap_graph *graph, const enum layer_kind *kinds,
                                 const char *list, bool *chosen) {
  struct pattern unmatched;
  TRY(mark_list(graph, kinds, list, chosen, &unmatched));
  RETURN_IF(unmatched.text[0] != '\0', NEAP_INVALID_ARGUMENT,
            "lora: '%s' has no linear layer that '%s' matches; its first linear weight is '%s'", graph->name,
            unmatched.text, first_layer(graph, kinds));
  for (size_t t = 0; t < graph->tensors.count; t++)
    RETURN_IF(chosen[t] && kinds[t] >= LAYER_TIED, NEAP_INVALID_ARGUMENT,
              "lora: '%s' is %s of '%s', which has no place for an adapter; take it out with '!%s'",
              graph->tensors.data[t].name,
              kinds[t] == LAYER_LOSS ? "part of the loss" : "the embedding and the head", graph->name,
              graph->tensors.data[t].name);
  return NEAP_OK;
}

static neap_status mark_layers(const struct neap_graph *graph, const char *layers, bool *chosen) {
  enum layer_kind *kinds = find_layers(graph);
  RETURN_IF_NULL(kinds);
  neap_status status = NEAP_OK;
  bool named = false;
  for (int i = 0; status == NEAP_OK && i < LAYER_SETS && !named; i++) {
    const char *name = layer_sets[i].name;
    if ((name == NULL) != (layers == NULL) || (name != NULL && strcmp(name, layers) != 0)) continue;
    status = mark_set(graph, kinds, layer_sets[i].layers, chosen);
    named = layers != NULL || count_chosen(graph, chosen) > 0;
  }
  if (status == NEAP_OK && !named && layers != NULL) status = mark_patterns(graph, kinds, layers, chosen);
  if (status == NEAP_OK && count_chosen(graph, chosen) == 0)
    status = neap_fail(NEAP_INVALID_ARGUMENT,
                       "lora: no layer of '%s' is named by %s; its first linear weight is '%s'; name layers "
                       "by a pattern (--lora-layers)",
                       graph->name, layers != NULL ? layers : "the usual list (q_proj, c_attn, qkv, query)",
                       first_layer(graph, kinds));
  free(kinds);
  return status;
}

/* ---- Their adapters ---- */

struct lora {
  struct copy copy;
  const struct lora_options *options;
  const bool *chosen;
  int32_t *a, *b; /* by tensor of the old graph: its adapter's parameters in the new one; NO_TENSOR: none */
  int32_t stream; /* the next random stream that no node has */
};

static const char *name_of(const struct lora *l, int32_t weight, const char *part) {
  const char *name = l->copy.from->tensors.data[weight].name;
  return region_format(&l->copy.to->region, "%.*s.%s", (int)module_length(name), name, part);
}

static neap_status add_parameter(struct lora *l, int32_t weight, const char *part, struct tensor tensor,
                                 int32_t *id) {
  tensor.name = name_of(l, weight, part);
  RETURN_IF_NULL(tensor.name);
  for (size_t t = 0; t < l->copy.from->tensors.count; t++)
    RETURN_IF(strcmp(l->copy.from->tensors.data[t].name, tensor.name) == 0, NEAP_INVALID_ARGUMENT,
              "lora: '%s' already has a tensor '%s'; leave its layer out (--lora-layers)", l->copy.from->name,
              tensor.name);
  tensor.role = NEAP_ROLE_PARAMETER;
  tensor.adapter = true;
  tensor.rank = 2;
  tensor.view_of = -1;
  return graph_add_tensor(l->copy.to, tensor, id);
}

/* Adds A [rank, inputs], which starts as a linear layer's weights in PyTorch, and B [outputs, rank], which
 * starts with 0. */
static neap_status add_parameters(struct lora *l, const struct node *node, int32_t weight) {
  const struct tensor w = l->copy.from->tensors.data[weight], *x = node_input(l->copy.from, node, 0);
  const bool swapped = node->op == OP_MATMUL && !node->attributes.matmul.b_transposed;
  const int64_t inputs = w.dims[swapped ? 0 : 1], outputs = w.dims[swapped ? 1 : 0], rank = l->options->rank;
  if (l->a[weight] != NO_TENSOR) return NEAP_OK;
  TRY(add_parameter(l, weight, "lora_A.weight",
                    (struct tensor){.dtype = x->dtype,
                                    .initial = NEAP_INITIAL_UNIFORM,
                                    .scale = (float)(1 / sqrt((double)inputs)),
                                    .dims = {rank, inputs}},
                    &l->a[weight]));
  return add_parameter(
      l, weight, "lora_B.weight",
      (struct tensor){.dtype = x->dtype, .initial = NEAP_INITIAL_ZERO, .dims = {outputs, rank}},
      &l->b[weight]);
}

/* `output` may be one of the inputs. */
static neap_status apply(struct lora *l, enum op op, const char *name, union attributes attributes,
                         const int32_t *inputs, int32_t count, int32_t *output) {
  int32_t made;
  TRY(graph_apply(l->copy.to, op, name, &attributes, inputs, count, &made));
  *output = made;
  return NEAP_OK;
}

/* Views the product's input as rows and applies the dropout. */
static neap_status take_rows(struct lora *l, const struct node *node, const char *name, int32_t *x) {
  TRY(copy_tensor(&l->copy, node->inputs[0], x));
  if (l->options->dropout > 0)
    TRY(apply(l, OP_DROPOUT, name,
              (union attributes){.dropout = {.probability = l->options->dropout, .stream = l->stream++}}, x,
              1, x));
  const struct tensor *t = &l->copy.to->tensors.data[*x];
  const int64_t width = t->dims[t->rank - 1];
  return t->rank == 2 ? NEAP_OK
                      : graph_add_view(l->copy.to, *x, 2, (int64_t[]){t->elements / width, width}, x);
}

/* Replaces the node's y by y + B (scale A x). The scale is applied to the smallest tensor. */
static neap_status add_adapter(struct lora *l, const struct node *node, int32_t weight) {
  const char *name_a = name_of(l, weight, "lora_A"), *name_b = name_of(l, weight, "lora_B");
  int32_t *y = &l->copy.map[node->outputs[0]], x, share;
  const float scale = l->options->alpha / (float)l->options->rank;
  RETURN_IF(name_a == NULL || name_b == NULL, NEAP_OUT_OF_MEMORY, "lora: out of memory");
  TRY(add_parameters(l, node, weight));
  TRY(take_rows(l, node, name_a, &x));
  TRY(apply(l, OP_LINEAR, name_a, (union attributes){0}, (int32_t[]){x, l->a[weight]}, 2, &share));
  if (scale != 1)
    TRY(apply(l, OP_SCALE, name_a, (union attributes){.scalar = {.a = scale}}, &share, 1, &share));
  TRY(apply(l, OP_LINEAR, name_b, (union attributes){0}, (int32_t[]){share, l->b[weight]}, 2, &share));
  const struct tensor t = l->copy.to->tensors.data[*y];
  if (t.rank != 2) TRY(graph_add_view(l->copy.to, share, t.rank, t.dims, &share));
  return apply(l, OP_ADD, name_b, (union attributes){0}, (int32_t[]){*y, share}, 2, y);
}

static neap_status add_all(struct lora *l) {
  for (size_t v = 0; v < l->copy.from->nodes.count; v++) {
    const struct node *node = &l->copy.from->nodes.data[v];
    const int32_t weight = matrix_of(l->copy.from, node);
    TRY(copy_node(&l->copy, *node));
    if (weight != NO_TENSOR && l->chosen[weight]) TRY(add_adapter(l, node, weight));
  }
  return NEAP_OK;
}

static int32_t next_stream(const struct neap_graph *graph) {
  int32_t next = 0;
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    const int32_t stream = node->op == OP_DROPOUT     ? node->attributes.dropout.stream
                           : node->op == OP_ATTENTION ? node->attributes.attention.stream
                                                      : -1;
    if (stream >= next) next = stream + 1;
  }
  return next;
}

static neap_status add_adapters(const struct neap_graph *graph, const struct lora_options *options,
                                const bool *chosen, struct neap_graph **out) {
  struct lora l = {.options = options, .chosen = chosen, .stream = next_stream(graph)};
  int32_t *ids = malloc(2 * graph->tensors.count * sizeof *ids + 1);
  RETURN_IF_NULL(ids);
  for (size_t t = 0; t < 2 * graph->tensors.count; t++) ids[t] = NO_TENSOR;
  l.a = ids;
  l.b = ids + graph->tensors.count;
  neap_status status = copy_begin(&l.copy, graph, NULL);
  if (status == NEAP_OK) status = copy_end(&l.copy, add_all(&l), out);
  free(ids);
  return status;
}

/* Gives the patterns that freeze all parameters except those that are kept for training. */
static neap_status frozen_by_adapters(struct neap_graph *graph, const char **patterns) {
  *patterns = "*";
  for (size_t t = 0; t < graph->tensors.count; t++) {
    if (!graph->tensors.data[t].kept || !is_parameter(&graph->tensors.data[t])) continue;
    *patterns = region_format(&graph->region, "%s,!%s", *patterns, graph->tensors.data[t].name);
    RETURN_IF_NULL(*patterns);
  }
  return NEAP_OK;
}

neap_status rewrite_lora(const struct neap_graph *graph, const struct lora_options *options,
                         struct neap_graph **out) {
  struct neap_graph *adapted = NULL;
  bool *chosen = calloc(graph->tensors.count + 1, sizeof *chosen);
  RETURN_IF_NULL(chosen);
  neap_status status = mark_layers(graph, options->layers, chosen);
  const char *freeze = options->freeze;
  if (status == NEAP_OK) status = add_adapters(graph, options, chosen, &adapted);
  if (status == NEAP_OK && freeze == NULL) status = frozen_by_adapters(adapted, &freeze);
  if (status == NEAP_OK) status = rewrite_freeze(adapted, freeze, out);
  neap_graph_free(adapted);
  free(chosen);
  return status;
}
