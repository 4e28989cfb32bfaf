/* Train a network over a data set: epochs, checkpoints, metrics, evaluation, prediction, export. */
#ifndef NEAP_TRAIN_H
#define NEAP_TRAIN_H

#include "neap_session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A row of what a reader understood: an object (a column, a part of a folder, an ending of files), what it
 * became, how many there are of it (classes, cells, files; -1: no number says it) and why, if not as a rule.
 */
typedef struct neap_understood {
  const char *object, *became;
  int64_t count;
  const char *why; /* NULL: as a rule */
} neap_understood;

bool neap_data_at(int32_t index, neap_row *row); /* sources of data; name: how one is named, "cifar10:DIR" */

/* INVERSE_SQRT: after the warm-up the rate is divided by the root of steps / steps of warm-up. EXPONENTIAL:
 * changes by one factor a step, from `learning_rate` in the first step to `final_learning_rate` in the
 * last. */
typedef enum neap_schedule_kind {
  NEAP_LR_CONSTANT,
  NEAP_LR_STEP,
  NEAP_LR_COSINE,
  NEAP_LR_INVERSE_SQRT,
  NEAP_LR_EXPONENTIAL
} neap_schedule_kind;

typedef struct neap_train_progress {
  const char
      *records;   /* the units of a batch: "images", "sequences", "records", "pairs" or "texts"; a constant */
  neap_task task; /* that of the data */
  int64_t epoch, epochs, step, steps; /* epochs is 0 if `steps` was given; step: the one just done, from 1 */
  int64_t steps_before;               /* those of a run that was resumed, before this process */
  double loss, accuracy; /* of this step; the loss with label smoothing; the accuracy in [0, 1]; -1: labels
                            are values */
  double epoch_loss, epoch_accuracy; /* means over the epoch so far, with its steps before a resume; the
                                        accuracy -1: labels are values */
  double learning_rate, seconds;     /* of this step */
  double gradient_norm;              /* of this step; -1: not asked for, or the step was skipped */
  double images_per_second, seconds_left;
  double test_accuracy, test_loss; /* after an epoch that ends here, or the run; -1: not evaluated */
  /* If labels are values, in their units: mean absolute error, root of the mean squared error, R2; means over
   * the values if a record has several. mae -1: not evaluated. */
  double test_mae, test_rmse, test_r2;
  double bits_per_byte; /* of test text, from the test loss; -1: not text */
  double loss_scale;    /* of the next step, if it is dynamic; else 0 */
  int64_t skipped;      /* updates skipped because of it so far, in this process */
  int64_t uncounted;    /* labels of this step outside the classes, if each record has one label */
  const neap_memory *memory;
  /* Before the first step of a resumed run whose earlier steps used other kernels, on another processor or in
   * another version: the first of those kernels and of the present ones, for people. The last bits then
   * differ from those of a run without the stop. Lives as long as the run. NULL: the kernels are the same. */
  const char *other_kernels;
  /* A pipeline's stages from the last to the first: the number of blocks of each, with r if it recomputes
   * them. NULL: no pipeline. */
  const char *stages;
  const char *combination; /* the techniques in use, as in neap_train_result */
  /* Before the first step: a text of the data whose byte-order mark was skipped; NULL: no file has one. */
  const char *marked_file;
  /* For pairs of sequences: the place of the longest pair, which sets the memory, "FILE: line N, of M tokens"
   * (NULL: no pairs), and the numbers of pairs longer than the length asked for that were left out of the
   * training part, and cut in the test part. */
  const char *longest;
  int64_t skipped_records, cut_records;
  const neap_understood *understood; /* what the data were read as */
  int64_t understood_count;
  int64_t conversations; /* to train with; 0: records are something else */
  int64_t rows;          /* of tokens, which conversations share; 0: each has its own */
  const char
      *new_layers; /* missing from the model's file, so drawn at random: "classifier"; NULL: all are there */
  const neap_initialisation
      *initialisation; /* before the first step: the result of `initial`; NULL: not given */
  int64_t frozen;      /* elements of parameters that no step changes */
  const char *const
      *unstored; /* of two dimensions or more, named by session.store, that cannot be divided into blocks */
  int32_t unstored_count;
  bool augmented; /* training records are changed at random if their kind allows it; see `augment` */
} neap_train_progress;

