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

#include "neap_model.h"
#include "neap_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Options ---- */

/* The memory that a process may still take. */
typedef struct neap_available {
  uint64_t free_bytes;   /* the least that the machine, the control groups and the process's limits allow */
  uint64_t margin_bytes; /* a tenth of it, left to other processes */
  uint64_t bytes;        /* the rest */
  char limit[128];       /* the limit that is the least: "the machine", "the control group /x", "ulimit -v" */
} neap_available;
/* Gives the available memory. NEAP_UNSUPPORTED: the system does not tell it (Linux does). */
neap_status neap_memory_available(neap_available *out);

/* Update rules, as PyTorch has them where it does; neap_optimizer_at lists them, with their papers. ADAMW has
 * decoupled decay, ADAM decay in the gradient. From ADALOMO on they work on whole matrices [dims[0], rest];
 * from APOLLO on, but for ADAM_MINI, on the hidden ones alone: weights of linear layers and convolutions that
 * are no embedding and do not give the logits. Other parameters are updated as by ADAMW, with the same
 * numbers. */
typedef enum neap_optimizer {
  NEAP_SGD,
  NEAP_ADAMW,
  NEAP_ADAM,
  NEAP_RMSPROP,
  NEAP_LION,
  NEAP_LOMO,
  NEAP_ADALOMO,
  NEAP_ADAFACTOR,
  NEAP_APOLLO,
  NEAP_APOLLO_MINI,
  NEAP_ADAM_MINI,
  NEAP_MUON,
  NEAP_GALORE,
  NEAP_FIRA,
  NEAP_ADAMW8,
  NEAP_LION8
} neap_optimizer;

/* A group of parameters with its own learning rate and weight decay: those whose names match a pattern of the
 * shell ("*.bias", "*norm*"). If several groups match, the first counts; a group may match nothing. */
typedef struct neap_parameter_group {
  const char *pattern;
  float rate; /* factor of the learning rate */
  float weight_decay;
} neap_parameter_group;
typedef enum neap_convolution { NEAP_CONV_AUTO, NEAP_CONV_DIRECT, NEAP_CONV_WINOGRAD } neap_convolution;
/* Choice of kernels by what the bits of results follow from. USUAL: from shapes, threads and the instruction
 * set, by the fastest kernels. PORTABLE: from shapes alone: the same on every processor, with any compiler
 * and number of threads, with and without oneDNN; f32 on the CPU only. */
typedef enum neap_bits { NEAP_BITS_USUAL, NEAP_BITS_PORTABLE } neap_bits;
typedef enum neap_backend { NEAP_CPU, NEAP_REFERENCE } neap_backend; /* fast f32; plain C in double */
/* Costs of nodes: computed from FLOPs and bytes alone, or timed here and kept in the user's cache
 * directory. */
typedef enum neap_costs { NEAP_COSTS_ROOFLINE, NEAP_COSTS_MEASURED } neap_costs;

bool neap_optimizer_at(int32_t index, neap_row *row); /* in the order of neap_optimizer */

/* Graphs that compute the same bits and differ in what they keep for the gradient of ReLU: its output, or one
 * bit per element if nothing else needs the output. AUTO plans each and takes the one with the cheaper plan,
 * or for NEAP_BUDGET_MIN the one that needs less; BASE if they are equal. */
typedef enum neap_variant { NEAP_VARIANT_AUTO, NEAP_VARIANT_BASE, NEAP_VARIANT_MASK } neap_variant;

/* The values of a training that lie in its file on disk. AUTO: those that the budget needs, activations
 * first, then states. */
typedef enum neap_disk_for {
  NEAP_DISK_FOR_AUTO = 0,
  NEAP_DISK_FOR_STATES = 1,
  NEAP_DISK_FOR_WEIGHTS = 2,
  NEAP_DISK_FOR_BOTH = 3,       /* states and weights */
  NEAP_DISK_FOR_ACTIVATIONS = 4 /* alone, or added to the others */
} neap_disk_for;

