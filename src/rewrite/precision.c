#include "rewrite/copy.h"

/* A copy that stores real numbers in `dtype`. */
struct precision {
  struct copy copy;
  neap_dtype dtype;
  VECTOR(int32_t) casts; /* tensor of the new graph -> the same in the other type; NO_TENSOR: not made */
};

static struct tensor *made(struct precision *p, int32_t id) { return &p->copy.to->tensors.data[id]; }

static bool is_f32(const struct tensor *t) { return t->dtype == NEAP_F32; }

/* Stores variables in fewer bits unless something reads them as f32. Inputs stay as the caller fills them. */
static neap_status store_variables(struct precision *p) {
  const struct neap_graph *from = p->copy.from;
  bool *exact = calloc(from->tensors.count + 1, sizeof *exact);
  RETURN_IF_NULL(exact);
  for (size_t v = 0; v < from->nodes.count; v++)
    for (int32_t i = 0; i < from->nodes.data[v].input_count; i++)
      if (from->nodes.data[v].inputs[i] != NO_TENSOR &&
          !type_set_has(node_takes(&from->nodes.data[v], i), p->dtype))
        exact[graph_storage(from, from->nodes.data[v].inputs[i])] = true;
  for (size_t t = 0; t < from->tensors.count; t++) {
    const struct tensor *tensor = &from->tensors.data[t];
    const bool variable = tensor->role == NEAP_ROLE_PARAMETER || tensor->role == NEAP_ROLE_STATE;
    if (variable && tensor->view_of < 0 && is_f32(tensor) && !exact[t])
      made(p, p->copy.map[t])->dtype = p->dtype;
  }
  free(exact);
  return NEAP_OK;
}

/* Gives the tensor cast to the other of the two types. */
static neap_status cast(struct precision *p, int32_t id, neap_dtype dtype, int32_t *out) {
  while (p->casts.count <= (size_t)id) TRY(vector_push(&p->casts, NO_TENSOR));
  if (p->casts.data[id] == NO_TENSOR)
    TRY(graph_apply(p->copy.to, OP_CAST, made(p, id)->name, &(union attributes){.dtype = (int32_t)dtype}, &id,
                    1, &p->casts.data[id]));
  *out = p->casts.data[id];
  return NEAP_OK;
}

/* Returns the type that a slot of a node takes. The inputs of an update have the type that the updated
 * variable is stored in. */
static neap_dtype wanted_type(const struct precision *p, const struct node *node, int32_t slot) {
  if (node->update_count > 0) return p->copy.to->tensors.data[p->copy.map[node->updates[0]]].dtype;
  return type_set_has(node_takes(node, slot), p->dtype) ? p->dtype : NEAP_F32;
}

/* Gives the new tensor in the type that the slot takes. A view has the type of its storage. */
static neap_status provide(struct precision *p, const struct node *node, int32_t slot, int32_t *id) {
  if (node->inputs[slot] == NO_TENSOR) {
    *id = NO_TENSOR;
    return NEAP_OK;
  }
  TRY(copy_tensor(&p->copy, node->inputs[slot], id));
  made(p, *id)->dtype = made(p, graph_storage(p->copy.to, *id))->dtype;
  const neap_dtype have = made(p, *id)->dtype, want = wanted_type(p, node, slot);
  if ((have != NEAP_F32 && have != p->dtype) || have == want || node->op == OP_CAST) return NEAP_OK;
  return cast(p, *id, want, id);
}

static neap_status store_node(struct precision *p, const struct node *node) {
  struct copy *c = &p->copy;
  const struct op_row *row = node_row(node);
  int32_t outputs[NODE_MAX_OUTPUTS];
  struct tensor shapes[NODE_MAX_OUTPUTS];
  c->ids.count = 0;
  TRY(vector_reserve(&c->ids, (size_t)(node->input_count + node->update_count) + 1));
  int32_t *inputs = c->ids.data, *updates = inputs + node->input_count;
  for (int32_t i = 0; i < node->input_count; i++) TRY(provide(p, node, i, &inputs[i]));
  for (int32_t i = 0; i < node->update_count; i++) TRY(copy_tensor(c, node->updates[i], &updates[i]));
  struct node copy = *node;
  copy.inputs = inputs;
  copy.updates = updates;
  if (row->infer != NULL) TRY(row->infer(c->to, &copy, shapes));
  for (int32_t i = 0; i < node->output_count; i++) {
    TRY(copy_value(c, node->outputs[i]));
    outputs[i] = c->map[node->outputs[i]];
    if (row->infer != NULL) made(p, outputs[i])->dtype = shapes[i].dtype;
  }
  copy.outputs = outputs;
  return graph_add_node(c->to, copy);
}

static neap_status store_all(struct precision *p, bool master) {
  if (!master) TRY(store_variables(p));
  for (size_t v = 0; v < p->copy.from->nodes.count; v++) TRY(store_node(p, &p->copy.from->nodes.data[v]));
  return NEAP_OK;
}

neap_status rewrite_precision(const struct neap_graph *graph, neap_dtype dtype, bool master,
                              struct neap_graph **out) {
  struct precision p = {.dtype = dtype};
  TRY(copy_begin(&p.copy, graph, NULL));
  const neap_status status = store_all(&p, master);
  vector_free(&p.casts);
  return copy_end(&p.copy, status, out);
}
