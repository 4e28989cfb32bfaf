#include "step/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const role_names[ROLE_COUNT] = {[NEAP_ROLE_VALUE] = "value",
                                            [NEAP_ROLE_INPUT] = "input",
                                            [NEAP_ROLE_PARAMETER] = "parameter",
                                            [NEAP_ROLE_STATE] = "state"};
const char *const pass_names[PASS_COUNT] = {
    [NEAP_PASS_FORWARD] = "forward", [NEAP_PASS_BACKWARD] = "backward", [NEAP_PASS_UPDATE] = "update"};

/* The limit on the sum of all costs: even a plan with very many repeats stays finite. */
static const double COST_LIMIT = 1e300;

/* ---- Copying ---- */

static neap_status copy_draft(const struct neap_step *draft, struct neap_step *step) {
  struct region *region = &step->region;
  step->tensor_count = draft->tensor_count;
  step->node_count = draft->node_count;
  step->output_count = draft->output_count;
  step->name = region_string(region, draft->name != NULL ? draft->name : "");
  step->tensors = region_copy(region, draft->tensors, (size_t)draft->tensor_count, sizeof *step->tensors);
  step->nodes = region_copy(region, draft->nodes, (size_t)draft->node_count, sizeof *step->nodes);
  step->outputs = region_copy(region, draft->outputs, (size_t)draft->output_count, sizeof *step->outputs);
  RETURN_IF(!step->name || !step->tensors || !step->nodes || !step->outputs, NEAP_OUT_OF_MEMORY,
            "graph: out of memory");
  for (int32_t t = 0; t < step->tensor_count; t++) {
    struct step_tensor *tensor = &step->tensors[t];
    tensor->name = region_string(region, tensor->name != NULL ? tensor->name : "");
    RETURN_IF_NULL(tensor->name);
    tensor->producer = tensor->updater = -1;
    tensor->is_output = false;
  }
  for (int32_t v = 0; v < step->node_count; v++) {
    struct step_node *node = &step->nodes[v];
    node->name = region_string(region, node->name != NULL ? node->name : "");
    node->op = region_string(region, node->op != NULL ? node->op : "");
    node->inputs = region_copy(region, node->inputs, (size_t)node->input_count, sizeof *node->inputs);
    node->outputs = region_copy(region, node->outputs, (size_t)node->output_count, sizeof *node->outputs);
    node->updates = region_copy(region, node->updates, (size_t)node->update_count, sizeof *node->updates);
    node->inplace = region_copy(region, node->inplace, (size_t)node->inplace_count, sizeof *node->inplace);
    RETURN_IF(!node->name || !node->op || !node->inputs || !node->outputs || !node->updates || !node->inplace,
              NEAP_OUT_OF_MEMORY, "graph: out of memory");
  }
  return NEAP_OK;
}

/* ---- Rules ---- */

#define NODE_RULE(condition, ...) RETURN_IF(!(condition), NEAP_BAD_FORMAT, __VA_ARGS__)

static neap_status check_ids(const struct neap_step *step, int32_t v, const char *field, const int32_t *ids,
                             int32_t count) {
  for (int32_t i = 0; i < count; i++)
    NODE_RULE(ids[i] >= 0 && ids[i] < step->tensor_count,
              "nodes[%d].%s[%d]: tensor %d is out of range (0 to %d)", v, field, i, ids[i],
              step->tensor_count - 1);
  return NEAP_OK;
}

/* Returns the node whose outputs a node has, all in their order; -1: none. */
static int32_t find_maker(const struct neap_step *step, const struct step_node *node) {
  const int32_t producer = node->output_count > 0 ? step->tensors[node->outputs[0]].producer : -1;
  if (producer < 0 || step->nodes[producer].output_count != node->output_count) return -1;
  const size_t bytes = (size_t)node->output_count * sizeof *node->outputs;
  return memcmp(step->nodes[producer].outputs, node->outputs, bytes) == 0 ? producer : -1;
}

/* The derived fields that check_node fills. */
struct makers {
  int32_t *maker, *restorer, *store;
};

