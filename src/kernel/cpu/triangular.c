/* Cholesky factors and triangular systems by blocks of rows (Golub and Van Loan, sections 3.1 and 4.2): what
 * other blocks give to a block is a product, of our own kernel; the rest is a small system. The order of sums
 * follows from n alone. */
#include <string.h>

#include "kernel/cpu/operator.h"

/* The kernels, threads and memory of an operator's steps. */
struct solver {
  const struct cpu_kernels *kernels;
  int threads;
  int64_t n;
  float *less; /* a product [size of a block, columns] */
  void *work;  /* of the product */
};

/* A matrix in memory: element (r, c) is at r * row + c * column. */
struct placed {
  float *data;
  int64_t row, column;
};

static int64_t side_of(const struct tensor *square) { return square->dims[square->rank - 1]; }
static int64_t matrices(const struct tensor *square) {
  return square->elements / (side_of(square) * side_of(square));
}

static int64_t size_at(const struct solver *s, int64_t first) {
  return s->n - first < TRIANGULAR_BLOCK ? s->n - first : TRIANGULAR_BLOCK;
}

/* The product that a block of `size` rows gets, from a [size, depth] or, turned, [depth, size]. */
static struct product product_of(const struct solver *s, int64_t first, int64_t columns, int64_t depth,
                                 struct placed a, struct placed b) {
  const bool turned = a.row == 1;
  return (struct product){.rows = size_at(s, first),
                          .columns = columns,
                          .depth = depth,
                          .a = {.row = turned ? a.column : a.row, .column = 1, .storage = NEAP_F32},
                          .b = {.row = b.row, .column = b.column, .storage = NEAP_F32},
                          .c = {.row = columns, .column = 1, .storage = NEAP_F32},
                          .a_turned = turned,
                          .threads = s->threads};
}

static const float *multiply(const struct solver *s, int64_t first, int64_t columns, int64_t depth,
                             struct placed a, struct placed b) {
  if (depth == 0 || columns == 0) return NULL;
  const struct product p = product_of(s, first, columns, depth, a, b);
  s->kernels->product(&p, &(struct product_operands){.a = a.data, .b = b.data, .c = s->less}, s->work);
  return s->less;
}

static struct placed part(struct placed x, int64_t r, int64_t c) {
  x.data += r * x.row + c * x.column;
  return x;
}
static struct placed turned(struct placed x) { return (struct placed){x.data, x.column, x.row}; }

/* Solves L x = b or L^T x = b in place for the rows of a block; those that they need have been solved. */
static void solve_block(const struct solver *s, struct placed l, bool transposed, struct placed x,
                        int64_t first, int64_t columns) {
  const int64_t size = size_at(s, first), other = transposed ? first + size : 0,
                depth = transposed ? s->n - other : first;
  if (columns == 0) return;
  const struct placed factor = transposed ? turned(part(l, other, first)) : part(l, first, 0);
  const float *less = depth > 0 ? multiply(s, first, columns, depth, factor, part(x, other, 0)) : NULL;
  const struct triangular_block t = {size, columns, l.row, transposed, x.row, x.column};
  s->kernels->triangular_block(&t, part(l, first, first).data, less, part(x, first, 0).data);
}

static int64_t last_block(const struct solver *s) { return (s->n - 1) / TRIANGULAR_BLOCK * TRIANGULAR_BLOCK; }

static void solve(const struct solver *s, struct placed l, bool transposed, struct placed x,
                  int64_t columns) {
  for (int64_t first = 0; first < s->n; first += TRIANGULAR_BLOCK)
    solve_block(s, l, transposed, x, transposed ? last_block(s) - first : first, columns);
}

/* ---- Workspace ---- */

