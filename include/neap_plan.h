/* Plan without data: a step in, a schedule and offsets out; or buffers in, offsets out. The library neap_plan
 * has what this header and neap_status.h declare, and no more. */
#ifndef NEAP_PLAN_H
#define NEAP_PLAN_H

#include "neap_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Budgets ---- */

/* Budgets: a number of bytes, or one of these. */
#define NEAP_BUDGET_MAX UINT64_MAX    /* keep everything */
#define NEAP_BUDGET_MIN ((uint64_t)0) /* the least that can be met */
/* A budget for the process: what it uses when the session is created, plus neap_memory_available at that
 * time. */
#define NEAP_BUDGET_AVAILABLE (UINT64_MAX - 1)

/* Reads "96MiB" or "96M", "0.5GB", "100663296", "max", "min", "available" (-> bytes), "80%" (-> fraction 0.8,
 * bytes 0). */
neap_status neap_budget_parse(const char *text, uint64_t *bytes, double *fraction);
/* Returns the budget that is this share of `everything` bytes; at least 1. */
uint64_t neap_budget_share(double fraction, uint64_t everything);

/* ---- Plans ---- */

/* Progress of the search for a plan. */
typedef struct neap_plan_progress {
  double seconds; /* since planning began */
  double cost;    /* of the best schedule so far */
  bool fits;      /* it fits the budget */
} neap_plan_progress;
typedef void neap_plan_progress_function(const neap_plan_progress *progress, void *context);

bool neap_planner_at(int32_t index, neap_row *row);

typedef struct neap_step neap_step; /* a step as planners see it: bytes, costs, edges (a graph file) */
typedef struct neap_plan neap_plan; /* a schedule with its offsets (a plan file) */

void neap_step_free(neap_step *step);

/* A list of ids for every node: node v has ids[start[v]] up to, but not including, ids[start[v + 1]]. Without
 * `start` each node has one id; without both, no ids. */
typedef struct neap_lists {
  const int64_t *start; /* [node_count + 1], not decreasing */
  const int32_t *ids;
} neap_lists;

typedef enum neap_role { NEAP_ROLE_VALUE, NEAP_ROLE_INPUT, NEAP_ROLE_PARAMETER, NEAP_ROLE_STATE } neap_role;
typedef enum neap_pass { NEAP_PASS_FORWARD, NEAP_PASS_BACKWARD, NEAP_PASS_UPDATE } neap_pass;

/* An output of a node that may take over the bytes of an input, if this is its last read; positions in the
 * node's lists. */
typedef struct neap_inplace {
  int32_t node, output, input;
} neap_inplace;

/* A step in plain arrays. Tensors and nodes are numbered from 0, and nodes are in an order in which they can
 * run. Zero or NULL means a default; required are only counts, tensor_bytes, inputs and outputs. */
typedef struct neap_step_arrays {
  const char *name;
  int32_t tensor_count, node_count, step_output_count;
  const uint64_t *tensor_bytes;  /* [tensor_count] */
  const neap_role *tensor_roles; /* [tensor_count]; NULL: tensors that nodes make are values, those that nodes
                                    update are parameters, others are inputs. All but values are resident */
  const char *const *tensor_names; /* [tensor_count]; NULL: "tensor 0", ... */
  const double *node_costs;        /* [node_count], any unit; NULL: 1 each */
  const uint64_t *node_workspaces; /* [node_count], bytes while the node runs; NULL: 0 */
  const neap_pass *node_passes; /* [node_count]; NULL: all forward; planners of chains then refuse the step */
  const bool *node_repeatable;  /* [node_count]; NULL: all may run again (but never a node with updates) */
  const char *const *node_names;     /* [node_count]; NULL: "node 0", ... */
  const char *const *node_operators; /* [node_count]; NULL: "" */
  neap_lists inputs, outputs;        /* tensor ids that a node reads, and makes */
  neap_lists updates;                /* tensor ids that a node changes, after all other readers */
  const int32_t *step_outputs;       /* [step_output_count] tensor ids that live to the end of the step */
  int64_t inplace_count;
  const neap_inplace *inplace; /* [inplace_count]; those of one node are tried in their order */
} neap_step_arrays;

