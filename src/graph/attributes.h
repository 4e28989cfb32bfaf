/* The arguments of an operator besides tensors: a struct for each family of operators, in a union. A family
 * describes its struct by rows of name, type and place, which serve printing and the keys of measured costs
 * (attributes_print). */
#ifndef NEAP_GRAPH_ATTRIBUTES_H
#define NEAP_GRAPH_ATTRIBUTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/attention_pattern.h"
#include "base/places.h"
#include "base/rotary.h"

enum { ATTRIBUTE_MAX_AXES = 8 };

struct conv_attributes { /* both axes alike, but for the padding of rows and of columns */
  int64_t stride, dilation, groups, padding[2];
  int64_t output_padding; /* transposed: rows and columns that the size leaves open */
};

struct pool_attributes {
  int64_t size, stride, padding;
  bool ceil;          /* a window that the image fills in part counts, too */
  bool count_padding; /* of an average: padding counts as zeros */
  bool relu;          /* of a maximum: with ReLU before it */
};

struct batch_norm_attributes {
  float epsilon, momentum;
  bool relu;     /* with ReLU behind it */
  float ceiling; /* of that ReLU; 0: none */
  int64_t count; /* of running statistics: the elements that a mean was taken over */
  bool fixed;    /* mean and variance are not those of x: no gradient goes through them */
};

struct row_norm_attributes { /* of rows of `length` elements, which `groups` consecutive ones share a scale */
  int64_t length, groups, inner; /* inner: neighbours in a row that share an element of the scale */
  float epsilon;
  bool centred; /* the mean is taken off */
};

struct response_attributes { /* local response normalisation */
  int64_t size;
  float alpha, beta, k;
};

struct part_attributes { /* of one axis: elements from `first` on; axis alone: concatenation, softmax */
  int64_t axis, first, count;
};

struct take_attributes { /* `count` elements of one axis, at regular places */
  int64_t axis, count;
  struct take_places places;
  float value; /* of places outside, where the border is a constant */
};

struct crop_attributes {
  int64_t top, left, height, width; /* its corner in the input, and its size */
};

struct resize_attributes {
  int64_t height, width; /* of the output */
  bool align_corners;
};

struct pixels_attributes {
  float mean[4], deviation[4]; /* of the channels */
  int32_t dtype;               /* of the output */
};

struct sequence_conv_attributes {
  int64_t padding; /* rows of zeros before the sequence */
  int64_t first;   /* the first time that the result has */
};

struct dropout_attributes {
  float probability;
  int32_t stream; /* which random stream, the same in its gradient */
};

struct attention_attributes {
  int64_t key_heads; /* of packed queries, keys and values; 0: they are given apart */
  bool causal;
  struct attention_heads patterns;
  float scale;       /* of scores; 0: 1 / sqrt of the depth of a head */
  float cap;         /* scores are cap tanh(score / cap); 0: they stay */
  float probability; /* of dropout of the weights */
  int32_t stream;    /* which random stream, the same in its gradient */
  int64_t length;    /* backward: of the queries of a sequence, of which some rows are given; 0: all are */
};

struct rotary_attributes {
  int64_t heads; /* that are turned, the first ones; 0: all */
  int64_t first; /* position of the first row */
  int64_t width; /* elements of each of them that are turned, the first ones; 0: all */
  float base;
  struct rotary_scaling scaling; /* divisors of frequencies: the node's numbers */
  bool back;                     /* the other way, as the gradient is turned */
};

struct route_attributes {
  int64_t count;   /* experts of a row */
  bool normalised; /* their weights sum to 1; else all experts' do */
};

struct positions_attributes {
  int64_t length, width, first; /* of the output; position of its first row */
};

struct kept_rows_attributes { /* of a sequence of `length` rows */
  int64_t length;
  int64_t first;   /* rows that are kept always, the first ones */
  int64_t columns; /* of the grid that the others lie in; 1: they lie in a line */
  float share;     /* of them that is kept */
};

