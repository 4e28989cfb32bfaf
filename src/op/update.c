/* Optimizers: updates of a parameter and its states. */
#include "op/op.h"

/* The inputs for the values of all sparse parameters follow its own (UPDATE_SLOTS): indices, then each
 * parameter's offset and positions. */
#define UPDATE_TAKES                                                                                         \
  .takes = {[2] = TYPES_FLOAT | TYPES_DYNAMIC,                                                               \
            TYPES_FLOAT | TYPES_DYNAMIC,                                                                     \
            [UPDATE_SLOTS] = TYPE_U16,                                                                       \
            [UPDATE_SLOTS + 1] = TYPE_I32,                                                                   \
            TYPES_POSITIONS,                                                                                 \
            TYPE_I32}

/* Counts the products of an update rule of matrices, beside some passes over them. */
static double rule_flops(const struct neap_graph *graph, const struct node *node) {
  const struct tensor *w = node_input(graph, node, 0);
  const double all = (double)w->elements, rows = w->rank > 1 ? (double)w->dims[0] : 1, columns = all / rows,
               shorter = rows < columns ? rows : columns, longer = all / shorter,
               projection = 2 * all * (double)node->attributes.update.projection_rank;
  enum { PASSES = 16, TURNS = 5 };
  switch (node->op) {
  case OP_MUON:
    return TURNS * (4 * shorter * shorter * longer + 2 * shorter * shorter * shorter) + PASSES * all;
  case OP_GALORE:
    return 2 * projection + PASSES * all;
  case OP_FIRA:
    return 3 * projection + PASSES * all;
  default:
    return projection + PASSES * all;
  }
}

#define UNWRAP(...) __VA_ARGS__
#define NUMBER(x)   ATTRIBUTE(update.x, REAL)
#define SWITCH(x)   ATTRIBUTE(update.x, FLAG)
#define COUNT(x)    ATTRIBUTE(update.x, INTEGER)
#define MATRIX_UPDATE(NAME, id, word, text, stream, about, numbers, ...)                                     \
  static const struct attribute_row id##_attributes[] = {UNWRAP numbers};                                    \
  const struct op_row op_row_##id = {text,                                                                   \
                                     "update: " about,                                                       \
                                     .flops = rule_flops,                                                    \
                                     ROW_ATTRIBUTES(id##_attributes),                                        \
                                     .any_place = true,                                                      \
                                     .across = ACROSS_ALIKE};
#define UPDATE(NAME, id, word, text, stream, about, numbers, ...)                                            \
  static const struct attribute_row id##_attributes[] = {UNWRAP numbers};                                    \
  const struct op_row op_row_##id = {                                                                        \
      text,         "update: " about,    ROW_ATTRIBUTES(id##_attributes), .any_place = true,                 \
      UPDATE_TAKES, .split = {15, 0, 0}, .across = ACROSS_SHARE};
#include "op/update_list.h"

/* ---- A step of several micro-batches ---- */

const struct op_row op_row_accumulate = {"Accumulate",       "update: a gradient added to a sum",
                                         .any_place = true,  UPDATE_TAKES,
                                         .split = {7, 0, 0}, .across = ACROSS_SUM};
const struct op_row op_row_clear = {"Clear",
                                    "update: a sum that begins with 0",
                                    .any_place = true,
                                    UPDATE_TAKES,
                                    .split = {1, 0, 0},
                                    .across = ACROSS_SHARE};
const struct op_row op_row_momentum_begin = {"MomentumBegin",
                                             "update: momentum and weight decay, before gradients",
                                             ROW_ATTRIBUTES(sgd_attributes),
                                             .any_place = true,
                                             UPDATE_TAKES,
                                             .split = {3, 0, 0},
                                             .across = ACROSS_SHARE};
const struct op_row op_row_momentum_end = {"MomentumEnd",
                                           "update: weights by their momentum",
                                           ROW_ATTRIBUTES(sgd_attributes),
                                           .any_place = true,
                                           UPDATE_TAKES,
                                           .split = {3, 0, 0},
                                           .across = ACROSS_SHARE};

/* ---- Clipping ---- */

static const struct attribute_row clip_attributes[] = {ATTRIBUTE(scalar.a, REAL), ATTRIBUTE(scalar.b, REAL)};

const struct op_row op_row_clip_gradient = {"ClipGradient",
                                            "a gradient cut to a size, times a number",
                                            .output_count = 1,
                                            ROW_INPLACE(inplace_first),
                                            ROW_ATTRIBUTES(clip_attributes),
                                            .any_place = true,
                                            .split = {1, 1, 0},
                                            .across = ACROSS_SHARE};
const struct op_row op_row_squared_norm = {
    "SquaredNorm",     "sum of squares",   .output_count = 1,     ROW_ATTRIBUTES(clip_attributes),
    .any_place = true, .split = {1, 0, 1}, .across = ACROSS_SHARE};
const struct op_row op_row_clip_coefficient = {
    "ClipCoefficient",          "what scales gradients down to a norm", .output_count = 1,
    ROW_INPLACE(inplace_first), ROW_ATTRIBUTES(clip_attributes),        .any_place = true,
    .takes = {TYPE_F32}};
