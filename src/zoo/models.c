/* The table of ready-made networks. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zoo/zoo.h"

struct family {
  const char *pattern; /* a name; each # means a number */
  const char *summary, *source;
  network *build;
  neap_status (*check)(const struct blueprint *p); /* NULL: any numbers, or none */
  int64_t image[3], classes, batch;
  neap_task kind;
  sequence_network *build_sequence; /* of sequences, for which the one above is NULL */
  bool is_stack;                    /* a transformer of one stack */
  int64_t length;
  int64_t places; /* that have an embedding: this many, or the length where that is more; 0: none has */
};

static const struct family families[] = {
    {.pattern = "mlp",
     .summary = "two hidden layers of 256",
     .build = build_mlp,
     .image = {1, 28, 28},
     .classes = 10,
     .batch = 100},
    {.pattern = "mlp-#",
     .summary = "rows of numbers, or images; a hidden layer of that width",
     .build = build_layers,
     .kind = NEAP_TASK_FEATURES,
     .image = {32},
     .classes = 2,
     .batch = 100},
    {.pattern = "mlp-#x#",
     .summary = "the same with two hidden layers",
     .build = build_layers,
     .kind = NEAP_TASK_FEATURES,
     .image = {32},
     .classes = 2,
     .batch = 100},
    {.pattern = "mlp-#x#x#",
     .summary = "with three",
     .build = build_layers,
     .kind = NEAP_TASK_FEATURES,
     .image = {32},
     .classes = 2,
     .batch = 100},
    {.pattern = "mlp-#x#x#x#",
     .summary = "with four",
     .build = build_layers,
     .kind = NEAP_TASK_FEATURES,
     .image = {32},
     .classes = 2,
     .batch = 100},
    {.pattern = "dlr-#x#x#x#",
     .summary = "rows of numbers, or images; deep networks of low rank: layers, width, rank, blocks a layer",
     .source = "DLR-Lock 2026",
     .build = build_dlr,
     .check = check_dlr,
     .kind = NEAP_TASK_FEATURES,
     .image = {32},
     .classes = 2,
     .batch = 100},
    {.pattern = "lenet",
     .summary = "convolutional network for digits",
     .source = "LeCun et al. 1998",
     .build = build_lenet,
     .image = {1, 28, 28},
     .classes = 10,
     .batch = 100},
    {.pattern = "wrn-#-#",
     .summary = "wide residual network, depth 6n+4 and width",
     .source = "Zagoruyko & Komodakis 2016",
     .build = build_wrn,
     .check = check_wrn,
     .image = {3, 32, 32},
     .classes = 10,
     .batch = 100},
    {.pattern = "preresnet-#",
     .summary = "pre-activation residual network: depth 6n+2, or 9n+2 with bottlenecks from 164 on",
     .source = "He et al. 2016b",
     .build = build_preresnet,
     .check = check_preresnet,
     .image = {3, 32, 32},
     .classes = 10,
     .batch = 100},
    {.pattern = "resnet#",
     .summary = "residual network of depth 18, 34, 50, 101 or 152",
     .source = "He et al. 2016a",
     .build = build_resnet,
     .check = check_resnet,
     .image = {3, 224, 224},
     .classes = 1000,
     .batch = 8},
    {.pattern = "resnet-bottleneck-#-#-#-#",
     .summary = "residual network: bottlenecks in each of 4 stages",
     .source = "He et al. 2016a",
     .build = build_bottlenecks,
     .check = check_bottlenecks,
     .image = {3, 224, 224},
     .classes = 1000,
     .batch = 8},
    {.pattern = "vgg#",
     .summary = "plain network of depth 16 or 19",
     .source = "Simonyan & Zisserman 2015",
     .build = build_vgg,
     .check = check_vgg,
     .image = {3, 224, 224},
     .classes = 1000,
     .batch = 8},
    {.pattern = "vgg#-bn",
     .summary = "the same with batch norm",
     .source = "Simonyan & Zisserman 2015",
     .build = build_vgg,
     .check = check_vgg,
     .image = {3, 224, 224},
     .classes = 1000,
     .batch = 8},
    {.pattern = "densenet#",
     .summary = "densely connected network of depth 121, 161, 169 or 201",
     .source = "Huang et al. 2017",
     .build = build_densenet,
     .check = check_densenet,
     .image = {3, 224, 224},
     .classes = 1000,
     .batch = 32},
    {.pattern = "googlenet",
     .summary = "inception modules with batch norm",
     .source = "Szegedy et al. 2015",
     .build = build_googlenet,
     .image = {3, 224, 224},
     .classes = 1000,
     .batch = 256},
    {.pattern = "googlenet-lrn",
     .summary = "inception modules with local response normalisation",
     .source = "Szegedy et al. 2015",
     .build = build_googlenet_lrn,
     .image = {3, 224, 224},
     .classes = 1000,
     .batch = 256},
    {.pattern = "inception-v3",
     .summary = "inception modules with 1x7 and 7x1 kernels",
     .source = "Szegedy et al. 2016",
     .build = build_inception_v3,
     .image = {3, 299, 299},
     .classes = 1000,
     .batch = 32},
    {.pattern = "mobilenet-v2",
     .summary = "inverted residuals with depthwise convolutions",
     .source = "Sandler et al. 2018",
     .build = build_mobilenet_v2,
     .image = {3, 224, 224},
     .classes = 1000,
     .batch = 96},
    {.pattern = "unet",
     .summary = "classes of pixels, unpadded, 64 filters in its first level",
     .source = "Ronneberger et al. 2015",
     .build = build_unet,
     .check = check_unet,
     .kind = NEAP_TASK_PIXELS,
     .image = {1, 572, 572},
     .classes = 2,
     .batch = 8},
    {.pattern = "unet-#",
     .summary = "the same; filters in its first level",
     .source = "Ronneberger et al. 2015",
     .build = build_unet,
     .check = check_unet,
     .kind = NEAP_TASK_PIXELS,
     .image = {1, 572, 572},
     .classes = 2,
     .batch = 8},
    {.pattern = "pspnet",
     .summary = "classes of pixels, dilated residual network of depth 101 with pyramid pooling",
     .source = "Zhao et al. 2017",
     .build = build_pspnet,
     .check = check_pspnet,
     .kind = NEAP_TASK_PIXELS,
     .image = {3, 713, 713},
     .classes = 21,
     .batch = 2},
    {.pattern = "pspnet-#",
     .summary = "the same of depth 18, 34, 50, 101 or 152",
     .source = "Zhao et al. 2017",
     .build = build_pspnet,
     .check = check_pspnet,
     .kind = NEAP_TASK_PIXELS,
     .image = {3, 713, 713},
     .classes = 21,
     .batch = 2},
    {.pattern = "gpt-#x#x#",
     .summary = "decoder: layers, width, heads",
     .source = "Radford et al. 2018",
     .check = check_gpt,
     .classes = 256,
     .batch = 8,
     .kind = NEAP_TASK_TOKENS,
     .build_sequence = build_gpt,
     .is_stack = true,
     .length = 256,
     .places = 1},
    {.pattern = "gpt2",
     .summary = "GPT-2 small: 12 layers, width 768",
     .source = "Radford et al. 2019",
     .classes = 50257,
     .batch = 4,
     .kind = NEAP_TASK_TOKENS,
     .build_sequence = build_gpt2,
     .is_stack = true,
     .length = 1024,
     .places = 1024},
    {.pattern = "gpt2-medium",
     .summary = "24 layers, width 1024",
     .source = "Radford et al. 2019",
     .classes = 50257,
     .batch = 4,
     .kind = NEAP_TASK_TOKENS,
     .build_sequence = build_gpt2_medium,
     .is_stack = true,
     .length = 1024,
     .places = 1024},
    {.pattern = "gpt2-large",
     .summary = "36 layers, width 1280",
     .source = "Radford et al. 2019",
     .classes = 50257,
     .batch = 4,
     .kind = NEAP_TASK_TOKENS,
     .build_sequence = build_gpt2_large,
     .is_stack = true,
     .length = 1024,
     .places = 1024},
    {.pattern = "gpt2-xl",
     .summary = "48 layers, width 1600",
     .source = "Radford et al. 2019",
     .classes = 50257,
     .batch = 4,
     .kind = NEAP_TASK_TOKENS,
     .build_sequence = build_gpt2_xl,
     .is_stack = true,
     .length = 1024,
     .places = 1024},
    {.pattern = "llama-#x#x#x#",
     .summary = "decoder with RMS norm, rotary positions, SwiGLU: layers, width, heads, key heads",
     .source = "Touvron et al. 2023",
     .check = check_llama,
     .classes = 32000,
     .batch = 4,
     .kind = NEAP_TASK_TOKENS,
     .build_sequence = build_llama,
     .is_stack = true,
     .length = 1024},
    {.pattern = "bert-#x#x#",
     .summary = "encoder of masked tokens: layers, width, heads",
     .source = "Devlin et al. 2019",
     .check = check_bert,
     .classes = 30522,
     .batch = 8,
     .kind = NEAP_TASK_MASKED,
     .build_sequence = build_bert,
     .is_stack = true,
     .length = 128,
     .places = 512},
    {.pattern = "lstm-#x#",
     .summary = "LSTM over vectors of 50: layers, width",
     .source = "Chen et al. 2016",
     .check = check_lstm,
     .classes = 5000,
     .batch = 64,
     .kind = NEAP_TASK_VECTORS,
     .build_sequence = build_lstm,
     .image = {50},
     .length = 64},
    {.pattern = "char-lstm-#x#",
     .summary = "LSTM over tokens: layers, width",
     .source = "Karpathy et al. 2015",
     .check = check_lstm,
     .classes = 256,
     .batch = 32,
     .kind = NEAP_TASK_TOKENS,
     .build_sequence = build_char_lstm,
     .length = 128},
    {.pattern = "transformer",
     .summary = "encoder and decoder of 6 layers, width 512",
     .source = "Vaswani et al. 2017",
     .check = check_translation,
     .classes = 10000,
     .batch = 32,
     .kind = NEAP_TASK_PAIRS,
     .build_sequence = build_transformer,
     .length = 32},
    {.pattern = "transformer-#",
     .summary = "the same; width",
     .source = "Vaswani et al. 2017",
     .check = check_translation,
     .classes = 10000,
     .batch = 32,
     .kind = NEAP_TASK_PAIRS,
     .build_sequence = build_transformer,
     .length = 32},
    {.pattern = "lightconv",
     .summary = "encoder and decoder of lightweight convolutions, width 512",
     .source = "Wu et al. 2019",
     .check = check_translation,
     .classes = 10000,
     .batch = 32,
     .kind = NEAP_TASK_PAIRS,
     .build_sequence = build_lightconv,
     .length = 32},
    {.pattern = "lightconv-#",
     .summary = "the same; width",
     .source = "Wu et al. 2019",
     .check = check_translation,
     .classes = 10000,
     .batch = 32,
     .kind = NEAP_TASK_PAIRS,
     .build_sequence = build_lightconv,
     .length = 32},
    {.pattern = "dynamicconv",
     .summary = "encoder and decoder of dynamic convolutions, width 512",
     .source = "Wu et al. 2019",
     .check = check_translation,
     .classes = 10000,
     .batch = 32,
     .kind = NEAP_TASK_PAIRS,
     .build_sequence = build_dynamicconv,
     .length = 32},
    {.pattern = "dynamicconv-#",
     .summary = "the same; width",
     .source = "Wu et al. 2019",
     .check = check_translation,
     .classes = 10000,
     .batch = 32,
     .kind = NEAP_TASK_PAIRS,
     .build_sequence = build_dynamicconv,
     .length = 32},
};
enum { FAMILIES = sizeof families / sizeof *families };

