/* The update rules of matrices (MATRIX_UPDATE in op/update_list.h), compiled in float and in double. A file
 * that includes this first defines `real`, SQRT, and IN_PARALLEL, which stands before a loop whose turns may
 * run at once; it then defines the four functions that are declared below.
 *
 * Gradients are taken in units of 1. Sums are in double and in an order that shapes give: bits do not depend
 * on threads. Sources: Shazeer and Stern 2018 (Adafactor, as torch.optim.Adafactor), Lv et al. 2023
 * (AdaLomo), Zhang et al. 2024 (Adam-mini), Jordan et al. 2024 (Muon, as torch.optim.Muon), Zhu et al. 2024
 * (APOLLO), Zhao et al. 2024 (GaLore), Chen et al. 2024 (Fira). */

#include <math.h>

#include "base/elementary.h"
#include "base/normal.h"
#include "op/matrix_shape.h"

RULE_PRODUCT(real);

struct matrix_rule;
static void take_gradient(const struct matrix_rule *m, int64_t first, int64_t count, real *to);
static void take_weights(const struct matrix_rule *m, int64_t first, int64_t count, real *to);
static void change_weights(const struct matrix_rule *m, int64_t first, int64_t count, real *by);
static void multiply(const struct matrix_rule *m, const struct rule_product *p);

/* The operands of a rule: `batch` matrices [rows, columns] of one parameter, row by row. */
struct matrix_rule {
  struct matrix_shape shape;
  const struct update_attributes *a;
  real rate;
  double first_correction, second_correction; /* 1 / (1 - beta1^t), 1 / sqrt(1 - beta2^t) */
  int64_t t;                                  /* the number of the update, from 1 */
  uint64_t seed;                              /* of this parameter's projections */
  real *states[RULE_STATES];                  /* NULL: it has none */
  unsigned char *work;                        /* rule_workspace bytes; the free ones */
  const void *context;                        /* of the includer's functions */
};

enum { RULE_PIECE = 1024 }; /* elements at a time */

/* Walks `count` elements in pieces that begin at `at` and have `length` elements. */
#define FOR_PIECES(count)                                                                                    \
  for (int64_t at = 0, length; at < (count) && (length = lesser(RULE_PIECE, (count)-at)) > 0; at += length)

static void *work_of(struct matrix_rule *m, int64_t count, size_t size) {
  void *place = m->work;
  m->work += rule_aligned((uint64_t)count * size);
  return place;
}

static double squares_of(const real *x, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += (double)x[i] * (double)x[i];
  return sum;
}

static double sum_of(const double *x, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += x[i];
  return sum;
}

/* ---- Adafactor and AdaLomo ---- */

/* Sums of squares: of each row of all matrices, for gradients and weights; of each column into its state. */
static void sum_squares(const struct matrix_rule *m, double added, double beta2, double *of_rows,
                        double *of_weights) {
  const int64_t rows = m->shape.rows, columns = m->shape.columns;
  IN_PARALLEL
  for (int64_t r = 0; r < m->shape.batch * rows; r++) {
    real x[RULE_PIECE];
    of_rows[r] = of_weights[r] = 0;
    FOR_PIECES(columns) {
      take_gradient(m, r * columns + at, length, x);
      of_rows[r] += squares_of(x, length) + added * (double)length;
      take_weights(m, r * columns + at, length, x);
      of_weights[r] += squares_of(x, length);
    }
  }
  const int64_t pieces = (columns + RULE_PIECE - 1) / RULE_PIECE;
  IN_PARALLEL
  for (int64_t p = 0; p < m->shape.batch * pieces; p++) {
    real x[RULE_PIECE];
    double sums[RULE_PIECE] = {0};
    const int64_t first = p % pieces * RULE_PIECE, length = lesser(RULE_PIECE, columns - first),
                  matrix = p / pieces;
    for (int64_t r = 0; r < rows; r++) {
      take_gradient(m, (matrix * rows + r) * columns + first, length, x);
      for (int64_t c = 0; c < length; c++) sums[c] += (double)x[c] * (double)x[c] + added;
    }
    real *state = m->states[RULE_COLUMNS] + matrix * columns + first;
    for (int64_t c = 0; c < length; c++)
      state[c] = (real)(beta2 * (double)state[c] + (1 - beta2) * sums[c] / (double)rows);
  }
}

/* Writes a piece of the update before it is scaled: the gradient over the root of its mean square, which is
 * row x column / mean of rows. `row`: the row's share of that. */