/* Products have at most `columns`, and those of a lower triangle [n, n] as many as the triangle has. */
static uint64_t less_bytes(int64_t columns) {
  const uint64_t bytes = (uint64_t)(TRIANGULAR_BLOCK * columns) * sizeof(float);
  return (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
}

static void raise_to(const struct solver *s, const struct product *p, uint64_t *most) {
  if (p->depth == 0 || p->columns == 0) return;
  const uint64_t bytes = s->kernels->product_workspace(p);
  *most = bytes > *most ? bytes : *most;
}

/* Returns the most bytes that products of a system with `columns` take for themselves. `triangle`: a block
 * has the columns up to its own, or those behind it. */
static uint64_t solve_bytes(const struct solver *s, bool transposed, bool triangle, struct placed x,
                            int64_t columns) {
  uint64_t most = 0;
  const struct placed l = {NULL, transposed ? 1 : s->n, transposed ? s->n : 1};
  for (int64_t first = 0; first < s->n; first += TRIANGULAR_BLOCK) {
    const int64_t end = first + size_at(s, first), depth = transposed ? s->n - end : first,
                  some = !triangle    ? columns
                         : transposed ? end
                                      : s->n - end;
    const struct product p = product_of(s, first, some, depth, l, x);
    raise_to(s, &p, &most);
  }
  return most;
}

/* The same of the products of a lower triangle's rows; depth 0: the rows from a block's first on. */
static uint64_t lower_bytes(const struct solver *s, int64_t depth, struct placed a, struct placed b) {
  uint64_t most = 0;
  for (int64_t first = 0; first < s->n; first += TRIANGULAR_BLOCK) {
    const struct product p =
        product_of(s, first, first + size_at(s, first), depth > 0 ? depth : s->n - first, a, b);
    raise_to(s, &p, &most);
  }
  return most;
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static struct solver solver_of(const struct cpu *cpu, int64_t n) {
  return (struct solver){.kernels = cpu->kernels, .threads = cpu->threads, .n = n};
}

static neap_status finish(const struct cpu *cpu, const struct node *node, struct preparation *p,
                          kernel_run *run) {
  for (int32_t i = 0; i < node->input_count; i++) p->inputs[i] = ROW_MAJOR;
  return cpu_finish(cpu, p, run, (struct cpu_kernel){.count = (uint64_t)cpu->threads});
}

/* The solver of a run; its products have at most `columns`. */
static struct solver solver_in(const struct kernel *kernel, int64_t n, int64_t columns, void *workspace) {
  return (struct solver){.kernels = K,
                         .threads = (int)cpu_kernel(kernel)->count,
                         .n = n,
                         .less = workspace,
                         .work = (unsigned char *)workspace + less_bytes(columns)};
}

/* ---- The Cholesky factor ---- */

/* Factors the lower triangle in place: a block of the diagonal, then the rows below it. */
static void factor(const struct solver *s, struct placed l) {
  for (int64_t first = 0; first < s->n; first += TRIANGULAR_BLOCK) {
    const int64_t size = size_at(s, first), end = first + size;
    const struct placed rows = part(l, first, 0);
    const float *less = multiply(s, first, size, first, rows, turned(rows));
    s->kernels->cholesky_block(size, s->n, less, part(l, first, first).data);
    solve_block(s, l, false, turned(part(l, end, 0)), first, s->n - end);
  }
}

/* Copies the lower triangle, in place where both are one, and clears what lies above it. */
static void take_lower(int64_t n, const float *x, float *l) {
  for (int64_t r = 0; r < n; r++) {
    if (x != l) memcpy(l + r * n, x + r * n, (size_t)(r + 1) * sizeof *l);
    memset(l + r * n + r + 1, 0, (size_t)(n - r - 1) * sizeof *l);
  }
}

RUN(run_cholesky) {
  (void)context;
  const struct tensor *x = kernel_input(kernel, 0);
  const int64_t n = side_of(x);
  const struct solver s = solver_in(kernel, n, n, workspace);
  for (int64_t m = 0; m < matrices(x); m++) {
    float *l = (float *)out[0] + m * n * n;
    take_lower(n, (const float *)in[0] + m * n * n, l);
    factor(&s, (struct placed){l, n, 1});
  }
  return NEAP_OK;
}

CPU_OPERATOR(cholesky, TYPE_F32) {
  const int64_t n = side_of(node_input(graph, node, 0));
  const struct solver s = solver_of(state, n);
  const struct placed rows = {NULL, n, 1};
  p->workspace = solve_bytes(&s, false, true, turned(rows), 0);
  for (int64_t first = TRIANGULAR_BLOCK; first < n; first += TRIANGULAR_BLOCK) {
    const struct product diagonal = product_of(&s, first, size_at(&s, first), first, rows, turned(rows));
    raise_to(&s, &diagonal, &p->workspace);
  }
  p->workspace += less_bytes(n);
  return finish(state, node, p, run_cholesky);
}

/* The symmetric half of the lower triangle of L^T dl. */
static void symmetric_half(const struct solver *s, struct placed l, struct placed dl, float *dx) {
  const int64_t n = s->n;
  for (int64_t first = 0; first < n; first += TRIANGULAR_BLOCK) {
    const int64_t end = first + size_at(s, first);
    const float *half = multiply(s, first, end, n - first, turned(part(l, first, first)), part(dl, first, 0));
    for (int64_t i = first; i < end; i++)
      for (int64_t j = 0; j <= i; j++) dx[i * n + j] = dx[j * n + i] = half[(i - first) * end + j] / 2;
  }
}

/* Murray 2016, equation 8: dx = L^-T P L^-1. The second system, of the transpose, has the columns up to its
 * diagonal alone, as dx is symmetric. */
RUN(run_cholesky_backward) {
  (void)context;
  const struct tensor *t = kernel_input(kernel, 0);
  const int64_t n = side_of(t);
  const struct solver s = solver_in(kernel, n, n, workspace);
  for (int64_t m = 0; m < matrices(t); m++) {
    float *dx = (float *)out[0] + m * n * n;
    const struct placed l = {(float *)in[0] + m * n * n, n, 1}, x = {dx, n, 1};
    symmetric_half(&s, l, (struct placed){(float *)in[1] + m * n * n, n, 1}, dx);
    solve(&s, l, true, x, n);
    for (int64_t first = last_block(&s); first >= 0; first -= TRIANGULAR_BLOCK)
      solve_block(&s, l, true, turned(x), first, first + size_at(&s, first));
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < i; j++) dx[i * n + j] = dx[j * n + i];
  }
  return NEAP_OK;
}

CPU_OPERATOR(cholesky_backward, TYPE_F32) {
  const int64_t n = side_of(node_input(graph, node, 0));
  const struct solver s = solver_of(state, n);
  const struct placed rows = {NULL, n, 1};
  const uint64_t systems =
      larger(solve_bytes(&s, true, false, rows, n), solve_bytes(&s, true, true, turned(rows), 0));
  p->workspace = less_bytes(n) + larger(systems, lower_bytes(&s, 0, turned(rows), rows));
  return finish(state, node, p, run_cholesky_backward);
}

/* ---- Systems of equations ---- */

/* The columns of a system whose solution is x; and x so that L, or L^T, stands at its left. */
static int64_t columns_of(const struct tensor *x, bool right) { return x->dims[x->rank - (right ? 2 : 1)]; }
static struct placed at_left(float *data, int64_t n, int64_t columns, bool right) {
  return right ? (struct placed){data, 1, n} : (struct placed){data, columns, 1};
}

RUN(run_triangular_solve) {
  (void)context;
  const struct solve_attributes a = ATTRIBUTES.solve;
  const struct tensor *l = kernel_input(kernel, 0), *b = kernel_input(kernel, 1);
  const int64_t n = side_of(l), columns = columns_of(b, a.right);
  const struct solver s = solver_in(kernel, n, columns, workspace);
  if (out[0] != in[1]) memcpy(out[0], in[1], (size_t)b->elements * sizeof(float));
  for (int64_t m = 0; m < matrices(l); m++)
    solve(&s, (struct placed){(float *)in[0] + m * n * n, n, 1}, a.transposed != a.right,
          at_left((float *)out[0] + m * n * columns, n, columns, a.right), columns);
  return NEAP_OK;
}

CPU_OPERATOR(triangular_solve, TYPE_F32) {
  const struct solve_attributes a = node->attributes.solve;
  const int64_t n = side_of(node_input(graph, node, 0)),
                columns = columns_of(node_input(graph, node, 1), a.right);
  const struct solver s = solver_of(state, n);
  p->workspace = less_bytes(columns) +
                 solve_bytes(&s, a.transposed != a.right, false, at_left(NULL, n, columns, a.right), columns);
  return finish(state, node, p, run_triangular_solve);
}

/* Row by row: the addend, or 0, less the lower triangle of the product. */
static void take_off(const struct solver *s, int64_t first, const float *less, const float *addend,
                     float *dl) {
  const int64_t n = s->n, end = first + size_at(s, first);
  for (int64_t i = first; i < end; i++)
    for (int64_t j = 0; j < n; j++) {
      const float before = addend != NULL ? addend[i * n + j] : 0;
      dl[i * n + j] = j <= i ? before - less[(i - first) * end + j] : before;
    }
}

RUN(run_triangular_solve_backward) {
  (void)context;
  const struct solve_attributes a = ATTRIBUTES.solve;
  const struct tensor *l = kernel_output(kernel, 0);
  const int64_t n = side_of(l), columns = columns_of(kernel_input(kernel, 0), a.right);
  const struct solver s = solver_in(kernel, n, n, workspace);
  const bool swapped = a.transposed != a.right;
  for (int64_t m = 0; m < matrices(l); m++) {
    const int64_t at = m * n * columns, square = m * n * n;
    const struct placed x = at_left((float *)in[swapped ? 0 : 1] + at, n, columns, a.right),
                        y = at_left((float *)in[swapped ? 1 : 0] + at, n, columns, a.right);
    for (int64_t first = 0; first < n; first += TRIANGULAR_BLOCK) {
      const float *less =
          multiply(&s, first, first + size_at(&s, first), columns, part(x, first, 0), turned(y));
      take_off(&s, first, less, in[2] != NULL ? (const float *)in[2] + square : NULL,
               (float *)out[0] + square);
    }
  }
  return NEAP_OK;
}

CPU_OPERATOR(triangular_solve_backward, TYPE_F32) {
  const int64_t n = side_of(&graph->tensors.data[node->outputs[0]]),
                columns = columns_of(node_input(graph, node, 0), node->attributes.solve.right);
  const struct solver s = solver_of(state, n);
  const struct placed x = at_left(NULL, n, columns, node->attributes.solve.right);
  p->workspace = less_bytes(n) + lower_bytes(&s, columns, x, turned(x));
  return finish(state, node, p, run_triangular_solve_backward);
}
