/* Neap: train neural networks inside a memory budget.
 *
 * The user says how many bytes training may use: parameters, gradients, optimizer state, activations,
 * workspaces, all of it. Neap finds the fastest way to train exactly that model inside those bytes, proves
 * the peak before the first step and never exceeds it. Every budget gives the same bits.
 *
 *   1. Errors             every function that can fail returns neap_status
 *   2. Build a network    neap_builder: a tensor is an integer, an operator is a call (neap_operators.h)
 *   3. Ready-made ones    neap_model_build("wrn-28-2", ...)
 *   4. Train it, predict  neap_session: step by step, over your own data
 *   5. Train it whole     neap_train: data sets, epochs, checkpoints, metrics (neap_train.h, neap_settings.h)
 *   6. Plan without data  neap_step, neap_plan: any graph file in, a schedule and offsets out (neap_plan.h)
 *   7. Layout             neap_layout_solve: offsets for any set of buffers (neap_plan.h)
 *   8. What there is      tables of operators, planners and models
 *   9. Files              written as Neap writes its own
 *  10. How fast it is     this machine, and the kernels of a step compared with what it could do
 *
 * Ownership: an object that a function gives through its last parameter belongs to the caller and is freed by
 * the matching *_free, which also accepts NULL; other calls do not, unless their comment says so. On failure
 * that parameter is unchanged and nothing leaks.
 * NULL: a NULL object or result is refused with NEAP_INVALID_ARGUMENT; calls without a status do nothing.
 * Parameters with a default, by their comment or in a zeroed struct, may be NULL. Threads: different objects
 * may be used from different threads; one object from one thread at a time. */
#ifndef NEAP_H
#define NEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NEAP_VERSION "0.2.0"
/* Returns NEAP_VERSION of the linked library, which may differ from that of the header. */
const char *neap_version(void);

/* ---- 1. Errors ---- */

#define NEAP_STATUS_LIST(X)                                                                                  \
  X(OK, "done")                                                                                              \
  X(INVALID_ARGUMENT, "an argument is not usable")                                                           \
  X(OUT_OF_MEMORY, "the system has no memory left")                                                          \
  X(TOO_LARGE, "a size does not fit its type")                                                               \
  X(IO_FAILED, "a file could not be read or written")                                                        \
  X(BAD_FORMAT, "a file's content is not what its format asks for")                                          \
  X(OVER_BUDGET, "the budget cannot be met")                                                                 \
  X(INVALID_PLAN, "the plan or layout breaks a rule")                                                        \
  X(UNSUPPORTED, "this build or machine cannot do that")                                                     \
  X(INTERRUPTED, "stopped on request")                                                                       \
  X(INTERNAL, "a fault in Neap")                                                                             \
  X(DIVERGED, "training has come to numbers that are not finite")

typedef enum neap_status {
#define NEAP_STATUS_ENUM(name, text) NEAP_##name,
  NEAP_STATUS_LIST(NEAP_STATUS_ENUM)
#undef NEAP_STATUS_ENUM
} neap_status;

/* Returns a short text for a status. Never NULL. */
const char *neap_status_text(neap_status status);
/* Returns the message of the last failure in this thread: what failed, where, and what to do about it. Valid
 * until the next failure. */
const char *neap_error_message(void);

/* ---- 2. Build a network ----
 *
 * neap_builder_create; neap_input for what changes from step to step; operators, each of which takes tensors
 * and gives one; neap_output for what is to be read; neap_builder_finish with the loss. Dimensions are in
 * row-major order, the batch first. Axes count from 0; negative ones from the end, where -1 is the last.
 *
 * Parameters and running statistics have names, by which they are saved, loaded and grouped. Operators are
 * counted by kind, those of a scope apart: "conv1.weight", "block2.linear1.bias". Kinds with parameters:
 * conv, conv_transposed, linear (weight, bias); norm: batch norm (gamma, beta, running_mean,
 * running_variance); row_norm: layer, RMS and group norm (gamma, beta); embedding (weight); lstm, gru
 * (weight_ih, weight_hh, bias_ih, bias_hh). */

