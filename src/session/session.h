/* The data of a session: lowered graphs, plans, one memory, and programs with resolved places. */
#ifndef NEAP_SESSION_SESSION_H
#define NEAP_SESSION_SESSION_H

#include "kernel/ranks.h"
#include "program/program.h"
#include "program/spill_file.h"

/* The programs of a session, over one memory: a training session has STEP and EVALUATE, one that only
 * predicts PREDICT, and PREPARE if its graph has prepared states. If a step has several micro-batches STEP
 * runs for each of them, BEGIN before the first and END after the last. */
enum program_kind {
  PROGRAM_STEP,
  PROGRAM_BEGIN,
  PROGRAM_END,
  PROGRAM_EVALUATE,
  PROGRAM_PREPARE,
  PROGRAM_PREDICT,
  PROGRAM_COUNT
};

struct session_program {
  struct lowered *lowered; /* NULL: the session does not have it */
  struct neap_plan *plan;
  struct program program;
};

/* The programs of another graph over the same variables (neap_session_add_graph). */
struct session_shape {
  struct session_program step, evaluation;
};

/* ---- Sparse parameters (weights/sparse.h, weights/positions.h) ---- */

struct sparse_layer {
  const char *name, *indices_name; /* of the dense tensor; of its values' indices in a file */
  int32_t dense;                   /* graph tensor of `main` that the values belong to */
  int64_t elements;
  /* While the memory is lent (sparse_open): */
  int32_t *offset; /* of its first value */
  uint8_t *bits;   /* for each element in the dense tensor's memory order; NULL: indices */
  int32_t *ends;   /* values up to the end of each block of INDEX_BLOCK elements; NULL: bits */
  /* Private. */
  int32_t offset_tensor, positions_tensor; /* of the graph of `main` */
};

/* The values, and the optimizer states that go with them. */
struct sparse_pool {
  const char *suffix; /* of the name: "", "momentum" */
  neap_variable_kind kind;
  neap_dtype dtype;
  unsigned char *data; /* while the memory is lent */
  bool sum;            /* only used within a step */
  int32_t tensor;      /* of the graph of `main` */
};

enum { SPARSE_POOLS = 4 };

struct sparse {
  struct sparse_layer *layers;
  int32_t layer_count, pool_count;
  struct sparse_pool pools[SPARSE_POOLS]; /* the first: the values */
  bool by_index;                          /* positions are indices next to the values, not bits */
  uint16_t *indices;                      /* of the values' elements, while the memory is lent */
  int64_t capacity;                       /* values that it has room for */
  double threshold;                       /* of rewiring */
  int64_t *has, *counts;                  /* [layer_count], temporarily of a change */
  /* Private. */
  int32_t indices_tensor;    /* of the graph of `main` */
  struct device_loan *loans; /* room for those of all layers, pools and indices */
  int32_t loan_count;
};

/* A variable that is saved and loaded under its name. */
struct session_variable {
  const char *name;
  neap_variable_kind kind;
  int32_t tensor; /* graph tensor of `main` that has its shape */
  int32_t layer;  /* of sparse parameters; -1: not sparse */
  int32_t pool;   /* which values of that layer; -1: their positions */
  bool changes;   /* a step changes it: neither a frozen parameter nor a statistic of a frozen norm */
};

