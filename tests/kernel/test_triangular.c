/* Cholesky factors, triangular systems and their gradients: our kernels against the reference, of sizes
 * around those of blocks; their bits with any number of threads; matrices that are not positive definite. And
 * the log determinant of examples/log_determinant.h against a dense matrix. */
#include <math.h>

#include "../../examples/log_determinant.h"
#include "grad/gradient.h"
#include "interpreter.h"

enum { BATCH = 2, GIVEN = 4, NODES = 4 };
enum { MATRIX, RIGHT_SIDE, OF_FACTOR, OF_SOLUTION }; /* what is given; the last two are gradients */
enum { FACTOR, SOLUTION, OF_MATRIX, OF_SOLVED };     /* what is made */

struct system {
  int64_t n, m;
  bool transposed, right;
};

static double *numbers(int64_t count, uint32_t state) {
  double *values = malloc((size_t)count * sizeof *values);
  assert_non_null(values);
  for (int64_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    values[i] = (double)(state >> 8) * 0x1p-23 - 1;
  }
  return values;
}

/* Matrices whose diagonal outweighs the rest; what lies above it is not read. */
static double *matrices(int64_t n) {
  double *x = numbers(BATCH * n * n, 1);
  for (int64_t i = 0; i < BATCH * n; i++)
    for (int64_t j = i % n; j < n; j++) x[i * n + j] = j == i % n ? 1 + (double)n / 2 : NAN;
  return x;
}

static int64_t elements(const struct system *s, int which) {
  return BATCH * s->n * (which == RIGHT_SIDE || which == OF_SOLUTION ? s->m : s->n);
}

static struct tensor tensor_of(const struct system *s, const char *name, bool square) {
  struct tensor t = {.name = name,
                     .rank = 3,
                     .dtype = NEAP_F32,
                     .role = NEAP_ROLE_INPUT,
                     .view_of = -1,
                     .dims = {BATCH, s->n, s->n}};
  if (!square) t.dims[s->right ? 1 : 2] = s->m;
  return t;
}

/* All four operators: the factor and its gradient, a system with the factor and its matrix's gradient. */
static struct neap_graph *graph_of(const struct system *s) {
  struct neap_graph *graph = NULL;
  int32_t in[GIVEN], made[NODES];
  assert_ok(graph_create("systems", &graph));
  for (int i = 0; i < GIVEN; i++)
    assert_ok(graph_add_tensor(
        graph, tensor_of(s, (const char *[]){"x", "b", "dl", "dy"}[i], i == MATRIX || i == OF_FACTOR),
        &in[i]));
  const union attributes none = {0}, solve = {.solve = {s->transposed, s->right}};
  assert_ok(graph_apply(graph, OP_CHOLESKY, "l", &none, in, 1, &made[FACTOR]));
  assert_ok(graph_apply(graph, OP_TRIANGULAR_SOLVE, "y", &solve, (int32_t[]){made[FACTOR], in[RIGHT_SIDE]}, 2,
                        &made[SOLUTION]));
  const int32_t of_factor[] = {made[FACTOR], in[OF_FACTOR]},
                of_solved[] = {made[SOLUTION], in[OF_SOLUTION], in[OF_FACTOR]};
  for (int i = OF_MATRIX; i < NODES; i++) {
    const bool first = i == OF_MATRIX;
    assert_ok(graph_add_like(graph, in[MATRIX], first ? "dx" : "dm", &made[i]));
    assert_ok(
        graph_add_node(graph, (struct node){.name = "backward",
                                            .op = first ? OP_CHOLESKY_BACKWARD : OP_TRIANGULAR_SOLVE_BACKWARD,
                                            .pass = NEAP_PASS_BACKWARD,
                                            .attributes = first ? none : solve,
                                            .inputs = first ? of_factor : of_solved,
                                            .input_count = first ? 2 : 3,
                                            .outputs = &made[i],
                                            .output_count = 1}));
  }
  return graph;
}

