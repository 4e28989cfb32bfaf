/* Parameters that most of their readers do not read as they are kept: a node brings them. Frozen ones may
 * stay in the model's file (OP_FETCH), trained ones lie in the session's file (OP_LOAD); of others each of
 * several processes may hold a share (OP_ALL_GATHER), or they are read with noise (OP_PERTURB). */
#include <string.h>

#include "rewrite/copy.h"

/* The bytes from which a parameter is worth a read: measured on a disk of 0.7 GB/s, which reads one page in a
 * tenth of a millisecond. */
static const uint64_t least_bytes = 64 << 10;

static bool can_fetch(const struct neap_graph *graph, int32_t id) {
  const struct tensor *t = &graph->tensors.data[id];
  return t->role == NEAP_ROLE_PARAMETER && t->view_of < 0 && t->frozen && !t->adapter && t->file_bytes > 0 &&
         t->rank == 2 && dtype_bytes(t->dtype, (uint64_t)t->elements) >= least_bytes &&
         !graph_is_output(graph, id);
}

/* The bytes from which a parameter is shared; for smaller ones an exchange costs more time than its bytes are
 * worth. */
static const uint64_t least_shared_bytes = 16 << 10;

/* Returns false for values of sparse parameters: they change places, so all processes have all of them. */
static bool can_share(const struct neap_graph *graph, const struct tensor *t) {
  const int32_t id = (int32_t)(t - graph->tensors.data);
  return t->role == NEAP_ROLE_PARAMETER && t->view_of < 0 && !t->on_disk &&
         strcmp(t->name, SPARSE_POOL) != 0 &&
         dtype_bytes(t->dtype, (uint64_t)t->elements) >= least_shared_bytes && !graph_is_output(graph, id);
}

static bool is_shared(const struct neap_graph *graph, int32_t id) {
  const struct tensor *t = &graph->tensors.data[id];
  return t->role == NEAP_ROLE_PARAMETER && t->view_of < 0 && t->shares > 1;
}

/* The way to bring parameters. */
struct way {
  bool (*can)(const struct neap_graph *graph, int32_t id);
  /* Returns true if a node reads the parameter as it is kept. */
  bool (*reads_kept)(const struct neap_graph *graph, const struct node *node, int32_t slot);
  enum op op;
  bool from_file; /* the model's, which has them as they are */
  bool by_rows;   /* some readers read them from disk row by row */
  const char *suffix;
};

static bool is_trained(const struct neap_graph *graph, int32_t id) {
  const struct tensor *t = &graph->tensors.data[id];
  if (t->role != NEAP_ROLE_PARAMETER || t->view_of >= 0 || t->frozen) return false;
  for (size_t v = 0; v < graph->nodes.count; v++)
    for (int32_t i = 0; i < graph->nodes.data[v].input_count; i++) {
      const int32_t input = graph->nodes.data[v].inputs[i];
      if (input != NO_TENSOR && graph_storage(graph, input) == id) return true;
    }
  return false;
}

/* Returns true if a node takes rows of a table on disk: it reads only these. */
static bool takes_rows(const struct copy *copy, const struct way *way, const struct node *node) {
  const int32_t table = node->op == OP_GATHER ? node->inputs[0] : NO_TENSOR;
  return way->by_rows && table != NO_TENSOR && way->can(copy->from, table) &&
         copy->from->tensors.data[table].rank == 2;
}

static neap_status fetch_rows(struct copy *copy, const struct node *node, const int32_t *kept) {
  int32_t inputs[2] = {kept[node->inputs[0]]};
  TRY(copy_tensor(copy, node->inputs[1], &inputs[1]));
  return graph_apply(copy->to, OP_FETCH_ROWS, node->name, &node->attributes, inputs, 2,
                     &copy->map[node->outputs[0]]);
}

/* Returns the slot of weights that a node reads from disk as it needs them: a loss some rows at a time, an
 * expert layer those of the experts that have rows; -1: it reads no weights so. */
static int32_t slot_on_disk(const struct node *node) {
  switch (node->op) {
  case OP_LINEAR_CROSS_ENTROPY:
  case OP_LINEAR_CROSS_ENTROPY_BACKWARD:
    return LOSS_WEIGHTS;
  case OP_EXPERT_LINEAR:
    return EXPERT_WEIGHTS;
  case OP_EXPERT_LINEAR_BACKWARD_DATA: /* w, dy, ends */
    return 0;
  default:
    return -1;
  }
}