enum { NEAP_MICRO_BATCH_AUTO = -1, NEAP_REWIRE_OFF = -1 };

/* A field of the records of data. */
typedef struct neap_data_field {
  const char *name;
  neap_dtype dtype;
  int rank;
  int64_t dims[NEAP_MAX_RANK]; /* of a record */
} neap_data_field;

/* Data given by the caller's own functions, instead of a name in neap_train_options. Fields are named as the
 * model's inputs: "image" of u8 (normalised by the training records) or f32 [C, H, W], "features" of f32 [K],
 * "sequence" of f32 [T, K]; and "label": i32, a class (of a sequence [T]), or f32 [L], values. */
typedef struct neap_data_source {
  const char *name; /* for messages and checkpoints */
  const neap_data_field *fields;
  int32_t field_count;
  int64_t training_records, test_records, classes; /* for values: their number */
  /* Writes the fields of a record into memory of their size; a NULL field is not wanted. The same record is
   * always the same. Several threads may call it at once. If it returns other than 0, the run ends with
   * NEAP_IO_FAILED. */
  int (*read)(void *context, bool test, int64_t record, void *const *fields);
  void *context;
} neap_data_source;

/* Random crops and flips of pictures, windows of texts. USUAL: ON, but OFF for images:. */
typedef enum neap_augment { NEAP_AUGMENT_USUAL, NEAP_AUGMENT_ON, NEAP_AUGMENT_OFF } neap_augment;

/* The treatment of a conversation longer than a sequence. */
typedef enum neap_long_records { NEAP_LONG_CUT, NEAP_LONG_SKIP } neap_long_records;

/* The choice whether several conversations share a row of tokens, without seeing each other. AUTO: yes if the
 * model can, unless the run that is resumed began without it. */
typedef enum neap_pack { NEAP_PACK_OFF, NEAP_PACK_ON, NEAP_PACK_AUTO } neap_pack;

