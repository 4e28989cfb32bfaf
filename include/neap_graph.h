/* Build a network, or take a ready-made one.
 *
 * neap_builder_create; neap_input for what changes from step to step; operators (neap_operators.h), each of
 * which takes tensors and gives one; neap_output for what is to be read; neap_builder_finish with the loss.
 * Dimensions are in row-major order, the batch first. Axes count from 0; negative ones from the end, where -1
 * is the last.
 *
 * Parameters and running statistics have names, by which they are saved, loaded and grouped. Operators are
 * counted by kind, those of a scope apart: "conv1.weight", "block2.linear1.bias". Kinds with parameters:
 * conv, conv_transposed, linear (weight, bias); norm: batch norm (gamma, beta, running_mean,
 * running_variance); row_norm: layer, RMS and group norm (gamma, beta); embedding (weight); lstm, gru
 * (weight_ih, weight_hh, bias_ih, bias_hh). */
#ifndef NEAP_GRAPH_H
#define NEAP_GRAPH_H

#include "neap_status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct neap_graph neap_graph;     /* a computation; immutable, without data */
typedef struct neap_builder neap_builder; /* makes a graph */

/* A tensor of the graph under construction; negative after a failure. Every call accepts a failed tensor and
 * then returns one, so only neap_builder_finish has to be checked. */
typedef int32_t neap_tensor;

/* BIT: 8 a byte. BF16 and F16 are stored in 16 bits and computed with in f32. U16 and BLOCK (an i32 for every
 * 65536 elements) store the positions of sparse values; they are internal. Q8_0 to Q6_K are GGUF's: blocks of
 * 32 numbers (Q4_K, Q5_K, Q6_K: 256) of 4 to 8 bits that share a scale. NF4 is bitsandbytes': blocks of 64
 * indices of 4 bits into a table of numbers, with an f32 that multiplies them. I8 too: 64 numbers of 8 bits
 * with the largest absolute value of their row, which 127 stands for. Frozen parameters can be stored so.
 * DYN8S and DYN8U are those of states of 8 bits: blocks of 256 indices into bitsandbytes' dynamic maps, with
 * and without signs, and an f32 that multiplies them. */
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
  NEAP_I8,
  NEAP_DYN8S,
  NEAP_DYN8U
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

/* ---- Ready-made networks ---- */

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

bool neap_model_at(int32_t index, neap_row *row);
/* Returns true if a model of this name is a file, which has the first values of its parameters. */
bool neap_model_is_file(const char *name);
/* Returns true if that file has a language model of another program, or a classifier of texts or images in
 * such a format: a model that `neap finetune` can begin with. */
bool neap_model_is_language(const char *name);

#ifdef __cplusplus
}
#endif

#endif
