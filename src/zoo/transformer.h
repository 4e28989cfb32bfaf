/* Transformers that are one stack of blocks, by what they are made of: ready-made ones (transformer.c has
 * rows of these) and those of files (language/families.c). */
#ifndef NEAP_ZOO_TRANSFORMER_H
#define NEAP_ZOO_TRANSFORMER_H

#include "base/rotary.h"
#include "zoo/sequence.h"

/* Layers that a stack may have. Which ones are there says what is computed. */
enum part {
  PART_TOKEN,       /* embedding [vocabulary, width] */
  PART_PATCH,       /* in its place, of images: a convolution [width, channels, patch, patch] */
  PART_FIRST_TOKEN, /* bare [1, 1, width]: what stands before the patches */
  PART_POSITION,    /* embedding [places, width]; without it positions are rotary. Of images bare, [1, places,
                       width] */
  PART_SEGMENT,     /* embedding [2, width]: all tokens belong to the first segment */
  PART_EMBEDDING_NORM, /* of the sum of these */
  PART_ATTENTION_NORM, /* before attention; where norms come last behind the sum with it */
  PART_QKV,            /* queries, keys and values in one layer, or */
  PART_QUERY,          /* each in its own */
  PART_KEY,            /**/
  PART_VALUE,          /**/
  PART_QUERY_NORM,     /* of each head, or of all together, before positions */
  PART_KEY_NORM,       /**/
  PART_GLOBAL_QUERY,   /* those of tokens that attend to all, where there are any */
  PART_GLOBAL_KEY,     /**/
  PART_GLOBAL_VALUE,   /**/
  PART_ATTENTION_OUT,  /* from the heads to the width */
  PART_ATTENTION_POST, /* a norm of what attention gives */
  PART_FEED_NORM,      /* as PART_ATTENTION_NORM */
  PART_GATE,           /* where it is there: activation(gate x) * (up x); else activation(up x) */
  PART_UP,             /**/
  PART_DOWN,           /**/
  PART_ROUTER,         /* where it is there: scores of experts, each with three layers as those above: */
  PART_EXPERT_GATE,    /* the weights of all experts, one behind the other */
  PART_EXPERT_UP,      /**/
  PART_EXPERT_DOWN,    /**/
  PART_FEED_POST,      /* a norm of the layers' output above */
  PART_FINAL_NORM,     /* behind the last block */
  PART_HEAD_DENSE,     /* a layer with the activation before the head, and */
  PART_HEAD_NORM,      /* its norm */
  PART_HEAD,           /* to the vocabulary; its weight may be the embedding's */
  PART_POOLER,         /* of the first token, with tanh: a classifier's input */
  PART_CLASSIFIER,     /* to the classes or values */
  PARTS
};

enum activation { ACTIVATION_GELU, ACTIVATION_GELU_TANH, ACTIVATION_SILU, ACTIVATION_RELU };

/* The use of the last block's rows; neap_head has the same values. */
enum stack_head {
  STACK_TOKENS,
  STACK_CLASSES, /* of the first token */
  STACK_MEAN,    /* the mean over the tokens of a text, or */
  STACK_FIRST    /* its first token: an output "sentence", without a loss */
};

/* The name of a layer, in which %d means the number of the block, and %e in a file that of an expert; NULL:
 * it is missing. Parameters are "NAME.weight" and "NAME.bias"; those of norms may be called otherwise, and
 * those that are bare "NAME". */
struct part_row {
  const char *name;
  bool bias;
};

/* Divisors of rotary frequencies, one a pair (LongRoPE). */
struct long_rope {
  const float *within, *beyond; /* of graphs of at most `places` tokens, and of longer ones; NULL: none */
  int64_t places;
};

struct transformer {
  struct part_row parts[PARTS];
  const char *before; /* what all names begin with; NULL: nothing */
  double spread;      /* factor of the deviation of first values; 0: 1 */
  int64_t layers, width, heads, key_heads, hidden;
  int64_t head_width;     /* 0: width / heads */
  int64_t vocabulary;     /* 0: as many as there are classes */
  int64_t places;         /* tokens that it can tell apart by their places; 0: any number */
  int64_t first_place;    /* the row of the table that the first token has */
  int64_t first_block;    /* number of the first block in names */
  int64_t segments;       /* rows of PART_SEGMENT; 0: 2 */
  int64_t window;         /* of attention; 0: none */
  const int64_t *windows; /* of each block in its place; NULL: all have `window` */
  int64_t full_every;     /* each block of this number, the last of them, has no window; 0: all have it */
  int64_t still_every; /* each block of this number, the last of them, has no positions; 0: all have them */
  int64_t experts, experts_used, expert_hidden; /* of a block; of a row; as `hidden`. 0: there are none */
  bool experts_normalised; /* the weights of a row's experts sum to 1; else those of all do */
  int64_t turned;          /* elements of each head that rotary positions turn, the first ones; 0: all */
  int64_t image[3];        /* that it takes: channels, height, width */
  int64_t patch;           /* the side of its squares, which divides height and width */
  enum activation activation;
  enum stack_head head;
  int64_t outputs; /* of STACK_CLASSES: classes, or values */
  bool values;
  bool unit;                           /* the vector of a sentence is scaled to a length of 1 */
  bool causal;                         /* a token sees those before it alone */
  bool first_global;                   /* of STACK_CLASSES: the first token is global without patterns */
  bool norm_last;                      /* norms stand behind the sums, as in the first Transformer */
  bool rms;                            /* norms do not subtract the mean */
  bool packed_gate;                    /* PART_UP gives gate and up, one behind the other */
  bool wide_norms;                     /* PART_QUERY_NORM and PART_KEY_NORM normalise all heads together */
  bool tied;                           /* the head has the embedding's weights */
  float epsilon;                       /* of norms */
  float score_cap, logit_cap;          /* x becomes cap tanh(x / cap); 0: it stays */
  float attention_scale;               /* 0: 1 / sqrt(head_width) */
  float embedding_scale;               /* what embeddings of tokens are multiplied with; 0: 1 */
  const char *norm_weight, *norm_bias; /* NULL: "weight", "bias" */
  struct rotary_scaling scaling;
  float rotary_base; /* 0: 10000 */
  float local_base;  /* of blocks with the window, whose positions are not scaled; 0: as others */
  struct long_rope divisors;
};

/* The loss of the stack, or where it decodes its logits, as sequence_network says; `p` has the shape,
 * dropout, smoothing, and whether a side net is beside it. What cannot be built fails in the builder. */
neap_tensor transformer_build(neap_builder *b, const struct transformer *t, const struct blueprint *p);

/* Fails with NEAP_INVALID_ARGUMENT where heads, key heads and widths do not fit one another; `what` names the
 * model. */
neap_status transformer_check(const char *what, const struct transformer *t);

/* Returns true if a part is a parameter by itself, without ".weight". */
bool transformer_is_bare(const struct transformer *t, enum part part);

/* The name of a part's layer in block `block` of the stack, counted from 0. */
void transformer_name(const struct transformer *t, enum part part, int64_t block, char name[SEQUENCE_NAME]);

/* The same in a file, of one expert. */
void transformer_expert_name(const struct transformer *t, enum part part, int64_t block, int64_t expert,
                             char name[SEQUENCE_NAME]);

#endif
