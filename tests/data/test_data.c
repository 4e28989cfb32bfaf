/* Data sets from files the test writes, against records computed here, and what damage to them is answered.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "data_help.h"
#include "testing.h"

enum { PIXELS = 3072, RECORD = 3073, IMAGE = 3 * 32 * 32 };

static char folder[64];

static const char *in_folder(const char *name) {
  static char path[2][160];
  static int turn;
  turn = !turn;
  snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
  return path[turn];
}

static void write_file(const char *name, const void *data, size_t bytes) {
  FILE *file = fopen(in_folder(name), "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

static void write_gzip(const char *name, const void *data, size_t bytes) {
  gzFile file = gzopen(in_folder(name), "wb");
  assert_non_null(file);
  assert_int_equal(gzwrite(file, data, (unsigned)bytes), (int)bytes);
  assert_int_equal(gzclose(file), Z_OK);
}

static uint8_t pixel_of(int record, int k) {
  return (uint8_t)((record * 7919 + k * 104729 + k / 1024 * 60) >> 3);
}

static void fill_records(uint8_t *bytes, int first, int count) {
  for (int i = 0; i < count; i++) {
    bytes[i * RECORD] = (uint8_t)((first + i) % 10);
    for (int k = 0; k < PIXELS; k++) bytes[i * RECORD + 1 + k] = pixel_of(first + i, k);
  }
}

enum { FIRST = 7, SECOND = 5, TRAIN = FIRST + SECOND, TEST = 3 };

static void write_cifar(void) {
  static uint8_t bytes[FIRST * RECORD];
  fill_records(bytes, 0, FIRST);
  write_file("data_batch_1.bin", bytes, FIRST * RECORD);
  fill_records(bytes, FIRST, SECOND);
  write_file("data_batch_2.bin", bytes, SECOND * RECORD);
  fill_records(bytes, TRAIN, TEST);
  write_file("test_batch.bin", bytes, TEST * RECORD);
}

static void put_32(uint8_t *p, uint32_t value) {
  for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (24 - 8 * i));
}

enum {
  DIGITS = 6,
  DIGIT_SIDE = 5,
  DIGIT = DIGIT_SIDE * DIGIT_SIDE,
  IMAGE_BYTES = 16 + DIGITS * DIGIT,
  LABEL_BYTES = 8 + DIGITS
};

static uint8_t digit_images[IMAGE_BYTES], digit_labels[LABEL_BYTES];

static void write_mnist(void) {
  put_32(digit_images, 0x803);
  put_32(digit_images + 4, DIGITS);
  put_32(digit_images + 8, DIGIT_SIDE);
  put_32(digit_images + 12, DIGIT_SIDE);
  for (int k = 0; k < DIGITS * DIGIT; k++) digit_images[16 + k] = pixel_of(1, k);
  put_32(digit_labels, 0x801);
  put_32(digit_labels + 4, DIGITS);
  for (int i = 0; i < DIGITS; i++) digit_labels[8 + i] = (uint8_t)(9 - i);
  write_gzip("train-images-idx3-ubyte.gz", digit_images, IMAGE_BYTES);
  write_gzip("train-labels-idx1-ubyte.gz", digit_labels, LABEL_BYTES);
  write_file("t10k-images-idx3-ubyte", digit_images, IMAGE_BYTES);
  write_file("t10k-labels-idx1-ubyte", digit_labels, LABEL_BYTES);
}

static const char *const files[] = {
    "data_batch_1.bin",       "data_batch_2.bin",           "data_batch_4.bin",
    "test_batch.bin",         "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",     "train-images-idx3-ubyte"};

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/neap-data-XXXXXX");
  if (mkdtemp(folder) == NULL) return 1;
  write_cifar();
  write_mnist();
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) unlink(in_folder(files[i]));
  return rmdir(folder);
}

static const char *spec(const char *source) {
  static char text[96];
  snprintf(text, sizeof text, "%s:%s", source, folder);
  return text;
}

static void expect_failure(const char *source, neap_status status, const char *file, const char *part) {
  struct loader set;
  const neap_status got = open_images(&set, spec(source));
  loader_close(&set);
  if (got != status || strstr(neap_error_message(), file) == NULL ||
      strstr(neap_error_message(), part) == NULL)
    print_error("status %d, message: %s\n", (int)got, neap_error_message());
  assert_int_equal(got, status);
  assert_non_null(strstr(neap_error_message(), file));
  assert_non_null(strstr(neap_error_message(), part));
}

static void test_cifar_records(void **state) {
  (void)state;
  struct loader set;
  assert_int_equal(open_images(&set, spec("cifar10")), NEAP_OK);
  assert_string_equal(set.source.name, "cifar10");
  assert_int_equal(set.source.records[SPLIT_TRAIN], TRAIN);
  assert_int_equal(set.source.records[SPLIT_TEST], TEST);
  for (int c = 0; c < 3; c++) {
    double sum = 0, squares = 0;
    for (int i = 0; i < TRAIN; i++)
      for (int k = 0; k < 1024; k++) sum += pixel_of(i, c * 1024 + k);
    const double mean = sum / (TRAIN * 1024);
    for (int i = 0; i < TRAIN; i++)
      for (int k = 0; k < 1024; k++) squares += pow(pixel_of(i, c * 1024 + k) - mean, 2);
    assert_true(fabs(set.source.mean[c] - mean) < 1e-9);
    assert_true(fabs(set.source.deviation[c] - sqrt(squares / (TRAIN * 1024 - 1))) < 1e-9);
  }
  /* Records of both files, out of order, and an invalid one. */
  const int32_t records[] = {FIRST, -1, 0, TRAIN - 1, FIRST - 1};
  static float images[5 * IMAGE];
  int32_t labels[5];
  const struct batch batch = {
      .count = 5, .records = records, .threads = 2, .images = images, .labels = labels};
  assert_int_equal(fill_batch(&set, &batch), NEAP_OK);
  for (int i = 0; i < 5; i++) {
    assert_int_equal(labels[i], records[i] < 0 ? -1 : records[i] % 10);
    for (int k = 0; k < IMAGE; k++) {
      const double value = records[i] < 0 ? 0
                                          : (pixel_of(records[i], k) - set.source.mean[k / 1024]) /
                                                set.source.deviation[k / 1024];
      assert_true(fabs(images[i * IMAGE + k] - value) < 1e-5);
    }
  }
  const int32_t last = TEST - 1;
  const struct batch one = {
      .count = 1, .records = &last, .threads = 1, .split = SPLIT_TEST, .images = images, .labels = labels};
  assert_int_equal(fill_batch(&set, &one), NEAP_OK);
  assert_int_equal(labels[0], (TRAIN + last) % 10);
  loader_close(&set);
}

