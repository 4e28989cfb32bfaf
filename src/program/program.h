/* Programs: plans with resolved places. Kernels get addresses only when they are called. */
#ifndef NEAP_PROGRAM_PROGRAM_H
#define NEAP_PROGRAM_PROGRAM_H

#include "kernel/kernel.h"
#include "program/transfer.h"
#include "step/lane_cost.h"
#include "step/plan.h"

/* The most important change that outlives a step, in rising order. */
enum change { CHANGED_NOTHING, CHANGED_STATISTICS, CHANGED_VARIABLES };

/* Returns true if a tensor holds running statistics of batch norm. */
bool is_running_statistic(const struct tensor *tensor);

/* A place that does not exist; other places are offsets in a session's memory. */
#define NOWHERE UINT64_MAX

/* Lanes of a program: reads of weights in the model's file, gathers of weights of which each rank has a
 * share, and reads of variables in the session's file. */
enum program_lane { LANE_READS, LANE_GATHERS, LANE_LOADS, PROGRAM_LANES };

/* One position of a schedule, ready to run. */
struct call {
  const struct kernel *kernel;
  enum change change;
  uint64_t *inputs, *outputs; /* places; NOWHERE: an optional input that is not given */
  uint64_t workspace;
  uint64_t workspace_bytes;
  enum program_lane lane; /* in which it starts a job; PROGRAM_LANES: it runs itself */
  int64_t value; /* of a Store or Restore: the number that its first value has in the session's file */
  int32_t needs[PROGRAM_LANES]; /* the number of the program's jobs that must have ended before it begins */
#if NEAP_DEBUG
  int32_t first_dead, dead_count; /* in program.dead: ranges whose last reader this is */
#endif
};

struct range {
  uint64_t begin, bytes;
};

/* Places of which each of several micro-batches has its own, one behind the other. A program is bound to the
 * first; offsets lead to those of the micro-batch that runs. */
struct windows {
  uint64_t begin, end; /* all of them */
  int32_t count;
  const uint64_t *first; /* [count] places, rising from `begin` */
  uint64_t *offset;      /* [count] */
};

struct program {
  const struct lowered *lowered;
  struct call *calls;
  int32_t length;
  struct lane_stores stores; /* by position: whose jobs begin behind it */
  void **operands;           /* room for the addresses of a call */
  double *seconds; /* [length], to which each run adds the times of its calls; NULL: not asked for */
  /* Places of results after a run, in their own types. */
  uint64_t loss;    /* NOWHERE: none exists */
  uint64_t correct; /* i32; NOWHERE: not counted */
  uint64_t norm;    /* of gradients, squared; NOWHERE: it is not made */
  uint64_t labels;  /* i32, of the node that counts them; NOWHERE: they are not an input */
  int64_t label_count, classes, ignored;
  uint64_t *outputs; /* by output of the graph, in the format of its tensor; NOWHERE: not kept to the end */
  const struct windows *windows; /* NULL: none */
#if NEAP_DEBUG
  struct range *dead;
#endif
};

/* Returns the bytes of a graph tensor in its memory format. */
static inline uint64_t tensor_bytes(const struct lowered *lowered, int32_t tensor) {
  return lowered->step->tensors[lowered->home[tensor]].bytes;
}

/* Returns where a place of the program is in the current run. */
uint64_t program_place(const struct program *program, uint64_t place);

/* Resolves the places of a plan. `resident[t]`: the place of resident step tensor t; `arena`: where it
 * begins. */
neap_status program_create(struct region *region, const struct lowered *lowered, const struct neap_plan *plan,
                           const uint64_t *resident, uint64_t arena, struct program *out);

/* Runs all calls in order, with the threads that they were lowered for, and waits for them. `transfer` reads
 * weights on disk; NULL: there are no such weights. `gathers` gathers weights; NULL: no rank has a share.
 * Raises `measured` to the highest byte of the memory that a kernel got, and `changed` to what was changed.
 * NEAP_INTERRUPTED: a stop was requested between two calls, with no more than `most` changed. */
neap_status program_run(const struct program *program, const struct run_context *context,
                        const struct device_memory *memory, struct transfer *transfer, struct lane *gathers,
                        uint64_t *measured, enum change *changed, enum change most);

#endif