/* Runs all nodes on a backend and gives what they make. */
static void run(const struct system *s, const struct backend *backend, int threads, double *const *given,
                double **made) {
  struct neap_graph *graph = graph_of(s);
  struct lowered *lowered = NULL;
  assert_ok(lower(graph, backend, &(struct lower_options){.threads = threads}, NULL, &lowered));
  struct interpreter m = interpreter_create(lowered, 0, 0xFF);
  for (int32_t i = 0; i < GIVEN; i++) interpreter_write(&m, i, given[i]);
  interpreter_run(&m, &(struct run_context){0});
  const size_t first = lowered->graph->nodes.count - NODES;
  for (size_t i = 0; i < NODES; i++)
    made[i] = interpreter_read(&m, lowered->graph->nodes.data[first + i].outputs[0]);
  interpreter_free(&m);
  lowered_free(lowered);
  neap_graph_free(graph);
}

static void release(double **values, int count) {
  for (int i = 0; i < count; i++) free(values[i]);
}

static void check(const struct system *s) {
  double *given[GIVEN], *expected[NODES], *got[2][NODES];
  given[MATRIX] = matrices(s->n);
  for (int i = RIGHT_SIDE; i < GIVEN; i++) given[i] = numbers(elements(s, i), (uint32_t)i);
  run(s, &reference_backend, 1, given, expected);
  run(s, &cpu_backend, 1, given, got[0]);
  run(s, &cpu_backend, 3, given, got[1]);
  for (int k = 0; k < NODES; k++) {
    const int64_t count = elements(s, k == SOLUTION ? RIGHT_SIDE : MATRIX);
    double most = 0;
    for (int64_t i = 0; i < count; i++) most = fmax(most, fabs(expected[k][i]));
    for (int64_t i = 0; i < count; i++)
      if (!(fabs(got[0][k][i] - expected[k][i]) <= 1e-5 * most))
        fail_msg("n %d, m %d, %d%d: result %d is %g at %d, not %g", (int)s->n, (int)s->m, s->transposed,
                 s->right, k, got[0][k][i], (int)i, expected[k][i]);
    assert_memory_equal(got[0][k], got[1][k], (size_t)count * sizeof(double));
  }
  release(given, GIVEN), release(expected, NODES), release(got[0], NODES), release(got[1], NODES);
}

static void test_blocks(void **state) {
  (void)state;
  static const int64_t sizes[] = {1, 2, 63, 64, 65, 150}, columns[] = {1, 7, 64, 130};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (size_t k = 0; k < sizeof columns / sizeof *columns; k++)
      for (int way = 0; way < 4; way++) check(&(struct system){sizes[i], columns[k], way & 1, way & 2});
}

/* The identity but for one element of the diagonal, that is 0 or negative: all columns before it are those of
 * the identity, and from it on nothing below the diagonal is a number. */
static void test_not_definite(void **state) {
  (void)state;
  const struct backend *const backends[] = {&reference_backend, &cpu_backend};
  const struct system s = {.n = 100, .m = 1};
  static const int64_t places[] = {0, 31, 70, 99};
  for (int run_number = 0; run_number < 16; run_number++) {
    const int64_t place = places[run_number / 4];
    double *given[GIVEN], *made[NODES];
    for (int i = 0; i < GIVEN; i++) given[i] = numbers(elements(&s, i), 5);
    for (int64_t i = 0; i < BATCH * s.n * s.n; i++) given[MATRIX][i] = i / s.n % s.n == i % s.n;
    given[MATRIX][place * s.n + place] = run_number & 1 ? -1 : 0;
    run(&s, backends[run_number / 2 % 2], 1, given, made);
    for (int64_t i = 0; i < s.n; i++)
      for (int64_t j = 0; j < s.n; j++) {
        const double l = made[FACTOR][i * s.n + j];
        if (j <= i && j >= place)
          assert_true(isnan(l));
        else
          assert_true(l == (i == j));
      }
    for (int64_t i = s.n * s.n; i < BATCH * s.n * s.n; i++) assert_true(!isnan(made[FACTOR][i]));
    release(given, GIVEN), release(made, NODES);
  }
}

/* ---- The log determinant ---- */

enum { BLOCKS = 4, BLOCK = 5, TIP = 3, SIDE = BLOCKS * BLOCK + TIP };