typedef struct neap_train_options {
  const char *model, *data;       /* "wrn-28-2"; "cifar10:DIR", see neap_data_at */
  const neap_model *opened;       /* the model, if the caller has it open; NULL: it is opened by its name */
  const neap_data_source *source; /* replaces `data`; NULL: not used */
  neap_model_options shape; /* zeros for image and classes: those of the data; of "synthetic": the model's
                               usual. Images must be those of the data, with at least as many classes */
  neap_session_options session;
  /* Not 0: replaces the session's budget: bytes of all processes of session.collective together, of which
   * each gets an equal part. */
  uint64_t total_budget;
  /* Images of a micro-batch, which must divide the batch; 0: the batch; NEAP_MICRO_BATCH_AUTO: the most that
   * fit. It determines the session's number of micro-batches. */
  int64_t micro_batch;
  /* NEAP_ALLOW_...: uses the techniques of a combination that fits the budget: the first, or with
   * allow_by_time the one that costs least; for the least budget the smallest. */
  unsigned allow;
  bool allow_by_time;
  /* Weights of the classes in the training loss: "balanced", records / (classes * records of the class), over
   * the classes that the training part has, and 0 for a class without records; or a file with a line "NAME
   * WEIGHT" or "NAME,WEIGHT" for each class. NULL: all weights are 1. */
  const char *class_weights;
  /* Not 0: mixes each training record with another one, and their labels in the loss: x = share x1 + (1 -
   * share) x2, loss = share loss(y1) + (1 - share) loss(y2). Share and partner are drawn from counters by
   * seed, epoch and record: the share from Beta(mixup, mixup), the partner uniformly. An answer is right if
   * it is the label of the larger share. Images are stored as f32, not as bytes. NEAP_INVALID_ARGUMENT:
   * records do not have one class each. */
  float mixup;
  int64_t rewire_every; /* steps until sparse parameters first change places (neap_session_rewire); 0: 100. It
                           is doubled after 1/8, 2/5 and 7/10 of the run; the last twentieth has no changes */
  /* Only one of the two may be above 0; both 0: one epoch. An epoch has as many steps as full batches of
   * training records. The records left over, others in each epoch, are skipped; with keep_last they make a
   * step whose loss is the mean over them, and whose micro-batches differ by at most one record. Pairs of
   * sequences pad their last batches with records that do not count. Evaluation takes all records. */
  int64_t steps, epochs;
  double learning_rate; /* 0: 0.1; NAN: the optimizer's usual; NEAP_ZERO: 0 */
  neap_schedule_kind schedule;
  double warmup_epochs;
  int64_t warmup_steps; /* replaces the epochs if above 0 */
  /* NEAP_LR_STEP: multiplies by factor every step_epochs epochs; 0: thirds of the run, 0.1. A factor of
   * NEAP_ZERO: 0. */
  double step_epochs, step_factor;
  double final_learning_rate; /* of NEAP_LR_EXPONENTIAL; above 0 */
  bool no_shuffle, no_evaluation;
  bool keep_last; /* the records that fill no batch of an epoch make a last, short step; see epochs */
  neap_augment augment;
  /* For conversations: the name of the chat template: "chatml", "llama3", "plain" and others, which the
   * message for an unknown name lists; NULL: the model's, or "chatml". The loss counts what the assistant
   * writes, with the token that ends its turn, or all tokens. */
  const char *chat_template;
  bool train_on_prompt;
  neap_long_records long_records;
  neap_pack pack;
  const char *out, *resume; /* checkpoint folders; only one process may train into `out` */
  int64_t checkpoint_steps; /* also after each of this number of steps; 0: only at the end of an epoch */
  /* Number of epochs whose weights are kept in `out`, as epoch-NUMBER.safetensors: the last ones; 0: not
   * kept. */
  int64_t keep_epochs;
  /* Number of checkpoints that are kept in `out`, each in a folder step-NUMBER that `resume` takes: the last
   * ones; 0: only the current one, which is in `out` itself. */
  int64_t keep_checkpoints;
  /* With session.bits portable and `out`: digests of all variables are recorded in `out` after each of this
   * number of steps, and at the first and the last, for neap_replay; 0: 100. */
  int64_t digest_steps;
  /* For neap_evaluate: takes the mean of this number of kept weights, the latest; 0: takes the checkpoint
   * itself. */
  int32_t average;
  /* Also keeps in `out` the weights of the best evaluation: that with the largest held-out accuracy, or if
   * labels are values or tokens, the least held-out loss; the first of equals. */
  bool keep_best;
  uint64_t disk_writes; /* the most that steps may write to session.disk before the run ends; 0: any */
  int64_t patience; /* ends the run after this number of epochs without a better evaluation; 0: does not */
  bool best;        /* for neap_evaluate: evaluates the weights that keep_best kept */
  bool by_class;    /* for neap_evaluate: also reports each class */
  /* The source of weights for neap_session_initialise, or the folder of a run; and the map for it. */
  const char *initial, *initial_map;
  /* With session.lora: a folder of peft whose adapters the run begins with. Their rank, alpha and layers must
   * be those of the run. */
  const char *lora_initial;
  /* With shape.side: "base" begins the side net with parts of the model's weights: of each matrix every
   * shape.side-th row and column. Else a folder of neap_export, whose side net the run begins with. */
  const char *side_initial;
  const char *tensorboard; /* a folder, for an event file of TensorBoard */
  const char *metrics;     /* a JSON line a step, in a new file or after the lines of the resumed run */
  const char *save_plan;   /* the plan in use is written here */
  /* Lets a run replace another run's checkpoint beyond step 0 in `out`, and its metrics; else they are
   * NEAP_INVALID_ARGUMENT. */
  bool replace;
  const char *command; /* a text that is kept in `out`, as command.json; see neap_checkpoint_command */
  /* Called before step 1 (progress->step is 0), when the run has written nothing to `out`, and after each
   * step; may be NULL. If it returns other than 0, a checkpoint is written and the run ends with
   * NEAP_INTERRUPTED. */
  int (*progress)(void *context, const neap_train_progress *progress);
  void *context;
  /* May be set to other than 0 by another thread or a signal handler, and must then stay so: the run ends
   * with NEAP_INTERRUPTED, and the checkpoint in `out` is that of the last complete step. The current step is
   * abandoned between two of its nodes, but if its updates have begun and its predecessor is not saved, it is
   * finished first. NULL: never. */
  const volatile int *stop;
} neap_train_options;