/* Is the image the record moved by (down, right), zeros coming in, and then perhaps mirrored? */
static bool is_moved(const float *image, const float *plain, int down, int right, bool mirror) {
  for (int k = 0; k < IMAGE; k++) {
    const int y = k / 32 % 32 + down, x = (mirror ? 31 - k % 32 : k % 32) + right;
    const float value = y < 0 || y > 31 || x < 0 || x > 31 ? 0 : plain[k / 1024 * 1024 + y * 32 + x];
    if (image[k] != value) return false;
  }
  return true;
}

static void test_augmentation(void **state) {
  (void)state;
  enum { EPOCHS = 400 };
  struct loader set;
  assert_int_equal(open_images(&set, spec("cifar10")), NEAP_OK);
  const int32_t record = 4;
  static float plain[IMAGE], image[IMAGE], again[2 * IMAGE];
  int32_t label[2];
  struct batch batch = {
      .count = 1, .records = &record, .threads = 1, .draw.seed = 3, .images = plain, .labels = label};
  assert_int_equal(fill_batch(&set, &batch), NEAP_OK);
  batch.draw.augment = true;
  batch.images = image;
  int seen[9][9][2] = {0};
  for (int epoch = 0; epoch < EPOCHS; epoch++) {
    batch.draw.epoch = epoch;
    assert_int_equal(fill_batch(&set, &batch), NEAP_OK);
    int found = 0;
    for (int m = 0; m < 162; m++)
      if (is_moved(image, plain, m % 9 - 4, m / 9 % 9 - 4, m / 81)) found++, seen[m % 9][m / 9 % 9][m / 81]++;
    assert_int_equal(found, 1);
    assert_int_equal(label[0], 4);
    /* The same wherever it stands in whatever batch. */
    const int32_t two[] = {9, record};
    const struct batch other = {
        .count = 2, .records = two, .draw = {true, 3, epoch}, .threads = 2, .images = again, .labels = label};
    assert_int_equal(fill_batch(&set, &other), NEAP_OK);
    assert_memory_equal(again + IMAGE, image, sizeof image);
  }
  int rows[9] = {0}, columns[9] = {0}, mirrored = 0;
  for (int m = 0; m < 162; m++) {
    const int n = seen[m % 9][m / 9 % 9][m / 81];
    rows[m % 9] += n, columns[m / 9 % 9] += n, mirrored += m / 81 * n;
  }
  /* Within 5 standard deviations of uniform. */
  for (int i = 0; i < 9; i++) {
    assert_true(fabs(rows[i] - EPOCHS / 9.0) < 5 * sqrt(EPOCHS * 8 / 81.0));
    assert_true(fabs(columns[i] - EPOCHS / 9.0) < 5 * sqrt(EPOCHS * 8 / 81.0));
  }
  assert_true(fabs(mirrored - EPOCHS / 2.0) < 5 * sqrt(EPOCHS / 4.0));
  loader_close(&set);
}