static neap_status check_restorer(const struct neap_step *step, int32_t v, int32_t maker,
                                  const struct makers *m) {
  const struct step_node *node = &step->nodes[v];
  NODE_RULE(m->restorer[maker] < 0 && m->maker[maker] == maker,
            "nodes[%d].outputs[0]: node %d makes it already, and node %d restores that", v, maker,
            m->restorer[maker]);
  NODE_RULE(node->repeatable && node->update_count == 0 && node->input_count == 1 &&
                step->tensors[node->inputs[0]].role == NEAP_ROLE_VALUE,
            "nodes[%d].outputs[0]: node %d makes it already; to restore that, the node must be repeatable, "
            "update nothing, and read one value alone",
            v, maker);
  m->maker[v] = maker;
  m->restorer[maker] = v;
  return NEAP_OK;
}

/* Checks ranges, producers and updaters of one node. */
static neap_status check_node(struct neap_step *step, int32_t v, const struct makers *m) {
  const struct step_node *node = &step->nodes[v];
  NODE_RULE(isfinite(node->cost) && node->cost >= 0, "nodes[%d].cost: %g is not a finite number of 0 or more",
            v, node->cost);
  TRY(check_ids(step, v, "inputs", node->inputs, node->input_count));
  TRY(check_ids(step, v, "outputs", node->outputs, node->output_count));
  TRY(check_ids(step, v, "updates", node->updates, node->update_count));
  const int32_t maker = find_maker(step, node);
  m->maker[v] = v;
  m->restorer[v] = m->store[v] = -1;
  if (maker >= 0) TRY(check_restorer(step, v, maker, m));
  for (int32_t i = 0; maker < 0 && i < node->output_count; i++) {
    struct step_tensor *tensor = &step->tensors[node->outputs[i]];
    NODE_RULE(tensor->role == NEAP_ROLE_VALUE, "nodes[%d].outputs[%d]: tensor %d ('%s') is not a value", v, i,
              node->outputs[i], tensor->name);
    NODE_RULE(tensor->producer < 0, "nodes[%d].outputs[%d]: tensor %d ('%s') is made by node %d already", v,
              i, node->outputs[i], tensor->name, tensor->producer);
    tensor->producer = v;
  }
  for (int32_t i = 0; i < node->update_count; i++) {
    struct step_tensor *tensor = &step->tensors[node->updates[i]];
    NODE_RULE(tensor->role == NEAP_ROLE_PARAMETER || tensor->role == NEAP_ROLE_STATE,
              "nodes[%d].updates[%d]: tensor %d ('%s') is neither parameter nor state", v, i,
              node->updates[i], tensor->name);
    NODE_RULE(tensor->updater < 0, "nodes[%d].updates[%d]: tensor %d ('%s') is updated by node %d already", v,
              i, node->updates[i], tensor->name, tensor->updater);
    tensor->updater = v;
  }
  for (int32_t i = 0; i < node->inplace_count; i++) {
    const struct inplace_pair pair = node->inplace[i];
    NODE_RULE(pair.output >= 0 && pair.output < node->output_count && pair.input >= 0 &&
                  pair.input < node->input_count,
              "nodes[%d].inplace[%d]: [%d, %d] are not positions in its %d outputs and %d inputs", v, i,
              pair.output, pair.input, node->output_count, node->input_count);
  }
  return NEAP_OK;
}

/* Fails unless the nodes' own order is valid: values are made before they are read, and updates come after
 * all readers. */
