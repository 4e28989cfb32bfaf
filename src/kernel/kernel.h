/* Lowering: from a graph to kernels on real memory formats, and to the step that planners see.
 *
 * A backend is a table from operator to a `prepare` function, which says how the operands must lie in memory
 * and makes a kernel. Lowering walks the graph once, calls it for every node, and puts a Reorder node where a
 * tensor lies otherwise than its reader wants. */
#ifndef NEAP_KERNEL_KERNEL_H
#define NEAP_KERNEL_KERNEL_H

#include "device/device.h"
#include "op/op.h"

/* How a tensor lies in memory, in the terms of its backend, which alone knows what it means. Zeroed: not
 * chosen yet. */
struct memory_format {
  int64_t lanes; /* 1: row-major; else channels side by side (struct activation, kernel/cpu/isa/kernels.h) */
  bool blocks;   /* 8 or 16 lanes are channel blocks, also where there are just as many channels */
  const void *packed; /* not NULL: a packing of weights; the two above are 0 */
};

static inline bool format_chosen(struct memory_format f) { return f.lanes != 0 || f.packed != NULL; }

#define ROW_MAJOR ((struct memory_format){.lanes = 1})

enum { MEMORY_ALIGNMENT = 64 }; /* bytes; also what every size in a lowered step is a multiple of */

/* Elements of an update, as they lie in memory, of which each rank has a share (kernel/ranks.h). */
struct share {
  int64_t first, count, whole; /* whole 0: all elements */
};
struct ranks;
struct rank_part;

/* Reads rows of a matrix that lies on disk, as its type has them in memory. */
struct row_source {
  neap_status (*read)(void *context, const struct tensor *table, int64_t first, int64_t rows, void *to);
  void *context;
};

/* What a step has besides tensors. */
struct run_context {
  uint64_t seed, step; /* step: from 0 */
  float learning_rate;
  int32_t micro_batch, micro_batches; /* of the step, from 0; of as many as a step has (0: 1) */
  int32_t parts;                      /* micro-batches of this step, which may be a short one */
  float loss_share;                   /* of the whole step's loss, which this micro-batch's is */
  float loss_scale;                   /* what gradients are larger by; 0: 1 */
  float largest; /* above 0: a gradient of this size or more did not fit its type, which sets */
  bool *overflowed;
  struct row_source rows;
  int64_t first_row;   /* of a kernel that has some of the rows of its node: the first of them */
  struct ranks *ranks; /* NULL: one process */
  struct share share;  /* that a kernel works on; what it is given begins at its first element */
  int64_t batch;       /* records of the rank whose statistics these are; 0: those of the graph */
};

/* What a gradient of 1 means; and d loss / d loss. */
static inline float run_gradient_unit(const struct run_context *context) {
  return context->loss_scale > 0 ? 1 / context->loss_scale : 1;
}
static inline float run_loss_gradient(const struct run_context *context) {
  return context->loss_share * (context->loss_scale > 0 ? context->loss_scale : 1);
}

/* What random operators count: micro-batches since the first step. */
static inline uint64_t run_draw(const struct run_context *context) {
  return context->micro_batches > 1
             ? context->step * (uint64_t)context->micro_batches + (uint64_t)context->micro_batch
             : context->step;
}

struct kernel;

/* Runs a node: data of its inputs and outputs in the node's order (what an update changes is among the
 * inputs; NULL where an optional one is not given), and its workspace. Outputs may share bytes with inputs as
 * the operator's in-place pairs allow. */
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

/* What a machine does at best, a second. */
struct roofline {
  double f32_flops, bf16_flops, bytes;
  double disk;     /* bytes that are read past the system's cache */
  double exchange; /* bytes that a process receives of others */
};

/* Of an ordinary pair of cores; only ratios matter to a planner. */
extern const struct roofline usual_roofline;

/* The larger of a node's FLOPs, by the type of its first input, and its bytes. */
double roofline_seconds(const struct roofline *roofline, const struct neap_graph *graph,
                        const struct node *node);

/* What reading a parameter that lies on disk takes; or `rows` rows of it, each with the page that
 * it lies in: OP_FETCH_ROWS. */
