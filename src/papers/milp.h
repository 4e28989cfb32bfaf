/* Linear programs with some integer variables, and the solver that the library was built with (COIN-OR Clp
 * and CBC), which is loaded on first use. The solver prints nothing. Its random seeds are fixed, so results
 * depend on wall-clock time only if `seconds` is set. */
#ifndef NEAP_PAPERS_MILP_H
#define NEAP_PAPERS_MILP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vector.h"

/* min cost x, row_lower <= A x <= row_upper, lower <= x <= upper; x is an integer if `integer` is true.
 * Starts empty (all zero). */
struct milp {
  VECTOR(double) lower, upper, cost;   /* by column */
  VECTOR(bool) integer;                /* by column */
  VECTOR(double) row_lower, row_upper; /* by row */
  VECTOR(int32_t) row_start;           /* by row: its first term */
  VECTOR(int32_t) term_column;         /* by term */
  VECTOR(double) term_value;           /* by term */
};

/* Rows are written in order: a row, then its terms. Terms of one column in a row add up. */
neap_status milp_add_column(struct milp *milp, double lower, double upper, double cost, bool integer,
                            int32_t *column);
neap_status milp_add_row(struct milp *milp, double lower, double upper);
neap_status milp_add_term(struct milp *milp, int32_t column, double value);
void milp_free(struct milp *milp);

/* Returns NULL if there is a solver, or the reason why it is missing. The first call loads it. */
const char *milp_missing(void);

struct milp_limits {
  int32_t nodes;  /* of the branch and bound */
  double seconds; /* 0: none */
  double cutoff;  /* only solutions that cost less are wanted; infinite: any */
};

struct milp_outcome {
  bool found;    /* a solution that keeps all limits */
  bool finished; /* a solution that keeps all limits */
  double bound;  /* the search ended: the solution is optimal, or none exists below the cutoff */
};

/* Solves the program. `solution`: one number for each column, set if one is found. NEAP_OUT_OF_MEMORY;
 * NEAP_UNSUPPORTED without a solver. */
neap_status milp_solve(const struct milp *milp, const struct milp_limits *limits, double *solution,
                       struct milp_outcome *outcome);

/* The program with all columns continuous, for several solutions under changing upper bounds: each starts
 * from the one before it. `iterations` and `seconds` (0: none) limit the simplex method, which finds nothing
 * beyond them. */
struct milp_relaxation;
neap_status milp_relaxation_create(const struct milp *milp, struct milp_relaxation **relaxation);
neap_status milp_relaxation_solve(struct milp_relaxation *relaxation, const double *upper, int32_t iterations,
                                  double seconds, double *solution, bool *found);
void milp_relaxation_free(struct milp_relaxation *relaxation);

#endif