struct neap_session {
  const struct executor *executor; /* session/executor.h */
  bool has_magnitudes;             /* magnitudes_begin is done */
  struct region region;
  struct neap_session_options options;
  struct lowered *main;   /* of the programs' first, or `whole`: it has all residents */
  struct lowered *whole;  /* of a graph in two parts (struct parts); NULL: it is in one */
  struct neap_plan *plan; /* of a program, the one with the largest arena */
  neap_variant variant;   /* of `main` */
  struct session_program programs[PROGRAM_COUNT];
  VECTOR(struct session_shape) shapes; /* the first: the graph of its creation; empty: no other graph */
  enum program_kind ran;               /* the last one, whose outputs are in the arena; PROGRAM_COUNT: none */
  struct device_memory memory;         /* resident tensors, then the arena */
  uint64_t
      common; /* bytes of residents that all ranks of a pipeline reach, each once; they begin the memory */
  uint64_t *resident; /* step tensor of `main` -> offset of a resident tensor */
  void **inputs;      /* step tensor of `main` -> where the host writes an input */
  uint64_t measured;  /* the highest byte given to a kernel, as an offset */
  uint64_t budget, keep_all;
  uint64_t steps;           /* done */
  float loss_scale;         /* of the next step's gradients */
  uint64_t good_steps;      /* since it changed last */
  double gradient_norm;     /* of the last step; -1: its update was left out */
  double slope;             /* of the loss along the noise, in the micro-batches so far (options.mezo) */
  struct average *averages; /* weights/averages.h */
  int32_t average_count;
  neap_collective stages, replicas; /* of a pipeline that is one of several: parts of options.collective */
  struct ranks *ranks; /* that train together, in a pipeline its stages; NULL: this process alone */
  struct ranks *batch; /* of these, or across pipelines, those that divide the micro-batches; NULL: none */
  struct pipeline *pipeline; /* run/pipeline_prepare.h; NULL: each rank runs the whole step */
  bool overflowed;           /* a gradient of the current step did not fit its type */
  int32_t micro_batch;       /* the next one of the current step; 0: no step has begun */
  int32_t parts;             /* micro-batches of the step; 0: as many as the options say */
  enum change changed;       /* by the current step */
  unsigned char *statistics; /* running statistics before the step; NULL: none exist */
  bool may_tear, torn;       /* session/drop_step.h */
  uint64_t resident_before;  /* of the process, before the memory was mapped */
  uint64_t planning_peak;    /* its highest value until then */
  int32_t variable_count;
  const struct session_variable *variables;
  const char **
      unstored; /* parameters of two dimensions or more that options.store names but that are not in blocks */
  int32_t unstored_count;
  int32_t output_count;
  const neap_variable
      *outputs;              /* all outputs that the graph names, even if they do not fit into the memory */
  struct transfer *transfer; /* program/transfer.h; NULL: nothing is on disk, or nothing was loaded */
  struct spill_file *spill_file; /* of variables on disk (program/spill_file.h); NULL: none is */
  struct lane *gathers;          /* program/lane.h; NULL: no rank has a share of a weight */
  struct sparse *sparse;         /* without layers if none exist */
};

/* Sets the number of micro-batches of the next steps, at most that of the options. Only between steps. */
static inline void session_set_parts(struct neap_session *session, int32_t parts) { session->parts = parts; }

/* Returns the plan that a session runs; borrowed. */
static inline const struct neap_plan *session_plan(const struct neap_session *session) {
  return session->plan;
}
/* Sets options.save_trained for later saves. */
static inline void session_save_trained(struct neap_session *session) {
  session->options.save_trained = true;
}
/* Returns parameters that `store` names but that are not in blocks. */
static inline const char *const *session_unstored(const struct neap_session *session, int32_t *count) {
  *count = session->unstored_count;
  return session->unstored;
}
/* Returns the processes that divide the micro-batches; NULL: none do. */
static inline const neap_collective *session_batch_collective(const struct neap_session *session) {
  return session->batch != NULL ? session->batch->collective : NULL;
}
/* Returns the traffic with other processes, in all steps so far. */
static inline struct traffic session_traffic(const struct neap_session *session) {
  struct traffic sum = session->ranks != NULL ? session->ranks->traffic : (struct traffic){0};
  if (session->batch == NULL || session->batch == session->ranks) return sum;
  sum.sent += session->batch->traffic.sent;
  sum.received += session->batch->traffic.received;
  sum.seconds += session->batch->traffic.seconds;
  return sum;
}
/* Returns the bytes of the session's memory that other ranks answer for: each counts an equal part of what
 * all reach, so that the counts of all ranks add up to what there is. */
static inline uint64_t session_others_bytes(const struct neap_session *session) {
  const uint64_t ranks = session->ranks != NULL ? (uint64_t)session->ranks->collective->size : 1;
  return session->common - (session->common + ranks - 1) / ranks;
}
/* Returns VmRSS of the process just before the session's memory was mapped, in bytes. */
static inline uint64_t session_resident_before(const struct neap_session *session) {
  return session->resident_before;
}
/* Returns VmHWM of the process until then, in bytes. */
static inline uint64_t session_planning_peak(const struct neap_session *session) {
  return session->planning_peak;
}
/* Returns the steps done, including those of the weights that it began with. */
static inline uint64_t session_steps(const struct neap_session *session) { return session->steps; }
/* Returns the factor of gradients in the next step. */
static inline float session_loss_scale(const struct neap_session *session) { return session->loss_scale; }
static inline const struct neap_step *session_step(const struct neap_session *session) {
  return session->main->step;
}

#endif
