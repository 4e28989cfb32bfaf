/* Parameter counts are the published ones; names and shapes that make no sense are refused. */
#include <string.h>

#include "models_by_name.h"
#include "neap.h"
#include "testing.h"

static void test_parameter_counts(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t parameters;
  } published[] = {
      {"wrn-28-2", 1467610},
      {"wrn-28-10", 36479194},
      {"preresnet-1001", 10327706},
      {"resnet18", 11689512},
      {"resnet34", 21797672},
      {"resnet50", 25557032},
      {"resnet101", 44549160},
      {"resnet152", 60192808},
      {"vgg16", 138357544},
      {"vgg19", 143667240},
      {"vgg16-bn", 138365992},
      {"vgg19-bn", 143678248},
      {"densenet121", 7978856},
      {"densenet161", 28681000},
      {"densenet169", 14149480},
      {"densenet201", 20013928},
      {"googlenet", 6624904},
      {"googlenet-lrn", 6998552},
      {"inception-v3", 23834568},
      {"mobilenet-v2", 3504872},
      {"resnet-bottleneck-3-4-6-3", 25557032},
      {"gpt2", 124439808},
      {"gpt2-medium", 354823168},
      {"gpt2-large", 774030080},
      {"gpt2-xl", 1557611200},
      {"llama-32x4096x32x32", 6738415616},
      {"bert-12x768x12", 109514298},
      {"lstm-4x1024", 34722696},
      {"gpt-12x384x6", 21589248},
      {"dlr-2x512x64x48", 16896 + 2 * (512 + 3145728) + 512 + 1026},
  };
  for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
    neap_graph *graph;
    assert_int_equal(build_named(published[i].name, &(neap_model_options){.batch = 2}, &graph), NEAP_OK);
    assert_int_equal(neap_graph_parameters(graph), published[i].parameters);
    assert_int_equal(neap_graph_batch(graph), 2);
    neap_graph_free(graph);
  }
}

static int64_t parameters_of(const char *name, const neap_model_options *options) {
  neap_graph *graph;
  assert_int_equal(build_named(name, options, &graph), NEAP_OK);
  const int64_t parameters = neap_graph_parameters(graph);
  neap_graph_free(graph);
  return parameters;
}

static int64_t convolution(int64_t size, int64_t in, int64_t out) { return size * size * in * out; }

/* Ronneberger et al. 2015, figure 1, layer by layer; every one has biases. */
static int64_t unet_by_hand(int64_t channels, int64_t filters, int64_t classes) {
  int64_t total = 0, in = channels, width = filters;
  for (int level = 0; level < 5; level++, in = width, width *= 2)
    total += convolution(3, in, width) + width + convolution(3, width, width) + width;
  for (width = in / 2; width >= filters; width /= 2) {
    total += convolution(2, 2 * width, width) + width; /* up */
    total += convolution(3, 2 * width, width) + width + convolution(3, width, width) + width;
  }
  return total + convolution(1, filters, classes) + classes;
}

/* 31,030,658 as figure 1 has it: one channel, two classes; 31,031,745 is quoted for colour images and
 * one class. */
static void test_unet(void **state) {
  (void)state;
  assert_int_equal(parameters_of("unet", NULL), 31030658);
  assert_int_equal(unet_by_hand(1, 64, 2), 31030658);
  assert_int_equal(parameters_of("unet", &(neap_model_options){.image = {3, 188, 204}, .classes = 1}),
                   31031745);
  assert_int_equal(unet_by_hand(3, 64, 1), 31031745);
  assert_int_equal(parameters_of("unet-12", &(neap_model_options){.image = {2}}), unet_by_hand(2, 12, 2));
}

/* Batch norm has a scale and a shift for each channel of its convolution. */
static int64_t normalised(int64_t size, int64_t in, int64_t out) {
  return convolution(size, in, out) + 2 * out;
}

/* An encoder has three more layers of the width in each block with global tokens, which a causal model has
 * not. */
static void test_global_tokens(void **state) {
  (void)state;
  const int64_t width = 32, own = 3 * (width * width + width);
  const int64_t encoder = parameters_of("bert-4x32x2", NULL), causal = parameters_of("gpt-4x32x2", NULL);
  static const struct {
    const char *attention;
    int64_t blocks;
  } cases[] = {{"window:9", 0},
               {"window:9,global=2", 4},
               {"global=first;dense", 2},
               {"window:9;[dense,global=2;strided:4,global=2];dense,global=0;fixed:8,1,global=9", 2},
               {"dense,global=100000", 0} /* instead of the usual ones */};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const neap_model_options options = {.attention = cases[i].attention};
    assert_int_equal(parameters_of("bert-4x32x2", &options), encoder + cases[i].blocks * own);
    assert_int_equal(parameters_of("gpt-4x32x2", &options), causal);
  }
}

