/* Train a network and predict with it, step by step, over your own data.
 *
 * To train: neap_session_create; before each neap_session_step fill what neap_session_input gives; then
 * neap_session_save. To predict, here or in another program: build the same network, of any batch, and a
 * session with `.predict`; neap_session_load; fill the inputs; neap_session_predict; neap_session_output.
 *
 * A session maps its memory once, when it is created; neap_session_memory describes it:
 *
 *   |<--------------- resident ---------------->|<------------------------ arena ------------------------>|
 *   | parameters | states, statistics | inputs  | activations, gradients, workspaces at planned offsets,  |
 *   |            |                    |         | which they leave to others when they are read last      |
 *   |<--------------------------------- planned_peak, at most the budget -------------------------------->|
 *
 * What is resident has its place from the first step to the last. measured_peak is the highest byte that a
 * kernel got. */
#ifndef NEAP_SESSION_H
#define NEAP_SESSION_H

#include "neap_graph.h"
#include "neap_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Options ---- */

/* How much memory a process may still take. */
typedef struct neap_available {
  uint64_t free_bytes;   /* the least that the machine, the control groups and the process's limits leave */
  uint64_t margin_bytes; /* a tenth of it, which is left to others */
  uint64_t bytes;        /* the rest */
  char limit[128];       /* which of them it is: "the machine", "the control group /x", "ulimit -v" */
} neap_available;
/* NEAP_UNSUPPORTED: the system does not say (Linux does). */
neap_status neap_memory_available(neap_available *out);

/* Update rules, as PyTorch has them; neap_optimizer_at lists them, with their papers. ADAMW has decoupled
 * decay, ADAM decay in the gradient. */
typedef enum neap_optimizer { NEAP_SGD, NEAP_ADAMW, NEAP_ADAM, NEAP_RMSPROP, NEAP_LION } neap_optimizer;

/* Parameters whose names match a pattern of the shell ("*.bias", "*norm*") get a learning rate and a weight
 * decay of their own. Of several groups that match the first counts; one may match nothing. */
typedef struct neap_parameter_group {
  const char *pattern;
  float rate; /* times the learning rate */
  float weight_decay;
} neap_parameter_group;
typedef enum neap_convolution { NEAP_CONV_AUTO, NEAP_CONV_DIRECT, NEAP_CONV_WINOGRAD } neap_convolution;
typedef enum neap_backend { NEAP_CPU, NEAP_REFERENCE } neap_backend; /* fast f32; plain C in double */
/* Costs of nodes: from FLOPs and bytes alone; or timed here, and kept in the user's cache directory. */
typedef enum neap_costs { NEAP_COSTS_ROOFLINE, NEAP_COSTS_MEASURED } neap_costs;

bool neap_optimizer_at(int32_t index, neap_row *row); /* in the order of neap_optimizer */

/* Graphs that compute the same bits and differ in what they keep: for the gradient of ReLU its output, or a
 * bit an element wherever nothing else needs the output. AUTO plans each and takes the one whose plan is
 * cheaper, or which needs less for NEAP_BUDGET_MIN; BASE where they are equal. */
typedef enum neap_variant { NEAP_VARIANT_AUTO, NEAP_VARIANT_BASE, NEAP_VARIANT_MASK } neap_variant;

/* Where frozen matrices of a model of a GGUF file or a folder of Hugging Face lie while adapters are trained
 * (session options `lora`): in the session's memory; or in the model's file, which is read, weight by weight,
 * each time that the plan needs one; what bitsandbytes packed there lies in memory. The bits are the same.
 * AUTO: in memory where the budget is met so; for NEAP_BUDGET_MIN wherever less is needed. */
typedef enum neap_base_on_disk { NEAP_DISK_AUTO, NEAP_DISK_ALWAYS, NEAP_DISK_NEVER } neap_base_on_disk;

/* What several processes (session options `collective`) have shares of: the optimizer's states; or ALL, large
 * parameters, too, which each gathers whenever its plan reads one. All processes then run the plan of the
 * first. The bits are the same. NEAP_INVALID_ARGUMENT: ALL in a single process. */
typedef enum neap_shard { NEAP_SHARD_STATES, NEAP_SHARD_ALL } neap_shard;

/* How a session keeps which elements of sparse parameters have values: a bit an element, or two bytes a value
 * (its index in a block of 65536 elements) and four a block. SMALLER is the one of fewer bytes, by shapes and
 * density alone: a bit from densities of about 1/16 on. All give the same bits of weights. */