/* The place of a parameter's block in the dense matrix. */
static void place_of(const struct tensor *t, int64_t *row, int64_t *column) {
  const int64_t at = (t->name[1] - '0') * BLOCK;
  *row = t->name[0] == 'D' ? at : t->name[0] == 'B' ? at + BLOCK : BLOCKS * BLOCK;
  *column = t->name[0] == 'T' ? BLOCKS * BLOCK : at;
}

/* Puts numbers into a block and its mirror image in the dense matrix. */
static void fill(const struct tensor *t, double *data, double dense[SIDE][SIDE]) {
  int64_t row, column;
  place_of(t, &row, &column);
  double *random = numbers(t->elements, (uint32_t)(row * SIDE + column));
  for (int64_t i = 0; i < t->dims[0]; i++)
    for (int64_t j = 0; j < t->dims[1]; j++) {
      const bool mirrored = row == column && j > i;
      double x = random[mirrored ? j * t->dims[1] + i : i * t->dims[1] + j];
      if (row == column && i == j) x = 12 + x;
      data[i * t->dims[1] + j] = dense[row + i][column + j] = dense[column + j][row + i] = x;
    }
  free(random);
}

/* Inverts by Gauss and Jordan, without pivots: the matrix is positive definite. Returns the log determinant.
 */
static double invert(double x[SIDE][SIDE]) {
  double sum = 0;
  for (int k = 0; k < SIDE; k++) {
    const double pivot = x[k][k];
    sum += log(pivot);
    x[k][k] = 1;
    for (int j = 0; j < SIDE; j++) x[k][j] /= pivot;
    for (int i = 0; i < SIDE; i++) {
      const double factor = x[i][k];
      if (i == k) continue;
      x[i][k] = 0;
      for (int j = 0; j < SIDE; j++) x[i][j] -= factor * x[k][j];
    }
  }
  return sum;
}

/* The gradient is the inverse on the blocks; blocks off the diagonal stand in the matrix twice. */
static void test_log_determinant(void **state) {
  (void)state;
  static const struct arrowhead shape = {BLOCKS, BLOCK, TIP};
  static double dense[SIDE][SIDE];
  struct neap_graph *graph = NULL;
  struct lowered *lowered = NULL;
  neap_builder *b = neap_builder_create("log determinant");
  assert_ok(neap_builder_finish(b, log_determinant(b, &shape), &graph));
  neap_builder_free(b);
  assert_ok(graph_add_training(graph, &(struct optimizer){.kind = NEAP_SGD}));
  assert_ok(lower(graph, &reference_backend, &(struct lower_options){.threads = 1}, NULL, &lowered));
  struct interpreter m = interpreter_create(lowered, 0, 0xFF);
  const struct neap_graph *g = lowered->graph;
  for (int pass = 0; pass < 2; pass++)
    for (int32_t id = 0; id < (int32_t)g->tensors.count; id++) {
      const struct tensor *t = &g->tensors.data[id];
      if (t->role == NEAP_ROLE_PARAMETER) fill(t, m.data[id], dense);
    }
  interpreter_run(&m, &(struct run_context){.learning_rate = 1, .loss_share = 1});
  static double before[SIDE][SIDE];
  memcpy(before, dense, sizeof before);
  const double expected = invert(dense);
  assert_true(fabs(*(const double *)m.data[g->loss] - expected) <= 1e-10 * fabs(expected));
  for (int32_t id = 0; id < (int32_t)g->tensors.count; id++) {
    const struct tensor *t = &g->tensors.data[id];
    if (t->role != NEAP_ROLE_PARAMETER) continue;
    int64_t row, column;
    place_of(t, &row, &column);
    for (int64_t i = 0; i < t->dims[0]; i++)
      for (int64_t j = 0; j < t->dims[1]; j++) {
        const double gradient =
            before[row + i][column + j] - ((const double *)m.data[id])[i * t->dims[1] + j];
        const double wanted = (row == column ? 1 : 2) * dense[row + i][column + j];
        if (!(fabs(gradient - wanted) <= 1e-10 * fabs(dense[0][0])))
          fail_msg("the gradient of %s is %.15g, not %.15g", t->name, gradient, wanted);
      }
  }
  interpreter_free(&m);
  lowered_free(lowered);
  neap_graph_free(graph);
}

int run_test_triangular(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks), cmocka_unit_test(test_not_definite),
                                     cmocka_unit_test(test_log_determinant)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
