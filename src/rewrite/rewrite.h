/* Rewrites of graphs. Each makes a new graph and leaves the old one unchanged. Inputs, parameters and states
 * keep their order. */
#ifndef NEAP_REWRITE_REWRITE_H
#define NEAP_REWRITE_REWRITE_H

#include "op/op.h"

/* Replaces several nodes by one if the result between them has no other reader: BatchNorm + Relu or Relu6
 * (whose gradient then only needs the input), BatchNorm + Add, with or without a Relu after it, Conv + Add
 * (the sum is made in the convolution's registers), Relu before MaxPool (whose gradient only needs the pool's
 * indices, so the large output is never made). `bits`: ReLU will keep bits for its gradient (rewrite_mask),
 * so that BatchNorm + Relu stay two. For a forward graph. */
neap_status rewrite_fuse(const struct neap_graph *graph, bool bits, struct neap_graph **out);

/* Lets ReLU keep a bit for each element instead of its output for the gradient, if the backward pass does not
 * read the output otherwise: before a dropout, a crop or a concatenation, but not before a convolution, whose
 * gradient reads it. BatchNorm with ReLU but without an addend only reads its input and stays unchanged. For
 * a training graph; the same bits. The plan decides whether it pays: making the output again may be
 * cheaper. */
neap_status rewrite_mask(const struct neap_graph *graph, struct neap_graph **out);

/* Has the backward pass read values in few bits: those that the forward pass makes of inputs and variables,
 * in f32, bf16 or f16, of 1,024 elements or more. A node Compress (op/quantised.c) rounds such a value at
 * random, a node Dequantise gives its numbers again, and the gradients read these. A value that some gradient
 * reads exactly (op_row.exact) stays, also for others; one of which a gradient takes the sign is kept as
 * bits, as by rewrite_mask. `text`: "8" or "4", the bits, or "4:LIST", with a list as in base/pattern.h of
 * the names of values. For a training graph; other bits. NEAP_INVALID_ARGUMENT: the text is malformed, or a
 * pattern matches no value that a gradient reads. */
neap_status rewrite_compress(const struct neap_graph *graph, const char *text, struct neap_graph **out);

/* Takes such a text apart; fails if it is malformed. `*list` NULL: all. */
neap_status compress_parse(const char *text, neap_dtype *dtype, const char **list);

/* Finds the residual branches over positions of a net with attention: what a sum of [N, T, width] adds to its
 * shortcut. Marks them (tensor.kept_rows), so that graph_add_training takes their gradients at a share of the
 * positions alone, 0 < share < 1: some rows of each sequence, drawn at each step for each branch
 * (OP_KEPT_ROWS). A class token is kept always. For a forward graph. NEAP_UNSUPPORTED: it has no such branch.
 */
neap_status rewrite_mark_branches(const struct neap_graph *graph, float share, struct neap_graph **out);

/* Has the backward pass of such branches compute with these rows, and read these rows of what the forward
 * pass made: nodes GatherRows take them there. Only what must be whole is scattered: the gradients of keys
 * and values are, and the sum with the gradient of the shortcut. For a training graph; the same sums in
 * another order. */
neap_status rewrite_keep_rows(const struct neap_graph *graph, struct neap_graph **out);

/* Makes the forward graph that computes only the named outputs, by the rules of evaluation. Nodes, inputs,
 * parameters and states that no output depends on are removed. NEAP_INVALID_ARGUMENT: the graph names no
 * output. */
neap_status rewrite_prediction(const struct neap_graph *graph, struct neap_graph **out);

/* Takes one part of a graph that predicts and has prepared states: the part that prepares them, without
 * outputs, or the other one. Both keep all inputs, parameters and states. */
neap_status rewrite_part(const struct neap_graph *graph, bool prepares, struct neap_graph **out);

/* Removes the nodes that neither the loss, nor the right answers, nor a named output of at most `outputs`
 * elements depends on, and the names of removed outputs. Variables and inputs stay. */
neap_status rewrite_prune(const struct neap_graph *graph, int64_t outputs, struct neap_graph **out);

/* Makes every real number f64, except inputs, which keep their type and are cast. Casts to types of fewer
 * bits still round to those. */
neap_status rewrite_widen(const struct neap_graph *graph, struct neap_graph **out);

/* Stores values and variables in `dtype` (bf16 or f16). Exceptions: inputs, which are cast where they are
 * read, losses, and operands that an operator only takes in f32, such as statistics (op_row.takes). `master`:
 * variables stay f32 and are cast where they are read. For a forward graph. */
neap_status rewrite_precision(const struct neap_graph *graph, neap_dtype dtype, bool master,
                              struct neap_graph **out);

