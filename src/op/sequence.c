/* Positions and lengths of sequences. */
#include "op/builder.h"

/* ---- Sinusoidal positions ---- */

static const struct attribute_row positions_attributes[] = {ATTRIBUTE(positions.length, INTEGER),
                                                            ATTRIBUTE(positions.width, INTEGER),
                                                            ATTRIBUTE(positions.first, INTEGER)};

static neap_status infer_positions(const struct neap_graph *graph, const struct node *node,
                                   struct tensor *outputs) {
  (void)graph;
  const struct positions_attributes *a = &node->attributes.positions;
  RETURN_IF(a->length < 1 || a->width < 2 || a->width % 2 != 0, NEAP_INVALID_ARGUMENT,
            "Positions '%s': got %lld rows of width %lld; rows must be positive, the width positive and even",
            node->name, (long long)a->length, (long long)a->width);
  outputs[0] = value_of(NEAP_F32, 2, a->length, a->width);
  return NEAP_OK;
}

const struct op_row op_row_positions = {"Positions",     "sines and cosines of a row's position, a constant",
                                        "positions",     1,
                                        infer_positions, ROW_ATTRIBUTES(positions_attributes)};

neap_tensor neap_positions(neap_builder *b, int64_t length, int64_t width, int64_t first) {
  if (!builder_ready(b)) return FAILED;
  char name[2 * NAME_LIMIT];
  builder_name(b, OP_POSITIONS, name);
  const union attributes a = {.positions = {.length = length, .width = width, .first = first}};
  return builder_apply(b, OP_POSITIONS, name, a, NULL, 0, NULL);
}

/* ---- Lengths ---- */

static neap_status infer_sequence_mask(const struct neap_graph *graph, const struct node *node,
                                       struct tensor *outputs) {
  TRY(need_real(graph, node, -2, "sequences [N, T, ...]"));
  const struct tensor *x = node_input(graph, node, 0), *lengths = node_input(graph, node, 1);
  RETURN_IF(
      lengths->dtype != NEAP_I32 || lengths->rank != 1 || lengths->dims[0] != x->dims[0],
      NEAP_INVALID_ARGUMENT,
      "SequenceMask '%s': each of the %lld sequences of '%s' needs a length of i32, but '%s' is %s of %s",
      node->name, (long long)x->dims[0], x->name, lengths->name, shape_text(lengths).text,
      dtype_rows[lengths->dtype].name);
  return infer_same(graph, node, outputs);
}

static neap_status gradient_sequence_mask(struct gradient *g, const struct node *n) {
  return GRADIENT_EMIT(g, OP_SEQUENCE_MASK, n, n->inputs[0], g->of[n->outputs[0]], n->inputs[1]);
}

const struct op_row op_row_sequence_mask = {"SequenceMask",
                                            "rows of a sequence beyond its length made 0; its own gradient",
                                            "sequence_mask",
                                            1,
                                            infer_sequence_mask,
                                            gradient_sequence_mask,
                                            ROW_INPLACE(inplace_first),
                                            .takes = {[1] = TYPE_I32},
                                            .split = {3, 1, 0}};

neap_tensor neap_sequence_mask(neap_builder *b, neap_tensor x, neap_tensor lengths) {
  return builder_next(b, OP_SEQUENCE_MASK, (union attributes){0}, (int32_t[]){x, lengths}, 2);
}

static neap_status infer_sequence_lengths(const struct neap_graph *graph, const struct node *node,
                                          struct tensor *outputs) {
  const struct tensor *ids = node_input(graph, node, 0);
  RETURN_IF(ids->dtype != NEAP_I32 || ids->rank != 2, NEAP_INVALID_ARGUMENT,
            "SequenceLengths '%s': ids must be [N, T] of i32, but '%s' is %s of %s", node->name, ids->name,
            shape_text(ids).text, dtype_rows[ids->dtype].name);
  outputs[0] = value_of(NEAP_I32, 1, ids->dims[0], 0);
  return NEAP_OK;
}

const struct op_row op_row_sequence_lengths = {
    "SequenceLengths",      "ids of a sequence before the first negative one, which is padding",
    "sequence_lengths",     1,
    infer_sequence_lengths, .takes = {TYPE_I32},
    .split = {1, 1, 0}};

neap_tensor neap_sequence_lengths(neap_builder *b, neap_tensor ids) {
  return builder_next(b, OP_SEQUENCE_LENGTHS, (union attributes){0}, &ids, 1);
}
