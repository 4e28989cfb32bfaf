/* Low-rank adapters of linear layers: LoRA (Hu et al. 2021), and DoRA (Liu et al. 2024). */
#include <math.h>
#include <stdlib.h>
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
                  "query_global,key_global,value_global,"   /* Longformer */
                  "qkv,projection,attended,global_query,global_key,global_value"}, /* src/zoo */
    {NULL, "q_proj,v_proj"},
    {NULL, "c_attn"},
    {NULL, "qkv,query,value"},
};
enum { LAYER_SETS = sizeof layer_sets / sizeof *layer_sets };

/* The use that products of a graph make of a parameter. */
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

/* Takes "=RANK" off the end of a pattern: the rank of the adapters of what it matches. */
static neap_status take_rank(struct pattern *pattern, int32_t *rank) {
  char *equals = strchr(pattern->text, '='), *end;
  if (equals == NULL) return NEAP_OK;
  const long value = strtol(equals + 1, &end, 10);
  RETURN_IF(
      pattern->without || equals == pattern->text || end == equals + 1 || *end != '\0' || value < 1 ||
          value > INT32_MAX,
      NEAP_INVALID_ARGUMENT,
      "lora: '%s%s': the rank of layers must be a number from 1 on, behind their pattern (got '%s'); give "
      "q_proj=16",
      pattern->without ? "!" : "", pattern->text, equals + 1);
  *equals = '\0';
  *rank = (int32_t)value;
  return NEAP_OK;
}

/* Gives the layers of a list their ranks, `usual` where the list has none. `*unmatched` is a pattern that
 * matches no layer; its text is "" if there is no such pattern. */
static neap_status mark_list(const struct neap_graph *graph, const enum layer_kind *kinds, const char *list,
                             int32_t usual, int32_t *ranks, struct pattern *unmatched) {
  struct pattern pattern;
  bool any;
  unmatched->text[0] = '\0';
  memset(ranks, 0, graph->tensors.count * sizeof *ranks);
  for (;;) {
    bool matched = false;
    int32_t rank = usual;
    TRY(pattern_next(&list, &pattern, &any));
    if (!any) return NEAP_OK;
    TRY(take_rank(&pattern, &rank));
    for (size_t t = 0; t < graph->tensors.count; t++)
      if (kinds[t] != LAYER_NONE && matches_layer(&pattern, graph->tensors.data[t].name)) {
        ranks[t] = pattern.without ? 0 : rank;
        matched = true;
      }
    if (!matched && unmatched->text[0] == '\0') *unmatched = pattern;
  }
}

static int32_t count_chosen(const struct neap_graph *graph, const int32_t *ranks) {
  int32_t count = 0;
  for (size_t t = 0; t < graph->tensors.count; t++) count += ranks[t] > 0;
  return count;
}

/* Marks the layers of a row, without heads. */
static neap_status mark_set(const struct neap_graph *graph, const enum layer_kind *kinds, const char *layers,
                            int32_t usual, int32_t *ranks) {
  struct pattern unmatched;
  TRY(mark_list(graph, kinds, layers, usual, ranks, &unmatched));
  for (size_t t = 0; t < graph->tensors.count; t++)
    if (kinds[t] != LAYER_LINEAR) ranks[t] = 0;
  return NEAP_OK;
}

/* Returns the first linear layer, for messages. */
static const char *first_layer(const struct neap_graph *graph, const enum layer_kind *kinds) {
  for (size_t t = 0; t < graph->tensors.count; t++)
    if (kinds[t] == LAYER_LINEAR || kinds[t] == LAYER_HEAD) return graph->tensors.data[t].name;
  return "none";
}

static neap_status mark_patterns(const struct neap_graph *graph, const enum layer_kind *kinds,
                                 const char *list, int32_t usual, int32_t *ranks) {
  struct pattern unmatched;
  TRY(mark_list(graph, kinds, list, usual, ranks, &unmatched));
  RETURN_IF(unmatched.text[0] != '\0', NEAP_INVALID_ARGUMENT,
            "lora: '%s' has no linear layer that '%s' matches; its first linear weight is '%s'", graph->name,
            unmatched.text, first_layer(graph, kinds));
  for (size_t t = 0; t < graph->tensors.count; t++)
    RETURN_IF(ranks[t] > 0 && kinds[t] >= LAYER_TIED, NEAP_INVALID_ARGUMENT,
              "lora: '%s' is %s of '%s', which has no place for an adapter; take it out with '!%s'",
              graph->tensors.data[t].name,
              kinds[t] == LAYER_LOSS ? "part of the loss" : "the embedding and the head", graph->name,
              graph->tensors.data[t].name);
  return NEAP_OK;
}

