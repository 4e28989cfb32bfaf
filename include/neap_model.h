/* Models: ready-made networks, and those in files. */
#ifndef NEAP_MODEL_H
#define NEAP_MODEL_H

#include "neap_graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tasks, that is, the fields of a record that a model learns from, and its label. */
typedef enum neap_task {
  NEAP_TASK_IMAGES,   /* "image" [N, C, H, W], a class each: "label" [N] */
  NEAP_TASK_PIXELS,   /* the same, a class for each pixel: "label" [N, H', W'] */
  NEAP_TASK_TOKENS,   /* "tokens" [N, T], each one's next token: "label" [N, T]. Classes are the vocabulary */
  NEAP_TASK_MASKED,   /* the same, but labels are those of tokens that are masked */
  NEAP_TASK_VECTORS,  /* "sequence" [N, T, K], a class each: "label" [N, T] */
  NEAP_TASK_FEATURES, /* "features" [N, K], a class each: "label" [N]; or values "label" [N, L]. Images do,
                         too */
  NEAP_TASK_PAIRS,    /* "source" [N, S], with -1 behind its end, and "tokens" and "label" as above */
  NEAP_TASK_TEXTS     /* "tokens" [N, T], with -1 behind a text's end; "label" as of NEAP_TASK_FEATURES */
} neap_task;

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
  float beta;   /* above 0, of the same transformers: learns from preferences (Rafailov et al. 2023). A record
                   is a pair of sequences, the preferred one first: "tokens" and "label" [N, 2, T]. "count" [N,
                   2] of f32 has the labels of each that count, "reference" [N, 2] of f32 the log-probabilities
                   of its labels by the model that training begins with. The loss is the mean of -log
                   sigmoid(beta (d - d')), d and d' how much more probable the first one is now, and was; the
                   outputs are "log_probability" [N, 2] and "margin" [N], d - d' */
  int64_t side; /* above 0, of transformers of one stack: a side net beside the stack (Sung et al. 2022),
                   which is frozen: the same layers with every width divided by this, behind gates that mix
                   its rows with those of each block. Its parameters are named "side.NAME". No gradient enters
                   the stack */
  const char *attention; /* of transformers of one stack: what a token attends to, by layer and head, as
                            neap_attention_options.pattern; not with a window. Borrowed. NULL: all */
} neap_model_options;

/* An open model: a ready-made network, or a file with a network and its weights. The file is found and its
 * description is read once, when the model is opened; all that follows answers from what was read, also if
 * the file is gone by then. Weights are read when they are loaded. A model is not changed by the questions on
 * it, so several threads may ask them. */
typedef struct neap_model neap_model;
typedef struct neap_session neap_session;

/* Opens a model by name, as neap_model_at lists them: "wrn-28-2", "resnet50", "preresnet-1001",
 * "onnx:FILE", "FILE.gguf", a folder of Hugging Face, ... NEAP_INVALID_ARGUMENT: no model has this name. For
 * a file also NEAP_IO_FAILED: it cannot be read; NEAP_BAD_FORMAT: it is damaged; NEAP_UNSUPPORTED: it has
 * what is not computed here; the message names file and part. On failure `*model` is NULL. */
neap_status neap_model_open(const char *name, neap_model **model);

/* Closes it; graphs that it has built stay. A session that reads weights from disk keeps the file open. Takes
 * NULL. */
void neap_model_close(neap_model *model);

typedef struct neap_model_description {
  neap_model_options usual; /* what it has if nothing else is asked for */
  neap_task task;           /* what it learns from */
  int64_t places;   /* the tokens that it has positions for, or that are in its window; 0: any number */
  bool places_grow; /* if it is built for longer sequences, it has positions for all of their tokens */
  bool packs;       /* if it predicts the next token, it can be built with neap_model_options.packed */
} neap_model_description;
neap_status neap_model_describe(const neap_model *model, neap_model_description *about);

/* Returns true if it is a file, which has the first values of its parameters. */
bool neap_model_is_file(const neap_model *model);
/* Returns true if that file has a language model of another program, or a classifier of texts or images in
 * such a format: a model that `neap finetune` can begin with. */
bool neap_model_is_language(const neap_model *model);

/* Returns true if a model of this name is a file; opens nothing. */
bool neap_model_names_file(const char *name);
bool neap_model_at(int32_t index, neap_row *row);

/* Builds the network of a model. Inputs: "image" [N, C, H, W] and "label" [N]; to classify pixels, "label"
 * [N, H', W'], the centre of the image if it is smaller. Models of sequences: "tokens" [N, T] of i32, or
 * "sequence" [N, T, K], and "label" [N, T]. Pairs of sequences: also "source" [N, S] of i32, padded with -1;
 * "tokens" are those of the target, one place later than its labels. `options` may be NULL: the usual ones.
 *
 * The graph that decodes has the parameters of the one that trains, at the same `length`, and no loss.
 * Inputs: "tokens" [N, 1]; for transformers also "position" [1] of i32, the number of earlier tokens, and
 * "length" [N], one more. The output is "logits" [N, 1, V]. Earlier tokens are kept as states
 * (neap_state). */
neap_status neap_model_build(const neap_model *model, const neap_model_options *options, neap_graph **graph);

/* Loads the values of the model's file into a session of its graph, built with these options; leaves those of
 * a ready-made model as they were drawn. NEAP_BAD_FORMAT: the file is damaged, or was changed since the model
 * was opened. */
neap_status neap_model_load(const neap_model *model, const neap_model_options *options,
                            neap_session *session);

#ifdef __cplusplus
}
#endif

#endif
