/* Checkmate: rematerialization as a program of linear rows over 0-1 variables (Jain, Jain, Nrusimha, Gholami,
 * Abbeel, Keutzer, Stoica, Gonzalez 2020, section 4), with memory counted exactly as by the simulator.
 *
 * A stage is a node of the step's own order. It runs last in the stage, after the nodes that the stage
 * repeats, in that order. Updates are the exception: one may run in a later stage than its own, so that
 * readers of the updated tensor can still run again. The program finds the best of all schedules of this
 * shape; other orders of the nodes are not considered. */
#ifndef NEAP_PAPERS_CHECKMATE_MODEL_H
#define NEAP_PAPERS_CHECKMATE_MODEL_H

#include "base/region.h"
#include "papers/milp.h"
#include "step/schedule.h"

enum { CHECKMATE_ZERO = -1, CHECKMATE_ONE = -2 }; /* constants that replace a column */

/* Variables as column ids or constants:
 * - runs[t, v]: node v runs in stage t;
 * - kept[t, k]: value k is resident where stage t begins; t = nodes: at the end. */
struct checkmate_model {
  const neap_step *step;
  struct region region;
  struct milp milp;
  int32_t nodes, value_count;
  int32_t *value;   /* value -> tensor */
  int32_t *of;      /* tensor -> value; -1: resident */
  int32_t *runs;    /* [nodes, nodes] */
  int32_t *kept;    /* [nodes + 1, value_count] */
  double cost_unit; /* the unit of the objective: cost / cost_unit */
};

/* Returns an upper bound on the number of columns and rows of a step's program. */
int64_t checkmate_size(const neap_step *step);

/* Builds the program for a budget, which includes the resident bytes and must not be below them. Only repeats
 * have a cost. Call checkmate_model_free also after a failure. */
neap_status checkmate_model_create(const neap_step *step, uint64_t budget, struct checkmate_model *model);
void checkmate_model_free(struct checkmate_model *model);

static inline int32_t checkmate_runs(const struct checkmate_model *m, int32_t stage, int32_t node) {
  return m->runs[(size_t)stage * (size_t)m->nodes + (size_t)node];
}

static inline int32_t checkmate_kept(const struct checkmate_model *m, int32_t stage, int32_t value) {
  return m->kept[(size_t)stage * (size_t)m->value_count + (size_t)value];
}

/* Makes the schedule of a solution, stage by stage. */
neap_status checkmate_extract(const struct checkmate_model *model, const double *solution,
                              struct schedule *out);

#endif