static void test_order(void **state) {
  (void)state;
  enum { COUNT = 1000, EPOCHS = 300 };
  static int32_t order[COUNT], other[COUNT];
  static int first[10];
  loader_order(1, 0, false, COUNT, order);
  for (int i = 0; i < COUNT; i++) assert_int_equal(order[i], i);
  for (int epoch = 0; epoch < EPOCHS; epoch++) {
    static bool seen[COUNT];
    memset(seen, 0, sizeof seen);
    loader_order(1, epoch, true, COUNT, order);
    for (int i = 0; i < COUNT; i++) {
      assert_in_range(order[i], 0, COUNT - 1);
      assert_false(seen[order[i]]);
      seen[order[i]] = true;
    }
    first[order[0] / (COUNT / 10)]++;
    loader_order(1, epoch, true, COUNT, other);
    assert_memory_equal(order, other, sizeof order);
    loader_order(2, epoch, true, COUNT, other);
    assert_memory_not_equal(order, other, sizeof order);
    loader_order(1, epoch + 1, true, COUNT, other);
    assert_memory_not_equal(order, other, sizeof order);
  }
  for (int i = 0; i < 10; i++) assert_true(fabs(first[i] - EPOCHS / 10.0) < 5 * sqrt(EPOCHS * 0.09));
}