/* Returns true if a node reads a tensor in another slot, too, which then needs it whole. */
static bool reads_twice(const struct node *node, int32_t slot) {
  for (int32_t i = 0; i < node->input_count; i++)
    if (i != slot && node->inputs[i] == node->inputs[slot]) return true;
  return false;
}

static bool reads_on_disk(const struct neap_graph *graph, const struct node *node, int32_t slot) {
  return slot == slot_on_disk(node) && graph->tensors.data[node->inputs[slot]].view_of < 0 &&
         !reads_twice(node, slot);
}

static bool reads_own_share(const struct neap_graph *graph, const struct node *node, int32_t slot) {
  (void)graph, (void)slot;
  return node->pass == NEAP_PASS_UPDATE;
}

static bool reads_spilled(const struct neap_graph *graph, const struct node *node, int32_t slot) {
  return node->pass == NEAP_PASS_UPDATE || reads_on_disk(graph, node, slot);
}

static bool reads_with_noise(const struct neap_graph *graph, const struct node *node, int32_t slot) {
  return !reads_twice(node, slot) && reads_in_parts(graph, node, slot);
}

/* Copies a node. A slot that reads the parameter where it is kept gets the parameter, even if it was brought
 * for others. */
static neap_status copy_reader(struct copy *copy, const struct way *way, const struct node *node,
                               const int32_t *kept) {
  int32_t *map = NULL, brought = NO_TENSOR;
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NO_TENSOR && way->reads_kept(copy->from, node, i) &&
        kept[node->inputs[i]] != NO_TENSOR) {
      map = &copy->map[node->inputs[i]];
      brought = *map;
      *map = kept[node->inputs[i]];
    }
  const neap_status status = copy_node(copy, *node);
  if (map != NULL) *map = brought;
  return status;
}

/* Brings the parameters that a node reads. `kept`: by tensor of the old graph, the parameter on disk or in
 * shares. */
static neap_status bring_for(struct copy *copy, const struct way *way, const struct node *node,
                             const int32_t *kept) {
  for (int32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == NO_TENSOR || way->reads_kept(copy->from, node, i)) continue;
    const int32_t old = graph_storage(copy->from, node->inputs[i]);
    if (kept[old] == NO_TENSOR || copy->map[old] != kept[old]) continue;
    TRY(graph_apply(copy->to, way->op, copy->from->tensors.data[old].name, &(union attributes){0}, &kept[old],
                    1, &copy->map[old]));
  }
  return NEAP_OK;
}

