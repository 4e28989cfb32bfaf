/* Graph to graph. Each rewrite makes a new graph and leaves the old one as it is. Inputs, parameters and
 * states keep their order. */
#ifndef NEAP_REWRITE_REWRITE_H
#define NEAP_REWRITE_REWRITE_H

#include "op/op.h"

/* One kernel instead of several where the result between them has no other reader: BatchNorm + Relu or Relu6
 * (whose gradient then needs the input alone), BatchNorm + Add, with or without Relu behind it, Conv + Add
 * (the sum is made in the convolution's registers), Relu before MaxPool (whose gradient needs the pool's
 * indices alone, and the large output is never made). On a forward graph. */
neap_status rewrite_fuse(const struct neap_graph *graph, struct neap_graph **out);

/* ReLU keeps a bit an element for its gradient instead of its output, wherever the output has no other reader
 * in the backward pass: before a dropout, a crop or a concatenation, not before a convolution, whose
 * gradient reads it. BatchNorm with ReLU in it, but without an addend, reads its input alone and stays as it
 * is. On a training graph; the same bits. Whether it pays depends on the plan: it may be cheaper to make the
 * output again. */
neap_status rewrite_mask(const struct neap_graph *graph, struct neap_graph **out);

/* The forward graph that makes the named outputs and nothing else, by the rules of evaluation: what no output
 * depends on is gone, inputs, parameters and states too. NEAP_INVALID_ARGUMENT: the graph names no output. */
neap_status rewrite_prediction(const struct neap_graph *graph, struct neap_graph **out);

/* Of a graph that predicts and has states that are prepared: the part that prepares them, without outputs, or
 * the other one. Inputs, parameters and states all stay in both. */
neap_status rewrite_part(const struct neap_graph *graph, bool prepares, struct neap_graph **out);

/* Without the nodes that neither the loss nor the right answers depend on, nor a named output of at most so
 * many elements; nor the names of outputs that are gone. Variables and inputs stay. */
neap_status rewrite_prune(const struct neap_graph *graph, int64_t outputs, struct neap_graph **out);

/* Every real number becomes f64, but for inputs, which keep their type and are cast. Casts to types of fewer
 * bits still round to those. */
neap_status rewrite_widen(const struct neap_graph *graph, struct neap_graph **out);

/* Values and variables are stored in `dtype` (bf16 or f16), but for inputs, which are cast where they are
 * read, for losses, and for what an operator takes in f32 alone, such as statistics (op_row.takes).
 * `master`: variables stay f32 and are cast where they are read. On a forward graph. */
neap_status rewrite_precision(const struct neap_graph *graph, neap_dtype dtype, bool master,
                              struct neap_graph **out);

/* Gradients by a parameter that several nodes add to are added to its momentum itself, so that there is no
 * buffer for them: m = momentum m + weight decay w comes before the first of them, w -= rate m after the
 * last. For SGD with a momentum, not Nesterov's, where parameter and momentum are f32 of at most two
 * dimensions. Other sums than SGD's in the last bits. On a training graph. */
neap_status rewrite_accumulate(const struct neap_graph *graph, struct neap_graph **out);

/* Parameters whose names are in `patterns`, a list as base/pattern.h has it, but no adapters are frozen: they
 * have no gradient and no optimizer state. A batch norm whose gamma and beta both are normalises by its
 * running statistics, which stay as they are. On a forward graph. NEAP_INVALID_ARGUMENT: a pattern matches no
 * parameter, or no parameter is left to train. */
neap_status rewrite_freeze(const struct neap_graph *graph, const char *patterns, struct neap_graph **out);

/* Linear layers y = x W^T get adapters of low rank (LoRA; Hu et al. 2021): y += alpha / rank (x A^T) B^T,
 * where x has gone through a dropout of its own. A [rank, inputs] and B [outputs, rank] are new parameters
 * behind the others, named "LAYER.lora_A.weight" and "LAYER.lora_B.weight" for the weight "LAYER.weight": A
 * begins with uniform numbers up to 1 / sqrt(inputs), B with 0. What `freeze` names of the others is frozen
 * as by rewrite_freeze. On a forward graph. NEAP_INVALID_ARGUMENT: what is asked for is no
 * linear layer; the message names the first that there is. */
struct lora_options {
  int32_t rank;         /* 1 or more */
  float alpha, dropout; /* dropout: a probability, 0 or more */
  /* Weights, a list as base/pattern.h has it, where "q_proj" also means any "*.q_proj.weight"; "all":
   * all linear layers but those that give an output or what a loss reads; "attention": those of attention by
   * their usual names; NULL: of these the queries and values, as peft does. */
  const char *layers;
  const char *freeze; /* NULL: all */
};
neap_status rewrite_lora(const struct neap_graph *graph, const struct lora_options *options,
                         struct neap_graph **out);

/* Which frozen parameters are stored in a quantised type. */
struct store_options {
  /* Entries PATTERN=TYPE or !PATTERN, which takes out what it matches; the last one that matches decides.
   * PATTERN=file: the types that parameters have in the model's file, where these are quantised. */
  const char *list;
  const char *base; /* NULL, or the type of the weights that find_linear_weights marks, before the list */
  bool all;         /* nothing is trained: parameters that are not frozen count, too */
};