/* Copies the arrays and checks them. NEAP_INVALID_ARGUMENT names the node or tensor: a cycle or wrong order,
 * a value with two producers or without one, an id out of range, a sum that overflows, a negative cost. Takes
 * linear time. */
neap_status neap_step_create(const neap_step_arrays *arrays, neap_step **step);

typedef struct neap_step_info {
  const char *name; /* borrowed */
  int32_t tensors, nodes;
  uint64_t resident_bytes;
  double base_cost;
  uint64_t parameter_bytes, trained_bytes,
      state_bytes; /* of resident tensors; trained: of parameters that nodes update */
} neap_step_info;
void neap_step_describe(const neap_step *step, neap_step_info *info);

/* Returns true if a plan depends on the same things in both steps, apart from the bytes of resident tensors.
 * A plan of one within a budget is then a plan of the other within a budget that differs as their
 * `resident_bytes` do. Names may differ, too. */
bool neap_step_is_alike(const neap_step *step, const neap_step *other);

/* Gives the bytes that training needs without any recomputation; a budget given as a fraction is a share of
 * these. */
neap_status neap_step_keep_all_bytes(const neap_step *step, uint64_t *bytes);

typedef struct neap_plan_info {
  const char *graph, *planner; /* borrowed from the plan */
  uint64_t peak_bytes;         /* resident + arena: must be within the budget */
  uint64_t resident_bytes, arena_bytes;
  uint64_t lower_bound_bytes;      /* every plan, under any budget, has at least this peak; 0: not known */
  double cost, base_cost, seconds; /* seconds: time of planning */
  double cost_lower_bound; /* every plan within the budget costs at least this; 0: not known, because the plan
                              was read */
  int64_t length, recomputed; /* nodes of the schedule; and repeats among them */
  bool proven_optimal;
} neap_plan_info;

/* Plans within `budget` bytes, resident tensors and the arena included, with one planner by name or "auto";
 * NEAP_BUDGET_MAX keeps everything, with any planner. Offsets are multiples of 64 bytes if all sizes are,
 * else of a common divisor of all sizes, down to 1: give sizes that are multiples of the alignment that your
 * kernels need. NEAP_OVER_BUDGET: `*smallest` is set to the smallest budget found that can be met, or to 0 if
 * the planner has no plan for such a step under any budget; the message says why. NULL: not sought. */
neap_status neap_plan_make(const neap_step *step, uint64_t budget, const char *planner, uint64_t *smallest,
                           neap_plan **plan);

/* Options of planning. Zeroed: with the effort of neap_plan_make, and the same plan on every machine. */
typedef struct neap_plan_options {
  const char *planner; /* NULL: "auto" */
  bool quick;          /* any plan within the budget is enough; if none is found `*smallest` is 0 */
  double seconds;      /* above 0: time limit of the search, whose result then depends on the machine */
  /* Above 0: limits the work of finding the least budget, in moves of a node, of which a core makes some
   * millions a second; the result is the same on every machine. The least budget that is named is met, but
   * more work may find a lower one. 0: the work depends on the size of the step alone. */
  int64_t least_work;
  neap_plan_progress_function *progress; /* called a few times a second during the search; NULL: not called */
  void *context;                         /* its context */
  /* May be set to other than 0 by another thread or a signal handler, and must then stay so: planning ends
   * within a second with NEAP_INTERRUPTED, except for the solver of the planner checkmate. NULL: never. */
  const volatile int *stop;
} neap_plan_options;
neap_status neap_plan_make_with(const neap_step *step, uint64_t budget, const neap_plan_options *options,
                                uint64_t *smallest, neap_plan **plan);

void neap_plan_free(neap_plan *plan);
void neap_plan_describe(const neap_plan *plan, neap_plan_info *info);
const int32_t *neap_plan_schedule(const neap_plan *plan, int64_t *length); /* node ids; borrowed */

/* An instance as in a plan file. */
typedef struct neap_placement {
  int32_t at, tensor; /* position that makes it; tensor -1: the workspace of that position */
  uint64_t offset, bytes;
} neap_placement;