static neap_status rewrite_all(struct copy *copy, const struct way *way, int32_t *kept) {
  const struct neap_graph *from = copy->from;
  for (int32_t t = 0; t < (int32_t)from->tensors.count; t++) {
    kept[t] = way->can(from, t) ? copy->map[t] : NO_TENSOR;
    if (kept[t] == NO_TENSOR) continue;
    copy->to->tensors.data[kept[t]].on_disk = way->from_file;
    if (way->op == OP_LOAD && from->tensors.data[t].rank == 2) copy->to->tensors.data[kept[t]].plain = true;
    copy->to->tensors.data[kept[t]].perturbed = way->op == OP_PERTURB;
    if (way->op == OP_PERTURB) copy->to->tensors.data[kept[t]].plain = true; /* noise has that order */
  }
  for (size_t v = 0; v < from->nodes.count; v++) {
    const struct node *node = &from->nodes.data[v];
    if (takes_rows(copy, way, node)) {
      TRY(fetch_rows(copy, node, kept));
      continue;
    }
    TRY(bring_for(copy, way, node, kept));
    TRY(copy_reader(copy, way, node, kept));
  }
  copy->to->name = region_format(&copy->to->region, "%s%s", from->name, way->suffix);
  RETURN_IF(copy->to->name == NULL, NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", from->name);
  return NEAP_OK;
}

bool rewrite_can_fetch(const struct neap_graph *graph) {
  for (int32_t t = 0; t < (int32_t)graph->tensors.count; t++)
    if (can_fetch(graph, t)) return true;
  return false;
}

static neap_status rewrite_by(const struct neap_graph *graph, const struct way *way,
                              struct neap_graph **out) {
  struct copy copy;
  int32_t *kept = calloc(graph->tensors.count + 1, sizeof *kept);
  RETURN_IF(kept == NULL, NEAP_OUT_OF_MEMORY, "graph '%s': out of memory", graph->name);
  neap_status status = copy_begin(&copy, graph, NULL);
  if (status == NEAP_OK) status = copy_end(&copy, rewrite_all(&copy, way, kept), out);
  free(kept);
  return status;
}

neap_status rewrite_fetch(const struct neap_graph *graph, struct neap_graph **out) {
  const struct way way = {.can = can_fetch,
                          .reads_kept = reads_on_disk,
                          .op = OP_FETCH,
                          .from_file = true,
                          .by_rows = true,
                          .suffix = FETCH_SUFFIX};
  return rewrite_by(graph, &way, out);
}

void graph_share(struct neap_graph *graph, int32_t ranks) {
  for (size_t t = 0; t < graph->tensors.count; t++)
    if (can_share(graph, &graph->tensors.data[t])) graph->tensors.data[t].shares = ranks;
}

neap_status rewrite_gather(const struct neap_graph *graph, struct neap_graph **out) {
  const struct way way = {
      .can = is_shared, .reads_kept = reads_own_share, .op = OP_ALL_GATHER, .suffix = SHARES_SUFFIX};
  return rewrite_by(graph, &way, out);
}

/* ---- Variables on disk ---- */

/* Returns true if a value is made in the bytes of a variable, which then must be in memory. */
static bool has_guest(const struct neap_graph *graph, int32_t id) {
  for (size_t t = 0; t < graph->tensors.count; t++)
    if (graph->tensors.data[t].lies_in == 1 + id) return true;
  return false;
}

/* Returns true if updates alone read a state. */
static bool is_for_updates(const struct neap_graph *graph, int32_t id) {
  for (size_t v = 0; v < graph->nodes.count; v++) {
    const struct node *node = &graph->nodes.data[v];
    for (int32_t i = 0; i < node->input_count && node->pass != NEAP_PASS_UPDATE; i++)
      if (node->inputs[i] == id) return false;
  }
  return true;
}

static bool can_spill(const struct neap_graph *graph, int32_t id, struct spill_options options) {
  const struct tensor *t = &graph->tensors.data[id];
  const bool state = t->role == NEAP_ROLE_STATE && t->state_of != NULL && !t->carried && !t->average,
             weight = t->role == NEAP_ROLE_PARAMETER && !t->frozen && !t->on_disk && is_trained(graph, id);
  return t->view_of < 0 &&
         (state ? options.states && (options.sums || !t->sum) : weight && options.weights) &&
         dtype_bytes(t->dtype, (uint64_t)t->elements) >= least_bytes && !graph_is_output(graph, id) &&
         !has_guest(graph, id) && (weight || is_for_updates(graph, id));
}

static bool is_spilled(const struct neap_graph *graph, int32_t id) {
  const struct tensor *t = &graph->tensors.data[id];
  return t->role == NEAP_ROLE_PARAMETER && t->view_of < 0 && t->spilled;
}

neap_status rewrite_load(const struct neap_graph *graph, struct neap_graph **out) {
  static const char *const suffixes[2][2] = {{"", SPILLED_WEIGHTS},
                                             {SPILLED_STATES, SPILLED_STATES SPILLED_WEIGHTS}};
  bool states = false, weights = false;
  for (int32_t t = 0; t < (int32_t)graph->tensors.count; t++) {
    weights = weights || is_spilled(graph, t);
    states = states || (graph->tensors.data[t].role == NEAP_ROLE_STATE && graph->tensors.data[t].spilled);
  }
  const struct way way = {.can = is_spilled,
                          .reads_kept = reads_spilled,
                          .op = OP_LOAD,
                          .by_rows = true,
                          .suffix = suffixes[states][weights]};
  return rewrite_by(graph, &way, out);
}

void graph_spill(struct neap_graph *graph, struct spill_options options) {
  for (int32_t t = 0; t < (int32_t)graph->tensors.count; t++)
    graph->tensors.data[t].spilled = can_spill(graph, t, options);
}

void graph_spill_like(struct neap_graph *graph, const struct neap_graph *training) {
  size_t theirs = 0; /* residents come in one order */
  for (size_t t = 0; t < graph->tensors.count; t++) {
    struct tensor *tensor = &graph->tensors.data[t];
    if (tensor->role != NEAP_ROLE_PARAMETER || tensor->view_of >= 0) continue;
    for (size_t k = theirs; k < training->tensors.count; k++) {
      const struct tensor *other = &training->tensors.data[k];
      if (other->role != NEAP_ROLE_PARAMETER || strcmp(other->name, tensor->name) != 0) continue;
      tensor->spilled = other->spilled;
      theirs = k + 1;
      break;
    }
  }
}

neap_status rewrite_perturb(const struct neap_graph *graph, struct neap_graph **out) {
  const struct way way = {
      .can = is_trained, .reads_kept = reads_with_noise, .op = OP_PERTURB, .suffix = PERTURBED_SUFFIX};
  return rewrite_by(graph, &way, out);
}