typedef struct neap_graph neap_graph;     /* a computation; immutable, without data */
typedef struct neap_builder neap_builder; /* makes a graph */

/* A tensor of the graph under construction; negative after a failure. Every call accepts a failed tensor and
 * then returns one, so only neap_builder_finish has to be checked. */
typedef int32_t neap_tensor;

/* BIT: 8 a byte. BF16 and F16 are stored in 16 bits and computed with in f32. U16 and BLOCK (an i32 for every
 * 65536 elements) store the positions of sparse values; they are internal. Q8_0 to Q6_K are GGUF's: blocks of
 * 32 numbers (Q4_K, Q5_K, Q6_K: 256) of 4 to 8 bits that share a scale. NF4 is bitsandbytes': blocks of 64
 * indices of 4 bits into a table of numbers, with an f32 that multiplies them. I8 too: 64 numbers of 8 bits
 * with the largest absolute value of their row, which 127 stands for. Frozen parameters can be stored so. */
typedef enum neap_dtype {
  NEAP_F32,
  NEAP_I32,
  NEAP_U8,
  NEAP_F64,
  NEAP_BIT,
  NEAP_BF16,
  NEAP_F16,
  NEAP_U16,
  NEAP_BLOCK,
  NEAP_Q8_0,
  NEAP_Q4_0,
  NEAP_Q4_1,
  NEAP_Q5_0,
  NEAP_Q5_1,
  NEAP_Q4_K,
  NEAP_Q5_K,
  NEAP_Q6_K,
  NEAP_NF4,
  NEAP_I8
} neap_dtype;

enum { NEAP_MAX_RANK = 8 };

/* Creates a builder; NULL if memory runs out. The other calls take NULL. */
neap_builder *neap_builder_create(const char *name);
void neap_builder_free(neap_builder *builder);

/* Returns a tensor's number of dimensions and writes them to `dims`; after a failure returns 0 and leaves
 * `dims` unchanged. */
int neap_shape(const neap_builder *b, neap_tensor x, int64_t dims[NEAP_MAX_RANK]);

/* Adds an input [dims...] of f32, i32 or u8, which the caller fills before each step; a step leaves its
 * content unchanged. */
neap_tensor neap_input(neap_builder *b, const char *name, neap_dtype dtype, int rank, const int64_t *dims);

/* The first values of a parameter. HE: He et al. 2015, normal, by fan in for [outputs, inputs], by fan out
 * for [K, C, R, S]. NORMAL: deviation `scale` (0: 1). UNIFORM: in [-scale, scale) (0: 1). */
typedef enum neap_initial {
  NEAP_INITIAL_ZERO,
  NEAP_INITIAL_ONE,
  NEAP_INITIAL_HE,
  NEAP_INITIAL_NORMAL,
  NEAP_INITIAL_UNIFORM
} neap_initial;

typedef struct neap_parameter_options {
  neap_initial initial;
  float scale;
  bool frozen;      /* training does not change it: no gradient, no optimizer state */
  neap_dtype dtype; /* F32, BF16 or F16 */
} neap_parameter_options;

/* Adds a parameter [dims...] that any number of operators may use. Its name is used as given, without
 * scope. */
neap_tensor neap_parameter(neap_builder *b, const char *name, int rank, const int64_t *dims,
                           neap_parameter_options options);

/* Freezes the parameters of all layers made from here on, or ends that. Running statistics still move. */
void neap_freeze(neap_builder *b, bool frozen);

/* Names a tensor of real numbers, which can then be read after evaluation and prediction
 * (neap_session_output). */
void neap_output(neap_builder *b, const char *name, neap_tensor x);

/* Ends construction and gives the graph of `loss`, a tensor of one element made by any operators (also a sum
 * of several losses). If `loss` is negative, the graph has outputs and only predicts. Fails with the first
 * failure of any call. The builder is then empty and can only be freed by neap_builder_free. */
