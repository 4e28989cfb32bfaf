/* Train a network over a data set: epochs, checkpoints, metrics, evaluation, prediction, export. */
#ifndef NEAP_TRAIN_H
#define NEAP_TRAIN_H

#include "neap_session.h"

#ifdef __cplusplus
extern "C" {
#endif

bool neap_data_at(int32_t index, neap_row *row); /* sources of data; name: how one is named, "cifar10:DIR" */

/* INVERSE_SQRT: the rate after the warm-up is divided by the root of steps / steps of warm-up. EXPONENTIAL:
 * by one factor a step, from `learning_rate` in the first step to `final_learning_rate` in the last. */
typedef enum neap_schedule_kind {
  NEAP_LR_CONSTANT,
  NEAP_LR_STEP,
  NEAP_LR_COSINE,
  NEAP_LR_INVERSE_SQRT,
  NEAP_LR_EXPONENTIAL
} neap_schedule_kind;

typedef struct neap_train_progress {
  const char *records; /* what a batch has: "images", "sequences", "records" or "pairs"; a constant */
  int64_t epoch, epochs, step, steps; /* epochs 0 when `steps` was given; the step just done, from 1 */
  double loss, accuracy; /* of this step; the loss with label smoothing; the accuracy in [0, 1]; -1: labels
                            are values */
  double learning_rate, seconds; /* of this step */
  double gradient_norm;          /* of this step; -1: it was not asked for, or the step was skipped */
  double images_per_second, seconds_left;
  double test_accuracy, test_loss; /* after an epoch that ends here, or the run; -1: not evaluated */
  /* Where labels are values, in their units: mean absolute error, root of the mean squared error, R2; where
   * a record has several, the mean over them. mae -1: not evaluated. */
  double test_mae, test_rmse, test_r2;
  double bits_per_byte; /* of test text, from the test loss; -1: of no text */
  double loss_scale;    /* of the next step, where it is dynamic; else 0 */
  int64_t skipped;      /* updates that it left out so far, in this process */
  int64_t uncounted; /* labels of this step that are none of the classes, where each record has one label */
  const neap_memory *memory;
  /* Before the first step of a resumed run whose steps were computed by other kernels before, on another
   * processor or by another version: the first of those and of the present ones, for people. Its last bits
   * are others than without the stop. Lives as long as the run. NULL: there is nothing to tell. */
  const char *other_kernels;
  const char *combination; /* the techniques that are taken, as in neap_train_result */
  /* Before the first step: a text of the data whose byte-order mark was skipped; NULL: no file has one. */
  const char *marked_file;
  /* Of pairs of sequences: where the longest one is, which sets the memory, "FILE: line N, of M tokens"
   * (NULL: there are no pairs); and how many longer ones than the length that was asked for are left out of
   * the training part, and cut in the other one. */
  const char *longest;
  int64_t skipped_records, cut_records;
  int64_t conversations, rows; /* to train with, in the rows that they share; 0: each has its own */
  const char
      *new_layers; /* that the model's file does not have and that are drawn: "classifier"; NULL: none */
  const neap_initialisation *initialisation; /* before the first step: of `initial`; NULL: it was not given */
  int64_t frozen;                            /* elements of parameters that no step changes */
  const char *const
      *unstored; /* of two dimensions or more, that session.store names and that cannot be in blocks */
  int32_t unstored_count;
  bool augmented; /* records of training are changed at random where their kind can be; see `augment` */
} neap_train_progress;

enum { NEAP_MICRO_BATCH_AUTO = -1, NEAP_REWIRE_OFF = -1 };

/* A value that records of data have. */
typedef struct neap_data_field {
  const char *name;
  neap_dtype dtype;
  int rank;
  int64_t dims[NEAP_MAX_RANK]; /* of a record */
} neap_data_field;

/* Data that the caller's own functions give: in neap_train_options in place of a name. Fields are named as
 * the model's inputs: "image" of u8 (normalised by the training records) or f32 [C, H, W], "features" of f32
 * [K], "sequence" of f32 [T, K]; and "label": i32, a class (of a sequence [T]), or f32 [L], values. */
typedef struct neap_data_source {
  const char *name; /* for messages and checkpoints */
  const neap_data_field *fields;
  int32_t field_count;
  int64_t training_records, test_records, classes; /* of values: how many */
  /* Writes the fields of a record into memory of their size; one that is NULL is not wanted. The same record
   * is always the same. Several threads may call it at once. Not 0: the run ends with NEAP_IO_FAILED. */
  int (*read)(void *context, bool test, int64_t record, void *const *fields);
  void *context;
} neap_data_source;

/* Random crops and flips of pictures, windows of texts. USUAL: ON, but OFF for images:. */
typedef enum neap_augment { NEAP_AUGMENT_USUAL, NEAP_AUGMENT_ON, NEAP_AUGMENT_OFF } neap_augment;

/* What becomes of a conversation that is longer than a sequence. */
typedef enum neap_long_records { NEAP_LONG_CUT, NEAP_LONG_SKIP } neap_long_records;

/* Whether several conversations share a row of tokens, without seeing each other. AUTO: where the model can,
 * unless the run that is resumed began without it. */
typedef enum neap_pack { NEAP_PACK_OFF, NEAP_PACK_ON, NEAP_PACK_AUTO } neap_pack;

typedef struct neap_train_options {
  const char *model, *data;       /* "wrn-28-2"; "cifar10:DIR", see neap_data_at */
  const neap_data_source *source; /* instead of `data`; NULL: that */
  neap_model_options shape; /* zeros for image and classes: those of the data; of "synthetic": the model's
                               usual. Images must be those of the data, at least as many classes */
  neap_session_options session;
  /* Images of a micro-batch, which divide the batch; 0: the batch; NEAP_MICRO_BATCH_AUTO: the most that fit.
   * The session's own number of micro-batches follows from it. */
  int64_t micro_batch;
  /* NEAP_ALLOW_...: takes the techniques of a combination that fits the budget: the first, or the one that
   * costs least (allow_by_time); for the least budget the smallest. */
  unsigned allow;
  bool allow_by_time;
  /* Weights of the classes in the training loss: "balanced", records / (classes * records of the class), over
   * the classes that the training part has; a class without records weighs 0; or a file with a line "NAME
   * WEIGHT" or "NAME,WEIGHT" for each class. NULL: all weigh 1. */
  const char *class_weights;
  /* Not 0: in training each record is mixed with another one of the training part, and so are their labels
   * in the loss: x = share x1 + (1 - share) x2, loss = share loss(y1) + (1 - share) loss(y2). Share and
   * partner are drawn from counters by seed, epoch and record, the share from Beta(mixup, mixup), the partner
   * evenly. An answer is right where it is the label of the larger share. Images lie in memory as f32, not as
   * bytes. NEAP_INVALID_ARGUMENT: records have no class each. */
  float mixup;
  int64_t rewire_every; /* steps until sparse parameters first change places (neap_session_rewire); 0: 100. It
                           is doubled after 1/8, 2/5 and 7/10 of the run, whose last twentieth has none */
  /* One of the two; 0 and 0: one epoch. An epoch has as many steps as there are whole batches of training
   * records: those that are left over, others in each epoch, are left out, or with keep_last make a step
   * whose loss is the mean over them. Its micro-batches differ by at most one record. Pairs of sequences fill
   * their last batches up with records that do not count. Evaluation takes all records. */
  int64_t steps, epochs;
  double learning_rate; /* 0: 0.1; NAN: the optimizer's usual; NEAP_ZERO: 0 */
  neap_schedule_kind schedule;
  double warmup_epochs;
  int64_t warmup_steps; /* instead of epochs, where above 0 */
  /* NEAP_LR_STEP: times factor every step_epochs epochs; 0: thirds of the run, 0.1. A factor of NEAP_ZERO: 0.
   */
  double step_epochs, step_factor;
  double final_learning_rate; /* of NEAP_LR_EXPONENTIAL; above 0 */
  bool no_shuffle, no_evaluation;
  bool keep_last; /* the records of an epoch that fill no batch make a last, short step; see epochs */
  neap_augment augment;
  /* Of conversations: the name of the chat template that makes them texts: "chatml", "llama3", "plain" and
   * others, which the message for an unknown name lists; NULL: the model's, or "chatml". Loss is that of what
   * the assistant writes, with the token that ends its turn, or of all tokens. */
  const char *chat_template;
  bool train_on_prompt;
  neap_long_records long_records;
  neap_pack pack;
  const char *out, *resume; /* checkpoint folders; a process that trains into `out` has it for itself */
  int64_t checkpoint_steps; /* also after each of this number of steps; 0: at the end of an epoch only */
  /* How many epochs' last weights stay in `out`, as epoch-NUMBER.safetensors; 0: none. */
  int64_t keep_epochs;
  /* Of neap_evaluate: it takes the mean of this number of kept weights, the latest; 0: the checkpoint itself.
   */
  int32_t average;
  /* The weights that were best in an evaluation stay in `out`, too. Best is the largest held-out accuracy;
   * where labels are values or tokens, the least held-out loss. Of equals the first. */
  bool keep_best;
  int64_t patience; /* epochs without a better evaluation that end the run; 0: it has no such end */
  bool best;        /* of neap_evaluate: the weights that keep_best kept are evaluated */
  bool by_class;    /* of neap_evaluate: the result has figures of each class */
  /* What neap_session_initialise takes weights from, or the folder of a run; and its map. */
  const char *initial, *initial_map;
  /* With session.lora: a folder of peft, whose adapters the run begins with. Its rank, alpha and layers must
   * be those of the run. */
  const char *lora_initial;
  const char *tensorboard; /* a folder, for an event file of TensorBoard */
  const char *metrics;     /* a JSON line a step, in a new file or behind the lines of the resumed run */
  const char *save_plan;   /* the plan that is used is written here */
  /* Another run's checkpoint beyond step 0 in `out`, and metrics, give way; else NEAP_INVALID_ARGUMENT. */
  bool replace;
  const char *command; /* a text that is kept in `out`, as command.json; see neap_checkpoint_command */
  /* Called before step 1 (progress->step is 0), when nothing of the run is in `out` yet, and after each
   * step; may be NULL. Not 0: stop after writing a checkpoint, with NEAP_INTERRUPTED. */
  int (*progress)(void *context, const neap_train_progress *progress);
  void *context;
  /* Set to other than 0, to stay so, by another thread or a signal handler: the run ends with
   * NEAP_INTERRUPTED, and the checkpoint in `out` is that of the last whole step. The current step is given
   * up between two of its nodes; but where its updates have begun and its predecessor is not saved, it is
   * finished first. NULL: never. */
  const volatile int *stop;
} neap_train_options;

/* What the process takes. Bytes; zeros where the system does not say. */
typedef struct neap_process {
  uint64_t peak;     /* the most so far (VmHWM) */
  uint64_t code;     /* at the start: code, libraries, what the caller has */
  uint64_t data;     /* the data set */
  uint64_t kernels;  /* graphs, kernels and the plan, which stay */
  uint64_t planning; /* the most while planning, all included; given back before training */
} neap_process;

typedef struct neap_train_result {
  const char *records;                /* as in neap_train_progress; NULL: the data were not opened */
  char combination[48], precision[8]; /* of techniques, as neap_combination names them; "f32" */
  double density;                     /* of sparse parameters; 1: none exist */
  int64_t batch, micro_batches, parameters, steps;
  int64_t steps_here; /* without those before a run was resumed; they took `seconds` */
  /* Of the best evaluation so far: its step (0: there was none), the accuracy (by_loss: the loss), and
   * whether `patience` ended the run. */
  int64_t best_step;
  double best_value;
  bool best_by_loss, stopped_early;
  double seconds, step_seconds_median, loss, accuracy;
  double step_disk_bytes, step_disk_seconds; /* mean of a step: read from the model's file; waited for it */
  double test_accuracy, test_loss;           /* -1: not evaluated here */
  double test_mae, test_rmse, test_r2;       /* as in neap_train_progress */
  double bits_per_byte;                      /* of test text; -1: of no text, or not evaluated */
  neap_memory memory;
  /* Beyond the session's own bytes after the first step; and what the process grew by at most since the
   * session was made, without what planning took: the peak that the system tells (VmHWM) is reset there. */
  uint64_t process_overhead_bytes, rss_growth_bytes;
  neap_process process;
  /* Of several processes (session.collective): the highest measured peak of one, the most bytes that one sent
   * in a step, and the largest share of the time in which one exchanged or waited. */
  int32_t processes; /* 1: one */
  uint64_t highest_peak, sent_bytes;
  double exchange_share;
  char weights_sha256[65];
  /* With NEAP_OVER_BUDGET, where memory.budget is what was asked for. */
  uint64_t smallest_budget; /* that is enough; of the process, where its budget was given */
  int64_t largest_batch;    /* that fits the budget; 0: none does; -1: not known */
  bool direct_fits;         /* NEAP_CONV_DIRECT, where it was not asked for, would fit the budget */
} neap_train_result;

/* Trains. `result` is filled as far as it got, with any status. NEAP_OVER_BUDGET fills the last three.
 * NEAP_DIVERGED: the loss of a step, or weights that were to be kept, are not finite; the checkpoint in `out`
 * is the last one before that. */
neap_status neap_train(const neap_train_options *options, neap_train_result *result);

/* How large a run is, by its settings and data. */
typedef struct neap_run_size {
  neap_model_options shape;   /* of the graph of a micro-batch; its length is that of the longest record */
  int64_t batch, micro_batch; /* records */
  int64_t training_records;
  int64_t epoch_steps; /* of one pass over them */
} neap_run_size;

/* Opens the data of a run and settles its shape as neap_train does, and goes no further: nothing is planned,
 * but for --micro-batch auto and `allow`, and nothing is written. Errors are those of neap_train. */
neap_status neap_run_measure(const neap_train_options *options, neap_run_size *size);

/* What an evaluation has come to by class. */
typedef struct neap_class_scores {
  const char *name;                  /* or its number */
  int64_t records, predicted, right; /* of the class; taken for it; both */
} neap_class_scores;

typedef struct neap_evaluation {
  const char *records;                /* as in neap_train_progress */
  int64_t batch, images, step, epoch; /* images: records of the test set; step and epoch: done so far */
  double loss, accuracy; /* means over the labels of the test set; accuracy -1: they are values */
  double mae, rmse, r2;  /* where they are values, as in neap_train_progress; mae -1: they are none */
  double bits_per_byte;  /* of its text; -1: of no text */
  neap_memory memory;
  uint64_t smallest_budget; /* with NEAP_OVER_BUDGET: that is enough */
  char weights_sha256[65];
  /* With by_class, where each record has one label, a class, and the logits fit into the memory; else NULL.
   * Row k of `confusion` has the records of class k: column j, how many of them were taken for class j. */
  int64_t classes;
  const neap_class_scores *class_rows; /* [classes] */
  const int64_t *confusion;            /* [classes, classes] */
  void *owned;                         /* what the two lie in */
} neap_evaluation;

/* Frees what by_class has made; the rest of the result stays. Takes NULL. */
void neap_evaluation_free(neap_evaluation *result);

/* Evaluates the checkpoint in `options->resume` on the test set. Of the options those of a session, the
 * model, its shape and the data count; nothing is written. Another batch changes no more than rounding. */
neap_status neap_evaluate(const neap_train_options *options, neap_evaluation *result);

/* What data have. */
typedef struct neap_data_class {
  const char *name; /* or its number */
  int64_t training_records, test_records;
} neap_data_class;
typedef struct neap_data_report {
  const char *source;
  int32_t field_count;
  neap_data_field fields[8];
  int64_t training_records, test_records, classes;
  const neap_data_class *class_rows;   /* [classes]; NULL: labels are not a class a record */
  int64_t least_size[2], most_size[2]; /* of pictures in files: height and width; zeros: none exist */
  int64_t problem_count;
  const char *const *problems; /* with records, each with its file and place */
} neap_data_report;

/* Opens data by name and tells what is in them; `sheet`, where it is not NULL, becomes a PNG file of up to
 * ten pictures of the training part. A report comes with a failure, too, with all problems that it is about;
 * only without memory it is NULL. Free it with neap_data_report_free, which takes NULL. */
neap_status neap_data_inspect(const char *data, const char *sheet, neap_data_report **report);
void neap_data_report_free(neap_data_report *report);

/* What to predict. Zeroed but for model, weights, data and out it is usable. */
typedef struct neap_predict_options {
  /* A ready-made model, a file of safetensors, a data set. A language model of a file needs no weights: its
   * own are taken, and its tokenizer and classes where the data are texts ("csv:FILE,text=COLUMN"). */
  const char *model, *weights, *data;
  /* A run's folder, whose weights are taken where `weights` is NULL; and what its records became numbers by,
   * so that the data may have no labels: "images:" a folder of pictures, "csv:" a table, "npy:" records. */
  const char *checkpoint;
  /* The file that is written. NAME.csv and NAME.jsonl have a line a record, with the names of classes and
   * their probabilities, or the values; any other is NumPy's, f32 [records, ...]. */
  const char *out;
  bool best; /* of the checkpoint's weights those that keep_best kept */
  /* Which output of the model; NULL: "logits", "prediction" of values, or "sentence" of an encoder that has
   * no other head; "sentence" is there of each encoder of a file. */
  const char *output;
  bool training_records; /* instead of the test set's */
  neap_model_options shape;
  neap_session_options session; /* budget, threads, backend, convolution; the rest does not matter */
} neap_predict_options;

typedef struct neap_predict_result {
  int64_t records;
  int rank;
  int64_t dims[NEAP_MAX_RANK]; /* of what is in the file */
  double accuracy;             /* where there is a value for each class: right answers by record; else -1 */
  neap_memory memory;          /* weights, a batch and the prediction's arena */
  uint64_t smallest_budget;    /* with NEAP_OVER_BUDGET: that is enough */
} neap_predict_result;

/* Runs a model over all records of a set, in their order. The file is written whole or not at all.
 * NEAP_BAD_FORMAT: the weights have NaN or infinity; so do neap_generate and neap_translate refuse them. */
neap_status neap_predict(const neap_predict_options *options, neap_predict_result *result);

/* A trained model as an ONNX file (ai.onnx 17): the network that predicts, with its weights. */
typedef struct neap_export_options {
  const char *model;
  const char *checkpoint; /* the folder of a run; NULL: none */
  const char *weights;    /* a file of weights, without a checkpoint */
  const char *data; /* where the checkpoint does not say what the data are: their shape is taken; or NULL */
  bool best;        /* of the checkpoint's weights those that keep_best kept */
  /* The file to write; weights of more than 1.9 GB go to OUT.data beside it. Of a checkpoint with adapters
   * (session.lora), where it does not end in .onnx: a folder, which is made, for adapter_config.json and
   * adapter_model.safetensors as peft has them. FILE.gguf: the whole language model, as `merge` has it. */
  const char *out;
  neap_model_options shape;
  /* Of a language model of a folder or GGUF file: the whole of it with what was trained, adapters added to
   * the weights beside them, as a folder of Hugging Face or FILE.gguf. Without checkpoint and weights the
   * model is written so as it is. */
  bool merge;
  bool adapters;    /* the adapters alone; FILE.gguf: as llama.cpp has them */
  const char *type; /* of a whole model's weights. A folder: "f32" (NULL: that), "bf16" or "f16"; a GGUF file:
                       "f16" (NULL: that), "f32", "bf16" or "q8_0" */
  bool replace;     /* a folder for a merged model may have files, which are replaced */
} neap_export_options;
typedef struct neap_export_result {
  int64_t nodes, opset; /* of adapters 0 */
  int64_t tensors;      /* of a merged model; else 0 */
  int64_t adapters;     /* layers that have one; 0: the file is of the whole network */
  int64_t batch;        /* that the file is for; 0: any */
  bool normalised; /* the input is what the data have, bytes of images from 0 to 255 or numbers of a table:
                      the file takes the data's mean off and divides by their deviation */
} neap_export_result;
neap_status neap_export(const neap_export_options *options, neap_export_result *result);

/* The text kept with a checkpoint (neap_train_options.command), or NULL; the caller frees it. */
neap_status neap_checkpoint_command(const char *folder, char **text);

/* The largest batch, up to `shape->batch`, with which a ready-made model fits the budget of the options; 0:
 * none does. Plans by the options' planner; a larger batch is taken to need no less memory. A budget's
 * fraction is one of what keeping everything needs at `shape->batch`. */
neap_status neap_largest_batch(const char *model, const neap_model_options *shape,
                               const neap_session_options *options, int64_t *largest);

/* The largest micro-batch, a divisor of `shape->batch`, with which a ready-made model fits the budget; 1
 * where none does. A fraction is one of what keeping everything needs with the whole batch. */
neap_status neap_largest_micro_batch(const char *model, const neap_model_options *shape,
                                     const neap_session_options *options, int64_t *largest);

/* Techniques that make a step smaller, and may be taken together. */
enum {
  NEAP_ALLOW_MICRO = 1,
  NEAP_ALLOW_BF16 = 2,
  NEAP_ALLOW_F16 = 4,
  NEAP_ALLOW_SPARSE = 8, /* with the density and layers of the session options; else these are not used */
  NEAP_COMBINATIONS = 12
};
typedef struct neap_combination {
  char name[48];       /* "none", "micro=10+f16+sparse=0.3" */
  int64_t micro_batch; /* images; 0: the batch */
  neap_dtype precision;
  double sparse_density;
  bool fits;
  uint64_t peak_bytes; /* of its plan; the least that it needs, where it does not fit */
  double cost;         /* of the whole step, by the costs of planning */
  double overhead;     /* of its plan over keeping everything */
} neap_combination;

/* Plans a model's step in each combination that is allowed, from the least change to the most: none, micro,
 * bf16, f16, sparse, then pairs, then all three. list[NEAP_COMBINATIONS]. A budget's fraction is one of the
 * whole, dense step's in f32. */
neap_status neap_combinations(const char *model, const neap_model_options *shape,
                              const neap_session_options *options, unsigned allowed, neap_combination *list,
                              int *count);
/* Of those that fit the first, the one that costs least, or the one with the least peak; -1: none fits. */
typedef enum neap_prefer { NEAP_PREFER_FIDELITY, NEAP_PREFER_TIME, NEAP_PREFER_MEMORY } neap_prefer;
int neap_best_combination(const neap_combination *list, int count, neap_prefer prefer);

#ifdef __cplusplus
}
#endif

#endif