/* Parameters are stored in a quantised type and read through Dequantise (op/quantised.c), or as blocks. What
 * has one dimension, or rows that are no whole blocks, stays as it is. On a forward graph.
 * NEAP_INVALID_ARGUMENT: an entry is neither, a type is unknown, a pattern matches no parameter or a trained
 * one, or no parameter that was asked for can be stored so. */
neap_status rewrite_quantise(const struct neap_graph *graph, const struct store_options *options,
                             struct neap_graph **out);

/* Whether such options, which a rewrite has taken, have a parameter; and the type. `linear`: it is the weight
 * of a linear layer. */
bool quantised_type(const struct store_options *options, const struct tensor *parameter, bool linear,
                    neap_dtype *dtype);

/* Marks the weights of linear layers, by tensor, but those whose product is an output or is read by a loss.
 * `linear` is zeroed. NEAP_OUT_OF_MEMORY. */
neap_status find_linear_weights(const struct neap_graph *graph, bool *linear);

/* Frozen matrices that the model's file has (tensor.file_bytes), but for small ones, lie on disk: they take
 * no bytes, and a node Fetch makes the value that their readers read. A table gives its rows by FetchRows
 * alone, and a loss that has the weights of its classes reads these itself, some at a time. The graph's name
 * ends in FETCH_SUFFIX. On a forward graph, after the rewrites that choose types. */
neap_status rewrite_fetch(const struct neap_graph *graph, struct neap_graph **out);
#define FETCH_SUFFIX "+disk"

/* Whether the graph has a parameter for it. */
bool rewrite_can_fetch(const struct neap_graph *graph);

/* Gives each of several processes a share of every large parameter that is not on disk: on a forward graph,
 * after rewrite_fetch. rewrite_gather then makes a node AllGather for what reads one, but for updates; of a
 * training graph, or one that evaluates. That graph's name ends in SHARES_SUFFIX. */
void graph_share(struct neap_graph *graph, int32_t ranks);
neap_status rewrite_gather(const struct neap_graph *graph, struct neap_graph **out);
#define SHARES_SUFFIX "+shares"

/* Cross-entropies of logits take the weights of their classes from an input CLASS_WEIGHTS, f32 [classes]. On
 * a forward graph. NEAP_INVALID_ARGUMENT: the graph has no such loss, or several of different classes. */
neap_status rewrite_class_weights(const struct neap_graph *graph, struct neap_graph **out);
#define CLASS_WEIGHTS "class_weights"

/* Cross-entropies of logits take second labels and the shares of the first from inputs OTHER_LABELS, i32, and
 * LABEL_SHARES, f32, of the labels' shape. On a forward graph. NEAP_INVALID_ARGUMENT: the graph has no such
 * loss, or several of different labels. */
neap_status rewrite_mixed_labels(const struct neap_graph *graph, struct neap_graph **out);

/* Trained parameters of two dimensions or more whose names match `pattern` keep a share `density` of their
 * values: all these values stand in one parameter, SPARSE_POOL [values]; each has a state of positions
 * ("NAME.positions") and one that says where its own begin ("NAME.offset"), and is made dense by a node
 * (op/sparse.c) before it is read. Where positions are indices, these stand in a state SPARSE_INDEX_POOL
 * [values]. NULL: the weights of all convolutions but the first; if none exists, of all linear and
 * recurrent layers but the last linear one. On a forward graph. NEAP_INVALID_ARGUMENT: there is no such
 * parameter. */
neap_status rewrite_sparse(const struct neap_graph *graph, double density, const char *pattern,
                           neap_sparse_positions positions, struct neap_graph **out);
#define SPARSE_POOL       "sparse.values"
#define SPARSE_INDEX_POOL "sparse.indices"

/* The input of f32 images that is named becomes one of bytes, with windows beside it; a node (op/pixels.c)
 * makes the numbers of them, in the type that they are cast to where they are. On a forward graph. */
neap_status rewrite_bytes(const struct neap_graph *graph, const neap_byte_input *input,
                          struct neap_graph **out);

/* Of this many elements those that are kept: at least one. */
int64_t sparse_count(int64_t elements, double density);

/* Graphs for one training step that leave the same bits behind. Which has the cheapest plan depends on the
 * budget. Rows by neap_variant. */
struct graph_variant {
  const char *name, *summary;
  neap_status (*rewrite)(const struct neap_graph *training,
                         struct neap_graph **out); /* NULL: none is needed */
};
enum { VARIANT_LIMIT = 8 };
extern const struct graph_variant graph_variants[];
extern const int32_t graph_variant_count;

/* A training graph in a variant, under the name "GRAPH+VARIANT"; NULL where that is the graph as it is. */
neap_status rewrite_variant(const struct neap_graph *graph, neap_variant variant, struct neap_graph **out);

/* The forward graph that evaluates: batch norm reads the running statistics, dropout is gone, nothing is
 * updated. */
neap_status rewrite_evaluation(const struct neap_graph *graph, struct neap_graph **out);

#endif