/* Adds the gradients of a parameter with several contributing nodes directly to its momentum, so that they
 * need no buffer: m = momentum m + weight decay w comes before the first of them, w -= rate m after the last.
 * For SGD with a momentum, but not Nesterov's, if parameter and momentum are f32 of at most two dimensions.
 * Sums differ from SGD's in the last bits. For a training graph. */
neap_status rewrite_accumulate(const struct neap_graph *graph, struct neap_graph **out);

/* Freezes the parameters, except adapters, whose names match `patterns`, a list as in base/pattern.h: they
 * have no gradient and no optimizer state. A batch norm with gamma and beta frozen normalises by its running
 * statistics, which no longer change. For a forward graph. NEAP_INVALID_ARGUMENT: a pattern matches no
 * parameter, or no parameter is left to train. */
neap_status rewrite_freeze(const struct neap_graph *graph, const char *patterns, struct neap_graph **out);

/* Gives linear layers y = x W^T adapters of low rank (LoRA; Hu et al. 2021): y += alpha / rank (x A^T) B^T,
 * where x has gone through its own dropout. A [rank, inputs] and B [outputs, rank] are new parameters after
 * the others. For the weight "LAYER.weight" they are named "LAYER.lora_A.weight" and "LAYER.lora_B.weight". A
 * starts with uniform numbers up to 1 / sqrt(inputs), B with 0. Other parameters that match `freeze` are
 * frozen as by rewrite_freeze. For a forward graph. NEAP_INVALID_ARGUMENT: no linear layer matches; the
 * message names the first linear layer. */
struct lora_options {
  int32_t rank;         /* 1 or more */
  float alpha, dropout; /* dropout: a probability, 0 or more */
  /* The weights that get adapters, a list as in base/pattern.h, where "q_proj" also means any
   * "*.q_proj.weight". "all": all linear layers except those that give an output or that a loss reads;
   * "attention": those of attention by their usual names; NULL: of these the queries and values, as peft
   * does. */
  const char *layers;
  const char *freeze; /* NULL: all */
  bool root;          /* the scale is alpha over the root of the rank (rsLoRA) */
  bool dora;          /* weights have lengths of their own (DoRA); without dropout */
  float plus;         /* factor of B's learning rate (LoRA+); 0: 1 */
};

/* Returns what the product of an adapter is multiplied by. */
float lora_scale(float alpha, int64_t rank, bool root);

neap_status rewrite_lora(const struct neap_graph *graph, const struct lora_options *options,
                         struct neap_graph **out);

/* The frozen parameters that are stored in a quantised type. */
struct store_options {
  /* Entries PATTERN=TYPE, or !PATTERN for parameters to leave out; the last one that matches decides.
   * PATTERN=file: the types of the model's file, for parameters that are quantised there. */
  const char *list;
  const char *base; /* NULL, or the type of the weights that find_linear_weights marks, before the list */
  bool all;         /* nothing is trained: parameters that are not frozen count too */
};

/* Stores parameters in a quantised type; they are read through Dequantise (op/quantised.c) or as blocks.
 * Parameters of one dimension, or with rows that do not fill blocks, stay as they are. For a forward graph.
 * NEAP_INVALID_ARGUMENT: an entry is malformed, a type is unknown, a pattern matches no parameter or a
 * trained one, or none of the matching parameters can be stored so. */
neap_status rewrite_quantise(const struct neap_graph *graph, const struct store_options *options,
                             struct neap_graph **out);

/* Returns true, and gives the type, if these options, which a rewrite has accepted, quantise the parameter.
 * `linear`: it is the weight of a linear layer. */
bool quantised_type(const struct store_options *options, const struct tensor *parameter, bool linear,
                    neap_dtype *dtype);

/* Marks the weights of linear layers, by tensor, except those whose product is an output or is read by a
 * loss. `linear` starts zeroed. NEAP_OUT_OF_MEMORY. */
neap_status find_linear_weights(const struct neap_graph *graph, bool *linear);

/* Leaves frozen matrices that the model's file has (tensor.file_bytes), except small ones, on disk: they take
 * no memory, and a node Fetch makes the value that their readers read. A table only gives its rows, by
 * FetchRows. A loss that has the weights of its classes reads these itself, some at a time. The graph's name
 * ends in FETCH_SUFFIX. For a forward graph, after the rewrites that choose types. */
neap_status rewrite_fetch(const struct neap_graph *graph, struct neap_graph **out);
#define FETCH_SUFFIX "+disk"

/* Returns true if rewrite_fetch would leave a parameter on disk. */
bool rewrite_can_fetch(const struct neap_graph *graph);