/* The memory of the process, in bytes; zeros if the system does not tell. */
typedef struct neap_process {
  uint64_t peak;     /* the most so far (VmHWM) */
  uint64_t code;     /* at the start: code, libraries, what the caller has */
  uint64_t data;     /* the data set */
  uint64_t kernels;  /* graphs, kernels and the plan, which stay */
  uint64_t planning; /* the most while planning, all included; freed before training */
} neap_process;

typedef struct neap_train_result {
  const char *records; /* as in neap_train_progress; NULL: data were not opened */
  neap_task task;
  char combination[48], precision[8]; /* the techniques, as neap_combination names them; "f32" */
  double density;                     /* of sparse parameters; 1: not sparse */
  int64_t batch, micro_batches, parameters, steps;
  int64_t steps_here; /* without those before a run was resumed; `seconds` is their time */
  /* The best evaluation so far: its step (0: not evaluated), the accuracy (by_loss: the loss), and whether
   * `patience` ended the run. */
  int64_t best_step;
  double best_value;
  bool best_by_loss, stopped_early;
  double seconds, step_seconds_median, loss, accuracy;
  /* Mean of a step: bytes read from disk, written to it, and seconds that kernels waited for both. */
  double step_disk_bytes, step_disk_written, step_disk_seconds;
  double test_accuracy, test_loss;     /* -1: not evaluated here */
  double test_mae, test_rmse, test_r2; /* as in neap_train_progress */
  double bits_per_byte;                /* of test text; -1: not text, or not evaluated */
  neap_memory memory;
  /* Beyond the session's own bytes after the first step; and the most that the process grew since the session
   * was made, without planning: the peak that the system tells (VmHWM) is reset there. */
  uint64_t process_overhead_bytes, rss_growth_bytes;
  neap_process process;
  /* With several processes (session.collective): the highest measured peak of one, the most bytes that one
   * sent in a step, and the largest share of time in which one exchanged or waited. */
  int32_t processes; /* 1: one */
  uint64_t highest_peak, sent_bytes;
  double exchange_share;
  char weights_sha256[65];
  /* With NEAP_OVER_BUDGET; memory.budget is then the budget that was asked for. */
  uint64_t smallest_budget; /* a budget that suffices; of the process, if its budget was given */
  int64_t largest_batch;    /* that fits the budget; 0: none does; -1: not known */
  bool direct_fits;         /* with NEAP_CONV_DIRECT, if it was not asked for, the budget would suffice */
} neap_train_result;

/* Trains. `result` is filled as far as the run got, with any status. NEAP_OVER_BUDGET fills the last three
 * fields. NEAP_DIVERGED: the loss of a step, or weights to be kept, are not finite; the checkpoint in `out`
 * is the last one before that. */
neap_status neap_train(const neap_train_options *options, neap_train_result *result);

/* The size of a run, by its settings and data. */
typedef struct neap_run_size {
  neap_model_options shape;   /* of the graph of a micro-batch; its length is that of the longest record */
  int64_t batch, micro_batch; /* records */
  int64_t training_records;
  int64_t epoch_steps; /* of one pass over them */
} neap_run_size;

/* Opens the data of a run and determines its shape as neap_train does, without planning (except for
 * --micro-batch auto and `allow`) or writing anything. Errors are those of neap_train. */