static void factored_piece(const struct matrix_rule *m, int64_t row_number, int64_t at, int64_t length,
                           real row, real *u) {
  const int64_t columns = m->shape.columns;
  const real *column = m->states[RULE_COLUMNS] + row_number / m->shape.rows * columns + at,
             least = m->a->epsilon * m->a->epsilon;
  take_gradient(m, row_number * columns + at, length, u);
  for (int64_t c = 0; c < length; c++) {
    const real square = row * column[c];
    u[c] /= SQRT(square > least ? square : least);
  }
}

/* Adafactor; AdaLomo, which adds epsilon to squares and whose decay follows its rate. */
static void factored(struct matrix_rule *m, bool adalomo) {
  const int64_t rows = m->shape.batch * m->shape.rows, columns = m->shape.columns, all = rows * columns;
  const double epsilon = (double)m->a->epsilon, t = (double)m->t, beta2 = 1 - 1 / power(t, 0.8),
               rate = (double)m->rate, decay = (double)m->a->weight_decay;
  double *of_rows = work_of(m, rows, sizeof *of_rows), *of_weights = work_of(m, rows, sizeof *of_weights),
         *of_updates = work_of(m, rows, sizeof *of_updates);
  sum_squares(m, adalomo ? epsilon : 0, beta2, of_rows, of_weights);
  const double root = sqrt(sum_of(of_weights, rows) / (double)all), least = 1 / sqrt(t),
               alpha = (root > 1e-3 ? root : 1e-3) * (adalomo || rate < least ? rate : least);
  real *row_states = m->states[RULE_ROWS];
  for (int64_t b = 0; b < m->shape.batch; b++) {
    double mean = 0;
    for (int64_t r = b * m->shape.rows; row_states != NULL && r < (b + 1) * m->shape.rows; r++) {
      row_states[r] = (real)(beta2 * (double)row_states[r] + (1 - beta2) * of_rows[r] / (double)columns);
      mean += (double)row_states[r];
    }
    mean /= (double)m->shape.rows;
    for (int64_t r = b * m->shape.rows; r < (b + 1) * m->shape.rows; r++)
      of_rows[r] = row_states == NULL ? 1 : (double)row_states[r] / (mean > epsilon ? mean : epsilon);
  }
  IN_PARALLEL
  for (int64_t r = 0; r < rows; r++) {
    real u[RULE_PIECE];
    of_updates[r] = 0;
    FOR_PIECES(columns) {
      factored_piece(m, r, at, length, (real)of_rows[r], u);
      of_updates[r] += squares_of(u, length);
    }
  }
  const double size = sqrt(sum_of(of_updates, rows) / (double)all);
  const real step = (real)(alpha / (size > 1 ? size : 1)), lost = (real)((adalomo ? alpha : rate) * decay);
  IN_PARALLEL
  for (int64_t r = 0; r < rows; r++) {
    real u[RULE_PIECE], w[RULE_PIECE];
    FOR_PIECES(columns) {
      factored_piece(m, r, at, length, (real)of_rows[r], u);
      take_weights(m, r * columns + at, length, w);
      for (int64_t c = 0; c < length; c++) u[c] = -step * u[c] - lost * (w[c] - m->a->origin);
      change_weights(m, r * columns + at, length, u);
    }
  }
}

static void rule_adafactor(struct matrix_rule *m) { factored(m, false); }
static void rule_adalomo(struct matrix_rule *m) { factored(m, true); }

/* ---- Adam-mini ---- */

static void rule_adam_mini(struct matrix_rule *m) {
  const struct update_attributes *a = m->a;
  const int64_t all = matrix_elements(&m->shape), blocks = block_count(&m->shape);
  const real lost = m->rate * a->weight_decay;
  IN_PARALLEL
  for (int64_t b = 0; b < blocks; b++) {
    real x[RULE_PIECE], w[RULE_PIECE], *v = &m->states[RULE_SECOND][b];
    const int64_t first = block_first(&m->shape, b),
                  count = (b + 1 < blocks ? block_first(&m->shape, b + 1) : all) - first;
    double sum = 0;
    FOR_PIECES(count) {
      take_gradient(m, first + at, length, x);
      sum += squares_of(x, length);
    }
    *v = a->beta2 * *v + (1 - a->beta2) * (real)(sum / (double)count);
    const real step =
        m->rate * (real)m->first_correction / (SQRT(*v) * (real)m->second_correction + a->epsilon);
    FOR_PIECES(count) {
      real *mean = m->states[RULE_FIRST] + first + at;
      take_gradient(m, first + at, length, x);
      take_weights(m, first + at, length, w);
      for (int64_t i = 0; i < length; i++) {
        mean[i] += (1 - a->beta1) * (x[i] - mean[i]);
        x[i] = -step * mean[i] - lost * (w[i] - a->origin);
      }
      change_weights(m, first + at, length, x);
    }
  }
}