/* The place of a GGUF file's or Hugging Face folder's frozen matrices while adapters are trained (session
 * options `lora`): the session's memory, or the model's file, from which each weight is read whenever the
 * plan needs it. Weights that bitsandbytes packed stay in memory. The bits are the same. AUTO: in memory if
 * that meets the budget; for NEAP_BUDGET_MIN, whichever needs less. */
typedef enum neap_base_on_disk { NEAP_DISK_AUTO, NEAP_DISK_ALWAYS, NEAP_DISK_NEVER } neap_base_on_disk;

/* The variables that several processes (session options `collective`) divide: the states of the optimizer; or
 * with ALL also large parameters, which each process gathers whenever its plan reads one. All processes then
 * run the plan of the first. The bits are the same. NEAP_INVALID_ARGUMENT: ALL in a single process. */
typedef enum neap_shard { NEAP_SHARD_STATES, NEAP_SHARD_ALL } neap_shard;

/* The form in which a session stores the places of sparse parameters' values: one bit per element, or two
 * bytes per value (its index in a block of 65536 elements) and four per block. SMALLER takes the one with
 * fewer bytes, by shapes and density alone: bits for densities above about 1/16. All give the same bits of
 * weights. */
typedef enum neap_sparse_positions {
  NEAP_SPARSE_SMALLER,
  NEAP_SPARSE_BITS,
  NEAP_SPARSE_INDICES
} neap_sparse_positions;

/* An input of images, f32 [N, C, H, W] with at most NEAP_BYTE_CHANNELS channels, that a session keeps as
 * bytes, in a quarter of the memory. neap_session_input(NAME) is then u8 of that shape, and "NAME.window",
 * i32 [N, 4], gives the first row with pixels, the row after the last, and the same for columns. A pixel is
 * (byte - mean) / deviation of its channel, in f32; outside of the window all is 0. */
enum { NEAP_BYTE_CHANNELS = 4 };
typedef struct neap_byte_input {
  const char *name; /* borrowed until neap_session_free; NULL or not an input of the graph: unused */
  float mean[NEAP_BYTE_CHANNELS], deviation[NEAP_BYTE_CHANNELS]; /* deviation 0: 1 */
} neap_byte_input;

/* The number 0, for a field in which plain 0 means the usual value. (It is a zero with a sign.) */
#define NEAP_ZERO (-0.0)