typedef enum neap_sparse_positions {
  NEAP_SPARSE_SMALLER,
  NEAP_SPARSE_BITS,
  NEAP_SPARSE_INDICES
} neap_sparse_positions;

/* An input of images, f32 [N, C, H, W] with at most NEAP_BYTE_CHANNELS channels, that a session keeps as
 * bytes, in a quarter of the memory: neap_session_input(NAME) is u8 of that shape then, and "NAME.window" i32
 * [N, 4] has the first row that has pixels, the row behind the last, and the same of columns. A pixel is
 * (byte - mean) / deviation of its channel, in f32; outside of the window all is 0. */
enum { NEAP_BYTE_CHANNELS = 4 };
typedef struct neap_byte_input {
  const char *name; /* borrowed until neap_session_free; NULL, or no such input of the graph: none */
  float mean[NEAP_BYTE_CHANNELS], deviation[NEAP_BYTE_CHANNELS]; /* deviation 0: 1 */
} neap_byte_input;

/* The number 0 in a field whose plain 0 means the usual value. (It is a zero with a sign.) */
#define NEAP_ZERO (-0.0)

/* Zeroed options are usable: SGD without momentum, automatic everything, budget `min`. */
struct neap_collective;
typedef struct neap_session_options {
  uint64_t budget;        /* bytes, or one of NEAP_BUDGET_MIN, MAX, AVAILABLE */
  double budget_fraction; /* not 0: instead of `budget`, of what keeping everything needs */
  /* Not 0: instead of these, bytes that the whole process may take, code, libraries and planning included
   * (the system's VmHWM). The smallest budget is then a number of the same kind. */
  uint64_t process_budget;
  const char *planner;                        /* NULL: "auto" */
  const char *plan_file;                      /* replay this plan instead of planning; borrowed */
  bool plan_quick;                            /* as neap_plan_options.quick */
  double plan_seconds;                        /* as neap_plan_options.seconds */
  neap_plan_progress_function *plan_progress; /* as neap_plan_options.progress; NULL: not called */
  void *plan_context;                         /* handed to it */
  const volatile int *plan_stop;              /* as neap_plan_options.stop; NULL: never */
  neap_optimizer optimizer;
  float momentum, weight_decay; /* momentum: SGD and RMSprop, in [0, 1). NAN: the optimizer's usual */
  bool nesterov;                /* SGD */
  /* 0 or NAN: 0.9, 0.999, 1e-8 for Adam and AdamW; 0.9, 0.99 for Lion. RMSprop: beta2 is its alpha, 0.99.
   * NEAP_ZERO: 0. */
  float beta1, beta2, epsilon;
  float clip_value; /* not 0: gradients are cut to [-clip_value, clip_value]; then */
  float clip_norm;  /* not 0: the norm of all together is cut to this; all live until it is known */
  /* Steps tell the norm of all gradients together (neap_step_result). Where sums of gradients would lie in
   * the momentum, they lie apart then, which takes memory and changes the last bits. */
  bool gradient_norm;
  /* The loss of each label is multiplied by the weight of its class, and the sum divided by that of the
   * weights. The session has an input "class_weights", f32 [classes], to be filled before the first step.
   * Evaluations do without. NEAP_INVALID_ARGUMENT: the graph has no cross-entropy of logits. */
  bool class_weights;
  /* Each record has two labels (neap_softmax_cross_entropy_mixed): the session has inputs "other_labels",
   * i32, and "label_shares", f32, of the labels' shape, to be filled before each step. Evaluations do
   * without. NEAP_INVALID_ARGUMENT: the graph has no cross-entropy of logits. */
  bool mixed_labels;
  /* Not 0: each trained parameter has an exponential average beside it, a state NAME.average in the session's
   * memory: after each step average = ema average + (1 - ema) parameter. Before the first step it is what the
   * parameter is, however that came.
   * Evaluations take the averages, and so does a session that only predicts, of a file that has them. In [0,
   * 1). NEAP_UNSUPPORTED: parameters are of 16 bits, or sparse. */
  float ema;
  const neap_parameter_group *groups; /* borrowed until the session is made */
  int group_count;
  neap_convolution convolution;
  neap_backend backend;
  neap_costs costs;
  neap_variant variant; /* a plan file has its own */
  int threads;          /* 0: all cores of the machine */
  uint64_t seed;        /* initial parameters and random operators */
  bool predict;         /* without gradients and optimizer: only what the graph's outputs need is in memory */
  int32_t micro_batches; /* that a step has, each as large as the graph's batch; 0: 1 */
  /* Processes that train together (neap_collective.h); NULL: one; borrowed. Process r of P takes the
   * micro-batches r, r + P, ... of each step and has a P-th of the optimizer's states. The bits are those of
   * one process that takes all micro-batches. All ranks make the same calls of the session in the same order.
   */
  const struct neap_collective *collective;
  neap_dtype precision; /* BF16 or F16: storage of values, parameters and optimizer states (losses, and what
                           norms need, in f32); updates round at random, so that the mean is exact */
  bool master;          /* parameters and optimizer states stay f32 beside values of 16 bits */
  float loss_scale;     /* that gradients are larger by until the update; 0: 1024 in F16, else 1 */
  bool dynamic_loss_scale; /* begins with loss_scale (0: 65536): halved by a step with a gradient that does
                              not fit its type, whose update is left out; doubled after 2000 that do */
  /* Not 0: the share of their values that sparse parameters keep, with their optimizer states; the rest is 0
   * and not stored. Which ones: those whose names match sparse_layers, with * and ?; NULL: the weights of all
   * convolutions but the first; if none exists, of all linear layers but the last. */
  double sparse_density;
  const char *sparse_layers; /* borrowed until the session is made */
  neap_sparse_positions sparse_positions;
  /* Parameters whose names are in this list are frozen: no gradient, no optimizer state, no update. Patterns
   * with * and ?, with commas between them; one that begins with a ! takes out what it matches, and the last
   * that matches decides: "*,!head.*". A batch norm whose gamma and beta both are frozen normalises by its
   * running statistics, as in an evaluation, and these stay as they are. Borrowed until the session is made.
   */
  const char *freeze;
  /* Frozen parameters (of a session that only predicts: any) whose names are in this list are stored in a
   * quantised type, and read as the numbers that it means; which of these are kept, the plan decides.
   * Entries with commas between them: PATTERN=TYPE, or !PATTERN, which takes out what it matches; the last
   * one that matches decides: "*=q8_0,!head.*". Parameters of one dimension, and those whose elements by
   * their first index are no multiple of 32, stay as they are. Borrowed until the session is made. */
  const char *store;
  /* NULL, or a type as `store` names them: frozen weights of linear layers are stored in it, whatever `store`
   * says of them; not those of layers that give an output or what a loss reads. Borrowed likewise. */
  const char *base;
  bool save_sparse; /* neap_session_save writes values and their indices in place of dense tensors */
  /* Not 0: the rank of adapters of linear layers (LoRA; Hu et al. 2021): y += lora_alpha / lora (x A^T) B^T.
   * They alone are trained, unless `freeze` says what is frozen of the rest. A layer "NAME.weight" has the
   * parameters "NAME.lora_A.weight" [lora, inputs], which begins with uniform numbers up to 1 / sqrt(inputs),
   * and "NAME.lora_B.weight" [outputs, lora], which begins with 0. A session that only predicts has them,
   * too. NEAP_UNSUPPORTED: beside sparse parameters. */
  int32_t lora;
  float lora_alpha;   /* 0: 8. NEAP_ZERO: 0 */
  float lora_dropout; /* the share of x that an adapter drops */
  /* Which layers: patterns of their weights' names as in `freeze`, where "q_proj" also means any
   * "*.q_proj.weight"; "all": all linear layers but those that give the logits; "attention": those of
   * attention, by their usual names; NULL: the queries and values of attention. Borrowed until the session is
   * made. */
  const char *lora_layers;
  /* Files of this session have what is trained and its states alone, and so has the digest: not the
   * parameters that are frozen. Reading such a file leaves these as they are. */
  bool save_trained;
  neap_byte_input byte_input;
  /* neap_model_load must then come before the first step, and the session keeps the file open.
   * NEAP_UNSUPPORTED: ALWAYS without adapters, or of another model. */
  neap_base_on_disk base_on_disk;
  neap_shard shard;
} neap_session_options;

