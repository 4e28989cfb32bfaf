/* A session: lowered graphs, plans, one memory, and programs with resolved pointers. */
#ifndef NEAP_RUN_SESSION_H
#define NEAP_RUN_SESSION_H

#include "kernel/kernel.h"
#include "step/plan.h"

/* One position of a schedule, ready to run. */
struct call {
  const struct kernel *kernel;
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
  const void *loss; /* where the outputs stand when it has run, in their own types; NULL: there is no loss */
  const int32_t *correct; /* NULL: not counted */
  const void **outputs;   /* by output of the graph, in the format of its tensor; NULL: not kept to the end */
#if NEAP_DEBUG
  struct range *dead;
#endif
};

/* The programs of a session, over one memory: a training session has STEP and EVALUATE, one that only
 * predicts PREDICT. */
enum program_kind { PROGRAM_STEP, PROGRAM_EVALUATE, PROGRAM_PREDICT, PROGRAM_COUNT };

struct session_program {
  struct lowered *lowered; /* NULL: the session does not have it */
  struct neap_plan *plan;
  struct program program;
};

struct neap_session {
  struct region region;
  struct neap_session_options options;
  struct lowered *main; /* the programs' first: its residents are all that there are */
  struct neap_plan *plan;
  neap_variant variant; /* of `main` */
  struct session_program programs[PROGRAM_COUNT];
  enum program_kind ran; /* last, whose outputs lie in the arena; PROGRAM_COUNT: none */
  unsigned char *memory; /* resident tensors, then the arena */
  size_t mapped;         /* bytes */
  uint64_t *resident;    /* step tensor of `main` -> offset of a resident tensor */
  uint64_t measured;     /* the highest byte given to a kernel, as an offset */
  uint64_t budget, keep_all;
  uint64_t steps;           /* done */
  uint64_t resident_before; /* of the process, before the memory was mapped */
  int32_t variable_count;
  const int32_t *variables; /* graph tensors of `main`: parameters, optimizer states, running statistics */
};

/* The training step of a graph: fused, differentiated, in the variant that options name (the base for AUTO),
 * lowered. */
neap_status lower_training(const struct neap_graph *graph, const struct neap_session_options *options,
                           struct lowered **out);

/* Replaces the costs in the step by times measured on this machine, with the threads it is lowered for, in a
 * temporary mapping as large as the largest node. Kernels whose times are in the database (the path of a
 * cost_database; NULL: none) are not timed; the others, of which `*timed` (may be NULL) tells how many there
 * were, are entered. */
neap_status measure_costs(struct lowered *lowered, const char *database, int32_t *timed);

/* Resolves the pointers of a plan. `resident[t]`: address of resident step tensor t; `arena`: where offsets
 * begin. */
neap_status program_create(struct region *region, const struct lowered *lowered, const struct neap_plan *plan,
                           unsigned char *const *resident, unsigned char *arena, struct program *out);

/* Runs all calls in order, with the threads that they were lowered for. `measured` is raised to the highest
 * byte, as an offset from `memory`, that a kernel was given. */
neap_status program_run(const struct program *program, const struct run_context *context,
                        const unsigned char *memory, uint64_t *measured);

/* Before memory that programs ran in is unmapped: lifts the poison of a debug build from it. */
void program_release(unsigned char *memory, size_t bytes);

/* The plan that a session runs; borrowed. */
static inline const struct neap_plan *session_plan(const struct neap_session *session) {
  return session->plan;
}
/* VmRSS of the process just before the session's memory was mapped. Bytes. */
static inline uint64_t session_resident_before(const struct neap_session *session) {
  return session->resident_before;
}
/* Steps done, those of the weights that it began with included. */
static inline uint64_t session_steps(const struct neap_session *session) { return session->steps; }
static inline const struct neap_step *session_step(const struct neap_session *session) {
  return session->main->step;
}

/* Bytes of a graph tensor as it lies in memory. */
static inline uint64_t tensor_bytes(const struct lowered *lowered, int32_t tensor) {
  return lowered->step->tensors[lowered->step_tensor[tensor]].bytes;
}

/* Room for any variable in row-major order. Between steps nothing lives in the arena, and it held a gradient
 * of every parameter: so no memory is needed that the plan does not have. Where it is too small, `*allocated`
 * is to be freed; else NULL. */
neap_status session_scratch(const struct neap_session *session, float **buffer, float **allocated);

/* Fills the parameters and states with what they begin with. */
neap_status initialise_variables(struct neap_session *session);
/* Lists them in the order of the digest. */
neap_status list_variables(struct neap_session *session);

#endif
