#include <stdio.h>
#include <string.h>

#include "base/parallel.h"
#include "kernel/ranks.h"

const struct roofline usual_roofline = {
    .f32_flops = 300e9, .bf16_flops = 300e9, .bytes = 25e9, .disk = 1e9, .exchange = 6e9};

double roofline_seconds(const struct roofline *roofline, const struct neap_graph *graph,
                        const struct node *node) {
  const struct tensor *x = node->input_count > 0 ? node_input(graph, node, 0) : NULL;
  const bool bf16 = x != NULL && x->dtype == NEAP_BF16 && roofline->bf16_flops > 0;
  const double compute = node_flops(graph, node) / (bf16 ? roofline->bf16_flops : roofline->f32_flops),
               memory = node_bytes(graph, node) / roofline->bytes;
  return compute > memory ? compute : memory;
}

struct lowering {
  const struct neap_graph *from;
  struct lowered *to;
  const struct lower_options *options;
  neap_pass pass;                      /* of the current node */
  int32_t *map;                        /* tensor of `from` -> tensor of to->graph; -1: not there yet */
  VECTOR(struct memory_format) format; /* by tensor of to->graph; read it with format_of */
  VECTOR(int32_t) lies_as; /* whose format a tensor has: its own, its storage's, op_row.lies_as's */
  VECTOR(int32_t) variant; /* the next tensor with the same elements in another format; -1: none */
  VECTOR(struct kernel) kernels;
  VECTOR(double) seconds;
  VECTOR(uint64_t) workspace;
  VECTOR(int32_t) ids;                 /* inputs, then updates of the current node */
  VECTOR(struct memory_format) wanted; /* of its inputs */
};

/* Rounds a size up to the alignment, so that the planners' sums are what the layout takes. No overflow:
 * graph_add_tensor left room. */