typedef struct neap_session neap_session;

/* Plans, maps the memory, once, and gives the parameters their first values (neap_initial), seeded. No step,
 * evaluation or prediction allocates. A graph without a loss makes a session that only predicts. The graph
 * is borrowed until neap_session_free. NEAP_OVER_BUDGET: `*smallest` is set to the smallest budget that can
 * be met, and the message names it; NULL: it is not asked for, and the message does not. */
neap_status neap_session_create(const neap_graph *graph, const neap_session_options *options,
                                uint64_t *smallest, neap_session **session);
void neap_session_free(neap_session *session);

/* The host's memory of an input by name, [dims...] in row-major order, to be filled before a step; owned by
 * the session. NULL when there is none of that name, such as labels in a session that only predicts. */
void *neap_session_input(neap_session *session, const char *name);

typedef struct neap_step_result {
  double loss;          /* of the batch, before the update; with label smoothing, where it is not held out */
  double gradient_norm; /* with that option, of the step that ends here: after clip_value, before clip_norm;
                           else -1 */
  bool skipped;         /* a dynamic loss scale was too large: the update was left out */
  int64_t correct;      /* of the last cross-entropy: labels whose logit is the largest; 0 if none exists */
  int64_t counted; /* of it, labels that are one of its classes and not ignored: the loss is their mean; the
                      others count for nothing. -1: the graph has no cross-entropy, or its labels are not an
                      input */
} neap_step_result;