bool zoo_at(int32_t index, neap_row *row) {
  if (index < 0 || index >= FAMILIES) return false;
  *row = (neap_row){
      .name = families[index].pattern, .summary = families[index].summary, .source = families[index].source};
  return true;
}

/* Does a name have the form of a pattern? Its numbers are 1 to 99999. */
static bool matches(const char *pattern, const char *name, int64_t *numbers) {
  int count = 0;
  for (; *pattern != '\0'; pattern++) {
    if (*pattern != '#') {
      if (*name++ != *pattern) return false;
      continue;
    }
    if (!isdigit((unsigned char)*name) || *name == '0') return false;
    char *end;
    numbers[count] = strtol(name, &end, 10);
    if (end - name > 5 || count++ == 4) return false;
    name = end;
  }
  return *name == '\0';
}

static neap_status find_family(const char *name, int64_t *numbers, const struct family **family) {
  RETURN_IF(name == NULL, NEAP_INVALID_ARGUMENT, "a model needs a name; `neap models` lists them");
  for (int i = 0; i < FAMILIES; i++) {
    *family = &families[i];
    if (matches(families[i].pattern, name, numbers)) return NEAP_OK;
  }
  return neap_fail(NEAP_INVALID_ARGUMENT, "there is no model '%s'; `neap models` lists them", name);
}

