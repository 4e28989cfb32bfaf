#include "papers/milp.h"

#include <math.h>
#include <string.h>

neap_status milp_add_column(struct milp *m, double lower, double upper, double cost, bool integer,
                            int32_t *column) {
  *column = (int32_t)m->cost.count;
  TRY(vector_push(&m->lower, lower));
  TRY(vector_push(&m->upper, upper));
  TRY(vector_push(&m->cost, cost));
  return vector_push(&m->integer, integer);
}

neap_status milp_add_row(struct milp *m, double lower, double upper) {
  RETURN_IF(m->term_value.count > INT32_MAX, NEAP_TOO_LARGE, "linear program: more than 2^31 terms");
  TRY(vector_push(&m->row_lower, lower));
  TRY(vector_push(&m->row_upper, upper));
  return vector_push(&m->row_start, (int32_t)m->term_value.count);
}

neap_status milp_add_term(struct milp *m, int32_t column, double value) {
  TRY(vector_push(&m->term_column, column));
  return vector_push(&m->term_value, value);
}

void milp_free(struct milp *m) {
  vector_free(&m->lower);
  vector_free(&m->upper);
  vector_free(&m->cost);
  vector_free(&m->integer);
  vector_free(&m->row_lower);
  vector_free(&m->row_upper);
  vector_free(&m->row_start);
  vector_free(&m->term_column);
  vector_free(&m->term_value);
}

#ifdef NEAP_CBC

#include <Cbc_C_Interface.h>
#include <Clp_C_Interface.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

/* The terms column by column, as the solver takes them. */
struct columns {
  CoinBigIndex *start;
  int *row;
  double *value;
};

static void columns_free(struct columns *c) {
  free(c->start);
  free(c->row);
  free(c->value);
}

/* Terms of one row stand side by side in their column. Those that add up to nothing go. */
static void add_repeated_terms(struct columns *c, size_t columns) {
  CoinBigIndex kept = 0, read = 0;
  for (size_t column = 0; column < columns; column++) {
    const CoinBigIndex end = c->start[column + 1];
    while (read < end) {
      const int row = c->row[read];
      double sum = 0;
      for (; read < end && c->row[read] == row; read++) sum += c->value[read];
      if (sum == 0) continue;
      c->row[kept] = row;
      c->value[kept++] = sum;
    }
    c->start[column + 1] = kept;
  }
}

static neap_status columns_create(const struct milp *m, struct columns *c) {
  const size_t columns = m->cost.count, rows = m->row_start.count, terms = m->term_value.count;
  *c = (struct columns){.start = calloc(columns + 2, sizeof *c->start),
                        .row = calloc(terms + 1, sizeof *c->row),
                        .value = calloc(terms + 1, sizeof *c->value)};
  if (c->start == NULL || c->row == NULL || c->value == NULL) {
    columns_free(c);
    return neap_fail(NEAP_OUT_OF_MEMORY, "linear program: out of memory");
  }
  for (size_t i = 0; i < terms; i++) c->start[m->term_column.data[i] + 2]++;
  for (size_t i = 2; i < columns + 2; i++) c->start[i] += c->start[i - 1];
  for (size_t r = 0; r < rows; r++) {
    const size_t end = r + 1 < rows ? (size_t)m->row_start.data[r + 1] : terms;
    for (size_t i = (size_t)m->row_start.data[r]; i < end; i++) {
      const CoinBigIndex place = c->start[m->term_column.data[i] + 1]++;
      c->row[place] = (int)r;
      c->value[place] = m->term_value.data[i];
    }
  }
  add_repeated_terms(c, columns);
  return NEAP_OK;
}

bool milp_available(void) { return true; }

/* ---- Relaxation ---- */

struct milp_relaxation {
  Clp_Simplex *model;
  size_t columns;
  bool begun;
};

neap_status milp_relaxation_create(const struct milp *m, struct milp_relaxation **out) {
  struct columns c;
  TRY(columns_create(m, &c));
  struct milp_relaxation *relaxation = calloc(1, sizeof *relaxation);
  Clp_Simplex *model = relaxation != NULL ? Clp_newModel() : NULL;
  if (model == NULL) {
    free(relaxation);
    columns_free(&c);
    return neap_fail(NEAP_OUT_OF_MEMORY, "linear program: out of memory");
  }
  Clp_setLogLevel(model, 0);
  Clp_loadProblem(model, (int)m->cost.count, (int)m->row_start.count, c.start, c.row, c.value, m->lower.data,
                  m->upper.data, m->cost.data, m->row_lower.data, m->row_upper.data);
  columns_free(&c);
  *relaxation = (struct milp_relaxation){model, m->cost.count, false};
  *out = relaxation;
  return NEAP_OK;
}