/* Zhao et al. 2017 with the published stem, around the four stages of a residual network. `resnet`:
 * parameters of the one for images, of 1000 classes. */
static int64_t pspnet_by_hand(int64_t resnet, int64_t classes) {
  int64_t total = resnet - (2048 * 1000 + 1000) - normalised(7, 3, 64);
  total += normalised(3, 3, 64) + normalised(3, 64, 64) + normalised(3, 64, 128);
  /* The first block sees 128 channels and not 64. */
  total += convolution(1, 64, 64) + convolution(1, 64, 256);
  total += 4 * normalised(1, 2048, 512);
  total += normalised(3, 4096, 512);
  return total + convolution(1, 512, classes) + classes;
}

/* 65.7 million with Cityscapes' 19 classes. */
static void test_pspnet(void **state) {
  (void)state;
  assert_int_equal(pspnet_by_hand(44549160, 21), 65708501);
  assert_int_equal(parameters_of("pspnet", NULL), 65708501);
  assert_int_equal(parameters_of("pspnet", &(neap_model_options){.classes = 19}), 65707475);
  assert_int_equal(parameters_of("pspnet-50", &(neap_model_options){.image = {3, 57, 41}}),
                   pspnet_by_hand(25557032, 21));
}

/* An encoder and a decoder of width d, and one table of words, which is the head's too. All but that: linear
 * layers with biases, but for those that make kernels; the scale and shift of a norm for each sum. `mixed`:
 * of what looks at other words in all layers together. */
static int64_t translation_by_hand(int64_t encoder, int64_t decoder, int64_t mixed, int64_t d,
                                   int64_t words) {
  const int64_t square = d * d + d, feed_forward = d * 2 * d + 2 * d + 2 * d * d + d, norm = 2 * d;
  return words * d + encoder * (feed_forward + 2 * norm) + decoder * (4 * square + feed_forward + 3 * norm) +
         mixed;
}

/* Vaswani et al. 2017 as fairseq's transformer_iwslt_de_en has it, with all embeddings shared: queries, keys,
 * values and projection. */
static int64_t transformer_by_hand(int64_t d, int64_t words) {
  return translation_by_hand(6, 6, 12 * 4 * (d * d + d), d, words);
}

/* Wu et al. 2019 without gates: a linear layer before and behind each convolution, and its kernels, of 4
 * heads: parameters, or made by a linear layer without bias. */
static int64_t convolutions_by_hand(bool dynamic, int64_t d, int64_t words) {
  const int64_t taps = 2 * (3 + 7 + 15) + 7 * 31;
  return translation_by_hand(7, 6, 13 * 2 * (d * d + d) + (dynamic ? d : 1) * 4 * taps, d, words);
}

/* With 10,000 words 36.7, 31.9 and 32.5 million. */
static void test_translation(void **state) {
  (void)state;
  static const int64_t widths[] = {512, 64, 4}, vocabularies[] = {10000, 10000, 7};
  static const char *const names[][3] = {{"transformer", "lightconv", "dynamicconv"},
                                         {"transformer-64", "lightconv-64", "dynamicconv-64"},
                                         {"transformer-4", "lightconv-4", "dynamicconv-4"}};
  assert_int_equal(transformer_by_hand(512, 10000), 36663296);
  assert_int_equal(convolutions_by_hand(false, 512, 10000), 31938092);
  assert_int_equal(convolutions_by_hand(true, 512, 10000), 32483840);
  for (int i = 0; i < 3; i++) {
    const neap_model_options options = {.batch = 2, .classes = vocabularies[i], .source_length = 5 + i};
    assert_int_equal(parameters_of(names[i][0], &options), transformer_by_hand(widths[i], vocabularies[i]));
    assert_int_equal(parameters_of(names[i][1], &options),
                     convolutions_by_hand(false, widths[i], vocabularies[i]));
    assert_int_equal(parameters_of(names[i][2], &options),
                     convolutions_by_hand(true, widths[i], vocabularies[i]));
  }
}

static void test_sizes_of_images(void **state) {
  (void)state;
  static const struct {
    const char *name, *part;
    int64_t height, width;
  } refused[] = {{"unet", "188", 572, 570}, {"unet", "188", 172, 572}, {"pspnet", "6 rows", 40, 713}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    neap_graph *graph = NULL;
    assert_int_equal(build_named(refused[i].name,
                                 &(neap_model_options){.image = {3, refused[i].height, refused[i].width}},
                                 &graph),
                     NEAP_INVALID_ARGUMENT);
    assert_non_null(strstr(neap_error_message(), refused[i].part));
  }
}