double fetch_seconds(const struct roofline *roofline, const struct tensor *parameter);
double fetch_rows_seconds(const struct roofline *roofline, const struct tensor *table, int64_t rows);

/* What it takes to receive all of a parameter of which each process has a share: OP_ALL_GATHER. */
double gather_seconds(const struct roofline *roofline, const struct tensor *parameter);

/* Runs OP_FETCH and OP_ALL_GATHER: fails, because programs hand these nodes to what reads the file
 * (run/transfer.h), and to what exchanges (kernel/ranks.h). */
kernel_run run_fetch_elsewhere;

/* What `prepare` says of a node. Outputs are row-major before the call. */
struct preparation {
  struct memory_format *inputs; /* [input_count] as the kernel wants them; on entry: as they lie now, not
                                   chosen for a variable that no node has chosen a format for yet */
  struct memory_format outputs[NODE_MAX_OUTPUTS];
  kernel_run *run;
  const void *state; /* from `region` */
  uint64_t workspace;
  double seconds;                  /* by `roofline`; 0: what it says of the operator's FLOPs and bytes */
  const struct roofline *roofline; /* given */
  struct region *region;
};

struct lower_options {
  neap_convolution convolution;
  int threads; /* 0: all cores */
  int64_t
      outputs; /* named outputs of this many elements at most live to the end of the step, as the loss does */
  int ranks;   /* processes that train together; 0: one */
  struct roofline roofline; /* that costs are of; zeros: the usual one */
};

struct backend {
  const char *name;
  const struct device *device; /* where operands and workspaces are */
  /* Looks at the whole graph to choose what all nodes share. `state` is freed with free_state (which takes
   * NULL). */
  neap_status (*create_state)(const struct neap_graph *graph, const struct lower_options *options,
                              void **state);
  void (*free_state)(void *state);
  /* NEAP_UNSUPPORTED: it does not know the operator, or not for these shapes. */
  neap_status (*prepare)(void *state, const struct neap_graph *graph, const struct node *node,
                         struct preparation *p);
  /* Which implementation a kernel is, with the version of the library that it is from: all that its bits and
   * its time depend on besides types, shapes, formats and the number of threads. Checkpoints and measured
   * costs rely on it. */
  void (*describe)(const struct kernel *kernel, char *text, size_t size);
  /* Which of its own kernels it takes: the name of an instruction set, a constant. */
  const char *(*own_kernels)(const void *state);
  /* Graph to graph before lowering; NULL: none. Residents keep their order. */
  neap_status (*rewrite)(const struct neap_graph *graph, struct neap_graph **out);
  /* Bytes of a tensor in a format, without rounding; and whether two put every element at the same place. */
  uint64_t (*format_bytes)(const struct tensor *tensor, struct memory_format format);
  bool (*same_place)(const struct tensor *tensor, struct memory_format a, struct memory_format b);
  /* Copies a variable to and from f32 in row-major order, which `plain` has on the host; `data` as a kernel
   * is given it, or on the host. */
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
  int threads;                   /* that its kernels are to run with: see team_set() */
  struct neap_graph *graph;      /* with Reorder nodes */
  struct memory_format *formats; /* by tensor; a view has its storage's */
  struct kernel *kernels;        /* by node; node ids are those of `step` */
  struct neap_step *step;        /* tensor ids differ from the graph's: views are missing */
  const int32_t *step_tensor;    /* graph tensor -> step tensor of its storage */
  const int32_t *home; /* graph tensor -> step tensor in whose bytes it is: of what lies in a variable that */
  const struct rank_part *rank_parts; /* by node; NULL: one process */
};

/* Lowers a graph. A resident tensor (input, parameter, state) takes the format of the one of that name in
 * `like` (NULL: none), whose residents come in the same order: so an evaluation graph shares the variables of
 * a training graph. The result does not refer to `graph`. NEAP_INVALID_ARGUMENT: this many threads
 * cannot be had here. NEAP_UNSUPPORTED names an operator or shape that the backend does not know. */
neap_status lower(const struct neap_graph *graph, const struct backend *backend,
                  const struct lower_options *options, const struct lowered *like, struct lowered **out);
void lowered_free(struct lowered *lowered);

#endif