/* Gives each of several processes a share of every large parameter that is not on disk: on a forward graph,
 * after rewrite_fetch. rewrite_gather then makes a node AllGather for their readers, except updates, in a
 * training graph or one that evaluates. That graph's name ends in SHARES_SUFFIX. */
void graph_share(struct neap_graph *graph, int32_t ranks);
neap_status rewrite_gather(const struct neap_graph *graph, struct neap_graph **out);
#define SHARES_SUFFIX "+shares"

/* Marks variables of a training graph that then lie in the session's file on disk, except small ones: states
 * that updates alone read, and trained parameters. graph_spill_like marks the parameters of an evaluation as
 * a training graph has them. rewrite_load then makes a node Load for the readers of such parameters, except
 * updates, which change them where they lie (kernel/spilled.h); rows are read as by rewrite_fetch. The
 * graph's name ends in those of the two suffixes that hold. */
struct spill_options {
  bool states, weights;
  bool sums; /* sums of gradients, too: updates alone read them */
};
void graph_spill(struct neap_graph *graph, struct spill_options options);
void graph_spill_like(struct neap_graph *graph, const struct neap_graph *training);
neap_status rewrite_load(const struct neap_graph *graph, struct neap_graph **out);
#define SPILLED_STATES  "+spilled-states"
#define SPILLED_WEIGHTS "+spilled-weights"

/* Gives cross-entropies of logits the weights of their classes, from an input CLASS_WEIGHTS, f32 [classes].
 * For a forward graph. NEAP_INVALID_ARGUMENT: the graph has no such loss, or several of different classes. */
neap_status rewrite_class_weights(const struct neap_graph *graph, struct neap_graph **out);
#define CLASS_WEIGHTS "class_weights"

/* Gives cross-entropies of logits second labels and the shares of the first, from inputs OTHER_LABELS, i32,
 * and LABEL_SHARES, f32, of the labels' shape. For a forward graph. NEAP_INVALID_ARGUMENT: the graph has no
 * such loss, or several of different labels. */
neap_status rewrite_mixed_labels(const struct neap_graph *graph, struct neap_graph **out);

/* Makes trained parameters sparse: those of two dimensions or more whose names match `pattern` keep a share
 * `density` of their values. All these values are in one parameter, SPARSE_POOL [values]. Each sparse
 * parameter has a state with its positions ("NAME.positions") and one that says where its values begin
 * ("NAME.offset"), and a node makes it dense (op/sparse.c) before it is read. If positions are indices, these
 * are in a state SPARSE_INDEX_POOL [values]. `pattern` NULL: the weights of all convolutions except the
 * first; without any, of all linear and recurrent layers except the last linear one. For a forward graph.
 * NEAP_INVALID_ARGUMENT: no such parameter exists. */
neap_status rewrite_sparse(const struct neap_graph *graph, double density, const char *pattern,
                           neap_sparse_positions positions, struct neap_graph **out);
#define SPARSE_POOL       "sparse.values"
#define SPARSE_INDEX_POOL "sparse.indices"

/* Makes the named input of f32 images one of bytes, and adds an input with their windows. A node
 * (op/pixels.c) makes the numbers, directly in the type that they are cast to. For a forward graph. */
neap_status rewrite_bytes(const struct neap_graph *graph, const neap_byte_input *input,
                          struct neap_graph **out);

/* Returns the number of elements that are kept of `elements`: at least one. */
int64_t sparse_count(int64_t elements, double density);

/* Variants of a training graph that give the same bits. The budget decides which has the cheapest plan. Rows
 * by neap_variant. */
struct graph_variant {
  const char *name, *summary;
  neap_status (*rewrite)(const struct neap_graph *training,
                         struct neap_graph **out); /* NULL: none is needed */
};
enum { VARIANT_LIMIT = 8 };
extern const struct graph_variant graph_variants[];
extern const int32_t graph_variant_count;

/* Makes a variant of a training graph, named "GRAPH+VARIANT"; NULL if the variant is the graph itself. */
neap_status rewrite_variant(const struct neap_graph *graph, neap_variant variant, struct neap_graph **out);

/* Makes the forward graph that evaluates: batch norm reads the running statistics, dropout is removed,
 * nothing is updated. `plain`: losses have no smoothing, class weights or second labels. */
neap_status rewrite_evaluation(const struct neap_graph *graph, bool plain, struct neap_graph **out);

/* Has trained parameters that a node reads (tensor.perturbed) read with noise: linear layers, tables and
 * losses add it to what they read; for others a node Perturb makes the value. The graph's name ends in
 * PERTURBED_SUFFIX. For a forward graph that evaluates, after the rewrites that choose types. */
neap_status rewrite_perturb(const struct neap_graph *graph, struct neap_graph **out);
#define PERTURBED_SUFFIX "+mezo"

#endif