struct loss_attributes {
  float smoothing; /* of labels */
  int64_t ignored; /* a label that does not count, as those that are no class do not */
  float beta;      /* smooth L1: where it becomes linear */
  bool by_target;  /* of a gradient: by the target, not by the prediction */
  int64_t first;   /* of the labels: that of the first row */
  bool fixed;      /* of a gradient: the weights have none */
  int64_t times; /* labels are [N, times], rows stand by time: row r has label [r % N, r / N]; 0: in order */
};

struct scalar_attributes {
  float a, b; /* the numbers of the scalar expression: elementwise.h */
};

struct matmul_attributes {
  bool a_transposed, b_transposed;
};

struct solve_attributes {
  bool transposed; /* the matrix is L^T */
  bool right;      /* it stands at the right of the solution */
};

struct axes_attributes { /* sums */
  int64_t axes;          /* a bit an axis */
  float scale;           /* factor of the sum */
};

struct expand_attributes {
  int64_t dims[ATTRIBUTE_MAX_AXES]; /* of the output */
  float scale;
};

struct order_attributes {
  int64_t order[ATTRIBUTE_MAX_AXES]; /* axis i of the output is axis order[i] of the input */
};

struct update_attributes {
  float rate; /* times the learning rate of the step */
  float momentum, weight_decay, beta1, beta2, epsilon;
  float origin; /* what weight decay draws the parameter to */
  bool nesterov;
  int64_t projection_rank, projection_every; /* numbers that a side of a gradient becomes; updates between new
                                                projections */
  float projection_scale;
  int64_t block, blocked; /* blocks of a second moment (struct matrix_shape) */
};

/* Zeroed where an operator has none. */
union attributes {
  struct conv_attributes conv;
  struct pool_attributes pool;
  struct batch_norm_attributes batch_norm;
  struct row_norm_attributes row_norm;
  struct response_attributes response;
  struct part_attributes part;
  struct take_attributes take;
  struct crop_attributes crop;
  struct resize_attributes resize;
  struct pixels_attributes pixels;
  struct sequence_conv_attributes sequence_conv;
  struct dropout_attributes dropout;
  struct attention_attributes attention;
  struct rotary_attributes rotary;
  struct route_attributes route;
  struct positions_attributes positions;
  struct kept_rows_attributes kept_rows;
  struct loss_attributes loss;
  struct scalar_attributes scalar;
  struct matmul_attributes matmul;
  struct solve_attributes solve;
  struct axes_attributes axes;
  struct expand_attributes expand;
  struct order_attributes order;
  struct update_attributes update;
  int32_t dtype; /* a cast: of the output */
  int64_t size;  /* adaptive pooling: rows and columns of the output */
};

enum attribute_type {
  ATTRIBUTE_INTEGER, /* int64_t */
  ATTRIBUTE_INT32,
  ATTRIBUTE_REAL, /* float */
  ATTRIBUTE_FLAG  /* bool */
};

struct attribute_row {
  const char *name;
  enum attribute_type type;
  size_t offset;
  bool no_cost; /* says which of equal nodes it is: no kernel's time depends on it */
  double usual; /* what 0 means in a call of the builder */
};

/* The row of a member of the union: ATTRIBUTE(pool.stride, INTEGER). An array has a row an element. */
#define ATTRIBUTE(member, kind) ATTRIBUTE_USUAL(member, kind, 0)
#define ATTRIBUTE_USUAL(member, kind, usual)                                                                 \
  { #member, ATTRIBUTE_##kind, offsetof(union attributes, member), false, usual }

/* Replaces each 0 by the number that it means. */
void attributes_complete(union attributes *attributes, const struct attribute_row *rows, int32_t count);

/* " pool.size 3 pool.stride 2 ..." of what is not 0. `cost`: only what a kernel's time may depend on. */
void attributes_print(FILE *file, const union attributes *attributes, const struct attribute_row *rows,
                      int32_t count, bool cost);

#endif