/* Zeroed options are usable: SGD without momentum, automatic everything, budget `min`. */
struct neap_collective;
typedef struct neap_session_options {
  uint64_t budget;        /* bytes, or one of NEAP_BUDGET_MIN, MAX, AVAILABLE */
  double budget_fraction; /* not 0: replaces `budget`: the share of what keeping everything needs */
  /* Not 0: replaces these two: bytes that the process may take in total, code, libraries and planning
   * included (the system's VmHWM). The smallest budget is then of the same kind. */
  uint64_t process_budget;
  const char *planner;                        /* NULL: "auto" */
  const char *plan_file;                      /* runs this plan instead of planning; borrowed */
  bool plan_quick;                            /* as neap_plan_options.quick */
  double plan_seconds;                        /* as neap_plan_options.seconds */
  neap_plan_progress_function *plan_progress; /* as neap_plan_options.progress; NULL: not called */
  void *plan_context;                         /* its context */
  const volatile int *plan_stop;              /* as neap_plan_options.stop; NULL: never */
  neap_optimizer optimizer;
  float momentum, weight_decay; /* momentum: SGD and RMSprop, in [0, 1). NAN: the optimizer's usual */
  bool nesterov;                /* SGD */
  /* 0 or NAN: 0.9, 0.999, 1e-8 for Adam and AdamW; 0.9, 0.99 for Lion. RMSprop: beta2 is its alpha, 0.99.
   * NEAP_ZERO: 0. */
  float beta1, beta2, epsilon;
  float clip_value; /* not 0: gradients are cut to [-clip_value, clip_value]; then */
  float clip_norm; /* not 0: the norm of all gradients together is cut to this; all stay in memory until it is
                      known */
  /* Steps give the norm of all gradients together (neap_step_result). Sums of gradients that would be kept in
   * the momentum are then kept apart, which takes memory and changes the last bits. */
  bool gradient_norm;
  /* Multiplies the loss of each label by the weight of its class, and divides the sum by that of the weights.
   * The session has an input "class_weights", f32 [classes], to be filled before the first step. Evaluations
   * do not use it. NEAP_INVALID_ARGUMENT: the graph has no cross-entropy of logits. */
  bool class_weights;
  /* Each record has two labels (neap_softmax_cross_entropy_mixed): the session has inputs "other_labels",
   * i32, and "label_shares", f32, of the labels' shape, to be filled before each step. Evaluations do not use
   * them. NEAP_INVALID_ARGUMENT: the graph has no cross-entropy of logits. */
  bool mixed_labels;
  /* Not 0: keeps an exponential average of each trained parameter, a state NAME.average in the session's
   * memory: after each step average = ema average + (1 - ema) parameter. Before the first step it equals the
   * parameter, also if that was loaded. Evaluations use the averages, and so does a session that only
   * predicts if its file has them. In [0, 1). NEAP_UNSUPPORTED: parameters have 16 bits, or are sparse. */
  float ema;
  const neap_parameter_group *groups; /* borrowed until the session is made */
  int group_count;
  neap_convolution convolution;
  neap_bits bits;
  neap_backend backend;
  neap_costs costs;
  neap_variant variant; /* a plan file has its own */
  int threads;          /* 0: all cores of the machine */
  uint64_t seed;        /* initial parameters and random operators */
  bool predict; /* only for predictions: no gradients or optimizer, only the memory that the graph's outputs
                   need */
  int32_t micro_batches; /* of a step, each as large as the graph's batch; 0: 1 */
  /* Processes that train together (neap_collective.h); NULL: only this one; borrowed. Process r of P takes
   * the micro-batches r, r + P, ... of each step and keeps a P-th of the optimizer's states. The bits are
   * those of one process that takes all micro-batches. All ranks make the same calls of the session in the
   * same order. */
  const struct neap_collective *collective;
  neap_dtype precision; /* BF16 or F16: storage of values, parameters and optimizer states (but f32 for losses
                           and statistics of norms); updates round at random, so that the mean is exact */
  bool master;          /* parameters and optimizer states stay f32, with values of 16 bits */
  float loss_scale;     /* factor of gradients until the update; 0: 1024 in F16, else 1 */
  bool dynamic_loss_scale; /* begins with loss_scale (0: 65536). A step with a gradient that does not fit its
                              type halves it and skips the update; 2000 steps that fit double it */
  /* Not 0: the share of their values that sparse parameters keep, with their optimizer states; the rest is 0
   * and not stored. Sparse are parameters whose names match sparse_layers, with * and ?; NULL: the weights of
   * all convolutions but the first, or without convolutions, of all linear layers but the last. */
  double sparse_density;
  const char *sparse_layers; /* borrowed until the session is made */
  neap_sparse_positions sparse_positions;
  /* Freezes the parameters whose names are in this list: no gradient, no optimizer state, no update. It has
   * patterns with * and ?, separated by commas; a pattern that begins with ! excludes what it matches. The
   * last pattern that matches decides: "*,!head.*". A batch norm whose gamma and beta are both frozen
   * normalises by its running statistics, as in an evaluation, and does not change them. Borrowed until the
   * session is made. */
  const char *freeze;
  /* Stores the frozen parameters (of a session that only predicts: any) whose names are in this list in a
   * quantised type, and computes with the numbers that it represents; the plan decides which of these numbers
   * are kept. Entries are separated by commas: PATTERN=TYPE, or !PATTERN, which excludes what it matches. The
   * last entry that matches decides: "*=q8_0,!head.*". Parameters of one dimension, and those whose elements
   * per first index are not a multiple of 32, are not changed. Borrowed until the session is made. */
  const char *store;
  /* NULL, or a type as in `store`: stores frozen weights of linear layers in it, whatever `store` says; but
   * not those of layers that give an output or the input of a loss. Borrowed likewise. */
  const char *base;
  bool save_sparse; /* neap_session_save writes values and their indices instead of dense tensors */
  /* Not 0: the rank of adapters of linear layers (LoRA; Hu et al. 2021): y += lora_alpha / lora (x A^T) B^T.
   * Only they are trained, unless `freeze` tells what else is frozen. A layer "NAME.weight" has the
   * parameters "NAME.lora_A.weight" [lora, inputs], which begins with uniform numbers up to 1 / sqrt(inputs),
   * and "NAME.lora_B.weight" [outputs, lora], which begins with 0. A session that only predicts has them,
   * too. NEAP_UNSUPPORTED: there are sparse parameters. */
  int32_t lora;
  float lora_alpha;   /* 0: 8. NEAP_ZERO: 0 */
  float lora_dropout; /* the share of x that an adapter drops */
  /* The layers that get adapters: patterns of their weights' names as in `freeze`, where "q_proj" also means
   * any "*.q_proj.weight"; "all": all linear layers but those that give the logits; "attention": those of
   * attention, by their usual names; NULL: queries and values of attention. Borrowed until the session is
   * made. */
  const char *lora_layers;
  /* Files of this session, and the digest, contain only what is trained and its states, not frozen
   * parameters. Reading such a file leaves frozen parameters unchanged. */
  bool save_trained;
  neap_byte_input byte_input;
  /* If used, neap_model_load must be called before the first step, and the session keeps the file open.
   * NEAP_UNSUPPORTED: ALWAYS without adapters, or for another model. */
  neap_base_on_disk base_on_disk;
  /* A folder on a disk, in which a training may keep in one file without a name: variables of 64 KiB and more
   * (states, sums of gradients, trained parameters), which then take no memory but what a kernel reads at a
   * time, and activations of 256 KiB and more, which are written once a step and read when they are needed
   * again, as the plan finds cheaper than keeping or recomputing them. All keep their bits. NULL: none.
   * Borrowed. The file is allocated at its full size when the session is made. A failed read or write, or
   * bytes that changed there, fail the step. */
  const char *disk;
  neap_disk_for disk_for;
  uint64_t disk_bytes; /* the most that the file may take; 0: any */
  neap_shard shard;
  /* Above 1: that many ranks, all of `collective`, divide the step by its depth. Each has the weights and
   * states of its blocks, and budgets are for it. micro_batches must be at least 2. The bits are those of one
   * process. */
  int32_t pipeline;
  const char *pipeline_way; /* of neap_pipeline_way_at, to order its tasks; NULL, "auto": the fastest, of
                             * those whose ranks share no memory */
  /* For APOLLO, GaLore and Fira, with 0 for the rule's usual numbers: how many numbers the shorter side of a
   * gradient is projected to; updates until there is a new projection; the factor of steps (of APOLLO its
   * square). */
  int32_t projection_rank, projection_every;
  float projection_scale;
  /* States of rules that change each element alone are stored in 8 bits (NEAP_DYN8S, DYN8U), but for those of
   * sparse parameters, of embeddings, of parameters with fewer than 4096 elements, and of those whose names
   * are in states_f32, a list as `freeze`. ADAMW8 and LION8 are ADAMW and LION with this. Borrowed likewise.
   */
  bool states_8bit;
  const char *states_f32;
  /* Adapters with weights divided into length and direction (DoRA; Liu et al. 2024); scaled by lora_alpha
   * over the root of their rank (rsLoRA; Kalajdzievski 2023); whose B has lora_plus times the learning rate
   * (LoRA+; Hayou et al. 2024), 0: the same. */
  bool lora_dora, lora_rs;
  float lora_plus;
  /* Trains by forward passes alone (MeZO; Malladi et al. 2023), in the memory of a prediction. A step has two
   * of them, with weights w + mezo_epsilon z and w - mezo_epsilon z, for normal numbers z that follow from
   * seed, step and names. Its update is w -= rate (g z + weight_decay w), where g is the difference of the
   * two losses, of all micro-batches together, over 2 mezo_epsilon. Results have the mean of the two losses.
   * Dropout and batch norm are those of an evaluation. `optimizer` must be SGD, without momentum. 0: 1e-3. */
  bool mezo;
  float mezo_epsilon;
  /* Not NULL: the backward pass reads values that the forward pass made in 8 or 4 bits an element (ActNN;
   * Chen et al. 2021), rounded at random so that their mean is exact: "8", "4", or "4:LIST" for values whose
   * names are in a list as `freeze`. Blocks of 256 elements have a step and a least number of bf16. Values of
   * fewer than 1,024 elements, and those that a gradient needs exactly, such as statistics and the input of a
   * loss, are not changed. The plan decides whether the blocks are kept or made again; the bits are the same.
   * Borrowed likewise. NEAP_UNSUPPORTED: with mezo. */
  const char *compress;
  /* Stochastic backpropagation (Cheng et al. 2022): the gradient of what a residual branch gives is taken at
   * this share of the positions alone, above 0 and at most 1; 0: 1, all. The forward pass does not change. In
   * grids of an image positions on diagonals are kept, in sequences regular ones; where they begin is drawn
   * at each step for each branch, and a class token is kept always. Keys and values have gradients of all
   * positions, shortcuts the whole one. NEAP_UNSUPPORTED: with mezo; the graph has no residual branches [N,
   * T, width] with attention. */
  float backprop_share;
} neap_session_options;

