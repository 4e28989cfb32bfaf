/* Declarations that the model files share. */
#ifndef NEAP_ZOO_ZOO_H
#define NEAP_ZOO_ZOO_H

#include "base/status.h"
#include "task/task.h"

/* The shape that a network is built for, and the numbers of its name. */
struct blueprint {
  int64_t batch, channels, height, width, classes;
  int64_t length;           /* of sequences */
  int64_t source_length;    /* of the first of a pair */
  int64_t places;           /* of tokens, that have an embedding each; 0: none has */
  int64_t decode;           /* above 0: one token a run, after this many at most; there is no loss then */
  int64_t window;           /* of attention; 0: none */
  const char *attention;    /* as neap_model_options */
  float smoothing, dropout; /* of sequences' networks */
  int64_t beams;            /* of pairs: see zoo_build_decoder; 0: a loss */
  int64_t numbers[4];
  bool batch_norm; /* vgg16-bn */
  bool packed;     /* rows hold several sequences: neap_model_options */
  float beta;      /* above 0: learns from preferences, as there */
  bool regression; /* `classes` are values */
  int64_t side;    /* above 0: a side net, whose widths are divided by this; the rest is frozen */
};

/* Logits [batch, classes] of an image [batch, channels, height, width]; or by pixel, [batch, classes, h, w].
 */
typedef neap_tensor network(neap_builder *b, neap_tensor image, const struct blueprint *p);

/* The loss of a network of sequences, which makes its inputs itself; of one that decodes -1 (and whatever has
 * failed in the builder). */
typedef neap_tensor sequence_network(neap_builder *b, const struct blueprint *p);

sequence_network build_gpt, build_gpt2, build_gpt2_medium, build_gpt2_large, build_gpt2_xl, build_llama,
    build_bert;                                                         /* transformer.c */
sequence_network build_lstm, build_char_lstm;                           /* recurrent.c */
sequence_network build_transformer, build_lightconv, build_dynamicconv; /* translation.c */

network build_mlp, build_layers, build_dlr, build_lenet;          /* small.c */
network build_wrn, build_preresnet;                               /* preresnet.c */
network build_resnet, build_bottlenecks;                          /* resnet.c */
network build_vgg;                                                /* vgg.c */
network build_densenet;                                           /* densenet.c */
network build_mobilenet_v2;                                       /* mobilenet.c */
network build_googlenet, build_googlenet_lrn, build_inception_v3; /* inception.c */
network build_unet;                                               /* unet.c */
network build_pspnet;                                             /* pspnet.c */

/* Check the numbers of a family's name; the message lists those that it knows. */
neap_status check_dlr(const struct blueprint *p), check_wrn(const struct blueprint *p),
    check_preresnet(const struct blueprint *p), check_resnet(const struct blueprint *p),
    check_bottlenecks(const struct blueprint *p), check_vgg(const struct blueprint *p),
    check_densenet(const struct blueprint *p), check_unet(const struct blueprint *p),
    check_pspnet(const struct blueprint *p), check_gpt(const struct blueprint *p),
    check_llama(const struct blueprint *p), check_bert(const struct blueprint *p),
    check_lstm(const struct blueprint *p), check_translation(const struct blueprint *p);

/* The row of a family; false: there is none of this number. */
bool zoo_at(int32_t index, neap_row *row);

/* Open, describe, build and close the model of a ready-made name, which is borrowed: the functions of struct
 * model_ops (src/model) for it. `masked` follows from the family and is ignored. */
neap_status zoo_open(const char *name, bool masked, void **model);
void zoo_close(void *model);
neap_status zoo_describe(const void *model, neap_model_description *about);
neap_status zoo_build(const void *model, const neap_model_options *options, neap_graph **graph);

/* The network of a model of pairs, and of no other, that tells how translations go on, with the parameters of
 * the model: `beams` of each "source" [N, S], up to T tokens long, R = N beams rows. neap_session_prepare
 * reads the sources. A prediction reads a token of each row, "tokens" [R, 1], which is the one after
 * "position" [1] earlier ones, and gives the "logits" [R, classes] of the next. What earlier predictions left
 * is by row; of two inputs it has the one that says what of it a row goes on with:
 *     "parent" [R]: the row whose tokens are before this one; negative: it is the first.
 *     "held" [R, T], by time: parent T + time before the position, R T + row at it, negative behind it. */
neap_status zoo_build_decoder(const void *model, const neap_model_options *options, int64_t beams,
                              neap_graph **graph);

/* "stage2.block3" */
void name_block(neap_builder *b, int64_t stage, int64_t block);

static inline neap_tensor convolve(neap_builder *b, neap_tensor x, int64_t filters, int64_t size,
                                   int64_t stride) {
  return neap_conv(
      b, x, (neap_conv_options){.filters = filters, .size = size, .stride = stride, .padding = size / 2});
}

static inline neap_tensor normalise(neap_builder *b, neap_tensor x) {
  return neap_batch_norm(b, x, (neap_batch_norm_options){0});
}

/* resnet.c, for networks that begin as one. `in`: channels of x; the 3x3 convolutions are dilated. */
enum { RESNET_STAGES = 4 };
struct resnet_depth {
  int64_t depth, blocks[RESNET_STAGES];
  bool bottleneck;
};
const struct resnet_depth *resnet_find_depth(int64_t depth); /* NULL: none */
neap_tensor resnet_block(neap_builder *b, neap_tensor x, int64_t in, int64_t width, int64_t stride,
                         int64_t dilation, bool bottleneck);

#endif
