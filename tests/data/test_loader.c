/* What goes into a model in its first steps, source by source, is what it always was: these bits are in every
 * checkpoint. The digests are those of inputs with which a run has the weights of version 0.2.0. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/sha256.h"
#include "testing.h"
#include "train/model_data.h"

enum { STEPS = 3, CIFAR_RECORD = 3073, CIFAR_RECORDS = 60, DIGITS = 90, DIGIT = 28 * 28 };
static char folder[64];

/* ---- Files ---- */

static uint32_t next_number(void) {
  static uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33);
}

static FILE *create(const char *name) {
  char path[160];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  return file;
}

static void put_words(FILE *file, const uint32_t *words, int count) {
  for (int i = 0; i < count; i++)
    for (int shift = 24; shift >= 0; shift -= 8) putc((int)(words[i] >> shift & 255), file);
}

static void write_digits(const char *images_name, const char *labels_name) {
  FILE *images = create(images_name), *labels = create(labels_name);
  put_words(images, (uint32_t[]){0x803, DIGITS, 28, 28}, 4);
  put_words(labels, (uint32_t[]){0x801, DIGITS}, 2);
  for (int i = 0; i < DIGITS * DIGIT; i++) putc((int)(next_number() & 255), images);
  for (int i = 0; i < DIGITS; i++) putc((int)(next_number() % 10), labels);
  assert_int_equal(fclose(images) | fclose(labels), 0);
}

static void write_cifar(const char *name) {
  FILE *file = create(name);
  for (int i = 0; i < CIFAR_RECORDS * CIFAR_RECORD; i++)
    putc((int)(i % CIFAR_RECORD == 0 ? next_number() % 10 : next_number() & 255), file);
  assert_int_equal(fclose(file), 0);
}

static void write_lines(const char *name, int lines) {
  static const char *const words[] = {"the ", "sea ", "rises ", "twice ", "a day ", "and ", "falls "};
  FILE *file = create(name);
  for (int i = 0; i < lines; i++) {
    for (uint32_t k = 0, count = 1 + next_number() % 12; k < count; k++)
      fputs(words[next_number() % 7], file);
    fputs("again\n", file);
  }
  assert_int_equal(fclose(file), 0);
}

static const char *const names[] = {"train-images-idx3-ubyte",
                                    "train-labels-idx1-ubyte",
                                    "t10k-images-idx3-ubyte",
                                    "t10k-labels-idx1-ubyte",
                                    "data_batch_1.bin",
                                    "test_batch.bin",
                                    "text",
                                    "train.de",
                                    "train.en",
                                    "val.de",
                                    "val.en"};

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/neap-loader-XXXXXX");
  if (mkdtemp(folder) == NULL) return 1;
  write_digits(names[0], names[1]);
  write_digits(names[2], names[3]);
  write_cifar(names[4]);
  write_cifar(names[5]);
  write_lines(names[6], 400);
  for (int i = 7; i < 11; i++) write_lines(names[i], i < 9 ? 200 : 40);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  char path[160];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    unlink(path);
  }
  return rmdir(folder);
}

/* ---- Digests ---- */

/* Feeds all inputs of a part of a step, which lie in memory of the test's. */
static void feed_inputs(const struct loader *l, int bucket, struct sha256 *hash) {
  for (int i = 0; i < l->input_count; i++) {
    const struct slot *slot = &l->stage.slots[l->inputs[i].slot];
    sha256_feed(hash, slot->memory,
                (size_t)l->buckets[bucket].micro * slot_bytes(slot, l->buckets[bucket].length));
  }
}

static void attach_memory(struct loader *l, int64_t micro, struct region *region) {
  for (int i = 0; i < l->input_count; i++) {
    struct slot *slot = &l->stage.slots[l->inputs[i].slot];
    const int64_t longest = slot->field.ragged ? slot->field.dims[0] : 0;
    slot->memory = region_alloc(region, (size_t)micro + 1, 2 * slot_bytes(slot, longest));
    assert_non_null(slot->memory);
  }
}

/* The inputs of the first steps, part by part; then those of evaluation. */
static void digest(const char *name, const char *data, const neap_model_options *asked, int parts,
                   int threads, char hex[65]) {
  struct loader l;
  struct region region = {0};
  struct field inputs[INPUT_LIMIT];
  neap_model_options shape;
  neap_graph *graph;
  int count;
  struct sha256 hash;
  neap_model *model;
  ASSERT_OK(neap_model_open(name, &model));
  assert_int_equal(
      open_data(&(struct data_choice){.model = model, .name = data, .shape = asked, .threads = threads}, &l),
      NEAP_OK);
  assert_int_equal(settle_shape(model, data, asked, &l, &shape), NEAP_OK);
  assert_int_equal(neap_model_build(model, &shape, &graph), NEAP_OK);
  const int64_t batch = neap_graph_batch(graph);
  const struct division division = {batch, batch / parts, .seed = 1, .shuffle = true, .augment = true};
  assert_int_equal(loader_divide(&l, &division), NEAP_OK);
  assert_int_equal(loader_list_inputs(&l, graph, true, inputs, &count), NEAP_OK);
  assert_int_equal(loader_prepare(&l, inputs, count), NEAP_OK);
  attach_memory(&l, l.buckets[0].micro, &region);
  sha256_start(&hash);
  for (int64_t step = 0; step < STEPS; step++)
    for (int32_t part = 0; part < parts; part++) {
      assert_int_equal(loader_fill(&l, step + l.epoch_steps - 1, part, false), NEAP_OK);
      feed_inputs(&l, loader_bucket(&l, step + l.epoch_steps - 1), &hash);
    }
  for (int k = 0; k < l.bucket_count; k++) {
    int64_t filled;
    assert_int_equal(loader_fill_at(&l, SPLIT_TEST, k, 0, &filled), NEAP_OK);
    if (filled > 0) feed_inputs(&l, k, &hash);
  }
  sha256_finish(&hash, hex);
  neap_graph_free(graph);
  loader_close(&l);
  neap_model_close(model);
  region_free(&region);
}