/* Plans, maps all memory at once, and gives the parameters their first values (neap_initial), seeded. Steps,
 * evaluations and predictions allocate nothing. A graph without a loss makes a session that only predicts.
 * The graph is borrowed until neap_session_free. NEAP_OVER_BUDGET: `*smallest` is set to the smallest budget
 * that can be met, and the message names it; with NULL it is not sought. */
neap_status neap_session_create(const neap_graph *graph, const neap_session_options *options,
                                uint64_t *smallest, neap_session **session);
void neap_session_free(neap_session *session);

/* Returns the memory of an input by name, [dims...] in row-major order, to be filled before a step; it
 * belongs to the session. NULL: the session has no such input, such as labels if it only predicts. */
void *neap_session_input(neap_session *session, const char *name);

typedef struct neap_step_result {
  double loss;          /* of the batch, before the update; with label smoothing, unless held out */
  double gradient_norm; /* if asked for, in the last micro-batch of a step: after clip_value, before
                           clip_norm; else -1 */
  bool skipped;         /* the dynamic loss scale was too large: no update */
  int64_t correct;      /* of the last cross-entropy: labels whose logit is the largest; 0 if none exists */
  int64_t counted;      /* labels of it that are one of its classes and not ignored: the loss is the mean over
                           them. -1: the graph has no cross-entropy, or its labels are not an input */
} neap_step_result;

