/* Programs: a plan with resolved places. Kernels are given addresses when they are called, and not before. */
#ifndef NEAP_RUN_PROGRAM_H
#define NEAP_RUN_PROGRAM_H

#include "kernel/kernel.h"
#include "run/transfer.h"
#include "step/plan.h"

/* What has changed that outlives a step, rising. */
enum change { CHANGED_NOTHING, CHANGED_STATISTICS, CHANGED_VARIABLES };

/* Whether a tensor holds running statistics of batch norm. */
bool is_running_statistic(const struct tensor *tensor);

/* An offset in a session's memory, or this. */
#define NOWHERE UINT64_MAX

/* One position of a schedule, ready to run. */
struct call {
  const struct kernel *kernel;
  enum change change;
  uint64_t *inputs, *outputs; /* places; NOWHERE: an optional input that is not given */
  uint64_t workspace;
  uint64_t workspace_bytes;
  bool fetches;  /* it starts to read a weight */
  int32_t needs; /* how many weights of the program must have been read before it begins */
#if NEAP_DEBUG
  int32_t first_dead, dead_count; /* in program.dead: ranges that die here */
#endif
};

struct range {
  uint64_t begin, bytes;
};

struct program {
  const struct lowered *lowered;
  struct call *calls;
  int32_t length;
  int32_t fetches; /* weights that a run reads */
  void **operands; /* room for the addresses of a call */
  double *seconds; /* [length], to which each run adds what its calls take; NULL: it is not asked for */
  /* Places when it has run; what is there has its own type. */
  uint64_t loss;    /* NOWHERE: none exists */
  uint64_t correct; /* i32; NOWHERE: not counted */
  uint64_t norm;    /* of gradients, squared; NOWHERE: it is not made */
  uint64_t labels;  /* i32, of the node that counts them; NOWHERE: they are no input */
  int64_t label_count, classes, ignored;
  uint64_t *outputs; /* by output of the graph, in the format of its tensor; NOWHERE: not kept to the end */
#if NEAP_DEBUG
  struct range *dead;
#endif
};

/* Bytes of a graph tensor as it lies in memory. */
static inline uint64_t tensor_bytes(const struct lowered *lowered, int32_t tensor) {
  return lowered->step->tensors[lowered->home[tensor]].bytes;
}

/* Resolves the places of a plan. `resident[t]`: of resident step tensor t; `arena`: where it begins. */
neap_status program_create(struct region *region, const struct lowered *lowered, const struct neap_plan *plan,
                           const uint64_t *resident, uint64_t arena, struct program *out);

/* Runs all calls in order, with the threads that they were lowered for, and waits for them. `transfer` reads
 * weights that lie on disk; NULL: none do. `measured` is
 * raised to the highest byte of the memory that a kernel was given; `changed` to what was changed.
 * NEAP_INTERRUPTED: a stop was requested between two calls while no more than `most` had been changed. */
neap_status program_run(const struct program *program, const struct run_context *context,
                        const struct device_memory *memory, struct transfer *transfer, uint64_t *measured,
                        enum change *changed, enum change most);

#endif