/* A plan in plain arrays, with the figures that a plan file states. */
typedef struct neap_plan_arrays {
  const char *graph, *planner; /* NULL: "" */
  const int32_t *schedule;     /* [length] node ids */
  int64_t length;
  const neap_placement *instances; /* [instance_count], in the order of a plan file */
  int64_t instance_count;
  uint64_t resident_bytes;
  uint64_t live_peak_bytes; /* resident + the largest live bytes: without gaps in the arena */
  uint64_t arena_bytes;
  double cost, base_cost;
} neap_plan_arrays;

/* Copies the arrays. Does not check them against a step: neap_plan_check does. NEAP_TOO_LARGE: more than 2^31
 * - 3 positions or instances. NEAP_INVALID_ARGUMENT: an array, or all of them, are missing. */
neap_status neap_plan_create(const neap_plan_arrays *arrays, neap_plan **plan);

/* The result of the independent checker, which uses only the rules of the formats. NEAP_INVALID_PLAN:
 * `reason` names the rule. */
typedef struct neap_check_result {
  bool valid;
  uint64_t live_peak_bytes; /* as in neap_plan_arrays; a plan file has it as peak_bytes */
  double cost;
  int64_t position; /* the place in the schedule that breaks a rule; -1: no particular place */
  char reason[256];
  uint64_t stored_bytes,
      restored_bytes; /* that stores write in one run of a valid plan, and restorers read */
} neap_check_result;
neap_status neap_plan_check(const neap_step *step, const neap_plan *plan, neap_check_result *result);

/* The use of live bytes. */
typedef enum neap_memory_kind {
  NEAP_KIND_PARAMETER,
  NEAP_KIND_STATE,
  NEAP_KIND_INPUT,
  NEAP_KIND_GRADIENT,
  NEAP_KIND_KEPT,       /* made for the first time */
  NEAP_KIND_RECOMPUTED, /* an instance of a value that was made earlier */
  NEAP_KIND_WORKSPACE,
  NEAP_KIND_COUNT
} neap_memory_kind;

/* A value made at one position of the schedule (once more for each repeat of its node), or a workspace. */
typedef struct neap_instance {
  int32_t tensor;         /* -1: workspace */
  int32_t first, last;    /* positions at which it is made and read last */
  bool in_place;          /* at `first` it takes over the bytes of an input */
  neap_memory_kind kind;  /* never that of a resident tensor */
  uint64_t offset, bytes; /* in the arena */
} neap_instance;

/* Gives all instances of a valid plan of the step, in the order of the schedule: a node's outputs in their
 * order, then its workspace. The array belongs to the caller; free it with free(). */
neap_status neap_plan_instances(const neap_step *step, const neap_plan *plan, neap_instance **instances,
                                int64_t *count);

/* Gives live bytes by kind, as `neap show` draws them: `live` is [length of
 * neap_plan_schedule][NEAP_KIND_COUNT]. */
neap_status neap_plan_profile(const neap_step *step, const neap_plan *plan, uint64_t *live);

/* Give name and bytes of a tensor, or name and operator of a node; names are borrowed from the step. */
neap_status neap_step_tensor(const neap_step *step, int32_t tensor, const char **name, uint64_t *bytes);
neap_status neap_step_node(const neap_step *step, int32_t node, const char **name, const char **op);

/* ---- Pipelines ---- */

typedef struct neap_pipeline neap_pipeline; /* a step that ranks divide by depth */

/* Gives the ways to divide a step; ours ("neap") is the last. */
bool neap_pipeline_way_at(int32_t index, const char **name);

typedef struct neap_pipeline_options {
  const char *way; /* NULL: "neap" */
  int32_t ranks, micro_batches;
  double bandwidth, latency; /* bytes a second; fixed seconds of each transfer */
  uint64_t budget;           /* of each rank; NEAP_BUDGET_MAX: any; not NEAP_BUDGET_AVAILABLE */
  bool fixed; /* each part stays on one rank, but where ranks share memory, and takes micro-batches in order,
                 as a run with --pipeline does */
} neap_pipeline_options;

