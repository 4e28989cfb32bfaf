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
 * and without signs, and an f32 that multiplies them. C8 and C4 are those of values that a gradient reads
 * (neap_session_options.compress): blocks of 256 numbers of 8 or 4 bits, with a step and a least number of
 * bf16. */
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
  NEAP_DYN8U,
  NEAP_C8,
  NEAP_C4
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

#ifdef __cplusplus
}
#endif

#endif
