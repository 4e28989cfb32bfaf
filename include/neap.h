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
 *  10. How fast it is     this machine, and the kernels of a step beside what it could do
 *
 * Ownership: what a function gives through its last parameter belongs to the caller and goes back through the
 * matching *_free, which takes NULL too; the other calls do not, where nothing else is said. On failure that
 * parameter is left as it was and nothing leaks.
 * NULL: an object or a result that is NULL is refused with NEAP_INVALID_ARGUMENT, by calls without a status
 * as nothing to do. What a comment or a zeroed struct gives a default may be NULL. Threads: different objects
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
/* NEAP_VERSION of the library that is linked, which may be another than that of the header. */
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

/* What the status means, in a few words. Never NULL. */
const char *neap_status_text(neap_status status);
/* What failed last in this thread: what, where, what to do about it. Valid until the next failure. */
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

typedef struct neap_graph neap_graph;     /* what to compute; immutable, without data */
typedef struct neap_builder neap_builder; /* makes a graph */

/* A tensor of the graph under construction. Negative after a failure; every call takes a failed tensor and
 * gives one back, so only neap_builder_finish has to be checked. */
typedef int32_t neap_tensor;

/* BIT: 8 a byte. BF16 and F16 are stored in 16 bits and computed with in f32. U16 and BLOCK (an i32 for every
 * 65536 elements) store the positions of sparse values; they are internal. Q8_0 to Q6_K are GGUF's: blocks of
 * 32 numbers (Q4_K, Q5_K, Q6_K: 256) of 4 to 8 bits that share a scale. NF4 is bitsandbytes': 64 numbers of 4
 * bits, which stand in a table, and an f32 that they are multiplied by; I8, too: 64 numbers of 8 bits, and
 * the largest size of their row, which 127 means. Frozen parameters can be stored so. */
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

/* NULL when out of memory; the other calls take NULL. */
neap_builder *neap_builder_create(const char *name);
void neap_builder_free(neap_builder *builder);

/* The shape of a tensor: its number of dimensions; 0 after a failure, and `dims` is left as it was. */
int neap_shape(const neap_builder *b, neap_tensor x, int64_t dims[NEAP_MAX_RANK]);

/* What the caller fills before each step: [dims...] of f32, i32 or u8; it keeps what was filled in. */
neap_tensor neap_input(neap_builder *b, const char *name, neap_dtype dtype, int rank, const int64_t *dims);

/* How a parameter begins. HE: He et al. 2015, normal, by fan in for [outputs, inputs], by fan out for
 * [K, C, R, S]. NORMAL: deviation `scale` (0: 1). UNIFORM: in [-scale, scale) (0: 1). */
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
  bool frozen;      /* training leaves it as it is: no gradient, no optimizer state */
  neap_dtype dtype; /* F32, BF16 or F16 */
} neap_parameter_options;

/* A parameter for any number of operators: [dims...]. Its name is its own, and gets no scope. */
neap_tensor neap_parameter(neap_builder *b, const char *name, int rank, const int64_t *dims,
                           neap_parameter_options options);

/* Whether the parameters that layers make from here on are frozen. Running statistics move all the same. */
void neap_freeze(neap_builder *b, bool frozen);

/* Names a tensor of real numbers that is read after evaluation and prediction (neap_session_output). */
void neap_output(neap_builder *b, const char *name, neap_tensor x);

/* Ends construction: the graph of `loss`, a tensor of one element, made of any operators (the sum of several
 * losses, too); or, where it is negative, a graph that only predicts and has outputs. Fails with the first
 * thing that went wrong in any call. The builder is empty afterwards and only good for neap_builder_free. */
neap_status neap_builder_finish(neap_builder *b, neap_tensor loss, neap_graph **graph);
void neap_graph_free(neap_graph *graph);

const char *neap_graph_name(const neap_graph *graph);
int64_t neap_graph_batch(const neap_graph *graph);      /* the first dimension of its first input */
int64_t neap_graph_parameters(const neap_graph *graph); /* elements that training changes by gradient */

#include "neap_operators.h"

/* ---- 3. Ready-made networks ---- */

/* What stands on the stack of a language model of a file. */
typedef enum neap_head {
  NEAP_HEAD_USUAL,   /* the file's own; where it has none, that of classes */
  NEAP_HEAD_TOKENS,  /* a logit for each token of the vocabulary, at each token */
  NEAP_HEAD_CLASSES, /* of encoders: `classes` logits of a text, "tokens" [N, T] with -1 behind its end */
  NEAP_HEAD_SENTENCE /* of encoders: the vector of such a text, the output "sentence"; there is no loss */
} neap_head;

typedef struct neap_model_options {
  int64_t batch; /* images or sequences; 0: the model's usual one */
  int64_t
      image[3]; /* channels, height, width; of vectors and rows of numbers their elements; zeros: the usual */
  int64_t classes;       /* of tokens: the vocabulary; 0: the model's usual one */
  float smoothing;       /* of the labels, while training; a held-out loss has none */
  int64_t length;        /* of sequences; 0: the model's usual one */
  float dropout;         /* of networks of sequences */
  int64_t source_length; /* of the first of a pair of sequences; 0: the length */
  int64_t decode;  /* above 0: the graph that decodes one token at a time after `decode` tokens at most before
                      it */
  bool regression; /* of images, rows of numbers and texts: `classes` values in place of classes, "label" [N,
                      classes] of f32; the loss is the mean squared error, the output "prediction" */
  int64_t window;  /* of transformers of one stack: a token sees the last `window` tokens, itself among them;
                      0: all */
  neap_head head;  /* of encoders of files: what they are to tell */
  bool packed;     /* of models that tell the next token by transformers of one stack: a row holds several
                      sequences, which do not see each other; an input "place" [N, T] of i32, 0, 1, ... from the
                      first token of each on */
} neap_model_options;