static void test_bad_names(void **state) {
  (void)state;
  static const char *const names[] = {"",
                                      "wrn",
                                      "wrn-28",
                                      "wrn-27-2",
                                      "wrn-28-0",
                                      "wrn-28-2x",
                                      "resnet",
                                      "resnet51",
                                      "resnet050",
                                      "preresnet-19",
                                      "preresnet-100000",
                                      "vgg11",
                                      "vgg16-bn-",
                                      "Lenet",
                                      "preresnet--5",
                                      "resnet-bottleneck-1-2-3",
                                      "densenet120",
                                      "inception-v2",
                                      "googlenet-bn",
                                      "unet-0",
                                      "unet-",
                                      "pspnet-51",
                                      "pspnet101",
                                      "transformer-6",
                                      "lightconv-0",
                                      "dynamicconv-"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    neap_graph *graph = NULL;
    assert_int_equal(build_named(names[i], NULL, &graph), NEAP_INVALID_ARGUMENT);
    assert_null(graph);
    assert_true(strlen(neap_error_message()) > 10);
  }
}

/* What no machine has room for, or no kernel counts (oneDNN has 32 bits for a dimension), is refused by name
 * before anything is made of it. */
static void test_huge_sizes(void **state) {
  (void)state;
  static const struct {
    const char *name, *part;
    int64_t batch;
  } refused[] = {{"lenet", "'image'", (int64_t)1 << 32},
                 {"lenet", "'image'", (int64_t)1 << 40},
                 {"resnet50", "2^44", 100000000}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    neap_graph *graph = NULL;
    assert_int_equal(build_named(refused[i].name, &(neap_model_options){.batch = refused[i].batch}, &graph),
                     NEAP_TOO_LARGE);
    assert_non_null(strstr(neap_error_message(), refused[i].part));
  }
}

static void test_small_images(void **state) {
  (void)state;
  static const char *const names[] = {"vgg16", "lenet"};
  for (size_t i = 0; i < 2; i++) {
    neap_graph *graph = NULL;
    assert_int_equal(build_named(names[i], &(neap_model_options){.batch = 1, .image = {3, 2, 2}}, &graph),
                     NEAP_INVALID_ARGUMENT);
    assert_non_null(strstr(neap_error_message(), "2x2"));
  }
}

/* What goes into a file of weights, or is asked for by name, has a name of its own, whole. */
static void test_names_of_parameters(void **state) {
  (void)state;
  static const char *const scopes[][2] = {{"block", "block"}, {"a", "b"}, {NULL, "a"}, {NULL, NULL}};
  static const bool good[] = {false, true, true, true};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    neap_builder *b = neap_builder_create("named");
    neap_tensor x = neap_input(b, "x", NEAP_F32, 2, (int64_t[]){2, 8}),
                label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){2});
    neap_scope(b, scopes[i][0]);
    x = neap_linear(b, neap_flatten(b, x), 8, true); /* a view has the name of what it shows */
    if (i == 3) {                                    /* what is in a scope does not count outside of it */
      neap_scope(b, "between");
      x = neap_linear(b, x, 8, true);
      neap_scope(b, NULL);
    }
    neap_scope(b, scopes[i][1]);
    x = neap_linear(b, x, 8, true);
    neap_graph *graph = NULL;
    const neap_status status = neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph);
    assert_int_equal(status, good[i] ? NEAP_OK : NEAP_INVALID_ARGUMENT);
    if (!good[i]) assert_non_null(strstr(neap_error_message(), "linear1"));
    neap_graph_free(graph);
    neap_builder_free(b);
  }
  char name[200] = {0};
  memset(name, 'x', sizeof name - 1);
  neap_builder *b = neap_builder_create("long");
  assert_true(neap_input(b, name, NEAP_F32, 1, (int64_t[]){2}) < 0);
  neap_builder_free(b);
}

int run_test_zoo(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parameter_counts), cmocka_unit_test(test_unet),
      cmocka_unit_test(test_translation),      cmocka_unit_test(test_global_tokens),
      cmocka_unit_test(test_pspnet),           cmocka_unit_test(test_sizes_of_images),
      cmocka_unit_test(test_bad_names),        cmocka_unit_test(test_small_images),
      cmocka_unit_test(test_huge_sizes),       cmocka_unit_test(test_names_of_parameters)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