static uint64_t round_up(uint64_t bytes) {
  return (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
}

/* ---- Tensors and nodes ---- */

static neap_status add_tensor(struct lowering *l, struct tensor tensor, struct memory_format format,
                              int32_t *id) {
  TRY(graph_add_tensor(l->to->graph, tensor, id));
  TRY(vector_push(&l->lies_as, graph_storage(l->to->graph, *id)));
  TRY(vector_push(&l->format, format));
  return vector_push(&l->variant, -1);
}

static struct memory_format *format_of(struct lowering *l, int32_t id) {
  return &l->format.data[l->lies_as.data[l->lies_as.data[id]]];
}

static neap_status add_prepared(struct lowering *l, struct node node, const struct preparation *p) {
  TRY(graph_add_node(l->to->graph, node));
  const struct node *added = &l->to->graph->nodes.data[l->to->graph->nodes.count - 1];
  TRY(vector_push(&l->seconds, p->seconds > 0
                                   ? p->seconds
                                   : roofline_seconds(&l->options->roofline, l->to->graph, added)));
  TRY(vector_push(&l->workspace, round_up(p->workspace)));
  return vector_push(&l->kernels,
                     (struct kernel){p->run, p->state, l->to->graph, (int32_t)l->to->graph->nodes.count - 1});
}

static neap_status prepare(struct lowering *l, const struct neap_graph *graph, const struct node *node,
                           struct preparation *p) {
  TRY(node_check_types(graph, node));
  const neap_status status = l->to->backend->prepare(l->to->state, graph, node, p);
  RETURN_IF(status != NEAP_OK && status != NEAP_OUT_OF_MEMORY, status, "%s '%s': %s", node_row(node)->name,
            node->name, neap_error_message());
  return status;
}

/* Adds a Reorder node, which gives the tensor in the format `want`. */
static neap_status reorder(struct lowering *l, int32_t id, struct memory_format want, int32_t *out) {
  struct neap_graph *graph = l->to->graph;
  struct tensor tensor = graph->tensors.data[id];
  tensor.role = NEAP_ROLE_VALUE;
  tensor.view_of = -1;
  tensor.lies_in = 0;
  TRY(add_tensor(l, tensor, want, out));
  const struct node node = {.name = tensor.name,
                            .op = OP_REORDER,
                            .pass = l->pass == NEAP_PASS_UPDATE ? NEAP_PASS_BACKWARD : l->pass,
                            .inputs = &id,
                            .input_count = 1,
                            .outputs = out,
                            .output_count = 1};
  struct memory_format have = *format_of(l, id);
  struct preparation p = {
      .inputs = &have, .outputs = {want}, .roofline = &l->options->roofline, .region = &l->to->region};
  TRY(prepare(l, graph, &node, &p));
  TRY(add_prepared(l, node, &p));
  l->variant.data[*out] = l->variant.data[id];
  l->variant.data[id] = *out;
  return NEAP_OK;
}

/* Returns the format of a variable: that of its first reader. A tensor that follows a variable's format
 * (op_row.lies_as) gets it too, if it has room for exactly its elements. */
static struct memory_format first_format(struct lowering *l, int32_t id, struct memory_format want) {
  const struct tensor *tensor = &l->to->graph->tensors.data[id];
  const int32_t storage = graph_storage(l->to->graph, id), as = l->lies_as.data[storage];
  if (as == storage || tensor->dtype == l->to->graph->tensors.data[as].dtype) return want;
  const bool fills = tensor->view_of < 0 && l->to->backend->format_bytes(tensor, want) ==
                                                l->to->backend->format_bytes(tensor, ROW_MAJOR);
  return fills ? want : ROW_MAJOR;
}

/* Gives the tensor in the format that a reader wants: itself, an earlier reordering, or a new one. */
static neap_status provide(struct lowering *l, int32_t id, struct memory_format want, int32_t *out) {
  struct tensor tensor = l->to->graph->tensors.data[id];
  struct memory_format *have = format_of(l, id);
  if (!format_chosen(*have)) *have = first_format(l, id, want);
  if (tensor.view_of >= 0) { /* the same elements in the same order: row-major under either shape */
    int32_t base;
    TRY(provide(l, tensor.view_of, ROW_MAJOR, &base));
    if (base != tensor.view_of) {
      tensor.view_of = base;
      TRY(add_tensor(l, tensor, ROW_MAJOR, &id));
    }
    l->format.data[id] = ROW_MAJOR;
    l->lies_as.data[id] = id;
  }
  for (int32_t v = id; v >= 0; v = l->variant.data[v])
    if (l->to->backend->same_place(&tensor, *format_of(l, v), want)) {
      *out = v;
      return NEAP_OK;
    }
  /* Between a packed format and another one that is not row-major there is no kernel: it goes by row-major.
   */
  const struct memory_format now = *format_of(l, id), unpacked = now.packed != NULL ? want : now;
  if ((now.packed != NULL) != (want.packed != NULL) &&
      !l->to->backend->same_place(&tensor, unpacked, ROW_MAJOR))
    TRY(provide(l, id, ROW_MAJOR, &id));
  return reorder(l, id, want, out);
}

/* Gives the new id of a tensor of the old graph; views are made when first asked for. */
static neap_status mapped(struct lowering *l, int32_t old, int32_t *id) {
  struct tensor tensor = l->from->tensors.data[old];
  if (l->map[old] < 0 && tensor.view_of >= 0 && l->map[tensor.view_of] >= 0) {
    tensor.view_of = l->map[tensor.view_of];
    TRY(add_tensor(l, tensor, *format_of(l, tensor.view_of), &l->map[old]));
  }
  RETURN_IF(l->map[old] < 0, NEAP_INTERNAL, "lowering: '%s' is read before it is made", tensor.name);
  *id = l->map[old];
  return NEAP_OK;
}

/* Adds an output of the current node. One inside a variable takes the variable's format. */
static neap_status add_output(struct lowering *l, const struct node *node, int32_t i,
                              struct memory_format format, int32_t *id) {
  struct tensor tensor = l->from->tensors.data[node->outputs[i]];
  if (tensor.lies_in > 0) {
    const int32_t variable = l->map[tensor.lies_in - 1];
    RETURN_IF(!l->to->backend->same_place(&tensor, *format_of(l, variable), format), NEAP_INTERNAL,
              "%s '%s': cannot add to '%s', whose memory layout differs", node_row(node)->name, node->name,
              l->from->tensors.data[tensor.lies_in - 1].name);
    tensor.lies_in = 1 + variable;
  }
  TRY(add_tensor(l, tensor, format, id));
  l->map[node->outputs[i]] = *id;
  return NEAP_OK;
}

static neap_status lower_node(struct lowering *l, const struct node *node) {
  int32_t outputs[NODE_MAX_OUTPUTS];
  TRY(vector_reserve(&l->ids, (size_t)(node->input_count + node->update_count) + 1));
  TRY(vector_reserve(&l->wanted, (size_t)node->input_count + 1));
  int32_t *inputs = l->ids.data, *updates = inputs + node->input_count;
  struct preparation p = {
      .roofline = &l->options->roofline, .region = &l->to->region, .inputs = l->wanted.data};
  l->pass = node->pass;
  for (int32_t i = 0; i < node->input_count; i++) {
    inputs[i] = NO_TENSOR;
    p.inputs[i] = ROW_MAJOR;
    if (node->inputs[i] == NO_TENSOR) continue;
    TRY(mapped(l, node->inputs[i], &inputs[i]));
    if (l->to->graph->tensors.data[inputs[i]].view_of < 0) p.inputs[i] = *format_of(l, inputs[i]);
  }
  for (int32_t i = 0; i < NODE_MAX_OUTPUTS; i++) p.outputs[i] = ROW_MAJOR;
  TRY(prepare(l, l->from, node, &p));
  for (int32_t i = 0; i < node->input_count; i++)
    if (inputs[i] != NO_TENSOR && format_chosen(p.inputs[i])) /* else as it lies, or will lie */
      TRY(provide(l, inputs[i], p.inputs[i], &inputs[i]));
  for (int32_t i = 0; i < node->output_count; i++) {
    TRY(add_output(l, node, i, p.outputs[i], &outputs[i]));
    if (i == 0 && node_row(node)->lies_as > 0)
      l->lies_as.data[outputs[0]] = inputs[node_row(node)->lies_as - 1];
  }
  for (int32_t i = 0; i < node->update_count; i++) updates[i] = l->map[node->updates[i]];
  struct node copy = *node;
  copy.inputs = inputs;
  copy.outputs = outputs;
  copy.updates = updates;
  return add_prepared(l, copy, &p);
}

static bool is_resident(const struct tensor *t) { return t->role != NEAP_ROLE_VALUE && t->view_of < 0; }

/* Returns the format of a resident tensor in `like`; `*next` walks over its tensors. */
static struct memory_format format_like(const struct lowered *like, const struct tensor *tensor,
                                        size_t *next) {
  struct memory_format format = tensor->role == NEAP_ROLE_INPUT ? ROW_MAJOR : (struct memory_format){0};
  for (size_t t = *next; like != NULL && t < like->graph->tensors.count; t++) {
    const struct tensor *theirs = &like->graph->tensors.data[t];
    if (!is_resident(theirs) || strcmp(theirs->name, tensor->name) != 0) continue;
    format = like->formats[t];
    *next = t + 1;
    break;
  }
  return format;
}

/* Makes tensors without readers row-major. The states of a parameter take its format: another program updates
 * them together. */
static void choose_the_rest(struct lowering *l) {
  const struct tensor *tensors = l->to->graph->tensors.data;
  for (size_t t = 0; t < l->format.count; t++) {
    for (size_t p = 0; !format_chosen(l->format.data[t]) && tensors[t].state_of != NULL && p < t; p++)
      if (tensors[p].role == NEAP_ROLE_PARAMETER && strcmp(tensors[p].name, tensors[t].state_of) == 0)
        l->format.data[t] = l->format.data[p];
    if (!format_chosen(l->format.data[t])) l->format.data[t] = ROW_MAJOR;
  }
}

static neap_status lower_graph(struct lowering *l, const struct lowered *like) {
  const size_t tensors = l->from->tensors.count;
  size_t theirs = 0; /* the next resident tensor of `like` */
  for (size_t t = 0; t < tensors; t++) {
    const struct tensor *tensor = &l->from->tensors.data[t];
    if (is_resident(tensor)) TRY(add_tensor(l, *tensor, format_like(like, tensor, &theirs), &l->map[t]));
  }
  for (size_t v = 0; v < l->from->nodes.count; v++) TRY(lower_node(l, &l->from->nodes.data[v]));
  choose_the_rest(l);
  for (size_t i = 0; i < l->from->outputs.count; i++) {
    int32_t tensor;
    TRY(mapped(l, l->from->outputs.data[i].tensor, &tensor));
    TRY(graph_add_output(l->to->graph, l->from->outputs.data[i].name, tensor));
  }
  l->to->graph->loss = l->from->loss < 0 ? -1 : l->map[l->from->loss];
  l->to->graph->correct = l->from->correct < 0 ? -1 : l->map[l->from->correct];
  l->to->graph->norm = l->from->norm < 0 ? -1 : l->map[l->from->norm];
  return NEAP_OK;
}

/* ---- The step ---- */

/* Maps ids to step tensors, leaving out those that are not given. */
static const int32_t *map_ids(struct region *region, const struct neap_graph *graph, const int32_t *map,
                              const int32_t *ids, int32_t count, int32_t *mapped_count) {
  int32_t *mapped_ids = region_alloc(region, (size_t)count, sizeof *mapped_ids);
  *mapped_count = 0;
  for (int32_t i = 0; mapped_ids != NULL && i < count; i++)
    if (ids[i] != NO_TENSOR) mapped_ids[(*mapped_count)++] = map[graph_storage(graph, ids[i])];
  return mapped_ids;
}

/* Returns true if the node makes a value in the bytes of a variable: a second run would add again. */
static bool adds_to_variable(const struct neap_graph *graph, const struct node *node) {
  for (int32_t i = 0; i < node->output_count; i++)
    if (graph->tensors.data[node->outputs[i]].lies_in > 0) return true;
  return false;
}

/* Returns true if a node reads the tensor in two roles: it must not be overwritten although one of them
 * allows it. */
static bool read_twice(const struct neap_graph *graph, const struct node *node, int32_t input) {
  for (int32_t i = 0; i < node->input_count; i++)
    if (i != input && node->inputs[i] != NO_TENSOR &&
        graph_storage(graph, node->inputs[i]) == graph_storage(graph, node->inputs[input]))
      return true;
  return false;
}

/* Returns true if an input is broadcast: its elements are read again after others are made, and padding to an
 * equal size does not change that. */
static bool is_smaller(const struct neap_graph *graph, const struct node *node, struct inplace_pair pair) {
  const struct tensor *output = &graph->tensors.data[node->outputs[pair.output]];
  return node_input(graph, node, pair.input)->elements < output->elements;
}

/* Returns the row's pairs that this node has, by position among its given inputs. */
static struct inplace_pair *inplace_pairs(struct region *region, const struct neap_graph *graph,
                                          const struct node *node, int32_t *count) {
  const struct op_row *row = node_row(node);
  struct inplace_pair *own = region_alloc(region, (size_t)row->inplace_count, sizeof *own);
  *count = 0;
  for (int32_t i = 0; own != NULL && i < row->inplace_count; i++) {
    const struct inplace_pair pair = row->inplace[i];
    if (pair.output >= node->output_count || node_input(graph, node, pair.input) == NULL ||
        is_smaller(graph, node, pair) || read_twice(graph, node, pair.input) || adds_to_variable(graph, node))
      continue;
    int32_t position = 0;
    for (int32_t k = 0; k < pair.input; k++) position += node->inputs[k] != NO_TENSOR;
    own[(*count)++] = (struct inplace_pair){pair.output, position};
  }
  return own;
}

/* An additional input of a node in the step, so that all ranks run their common nodes in one order, whatever
 * their plans; NO_TENSOR: none. */
struct order {
  int32_t earlier; /* what such a node has made, which comes before this one */
  int32_t later;   /* what such a node updates, which therefore comes behind this one */
};

/* Fills `orders` [nodes]. Nodes without updates, such as sums of squares, come before those that update. */
static void order_ranks(const struct neap_graph *graph, struct order *orders) {
  int32_t made = NO_TENSOR, updated = NO_TENSOR;
  size_t first_update = graph->nodes.count;
  for (size_t v = 0; v < graph->nodes.count; v++) orders[v] = (struct order){NO_TENSOR, NO_TENSOR};
  for (size_t v = graph->nodes.count; v-- > 0;) {
    const struct node *node = &graph->nodes.data[v];
    if (node->update_count == 0 || !ranks_ordered(graph, node)) continue;
    orders[v].later = updated;
    updated = node->updates[0];
    first_update = v;
  }
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    if (!ranks_ordered(graph, node) || (node->update_count > 0 && v != first_update)) continue;
    orders[v].earlier = made;
    if (node->update_count == 0) made = node->outputs[0];
  }
}