/* Another graph with the same parameters, such as one for shorter sequences, whose steps and evaluations run
 * in this session's memory: they are planned inside it now. `*index` is its number; that of the graph that
 * the session was created with is 0. NEAP_INVALID_ARGUMENT: its variables are others, or an input is larger
 * than the one of its name in graph 0, whose memory it has. NEAP_OVER_BUDGET: its step does not fit. */
neap_status neap_session_add_graph(neap_session *session, const neap_graph *graph, int *index);
/* Which graph the next steps and evaluations run; what neap_session_input gives are its inputs from then on.
 */
neap_status neap_session_select(neap_session *session, int index);

/* One training step, with a learning rate of 0 or more. A loss that is not finite is no failure: look at it.
 * `result` may be NULL. */
neap_status neap_session_step(neap_session *session, float learning_rate, neap_step_result *result);

/* One of the micro-batches of a step, each with inputs of its own; the last one updates. `share`: of the
 * whole step's loss, which this one's counts as: its labels that count by those of all. neap_session_step
 * takes equal shares. In between nothing can be saved, loaded or digested. `result` is the micro-batch's. */
neap_status neap_session_micro_step(neap_session *session, float learning_rate, float share,
                                    neap_step_result *result);

/* Loss and accuracy of the batch by running statistics, without dropout and label smoothing. Changes no
 * variable. */
neap_status neap_session_evaluate(neap_session *session, neap_step_result *result);

/* Computes the graph's outputs from the inputs, as an evaluation does; labels do not matter. */
neap_status neap_session_predict(neap_session *session);

/* Of a graph with states that are prepared (neap_prepare): computes these from the inputs, in the memory that
 * predictions have too. What a prediction reads of them stays until the next call. NEAP_INVALID_ARGUMENT: it
 * has none. */
neap_status neap_session_prepare(neap_session *session);

/* Sparse parameters change places (dynamic sparse reparameterization: Mostafa and Wang 2019): values below a
 * threshold are dropped, as many new ones begin with 0 at random places, more of them where more values are
 * left; their number in all, and so the memory, stays. The threshold is doubled or halved where less or more
 * than `share` (within a tenth) of all values were dropped. Takes no memory; between steps only. */
neap_status neap_session_rewire(neap_session *session, double share, int64_t *moved);

/* What a session uses. Bytes. */
typedef struct neap_memory {
  uint64_t budget;        /* what was asked for: resolved to bytes */
  uint64_t resident;      /* parameters, optimizer states, running statistics, inputs */
  uint64_t arena;         /* gradients, activations, workspaces */
  uint64_t planned_peak;  /* resident + arena */
  uint64_t measured_peak; /* the highest byte that was really given to a kernel so far, counted apart */
  uint64_t keep_all;      /* what keeping everything needs */
  uint64_t parameters, states, inputs; /* the parts of `resident`; running statistics are states */
  double cost, base_cost;              /* of the plan, and without any recomputation */
  const char *planner;                 /* the row that made the plan; a constant */
  const char *variant;                 /* of the graph, "base" or another; a constant */
  uint64_t stored_saved; /* bytes that parameters in quantised types (store) take less than in that of the
                            others */
  uint64_t on_disk;      /* bytes of the frozen weights that stay in the model's file (base_on_disk) */
  uint64_t disk_read;    /* bytes that were read from it so far */
  double disk_waited;    /* seconds that kernels waited for them */
} neap_memory;
void neap_session_memory(const neap_session *session, neap_memory *memory);