/* Adds a graph with the same parameters, such as one for shorter sequences. Its steps and evaluations run in
 * this session's memory and are planned now. `*index` is its number; the graph that the session was created
 * with has number 0. NEAP_INVALID_ARGUMENT: its variables differ, or an input is larger than the one of the
 * same name in graph 0, whose memory it shares. NEAP_OVER_BUDGET: its step does not fit. */
neap_status neap_session_add_graph(neap_session *session, const neap_graph *graph, int *index);
/* Selects the graph that the next steps and evaluations run; neap_session_input then gives its inputs. */
neap_status neap_session_select(neap_session *session, int index);

/* Runs one training step, with a learning rate of 0 or more. Succeeds even if the loss is not finite: check
 * it. `result` may be NULL. A step that fails on the way, such as by a fault of the disk, may have changed
 * some variables: then neap_session_save is refused until neap_session_load. */
neap_status neap_session_step(neap_session *session, float learning_rate, neap_step_result *result);

/* Runs one micro-batch of a step, with its own inputs; the last one updates. `share` is its weight in the
 * loss of the step: its labels that count, divided by those of all micro-batches; neap_session_step takes
 * equal shares. Between the micro-batches of a step nothing can be saved, loaded or digested. `result` is
 * that of the micro-batch. */
neap_status neap_session_micro_step(neap_session *session, float learning_rate, float share,
                                    neap_step_result *result);

