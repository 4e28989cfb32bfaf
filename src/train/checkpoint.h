/* A checkpoint: a folder with the weights in safetensors and state.json with everything else that a run needs
 * to go on as if it had not stopped, to the last bit.
 *
 *     {"format": "neap-checkpoint", "version": 1,
 *      "settings": {"model": "wrn-28-2", "batch": 100, ...},
 *      "epoch": 1, "step": 500, "session_steps": 500,
 *      "loss_sum": 812.4, "correct": 19231, "images": 50000, "labels": 50000,
 *      "test_accuracy": 0.61,
 *      "weights": "weights-500-0f3ab2c41d70.safetensors",
 *      "weights_sha256": "0f3ab2...", "weights_crc32": "9ae0daaf", "command_sha256": "...",
 *      "data": {"train": "5a7c01...", "test": "..."},
 *      "best": {"step": 400, "epoch": 0, "session_steps": 400, "by_loss": false, "value": 0.63,
 *               "weights": "best-400-....safetensors", "weights_sha256": "..."},
 *      "base": {"path": "...", "sha256": "...", ...},
 *      "kernels": ["oneDNN 2.6.3 jit:avx512_core", ...], "state_sha256": "..."}
 *
 * settings: what has to agree. epoch, step: done; the data follows from them. session_steps: the same, but
 * that it counts on from weights that the run began with; random operators follow from it. loss_sum, correct,
 * images, labels (that count; may be missing): of the epoch so far; null: not finite. test_accuracy: the last
 * one; -1: none yet. command_sha256: of the file command.json, may be missing or empty: none exists. kernels:
 * those that computed the run's steps so far (run/kernel_names.h), may be missing. base: of a run with
 * adapters, what its weights do not hold (train/base_weights.h), may be missing. best: the best evaluation so
 * far, by the held-out accuracy or loss, may be missing; its weights are a file beside the others, or empty.
 * weights_crc32: of the file, may be missing. data: digests of the records of each part as they were read
 * (data/record_digest.h), may be missing. state_sha256: of the object without this field, compact, keys
 * sorted.
 *
 * It is whole at any moment: weights have a name of their own, made of the step and of their digest, and
 * become part of the checkpoint when state.json, which names them, is replaced; only then older weights are
 * removed. A command is command.json.next until then. If the run ended before it was renamed, command_sha256
 * says that command.json.next is the right one. */
#ifndef NEAP_TRAIN_CHECKPOINT_H
#define NEAP_TRAIN_CHECKPOINT_H

#include <jansson.h>

#include "base/status.h"

struct base_weights;
struct tokenizer;
struct source;
/* The tokenizer in a checkpoint's folder, if the data are text: text/tokenizer_file.h. */
#define CHECKPOINT_TOKENIZER "tokenizer.json"

enum { CHECKPOINT_PARTS = 2 }; /* of the data: those to train with, those to test with */

/* The best evaluation so far, and its weights if they are kept. */
struct best {
  int64_t step, epoch, session_steps; /* as in struct checkpoint; step 0: none */
  bool by_loss;
  double value;                         /* the accuracy; by_loss: the loss */
  char weights[96], weights_sha256[65]; /* weights "": not kept */
  char weights_crc32[9];                /* "": not known */
};

struct checkpoint {
  int64_t epoch, step;   /* complete epochs, and steps in all, that are done */
  int64_t session_steps; /* of the session, including those of the weights that it began with */
  double loss_sum;       /* of the epoch so far: over steps, */
  int64_t correct, images;
  double labels; /* -1: not known, as in a checkpoint of before there was this field */
  double test_accuracy;
  char weights[96], weights_sha256[65], command_sha256[65];
  char weights_crc32[9]; /* "": not known, as in a checkpoint of before there was this field */
  /* Digests of the records of each part; "": not known. */
  char data_digests[CHECKPOINT_PARTS][17];
  const char *command;             /* to keep as command.json; borrowed; NULL: none */
  bool command_placed;             /* the last saved checkpoint has it */
  json_t *kernels;                 /* to keep; borrowed; NULL: not known */
  const struct base_weights *base; /* the source of the weights that it leaves out; borrowed; NULL: none */
  bool keep_best;                  /* keep the weights of `best` */
  struct best best;
};