typedef enum neap_variable_kind {
  NEAP_VARIABLE_PARAMETER,
  NEAP_VARIABLE_STATE, /* of the optimizer, or neap_state */
  NEAP_VARIABLE_RUNNING_STATISTIC,
  NEAP_VARIABLE_POSITIONS /* of a sparse parameter: 1 where it has a value, else 0 */
} neap_variable_kind;

/* Parameters, optimizer states, running statistics, in graph order; data is f32, in row-major order. Sparse
 * ones, and their states, are read as dense tensors; of what is written, the values at their positions are
 * taken. */
typedef struct neap_variable {
  const char *name; /* borrowed from the session */
  neap_variable_kind kind;
  int rank;
  int64_t dims[NEAP_MAX_RANK], elements;
  neap_dtype dtype; /* of storage; values are read and written as f32 */
  bool frozen;      /* a parameter that no step changes */
} neap_variable;
int32_t neap_session_variable_count(const neap_session *session);
neap_status neap_session_variable(const neap_session *session, int32_t index, neap_variable *variable);
neap_status neap_session_read(const neap_session *session, int32_t index, float *data);
neap_status neap_session_write(neap_session *session, int32_t index, const float *data);

/* An output by name (neap_output), after an evaluation or a prediction and before the next step, digest, save
 * or load: its shape, and its elements as f32 in row-major order. Either may be NULL; shapes are known at any
 * time. NEAP_OVER_BUDGET: in a training session, where it does not fit into the arena. */
neap_status neap_session_output(const neap_session *session, const char *name, neap_variable *shape,
                                float *data);

/* SHA-256, as hexadecimal, over all variables, f32 row-major. */
neap_status neap_session_digest(neap_session *session, char digest[65]);

/* All variables as safetensors, with the number of steps done, written whole or not at all; and back, so that
 * training of the same seed and options goes on with the same bits. Reading takes what the file has by name
 * and shape: every parameter must be there, and where a session only predicts every running statistic; other
 * states may be missing (they keep their values; averages are those of the parameters then). A session that
 * only predicts takes averages in place of parameters where the file has them. A file that does not suit
 * changes nothing; one that cannot be read to its end leaves what was read. */
neap_status neap_session_save(neap_session *session, const char *path);
neap_status neap_session_load(neap_session *session, const char *path);
/* Gives the session of a model that is a file ("onnx:FILE", or "FILE.onnx"), built with these options, the
 * values of that file; a ready-made model's begins as it was drawn. */
neap_status neap_model_load(const char *name, const neap_model_options *options, neap_session *session);

/* What neap_session_initialise has found. Texts live as long as the session. */
typedef struct neap_initialisation {
  int32_t taken; /* parameters and running statistics that have the file's values */
  int32_t missing_count, reshaped_count, unused_count;
  const char *const *missing;  /* those that the file does not have, */
  const char *const *reshaped; /* or in another shape: "linear1.weight [5, 512] (fc.weight [1000, 512])" */
  const char *const *unused;   /* tensors of the file that are none of them, by their names there */
} neap_initialisation;

/* Takes parameters and running statistics to begin with from a file of another program, or model: those that
 * it has by name and shape; the others keep their first values. `path`: a file of safetensors; NAME.json, an
 * index with an object "weight_map" of tensors and files beside it; or a folder with
 * model.safetensors.index.json or model.safetensors. F32, BF16 and F16 are taken.
 *
 * `map`: rows "FROM=TO" with commas between them, which are applied one after the other to each name of the
 * file: what a * or ? of FROM matched (a * as little as it can) is put where TO has its own, in their order.
 * "bn*.weight=norm*.gamma". NULL: names stay.
 *
 * Where there is no map and one file has all of the model's parameters, it is taken as neap_session_load
 * does, with optimizer states and steps. `report` may be NULL. NEAP_BAD_FORMAT: nothing fits. A failure
 * changes nothing, unless the file cannot be read to its end. */
neap_status neap_session_initialise(neap_session *session, const char *path, const char *map,
                                    neap_initialisation *report);