/* ---- Muon ---- */

/* Multiplies a matrix by itself turned, over its longer side: a [shorter, shorter]. */
static void multiply_by_itself(const struct matrix_rule *m, const real *x, real *square) {
  const int64_t rows = m->shape.rows, columns = m->shape.columns;
  if (rows <= columns)
    multiply(m, &(struct rule_product){rows, rows, columns, x, columns, false, x, columns, true, square, rows,
                                       false});
  else
    multiply(m, &(struct rule_product){columns, columns, rows, x, columns, true, x, columns, false, square,
                                       columns, false});
}

/* y = a x + (b s + c s s) x for s = x x^T, on the shorter side of x. */
static void newton_schulz(const struct matrix_rule *m, const real *x, real *square, real *mixed, real *y) {
  static const real a = (real)3.4445, b = (real)-4.7750, c = (real)2.0315;
  const int64_t rows = m->shape.rows, columns = m->shape.columns, shorter = lesser(rows, columns);
  multiply_by_itself(m, x, square);
  multiply(m, &(struct rule_product){shorter, shorter, shorter, square, shorter, false, square, shorter,
                                     false, mixed, shorter, false});
  IN_PARALLEL
  for (int64_t i = 0; i < shorter * shorter; i++) mixed[i] = b * square[i] + c * mixed[i];
  if (rows <= columns)
    multiply(m, &(struct rule_product){rows, columns, rows, mixed, rows, false, x, columns, false, y, columns,
                                       false});
  else
    multiply(m, &(struct rule_product){rows, columns, columns, x, columns, false, mixed, columns, false, y,
                                       columns, false});
  IN_PARALLEL
  for (int64_t i = 0; i < rows * columns; i++) y[i] += a * x[i];
}

/* The rate is that of AdamW: steps have its usual size, 0.2 a weight (Liu et al. 2025). */
static void rule_muon(struct matrix_rule *m) {
  enum { TURNS = 5 };
  const int64_t rows = m->shape.rows, columns = m->shape.columns, shorter = lesser(rows, columns),
                longer = rows + columns - shorter;
  const real momentum = m->a->momentum, lost = m->rate * m->a->weight_decay,
             step = m->rate * (real)(0.2 * sqrt((double)longer));
  real *x = work_of(m, rows * columns, sizeof *x), *y = work_of(m, rows * columns, sizeof *y),
       *square = work_of(m, shorter * shorter, sizeof *square),
       *mixed = work_of(m, shorter * shorter, sizeof *mixed);
  double *squares = work_of(m, rows, sizeof *squares);
  IN_PARALLEL
  for (int64_t r = 0; r < rows; r++) {
    real *state = m->states[RULE_FIRST] + r * columns, *to = x + r * columns;
    take_gradient(m, r * columns, columns, to);
    for (int64_t c = 0; c < columns; c++) {
      state[c] += (1 - momentum) * (to[c] - state[c]);
      to[c] += momentum * (state[c] - to[c]);
    }
    squares[r] = squares_of(to, columns);
  }
  const double norm = sqrt(sum_of(squares, rows));
  const real scale = (real)(1 / (norm > 1e-7 ? norm : 1e-7));
  IN_PARALLEL
  for (int64_t i = 0; i < rows * columns; i++) x[i] *= scale;
  for (int turn = 0; turn < TURNS; turn++) {
    newton_schulz(m, x, square, mixed, y);
    real *made = y;
    y = x;
    x = made;
  }
  IN_PARALLEL
  for (int64_t r = 0; r < rows; r++) {
    take_weights(m, r * columns, columns, y + r * columns);
    for (int64_t i = r * columns; i < (r + 1) * columns; i++)
      y[i] = -step * x[i] - lost * (y[i] - m->a->origin);
    change_weights(m, r * columns, columns, y + r * columns);
  }
}

/* ---- Rules with moments of a projected gradient: APOLLO, GaLore and Fira ---- */