static const int32_t *step_inputs(struct region *region, const struct neap_graph *graph, const int32_t *map,
                                  const struct node *node, struct order order, int32_t *count) {
  int32_t *ids = region_alloc(region, (size_t)node->input_count + 2, sizeof *ids);
  if (ids == NULL) return NULL;
  memcpy(ids, node->inputs, (size_t)node->input_count * sizeof *ids);
  ids[node->input_count] = order.earlier;
  ids[node->input_count + 1] = order.later;
  return map_ids(region, graph, map, ids, node->input_count + 2, count);
}

static neap_status step_nodes(struct lowering *l, struct region *region, struct neap_step *draft,
                              const int32_t *map) {
  const struct neap_graph *graph = l->to->graph;
  const struct rank_part *shared = l->to->rank_parts;
  struct order *orders = region_alloc(region, graph->nodes.count, sizeof *orders);
  RETURN_IF_NULL(orders);
  if (shared != NULL) order_ranks(graph, orders);
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    struct step_node *made = &draft->nodes[v];
    const struct order order = shared != NULL ? orders[v] : (struct order){NO_TENSOR, NO_TENSOR};
    const bool meets = shared != NULL && ranks_meet(graph, node);
    *made = (struct step_node){.name = node->name,
                               .op = node_row(node)->name,
                               .pass = node->pass,
                               .repeatable = node->update_count == 0 && !adds_to_variable(graph, node) &&
                                             (!meets || !ranks_ordered(graph, node)),
                               .cost = l->seconds.data[v],
                               .workspace = l->workspace.data[v] +
                                            (shared != NULL ? round_up(shared[v].workspace) : 0)};
    made->inplace = inplace_pairs(region, graph, node, &made->inplace_count);
    made->inputs = step_inputs(region, graph, map, node, order, &made->input_count);
    made->outputs = map_ids(region, graph, map, node->outputs, node->output_count, &made->output_count);
    made->updates = map_ids(region, graph, map, node->updates, node->update_count, &made->update_count);
    RETURN_IF(!made->inplace || !made->inputs || !made->outputs || !made->updates, NEAP_OUT_OF_MEMORY,
              "lowering: out of memory");
  }
  return NEAP_OK;
}

