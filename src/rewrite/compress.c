/* Values that the backward pass reads, in blocks of few bits. */
#include <string.h>

#include "base/pattern.h"
#include "rewrite/copy.h"

enum { COMPRESS_FROM = 1024 }; /* elements */

neap_status compress_parse(const char *text, neap_dtype *dtype, const char **list) {
  struct pattern pattern;
  bool any = true;
  const char *rest = text + (*text != '\0');
  RETURN_IF((*text != '8' && *text != '4') || (*rest != '\0' && (*rest != ':' || rest[1] == '\0')),
            NEAP_INVALID_ARGUMENT, "compress: '%s' is neither 8 nor 4 nor 8:PATTERN nor 4:PATTERN", text);
  *dtype = *text == '8' ? NEAP_C8 : NEAP_C4;
  *list = *rest == ':' ? rest + 1 : NULL;
  for (const char *next = *list; next != NULL && any;) TRY(pattern_next(&next, &pattern, &any));
  return NEAP_OK;
}

/* Facts about a tensor of the training graph; a view has those of its storage. */
struct values {
  bool *of_inputs, *of_variables; /* it depends on some */
  bool *read, *exact;             /* by a gradient; exactly */
  bool *packed;                   /* it gets a Compress */
  int32_t *numbers;               /* what its Dequantise makes, in the new graph; NO_TENSOR: not made yet */
};

static neap_status values_create(struct values *v, struct region *region, size_t count) {
  *v = (struct values){
      region_alloc(region, count, sizeof *v->of_inputs), region_alloc(region, count, sizeof *v->of_variables),
      region_alloc(region, count, sizeof *v->read),      region_alloc(region, count, sizeof *v->exact),
      region_alloc(region, count, sizeof *v->packed),    region_alloc(region, count, sizeof *v->numbers)};
  RETURN_IF(!v->of_inputs || !v->of_variables || !v->read || !v->exact || !v->packed || !v->numbers,
            NEAP_OUT_OF_MEMORY, "compress: out of memory");
  for (size_t t = 0; t < count; t++) v->numbers[t] = NO_TENSOR;
  return NEAP_OK;
}

/* Finds what values are made of. What comes of variables alone, such as weights that are stored otherwise, is
 * none of a batch; what comes of inputs alone is like an input. */
static void find_origins(const struct neap_graph *graph, const struct values *v) {
  for (size_t t = 0; t < graph->tensors.count; t++) {
    v->of_inputs[t] = graph->tensors.data[t].role == NEAP_ROLE_INPUT;
    v->of_variables[t] =
        graph->tensors.data[t].role == NEAP_ROLE_PARAMETER || graph->tensors.data[t].role == NEAP_ROLE_STATE;
  }
  for (size_t n = 0; n < graph->nodes.count; n++) {
    const struct node *node = &graph->nodes.data[n];
    for (int32_t i = 0; i < node->input_count; i++) {
      if (node->inputs[i] == NO_TENSOR) continue;
      const int32_t from = graph_storage(graph, node->inputs[i]);
      for (int32_t o = 0; o < node->output_count; o++) {
        v->of_inputs[node->outputs[o]] |= v->of_inputs[from];
        v->of_variables[node->outputs[o]] |= v->of_variables[from];
      }
    }
  }
}

/* Returns true if input `i` of a node is read by a gradient as rounded numbers could be. */
static bool reads_rounded(const struct node *node, int32_t i) {
  const uint32_t other = node_exact(node) | node_row(node)->sign;
  return node->pass == NEAP_PASS_BACKWARD && node->inputs[i] != NO_TENSOR &&
         (i >= MAX_SLOTS || !(other >> i & 1));
}

static void find_reads(const struct neap_graph *graph, const struct values *v) {
  for (size_t n = 0; n < graph->nodes.count; n++) {
    const struct node *node = &graph->nodes.data[n];
    for (int32_t i = 0; i < node->input_count; i++) {
      if (node->pass != NEAP_PASS_BACKWARD || node->inputs[i] == NO_TENSOR) continue;
      const int32_t t = graph_storage(graph, node->inputs[i]);
      v->read[t] |= reads_rounded(node, i);
      v->exact[t] |= i < MAX_SLOTS && (node_exact(node) >> i & 1);
    }
  }
}

/* Returns true for a value that the forward pass made of records, whatever its size. */
static bool is_activation(const struct neap_graph *graph, const struct values *v, size_t id) {
  const struct tensor *t = &graph->tensors.data[id];
  return t->role == NEAP_ROLE_VALUE && t->view_of < 0 && t->producer >= 0 && t->lies_in == 0 &&
         graph->nodes.data[t->producer].pass == NEAP_PASS_FORWARD && type_set_has(TYPES_FLOAT, t->dtype) &&
         v->of_inputs[id] && v->of_variables[id] && v->read[id] && !v->exact[id];
}

/* Fails if a pattern of the list matches no value. */
static neap_status check_list(const struct neap_graph *graph, const struct values *v, const char *list) {
  struct pattern pattern;
  bool any = true;
  for (const char *next = list; next != NULL;) {
    const char *first = "none";
    bool matches = false;
    TRY(pattern_next(&next, &pattern, &any));
    if (!any) return NEAP_OK;
    for (size_t t = graph->tensors.count; t-- > 0 && !matches;) {
      if (!is_activation(graph, v, t)) continue;
      first = graph->tensors.data[t].name;
      matches = pattern_matches(&pattern, first);
    }
    RETURN_IF(
        !matches, NEAP_INVALID_ARGUMENT,
        "compress: '%s' has no value that '%s' matches and that the backward pass may read rounded; the "
        "first is '%s'",
        graph->name, pattern.text, first);
  }
  return NEAP_OK;
}