/* neap_session_load from several files, of the same model: parameters and running statistics are the means of
 * theirs, the rest is that of the first. NEAP_UNSUPPORTED: there are sparse parameters, or averages. */
neap_status neap_session_load_mean(neap_session *session, const char *const *paths, int32_t count);

/* ---- Plan a network's step ---- */

/* The training step of a graph as a session would run it: real layouts, bytes and costs. AUTO: the base. */
neap_status neap_step_from_graph(const neap_graph *graph, const neap_session_options *options,
                                 neap_step **step);

/* The plan that a session with these options would run, and the step that it is for: in the variant that pays
 * within the budget, "GRAPH+VARIANT" by name. A budget's fraction is one of what the base needs to keep
 * everything. NEAP_OVER_BUDGET: `*smallest` is set as by neap_plan_make. */
neap_status neap_plan_graph(const neap_graph *graph, const neap_session_options *options, uint64_t *smallest,
                            neap_step **step, neap_plan **plan);

/* ---- How fast it is ---- */

/* What this machine does at best on this many threads. */
typedef struct neap_speed {
  int threads;
  double f32_flops;    /* multiply-adds of f32, two FLOPs each, a second */
  double bf16_flops;   /* dot products of bf16; 0: the processor has no instruction for them */
  double memory_bytes; /* bytes a second that a copy in main memory reads and writes; */
  double cache_bytes;  /* and one in the caches that each core has for itself */
  double disk_bytes;   /* read from the disk of the user's cache directory, past the system's cache; 0: not
                          known */
} neap_speed;

/* Measures it with one thread and with this many (0: all cores), in some tenths of a second, and enters both
 * into the user's cache directory: from then on NEAP_COSTS_ROOFLINE is of these speeds on this machine with
 * as many threads, so that another plan may be the cheapest; its bits are the same. A cache that
 * cannot be written to is no failure. For an idle machine: what else runs on it takes part of its speed. */
neap_status neap_measure_speed(int threads, neap_speed *one, neap_speed *all);
/* The processor's own name, as the system tells it. */
void neap_processor_name(char *name, size_t size);

/* Kernels of a step. */
typedef struct neap_kernels {
  const char *op;       /* their operator */
  const char *operands; /* types and shapes that they have in common; NULL: any */
  int64_t count;        /* in a step */
  double seconds;       /* all together, by the median of each */
  double flops, bytes;  /* that they need, whatever they do */
  double limit_seconds; /* the least: of each the larger of FLOPs and bytes by the machine's speeds */
} neap_kernels;

typedef struct neap_step_times {
  int64_t steps;         /* that were timed */
  double step_seconds;   /* the median */
  double kernel_seconds; /* the sum over the kernels of a step, */
  double limit_seconds;  /* and that of their limits */
  int32_t kind_count, operator_count;
  const neap_kernels *kinds;     /* of one operator, operands and attributes; those that take most first */
  const neap_kernels *operators; /* of one operator, in the same order */
} neap_step_times;

/* Trains a session for some steps on its inputs as they are, and tells where the time goes. `steps`: this
 * many are timed, after two that warm up; 0: as many as two seconds have room for, at least 3 and at most
 * 100. Copies between tensors' places in memory count as kernels. `*times` goes back through
 * neap_step_times_free. */
neap_status neap_session_time_steps(neap_session *session, const neap_speed *speed, float learning_rate,
                                    int64_t steps, neap_step_times **times);
void neap_step_times_free(neap_step_times *times);

/* A ready-made model, to be timed on inputs that are drawn at random. */
typedef struct neap_bench_options {
  const char *model;
  neap_model_options shape;
  neap_session_options session; /* whose budget counts too: NEAP_BUDGET_MAX, to recompute nothing */
  int64_t steps;                /* 0: as in neap_session_time_steps */
} neap_bench_options;

typedef struct neap_bench_result {
  const char *records; /* what a batch has: "images", "sequences", "records" or "pairs"; a constant */
  int64_t batch, parameters;
  neap_memory memory;
  uint64_t smallest_budget; /* with NEAP_OVER_BUDGET: that is enough */
  neap_step_times *times;   /* freed with neap_step_times_free */
} neap_bench_result;

neap_status neap_bench(const neap_bench_options *options, const neap_speed *speed, neap_bench_result *result);

#ifdef __cplusplus
}
#endif

#endif
