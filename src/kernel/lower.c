#include <stdio.h>
#include <string.h>

#include "base/parallel.h"
#include "kernel/lower_step.h"
#include "kernel/ranks.h"
#include "kernel/spilled.h"

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
  TRY(vector_push(&l->workspace, memory_round_up(p->workspace)));
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
  struct memory_format format =
      tensor->role == NEAP_ROLE_INPUT || tensor->plain ? ROW_MAJOR : (struct memory_format){0};
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

/* Prepares updates of variables on disk, which cost their traffic, too. */
static neap_status prepare_spilled(struct lowering *l) {
  struct lowered *to = l->to;
  bool any = false;
  for (size_t t = 0; t < to->graph->tensors.count; t++) any = any || to->graph->tensors.data[t].spilled;
  if (!any) return NEAP_OK;
  struct spilled_part *parts = region_alloc(&to->region, to->graph->nodes.count, sizeof *parts);
  RETURN_IF_NULL(parts);
  for (size_t v = 0; v < to->graph->nodes.count; v++) {
    parts[v] = spilled_prepare(to->backend, to->graph, &to->graph->nodes.data[v], to->formats);
    l->seconds.data[v] += spilled_seconds(&l->options->roofline, &parts[v]);
  }
  to->spilled_parts = parts;
  return NEAP_OK;
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
  TRY(prepare_spilled(l));
  TRY(lowered_make_step(to, l->seconds.data, l->workspace.data));
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