neap_status neap_run_measure(const neap_train_options *options, neap_run_size *size);

/* Makes a digest of all that the weights at the end of a run depend on: settings, number of steps, records,
 * version, and path, size and time of the files that weights come from. Budget, planner and places on disk
 * have no part in it: they change no bits. Reads all records; plans and writes nothing. Errors are those of
 * neap_run_measure. */
neap_status neap_run_digest(const neap_train_options *options, char digest[65]);

/* The results of an evaluation for one class. */
typedef struct neap_class_scores {
  const char *name;                  /* or its number */
  int64_t records, predicted, right; /* of the class; predicted; both */
} neap_class_scores;

typedef struct neap_evaluation {
  const char *records; /* as in neap_train_progress */
  neap_task task;
  int64_t batch, images, step, epoch; /* images: records of the test set; step and epoch: done so far */
  double loss, accuracy; /* means over the labels of the test set; accuracy -1: labels are values */
  double mae, rmse, r2;  /* if labels are values, as in neap_train_progress; mae -1: not values */
  double bits_per_byte;  /* of its text; -1: not text */
  neap_memory memory;
  uint64_t smallest_budget; /* with NEAP_OVER_BUDGET: a budget that suffices */
  char weights_sha256[65];
  /* With by_class, if each record has one label, a class, and the logits fit into the memory; else NULL. Row
   * k of `confusion` counts the records of class k; column j those predicted as class j. */
  int64_t classes;
  const neap_class_scores *class_rows; /* [classes] */
  const int64_t *confusion;            /* [classes, classes] */
  void *owned;                         /* memory of the two */
} neap_evaluation;

/* Frees the results of by_class; the rest of the result is unchanged. Takes NULL. */
void neap_evaluation_free(neap_evaluation *result);

/* Evaluates the checkpoint in `options->resume` on the test set. Uses only the options of a session, the
 * model, its shape and the data; writes nothing. Another batch changes results only by rounding. */
neap_status neap_evaluate(const neap_train_options *options, neap_evaluation *result);

typedef struct neap_replay_result {
  int64_t from,
      to; /* the step of the checkpoint that it began with (0: the run's beginning); the last step */
  int64_t compared;    /* recorded digests */
  int64_t differs;     /* the first recorded step whose digests differ; -1: none */
  int32_t differing;   /* variables that do */
  char variables[512]; /* the names of the first of them */
  neap_memory memory;
  uint64_t smallest_budget; /* with NEAP_OVER_BUDGET: a budget that suffices */
} neap_replay_result;

/* Runs steps of the run in `options->resume`, whose bits are portable, once more, and compares the digests
 * that it recorded: from its newest checkpoint before `step`, or else from its beginning, up to `step`.
 * Writes nothing. `options` are those of the run; budget, threads and data's place may be others.
 * NEAP_INVALID_ARGUMENT: the run recorded no digests of `step`. Digests that differ are no failure. */
neap_status neap_replay(const neap_train_options *options, int64_t step, neap_replay_result *result);

/* A class in data. */
typedef struct neap_data_class {
  const char *name; /* or its number */
  int64_t training_records, test_records;
} neap_data_class;
typedef struct neap_data_report {
  const char *source;
  int32_t field_count;
  neap_data_field fields[8];
  int64_t training_records, test_records, classes;
  const neap_data_class *class_rows;   /* [classes]; NULL: labels are not one class per record */
  int64_t least_size[2], most_size[2]; /* height and width, if records are pictures in files; else zeros */
  int64_t problem_count;
  const char *const *problems; /* with records, each with its file and place */
  int64_t understood_count;
  const neap_understood *understood; /* columns, parts of folders, what is left out */
} neap_data_report;

/* Opens data by name and describes them. `sheet`, unless NULL, becomes a PNG file of up to ten pictures of
 * the training part. On failure, too, gives a report with all problems; it is NULL only if memory ran out.
 * Free it with neap_data_report_free, which takes NULL. */
