#include "op/matrix_shape.h"

struct matrix_shape matrix_shape_of(const struct tensor *t, int32_t op) {
  struct matrix_shape s = {.batch = 1, .rows = t->rank > 1 ? t->dims[0] : 1};
  s.columns = t->elements / s.rows;
  if (op == OP_ADAFACTOR && t->rank > 2) {
    s.rows = t->dims[t->rank - 2];
    s.columns = t->dims[t->rank - 1];
    s.batch = t->elements / (s.rows * s.columns);
  }
  s.block = t->block;
  s.blocked = t->blocked;
  return s;
}

uint64_t rule_workspace(enum op op, const struct update_attributes *a, const struct matrix_shape *s,
                        size_t real) {
  const uint64_t rows = (uint64_t)(s->batch * s->rows), columns = (uint64_t)s->columns, all = rows * columns,
                 shorter = rows < columns ? rows : columns, longer = rows + columns - shorter,
                 rank = (uint64_t)a->projection_rank, numbers = sizeof(double);
  const uint64_t projection = rule_aligned(longer * rank * real) +
                              2 * rule_aligned(RULE_PANEL * columns * real) +
                              3 * rule_aligned(longer * numbers);
  switch (op) {
  case OP_ADALOMO:
  case OP_ADAFACTOR:
    return 3 * rule_aligned(rows * numbers);
  case OP_MUON:
    return 2 * rule_aligned(all * real) + 2 * rule_aligned(shorter * shorter * real) +
           rule_aligned(rows * numbers);
  case OP_APOLLO:
  case OP_APOLLO_MINI:
    return projection + rule_aligned(rank * shorter * real);
  case OP_GALORE:
  case OP_FIRA:
    return projection;
  default:
    return 0;
  }
}
