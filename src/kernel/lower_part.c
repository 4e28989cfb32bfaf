#include "kernel/lower_part.h"

#include "kernel/lower_step.h"
#include "kernel/ranks.h"
#include "rewrite/copy.h"

struct cutting {
  const struct lowered *whole;
  const struct part_request *request;
  struct lowered *to;
  struct copy copy;
  int32_t *state;               /* by value: the state that it lies in */
  double *seconds;              /* by node of the part */
  uint64_t *workspaces;         /* by node of the part */
  struct kernel *kernels;       /* by node of the part */
  struct rank_part *rank_parts; /* by node of the part; NULL: the whole has none */
  struct region region;         /* of all but kernels */
};

static bool takes(const struct cutting *c, int32_t node) {
  return node >= 0 && c->request->nodes != NULL && c->request->nodes[node];
}

/* Marks variables that are elsewhere, and adds the states of values. */
static neap_status copy_residents(struct cutting *c) {
  const struct neap_graph *from = c->whole->graph;
  TRY(copy_begin(&c->copy, from, NULL));
  for (size_t t = 0; t < from->tensors.count; t++) {
    if (c->copy.map[t] < 0) continue;
    struct tensor *tensor = &c->copy.to->tensors.data[c->copy.map[t]];
    tensor->lies_on = 1 + c->request->variables[t].rank;
    tensor->elsewhere = c->request->variables[t].elsewhere;
    tensor->common = c->request->common && tensor->lies_on > 0;
  }
  for (int32_t i = 0; i < c->request->value_count; i++) {
    const struct part_value *value = &c->request->values[i];
    struct tensor tensor = value->tensor;
    tensor.name = value->name;
    tensor.role = NEAP_ROLE_STATE;
    tensor.sum = true; /* nothing of it outlives the step */
    tensor.state_of = NULL;
    tensor.view_of = -1;
    tensor.lies_in = 0;
    tensor.copies = value->copies;
    tensor.common = c->request->common;
    TRY(graph_add_tensor(c->copy.to, tensor, &c->state[i]));
  }
  return NEAP_OK;
}

/* Makes the values that other parts make readable from their states; `back`: ends that. */
static void map_values(struct cutting *c, bool back) {
  for (int32_t i = 0; i < c->request->value_count; i++) {
    const int32_t id = c->request->values[i].id;
    if (id >= 0 && !takes(c, c->whole->graph->tensors.data[id].producer))
      c->copy.map[id] = back ? NO_TENSOR : c->state[i];
  }
}

/* Returns the part of a node's workspace that ranks need, which lowered_make_step adds. */
static uint64_t shared_workspace(const struct cutting *c, int32_t node) {
  return c->whole->rank_parts != NULL ? memory_round_up(c->whole->rank_parts[node].workspace) : 0;
}

static neap_status copy_nodes(struct cutting *c) {
  const struct neap_graph *from = c->whole->graph;
  for (int32_t v = 0; v < (int32_t)from->nodes.count; v++) {
    if (!takes(c, v)) continue;
    const size_t made = c->copy.to->nodes.count;
    TRY(copy_node(&c->copy, from->nodes.data[v]));
    c->seconds[made] = c->whole->step->nodes[v].cost;
    c->workspaces[made] = c->whole->step->nodes[v].workspace - shared_workspace(c, v);
    c->kernels[made] = c->whole->kernels[v];
    c->kernels[made].graph = c->copy.to;
    c->kernels[made].node = (int32_t)made;
    if (c->rank_parts != NULL) c->rank_parts[made] = c->whole->rank_parts[v];
  }
  return NEAP_OK;
}

/* Puts the values that this part makes for all into their states. */
static neap_status store_values(struct cutting *c) {
  for (int32_t i = 0; i < c->request->value_count; i++) {
    const int32_t id = c->request->values[i].id;
    if (id < 0 || !c->request->values[i].stored) continue;
    struct tensor *tensor = &c->copy.to->tensors.data[c->copy.map[id]];
    RETURN_IF(tensor->lies_in > 0, NEAP_UNSUPPORTED,
              "pipeline: '%s' is made in the bytes of a variable, and another part reads it; use another "
              "optimizer, or another number of stages",
              tensor->name);
    tensor->lies_in = 1 + c->state[i];
  }
  return NEAP_OK;
}

static neap_status set_formats(struct cutting *c) {
  struct lowered *to = c->to;
  struct memory_format *formats = region_alloc(&to->region, c->copy.to->tensors.count, sizeof *formats);
  RETURN_IF_NULL(formats);
  to->formats = formats;
  for (size_t t = 0; t < c->whole->graph->tensors.count; t++)
    if (c->copy.map[t] >= 0) formats[c->copy.map[t]] = c->whole->formats[t];
  for (int32_t i = 0; i < c->request->value_count; i++) formats[c->state[i]] = c->request->values[i].format;
  return NEAP_OK;
}

static neap_status cut(struct cutting *c) {
  struct lowered *to = c->to;
  const size_t nodes = c->whole->graph->nodes.count;
  c->state = region_alloc(&c->region, (size_t)c->request->value_count, sizeof *c->state);
  c->seconds = region_alloc(&c->region, nodes, sizeof *c->seconds);
  c->workspaces = region_alloc(&c->region, nodes, sizeof *c->workspaces);
  c->kernels = region_alloc(&to->region, nodes, sizeof *c->kernels);
  RETURN_IF(!c->state || !c->seconds || !c->workspaces || !c->kernels, NEAP_OUT_OF_MEMORY,
            "lowering: out of memory");
  if (c->whole->rank_parts != NULL) {
    c->rank_parts = region_alloc(&to->region, nodes + 1, sizeof *c->rank_parts);
    RETURN_IF_NULL(c->rank_parts);
    to->rank_parts = c->rank_parts;
  }
  TRY(copy_residents(c));
  map_values(c, false);
  neap_status status = copy_nodes(c);
  if (status == NEAP_OK) status = store_values(c);
  if (status == NEAP_OK) status = set_formats(c);
  map_values(c, true); /* the whole's loss and outputs are this part's if it makes them */
  TRY(copy_end(&c->copy, status, &to->graph));
  to->kernels = c->kernels;
  return lowered_make_step(to, c->seconds, c->workspaces);
}

neap_status lowered_part(const struct lowered *whole, const struct part_request *request,
                         struct lowered **out) {
  struct cutting c = {.whole = whole, .request = request, .to = calloc(1, sizeof *c.to)};
  RETURN_IF_NULL(c.to);
  c.to->backend = whole->backend;
  c.to->state = whole->state;
  c.to->kept_outputs = whole->kept_outputs;
  c.to->threads = whole->threads;
  const neap_status status = cut(&c);
  region_free(&c.region);
  if (status == NEAP_OK)
    *out = c.to;
  else
    lowered_free(c.to);
  return status;
}