static void add_step_output(struct neap_step *draft, int32_t *outputs, int32_t tensor) {
  for (int32_t i = 0; i < draft->output_count; i++)
    if (outputs[i] == tensor) return;
  outputs[draft->output_count++] = tensor;
}

/* Lists the step's outputs: loss, right answers and norm and, if kept, the named outputs that are not
 * resident. */
static neap_status step_outputs(struct lowering *l, struct region *region, const int32_t *map,
                                struct neap_step *draft) {
  const struct neap_graph *graph = l->to->graph;
  int32_t *outputs = region_alloc(region, graph->outputs.count + 3, sizeof *outputs);
  RETURN_IF_NULL(outputs);
  draft->outputs = outputs;
  if (graph->loss >= 0) add_step_output(draft, outputs, map[graph->loss]);
  if (graph->correct >= 0) add_step_output(draft, outputs, map[graph->correct]);
  if (graph->norm >= 0) add_step_output(draft, outputs, map[graph->norm]);
  for (size_t i = 0; i < graph->outputs.count; i++) {
    const int32_t tensor = map[graph_storage(graph, graph->outputs.data[i].tensor)];
    if (graph->tensors.data[graph->outputs.data[i].tensor].elements > l->options->outputs) continue;
    if (draft->tensors[tensor].role == NEAP_ROLE_VALUE) add_step_output(draft, outputs, tensor);
  }
  return NEAP_OK;
}