static void test_digests(void **state) {
  (void)state;
  static const struct {
    const char *model, *data;
    neap_model_options asked;
    int parts;
    const char *digest;
  } cases[] = {
      {"lenet",
       "mnist:%s",
       {.batch = 12},
       1,
       "af335a0f0de821ca4aec9bf70c76ee7763e1d651b7f75b9b49c5a0c4f58f73db"},
      {"lenet",
       "mnist:%s",
       {.batch = 12},
       3,
       "c3a7753a865c75c711f89f0008e1a621c39a4cd19d144a32810fbb6ae90f38a7"},
      {"wrn-28-2",
       "cifar10:%s",
       {.batch = 8},
       1,
       "abbd9f2cbb8ac1358c928fec23e0d27c213f6bd1a1a690b8fca4bd1a6eaadf30"},
      {"wrn-28-2",
       "cifar10:%s",
       {.batch = 8},
       4,
       "2129efc765d2c53e2d9d00c85568ca6041a4ffab16ac9ec78f6374cadf27aad4"},
      {"gpt-2x64x2",
       "text:%s/text",
       {.batch = 4, .length = 32},
       1,
       "8f52dc4e44dc387789deb66c3c2dbc02e356fb979c3870734c8ae3b09b70e00f"},
      {"gpt-2x64x2",
       "text:%s/text",
       {.batch = 4, .length = 32},
       2,
       "7e731b2f35d6e1efe5dded2563d27c3281457ad7d324f86bd9a09f2c431ac618"},
      {"bert-2x64x2",
       "text:%s/text,tokens=characters",
       {.batch = 4, .length = 32},
       1,
       "e537d8234fd29db2fa78ea30536865c620c4554a3ffa76f6078ed2390e76d9e2"},
      {"bert-2x64x2",
       "text:%s/text,tokens=characters",
       {.batch = 4, .length = 32},
       2,
       "589dbd865f7b8f237b9953dd5aadd1b536856a7def507774e660d5336c2f83b7"},
      {"dynamicconv-64",
       "parallel:%s:de-en,tokens=270",
       {.batch = 200},
       1,
       "c69c1db146843cc6ff80354c02f78ea05fcbf7e49b1229865a7325fe4cb01ae6"},
      {"dynamicconv-64",
       "parallel:%s:de-en,tokens=270",
       {.batch = 200},
       2,
       "e632eb9a4f9b2c6b71086c734401269ba47cb667a41f8f410b4d1008b8b4f081"},
      {"lenet",
       "synthetic",
       {.batch = 12},
       3,
       "659669fd0ba89e12d2a5e4c3e47851b825ca8ebe80860b45121f8ba4cd8be5f1"},
      {"unet-4",
       "synthetic",
       {.batch = 2, .image = {1, 188, 188}},
       2,
       "7abc0bb7598018e852971d28ce49c8e3a90cbce6f7ece50f9fe294fcfa3067e3"},
      {"lstm-1x32",
       "synthetic",
       {.batch = 4, .length = 16},
       1,
       "999caae66582c8eb08ed41217347bbef05dd4fc4c41c5434949aab7a1f553f3e"},
      {"gpt-2x64x2",
       "synthetic",
       {.batch = 4, .length = 32},
       2,
       "2e52eb569f01386c71a0a12e32abb113ef1123da4f5b019f71bef6836712ac10"},
      {"bert-2x64x2",
       "synthetic",
       {.batch = 4, .length = 32, .classes = 300},
       1,
       "08ec57df98002f6327bf8cec105479f1d68878a8b125b08611f45eaabd581d9b"},
  };
  int wrong = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char data[128], hex[65], other[65];
    snprintf(data, sizeof data, cases[i].data, folder);
    digest(cases[i].model, data, &cases[i].asked, cases[i].parts, 1, hex);
    digest(cases[i].model, data, &cases[i].asked, cases[i].parts, 2, other);
    assert_string_equal(hex, other);
    if (strcmp(hex, cases[i].digest) == 0) continue;
    print_error("%s on %s in %d parts: %s\n", cases[i].model, cases[i].data, cases[i].parts, hex);
    wrong++;
  }
  assert_int_equal(wrong, 0);
}

int run_test_loader(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_digests)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