static int64_t places_of(const struct family *family, int64_t length) {
  return family->places == 0 || family->places > length ? family->places : length;
}

/* A name of a family. */
struct zoo_model {
  const char *name;
  const struct family *family;
  int64_t numbers[4];
};

neap_status zoo_open(const char *name, bool masked, void **model) {
  struct zoo_model found = {.name = name};
  (void)masked;
  TRY(find_family(name, found.numbers, &found.family));
  struct zoo_model *m = malloc(sizeof *m);
  RETURN_IF_NULL(m);
  *m = found;
  *model = m;
  return NEAP_OK;
}

void zoo_close(void *model) { free(model); }

neap_status zoo_describe(const void *model, neap_model_description *about) {
  const struct family *family = ((const struct zoo_model *)model)->family;
  *about = (neap_model_description){.usual = {.batch = family->batch,
                                              .image = {family->image[0], family->image[1], family->image[2]},
                                              .classes = family->classes,
                                              .length = family->length},
                                    .task = family->kind,
                                    .places = family->places,
                                    .places_grow = family->places > 0,
                                    .packs = family->is_stack};
  return NEAP_OK;
}

void name_block(neap_builder *b, int64_t stage, int64_t block) {
  char scope[64];
  snprintf(scope, sizeof scope, "stage%lld.block%lld", (long long)stage, (long long)block);
  neap_scope(b, scope);
}