static neap_status check_order(const struct neap_step *step) {
  for (int32_t v = 0; v < step->node_count; v++) {
    const struct step_node *node = &step->nodes[v];
    for (int32_t i = 0; i < node->input_count; i++) {
      const struct step_tensor *tensor = &step->tensors[node->inputs[i]];
      NODE_RULE(tensor->role != NEAP_ROLE_VALUE || (tensor->producer >= 0 && tensor->producer < v),
                "nodes[%d].inputs[%d]: tensor %d ('%s') is read before it is made (wrong order or a cycle)",
                v, i, node->inputs[i], tensor->name);
      NODE_RULE(tensor->updater < 0 || tensor->updater >= v,
                "nodes[%d].inputs[%d]: tensor %d ('%s') is read after node %d updates it", v, i,
                node->inputs[i], tensor->name, tensor->updater);
    }
  }
  for (int32_t t = 0; t < step->tensor_count; t++)
    NODE_RULE(step->tensors[t].role != NEAP_ROLE_VALUE || step->tensors[t].producer >= 0,
              "tensors[%d] ('%s'): no node makes this value", t, step->tensors[t].name);
  for (int32_t i = 0; i < step->output_count; i++) {
    const int32_t t = step->outputs[i];
    NODE_RULE(t >= 0 && t < step->tensor_count, "outputs[%d]: tensor %d is out of range (0 to %d)", i, t,
              step->tensor_count - 1);
    NODE_RULE(step->tensors[t].role == NEAP_ROLE_VALUE, "outputs[%d]: tensor %d ('%s') is not a value", i, t,
              step->tensors[t].name);
    step->tensors[t].is_output = true;
  }
  return NEAP_OK;
}

/* ---- Derived fields ---- */

static neap_status derive_readers(struct neap_step *step) {
  const size_t tensors = (size_t)step->tensor_count;
  int32_t *start = region_alloc(&step->region, tensors + 2, sizeof *start),
          *last = calloc(tensors + 1, sizeof *last), *readers = NULL;
  uint64_t total = 0;
  for (int32_t v = 0; v < step->node_count; v++) total += (uint64_t)step->nodes[v].input_count;
  if (total < INT32_MAX) readers = region_alloc(&step->region, (size_t)total, sizeof *readers);
  if (start == NULL || last == NULL || readers == NULL) {
    free(last);
    return neap_fail(total < INT32_MAX ? NEAP_OUT_OF_MEMORY : NEAP_TOO_LARGE,
                     "graph: no memory for %llu reads", (unsigned long long)total);
  }
  /* Count into start[t + 2], then place through start[t + 1], which ends where t + 1 begins. `last` marks the
   * reader seen last. */
  for (int place = 0; place < 2; place++) {
    memset(last, 0, tensors * sizeof *last);
    for (int32_t v = 0; v < step->node_count; v++)
      for (int32_t i = 0; i < step->nodes[v].input_count; i++) {
        const int32_t t = step->nodes[v].inputs[i];
        if (last[t] == v + 1) continue;
        last[t] = v + 1;
        if (place)
          readers[start[t + 1]++] = v;
        else
          start[t + 2]++;
      }
    for (size_t t = 2; !place && t < tensors + 2; t++) start[t] += start[t - 1];
  }
  free(last);
  step->reader_start = start;
  step->readers = readers;
  return NEAP_OK;
}

/* Returns true if a node makes only what the restorer reads, of outputs of the maker, and changes nothing. */
static bool is_store(const struct neap_step *step, const struct step_node *node, int32_t maker,
                     int32_t restorer) {
  bool reads = false;
  for (int32_t i = 0; i < node->input_count; i++)
    reads = reads || step->tensors[node->inputs[i]].producer == maker;
  for (int32_t o = 0; o < node->output_count; o++) {
    const int32_t t = node->outputs[o], first = step->reader_start[t],
                  count = step->reader_start[t + 1] - first;
    if (count != 1 || step->readers[first] != restorer || step->tensors[t].is_output) return false;
  }
  return reads && node->update_count == 0;
}

/* Finds the stores. Fails unless optional nodes come last. */
static neap_status derive_stores(struct neap_step *step, const struct makers *m) {
  step->required_count = step->node_count;
  for (int32_t v = 0; v < step->node_count; v++) {
    if (m->maker[v] == v) continue;
    const int32_t store = step->tensors[step->nodes[v].inputs[0]].producer;
    NODE_RULE(is_store(step, &step->nodes[store], m->maker[v], v),
              "nodes[%d].outputs[0]: node %d makes it already; to restore that, the node must read a value "
              "that node %d makes of it for this node alone",
              v, m->maker[v], store);
    m->store[m->maker[v]] = store;
    if (store < step->required_count) step->required_count = store;
  }
  int32_t optional = 0;
  for (int32_t v = 0; v < step->node_count; v++) optional += m->maker[v] != v ? 2 : 0;
  NODE_RULE(
      step->required_count + optional == step->node_count,
      "nodes[%d]: nodes that restore others, and the stores that they read, must come behind all others",
      step->required_count);
  return NEAP_OK;
}

