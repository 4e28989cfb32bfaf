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
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

/* ---- The libraries ---- */

/* The functions that are called. */
#define CLP_FUNCTIONS(F)                                                                                     \
  F(Clp_newModel)                                                                                            \
  F(Clp_deleteModel)                                                                                         \
  F(Clp_setLogLevel)                                                                                         \
  F(Clp_loadProblem)                                                                                         \
  F(Clp_setMaximumIterations)                                                                                \
  F(Clp_setMaximumSeconds)                                                                                   \
  F(Clp_chgColumnUpper)                                                                                      \
  F(Clp_dual)                                                                                                \
  F(Clp_initialSolve)                                                                                        \
  F(Clp_isProvenOptimal)                                                                                     \
  F(Clp_getColSolution)
#define CBC_FUNCTIONS(F)                                                                                     \
  F(Cbc_newModel)                                                                                            \
  F(Cbc_deleteModel)                                                                                         \
  F(Cbc_setLogLevel)                                                                                         \
  F(Cbc_setParameter)                                                                                        \
  F(Cbc_loadProblem)                                                                                         \
  F(Cbc_setInteger)                                                                                          \
  F(Cbc_solve)                                                                                               \
  F(Cbc_bestSolution)                                                                                        \
  F(Cbc_getObjValue)                                                                                         \
  F(Cbc_isProvenOptimal)                                                                                     \
  F(Cbc_isProvenInfeasible)                                                                                  \
  F(Cbc_getBestPossibleObjValue)

#define MEMBER(name) __typeof__(&name) name;
static struct {
  CLP_FUNCTIONS(MEMBER)
  CBC_FUNCTIONS(MEMBER)
} solver;

static char why_missing[256];

static void missing(const char *why) {
  if (why_missing[0] == '\0')
    snprintf(why_missing, sizeof why_missing, "the solver of linear programs cannot be loaded: %s", why);
}

static void *open_library(const char *name) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) missing(dlerror());
  return library;
}

/* Returns a function, or NULL if it is missing. */
static void *find(void *library, const char *name) {
  void *function = library != NULL ? dlsym(library, name) : NULL;
  if (library != NULL && function == NULL) missing(dlerror());
  return function;
}

/* Loads the solver. It is never unloaded, so its own data stays. */
static void load_solver(void) {
  void *clp = open_library(NEAP_CLP), *cbc = open_library(NEAP_CBC);
#define FIND_CLP(name) *(void **)&solver.name = find(clp, #name);
#define FIND_CBC(name) *(void **)&solver.name = find(cbc, #name);
  CLP_FUNCTIONS(FIND_CLP)
  CBC_FUNCTIONS(FIND_CBC)
}

const char *milp_missing(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_solver);
  return why_missing[0] != '\0' ? why_missing : NULL;
}

#define NEED_SOLVER RETURN_IF(milp_missing() != NULL, NEAP_UNSUPPORTED, "%s", milp_missing())

/* ---- Programs in the solver's form ---- */

/* The terms by column, as the solver takes them. */
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

/* Adds up repeated terms, which are neighbours in their column, and removes those whose sum is 0. */
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

/* ---- Relaxation ---- */

struct milp_relaxation {
  Clp_Simplex *model;
  size_t columns;
  bool begun;
};

neap_status milp_relaxation_create(const struct milp *m, struct milp_relaxation **out) {
  struct columns c;
  NEED_SOLVER;
  TRY(columns_create(m, &c));
  struct milp_relaxation *relaxation = calloc(1, sizeof *relaxation);
  Clp_Simplex *model = relaxation != NULL ? solver.Clp_newModel() : NULL;
  if (model == NULL) {
    free(relaxation);
    columns_free(&c);
    return neap_fail(NEAP_OUT_OF_MEMORY, "linear program: out of memory");
  }
  solver.Clp_setLogLevel(model, 0);
  solver.Clp_loadProblem(model, (int)m->cost.count, (int)m->row_start.count, c.start, c.row, c.value,
                         m->lower.data, m->upper.data, m->cost.data, m->row_lower.data, m->row_upper.data);
  columns_free(&c);
  *relaxation = (struct milp_relaxation){model, m->cost.count, false};
  *out = relaxation;
  return NEAP_OK;
}