/* Computes loss and accuracy of the batch by running statistics, without dropout and label smoothing. Changes
 * no variable. */
neap_status neap_session_evaluate(neap_session *session, neap_step_result *result);

/* Computes the graph's outputs from the inputs, as an evaluation does; labels do not matter. */
neap_status neap_session_predict(neap_session *session);

/* Computes the prepared states (neap_prepare) of a graph from the inputs, in the memory that predictions use,
 * too. The states that predictions read remain until the next call. NEAP_INVALID_ARGUMENT: the graph has no
 * such states. */
neap_status neap_session_prepare(neap_session *session);

/* Moves values of sparse parameters to other places (dynamic sparse reparameterization: Mostafa and Wang
 * 2019): drops values below a threshold and adds as many new ones, which begin with 0 at random places, more
 * of them where more values are left. Their total number, and so the memory, does not change. The threshold
 * is doubled or halved if fewer or more than `share` (within a tenth) of all values were dropped. Allocates
 * nothing; call it only between steps. */
neap_status neap_session_rewire(neap_session *session, double share, int64_t *moved);

/* The memory that a session uses, in bytes. */
typedef struct neap_memory {
  uint64_t budget;        /* the budget that was asked for, in bytes */
  uint64_t resident;      /* parameters, optimizer states, running statistics, inputs */
  uint64_t arena;         /* gradients, activations, workspaces */
  uint64_t planned_peak;  /* resident + arena */
  uint64_t measured_peak; /* the highest byte that any kernel used so far, counted independently */
  uint64_t keep_all;      /* what keeping everything needs; 0: not known (a pipeline that recomputes) */
  uint64_t parameters, states, inputs;        /* the parts of `resident`; states include running statistics */
  double cost, base_cost;                     /* of the plan, and without any recomputation */
  const char *planner;                        /* the planner that made the plan; a constant */
  const char *variant;                        /* of the graph, "base" or another; a constant */
  uint64_t stored_saved;                      /* bytes that parameters in quantised types (store) save */
  uint64_t on_disk;                           /* bytes of the frozen weights that stay in the model's file */
  uint64_t spilled;                           /* bytes of the session's own file (options.disk) */
  uint64_t disk_read;                         /* bytes read from both files so far */
  uint64_t disk_written;                      /* bytes written to its own file so far */
  uint64_t disk_step_read, disk_step_written; /* of its own file, as planned for a step */
  double disk_waited;                         /* seconds that kernels waited for them */
  /* Bytes that all processes of a pipeline reach (`pipeline_way` roundpipe): parameters, states, and values
   * between processes. Each process counts an equal part of them in the numbers above. 0: nothing is
   * shared. */
  uint64_t shared;
} neap_memory;
void neap_session_memory(const neap_session *session, neap_memory *memory);

typedef enum neap_variable_kind {
  NEAP_VARIABLE_PARAMETER,
  NEAP_VARIABLE_STATE, /* of the optimizer, or neap_state */
  NEAP_VARIABLE_RUNNING_STATISTIC,
  NEAP_VARIABLE_POSITIONS /* of a sparse parameter: 1 where it has a value, else 0 */
} neap_variable_kind;

/* A parameter, optimizer state or running statistic, in graph order; data is f32, in row-major order. Sparse
 * ones and their states are read as dense tensors; writing takes only the values at their positions. */
