#include "rewrite/copy.h"

/* Casts the input; readers of the input then read the cast. */
static neap_status cast_input(struct copy *copy, int32_t old) {
  const int32_t input = copy->map[old];
  int32_t output;
  const struct tensor *tensor = &copy->to->tensors.data[input];
  TRY(graph_apply(copy->to, OP_CAST, tensor->name, &(union attributes){.dtype = NEAP_F64}, &input, 1,
                  &output));
  copy->map[old] = output;
  return NEAP_OK;
}

static neap_status widen_all(struct copy *copy) {
  const struct neap_graph *from = copy->from;
  for (size_t t = 0; t < from->tensors.count; t++) {
    const struct tensor *tensor = &from->tensors.data[t];
    if (tensor->role == NEAP_ROLE_INPUT && tensor->view_of < 0 && dtype_is_real(tensor->dtype))
      TRY(cast_input(copy, (int32_t)t));
  }
  for (size_t v = 0; v < from->nodes.count; v++) TRY(copy_node(copy, from->nodes.data[v]));
  for (size_t t = 0; t < copy->to->tensors.count; t++) {
    struct tensor *tensor = &copy->to->tensors.data[t];
    if (dtype_is_real(tensor->dtype) && tensor->role != NEAP_ROLE_INPUT) tensor->dtype = NEAP_F64;
  }
  return NEAP_OK;
}

neap_status rewrite_widen(const struct neap_graph *graph, struct neap_graph **out) {
  struct copy copy;
  TRY(copy_begin(&copy, graph, NULL));
  return copy_end(&copy, widen_all(&copy), out);
}