/* Divides the step of one micro-batch, with its updates and with costs in seconds; the step must live as long
 * as the pipeline. If the way finds no schedule within the budget, gives the one of least bytes and sets
 * `fits` to false. NEAP_UNSUPPORTED: the way has no schedule for such sizes. NEAP_OVER_BUDGET: the step is
 * not a chain. */
neap_status neap_pipeline_make(const neap_step *step, const neap_pipeline_options *options,
                               neap_pipeline **pipeline);
void neap_pipeline_free(neap_pipeline *pipeline);

typedef struct neap_pipeline_info {
  const char *way;
  int32_t ranks, micro_batches, blocks, parts;
  bool fits;
  double seconds, bubble; /* of a step; share in which ranks are idle */
  uint64_t least_bytes, highest_bytes,
      smallest_budget; /* of a rank; the least that this way was found to meet */
  /* Bytes of the memory that all ranks must reach, which holds weights, states and values between parts once
   * (roundpipe). Each rank counts an equal part of them above. 0: each rank has its own. */
  uint64_t shared_bytes;
} neap_pipeline_info;
void neap_pipeline_describe(const neap_pipeline *pipeline, neap_pipeline_info *info);
uint64_t neap_pipeline_rank_bytes(const neap_pipeline *pipeline, int32_t rank); /* 0: no such rank */

/* A part, which micro-batches pass in order: blocks and forward nodes of the step; ends are not included. */
typedef struct neap_pipeline_part {
  int32_t first_block, end_block, first_node, end_node;
  bool forward, backward, recompute;
} neap_pipeline_part;
bool neap_pipeline_part_at(const neap_pipeline *pipeline, int32_t index, neap_pipeline_part *part);

/* A task; a rank runs its tasks in order. Returns false if the rank has no such task. */
typedef struct neap_pipeline_task {
  int32_t part, micro_batch;
  double start, end; /* seconds */
} neap_pipeline_task;
bool neap_pipeline_task_at(const neap_pipeline *pipeline, int32_t rank, int32_t index,
                           neap_pipeline_task *task);

/* ---- Layout ---- */

/* A buffer lives from position `lower` up to, not including, `upper`. */
typedef struct neap_buffer {
  int64_t lower, upper;
  uint64_t size, offset;
} neap_buffer;

typedef struct neap_layout_result {
  uint64_t height, lower_bound; /* lower_bound: the largest sum of sizes that live at one position */
  bool proven_optimal;
} neap_layout_result;

/* Sets every offset so that no two buffers that live at one position overlap. With capacity 0 it spends the
 * work of a few seconds on a low layout, else stops when the layout is within the capacity. `proven_optimal`:
 * no layout is lower. NEAP_OVER_BUDGET: no layout was found within the capacity; the message says whether one
 * can exist, and offsets and result are those of the least height found. NEAP_TOO_LARGE: no layout below 2^64
 * - 1 was found. NEAP_INVALID_ARGUMENT: a buffer does not end after it begins. Deterministic. */
neap_status neap_layout_solve(neap_buffer *buffers, int64_t count, uint64_t capacity,
                              neap_layout_result *result);

/* ---- States of a shared prefix ---- */

/* Finds where a recurrent model keeps its state along prompts, so that the least is made again: of requests,
 * weights[t] (t = 0 ... length) share their first t tokens with what ran before; a request goes on at the
 * last state at or before t, or at the start, and makes t minus that again. Writes at most `states`
 * positions, ascending, between 1 and length, and the mean number of tokens that are made again. Exact, in
 * time length x states and memory of 4 bytes for each of these (the recurrence: arXiv 2605.05219).
 * NEAP_INVALID_ARGUMENT: length below 1, states below 0, or a weight is negative, not finite, or all are 0.
 * NEAP_OUT_OF_MEMORY. */
neap_status neap_cache_plan(const double *weights, int64_t length, int64_t states, int64_t *positions,
                            int64_t *count, double *repeated);

/* Returns the mean number of tokens that such requests make again with states at these positions, ascending.
 * NaN: the arguments are not those of neap_cache_plan. */
double neap_cache_repeated(const double *weights, int64_t length, const int64_t *positions, int64_t count);

#ifdef __cplusplus
}
#endif

#endif
