/* Makes a step from plain arrays: a draft that refers to them, which step_create checks and copies. */
#include <string.h>

#include "step/step.h"

struct list {
  const int32_t *ids;
  int32_t count;
};

/* Gives the list of one node. */
static neap_status list_of(const neap_lists *lists, const char *field, int32_t node, struct list *out) {
  *out = (struct list){0};
  if (lists->start == NULL) {
    if (lists->ids != NULL) *out = (struct list){lists->ids + node, 1};
    return NEAP_OK;
  }
  const int64_t begin = lists->start[node], end = lists->start[node + 1];
  RETURN_IF(begin < 0 || end < begin, NEAP_INVALID_ARGUMENT,
            "%s.start: goes from %lld at node %d to %lld; it must never decrease", field, (long long)begin,
            node, (long long)end);
  RETURN_IF(end - begin > INT32_MAX, NEAP_TOO_LARGE, "%s.start: node %d has %lld ids, which is too many",
            field, node, (long long)(end - begin));
  RETURN_IF(end > begin && lists->ids == NULL, NEAP_INVALID_ARGUMENT, "%s.ids is NULL", field);
  if (end > begin) *out = (struct list){lists->ids + begin, (int32_t)(end - begin)};
  return NEAP_OK;
}

/* ---- Tensors ---- */

/* Skips a tensor that is out of range, so that step_create names it. */
static void set_roles(const struct neap_step *draft, struct list list, neap_role role) {
  for (int32_t i = 0; i < list.count; i++)
    if (list.ids[i] >= 0 && list.ids[i] < draft->tensor_count) draft->tensors[list.ids[i]].role = role;
}

/* Derives roles from what the nodes, already filled, do with the tensors. */
static void guess_roles(const struct neap_step *draft) {
  for (int32_t v = 0; v < draft->node_count; v++) {
    const struct step_node *node = &draft->nodes[v];
    set_roles(draft, (struct list){node->updates, node->update_count}, NEAP_ROLE_PARAMETER);
  }
  for (int32_t v = 0; v < draft->node_count; v++) {
    const struct step_node *node = &draft->nodes[v];
    set_roles(draft, (struct list){node->outputs, node->output_count}, NEAP_ROLE_VALUE);
  }
}

static neap_status fill_tensors(const neap_step_arrays *arrays, struct region *region,
                                struct neap_step *draft) {
  for (int32_t t = 0; t < arrays->tensor_count; t++) {
    struct step_tensor *tensor = &draft->tensors[t];
    *tensor = (struct step_tensor){.bytes = arrays->tensor_bytes[t], .role = NEAP_ROLE_INPUT};
    if (arrays->tensor_roles != NULL) {
      const unsigned role = (unsigned)arrays->tensor_roles[t];
      RETURN_IF(role >= ROLE_COUNT, NEAP_INVALID_ARGUMENT, "tensor_roles[%d]: %u is not a role", t, role);
      tensor->role = arrays->tensor_roles[t];
    }
    tensor->name =
        arrays->tensor_names != NULL ? arrays->tensor_names[t] : region_format(region, "tensor %d", t);
    RETURN_IF(tensor->name == NULL && arrays->tensor_names == NULL, NEAP_OUT_OF_MEMORY,
              "step: out of memory");
  }
  if (arrays->tensor_roles == NULL) guess_roles(draft);
  return NEAP_OK;
}

/* ---- Nodes ---- */

static neap_status fill_node(const neap_step_arrays *arrays, int32_t v, struct region *region,
                             struct step_node *node) {
  struct list inputs, outputs, updates;
  TRY(list_of(&arrays->inputs, "inputs", v, &inputs));
  TRY(list_of(&arrays->outputs, "outputs", v, &outputs));
  TRY(list_of(&arrays->updates, "updates", v, &updates));
  const unsigned pass = arrays->node_passes != NULL ? (unsigned)arrays->node_passes[v] : NEAP_PASS_FORWARD;
  RETURN_IF(pass >= PASS_COUNT, NEAP_INVALID_ARGUMENT, "node_passes[%d]: %u is not a pass", v, pass);
  *node = (struct step_node){
      .name = arrays->node_names != NULL ? arrays->node_names[v] : region_format(region, "node %d", v),
      .op = arrays->node_operators != NULL ? arrays->node_operators[v] : NULL,
      .pass = (neap_pass)pass,
      .repeatable = arrays->node_repeatable == NULL || arrays->node_repeatable[v],
      .cost = arrays->node_costs != NULL ? arrays->node_costs[v] : 1,
      .workspace = arrays->node_workspaces != NULL ? arrays->node_workspaces[v] : 0,
      .inputs = inputs.ids,
      .input_count = inputs.count,
      .outputs = outputs.ids,
      .output_count = outputs.count,
      .updates = updates.ids,
      .update_count = updates.count,
  };
  RETURN_IF(node->name == NULL && arrays->node_names == NULL, NEAP_OUT_OF_MEMORY, "step: out of memory");
  return NEAP_OK;
}