neap_status neap_builder_finish(neap_builder *b, neap_tensor loss, neap_graph **graph);
void neap_graph_free(neap_graph *graph);

const char *neap_graph_name(const neap_graph *graph);
int64_t neap_graph_batch(const neap_graph *graph);      /* the first dimension of its first input */
int64_t neap_graph_parameters(const neap_graph *graph); /* trained elements */

#include "neap_operators.h"

/* ---- 3. Ready-made networks ---- */

/* The head on top of the layers of a language model from a file. */
typedef enum neap_head {
  NEAP_HEAD_USUAL,   /* that of the file; if it has none, CLASSES */
  NEAP_HEAD_TOKENS,  /* a logit for each token of the vocabulary, at each token */
  NEAP_HEAD_CLASSES, /* of encoders: `classes` logits of a text, "tokens" [N, T] padded with -1 */
  NEAP_HEAD_SENTENCE /* of encoders: the vector of such a text, the output "sentence"; without a loss */
} neap_head;

typedef struct neap_model_options {
  int64_t batch;    /* images or sequences; 0: the model's usual one */
  int64_t image[3]; /* channels, height, width; of vectors and rows of numbers, their elements; zeros: the
                       usual */
  int64_t classes;  /* for tokens: the vocabulary; 0: the model's usual one */
  float smoothing;  /* label smoothing in training; a held-out loss has none */
  int64_t length;   /* of sequences; 0: the model's usual one */
  float dropout;    /* of networks of sequences */
  int64_t source_length; /* of the first of a pair of sequences; 0: the length */
  int64_t decode; /* above 0: gives the graph that decodes one token at a time, after at most `decode` earlier
                     tokens */
  bool regression; /* of images, rows of numbers and texts: `classes` values instead of classes, "label" [N,
                      classes] of f32; the loss is the mean squared error, the output "prediction" */
  int64_t window;  /* of transformers of one stack: a token sees the last `window` tokens, itself included; 0:
                      all */
  neap_head head;  /* of encoders of files */
  bool packed;     /* of transformers of one stack that predict the next token: a row holds several sequences,
                      which do not see each other; an input "place" [N, T] of i32 counts 0, 1, ... from the first
                      token of each */
} neap_model_options;

/* Builds a network by name, as neap_model_at lists them: "wrn-28-2", "resnet50", "preresnet-1001", ...
 * Inputs: "image" [N, C, H, W] and "label" [N]; to classify pixels, "label" [N, H', W'], the centre of the
 * image if it is smaller. Models of sequences: "tokens" [N, T] of i32, or "sequence" [N, T, K], and "label"
 * [N, T]. Pairs of sequences: also "source" [N, S] of i32, padded with -1; "tokens" are those of the target,
 * one place later than its labels. `options` may be NULL.
 *
 * The graph that decodes has the parameters of the one that trains, at the same `length`, and no loss.
 * Inputs: "tokens" [N, 1]; for transformers also "position" [1] of i32, the number of earlier tokens, and
 * "length" [N], one more. The output is "logits" [N, 1, V]. Earlier tokens are kept as states
 * (neap_state). */
neap_status neap_model_build(const char *name, const neap_model_options *options, neap_graph **graph);

/* ---- 4. Train it, predict with it ----
 *
 * To train: neap_session_create; before each neap_session_step fill what neap_session_input gives; then
 * neap_session_save. To predict, here or in another program: build the same network, of any batch, and a
 * session with `.predict`; neap_session_load; fill the inputs; neap_session_predict; neap_session_output. */

/* Budgets: a number of bytes, or one of these. */
#define NEAP_BUDGET_MAX UINT64_MAX    /* keep everything */
#define NEAP_BUDGET_MIN ((uint64_t)0) /* the least that can be met */
/* A budget for the process: what it uses when the session is created, plus neap_memory_available at that
 * time. */
#define NEAP_BUDGET_AVAILABLE (UINT64_MAX - 1)