static neap_status mark_layers(const struct neap_graph *graph, const char *layers, int32_t usual,
                               int32_t *ranks) {
  enum layer_kind *kinds = find_layers(graph);
  RETURN_IF_NULL(kinds);
  neap_status status = NEAP_OK;
  bool named = false;
  for (int i = 0; status == NEAP_OK && i < LAYER_SETS && !named; i++) {
    const char *name = layer_sets[i].name;
    if ((name == NULL) != (layers == NULL) || (name != NULL && strcmp(name, layers) != 0)) continue;
    status = mark_set(graph, kinds, layer_sets[i].layers, usual, ranks);
    named = layers != NULL || count_chosen(graph, ranks) > 0;
  }
  if (status == NEAP_OK && !named && layers != NULL)
    status = mark_patterns(graph, kinds, layers, usual, ranks);
  if (status == NEAP_OK && count_chosen(graph, ranks) == 0)
    status = neap_fail(NEAP_INVALID_ARGUMENT,
                       "lora: no layer of '%s' is named by %s; its first linear weight is '%s'; name layers "
                       "by a pattern (`lora-layers`)",
                       graph->name, layers != NULL ? layers : "the usual list (q_proj, c_attn, qkv, query)",
                       first_layer(graph, kinds));
  free(kinds);
  return status;
}

/* ---- Their adapters ---- */

float lora_scale(float alpha, int64_t rank, bool root) {
  return alpha / (root ? (float)sqrt((double)rank) : (float)rank);
}

struct lora {
  struct copy copy;
  const struct lora_options *options;
  const int32_t *ranks; /* by tensor of the old graph; 0: it gets no adapter */
  int32_t *a, *b,
      *m;         /* by tensor of the old graph: its adapter's parameters in the new one; NO_TENSOR: none */
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
              "lora: '%s' already has a tensor '%s'; leave its layer out (`lora-layers`)", l->copy.from->name,
              tensor.name);
  tensor.role = NEAP_ROLE_PARAMETER;
  tensor.adapter = true;
  tensor.view_of = -1;
  return graph_add_tensor(l->copy.to, tensor, id);
}

/* Returns the experts whose weights a node multiplies by; each has an adapter. */
static int64_t experts_of(const struct lora *l, const struct node *node) {
  return node->op == OP_EXPERT_LINEAR ? node_input(l->copy.from, node, EXPERT_ENDS)->dims[0] : 1;
}

/* Returns true if the layer has its weights as [inputs, outputs]. */
static bool is_swapped(const struct node *node) {
  return node->op == OP_MATMUL && !node->attributes.matmul.b_transposed;
}

/* Adds A [rank, inputs], which starts as a linear layer's weights in PyTorch; B [outputs, rank], which starts
 * with 0; and for DoRA the lengths [outputs] of the weights, which start as those of the layer. Those of
 * experts stand one behind the other. */