static void test_mnist_records(void **state) {
  (void)state;
  struct loader set;
  assert_int_equal(open_images(&set, spec("mnist")), NEAP_OK);
  assert_int_equal(source_image(&set.source)->dims[0], 1);
  assert_int_equal(source_image(&set.source)->dims[1], DIGIT_SIDE);
  assert_int_equal(set.source.records[SPLIT_TRAIN], DIGITS);
  assert_int_equal(set.source.records[SPLIT_TEST], DIGITS);
  /* Digits are never mirrored or moved. */
  int32_t records[DIGITS], labels[DIGITS];
  float images[DIGITS * DIGIT];
  for (int i = 0; i < DIGITS; i++) records[i] = DIGITS - 1 - i;
  struct batch batch = {.count = DIGITS,
                        .records = records,
                        .draw = {true, 0, 5},
                        .threads = 1,
                        .images = images,
                        .labels = labels};
  for (int split = 0; split < SPLITS; split++) {
    batch.split = (enum split)split;
    assert_int_equal(fill_batch(&set, &batch), NEAP_OK);
    for (int i = 0; i < DIGITS; i++) {
      assert_int_equal(labels[i], 9 - records[i]);
      for (int k = 0; k < DIGIT; k++)
        assert_true(fabs(images[i * DIGIT + k] - (pixel_of(1, records[i] * DIGIT + k) - set.source.mean[0]) /
                                                     set.source.deviation[0]) < 1e-5);
    }
  }
  loader_close(&set);
}

/* The pixels of a synthetic image. */
static const uint8_t *drawn(const struct loader *set, enum split split, int64_t record) {
  static uint8_t pixels[2][IMAGE];
  static int turn;
  int32_t label;
  turn = !turn;
  assert_int_equal(read_image(set, split, record, pixels[turn], &label), NEAP_OK);
  assert_int_equal(label, record % 10);
  return pixels[turn];
}

/* Another seed or split is other images; the same is the same; classes are equally frequent. */
static void test_synthetic(void **state) {
  (void)state;
  struct loader set, other, same;
  assert_int_equal(open_images(&set, "synthetic"), NEAP_OK);
  assert_int_equal(open_images(&other, "synthetic:seed=8"), NEAP_OK);
  assert_int_equal(open_images(&same, "synthetic:seed=0,images=10000"), NEAP_OK);
  for (int64_t i = 0; i < set.source.records[SPLIT_TRAIN]; i += 89) {
    assert_memory_not_equal(drawn(&set, SPLIT_TRAIN, i), drawn(&other, SPLIT_TRAIN, i), IMAGE);
    assert_memory_equal(drawn(&set, SPLIT_TRAIN, i), drawn(&same, SPLIT_TRAIN, i), IMAGE);
  }
  for (int64_t i = 0; i < set.source.records[SPLIT_TEST]; i += 97)
    for (int64_t j = 0; j < 1000; j += 10)
      assert_memory_not_equal(drawn(&set, SPLIT_TEST, i), drawn(&set, SPLIT_TRAIN, j), IMAGE);
  int per_class[10] = {0};
  for (int64_t i = 0; i < set.source.records[SPLIT_TRAIN]; i++) {
    static uint8_t pixels[IMAGE];
    int32_t label;
    assert_int_equal(read_image(&set, SPLIT_TRAIN, i, pixels, &label), NEAP_OK);
    per_class[label]++;
  }
  for (int c = 0; c < 10; c++) assert_int_equal(per_class[c], set.source.records[SPLIT_TRAIN] / 10);
  loader_close(&set);
  loader_close(&other);
  loader_close(&same);
}

/* Any side, and more classes than a byte holds. */
static void test_synthetic_sizes(void **state) {
  (void)state;
  enum { SIDE = 20, CLASSES = 300, IMAGES = 600 };
  struct loader set;
  assert_int_equal(open_images(&set, "synthetic:classes=300,side=20,images=600"), NEAP_OK);
  assert_int_equal(source_image(&set.source)->dims[1], SIDE);
  assert_int_equal(source_image(&set.source)->dims[2], SIDE);
  assert_int_equal(set.source.classes, CLASSES);
  assert_int_equal(set.source.records[SPLIT_TRAIN], IMAGES);
  assert_int_equal(set.source.records[SPLIT_TEST], IMAGES / 5);
  static float images[2 * 3 * SIDE * SIDE];
  const int32_t records[] = {CLASSES - 1, IMAGES - 1};
  int32_t labels[2];
  const struct batch batch = {
      .count = 2, .records = records, .threads = 1, .images = images, .labels = labels};
  assert_int_equal(fill_batch(&set, &batch), NEAP_OK);
  assert_int_equal(labels[0], CLASSES - 1);
  assert_int_equal(labels[1], CLASSES - 1);
  loader_close(&set);
}

