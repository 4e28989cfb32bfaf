/* Sparse weights: the values at nonzeros, in one pool for all layers. A bit for each element of a layer, or
 * an index with each value, says where they are. A rewrite makes these nodes (rewrite/sparse.c). */
#include "op/op.h"

const struct op_row op_row_densify = {
    "Densify",
    "sparse weights as a dense tensor",
    .output_count = 1,
    .any_place = true,
    .lies_as = 1 + DENSIFY_POSITIONS,
    .takes = {
        [DENSIFY_OFFSET] = TYPE_I32, [DENSIFY_POSITIONS] = TYPES_POSITIONS, [DENSIFY_INDICES] = TYPE_U16}};
const struct op_row op_row_accumulate_sparse = {
    "AccumulateSparse", "update: a dense gradient added to sums at nonzeros", .any_place = true,
    .takes = {[SPARSE_OFFSET] = TYPE_I32, [SPARSE_POSITIONS] = TYPES_POSITIONS, [SPARSE_INDICES] = TYPE_U16},
    .across = ACROSS_WHOLE};