static neap_status derive_sums(struct neap_step *step) {
  uint64_t total = 0;
  double all_costs = 0;
  for (int32_t t = 0; t < step->tensor_count; t++) {
    RETURN_IF(__builtin_add_overflow(total, step->tensors[t].bytes, &total) || total > INT64_MAX,
              NEAP_BAD_FORMAT, "tensors[%d].bytes: the sum of all sizes overflows", t);
    if (step->tensors[t].role != NEAP_ROLE_VALUE) step->resident_bytes += step->tensors[t].bytes;
  }
  for (int32_t v = 0; v < step->node_count; v++) {
    RETURN_IF(__builtin_add_overflow(total, step->nodes[v].workspace, &total) || total > INT64_MAX,
              NEAP_BAD_FORMAT, "nodes[%d].workspace: the sum of all sizes overflows", v);
    all_costs += step->nodes[v].cost;
    if (v < step->required_count) step->base_cost = all_costs;
    step->has_lane = step->has_lane || step->nodes[v].transfers;
  }
  RETURN_IF(!(all_costs <= COST_LIMIT), NEAP_BAD_FORMAT, "the sum of all costs is %g; it must be at most %g",
            all_costs, COST_LIMIT);
  return NEAP_OK;
}

static neap_status build(const struct neap_step *draft, struct neap_step *step) {
  TRY(copy_draft(draft, step));
  const size_t nodes = (size_t)step->node_count;
  const struct makers makers = {.maker = region_alloc(&step->region, nodes, sizeof(int32_t)),
                                .restorer = region_alloc(&step->region, nodes, sizeof(int32_t)),
                                .store = region_alloc(&step->region, nodes, sizeof(int32_t))};
  RETURN_IF(!makers.maker || !makers.restorer || !makers.store, NEAP_OUT_OF_MEMORY, "graph: out of memory");
  step->maker = makers.maker, step->restorer = makers.restorer, step->store = makers.store;
  for (int32_t v = 0; v < step->node_count; v++) TRY(check_node(step, v, &makers));
  TRY(check_order(step));
  TRY(derive_readers(step));
  TRY(derive_stores(step, &makers));
  return derive_sums(step);
}

neap_status step_create(const struct neap_step *draft, struct neap_step **out) {
  struct neap_step *step = calloc(1, sizeof *step);
  RETURN_IF_NULL(step);
  const neap_status status = build(draft, step);
  if (status != NEAP_OK) {
    neap_step_free(step);
    return status;
  }
  *out = step;
  return NEAP_OK;
}

neap_status step_create_plain(const struct neap_step *step, struct neap_step **out) {
  struct region region = {0};
  struct neap_step draft = *step;
  draft.node_count = step->required_count;
  draft.tensors = region_copy(&region, step->tensors, (size_t)step->tensor_count, sizeof *draft.tensors);
  neap_status status =
      draft.tensors == NULL ? neap_fail(NEAP_OUT_OF_MEMORY, "graph: out of memory") : NEAP_OK;
  for (int32_t t = 0; status == NEAP_OK && t < step->tensor_count; t++)
    if (draft.tensors[t].producer >= step->required_count)
      draft.tensors[t].role = NEAP_ROLE_INPUT, draft.tensors[t].bytes = 0;
  if (status == NEAP_OK) status = step_create(&draft, out);
  region_free(&region);
  return status;
}