static neap_status add_parameters(struct lora *l, const struct node *node, int32_t weight) {
  const struct tensor w = l->copy.from->tensors.data[weight], *x = node_input(l->copy.from, node, 0);
  const int32_t axis = is_swapped(node);
  const int64_t inputs = w.dims[1 - axis], outputs = w.dims[axis], rank = l->ranks[weight];
  RETURN_IF(
      l->options->dora && node->op == OP_EXPERT_LINEAR, NEAP_UNSUPPORTED,
      "lora: '%s' holds the weights of experts, which DoRA does not adapt; leave them out of its layers",
      w.name);
  if (l->a[weight] != NO_TENSOR) return NEAP_OK;
  TRY(add_parameter(l, weight, "lora_A.weight",
                    (struct tensor){.dtype = x->dtype,
                                    .initial = NEAP_INITIAL_UNIFORM,
                                    .scale = (float)(1 / sqrt((double)inputs)),
                                    .rank = 2,
                                    .dims = {rank * experts_of(l, node), inputs}},
                    &l->a[weight]));
  TRY(add_parameter(l, weight, "lora_B.weight",
                    (struct tensor){.dtype = x->dtype,
                                    .initial = NEAP_INITIAL_ZERO,
                                    .rate = l->options->plus,
                                    .rank = 2,
                                    .dims = {outputs, rank}},
                    &l->b[weight]));
  if (!l->options->dora) return NEAP_OK;
  return add_parameter(l, weight, "lora_magnitude_vector",
                       (struct tensor){.dtype = x->dtype,
                                       .initial = NEAP_INITIAL_ZERO,
                                       .norms_of = 1 + axis,
                                       .rank = 1,
                                       .dims = {outputs}},
                       &l->m[weight]);
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

/* Applies a part of the adapter to x. */
static neap_status apply_part(struct lora *l, const struct node *node, const char *name, int32_t x,
                              int32_t part, int32_t *y) {
  int32_t inputs[] = {x, part, NO_TENSOR};
  if (node->op != OP_EXPERT_LINEAR) return apply(l, OP_LINEAR, name, (union attributes){0}, inputs, 2, y);
  TRY(copy_tensor(&l->copy, node->inputs[EXPERT_ENDS], &inputs[EXPERT_ENDS]));
  return apply(l, OP_EXPERT_LINEAR, name, (union attributes){0}, inputs, EXPERT_INPUTS, y);
}

/* Gives the factors of a layer's outputs in DoRA: their lengths over the norms of the rows of W + scale B A,
 * through which no gradient flows. The square of a norm is |w|^2 + b (2 scale (W A^T) + scale^2 B (A A^T)),
 * row by row, so that no matrix as large as W is made beside its squares. */
static neap_status lengths(struct lora *l, const struct node *node, int32_t weight, float scale,
                           int32_t *factors) {
  static const union attributes second_turned = {.matmul = {.b_transposed = true}};
  const char *name = name_of(l, weight, "lora_magnitude_vector");
  const bool swapped = is_swapped(node);
  int32_t w, a, b, squares, with_a, of_a, with_b, norms;
  RETURN_IF_NULL(name);
  TRY(copy_tensor(&l->copy, weight, &w));
  TRY(apply(l, OP_STOP_GRADIENT, name, (union attributes){0}, &l->a[weight], 1, &a));
  TRY(apply(l, OP_STOP_GRADIENT, name, (union attributes){0}, &l->b[weight], 1, &b));
  TRY(apply(l, OP_MULTIPLY, name, (union attributes){0}, (int32_t[]){w, w}, 2, &squares));
  TRY(apply(l, OP_SUM, name, (union attributes){.axes = {.axes = swapped ? 1 : 2, .scale = 1}}, &squares, 1,
            &squares));
  TRY(apply(l, OP_MATMUL, name, (union attributes){.matmul = {.a_transposed = swapped, .b_transposed = true}},
            (int32_t[]){w, a}, 2, &with_a));
  TRY(apply(l, OP_MATMUL, name, second_turned, (int32_t[]){a, a}, 2, &of_a));
  TRY(apply(l, OP_MATMUL, name, (union attributes){0}, (int32_t[]){b, of_a}, 2, &with_b));
  TRY(apply(l, OP_SCALE, name, (union attributes){.scalar = {.a = 2 * scale}}, &with_a, 1, &with_a));
  TRY(apply(l, OP_SCALE, name, (union attributes){.scalar = {.a = scale * scale}}, &with_b, 1, &with_b));
  TRY(apply(l, OP_ADD, name, (union attributes){0}, (int32_t[]){with_a, with_b}, 2, &with_a));
  TRY(apply(l, OP_MULTIPLY, name, (union attributes){0}, (int32_t[]){with_a, b}, 2, &with_a));
  TRY(apply(l, OP_SUM, name, (union attributes){.axes = {.axes = 2, .scale = 1}}, &with_a, 1, &with_a));
  const int64_t outputs = l->copy.to->tensors.data[l->m[weight]].dims[0];
  TRY(graph_add_view(l->copy.to, squares, 1, &outputs, &squares));
  TRY(graph_add_view(l->copy.to, with_a, 1, &outputs, &with_a));
  TRY(apply(l, OP_ADD, name, (union attributes){0}, (int32_t[]){squares, with_a}, 2, &norms));
  TRY(apply(l, OP_SQRT, name, (union attributes){0}, &norms, 1, &norms));
  return apply(l, OP_DIVIDE, name, (union attributes){0}, (int32_t[]){l->m[weight], norms}, 2, factors);
}

/* Replaces the node's y by y + B (scale A x). The scale is applied to the smallest tensor. For DoRA that is
 * multiplied by the factors of its outputs; then the bias is added, unless it is NO_TENSOR. */
static neap_status add_adapter(struct lora *l, const struct node *node, int32_t weight, int32_t bias) {
  const char *name_a = name_of(l, weight, "lora_A"), *name_b = name_of(l, weight, "lora_B");
  int32_t *y = &l->copy.map[node->outputs[0]], x, share, factors;
  const float scale = lora_scale(l->options->alpha, l->ranks[weight], l->options->root);
  RETURN_IF(name_a == NULL || name_b == NULL, NEAP_OUT_OF_MEMORY, "lora: out of memory");
  TRY(add_parameters(l, node, weight));
  TRY(take_rows(l, node, name_a, &x));
  TRY(apply_part(l, node, name_a, x, l->a[weight], &share));
  if (scale != 1)
    TRY(apply(l, OP_SCALE, name_a, (union attributes){.scalar = {.a = scale}}, &share, 1, &share));
  TRY(apply_part(l, node, name_b, share, l->b[weight], &share));
  const struct tensor t = l->copy.to->tensors.data[*y];
  if (t.rank != 2) TRY(graph_add_view(l->copy.to, share, t.rank, t.dims, &share));
  TRY(apply(l, OP_ADD, name_b, (union attributes){0}, (int32_t[]){*y, share}, 2, y));
  if (!l->options->dora) return NEAP_OK;
  TRY(lengths(l, node, weight, scale, &factors));
  TRY(apply(l, OP_MULTIPLY, name_b, (union attributes){0}, (int32_t[]){*y, factors}, 2, y));
  return bias == NO_TENSOR ? NEAP_OK
                           : apply(l, OP_ADD, name_b, (union attributes){0}, (int32_t[]){*y, bias}, 2, y);
}

static neap_status add_all(struct lora *l) {
  for (size_t v = 0; v < l->copy.from->nodes.count; v++) {
    struct node node = l->copy.from->nodes.data[v];
    const int32_t weight = matrix_of(l->copy.from, &node);
    const bool adapted = weight != NO_TENSOR && l->ranks[weight] > 0;
    int32_t bias = NO_TENSOR, inputs[MAX_SLOTS];
    if (adapted && l->options->dora && node.op == OP_LINEAR && node.inputs[2] != NO_TENSOR) {
      TRY(copy_tensor(&l->copy, node.inputs[2], &bias));
      memcpy(inputs, node.inputs, (size_t)node.input_count * sizeof *inputs);
      inputs[2] = NO_TENSOR;
      node.inputs = inputs;
    }
    TRY(copy_node(&l->copy, node));
    if (adapted) TRY(add_adapter(l, &node, weight, bias));
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
                                const int32_t *ranks, struct neap_graph **out) {
  struct lora l = {.options = options, .ranks = ranks, .stream = next_stream(graph)};
  int32_t *ids = malloc(3 * graph->tensors.count * sizeof *ids + 1);
  RETURN_IF_NULL(ids);
  for (size_t t = 0; t < 3 * graph->tensors.count; t++) ids[t] = NO_TENSOR;
  l.a = ids;
  l.b = ids + graph->tensors.count;
  l.m = l.b + graph->tensors.count;
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
  int32_t *ranks = calloc(graph->tensors.count + 1, sizeof *ranks);
  RETURN_IF_NULL(ranks);
  neap_status status = mark_layers(graph, options->layers, options->rank, ranks);
  const char *freeze = options->freeze;
  if (status == NEAP_OK) status = add_adapters(graph, options, ranks, &adapted);
  if (status == NEAP_OK && freeze == NULL) status = frozen_by_adapters(adapted, &freeze);
  if (status == NEAP_OK) status = rewrite_freeze(adapted, freeze, out);
  neap_graph_free(adapted);
  free(ranks);
  return status;
}
