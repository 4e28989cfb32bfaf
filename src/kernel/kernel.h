/* Lowering: from a graph to kernels on real memory formats, and to the step that planners see.
 *
 * A backend is a table from operator to a `prepare` function, which chooses the operands' memory formats and
 * makes a kernel. Lowering walks the graph once, calls it for every node, and adds a Reorder node if a tensor
 * has another format than its reader wants. */
#ifndef NEAP_KERNEL_KERNEL_H
#define NEAP_KERNEL_KERNEL_H

#include "device/device.h"
#include "op/op.h"

/* The memory layout of a tensor, in the terms of its backend, which alone interprets it. Zeroed: not chosen
 * yet. */
struct memory_format {
  int64_t lanes;      /* 1: row-major; else adjacent channels (struct activation, kernel/cpu/isa/kernels.h) */
  bool blocks;        /* 8 or 16 lanes are channel blocks, even with just as many channels */
  const void *packed; /* not NULL: a packing of weights; the two above are 0 */
};

static inline bool format_chosen(struct memory_format f) { return f.lanes != 0 || f.packed != NULL; }

#define ROW_MAJOR ((struct memory_format){.lanes = 1})

enum { MEMORY_ALIGNMENT = 64 }; /* bytes; every size in a lowered step is a multiple of this */

/* The elements of an update, in memory order, of which each rank has a share (kernel/ranks.h). */
struct share {
  int64_t first, count, whole; /* whole 0: all elements */
};
struct ranks;
struct rank_part;
struct spill;
struct spilled_part;

/* Returns true for a matrix on disk, of which a kernel that gets it reads rows. */
static inline bool is_read_by_rows(const struct tensor *t) { return t->on_disk || t->spilled; }

/* Reads rows of a matrix on disk, in the form that its type has in memory. */
struct row_source {
  neap_status (*read)(void *context, const struct tensor *table, int64_t first, int64_t rows, void *to);
  void *context;
};

/* The inputs of a run besides tensors. */
struct run_context {
  uint64_t seed, step; /* step: from 0 */
  float learning_rate;
  int32_t micro_batch, micro_batches; /* of the step, from 0; the number in a complete step (0: 1) */
  int32_t parts;                      /* micro-batches of this step, which may have fewer */
  float loss_share;                   /* this micro-batch's share of the step's loss */
  float loss_scale;                   /* the factor of gradients; 0: 1 */
  float largest; /* above 0: a gradient of this size or more did not fit its type; sets `overflowed` */
  bool *overflowed;
  struct row_source rows;
  int64_t first_row;         /* for a kernel with some rows of its node: the first of them */
  struct ranks *ranks;       /* that share the nodes of this run; NULL: none */
  const struct spill *spill; /* the file of spilled variables (kernel/spilled.h); NULL: none is */
  bool awaited;              /* other processes wait for what this run makes: it is not stopped */
  struct share share;        /* that a kernel works on; its operands begin at the first element */
  int64_t batch;             /* records of the rank that these statistics belong to; 0: those of the graph */
  float noise;               /* the factor of the noise of perturbed parameters (tensor.perturbed) */
};

/* Returns the gradient that the value 1 stands for; and d loss / d loss. */
static inline float run_gradient_unit(const struct run_context *context) {
  return context->loss_scale > 0 ? 1 / context->loss_scale : 1;
}
static inline float run_loss_gradient(const struct run_context *context) {
  return context->loss_share * (context->loss_scale > 0 ? context->loss_scale : 1);
}

/* Returns the counter of random operators: micro-batches since the first step. */
static inline uint64_t run_draw(const struct run_context *context) {
  return context->micro_batches > 1
             ? context->step * (uint64_t)context->micro_batches + (uint64_t)context->micro_batch
             : context->step;
}

struct kernel;

/* Runs a node, given the data of its inputs and outputs in the node's order and its workspace. Variables that
 * an update changes are among the inputs; an optional input that is not given is NULL. Outputs may share
 * bytes with inputs as the operator's in-place pairs allow. */
typedef neap_status kernel_run(const struct kernel *kernel, void *const *inputs, void *const *outputs,
                               void *workspace, const struct run_context *context);

struct kernel {
  kernel_run *run;
  const void *state; /* the backend's; lives as long as the lowered graph */
  const struct neap_graph *graph;
  int32_t node; /* in `graph` */
};

static inline const struct node *kernel_node(const struct kernel *kernel) {
  return &kernel->graph->nodes.data[kernel->node];
}
static inline const struct tensor *kernel_input(const struct kernel *kernel, int32_t i) {
  return node_input(kernel->graph, kernel_node(kernel), i);
}
static inline const struct tensor *kernel_output(const struct kernel *kernel, int32_t i) {
  return &kernel->graph->tensors.data[kernel_node(kernel)->outputs[i]];
}

/* The best speed of a machine, by the second. */
struct roofline {
  double f32_flops, bf16_flops, bytes;
  double disk; /* bytes read, not from the system's cache; */
  double disk_read_in_turn,
      disk_write_in_turn; /* and where reads and writes follow each other; 0: as `disk` */
  double exchange;        /* bytes that a process receives from others */
};

/* The figures of an ordinary pair of cores; only ratios matter to a planner. */
extern const struct roofline usual_roofline;

/* Returns the larger of the seconds for a node's FLOPs, by the type of its first input, and for its bytes. */
double roofline_seconds(const struct roofline *roofline, const struct neap_graph *graph,
                        const struct node *node);