enum { MAP_SIDE = 40, MAPS = 30, MAP_PLANE = MAP_SIDE * MAP_SIDE };

/* The shape stands out from the background of the same image by 32 to 95 shades in each channel, whatever the
 * noise: labels that lie elsewhere than the shape does would mix the two. */
static void expect_shape(const struct loader *set, const float *image, const int32_t *map, int shape) {
  double sum[2][3] = {{0}}, count[2] = {0};
  for (int k = 0; k < MAP_PLANE; k++) {
    assert_true(map[k] == 0 || map[k] == 1 + shape);
    if (image[k] == 0 && image[MAP_PLANE + k] == 0) continue; /* what a crop brings in */
    for (int c = 0; c < 3; c++)
      sum[map[k] != 0][c] += (double)image[c * MAP_PLANE + k] * set->source.deviation[c];
    count[map[k] != 0]++;
  }
  assert_true(count[0] > 0 && count[1] > 30);
  for (int c = 0; c < 3; c++) {
    const double contrast = fabs(sum[1][c] / count[1] - sum[0][c] / count[0]);
    if (!(contrast > 20 && contrast < 105)) fail_msg("shape %d, channel %d: contrast %g", shape, c, contrast);
  }
}

static void test_label_maps(void **state) {
  (void)state;
  enum { CUT = 6, SMALL = MAP_SIDE - 2 * CUT };
  struct loader set;
  assert_int_equal(loader_open(&set, "synthetic:side=40,images=30",
                               &(struct task){.kind = NEAP_TASK_PIXELS, .classes = 11}),
                   NEAP_OK);
  assert_int_equal(set.source.classes, 11);
  static float images[MAPS * 3 * MAP_PLANE];
  static int32_t maps[(MAPS + 1) * MAP_PLANE], centres[(MAPS + 1) * MAP_PLANE];
  int32_t records[MAPS];
  for (int i = 0; i < MAPS; i++) records[i] = MAPS - 1 - i;
  for (int augment = 0; augment < 2; augment++) {
    struct batch batch = {.count = MAPS,
                          .records = records,
                          .draw = {augment != 0, 3, 0},
                          .threads = 2,
                          .images = images,
                          .labels = maps,
                          .map_height = MAP_SIDE,
                          .map_width = MAP_SIDE};
    assert_int_equal(fill_batch(&set, &batch), NEAP_OK);
    for (int i = 0; i < MAPS; i++)
      expect_shape(&set, images + i * 3 * MAP_PLANE, maps + i * MAP_PLANE, records[i] % 10);
    batch.map_height = batch.map_width = SMALL;
    batch.labels = centres;
    assert_int_equal(fill_batch(&set, &batch), NEAP_OK);
    for (int i = 0; i < MAPS; i++)
      for (int k = 0; k < SMALL * SMALL; k++)
        assert_int_equal(centres[i * SMALL * SMALL + k],
                         maps[i * MAP_PLANE + (k / SMALL + CUT) * MAP_SIDE + k % SMALL + CUT]);
  }
  /* Test images have scenes of their own; no image has no labels. */
  const int32_t some[] = {4, -1};
  const struct batch batch = {.count = 2,
                              .records = some,
                              .threads = 1,
                              .split = SPLIT_TEST,
                              .images = images,
                              .labels = maps,
                              .map_height = MAP_SIDE,
                              .map_width = MAP_SIDE};
  assert_int_equal(fill_batch(&set, &batch), NEAP_OK);
  expect_shape(&set, images, maps, 4);
  for (int k = 0; k < MAP_PLANE; k++) assert_int_equal(maps[MAP_PLANE + k], -1);
  loader_close(&set);
}