static neap_status find_packed(const struct neap_graph *graph, const struct values *v, const char *list) {
  find_origins(graph, v);
  find_reads(graph, v);
  TRY(check_list(graph, v, list));
  for (size_t t = 0; t < graph->tensors.count; t++)
    v->packed[t] = is_activation(graph, v, t) && graph->tensors.data[t].elements >= COMPRESS_FROM &&
                   (list == NULL || pattern_list_has(list, graph->tensors.data[t].name));
  return NEAP_OK;
}

/* Appends x -> y in another type. */
static neap_status add_typed(struct copy *copy, enum op op, neap_pass pass, neap_dtype dtype, int32_t x,
                             int32_t *y) {
  struct tensor made = value_like(&copy->to->tensors.data[x]);
  made.name = copy->to->tensors.data[x].name;
  made.dtype = dtype;
  TRY(graph_add_tensor(copy->to, made, y));
  return graph_add_node(copy->to, (struct node){.name = made.name,
                                                .op = op,
                                                .pass = pass,
                                                .attributes = {.dtype = (int32_t)dtype},
                                                .inputs = &x,
                                                .input_count = 1,
                                                .outputs = y,
                                                .output_count = 1});
}

/* Copies a node that makes values, and rounds those that gradients read. `blocks`: by tensor. */
static neap_status copy_maker(struct copy *copy, const struct node *node, const struct values *v,
                              neap_dtype dtype, int32_t *blocks) {
  TRY(copy_node(copy, *node));
  for (int32_t o = 0; o < node->output_count; o++) {
    const int32_t t = node->outputs[o];
    if (v->packed[t]) TRY(add_typed(copy, OP_COMPRESS, NEAP_PASS_FORWARD, dtype, copy->map[t], &blocks[t]));
  }
  return NEAP_OK;
}

/* Gives the numbers of a value, or of a view of it. */
static neap_status rounded(struct copy *copy, int32_t old, const struct values *v, const int32_t *blocks,
                           int32_t *id) {
  const struct tensor *view = &copy->from->tensors.data[old];
  const int32_t t = graph_storage(copy->from, old);
  if (v->numbers[t] == NO_TENSOR)
    TRY(add_typed(copy, OP_DEQUANTISE, NEAP_PASS_BACKWARD, copy->from->tensors.data[t].dtype, blocks[t],
                  &v->numbers[t]));
  *id = v->numbers[t];
  return view->view_of < 0 ? NEAP_OK : graph_add_view(copy->to, *id, view->rank, view->dims, id);
}

/* Copies a node of the backward pass. */
static neap_status copy_gradient(struct copy *copy, const struct node *node, const struct values *v,
                                 const int32_t *blocks) {
  int32_t outputs[NODE_MAX_OUTPUTS];
  copy->ids.count = 0;
  TRY(vector_reserve(&copy->ids, (size_t)node->input_count + 1));
  int32_t *inputs = copy->ids.data;
  for (int32_t i = 0; i < node->input_count; i++) {
    if (reads_rounded(node, i) && v->packed[graph_storage(copy->from, node->inputs[i])])
      TRY(rounded(copy, node->inputs[i], v, blocks, &inputs[i]));
    else
      TRY(copy_tensor(copy, node->inputs[i], &inputs[i]));
  }
  struct node made = *node;
  for (int32_t o = 0; o < node->output_count; o++) {
    TRY(copy_value(copy, node->outputs[o]));
    outputs[o] = copy->map[node->outputs[o]];
  }
  made.inputs = inputs;
  made.outputs = outputs;
  return graph_add_node(copy->to, made);
}

static neap_status compress_all(struct copy *copy, struct region *region, neap_dtype dtype,
                                const char *list) {
  const struct neap_graph *from = copy->from;
  struct values v;
  int32_t *blocks = region_alloc(region, from->tensors.count, sizeof *blocks);
  RETURN_IF_NULL(blocks);
  TRY(values_create(&v, region, from->tensors.count));
  TRY(find_packed(from, &v, list));
  for (size_t n = 0; n < from->nodes.count; n++) {
    const struct node *node = &from->nodes.data[n];
    if (node->pass == NEAP_PASS_BACKWARD && node->update_count == 0)
      TRY(copy_gradient(copy, node, &v, blocks));
    else
      TRY(copy_maker(copy, node, &v, dtype, blocks));
  }
  return NEAP_OK;
}

neap_status rewrite_compress(const struct neap_graph *graph, const char *text, struct neap_graph **out) {
  struct copy copy;
  struct region region = {0};
  struct neap_graph *rounding;
  neap_dtype dtype;
  const char *list;
  TRY(compress_parse(text, &dtype, &list));
  TRY(copy_begin(&copy, graph, NULL));
  neap_status status = compress_all(&copy, &region, dtype, list);
  region_free(&region);
  TRY(copy_end(&copy, status, &rounding));
  status = rewrite_mask(rounding, out);
  neap_graph_free(rounding);
  return status;
}