/* Returns the seconds to read a parameter from disk (OP_FETCH, OP_LOAD); or `rows` rows of it, each with its
 * page (OP_FETCH_ROWS). */
double fetch_seconds(const struct roofline *roofline, const struct tensor *parameter);
double fetch_rows_seconds(const struct roofline *roofline, const struct tensor *table, int64_t rows);

/* Returns the seconds to receive all of a parameter of which each process has a share: OP_ALL_GATHER. */
double gather_seconds(const struct roofline *roofline, const struct tensor *parameter);

/* Returns true for OP_FETCH, OP_LOAD and OP_ALL_GATHER. Programs make them jobs of a lane, which is complete
 * for the first reader of what it brings, not at the node's position. */
static inline bool is_lane_job(const struct node *node) {
  return node->op == OP_FETCH || node->op == OP_LOAD || node->op == OP_ALL_GATHER;
}

/* Runs these, OP_STORE and OP_RESTORE: fails, because programs make these nodes
 * jobs of a lane (program/lane.h), which reads a file (program/transfer.h, program/spill_file.h) or gathers
 * shares (kernel/ranks.h). */
kernel_run run_fetch_elsewhere;

/* The results of `prepare` for a node. Outputs are row-major before the call. */
struct preparation {
  struct memory_format *inputs; /* [input_count] as the kernel wants them; on entry: the current ones, zeroed
                                   for a variable whose format no node has chosen yet */
  struct memory_format outputs[NODE_MAX_OUTPUTS];
  kernel_run *run;
  const void *state; /* from `region` */
  uint64_t workspace;
  double seconds;                  /* by `roofline`; 0: derived from the operator's FLOPs and bytes */
  const struct roofline *roofline; /* given */
  struct region *region;
};

struct lower_options {
  neap_convolution convolution;
  neap_bits bits;
  int threads; /* 0: all cores */
  int64_t
      outputs; /* named outputs of at most this many elements live to the end of the step, as the loss does */
  int ranks;   /* processes that train together; 0: one */
  struct roofline roofline; /* for costs; zeros: the usual one */
};

struct backend {
  const char *name;
  const struct device *device; /* of operands and workspaces */
  bool takes_shares;           /* its updates run on some of their elements (run_context.share) */
  /* Looks at the complete graph and chooses what all nodes share. Free `state` with free_state (which takes
   * NULL). */
  neap_status (*create_state)(const struct neap_graph *graph, const struct lower_options *options,
                              void **state);
  void (*free_state)(void *state);
  /* NEAP_UNSUPPORTED: it does not have the operator, or not for these shapes. */
  neap_status (*prepare)(void *state, const struct neap_graph *graph, const struct node *node,
                         struct preparation *p);
  /* Writes which implementation a kernel is, with the version of its library: all that its bits and its time
   * depend on besides types, shapes, formats and the number of threads. Checkpoints and measured costs rely
   * on it. */
  void (*describe)(const struct kernel *kernel, char *text, size_t size);
  /* Returns which of its own kernels it uses: the name of an instruction set, a constant. */
  const char *(*own_kernels)(const void *state);
  /* Rewrites the graph before lowering; NULL: no rewrite. Residents keep their order. */
  neap_status (*rewrite)(const struct neap_graph *graph, struct neap_graph **out);
  /* Return the bytes of a tensor in a format, without rounding; and whether two formats put every element at
   * the same place. */
  uint64_t (*format_bytes)(const struct tensor *tensor, struct memory_format format);
  bool (*same_place)(const struct tensor *tensor, struct memory_format a, struct memory_format b);
  /* Copy a variable to and from f32 in row-major order, `plain`, on the host; `data` as a kernel gets it, or
   * on the host. */
  neap_status (*export_variable)(void *state, const struct tensor *tensor, struct memory_format format,
                                 const void *data, float *plain);
  neap_status (*import_variable)(void *state, const struct tensor *tensor, struct memory_format format,
                                 const float *plain, void *data);
};

extern const struct backend reference_backend, cpu_backend;

struct lowered {
  struct region region;
  const struct backend *backend;
  void *state; /* the backend's */
  bool owns_state;
  int64_t kept_outputs;          /* lower_options.outputs */
  int threads;                   /* for its kernels: see team_set() */
  struct neap_graph *graph;      /* with Reorder nodes */
  struct memory_format *formats; /* by tensor; a view has its storage's */
  struct kernel *kernels;        /* by node; node ids are those of `step` */
  struct neap_step *step;        /* tensor ids differ from the graph's: views are missing */
  const int32_t *step_tensor;    /* graph tensor -> step tensor of its storage */
  const int32_t *home; /* graph tensor -> step tensor in whose bytes it is, for tensors inside a variable */
  const struct rank_part *rank_parts;       /* by node; NULL: one process */
  const struct spilled_part *spilled_parts; /* by node; NULL: no variable is spilled */
};

/* Lowers a graph. A resident tensor (input, parameter, state) takes the format of its namesake in `like`
 * (NULL: none), whose residents come in the same order: so an evaluation graph shares the variables of a
 * training graph. The result does not refer to `graph`. NEAP_INVALID_ARGUMENT: this number of threads is not
 * available. NEAP_UNSUPPORTED names an operator or shape that the backend does not have. */
neap_status lower(const struct neap_graph *graph, const struct backend *backend,
                  const struct lower_options *options, const struct lowered *like, struct lowered **out);
void lowered_free(struct lowered *lowered);

#endif