/* A file that is cut short while it is open is reported, and nothing dies of it. */
static void test_cut_short(void **state) {
  (void)state;
  struct loader set;
  assert_int_equal(open_images(&set, spec("cifar10")), NEAP_OK);
  assert_int_equal(truncate(in_folder("data_batch_2.bin"), RECORD + 100), 0);
  static float images[2 * IMAGE];
  const int32_t records[] = {0, FIRST + 1};
  int32_t labels[2];
  const struct batch batch = {
      .count = 2, .records = records, .threads = 2, .images = images, .labels = labels};
  assert_int_equal(fill_batch(&set, &batch), NEAP_BAD_FORMAT);
  assert_non_null(strstr(neap_error_message(), "data_batch_2.bin: record 1"));
  loader_close(&set);
  write_cifar();
}

static void test_bad_names(void **state) {
  (void)state;
  const char *const names[] = {"",
                               "cifar",
                               "cifar10",
                               "cifar10:",
                               "mnist",
                               "synthetic:x",
                               "synthetic:seed",
                               "synthetic:seed=-1",
                               "synthetic:side=32x",
                               "synthetic:side=,seed=1",
                               "synthetic:classes=1001",
                               "synthetic:images=99999999999999999999"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct loader set;
    assert_int_equal(open_images(&set, names[i]), NEAP_INVALID_ARGUMENT);
    loader_close(&set);
  }
}

static void test_bad_cifar(void **state) {
  (void)state;
  static uint8_t bytes[SECOND * RECORD + 1];
  fill_records(bytes, 0, SECOND);
  write_file("data_batch_2.bin", bytes, SECOND * RECORD - 1);
  expect_failure("cifar10", NEAP_BAD_FORMAT, "data_batch_2.bin", "12292");
  write_file("data_batch_2.bin", bytes, SECOND * RECORD + 1);
  expect_failure("cifar10", NEAP_BAD_FORMAT, "data_batch_2.bin", "15365");
  write_file("data_batch_2.bin", bytes, 0);
  expect_failure("cifar10", NEAP_BAD_FORMAT, "data_batch_2.bin", "empty");
  bytes[3 * RECORD] = 10;
  write_file("data_batch_2.bin", bytes, SECOND * RECORD);
  expect_failure("cifar10", NEAP_BAD_FORMAT, "data_batch_2.bin", "offset 9219");
  write_cifar();
  write_file("data_batch_4.bin", bytes, RECORD);
  expect_failure("cifar10", NEAP_IO_FAILED, "data_batch_3.bin", "missing");
  unlink(in_folder("data_batch_4.bin"));
  unlink(in_folder("test_batch.bin"));
  expect_failure("cifar10", NEAP_IO_FAILED, "test_batch.bin", "No such file");
  unlink(in_folder("data_batch_1.bin"));
  unlink(in_folder("data_batch_2.bin"));
  expect_failure("cifar10", NEAP_IO_FAILED, "data_batch_1.bin", "is missing");
  write_cifar();
}