/* The loss of a network that predicts values. */
static neap_tensor build_regression(neap_builder *b, neap_tensor values) {
  int64_t dims[NEAP_MAX_RANK] = {0};
  const int rank = neap_shape(b, values, dims);
  const neap_tensor label = neap_input(b, "label", NEAP_F32, rank, dims);
  neap_scope(b, NULL);
  neap_output(b, "prediction", values);
  return neap_mse_loss(b, values, label);
}

/* A label for each row or pixel of the logits. */
static neap_tensor add_labels(neap_builder *b, neap_tensor logits) {
  int64_t dims[NEAP_MAX_RANK] = {0}, label[NEAP_MAX_RANK] = {0};
  const int rank = neap_shape(b, logits, dims);
  label[0] = dims[0];
  for (int i = 2; i < rank; i++) label[i - 1] = dims[i];
  return neap_input(b, "label", NEAP_I32, rank - 1, label);
}

/* The loss of logits of an image, or of a row of numbers. */
static neap_tensor build_on_images(neap_builder *b, const struct family *family, const struct blueprint *p) {
  const bool rows = p->height == 0;
  const neap_tensor x =
      rows ? neap_input(b, "features", NEAP_F32, 2, (int64_t[]){p->batch, p->channels})
           : neap_input(b, "image", NEAP_F32, 4, (int64_t[]){p->batch, p->channels, p->height, p->width});
  const neap_tensor logits = family->build(b, x, p);
  if (p->regression) return build_regression(b, logits);
  const neap_tensor label = add_labels(b, logits);
  neap_scope(b, NULL);
  neap_output(b, "logits", logits);
  return neap_softmax_cross_entropy(b, logits, label, p->smoothing);
}

static neap_status build(const char *name, const struct family *family, const struct blueprint *p,
                         neap_graph **graph) {
  char title[96];
  snprintf(title, sizeof title, "%s-b%lld", name, (long long)p->batch);
  neap_builder *b = neap_builder_create(title);
  const bool sequence = family->build_sequence != NULL;
  const neap_tensor loss = sequence ? family->build_sequence(b, p) : build_on_images(b, family, p);
  neap_status status = neap_builder_finish(b, loss, graph);
  if (status == NEAP_INVALID_ARGUMENT && sequence)
    status =
        neap_fail(status, "%s on sequences of %lld: %s", name, (long long)p->length, neap_error_message());
  else if (status == NEAP_INVALID_ARGUMENT)
    status = neap_fail(status, "%s on %lldx%lld images: %s", name, (long long)p->height, (long long)p->width,
                       neap_error_message());
  neap_builder_free(b);
  return status;
}