/* A network by name, as neap_model_at lists them: "wrn-28-2", "resnet50", "preresnet-1001", ... Its inputs
 * are "image" [N, C, H, W] and "label" [N], or [N, H', W'] where it classifies pixels; those are the centre
 * of the image where there are fewer; of a model of sequences "tokens" [N, T] of i32, or "sequence" [N, T,
 * K], and "label" [N, T]; of pairs of sequences "source" [N, S] of i32 besides, with -1 behind its end, and
 * "tokens" are the target's, one place later than its labels. `options` may be NULL.
 *
 * The graph that decodes has the parameters of the one that trains, at the same `length`, and no loss; inputs
 * "tokens" [N, 1], and of transformers "position" [1] of i32, how many tokens went before, and "length" [N],
 * one more; the output "logits" [N, 1, V]. What those tokens left stands in states (neap_state). */
neap_status neap_model_build(const char *name, const neap_model_options *options, neap_graph **graph);

/* ---- 4. Train it, predict with it ----
 *
 * To train: neap_session_create; before each neap_session_step fill what neap_session_input gives; then
 * neap_session_save. To predict, here or in another program: build the same network, of any batch, and a
 * session with `.predict`; neap_session_load; fill the inputs; neap_session_predict; neap_session_output. */

/* Budgets. A number of bytes; or one of these. */
#define NEAP_BUDGET_MAX UINT64_MAX    /* keep everything */
#define NEAP_BUDGET_MIN ((uint64_t)0) /* the least that can be met */
/* A process budget: what the process takes when the session is made, and what neap_memory_available says
 * then. */
#define NEAP_BUDGET_AVAILABLE (UINT64_MAX - 1)

/* How much memory a process may still take. */
typedef struct neap_available {
  uint64_t free_bytes;   /* the least that the machine, the control groups and the process's limits leave */
  uint64_t margin_bytes; /* a tenth of it, which is left to others */
  uint64_t bytes;        /* the rest */
  char limit[128];       /* which of them it is: "the machine", "the control group /x", "ulimit -v" */
} neap_available;
/* NEAP_UNSUPPORTED: the system does not say (Linux does). */
neap_status neap_memory_available(neap_available *out);

/* Reads "96MiB" or "96M", "0.5GB", "100663296", "max", "min", "available" (-> bytes), "80%" (-> fraction 0.8,
 * bytes 0). */
neap_status neap_budget_parse(const char *text, uint64_t *bytes, double *fraction);
/* The budget that is such a share of `everything` bytes: a number of bytes, at least 1. */
uint64_t neap_budget_share(double fraction, uint64_t everything);

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

/* Where the search for a plan stands. */
typedef struct neap_plan_progress {
  double seconds; /* since planning began */
  double cost;    /* of the best schedule so far */
  bool fits;      /* it keeps the budget */
} neap_plan_progress;
typedef void neap_plan_progress_function(const neap_plan_progress *progress, void *context);

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

/* ---- 5. Train it whole ---- */

#include "neap_train.h"

/* ---- 6. Plan without data; 7. Layout ---- */

#include "neap_plan.h"

/* ---- 8. What there is ---- */

typedef struct neap_row {
  const char *name, *summary;
  const char *source;       /* the paper, or NULL */
  const char *graphs;       /* of a planner: which it takes */
  const char *promise;      /* of a planner: what holds for its plans, beyond being valid */
  int32_t auto_limit;       /* of a planner: "auto" asks it for steps of at most this many nodes */
  const char *const *types; /* of an operator: the types of real numbers that it takes, and then NULL */
} neap_row;
/* Row `index` of each table; false past its end. */
bool neap_planner_at(int32_t index, neap_row *row);
bool neap_operator_at(int32_t index, neap_row *row);
bool neap_optimizer_at(int32_t index, neap_row *row); /* in the order of neap_optimizer */
bool neap_model_at(int32_t index, neap_row *row);
/* Whether a model of this name is a file's: its parameters begin with what that has. */
bool neap_model_is_file(const char *name);
/* Whether it is one whose file has a language model of others, or a classifier of texts or images as these
 * are kept: what `neap finetune` begins with. */
bool neap_model_is_language(const char *name);
bool neap_data_at(int32_t index, neap_row *row); /* sources of data; name: how one is named, "cifar10:DIR" */

/* What an operator is given besides tensors. */
typedef struct neap_attribute {
  char name[32];
  const char *type; /* "integer", "real" or "flag" */
  int32_t count;    /* of an array; else 1 */
  double usual;     /* what 0 means; 0: itself, or the operator's call in this header says what */
} neap_attribute;
/* Attribute `index` of row `op` of neap_operator_at; false past the last. */
bool neap_attribute_at(int32_t op, int32_t index, neap_attribute *attribute);

/* ---- 9. Files ---- */

/* Whole, under a temporary name that then takes the place of `path`, or not at all; a device, a pipe and what
 * standard output goes to as they are. */
neap_status neap_write_file(const char *path, const char *bytes, size_t count);

/* ---- 10. How fast it is ---- */

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
