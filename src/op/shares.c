/* Gathers parameters of which each process (rank) holds a share. A rewrite makes these nodes
 * (rewrite/fetch.c). */
#include "op/op.h"

static neap_status infer_all_gather(const struct neap_graph *graph, const struct node *node,
                                    struct tensor *outputs) {
  outputs[0] = value_like(node_input(graph, node, 0));
  return NEAP_OK;
}

const struct op_row op_row_all_gather = {"AllGather",
                                         "a parameter of which each process has a share, whole",
                                         .output_count = 1,
                                         .infer = infer_all_gather,
                                         .any_place = true,
                                         .lies_as = 1,
                                         .takes = {TYPES_FLOAT | TYPES_QUANTISED},
                                         .across = ACROSS_GATHER};