neap_status neap_data_inspect(const char *data, const char *sheet, neap_data_report **report);
void neap_data_report_free(neap_data_report *report);

/* Options of prediction. Only model, weights, data and out must be set; the rest may be zero. */
typedef struct neap_predict_options {
  /* A ready-made model, a file of safetensors, a data set. A language model of a file needs no weights: it
   * uses its own, and its tokenizer and classes if the data are texts ("csv:FILE,text=COLUMN"). */
  const char *model, *weights, *data;
  const neap_model *opened; /* the model, if the caller has it open; NULL: it is opened by its name */
  /* If `data` is NULL: the options of the run, whose data are taken, divided into parts as for its training.
   */
  const neap_train_options *run;
  /* A run's folder; its weights are used if `weights` is NULL. Its encoding of records is used, too, so the
   * data need no labels: "images:" a folder of pictures, "csv:" a table, "npy:" records. */
  const char *checkpoint;
  /* The file to write. NAME.csv and NAME.jsonl have one line per record, with the names of classes and their
   * probabilities, or the values; others are NumPy's, f32 [records, ...]. */
  const char *out;
  bool best; /* use the weights that keep_best kept in the checkpoint */
  /* The output of the model to write; NULL: "logits", "prediction" for values, or "sentence" for an encoder
   * without another head. Each encoder of a file has the output "sentence". */
  const char *output;
  bool training_records; /* instead of the test set's */
  neap_model_options shape;
  neap_session_options session; /* only budget, threads, backend and convolution are used */
  /* Is given what the data were read as, once they are; the rows live until it returns. NULL: nobody asks. */
  void (*understood)(void *context, const neap_understood *rows, int64_t count);
  void *context;
} neap_predict_options;

typedef struct neap_predict_result {
  int64_t records;
  int rank;
  int64_t dims[NEAP_MAX_RANK]; /* of the file's array */
  double accuracy;          /* share of right answers by record if there is a value for each class; else -1 */
  neap_memory memory;       /* weights, a batch and the prediction's arena */
  uint64_t smallest_budget; /* with NEAP_OVER_BUDGET: that is enough */
} neap_predict_result;

/* Runs a model over all records of a set, in their order. The file is written completely or not at all.
 * NEAP_BAD_FORMAT: the weights have NaN or infinity; neap_generate and neap_translate refuse them, too. */
neap_status neap_predict(const neap_predict_options *options, neap_predict_result *result);

/* A trained model as an ONNX file (ai.onnx 17): the network that predicts, with its weights. */
typedef struct neap_export_options {
  const char *model;
  const neap_model *opened; /* the model, if the caller has it open; NULL: it is opened by its name */
  const char *checkpoint;   /* the folder of a run; NULL: none */
  const char *weights;      /* a file of weights, without a checkpoint */
  const char *data;         /* data whose shape is taken if the checkpoint does not record it; or NULL */
  bool best;                /* use the weights that keep_best kept in the checkpoint */
  /* The file to write; weights of more than 1.9 GB go to OUT.data in the same folder. If a checkpoint has
   * adapters (session.lora) and this does not end in .onnx: a folder, which is created, for
   * adapter_config.json and adapter_model.safetensors as peft has them. If it has a side net (shape.side): a
   * folder for side_config.json, which names the model that it is for, and side_model.safetensors.
   * FILE.gguf: the complete language model, as with `merge`. */
  const char *out;
  neap_model_options shape;
  /* For a language model of a folder or GGUF file: writes all of it, with what was trained and adapters added
   * to their weights, as a folder of Hugging Face or FILE.gguf. Without checkpoint and weights, writes the
   * model as it is. */
  bool merge;
  bool adapters;    /* the adapters alone; FILE.gguf: as llama.cpp has them */
  const char *type; /* of a complete model's weights. A folder: "f32" (NULL: that), "bf16" or "f16"; a GGUF
                       file: "f16" (NULL: that), "f32", "bf16" or "q8_0" */
  bool replace;     /* a folder for a merged model may have files, which are replaced */
  bool no_check;    /* do not read the file back and compare its outputs with the run's */
  uint64_t
      process_budget; /* of that comparison, as in neap_session_options; 0: the memory that is available */
} neap_export_options;
typedef struct neap_export_result {
  int64_t nodes, opset; /* 0 for adapters */
  int64_t tensors;      /* of a merged model; else 0 */
  int64_t adapters;     /* layers that have one, or that a side net is next to; 0: the file has the
                           complete network */
  int64_t batch;        /* of the file; 0: any */
  bool normalised; /* the input is unnormalised: bytes of images from 0 to 255 or numbers of a table; the file
                      subtracts the data's mean and divides by the deviation */
  bool checked;    /* the file was read back, and its outputs on a seeded batch compared with the run's */
  double difference, allowed; /* then: the root mean square of the outputs' differences as a share of the
                                 run's outputs; what rounding to the written type explains */
  char unchecked[256];        /* why it was not; "": it was, or the options did not ask for it */
  char left_out[128]; /* what the run attends to, for which a language model's file has no place: "attention
                         PATTERN", "window N"; "": nothing */
} neap_export_result;
/* NEAP_BAD_FORMAT: also a file that was written, but does not give what the run gives. */
neap_status neap_export(const neap_export_options *options, neap_export_result *result);