/* The memory that a process may still take. */
typedef struct neap_available {
  uint64_t free_bytes;   /* the least that the machine, the control groups and the process's limits allow */
  uint64_t margin_bytes; /* a tenth of it, left to other processes */
  uint64_t bytes;        /* the rest */
  char limit[128];       /* the limit that is the least: "the machine", "the control group /x", "ulimit -v" */
} neap_available;
/* Gives the available memory. NEAP_UNSUPPORTED: the system does not tell it (Linux does). */
neap_status neap_memory_available(neap_available *out);

/* Reads "96MiB" or "96M", "0.5GB", "100663296", "max", "min", "available" (-> bytes), "80%" (-> fraction 0.8,
 * bytes 0). */
neap_status neap_budget_parse(const char *text, uint64_t *bytes, double *fraction);
/* Returns the budget that is this share of `everything` bytes; at least 1. */
uint64_t neap_budget_share(double fraction, uint64_t everything);

/* Update rules, as PyTorch has them; neap_optimizer_at lists them, with their papers. ADAMW has decoupled
 * decay, ADAM decay in the gradient. */
typedef enum neap_optimizer { NEAP_SGD, NEAP_ADAMW, NEAP_ADAM, NEAP_RMSPROP, NEAP_LION } neap_optimizer;

/* A group of parameters with its own learning rate and weight decay: those whose names match a pattern of the
 * shell ("*.bias", "*norm*"). If several groups match, the first counts; a group may match nothing. */
typedef struct neap_parameter_group {
  const char *pattern;
  float rate; /* factor of the learning rate */
  float weight_decay;
} neap_parameter_group;
typedef enum neap_convolution { NEAP_CONV_AUTO, NEAP_CONV_DIRECT, NEAP_CONV_WINOGRAD } neap_convolution;
typedef enum neap_backend { NEAP_CPU, NEAP_REFERENCE } neap_backend; /* fast f32; plain C in double */
/* Costs of nodes: computed from FLOPs and bytes alone, or timed here and kept in the user's cache
 * directory. */
typedef enum neap_costs { NEAP_COSTS_ROOFLINE, NEAP_COSTS_MEASURED } neap_costs;

/* Progress of the search for a plan. */
typedef struct neap_plan_progress {
  double seconds; /* since planning began */
  double cost;    /* of the best schedule so far */
  bool fits;      /* it fits the budget */
} neap_plan_progress;
typedef void neap_plan_progress_function(const neap_plan_progress *progress, void *context);

/* Graphs that compute the same bits and differ in what they keep for the gradient of ReLU: its output, or one
 * bit per element if nothing else needs the output. AUTO plans each and takes the one with the cheaper plan,
 * or for NEAP_BUDGET_MIN the one that needs less; BASE if they are equal. */
typedef enum neap_variant { NEAP_VARIANT_AUTO, NEAP_VARIANT_BASE, NEAP_VARIANT_MASK } neap_variant;

/* Where frozen matrices of a model from a GGUF file or a Hugging Face folder are kept while adapters are
 * trained (session options `lora`): in the session's memory, or in the model's file, from which each weight
 * is read whenever the plan needs it. Weights that bitsandbytes packed stay in memory. The bits are the same.
 * AUTO: in memory if that meets the budget; for NEAP_BUDGET_MIN, whichever needs less. */
typedef enum neap_base_on_disk { NEAP_DISK_AUTO, NEAP_DISK_ALWAYS, NEAP_DISK_NEVER } neap_base_on_disk;

/* What several processes (session options `collective`) divide among them: the states of the optimizer; or
 * with ALL also large parameters, which each process gathers whenever its plan reads one. All processes then
 * run the plan of the first. The bits are the same. NEAP_INVALID_ARGUMENT: ALL in a single process. */
typedef enum neap_shard { NEAP_SHARD_STATES, NEAP_SHARD_ALL } neap_shard;

