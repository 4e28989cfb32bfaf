/* Folders of pictures: the records that they are, and what is said of what is wrong with them. */
#include <ftw.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data_help.h"
#include "picture_cases.h"
#include "testing.h"

enum { SIDE = 6, PLANE = SIDE * SIDE };
static char folder[64];

static const char *path_of(const char *name) {
  static char path[4][256];
  static int turn;
  turn = (turn + 1) % 4;
  snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
  return path[turn];
}

static void make_folders(const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s", path_of(name));
  for (char *slash = path + strlen(folder); (slash = strchr(slash + 1, '/')) != NULL;) {
    *slash = '\0';
    mkdir(path, 0777);
    *slash = '/';
  }
}

static void write_file(const char *name, const void *bytes, size_t size) {
  make_folders(name);
  FILE *file = fopen(path_of(name), "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

static uint8_t byte_of(int record, int k) { return (uint8_t)(record * 83 + k * 29 + k * k); }

/* A picture of RGB whose bytes are those of the record. */
static void write_picture(const char *name, int record) {
  uint8_t pixels[3 * PLANE];
  for (int k = 0; k < 3 * PLANE; k++) pixels[k] = byte_of(record, k % 3 * PLANE + k / 3);
  png_image image = {.version = PNG_IMAGE_VERSION, .width = SIDE, .height = SIDE, .format = PNG_FORMAT_RGB};
  make_folders(name);
  assert_true(png_image_write_to_file(&image, path_of(name), 0, pixels, 0, NULL));
}

static int start(void **state) {
  (void)state;
  strcpy(folder, "/tmp/neap-images-XXXXXX");
  return mkdtemp(folder) == NULL;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk) {
  (void)status, (void)type, (void)walk;
  return remove(path);
}

static int clear(void **state) {
  (void)state;
  return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static neap_status open_folder(struct loader *loader, const char *words) {
  char text[256];
  snprintf(text, sizeof text, "images:%s%s", folder, words);
  return open_images(loader, text);
}

/* Refused with a message that has both parts. */
static void refuse(const char *words, const char *part, const char *other) {
  struct loader loader;
  const neap_status status = open_folder(&loader, words);
  loader_close(&loader);
  if (status == NEAP_OK || strstr(neap_error_message(), part) == NULL ||
      strstr(neap_error_message(), other) == NULL)
    fail_msg("status %d: %s", (int)status, neap_error_message());
}

/* ---- What is taken ---- */

/* Records are in the order of names across classes, with the bytes of their pictures. */
static void test_records(void **state) {
  (void)state;
  struct loader l;
  static const char *const names[] = {"train/b/0.png", "train/a/1.PNG", "train/b/deep/2.png",
                                      "train/a/3.png"};
  for (int i = 0; i < 4; i++) write_picture(names[i], i);
  write_picture("val/a/x.png", 7);
  write_picture("test/a/y.png", 8);
  write_file("train/a/notes.txt", "no picture", 10);
  write_file("train/.hidden/z.png", "", 0);
  assert_int_equal(open_folder(&l, ""), NEAP_OK);
  assert_int_equal(l.source.records[SPLIT_TRAIN], 4);
  assert_int_equal(l.source.records[SPLIT_TEST], 1);
  assert_int_equal(l.source.classes, 2);
  assert_string_equal(l.source.class_names[0], "a");
  for (int i = 0; i < 5; i++) {
    uint8_t pixels[3 * PLANE];
    int32_t label;
    const bool test = i == 4;
    assert_int_equal(read_image(&l, test ? SPLIT_TEST : SPLIT_TRAIN, test ? 0 : i, pixels, &label), NEAP_OK);
    for (int k = 0; k < 3 * PLANE; k++) assert_int_equal(pixels[k], byte_of(test ? 7 : i, k));
    assert_int_equal(label, test ? 0 : i % 2 == 0);
  }
  loader_close(&l);
  assert_int_equal(open_folder(&l, ",test=test"), NEAP_OK);
  uint8_t pixels[3 * PLANE];
  int32_t label;
  assert_int_equal(read_image(&l, SPLIT_TEST, 0, pixels, &label), NEAP_OK);
  assert_int_equal(pixels[0], byte_of(8, 0));
  loader_close(&l);
  refuse(",test=gone", "gone", "is not a folder");
  refuse(",holdout=0.5", "holdout=0.5", "test part");
}

static int write_classes(int count) {
  char name[64];
  for (int i = 0; i < count; i++) {
    snprintf(name, sizeof name, "%c/%03d.png", 'a' + i % 3, i);
    write_picture(name, i);
  }
  return count;
}

/* A part is held out by seed, the same one each time; together the parts are all. */
static void test_holdout(void **state) {
  (void)state;
  enum { COUNT = 40 };
  bool first[COUNT] = {false};
  int differ = 0;
  write_classes(COUNT);
  for (int run = 0; run < 3; run++) {
    struct loader l;
    bool held[COUNT] = {false};
    assert_int_equal(open_folder(&l, run < 2 ? ",holdout=0.25,seed=4" : ",holdout=0.25,seed=5"), NEAP_OK);
    assert_int_equal(l.source.records[SPLIT_TEST], COUNT / 4);
    assert_int_equal(l.source.records[SPLIT_TRAIN], COUNT - COUNT / 4);
    for (int s = 0; s < SPLITS; s++)
      for (int64_t i = 0; i < l.source.records[s]; i++) {
        uint8_t pixels[3 * PLANE];
        int32_t label;
        int record = 0;
        assert_int_equal(read_image(&l, (enum split)s, i, pixels, &label), NEAP_OK);
        while (byte_of(record, 0) != pixels[0]) record++;
        assert_int_equal(label, record % 3);
        assert_false(held[record] && s == SPLIT_TRAIN);
        if (s == SPLIT_TEST) held[record] = true;
      }
    for (int i = 0; i < COUNT; i++) differ += run > 0 && held[i] != first[i];
    if (run == 0) memcpy(first, held, sizeof first);
    if (run == 1) assert_int_equal(differ, 0);
    loader_close(&l);
  }
  assert_true(differ > 4);
  refuse(",holdout=1.5", "(got 1.5)", "between 0 and 1");
  refuse(",holdout=0.5,seed=x", "(got x)", "must be an integer");
}

/* Any sizes, with and without colours, become one; read ahead or not a batch is the same. */
static void test_sizes(void **state) {
  (void)state;
  enum { COUNT = sizeof picture_cases / sizeof *picture_cases, IMAGE = 3 * 9 * 8 };
  static float images[COUNT * IMAGE], again[COUNT * IMAGE];
  int32_t labels[COUNT], records[COUNT];
  struct loader l;
  char name[64];
  for (int i = 0; i < COUNT; i++) {
    snprintf(name, sizeof name, "%s/%02d.%s", i % 2 == 0 ? "even" : "odd", i, i % 3 == 0 ? "png" : "jpeg");
    write_file(name, picture_cases[i].file, picture_cases[i].size);
  }
  refuse("", "differ in size", "size=224");
  refuse(",size=0", "size=0", "1 to");
  refuse(",size=4x", "size=4x", "1 to");
  assert_int_equal(open_folder(&l, ",size=9x8,holdout=0.3"), NEAP_OK);
  const struct field *image = source_image(&l.source);
  assert_true(image->dims[0] == 3 && image->dims[1] == 9 && image->dims[2] == 8);
  const int count = (int)l.source.records[SPLIT_TRAIN];
  for (int augment = 0; augment < 2; augment++) {
    for (int i = 0; i < count; i++) records[i] = count - 1 - i;
    struct batch batch = {.count = count,
                          .records = records,
                          .draw = {augment, 5, 2},
                          .threads = 2,
                          .images = images,
                          .labels = labels};
    assert_int_equal(fill_batch(&l, &batch), NEAP_OK);
    for (int i = 0; i < count; i++) {
      batch.count = 1, batch.records = &records[i], batch.images = again;
      assert_int_equal(fill_batch(&l, &batch), NEAP_OK);
      assert_memory_equal(again, images + i * IMAGE, IMAGE * sizeof *again);
    }
  }
  loader_close(&l);
}

/* Steps that are read ahead are those that are not, in whatever order they are asked for. */
static void test_ahead(void **state) {
  (void)state;
  enum { COUNT = 30, MICRO = 4, STEPS = 9 };
  static float ahead[MICRO * 3 * PLANE], now[MICRO * 3 * PLANE];
  int32_t labels[2][MICRO];
  struct loader l[2];
  write_classes(COUNT);
  for (int i = 0; i < 2; i++) {
    struct field inputs[] = {{"image", NEAP_F32, 3, {3, SIDE, SIDE}, false},
                             {"label", NEAP_I32, 0, {0}, false}};
    const struct division division = {
        .batch = MICRO, .micro = MICRO, .seed = 3, .shuffle = true, .augment = true};
    assert_int_equal(open_folder(&l[i], ""), NEAP_OK);
    if (i == 1) l[i].source.slow = false;
    assert_int_equal(loader_divide(&l[i], &division), NEAP_OK);
    assert_int_equal(loader_prepare(&l[i], inputs, 2), NEAP_OK);
    assert_int_equal(l[i].ahead != NULL, i == 0);
    loader_attach_input(&l[i], "image", i == 0 ? ahead : now);
    loader_attach_input(&l[i], "label", labels[i]);
  }
  static const int steps[STEPS] = {0, 1, 2, 4, 3, 4, 5, 6, 15};
  for (int i = 0; i < STEPS; i++) {
    for (int k = 0; k < 2; k++) assert_int_equal(loader_fill(&l[k], steps[i], 0, false), NEAP_OK);
    assert_memory_equal(ahead, now, sizeof ahead);
    assert_memory_equal(labels[0], labels[1], sizeof labels[0]);
  }
  int64_t count[2];
  for (int64_t first = 0; first < 3; first += count[0]) {
    for (int k = 0; k < 2; k++)
      assert_int_equal(loader_fill_at(&l[k], SPLIT_TEST, 0, first, &count[k]), NEAP_OK);
    assert_int_equal(count[0], count[1]);
    assert_memory_equal(ahead, now, sizeof ahead);
  }
  /* A file that goes away is reported when its batch is taken. */
  clear(NULL);
  neap_status status = NEAP_OK;
  for (int step = 1; step < 6 && status == NEAP_OK; step++) status = loader_fill(&l[0], step, 0, false);
  assert_int_equal(status, NEAP_IO_FAILED);
  assert_non_null(strstr(neap_error_message(), folder));
  for (int k = 0; k < 2; k++) loader_close(&l[k]);
  mkdir(folder, 0777);
}

/* ---- What is refused ---- */

static void test_broken(void **state) {
  (void)state;
  struct loader l;
  write_classes(12);
  write_file("a/cut.png", picture_cases[0].file, 200);
  refuse("", "differ in size", "size=224");
  refuse(",size=6", "a/cut.png: is a damaged PNG", "replace or remove");
  write_file("b/cut.jpg", picture_cases[15].file, picture_cases[15].size - 60);
  refuse(",size=6", "a/cut.png: is a damaged PNG", "b/cut.jpg: is a damaged JPEG");
  refuse(",size=6", "2 problems", "neap data");
  write_file("b/empty.jpeg", "", 0);
  refuse(",size=6", "b/empty.jpeg: is empty", "3 problems");
  write_file("b/page.jpg", "<html>", 6);
  refuse(",size=6", "b/page.jpg: is of no kind that is read here (PNG, JPEG", "4 problems");
  unlink(path_of("a/cut.png")), unlink(path_of("b/cut.jpg"));
  unlink(path_of("b/empty.jpeg")), unlink(path_of("b/page.jpg"));
  assert_int_equal(open_folder(&l, ""), NEAP_OK);
  loader_close(&l);
}

static void test_bad_folders(void **state) {
  (void)state;
  refuse("/gone", "/gone", "is not a folder");
  refuse("", "has no folders", "two or more");
  write_picture("a/0.png", 0);
  refuse("", "has one folder", "two or more");
  assert_int_equal(mkdir(path_of("b"), 0777), 0);
  refuse("", "/b: has no pictures", "add some or remove it");
  write_picture("b/1.png", 1);
  assert_int_equal(symlink("..", path_of("b/up")), 0);
  refuse("", "/b: is a link to a folder that contains it", "remove it");
  unlink(path_of("b/up"));
  assert_int_equal(symlink("round.png", path_of("b/round.png")), 0);
  refuse("", "b/round.png: cannot be read", "remove or repair it");
  unlink(path_of("b/round.png"));
  write_picture("b/\xff.png", 2);
  refuse("", "b/\\xff.png: its name is not UTF-8", "rename it");
  unlink(path_of("b/\xff.png"));
  write_picture("\xe4/2.png", 2);
  refuse("", "/\\xe4: its name is not UTF-8", "rename it");
  unlink(path_of("\xe4/2.png")), rmdir(path_of("\xe4"));
  write_picture("val/c/0.png", 0);
  write_picture("train/a/0.png", 0);
  write_picture("train/b/0.png", 0);
  refuse("", "val/c: is not a class of the training part", "rename or remove");
}

int run_test_images(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_records, start, clear),
      cmocka_unit_test_setup_teardown(test_holdout, start, clear),
      cmocka_unit_test_setup_teardown(test_sizes, start, clear),
      cmocka_unit_test_setup_teardown(test_ahead, start, clear),
      cmocka_unit_test_setup_teardown(test_broken, start, clear),
      cmocka_unit_test_setup_teardown(test_bad_folders, start, clear),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