static void test_bad_idx(void **state) {
  (void)state;
  static uint8_t bytes[IMAGE_BYTES + 1];
  const struct {
    size_t length;
    int at, value;
    const char *part;
  } plain[] = {
      {0, 0, 0, "empty"},
      {9, 0, 0, "offset 9"},
      {IMAGE_BYTES - 1, 0, 0, "149 bytes after its header"},
      {IMAGE_BYTES + 1, 0, 0, "151 bytes after its header"},
      {IMAGE_BYTES, 3, 1, "0x00000801"},
      {IMAGE_BYTES, 4, 0x80, "dimension 0"},
      {IMAGE_BYTES, 8, 0x7f, "offset 8"},
      {IMAGE_BYTES, 15, 0, "dimension 2 is 0"},
      {IMAGE_BYTES, 15, 4, "asks for 120"},
  };
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
    memcpy(bytes, digit_images, IMAGE_BYTES);
    if (plain[i].at > 0) bytes[plain[i].at] = (uint8_t)plain[i].value;
    write_file("t10k-images-idx3-ubyte", bytes, plain[i].length);
    expect_failure("mnist", NEAP_BAD_FORMAT, "t10k-images-idx3-ubyte", plain[i].part);
  }
  write_mnist();
  /* Sides that differ from those of the training images; another number of labels; a label too large. */
  memcpy(bytes, digit_images, IMAGE_BYTES);
  put_32(bytes + 8, 25), put_32(bytes + 12, 1);
  write_file("t10k-images-idx3-ubyte", bytes, IMAGE_BYTES);
  expect_failure("mnist", NEAP_BAD_FORMAT, "t10k-images-idx3-ubyte", "25x1");
  write_mnist();
  memcpy(bytes, digit_labels, LABEL_BYTES);
  put_32(bytes + 4, DIGITS - 1);
  write_file("t10k-labels-idx1-ubyte", bytes, LABEL_BYTES - 1);
  expect_failure("mnist", NEAP_BAD_FORMAT, "t10k-labels-idx1-ubyte", "5 labels");
  put_32(bytes + 4, DIGITS), bytes[10] = 77;
  write_file("t10k-labels-idx1-ubyte", bytes, LABEL_BYTES);
  expect_failure("mnist", NEAP_BAD_FORMAT, "t10k-labels-idx1-ubyte", "offset 10: label 77");
  write_mnist();
}

static void test_bad_gzip(void **state) {
  (void)state;
  const char *name = "train-images-idx3-ubyte.gz";
  static uint8_t packed[1000], bytes[IMAGE_BYTES + 1];
  FILE *file = fopen(in_folder(name), "rb");
  assert_non_null(file);
  const size_t size = fread(packed, 1, sizeof packed, file);
  fclose(file);
  assert_in_range(size, 50, sizeof packed - 1);
  for (size_t length = 0; length < size; length++) {
    write_file(name, packed, length);
    expect_failure("mnist", NEAP_BAD_FORMAT, name, "");
  }
  for (size_t at = 20; at < size; at++) { /* past gzip's own header every byte counts, ... */
    if (at == size - 9) continue;         /* but the last one before the checksum may be padding */
    packed[at] ^= 0x10;
    write_file(name, packed, size);
    expect_failure("mnist", NEAP_BAD_FORMAT, name, "");
    packed[at] ^= 0x10;
  }
  memcpy(bytes, digit_images, IMAGE_BYTES);
  write_gzip(name, bytes, IMAGE_BYTES + 1);
  expect_failure("mnist", NEAP_BAD_FORMAT, name, "more than");
  write_gzip(name, bytes, IMAGE_BYTES - 1);
  expect_failure("mnist", NEAP_BAD_FORMAT, name, "149 bytes");
  bytes[4] = 0x7f; /* two thousand million images in a few bytes */
  write_gzip(name, bytes, IMAGE_BYTES);
  expect_failure("mnist", NEAP_BAD_FORMAT, name, "cannot hold");
  unlink(in_folder(name));
  expect_failure("mnist", NEAP_IO_FAILED, "train-images-idx3-ubyte", "is missing");
  write_mnist();
}

int run_test_data(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cifar_records), cmocka_unit_test(test_augmentation),
      cmocka_unit_test(test_order),         cmocka_unit_test(test_mnist_records),
      cmocka_unit_test(test_synthetic),     cmocka_unit_test(test_synthetic_sizes),
      cmocka_unit_test(test_label_maps),    cmocka_unit_test(test_cut_short),
      cmocka_unit_test(test_bad_names),     cmocka_unit_test(test_bad_cifar),
      cmocka_unit_test(test_bad_idx),       cmocka_unit_test(test_bad_gzip),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