/* How a session stores which elements of sparse parameters have values: one bit per element, or two bytes per
 * value (its index in a block of 65536 elements) and four per block. SMALLER takes the one with fewer bytes,
 * by shapes and density alone: bits for densities above about 1/16. All give the same bits of weights. */
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
   * predicts if its file has them. In [0, 1). NEAP_UNSUPPORTED: parameters are of 16 bits, or sparse. */
  float ema;
  const neap_parameter_group *groups; /* borrowed until the session is made */
  int group_count;
  neap_convolution convolution;
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
  neap_shard shard;
} neap_session_options;

typedef struct neap_session neap_session;

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
 * it. `result` may be NULL. */
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
  uint64_t keep_all;      /* what keeping everything needs */
  uint64_t parameters, states, inputs; /* the parts of `resident`; states include running statistics */
  double cost, base_cost;              /* of the plan, and without any recomputation */
  const char *planner;                 /* the planner that made the plan; a constant */
  const char *variant;                 /* of the graph, "base" or another; a constant */
  uint64_t stored_saved;               /* bytes that parameters in quantised types (store) save */
  uint64_t on_disk;                    /* bytes of the frozen weights that stay in the model's file */
  uint64_t disk_read;                  /* bytes read from that file so far */
  double disk_waited;                  /* seconds that kernels waited for them */
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
/* Loads the values of a file into the session of a model that is this file ("onnx:FILE", or "FILE.onnx"),
 * built with these options; leaves a ready-made model as it was drawn. */
neap_status neap_model_load(const char *name, const neap_model_options *options, neap_session *session);

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

/* ---- 5. Train it whole ---- */

#include "neap_train.h"

/* ---- 6. Plan without data; 7. Layout ---- */

#include "neap_plan.h"

/* ---- 8. What there is ---- */

typedef struct neap_row {
  const char *name, *summary;
  const char *source;       /* the paper, or NULL */
  const char *graphs;       /* of a planner: the graphs that it takes */
  const char *promise;      /* of a planner: what it guarantees for its plans, apart from being valid */
  int32_t auto_limit;       /* of a planner: "auto" uses it for steps of at most this many nodes */
  const char *const *types; /* of an operator: the types of real numbers that it takes, ended by NULL */
} neap_row;
/* Gives row `index` of a table; returns false past its end. */
bool neap_planner_at(int32_t index, neap_row *row);
bool neap_operator_at(int32_t index, neap_row *row);
bool neap_optimizer_at(int32_t index, neap_row *row); /* in the order of neap_optimizer */
bool neap_model_at(int32_t index, neap_row *row);
/* Returns true if a model of this name is a file, which has the first values of its parameters. */
bool neap_model_is_file(const char *name);
/* Returns true if that file has a language model of another program, or a classifier of texts or images in
 * such a format: a model that `neap finetune` can begin with. */
bool neap_model_is_language(const char *name);
bool neap_data_at(int32_t index, neap_row *row); /* sources of data; name: their form, "cifar10:DIR" */

/* An argument of an operator that is not a tensor. */
typedef struct neap_attribute {
  char name[32];
  const char *type; /* "integer", "real" or "flag" */
  int32_t count;    /* of an array; else 1 */
  double usual; /* the meaning of 0; if this is 0: itself, or as the operator's call in this header says */
} neap_attribute;
/* Gives attribute `index` of row `op` of neap_operator_at; returns false past the last. */
bool neap_attribute_at(int32_t op, int32_t index, neap_attribute *attribute);

/* ---- 9. Files ---- */

/* Writes a file completely or not at all: under a temporary name that then replaces `path`. Writes directly
 * to a device, a pipe or the target of standard output. */
neap_status neap_write_file(const char *path, const char *bytes, size_t count);

/* ---- 10. How fast it is ---- */

/* The best speed of this machine on this number of threads. */
typedef struct neap_speed {
  int threads;
  double f32_flops;    /* multiply-adds of f32, two FLOPs each, a second */
  double bf16_flops;   /* dot products of bf16; 0: no instruction for them */
  double memory_bytes; /* bytes a second that a copy in main memory reads and writes; */
  double cache_bytes;  /* and in the caches that each core has for itself */
  double disk_bytes; /* from the disk of the user's cache directory, past the system's cache; 0: not known */
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