/* The gradient's shorter side is projected to `rank` numbers: s [longer, rank] = G P^T, or G^T P^T. */
struct projected {
  int64_t longer, shorter, rank;
  bool tall;           /* rows are the longer side */
  real *p;             /* [rank, shorter] */
  real *s;             /* [longer, rank] */
  real *panel, *other; /* [RULE_PANEL, columns] */
  double *of_g, *of_s; /* [longer]: sums of squares of the gradient, of s */
  double *factor;      /* [longer] */
};

static struct projected projected_of(struct matrix_rule *m, bool drawn) {
  const int64_t rows = m->shape.rows, columns = m->shape.columns;
  struct projected j = {
      .shorter = lesser(rows, columns), .rank = m->a->projection_rank, .tall = rows >= columns};
  j.longer = rows + columns - j.shorter;
  j.p = drawn ? work_of(m, j.rank * j.shorter, sizeof *j.p) : m->states[RULE_PROJECTION];
  j.s = work_of(m, j.longer * j.rank, sizeof *j.s);
  j.panel = work_of(m, RULE_PANEL * columns, sizeof *j.panel);
  j.other = work_of(m, RULE_PANEL * columns, sizeof *j.other);
  j.of_g = work_of(m, j.longer, sizeof *j.of_g);
  j.of_s = work_of(m, j.longer, sizeof *j.of_s);
  j.factor = work_of(m, j.longer, sizeof *j.factor);
  return j;
}

/* Walks the gradient in panels of `height` rows from `first` on, which lie in j->panel. */
#define FOR_PANELS(m, j)                                                                                     \
  for (int64_t first = 0, height; first < (m)->shape.rows && (height = take_panel(m, j, first)) > 0;         \
       first += height)

static int64_t take_panel(const struct matrix_rule *m, const struct projected *j, int64_t first) {
  const int64_t columns = m->shape.columns, height = lesser(RULE_PANEL, m->shape.rows - first);
  IN_PARALLEL
  for (int64_t r = 0; r < height; r++)
    take_gradient(m, (first + r) * columns, columns, j->panel + r * columns);
  return height;
}

static void draw_projection(const struct matrix_rule *m, const struct projected *j, double deviation) {
  const uint64_t stream = (uint64_t)((m->t - 1) / m->a->projection_every);
  IN_PARALLEL
  for (int64_t r = 0; r < j->rank; r++) {
    float numbers[RULE_PIECE];
    FOR_PIECES(j->shorter) {
      random_normals(m->seed + (uint64_t)r, stream, deviation, at, length, numbers);
      for (int64_t i = 0; i < length; i++) j->p[r * j->shorter + at + i] = (real)numbers[i];
    }
  }
}

/* s = the projected gradient. */
static void project(const struct matrix_rule *m, const struct projected *j) {
  const int64_t columns = m->shape.columns, rank = j->rank;
  FOR_PANELS(m, j)
  if (j->tall)
    multiply(m, &(struct rule_product){height, rank, columns, j->panel, columns, false, j->p, columns, true,
                                       j->s + first * rank, rank, false});
  else
    multiply(m, &(struct rule_product){columns, rank, height, j->panel, columns, true, j->p + first,
                                       j->shorter, true, j->s, rank, first > 0});
}

/* p = s^T times the gradient, over its longer side. */
static void project_again(const struct matrix_rule *m, const struct projected *j) {
  const int64_t columns = m->shape.columns, rank = j->rank;
  FOR_PANELS(m, j)
  if (j->tall)
    multiply(m, &(struct rule_product){rank, columns, height, j->s + first * rank, rank, true, j->panel,
                                       columns, false, j->p, columns, first > 0});
  else
    multiply(m, &(struct rule_product){rank, height, columns, j->s, rank, true, j->panel, columns, true,
                                       j->p + first, j->shorter, false});
}

/* Writes rows [first, first + height) of what s stands for to j->other. */
static void project_back(const struct matrix_rule *m, const struct projected *j, int64_t first,
                         int64_t height) {
  const int64_t columns = m->shape.columns, rank = j->rank;
  if (j->tall)
    multiply(m, &(struct rule_product){height, columns, rank, j->s + first * rank, rank, false, j->p, columns,
                                       false, j->other, columns, false});
  else
    multiply(m, &(struct rule_product){height, columns, rank, j->p + first, j->shorter, true, j->s, rank,
                                       true, j->other, columns, false});
}

/* Makes the rows of p orthonormal, by Gram and Schmidt, each twice. A row that depends on those before it
 * becomes 0. */