static neap_status check_options(const char *name, const struct family *family, const neap_model_options *o) {
  RETURN_IF(o->batch < 0 || o->classes < 0 || o->image[0] < 0 || o->image[1] < 0 || o->image[2] < 0 ||
                o->length < 0 || o->source_length < 0 || o->decode < 0,
            NEAP_INVALID_ARGUMENT, "%s: batch, image, lengths, classes and decode must not be negative",
            name);
  const bool stack = family->is_stack;
  RETURN_IF(o->window < 0 || (o->window > 0 && (!stack || o->decode > 0)), NEAP_INVALID_ARGUMENT,
            "%s: a window of %lld: %s", name, (long long)o->window,
            o->window < 0 ? "it must not be negative"
            : stack       ? "a graph that decodes has none"
                          : "transformers of one stack have one (gpt, llama, bert)");
  RETURN_IF(
      o->attention != NULL && !stack, NEAP_INVALID_ARGUMENT,
      "%s: has no patterns of attention (got '%s'): transformers of one stack have them (gpt, llama, bert)",
      name, o->attention);
  RETURN_IF(
      o->beta != 0 && !(stack && family->kind == NEAP_TASK_TOKENS && o->decode == 0 && !o->packed &&
                        o->smoothing == 0 && o->beta > 0 && o->beta < INFINITY),
      NEAP_INVALID_ARGUMENT,
      "model '%s': cannot learn from preferences (beta %g): only transformers of one stack that predict "
      "the next token can, without label smoothing and with a sequence in each row",
      name, (double)o->beta);
  RETURN_IF(o->packed && !(stack && family->kind == NEAP_TASK_TOKENS && o->decode == 0),
            NEAP_INVALID_ARGUMENT,
            "%s: has no rows of several sequences: transformers of one stack that tell the next token have "
            "them, while they train (gpt, llama)",
            name);
  RETURN_IF(o->side < 0 || (o->side > 0 && !stack), NEAP_INVALID_ARGUMENT,
            "%s: a side net whose widths are divided by %lld: %s", name, (long long)o->side,
            o->side < 0 ? "the divisor must not be negative"
                        : "transformers of one stack have one (gpt, llama, bert)");
  RETURN_IF(o->decode > 0 && family->kind != NEAP_TASK_TOKENS, NEAP_INVALID_ARGUMENT,
            "%s: is no language model, which tells the next token: it cannot decode", name);
  RETURN_IF(o->regression && family->kind != NEAP_TASK_IMAGES && family->kind != NEAP_TASK_FEATURES,
            NEAP_INVALID_ARGUMENT, "%s: predicts classes of tokens or of pixels, no values", name);
  RETURN_IF(!(o->dropout >= 0 && o->dropout < 1), NEAP_INVALID_ARGUMENT, "%s: dropout %g is not in [0, 1)",
            name, (double)o->dropout);
  return NEAP_OK;
}

/* Returns the blueprint of a model: options that are not given are the family's. */
static struct blueprint blueprint_of(const struct family *family, const neap_model_options *o) {
  return (struct blueprint){.batch = o->batch ? o->batch : family->batch,
                            .channels = o->image[0] ? o->image[0] : family->image[0],
                            .height = o->image[1] ? o->image[1] : family->image[1],
                            .width = o->image[2] ? o->image[2] : family->image[2],
                            .classes = o->classes ? o->classes : family->classes,
                            .length = o->length ? o->length : family->length,
                            .regression = o->regression,
                            .decode = o->decode,
                            .window = o->window,
                            .attention = o->attention,
                            .packed = o->packed,
                            .beta = o->beta,
                            .smoothing = o->smoothing,
                            .dropout = o->dropout,
                            .side = o->side,
                            .source_length = o->source_length,
                            .batch_norm = strstr(family->pattern, "-bn") != NULL};
}

neap_status zoo_build_decoder(const void *model, const neap_model_options *o, int64_t beams,
                              neap_graph **graph) {
  const struct zoo_model *m = model;
  const struct family *family = m->family;
  TRY(check_options(m->name, family, o));
  struct blueprint p = blueprint_of(family, o);
  p.beams = beams;
  memcpy(p.numbers, m->numbers, sizeof p.numbers);
  if (p.source_length == 0) p.source_length = p.length;
  p.places = places_of(family, p.length);
  RETURN_IF(p.places > 0 && p.decode >= p.places, NEAP_INVALID_ARGUMENT,
            "%s: has places for %lld tokens: none can be decoded after %lld", m->name, (long long)p.places,
            (long long)p.decode);
  if (family->check != NULL) TRY(family->check(&p));
  return build(m->name, family, &p, graph);
}

neap_status zoo_build(const void *model, const neap_model_options *options, neap_graph **graph) {
  return zoo_build_decoder(model, options, 0, graph);
}