/* Prepares what ranks share of each node, once all formats are known. */
static neap_status prepare_ranks(struct lowering *l) {
  struct lowered *to = l->to;
  if (l->options->ranks <= 1) return NEAP_OK;
  struct rank_part *parts = region_alloc(&to->region, to->graph->nodes.count, sizeof *parts);
  RETURN_IF_NULL(parts);
  for (size_t v = 0; v < to->graph->nodes.count; v++)
    parts[v] =
        ranks_prepare(to->backend, to->graph, &to->graph->nodes.data[v], to->formats, l->options->ranks);
  to->rank_parts = parts;
  return NEAP_OK;
}

static neap_status make_step(struct lowering *l) {
  const struct neap_graph *graph = l->to->graph;
  const size_t tensors = graph->tensors.count;
  struct region region = {0}; /* of the draft */
  int32_t *map = region_alloc(&l->to->region, tensors, sizeof *map),
          *home = region_alloc(&l->to->region, tensors, sizeof *home);
  struct neap_step draft = {.name = graph->name,
                            .node_count = (int32_t)graph->nodes.count,
                            .tensors = region_alloc(&region, tensors, sizeof *draft.tensors),
                            .nodes = region_alloc(&region, graph->nodes.count, sizeof *draft.nodes)};
  neap_status status = NEAP_OK;
  if (!map || !home || !draft.tensors || !draft.nodes)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "lowering: out of memory");
  for (size_t t = 0; status == NEAP_OK && t < tensors; t++) {
    const struct tensor *tensor = &graph->tensors.data[t];
    const struct tensor *storage = &graph->tensors.data[graph_storage(graph, (int32_t)t)];
    map[t] = tensor->view_of >= 0 ? map[tensor->view_of] : draft.tensor_count;
    home[t] = storage->lies_in > 0 ? map[storage->lies_in - 1] : map[t];
    if (tensor->view_of >= 0) continue;
    /* What lies in a variable, or on disk, takes no bytes of its own. Its tensor in the step keeps its reader
     * behind its maker. */
    draft.tensors[draft.tensor_count++] = (struct step_tensor){
        .name = tensor->name,
        .role = tensor->role,
        .bytes = tensor->lies_in > 0 || tensor->on_disk
                     ? 0
                     : round_up(share_bytes(l->to->backend, tensor, *format_of(l, (int32_t)t)))};
  }
  if (status == NEAP_OK) status = step_nodes(l, &region, &draft, map);
  if (status == NEAP_OK) status = step_outputs(l, &region, map, &draft);
  if (status == NEAP_OK) status = step_create(&draft, &l->to->step);
  region_free(&region);
  l->to->step_tensor = map;
  l->to->home = home;
  return status;
}