typedef struct neap_variable {
  const char *name; /* borrowed from the session */
  neap_variable_kind kind;
  int rank;
  int64_t dims[NEAP_MAX_RANK], elements;
  neap_dtype dtype; /* type in memory; values are read and written as f32 */
  bool frozen;      /* a parameter that no step changes */
} neap_variable;
int32_t neap_session_variable_count(const neap_session *session);
neap_status neap_session_variable(const neap_session *session, int32_t index, neap_variable *variable);
neap_status neap_session_read(const neap_session *session, int32_t index, float *data);
neap_status neap_session_write(neap_session *session, int32_t index, const float *data);

/* Gives an output by name (neap_output): its shape, and its elements as f32 in row-major order. Call it after
 * an evaluation or a prediction and before the next step, digest, save or load. `shape` and `data` may be
 * NULL; shapes are known at any time. NEAP_OVER_BUDGET: in a training session, it does not fit into the
 * arena. */
neap_status neap_session_output(const neap_session *session, const char *name, neap_variable *shape,
                                float *data);

/* Computes SHA-256, as hexadecimal, over all variables, f32 row-major. */
neap_status neap_session_digest(neap_session *session, char digest[65]);

/* Writes all variables as safetensors, with the number of steps done, completely or not at all; or reads them
 * back, so that training with the same seed and options continues with the same bits. Reading matches names
 * and shapes: the file must have every parameter, and every running statistic if the session only predicts.
 * Other states may be missing: they keep their values, and averages become those of the parameters. A session
 * that only predicts takes averages instead of parameters if the file has them. A file that does not match
 * changes nothing; a file that cannot be read to its end leaves what was read. */
neap_status neap_session_save(neap_session *session, const char *path);
neap_status neap_session_load(neap_session *session, const char *path);

/* The findings of neap_session_initialise. Texts live as long as the session. */
typedef struct neap_initialisation {
  int32_t taken; /* parameters and running statistics that took the file's values */
  int32_t missing_count, reshaped_count, unused_count;
  const char *const *missing;  /* those that the file does not have */
  const char *const *reshaped; /* of another shape there: "linear1.weight [5, 512] (fc.weight [1000, 512])" */
  const char *const *unused;   /* tensors of the file that are not used, by their names there */
} neap_initialisation;

/* Takes first values of parameters and running statistics from a file of another program or model: those that
 * match by name and shape; the others keep their first values. `path`: a file of safetensors; NAME.json, an
 * index with an object "weight_map" of tensors and files in the same folder; or a folder with
 * model.safetensors.index.json or model.safetensors. F32, BF16 and F16 are taken.
 *
 * `map`: rows "FROM=TO" separated by commas, applied one after the other to each name of the file. The text
 * that each * or ? of FROM matched (a * as little as it can) replaces those of TO, in their order.
 * "bn*.weight=norm*.gamma". NULL: names do not change.
 *
 * Without a map, a single file that has all of the model's parameters is read as by neap_session_load, with
 * optimizer states and steps. `report` may be NULL. NEAP_BAD_FORMAT: nothing matches. A failure changes
 * nothing, unless the file cannot be read to its end. */
neap_status neap_session_initialise(neap_session *session, const char *path, const char *map,
                                    neap_initialisation *report);

/* Loads several files of the same model, as neap_session_load does: parameters and running statistics become
 * the means over the files, the rest comes from the first. NEAP_UNSUPPORTED: there are sparse parameters, or
 * averages. */
neap_status neap_session_load_mean(neap_session *session, const char *const *paths, int32_t count);

/* ---- Plan a network's step ---- */

/* Makes the training step of a graph as a session would run it: real layouts, bytes and costs. For AUTO it is
 * the base variant. */
neap_status neap_step_from_graph(const neap_graph *graph, const neap_session_options *options,
                                 neap_step **step);