/* Groups the pairs by node, in the order in which they were given. */
static neap_status fill_inplace(const neap_step_arrays *arrays, struct region *region,
                                struct neap_step *draft) {
  const int64_t count = arrays->inplace_count;
  RETURN_IF(count < 0 || count > INT32_MAX, NEAP_INVALID_ARGUMENT,
            "inplace_count: must be 0 to 2^31 - 1 (got %lld)", (long long)count);
  RETURN_IF(count > 0 && arrays->inplace == NULL, NEAP_INVALID_ARGUMENT, "inplace is NULL");
  for (int64_t i = 0; i < count; i++) {
    const int32_t v = arrays->inplace[i].node;
    RETURN_IF(v < 0 || v >= draft->node_count, NEAP_INVALID_ARGUMENT,
              "inplace[%lld]: node %d is out of range (0 to %d)", (long long)i, v, draft->node_count - 1);
    draft->nodes[v].inplace_count++;
  }
  struct inplace_pair *pairs = region_alloc(region, (size_t)count, sizeof *pairs);
  struct inplace_pair **next = region_alloc(region, (size_t)draft->node_count, sizeof *next);
  RETURN_IF(pairs == NULL || next == NULL, NEAP_OUT_OF_MEMORY, "step: out of memory");
  for (int32_t v = 0; v < draft->node_count; v++) {
    draft->nodes[v].inplace = next[v] = pairs;
    pairs += draft->nodes[v].inplace_count;
  }
  for (int64_t i = 0; i < count; i++)
    *next[arrays->inplace[i].node]++ =
        (struct inplace_pair){arrays->inplace[i].output, arrays->inplace[i].input};
  return NEAP_OK;
}

/* ---- The step ---- */

static neap_status check_arrays(const neap_step_arrays *a) {
  RETURN_IF(a == NULL, NEAP_INVALID_ARGUMENT, "neap_step_create: 'arrays' is NULL");
  RETURN_IF(a->tensor_count < 0 || a->node_count < 0 || a->step_output_count < 0, NEAP_INVALID_ARGUMENT,
            "neap_step_create: got %d tensors, %d nodes, %d outputs; counts must not be negative",
            a->tensor_count, a->node_count, a->step_output_count);
  RETURN_IF(a->tensor_count > 0 && a->tensor_bytes == NULL, NEAP_INVALID_ARGUMENT, "tensor_bytes is NULL");
  RETURN_IF(a->step_output_count > 0 && a->step_outputs == NULL, NEAP_INVALID_ARGUMENT,
            "step_outputs is NULL");
  return NEAP_OK;
}

static neap_status fill_draft(const neap_step_arrays *arrays, struct region *region,
                              struct neap_step *draft) {
  *draft = (struct neap_step){.name = arrays->name,
                              .tensor_count = arrays->tensor_count,
                              .node_count = arrays->node_count,
                              .output_count = arrays->step_output_count,
                              .outputs = arrays->step_outputs};
  draft->tensors = region_alloc(region, (size_t)draft->tensor_count, sizeof *draft->tensors);
  draft->nodes = region_alloc(region, (size_t)draft->node_count, sizeof *draft->nodes);
  RETURN_IF(draft->tensors == NULL || draft->nodes == NULL, NEAP_OUT_OF_MEMORY, "step: out of memory");
  for (int32_t v = 0; v < draft->node_count; v++) TRY(fill_node(arrays, v, region, &draft->nodes[v]));
  TRY(fill_inplace(arrays, region, draft));
  return fill_tensors(arrays, region, draft);
}

neap_status neap_step_create(const neap_step_arrays *arrays, neap_step **step) {
  NEED(step);
  TRY(check_arrays(arrays));
  struct region region = {0};
  struct neap_step draft;
  neap_status status = fill_draft(arrays, &region, &draft);
  if (status == NEAP_OK) status = step_create(&draft, step);
  region_free(&region);
  /* The rules are those of graph files; here it is the caller's arrays that break them. */
  return status == NEAP_BAD_FORMAT ? neap_fail(NEAP_INVALID_ARGUMENT, "%s", neap_error_message()) : status;
}
