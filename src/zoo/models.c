/* The table of ready-made networks. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zoo/zoo.h"

struct family {
  const char *pattern; /* a name; each # stands for a number */
  const char *summary, *source;
  network *build;
  neap_status (*check)(const struct blueprint *p); /* NULL: any numbers, or none */
  int64_t image[3], classes, batch;
};

static const struct family families[] = {
    {"mlp", "two hidden layers of 256", NULL, build_mlp, NULL, {1, 28, 28}, 10, 100},
    {"lenet",
     "convolutional network for digits",
     "LeCun et al. 1998",
     build_lenet,
     NULL,
     {1, 28, 28},
     10,
     100},
    {"wrn-#-#",
     "wide residual network, depth 6n+4 and width",
     "Zagoruyko & Komodakis 2016",
     build_wrn,
     check_wrn,
     {3, 32, 32},
     10,
     100},
    {"preresnet-#",
     "pre-activation residual network: depth 6n+2, or 9n+2 with bottlenecks from 164 on",
     "He et al. 2016b",
     build_preresnet,
     check_preresnet,
     {3, 32, 32},
     10,
     100},
    {"resnet#",
     "residual network of depth 18, 34, 50, 101 or 152",
     "He et al. 2016a",
     build_resnet,
     check_resnet,
     {3, 224, 224},
     1000,
     8},
    {"resnet-bottleneck-#-#-#-#",
     "residual network with so many bottlenecks in each stage",
     "He et al. 2016a",
     build_bottlenecks,
     check_bottlenecks,
     {3, 224, 224},
     1000,
     8},
    {"vgg#",
     "plain network of depth 16 or 19",
     "Simonyan & Zisserman 2015",
     build_vgg,
     check_vgg,
     {3, 224, 224},
     1000,
     8},
    {"vgg#-bn",
     "the same with batch norm",
     "Simonyan & Zisserman 2015",
     build_vgg,
     check_vgg,
     {3, 224, 224},
     1000,
     8},
    {"densenet#",
     "densely connected network of depth 121, 161, 169 or 201",
     "Huang et al. 2017",
     build_densenet,
     check_densenet,
     {3, 224, 224},
     1000,
     32},
    {"googlenet",
     "inception modules with batch norm",
     "Szegedy et al. 2015",
     build_googlenet,
     NULL,
     {3, 224, 224},
     1000,
     256},
    {"googlenet-lrn",
     "inception modules with local response normalisation",
     "Szegedy et al. 2015",
     build_googlenet_lrn,
     NULL,
     {3, 224, 224},
     1000,
     256},
    {"inception-v3",
     "inception modules with 1x7 and 7x1 kernels",
     "Szegedy et al. 2016",
     build_inception_v3,
     NULL,
     {3, 299, 299},
     1000,
     32},
    {"mobilenet-v2",
     "inverted residuals with depthwise convolutions",
     "Sandler et al. 2018",
     build_mobilenet_v2,
     NULL,
     {3, 224, 224},
     1000,
     96},
    {"unet",
     "classes of pixels, unpadded, 64 filters in its first level",
     "Ronneberger et al. 2015",
     build_unet,
     check_unet,
     {1, 572, 572},
     2,
     8},
    {"unet-#",
     "the same with so many filters",
     "Ronneberger et al. 2015",
     build_unet,
     check_unet,
     {1, 572, 572},
     2,
     8},
    {"pspnet",
     "classes of pixels, dilated residual network of depth 101 with pyramid pooling",
     "Zhao et al. 2017",
     build_pspnet,
     check_pspnet,
     {3, 713, 713},
     21,
     2},
    {"pspnet-#",
     "the same of depth 18, 34, 50, 101 or 152",
     "Zhao et al. 2017",
     build_pspnet,
     check_pspnet,
     {3, 713, 713},
     21,
     2},
};
enum { FAMILIES = sizeof families / sizeof *families };

bool neap_model_at(int32_t index, neap_row *row) {
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

neap_status model_usual(const char *name, neap_model_options *usual, bool *pixels) {
  int64_t numbers[4];
  const struct family *family;
  TRY(find_family(name, numbers, &family));
  *usual = (neap_model_options){.batch = family->batch,
                                .image = {family->image[0], family->image[1], family->image[2]},
                                .classes = family->classes};
  *pixels = family->build == build_unet || family->build == build_pspnet;
  return NEAP_OK;
}

void name_block(neap_builder *b, int64_t stage, int64_t block) {
  char scope[64];
  snprintf(scope, sizeof scope, "stage%lld.block%lld", (long long)stage, (long long)block);
  neap_scope(b, scope);
}

/* A label for each row or pixel of the logits. */
static neap_tensor add_labels(neap_builder *b, neap_tensor logits) {
  int64_t dims[NEAP_MAX_RANK] = {0}, label[NEAP_MAX_RANK] = {0};
  const int rank = neap_shape(b, logits, dims);
  label[0] = dims[0];
  for (int i = 2; i < rank; i++) label[i - 1] = dims[i];
  return neap_input(b, "label", NEAP_I32, rank - 1, label);
}

static neap_status build(const char *name, const struct family *family, const struct blueprint *p,
                         float smoothing, neap_graph **graph) {
  char title[96];
  snprintf(title, sizeof title, "%s-b%lld", name, (long long)p->batch);
  neap_builder *b = neap_builder_create(title);
  const neap_tensor image =
      neap_input(b, "image", NEAP_F32, 4, (int64_t[]){p->batch, p->channels, p->height, p->width});
  const neap_tensor logits = family->build(b, image, p), label = add_labels(b, logits);
  neap_scope(b, NULL);
  neap_output(b, "logits", logits);
  const neap_tensor loss = neap_softmax_cross_entropy(b, logits, label, smoothing);
  neap_status status = neap_builder_finish(b, loss, graph);
  if (status == NEAP_INVALID_ARGUMENT)
    status = neap_fail(status, "%s on %lldx%lld images: %s", name, (long long)p->height, (long long)p->width,
                       neap_error_message());
  neap_builder_free(b);
  return status;
}

neap_status neap_model_build(const char *name, const neap_model_options *options, neap_graph **graph) {
  const neap_model_options none = {0}, *o = options != NULL ? options : &none;
  const struct family *family;
  int64_t numbers[4] = {0};
  TRY(find_family(name, numbers, &family));
  RETURN_IF(o->batch < 0 || o->classes < 0 || o->image[0] < 0 || o->image[1] < 0 || o->image[2] < 0,
            NEAP_INVALID_ARGUMENT, "%s: batch, image and classes must not be negative", name);
  struct blueprint p = {.batch = o->batch ? o->batch : family->batch,
                        .channels = o->image[0] ? o->image[0] : family->image[0],
                        .height = o->image[1] ? o->image[1] : family->image[1],
                        .width = o->image[2] ? o->image[2] : family->image[2],
                        .classes = o->classes ? o->classes : family->classes,
                        .batch_norm = strstr(family->pattern, "-bn") != NULL};
  memcpy(p.numbers, numbers, sizeof p.numbers);
  if (family->check != NULL) TRY(family->check(&p));
  return build(name, family, &p, o->smoothing, graph);
}
