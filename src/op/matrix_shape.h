/* The operands of matrices' update rules, and the memory that the rules need. */
#ifndef NEAP_OP_MATRIX_SHAPE_H
#define NEAP_OP_MATRIX_SHAPE_H

#include "op/op.h"

/* A parameter as matrices that lie row by row, one behind the other; and its elements as blocks that share a
 * second moment: of `block` elements in the first `blocked` ones, of a row in the others. */
struct matrix_shape {
  int64_t batch, rows, columns, block, blocked;
};

/* States by their number in optimizer_row.states. */
enum { RULE_FIRST, RULE_SECOND, RULE_PROJECTION, RULE_LIMIT, RULE_STATES };
enum { RULE_ROWS, RULE_COLUMNS };

enum { RULE_PANEL = 128 }; /* rows of a gradient that are multiplied at a time */

/* c [rows, columns] = a [rows, depth] b [depth, columns], added to c if `add`; a and b are stored turned if
 * marked. The numbers behind the matrices are elements from a row to the next. `real` is the includer's. */
#define RULE_PRODUCT(real)                                                                                   \
  struct rule_product {                                                                                      \
    int64_t rows, columns, depth;                                                                            \
    const real *a;                                                                                           \
    int64_t a_row;                                                                                           \
    bool a_turned;                                                                                           \
    const real *b;                                                                                           \
    int64_t b_row;                                                                                           \
    bool b_turned;                                                                                           \
    real *c;                                                                                                 \
    int64_t c_row;                                                                                           \
    bool add;                                                                                                \
  }

static inline int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

static inline uint64_t rule_aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

static inline int64_t matrix_elements(const struct matrix_shape *s) {
  return s->batch * s->rows * s->columns;
}

/* Return the number of blocks, and the first element of one. */
static inline int64_t block_count(const struct matrix_shape *s) {
  const int64_t rest = matrix_elements(s) - s->blocked;
  return (s->blocked > 0 ? s->blocked / s->block : 0) + rest / s->columns;
}
static inline int64_t block_first(const struct matrix_shape *s, int64_t block) {
  const int64_t before = s->blocked > 0 ? s->blocked / s->block : 0;
  return block < before ? block * s->block : s->blocked + (block - before) * s->columns;
}

/* Returns the matrices of a parameter that a rule updates: [dims[0], rest]; for Adafactor those of the last
 * two dimensions, as in PyTorch; a vector is one row. */
struct matrix_shape matrix_shape_of(const struct tensor *parameter, int32_t op);

/* Returns the bytes that the rule of an operator takes for itself, with numbers of `real` bytes. */
uint64_t rule_workspace(enum op op, const struct update_attributes *a, const struct matrix_shape *shape,
                        size_t real);

#endif