/* ---- All of lowering ---- */

void lowered_free(struct lowered *lowered) {
  if (lowered == NULL) return;
  neap_step_free(lowered->step);
  neap_graph_free(lowered->graph);
  if (lowered->owns_state) lowered->backend->free_state(lowered->state);
  region_free(&lowered->region);
  free(lowered);
}

static neap_status run_lowering(struct lowering *l, const struct lowered *like) {
  struct lowered *to = l->to;
  l->map = malloc((l->from->tensors.count + 1) * sizeof *l->map);
  RETURN_IF_NULL(l->map);
  for (size_t t = 0; t < l->from->tensors.count; t++) l->map[t] = -1;
  TRY(graph_create(l->from->name, &to->graph));
  to->owns_state = like == NULL;
  if (like != NULL)
    to->state = like->state;
  else
    TRY(to->backend->create_state(l->from, l->options, &to->state));
  TRY(lower_graph(l, like));
  to->formats = region_alloc(&to->region, l->format.count, sizeof *to->formats);
  RETURN_IF_NULL(to->formats);
  for (size_t t = 0; t < l->format.count; t++) to->formats[t] = *format_of(l, (int32_t)t);
  TRY(prepare_ranks(l));
  TRY(make_step(l));
  to->kernels = region_copy(&to->region, l->kernels.data, l->kernels.count, sizeof *to->kernels);
  RETURN_IF(!to->kernels, NEAP_OUT_OF_MEMORY, "lowering: out of memory");
  return NEAP_OK;
}

neap_status lower(const struct neap_graph *graph, const struct backend *backend,
                  const struct lower_options *options, const struct lowered *like, struct lowered **out) {
  const bool usual = options->roofline.bytes == 0;
  struct lower_options known = *options;
  known.threads = team_size(options->threads);
  if (usual) known.roofline = usual_roofline;
  struct lowering l = {.to = calloc(1, sizeof(struct lowered)), .options = &known};
  struct neap_graph *rewritten = NULL;
  struct team former;
  neap_status status;
  RETURN_IF_NULL(l.to);
  l.to->backend = backend;
  l.to->threads = known.threads;
  l.to->kept_outputs = known.outputs;
  if (backend->rewrite != NULL) TRY_DONE(backend->rewrite(graph, &rewritten));
  l.from = rewritten != NULL ? rewritten : graph;
  TRY_DONE(team_set(known.threads, &former));
  status = run_lowering(&l, like);
  team_restore(&former);
done:
  neap_graph_free(rewritten);
  free(l.map);
  vector_free(&l.format);
  vector_free(&l.lies_as);
  vector_free(&l.variant);
  vector_free(&l.kernels);
  vector_free(&l.seconds);
  vector_free(&l.workspace);
  vector_free(&l.ids);
  vector_free(&l.wanted);
  if (status != NEAP_OK) {
    lowered_free(l.to);
    return status;
  }
  *out = l.to;
  return NEAP_OK;
}
