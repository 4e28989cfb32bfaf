/* Parameters in quantised types. A rewrite makes these nodes (rewrite/quantise.c). */
#include "op/op.h"

static const struct attribute_row dequantise_attributes[] = {ATTRIBUTE(dtype, INT32)};

static neap_status infer_dequantise(const struct neap_graph *graph, const struct node *node,
                                    struct tensor *outputs) {
  outputs[0] = value_like(node_input(graph, node, 0));
  outputs[0].dtype = (neap_dtype)node->attributes.dtype;
  return NEAP_OK;
}

const struct op_row op_row_dequantise = {"Dequantise",
                                         "numbers of a quantised type, each its scale times a whole one",
                                         .output_count = 1,
                                         .infer = infer_dequantise,
                                         ROW_ATTRIBUTES(dequantise_attributes),
                                         .takes = {TYPES_QUANTISED}};