neap_status step_create_without_lane(const struct neap_step *step, double factor, struct neap_step **out) {
  struct region region = {0};
  struct neap_step draft = *step;
  draft.nodes = region_copy(&region, step->nodes, (size_t)step->node_count, sizeof *draft.nodes);
  neap_status status = draft.nodes == NULL ? neap_fail(NEAP_OUT_OF_MEMORY, "graph: out of memory") : NEAP_OK;
  for (int32_t v = 0; status == NEAP_OK && v < step->node_count; v++) {
    if (!draft.nodes[v].transfers) continue;
    draft.nodes[v].cost *= factor;
    draft.nodes[v].transfers = false;
  }
  if (status == NEAP_OK) status = step_create(&draft, out);
  region_free(&region);
  return status;
}

void neap_step_free(neap_step *step) {
  if (step == NULL) return;
  region_free(&step->region);
  free(step);
}

void neap_step_describe(const neap_step *step, neap_step_info *info) {
  if (info == NULL) return;
  *info = (neap_step_info){.name = ""};
  if (step == NULL) return;
  *info = (neap_step_info){.name = step->name,
                           .tensors = step->tensor_count,
                           .nodes = step->node_count,
                           .resident_bytes = step->resident_bytes,
                           .base_cost = step->base_cost};
  for (int32_t t = 0; t < step->tensor_count; t++) {
    const struct step_tensor *tensor = &step->tensors[t];
    if (tensor->role == NEAP_ROLE_STATE) info->state_bytes += tensor->bytes;
    if (tensor->role == NEAP_ROLE_PARAMETER) info->parameter_bytes += tensor->bytes;
    if (tensor->role == NEAP_ROLE_PARAMETER && tensor->updater >= 0) info->trained_bytes += tensor->bytes;
  }
}

static bool same_ids(const int32_t *a, int32_t count, const int32_t *b, int32_t other) {
  return count == other && (count == 0 || memcmp(a, b, (size_t)count * sizeof *a) == 0);
}

static bool is_alike_node(const struct step_node *a, const struct step_node *b) {
  if (a->pass != b->pass || a->repeatable != b->repeatable || a->transfers != b->transfers ||
      a->cost != b->cost || a->workspace != b->workspace || a->inplace_count != b->inplace_count)
    return false;
  for (int32_t i = 0; i < a->inplace_count; i++)
    if (a->inplace[i].output != b->inplace[i].output || a->inplace[i].input != b->inplace[i].input)
      return false;
  return same_ids(a->inputs, a->input_count, b->inputs, b->input_count) &&
         same_ids(a->outputs, a->output_count, b->outputs, b->output_count) &&
         same_ids(a->updates, a->update_count, b->updates, b->update_count);
}

bool neap_step_is_alike(const neap_step *step, const neap_step *other) {
  if (step == NULL || other == NULL || step->tensor_count != other->tensor_count ||
      step->node_count != other->node_count ||
      !same_ids(step->outputs, step->output_count, other->outputs, other->output_count))
    return false;
  for (int32_t t = 0; t < step->tensor_count; t++) {
    const struct step_tensor *a = &step->tensors[t], *b = &other->tensors[t];
    if (a->role != b->role || (a->role == NEAP_ROLE_VALUE && a->bytes != b->bytes)) return false;
  }
  for (int32_t n = 0; n < step->node_count; n++)
    if (!is_alike_node(&step->nodes[n], &other->nodes[n])) return false;
  return true;
}

neap_status neap_step_node(const neap_step *step, int32_t node, const char **name, const char **op) {
  NEED(step);
  RETURN_IF(node < 0 || node >= step->node_count, NEAP_INVALID_ARGUMENT,
            "node %d does not exist; there are %d nodes", node, step->node_count);
  if (name != NULL) *name = step->nodes[node].name;
  if (op != NULL) *op = step->nodes[node].op;
  return NEAP_OK;
}

neap_status neap_step_tensor(const neap_step *step, int32_t tensor, const char **name, uint64_t *bytes) {
  NEED(step);
  RETURN_IF(tensor < 0 || tensor >= step->tensor_count, NEAP_INVALID_ARGUMENT,
            "tensor %d does not exist; there are %d tensors", tensor, step->tensor_count);
  if (name != NULL) *name = step->tensors[tensor].name;
  if (bytes != NULL) *bytes = step->tensors[tensor].bytes;
  return NEAP_OK;
}
