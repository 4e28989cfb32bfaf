/* Parameters in quantised types, and values in blocks of few bits. Rewrites make these nodes
 * (rewrite/quantise.c, rewrite/compress.c). */
#include "op/op.h"

static const struct attribute_row type_attributes[] = {ATTRIBUTE(dtype, INT32)};

/* The first input in the type of the attributes. */
static neap_status infer_typed(const struct neap_graph *graph, const struct node *node,
                               struct tensor *outputs) {
  outputs[0] = value_like(node_input(graph, node, 0));
  outputs[0].dtype = (neap_dtype)node->attributes.dtype;
  return NEAP_OK;
}

const struct op_row op_row_dequantise = {"Dequantise",
                                         "numbers of a quantised type, each its scale times a whole one",
                                         .output_count = 1,
                                         .infer = infer_typed,
                                         ROW_ATTRIBUTES(type_attributes),
                                         .takes = {TYPES_QUANTISED}};

/* Philox's rounds for eight elements, a division and a search for the range, as measured: 0.36 ns an element
 * where a core makes 264 GFLOP/s. */
static double flops_compress(const struct neap_graph *graph, const struct node *node) {
  return 90 * (double)node_input(graph, node, 0)->elements;
}

const struct op_row op_row_compress = {"Compress",
                                       "values in blocks of few bits, rounded at random",
                                       .output_count = 1,
                                       .infer = infer_typed,
                                       .flops = flops_compress,
                                       ROW_ATTRIBUTES(type_attributes)};
