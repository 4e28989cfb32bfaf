/* Programs: a plan with resolved pointers. */
#ifndef NEAP_RUN_PROGRAM_H
#define NEAP_RUN_PROGRAM_H

#include "kernel/kernel.h"
#include "step/plan.h"

/* What has changed that outlives a step, rising. */
enum change { CHANGED_NOTHING, CHANGED_STATISTICS, CHANGED_VARIABLES };

/* Whether a tensor holds running statistics of batch norm. */
bool is_running_statistic(const struct tensor *tensor);

/* One position of a schedule, ready to run. */
struct call {
  const struct kernel *kernel;
  enum change change;
  void **inputs, **outputs; /* from the session's region */
  void *workspace;
  uint64_t workspace_bytes;
#if NEAP_DEBUG
  int32_t first_dead, dead_count; /* in program.dead: ranges that die here */
#endif
};

struct range {
  unsigned char *begin;
  uint64_t bytes;
};

struct program {
  const struct lowered *lowered;
  struct call *calls;
  int32_t length;
  double *seconds;  /* [length], to which each run adds what its calls take; NULL: it is not asked for */
  const void *loss; /* where the outputs stand when it has run, in their own types; NULL: there is no loss */
  const int32_t *correct; /* NULL: not counted */
  const void *norm;       /* of gradients, squared; NULL: it is not made */
  const int32_t *labels;  /* of the node that counts them; NULL: they are no input */
  int64_t label_count, classes, ignored;
  const void **outputs; /* by output of the graph, in the format of its tensor; NULL: not kept to the end */
#if NEAP_DEBUG
  struct range *dead;
#endif
};

/* Bytes of a graph tensor as it lies in memory. */
static inline uint64_t tensor_bytes(const struct lowered *lowered, int32_t tensor) {
  return lowered->step->tensors[lowered->home[tensor]].bytes;
}

/* Resolves the pointers of a plan. `resident[t]`: address of resident step tensor t; `arena`: where offsets
 * begin. */
neap_status program_create(struct region *region, const struct lowered *lowered, const struct neap_plan *plan,
                           unsigned char *const *resident, unsigned char *arena, struct program *out);

/* Runs all calls in order, with the threads that they were lowered for. `measured` is raised to the highest
 * byte, as an offset from `memory`, that a kernel was given; `changed` to what was changed. NEAP_INTERRUPTED:
 * a stop was requested between two calls while no more than `most` had been changed. */
neap_status program_run(const struct program *program, const struct run_context *context,
                        const unsigned char *memory, uint64_t *measured, enum change *changed,
                        enum change most);

/* Before memory that programs ran in is unmapped: lifts the poison of a debug build from it. */
void program_release(unsigned char *memory, size_t bytes);

#endif
