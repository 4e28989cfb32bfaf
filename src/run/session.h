/* What a session is: lowered graphs, plans, one memory, and programs with resolved pointers. */
#ifndef NEAP_RUN_SESSION_H
#define NEAP_RUN_SESSION_H

#include "kernel/ranks.h"
#include "run/program.h"

/* The programs of a session, over one memory: a training session has STEP and EVALUATE, one that only
 * predicts PREDICT, with PREPARE where its graph has states that are prepared. Where a step has several
 * micro-batches STEP runs for each of them, BEGIN before the first and END after the last. */
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

/* ---- Sparse parameters (run/sparse.h, run/positions.h) ---- */

struct sparse_layer {
  const char *name, *indices_name; /* of the dense tensor; of its values' indices in a file */
  int32_t dense;                   /* graph tensor of `main` that the values mean */
  int64_t elements;
  /* While the memory is lent (sparse_open): */
  int32_t *offset; /* of its first value */
  uint8_t *bits;   /* an element each, in the order in which the dense tensor lies; NULL: indices */
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
  bool sum;            /* holds something within a step alone */
  int32_t tensor;      /* of the graph of `main` */
};

enum { SPARSE_POOLS = 4 };

struct sparse {
  struct sparse_layer *layers;
  int32_t layer_count, pool_count;
  struct sparse_pool pools[SPARSE_POOLS]; /* the first: the values */
  bool by_index;                          /* positions are indices beside the values, not bits */
  uint16_t *indices;                      /* of the values' elements, while the memory is lent */
  int64_t capacity;                       /* values that there is room for */
  double threshold;                       /* of rewiring */
  int64_t *has, *counts;                  /* [layer_count], temporarily of a change */
  /* Private. */
  int32_t indices_tensor;    /* of the graph of `main` */
  struct device_loan *loans; /* room for those of all layers, pools and indices */
  int32_t loan_count;
};

/* What is saved and loaded under a name. */
struct session_variable {
  const char *name;
  neap_variable_kind kind;
  int32_t tensor; /* graph tensor of `main` that has its shape */
  int32_t layer;  /* of sparse parameters; -1: not sparse */
  int32_t pool;   /* which values of that layer; -1: their positions */
  bool changes;   /* a step changes it: no frozen parameter, no statistic of a frozen norm */
};

struct neap_session {
  struct region region;
  struct neap_session_options options;
  struct lowered *main;   /* the programs' first, or `whole`: its residents are all that there are */
  struct lowered *whole;  /* of a graph in two parts (struct parts); NULL: it is in one */
  struct neap_plan *plan; /* of a program, the one with the largest arena */
  neap_variant variant;   /* of `main` */
  struct session_program programs[PROGRAM_COUNT];
  VECTOR(struct session_shape) shapes; /* the first: of the graph that it was created with; none: no other */
  enum program_kind ran;               /* last, whose outputs lie in the arena; PROGRAM_COUNT: none */
  struct device_memory memory;         /* resident tensors, then the arena */
  uint64_t *resident;                  /* step tensor of `main` -> offset of a resident tensor */
  void **inputs;                       /* step tensor of `main` -> where the host fills an input in */
  uint64_t measured;                   /* the highest byte given to a kernel, as an offset */
  uint64_t budget, keep_all;
  uint64_t steps;           /* done */
  float loss_scale;         /* of the next step */
  uint64_t good_steps;      /* since it changed last */
  double gradient_norm;     /* of the last step; -1: its update was left out */
  struct average *averages; /* run/averages.h */
  int32_t average_count;
  struct ranks *ranks;       /* that train together; NULL: this process alone */
  bool overflowed;           /* a gradient of the current step did not fit its type */
  int32_t micro_batch;       /* of the current step, that comes next; 0: no step has begun */
  int32_t parts;             /* micro-batches of the step; 0: as many as the options say */
  enum change changed;       /* by the current step */
  unsigned char *statistics; /* running statistics as they were before it; NULL: none exist */
  bool may_tear, torn;       /* run/give_up.h */
  uint64_t resident_before;  /* of the process, before the memory was mapped */
  uint64_t planning_peak;    /* the most that it was until then */
  int32_t variable_count;
  const struct session_variable *variables;
  const char *
      *unstored; /* parameters of two dimensions or more that options.store names and that are in no blocks */
  int32_t unstored_count;
  int32_t output_count;
  const neap_variable *outputs; /* that the graph names, whether they fit into the memory or not */
  struct transfer *transfer;    /* run/transfer.h; NULL: nothing lies on disk, or nothing was loaded */
  struct sparse *sparse;        /* without layers if none exist */
};

/* How many micro-batches the next steps have: at most as many as the options say. Between steps alone. */
static inline void session_set_parts(struct neap_session *session, int32_t parts) { session->parts = parts; }

/* The plan that a session runs; borrowed. */
static inline const struct neap_plan *session_plan(const struct neap_session *session) {
  return session->plan;
}
/* As options.save_trained, from now on. */
static inline void session_save_trained(struct neap_session *session) {
  session->options.save_trained = true;
}
/* Parameters that `store` names and that are in no blocks. */
static inline const char *const *session_unstored(const struct neap_session *session, int32_t *count) {
  *count = session->unstored_count;
  return session->unstored;
}
/* With other processes, in all steps so far. */
static inline struct traffic session_traffic(const struct neap_session *session) {
  return session->ranks != NULL ? session->ranks->traffic : (struct traffic){0};
}
/* VmRSS of the process just before the session's memory was mapped. Bytes. */
static inline uint64_t session_resident_before(const struct neap_session *session) {
  return session->resident_before;
}
/* VmHWM of the process until then. Bytes. */
static inline uint64_t session_planning_peak(const struct neap_session *session) {
  return session->planning_peak;
}
/* Steps done, those of the weights that it began with included. */
static inline uint64_t session_steps(const struct neap_session *session) { return session->steps; }
/* What gradients of the next step will be larger by. */
static inline float session_loss_scale(const struct neap_session *session) { return session->loss_scale; }
static inline const struct neap_step *session_step(const struct neap_session *session) {
  return session->main->step;
}

#endif