static void orthonormalise(const struct projected *j) {
  const int64_t n = j->shorter;
  for (int64_t r = 0; r < j->rank; r++) {
    real *row = j->p + r * n;
    const double before = sqrt(squares_of(row, n));
    for (int64_t k = 0; k < 2 * r; k++) {
      const real *other = j->p + k % r * n;
      double dot = 0;
      for (int64_t i = 0; i < n; i++) dot += (double)row[i] * (double)other[i];
      for (int64_t i = 0; i < n; i++) row[i] -= (real)dot * other[i];
    }
    const double norm = sqrt(squares_of(row, n));
    const real scale = norm > 1e-5 * before ? (real)(1 / norm) : 0;
    for (int64_t i = 0; i < n; i++) row[i] *= scale;
  }
}

/* The leading singular vectors of the gradient, by randomised subspace iteration (Halko, Martinsson and Tropp
 * 2011). */
static void find_subspace(const struct matrix_rule *m, const struct projected *j) {
  enum { TURNS = 4 };
  draw_projection(m, j, 1);
  for (int turn = 0; turn < TURNS; turn++) {
    project(m, j);
    project_again(m, j);
    orthonormalise(j);
  }
}

/* Adds s to its moments. s becomes their quotient, without bias corrections, if `replace`. For each of the
 * longer side: factor = the norm of that over the norm of s. */
static void update_moments(const struct matrix_rule *m, const struct projected *j, bool replace) {
  const struct update_attributes *a = m->a;
  IN_PARALLEL
  for (int64_t l = 0; l < j->longer; l++) {
    double of_s = 0, of_n = 0;
    for (int64_t i = l * j->rank; i < (l + 1) * j->rank; i++) {
      real *first = &m->states[RULE_FIRST][i], *second = &m->states[RULE_SECOND][i];
      *first = a->beta1 * *first + (1 - a->beta1) * j->s[i];
      *second = a->beta2 * *second + (1 - a->beta2) * j->s[i] * j->s[i];
      const real n = *first / (SQRT(*second) + a->epsilon);
      of_s += (double)j->s[i] * (double)j->s[i];
      of_n += (double)n * (double)n;
      if (replace) j->s[i] = n;
    }
    j->of_s[l] = of_s;
    j->factor[l] = of_n;
  }
}

/* Adds the squares of a panel to those of each of the longer side. */
static void add_squares_of(const struct matrix_rule *m, const struct projected *j, const real *panel,
                           int64_t first, int64_t height) {
  const int64_t columns = m->shape.columns;
  if (j->tall) {
    IN_PARALLEL
    for (int64_t r = 0; r < height; r++) j->of_g[first + r] = squares_of(panel + r * columns, columns);
    return;
  }
  const int64_t pieces = (columns + RULE_PIECE - 1) / RULE_PIECE;
  IN_PARALLEL
  for (int64_t p = 0; p < pieces; p++)
    for (int64_t r = 0; r < height; r++)
      for (int64_t c = p * RULE_PIECE; c < lesser((p + 1) * RULE_PIECE, columns); c++)
        j->of_g[c] = (first + r > 0 ? j->of_g[c] : 0) +
                     (double)panel[r * columns + c] * (double)panel[r * columns + c];
}

/* Returns the divisor of the scaled gradient with which its norm grows by no more than a hundredth; the
 * state is the norm of the last one. */
static double limit_growth(const struct matrix_rule *m, double norm) {
  real *last = m->states[RULE_LIMIT];
  const double growth = *last > 0 ? norm / ((double)*last + 1e-8) : 0,
               limit = (growth > 1.01 ? growth : 1.01) / 1.01;
  *last = (real)(norm / limit);
  return limit;
}

/* Moves the weights by -step times a panel, then by their decay. */
static void move_panel(const struct matrix_rule *m, const struct projected *j, int64_t first, int64_t height,
                       real step) {
  const int64_t columns = m->shape.columns;
  const real lost = m->rate * m->a->weight_decay;
  IN_PARALLEL
  for (int64_t r = 0; r < height; r++) {
    real w[RULE_PIECE];
    FOR_PIECES(columns) {
      real *by = j->other + r * columns + at;
      take_weights(m, (first + r) * columns + at, length, w);
      for (int64_t c = 0; c < length; c++) {
        by[c] *= -step;
        by[c] -= lost * (w[c] + by[c] - m->a->origin);
      }
      change_weights(m, (first + r) * columns + at, length, by);
    }
  }
}

static real projected_step(const struct matrix_rule *m) {
  return m->rate * (real)(m->first_correction / m->second_correction);
}