/* Gives the plan that a session with these options would run, and its step, in the variant that is better
 * within the budget; the step is named "GRAPH+VARIANT". A budget given as a fraction is a share of what the
 * base needs to keep everything. NEAP_OVER_BUDGET: `*smallest` is set as by neap_plan_make. */
neap_status neap_plan_graph(const neap_graph *graph, const neap_session_options *options, uint64_t *smallest,
                            neap_step **step, neap_plan **plan);

/* ---- How fast it is ---- */

/* The best speed of this machine on this number of threads. */
typedef struct neap_speed {
  int threads;
  double f32_flops;    /* multiply-adds of f32, two FLOPs each, a second */
  double bf16_flops;   /* dot products of bf16; 0: no instruction for them */
  double memory_bytes; /* bytes a second that a copy in main memory reads and writes; */
  double cache_bytes;  /* and in the caches that each core has for itself */
  double disk_bytes; /* from the disk of the user's cache directory, past the system's cache; 0: not known; */
  double disk_read_in_turn;  /* the same, and to it, where each read follows a write and each write a read; */
  double disk_write_in_turn; /* so activations are stored and brought back */
} neap_speed;

/* Measures speeds with one thread and with this number (0: all cores), in some tenths of a second, and stores
 * both in the user's cache directory. From then on NEAP_COSTS_ROOFLINE uses these speeds on this machine with
 * as many threads, so another plan may be the cheapest; its bits are the same. Succeeds if the cache cannot
 * be written. Run it on an idle machine: other programs reduce the speed. */
neap_status neap_measure_speed(int threads, neap_speed *one, neap_speed *all);
/* Gives the processor's own name, as the system tells it. */
void neap_processor_name(char *name, size_t size);

/* Kernels of a step, taken together. */
typedef struct neap_kernels {
  const char *op;       /* their operator */
  const char *operands; /* the types and shapes of all of them; NULL: any */
  int64_t count;        /* in a step */
  double seconds;       /* of all together, from the median of each */
  double flops, bytes;  /* that they must do at least */
  double limit_seconds; /* the lower bound: for each kernel the larger of FLOPs and bytes by the machine's
                           speeds */
} neap_kernels;

typedef struct neap_step_times {
  int64_t steps;         /* number of steps timed */
  double step_seconds;   /* the median */
  double kernel_seconds; /* the sum over the kernels of a step, */
  double limit_seconds;  /* and that of their limits */
  int32_t kind_count, operator_count;
  const neap_kernels *kinds;     /* kernels of one operator, operands and attributes; the slowest first */
  const neap_kernels *operators; /* kernels of one operator, in the same order */
} neap_step_times;

/* Trains a session for some steps without changing its inputs, and reports where the time goes. `steps`: the
 * number timed, after two that warm up; 0: as many as fit two seconds, at least 3 and at most 100. Copies
 * between places of tensors in memory count as kernels. Free `*times` with neap_step_times_free. */
neap_status neap_session_time_steps(neap_session *session, const neap_speed *speed, float learning_rate,
                                    int64_t steps, neap_step_times **times);
void neap_step_times_free(neap_step_times *times);

/* A ready-made model, timed on random inputs. */
typedef struct neap_bench_options {
  const char *model;
  const neap_model *opened; /* the model, if the caller has it open; NULL: it is opened by its name */
  neap_model_options shape;
  neap_session_options session; /* its budget counts, too; NEAP_BUDGET_MAX recomputes nothing */
  int64_t steps;                /* 0: as in neap_session_time_steps */
} neap_bench_options;

typedef struct neap_bench_result {
  const char *records; /* the units of a batch: "images", "sequences", "records" or "pairs"; a constant */
  int64_t batch, parameters;
  neap_memory memory;
  uint64_t smallest_budget; /* with NEAP_OVER_BUDGET: a budget that suffices */
  neap_step_times *times;   /* freed with neap_step_times_free */
} neap_bench_result;

neap_status neap_bench(const neap_bench_options *options, const neap_speed *speed, neap_bench_result *result);

#ifdef __cplusplus
}
#endif

#endif