neap_status milp_relaxation_solve(struct milp_relaxation *r, const double *upper, int32_t iterations,
                                  double seconds, double *solution, bool *found) {
  Clp_setMaximumIterations(r->model, iterations);
  Clp_setMaximumSeconds(r->model, seconds > 0 ? seconds : -1);
  Clp_chgColumnUpper(r->model, upper);
  if (r->begun)
    Clp_dual(r->model, 0);
  else
    Clp_initialSolve(r->model);
  r->begun = true;
  *found = Clp_isProvenOptimal(r->model);
  if (*found) memcpy(solution, Clp_getColSolution(r->model), r->columns * sizeof *solution);
  return NEAP_OK;
}

void milp_relaxation_free(struct milp_relaxation *r) {
  if (r == NULL) return;
  Clp_deleteModel(r->model);
  free(r);
}

/* ---- Branch and bound ---- */

static void set_limits(Cbc_Model *model, const struct milp_limits *limits) {
  char text[32];
  Cbc_setLogLevel(model, 0);
  /* With its integer preprocessing on, CBC 2.10 has proved wrong optima of these programs. */
  Cbc_setParameter(model, "preprocess", "off");
  Cbc_setParameter(model, "ratioGap", "0");
  Cbc_setParameter(model, "allowableGap", "0");
  snprintf(text, sizeof text, "%d", limits->nodes);
  Cbc_setParameter(model, "maxNodes", text);
  if (limits->cutoff < INFINITY) {
    snprintf(text, sizeof text, "%.17g", limits->cutoff);
    Cbc_setParameter(model, "cutoff", text);
  }
  if (limits->seconds > 0) {
    snprintf(text, sizeof text, "%.3f", limits->seconds);
    Cbc_setParameter(model, "seconds", text);
  }
}

neap_status milp_solve(const struct milp *m, const struct milp_limits *limits, double *solution,
                       struct milp_outcome *outcome) {
  /* CBC keeps settings in static variables and takes over the interrupt signal while it runs. */
  static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
  struct columns c;
  *outcome = (struct milp_outcome){.bound = -INFINITY};
  TRY(columns_create(m, &c));
  pthread_mutex_lock(&one_at_a_time);
  struct sigaction interrupt;
  sigaction(SIGINT, NULL, &interrupt);
  Cbc_Model *model = Cbc_newModel();
  if (model != NULL) {
    Cbc_loadProblem(model, (int)m->cost.count, (int)m->row_start.count, c.start, c.row, c.value,
                    m->lower.data, m->upper.data, m->cost.data, m->row_lower.data, m->row_upper.data);
    for (size_t i = 0; i < m->integer.count; i++)
      if (m->integer.data[i]) Cbc_setInteger(model, (int)i);
    set_limits(model, limits);
    Cbc_solve(model);
    const double *best = Cbc_bestSolution(model);
    outcome->found = best != NULL && Cbc_getObjValue(model) < limits->cutoff;
    outcome->finished = Cbc_isProvenOptimal(model) || Cbc_isProvenInfeasible(model);
    if (outcome->finished && !outcome->found)
      outcome->bound = INFINITY;
    else
      outcome->bound = Cbc_getBestPossibleObjValue(model);
    if (outcome->found) memcpy(solution, best, m->cost.count * sizeof *solution);
    Cbc_deleteModel(model);
  }
  sigaction(SIGINT, &interrupt, NULL);
  pthread_mutex_unlock(&one_at_a_time);
  columns_free(&c);
  RETURN_IF(model == NULL, NEAP_OUT_OF_MEMORY, "linear program: out of memory");
  return NEAP_OK;
}

#else

#define NO_SOLVER neap_fail(NEAP_UNSUPPORTED, "this library was built without a solver for linear programs")

bool milp_available(void) { return false; }

neap_status milp_relaxation_create(const struct milp *m, struct milp_relaxation **out) {
  (void)m, (void)out;
  return NO_SOLVER;
}

neap_status milp_relaxation_solve(struct milp_relaxation *r, const double *upper, int32_t iterations,
                                  double seconds, double *solution, bool *found) {
  (void)r, (void)upper, (void)iterations, (void)seconds, (void)solution, (void)found;
  return NO_SOLVER;
}

void milp_relaxation_free(struct milp_relaxation *r) { (void)r; }

neap_status milp_solve(const struct milp *m, const struct milp_limits *limits, double *solution,
                       struct milp_outcome *outcome) {
  (void)m, (void)limits, (void)solution, (void)outcome;
  return NO_SOLVER;
}

#endif