/* Returns the channel whose factor element [r, c] has. */
static int64_t channel(const struct projected *j, int64_t r, int64_t c) { return j->tall ? r : c; }

/* APOLLO: the gradient, each of its longer side (or, of one factor alone, all of it) times the factor that
 * Adam's step has to the projected gradient. */
static void apollo(struct matrix_rule *m, bool one_factor) {
  struct projected j = projected_of(m, true);
  const int64_t columns = m->shape.columns;
  draw_projection(m, &j, 1 / sqrt((double)j.rank));
  project(m, &j);
  update_moments(m, &j, false);
  const double whole = sqrt(sum_of(j.factor, j.longer)) / (sqrt(sum_of(j.of_s, j.longer)) + 1e-8);
  for (int64_t l = 0; l < j.longer; l++)
    j.factor[l] = one_factor ? whole : sqrt(j.factor[l]) / (sqrt(j.of_s[l]) + 1e-8);
  FOR_PANELS(m, &j) add_squares_of(m, &j, j.panel, first, height);
  double norm = 0;
  for (int64_t l = 0; l < j.longer; l++) norm += j.factor[l] * j.factor[l] * j.of_g[l];
  const double limit = limit_growth(m, sqrt(norm)), scale = sqrt((double)m->a->projection_scale) / limit;
  FOR_PANELS(m, &j) {
    IN_PARALLEL
    for (int64_t r = 0; r < height; r++)
      for (int64_t c = 0; c < columns; c++)
        j.other[r * columns + c] =
            j.panel[r * columns + c] * (real)(scale * j.factor[channel(&j, first + r, c)]);
    move_panel(m, &j, first, height, projected_step(m));
  }
}

static void rule_apollo(struct matrix_rule *m) { apollo(m, false); }
static void rule_apollo_mini(struct matrix_rule *m) { apollo(m, true); }

static struct projected in_subspace(struct matrix_rule *m) {
  struct projected j = projected_of(m, false);
  const bool found = squares_of(j.p, j.shorter) > 0; /* the first update may have been skipped */
  if (!found || (m->t - 1) % m->a->projection_every == 0) find_subspace(m, &j);
  project(m, &j);
  return j;
}

static void rule_galore(struct matrix_rule *m) {
  struct projected j = in_subspace(m);
  update_moments(m, &j, true);
  for (int64_t first = 0, height; first < m->shape.rows; first += height) {
    height = lesser(RULE_PANEL, m->shape.rows - first);
    project_back(m, &j, first, height);
    move_panel(m, &j, first, height, projected_step(m) * m->a->projection_scale);
  }
}

/* Fira: GaLore's step, and the rest of the gradient by APOLLO's factors. */
static void rule_fira(struct matrix_rule *m) {
  struct projected j = in_subspace(m);
  const int64_t columns = m->shape.columns;
  const real scale = m->a->projection_scale;
  update_moments(m, &j, false);
  for (int64_t l = 0; l < j.longer; l++) j.factor[l] = sqrt(j.factor[l]) / (sqrt(j.of_s[l]) + 1e-8);
  FOR_PANELS(m, &j) {
    project_back(m, &j, first, height);
    IN_PARALLEL
    for (int64_t i = 0; i < height * columns; i++) j.other[i] = j.panel[i] - scale * j.other[i];
    add_squares_of(m, &j, j.other, first, height);
  }
  double norm = 0;
  for (int64_t l = 0; l < j.longer; l++) norm += j.factor[l] * j.factor[l] * j.of_g[l];
  const double limit = limit_growth(m, sqrt(norm));
  IN_PARALLEL
  for (int64_t l = 0; l < j.longer; l++) { /* both parts that are projected back, at once */
    j.factor[l] /= limit;
    for (int64_t i = l * j.rank; i < (l + 1) * j.rank; i++)
      j.s[i] = m->states[RULE_FIRST][i] / (SQRT(m->states[RULE_SECOND][i]) + m->a->epsilon) -
               (real)j.factor[l] * j.s[i];
  }
  FOR_PANELS(m, &j) {
    project_back(m, &j, first, height);
    IN_PARALLEL
    for (int64_t r = 0; r < height; r++)
      for (int64_t c = 0; c < columns; c++)
        j.other[r * columns + c] = scale * j.other[r * columns + c] +
                                   (real)j.factor[channel(&j, first + r, c)] * j.panel[r * columns + c];
    move_panel(m, &j, first, height, projected_step(m));
  }
}