/* Returns true for the name of weights of a checkpoint, and of what a killed run left of its files. */
bool checkpoint_is_weights(const char *name);

/* Makes the weights of the best evaluation those of the state. NEAP_INVALID_ARGUMENT: none were kept. */
neap_status checkpoint_take_best(const char *folder, struct checkpoint *checkpoint);

/* Replaces state.json. `settings`, an object, is borrowed. */
neap_status checkpoint_write_state(const char *folder, json_t *settings, const struct checkpoint *checkpoint);

/* Reads the adapter options of the run in a folder and, if it has adapters, the other options that a session
 * needs to predict with its weights; texts are copied to the region. Other options are unchanged. */
struct region;
neap_status checkpoint_read_adapters(const char *folder, struct region *region,
                                     neap_session_options *session);

/* Compares digests of the records that were read now with those of the state, which a failure leaves as they
 * are, and takes those that the state does not have; 0: not known. NEAP_INVALID_ARGUMENT: the run began with
 * other data; `name` and `counts` [CHECKPOINT_PARTS] are for the message. */
neap_status checkpoint_check_data(const char *folder, const char *name, const uint64_t *digests,
                                  const int64_t *counts, struct checkpoint *checkpoint);

/* Reads and checks state.json; command, command_placed, kernels, base and keep_best are unchanged. Every one
 * of `settings` (NULL: none) must exist and be equal; if not, the message names it with both values. */
neap_status checkpoint_read_state(const char *folder, json_t *settings, struct checkpoint *checkpoint);

/* Finds out whether the settings of the checkpoint in a folder have this one. */
neap_status checkpoint_has_setting(const char *folder, const char *name, bool *has);

/* Gives the number of micro-batches of a step of the checkpoint's run. */
neap_status checkpoint_micro_batches(const char *folder, int64_t *count);

/* The setting with the SHA-256 of a model that is a file. NEAP_INVALID_ARGUMENT: the checkpoint belongs to
 * another file than this model's, or to none. */
#define CHECKPOINT_MODEL "model_sha256"
neap_status checkpoint_check_model(const char *folder, const neap_model *model);

/* Reads the names of the kernels that computed the run's steps so far, to be freed with json_decref; NULL:
 * not known. */
neap_status checkpoint_read_kernels(const char *folder, json_t **kernels);

/* Finds the step of the checkpoint in a folder; 0 if the folder has no usable checkpoint. Fails if a
 * state.json cannot be read. */
neap_status checkpoint_find_step(const char *folder, int64_t *step);

/* Writes weights and state, then removes older weights. The caller has filled the fields from `epoch` through
 * `test_accuracy`, `command` and `kernels`; this function fills the others. The folder must exist. After a
 * failure the former checkpoint is still complete. */
neap_status checkpoint_save(const char *folder, json_t *settings, neap_session *session,
                            struct checkpoint *checkpoint);

/* Writes the tokenizer of the run's text to the folder, as CHECKPOINT_TOKENIZER; NULL: removes that of
 * another run. Call before the first checkpoint is saved. */
neap_status checkpoint_keep_tokenizer(const char *folder, const struct tokenizer *tokenizer);

/* Writes the encoding of the run's records to the folder, as CHECKPOINT_DATA (data/encoding.h), if the source
 * has one; else removes that of another run. Call before the first checkpoint is saved. */
#define CHECKPOINT_DATA "data.json"
neap_status checkpoint_keep_data(const char *folder, const struct source *source);

/* Finds out whether every parameter, optimizer state and running statistic is finite, as the f32 of a
 * file. */
neap_status checkpoint_weights_are_finite(neap_session *session, bool *finite);

/* Gives the path of the weights in a run's folder, the region's: the last ones, or those of the best
 * evaluation. NEAP_BAD_FORMAT: the file is not the one that was written. */
neap_status checkpoint_find_weights(const char *folder, bool best, struct region *region, const char **path);

/* Loads the weights that the state names into the session, and compares their digest and their steps. */
neap_status checkpoint_load_weights(const char *folder, const struct checkpoint *checkpoint,
                                    neap_session *session);

#endif