/* Gives the text kept with a checkpoint (neap_train_options.command), or NULL; the caller frees it. */
neap_status neap_checkpoint_command(const char *folder, char **text);

/* Finds the largest batch, up to `shape->batch`, with which a ready-made model fits the budget of the
 * options; 0: none fits. Uses the options' planner; assumes that a larger batch needs no less memory. A
 * budget given as a fraction is a share of what keeping everything needs at `shape->batch`. */
neap_status neap_largest_batch(const neap_model *model, const neap_model_options *shape,
                               const neap_session_options *options, int64_t *largest);

/* Finds the largest micro-batch, a divisor of `shape->batch`, with which a ready-made model fits the budget;
 * 1 if none fits. A fraction is a share of what keeping everything needs with the full batch. */
neap_status neap_largest_micro_batch(const neap_model *model, const neap_model_options *shape,
                                     const neap_session_options *options, int64_t *largest);

/* Techniques that make a step smaller, alone or together. */
enum {
  NEAP_ALLOW_MICRO = 1,
  NEAP_ALLOW_BF16 = 2,
  NEAP_ALLOW_F16 = 4,
  NEAP_ALLOW_SPARSE = 8,   /* with the density and layers of the session options, which have no other use */
  NEAP_ALLOW_STATES8 = 16, /* optimizer states of 8 bits, where that takes fewer bytes */
  NEAP_COMBINATIONS = 24
};
typedef struct neap_combination {
  char name[48];       /* "none", "micro=10+f16+sparse=0.3" */
  int64_t micro_batch; /* images; 0: the batch */
  neap_dtype precision;
  double sparse_density;
  bool states_8bit;
  bool fits;
  uint64_t peak_bytes; /* of its plan; or the least that it needs if it does not fit */
  double cost;         /* of the full step, by the costs of planning */
  double overhead;     /* cost of its plan relative to keeping everything */
} neap_combination;

/* Plans a model's step in each allowed combination, from the least change to the most: none, micro, bf16,
 * states8, f16, sparse, then pairs, triples, and all four. list[NEAP_COMBINATIONS]. A budget given as a
 * fraction is a share of what the full, dense step in f32 needs. */
neap_status neap_combinations(const neap_model *model, const neap_model_options *shape,
                              const neap_session_options *options, unsigned allowed, neap_combination *list,
                              int *count);
/* The choice among combinations that fit: the first, the one that costs least, or the one with the least
 * peak; -1: none fits. */
typedef enum neap_prefer { NEAP_PREFER_FIDELITY, NEAP_PREFER_TIME, NEAP_PREFER_MEMORY } neap_prefer;
int neap_best_combination(const neap_combination *list, int count, neap_prefer prefer);

#ifdef __cplusplus
}
#endif

#endif
