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

/* ---- Ready-made networks ---- */

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

bool neap_model_at(int32_t index, neap_row *row);
/* Whether a model of this name is a file's: its parameters begin with what that has. */
bool neap_model_is_file(const char *name);
/* Whether it is one whose file has a language model of others, or a classifier of texts or images as these
 * are kept: what `neap finetune` begins with. */
bool neap_model_is_language(const char *name);

#ifdef __cplusplus
}
#endif

#endif