neap_status milp_relaxation_solve(struct milp_relaxation *r, const double *upper, int32_t iterations,
                                  double seconds, double *solution, bool *found) {
  solver.Clp_setMaximumIterations(r->model, iterations);
  solver.Clp_setMaximumSeconds(r->model, seconds > 0 ? seconds : -1);
  solver.Clp_chgColumnUpper(r->model, upper);
  if (r->begun)
    solver.Clp_dual(r->model, 0);
  else
    solver.Clp_initialSolve(r->model);
  r->begun = true;
  *found = solver.Clp_isProvenOptimal(r->model);
  if (*found) memcpy(solution, solver.Clp_getColSolution(r->model), r->columns * sizeof *solution);
  return NEAP_OK;
}

void milp_relaxation_free(struct milp_relaxation *r) {
  if (r == NULL) return;
  solver.Clp_deleteModel(r->model);
  free(r);
}

/* ---- Branch and bound ---- */

static void set_limits(Cbc_Model *model, const struct milp_limits *limits) {
  char text[32];
  solver.Cbc_setLogLevel(model, 0);
  /* With its integer preprocessing on, CBC 2.10 has proved wrong optima of these programs. */
  solver.Cbc_setParameter(model, "preprocess", "off");
  solver.Cbc_setParameter(model, "ratioGap", "0");
  solver.Cbc_setParameter(model, "allowableGap", "0");
  snprintf(text, sizeof text, "%d", limits->nodes);
  solver.Cbc_setParameter(model, "maxNodes", text);
  if (limits->cutoff < INFINITY) {
    snprintf(text, sizeof text, "%.17g", limits->cutoff);
    solver.Cbc_setParameter(model, "cutoff", text);
  }
  if (limits->seconds > 0) {
    snprintf(text, sizeof text, "%.3f", limits->seconds);
    solver.Cbc_setParameter(model, "seconds", text);
  }
}

neap_status milp_solve(const struct milp *m, const struct milp_limits *limits, double *solution,
                       struct milp_outcome *outcome) {
  /* CBC keeps settings in static variables and takes over the interrupt signal while it runs. */
  static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
  struct columns c;
  *outcome = (struct milp_outcome){.bound = -INFINITY};
  NEED_SOLVER;
  TRY(columns_create(m, &c));
  pthread_mutex_lock(&one_at_a_time);
  struct sigaction interrupt;
  sigaction(SIGINT, NULL, &interrupt);
  Cbc_Model *model = solver.Cbc_newModel();
  if (model != NULL) {
    solver.Cbc_loadProblem(model, (int)m->cost.count, (int)m->row_start.count, c.start, c.row, c.value,
                           m->lower.data, m->upper.data, m->cost.data, m->row_lower.data, m->row_upper.data);
    for (size_t i = 0; i < m->integer.count; i++)
      if (m->integer.data[i]) solver.Cbc_setInteger(model, (int)i);
    set_limits(model, limits);
    solver.Cbc_solve(model);
    const double *best = solver.Cbc_bestSolution(model);
    outcome->found = best != NULL && solver.Cbc_getObjValue(model) < limits->cutoff;
    outcome->finished = solver.Cbc_isProvenOptimal(model) || solver.Cbc_isProvenInfeasible(model);
    if (outcome->finished && !outcome->found)
      outcome->bound = INFINITY;
    else
      outcome->bound = solver.Cbc_getBestPossibleObjValue(model);
    if (outcome->found) memcpy(solution, best, m->cost.count * sizeof *solution);
    solver.Cbc_deleteModel(model);
  }
  sigaction(SIGINT, &interrupt, NULL);
  pthread_mutex_unlock(&one_at_a_time);
  columns_free(&c);
  RETURN_IF(model == NULL, NEAP_OUT_OF_MEMORY, "linear program: out of memory");
  return NEAP_OK;
}

#else

const char *milp_missing(void) { return "this library was built without a solver of linear programs (CBC)"; }

#define NO_SOLVER neap_fail(NEAP_UNSUPPORTED, "%s", milp_missing())

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
