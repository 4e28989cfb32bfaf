/* The file of metrics: what a line has, and that going on after a stop leaves the file as if there had been
 * none. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "testing.h"
#include "train/metrics.h"

static char path[] = "/tmp/neap-metrics-XXXXXX";

static void write_steps(int64_t resumed, int64_t from, int64_t to) {
  struct json_lines metrics;
  assert_int_equal(json_lines_open(path, METRICS, resumed, &metrics), NEAP_OK);
  for (int64_t step = from; step <= to; step++) {
    const neap_train_progress progress = {.step = step,
                                          .epoch = (step + 3) / 4,
                                          .loss = step == 3 ? NAN : 2.0 / (double)step,
                                          .accuracy = 0.5,
                                          .gradient_norm = -1,
                                          .learning_rate = 0.1,
                                          .seconds = 0.25,
                                          .test_accuracy = step % 4 == 0 ? 0.75 : -1,
                                          .test_loss = step % 4 == 0 ? 1.5 : -1,
                                          .bits_per_byte = step == 8 ? 2.25 : -1};
    assert_int_equal(metrics_write(&metrics, &progress), NEAP_OK);
  }
  assert_int_equal(json_lines_sync(&metrics), NEAP_OK);
  assert_int_equal(json_lines_close(&metrics), NEAP_OK);
}

static size_t read_all(char *text, size_t size) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  const size_t length = fread(text, 1, size - 1, file);
  fclose(file);
  text[length] = '\0';
  return length;
}

static void test_lines(void **state) {
  (void)state;
  write_steps(-1, 1, 9);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  for (int step = 1; step <= 9; step++) {
    char text[500];
    assert_non_null(fgets(text, sizeof text, file));
    json_t *line = json_loads(text, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(line, "step")), step);
    assert_int_equal(json_integer_value(json_object_get(line, "epoch")), (step + 3) / 4);
    const json_t *loss = json_object_get(line, "loss");
    if (step == 3)
      assert_true(json_is_null(loss));
    else
      assert_true(fabs(json_real_value(loss) - 2.0 / step) < 1e-8);
    assert_true(json_real_value(json_object_get(line, "accuracy")) == 0.5);
    assert_true(fabs(json_real_value(json_object_get(line, "learning_rate")) - 0.1) < 1e-9);
    assert_true(json_real_value(json_object_get(line, "seconds")) == 0.25);
    if (step % 4 == 0) assert_true(json_real_value(json_object_get(line, "test_loss")) == 1.5);
    if (step == 8) assert_true(json_real_value(json_object_get(line, "bits_per_byte")) == 2.25);
    assert_int_equal(json_object_size(line), step == 8 ? 9 : step % 4 == 0 ? 8 : 6);
    json_decref(line);
  }
  assert_int_equal(fgetc(file), EOF);
  fclose(file);
}

static void test_resume(void **state) {
  (void)state;
  static char whole[4096], got[4096];
  write_steps(-1, 1, 9);
  const size_t size = read_all(whole, sizeof whole);
  for (int64_t resumed = 0; resumed <= 9; resumed++) {
    write_steps(resumed, resumed + 1, 9);
    assert_int_equal(read_all(got, sizeof got), size);
    assert_string_equal(got, whole);
  }
  /* A last line that a kill cut short. */
  assert_int_equal(truncate(path, (off_t)size - 20), 0);
  write_steps(8, 9, 9);
  read_all(got, sizeof got);
  assert_string_equal(got, whole);
  /* Lines that are gone do not come back, and are no reason to stop. */
  unlink(path);
  write_steps(8, 9, 9);
  read_all(got, sizeof got);
  assert_string_equal(got, strstr(whole, "{\"step\": 9"));
}

/* A file of something else is not cut. */
static void test_other_file(void **state) {
  (void)state;
  const char *const texts[] = {"hello\nworld\n", "{\"loss\": 1}\n", "{\"step\": \"1\"}\n", "{\"step\": -1}\n",
                               "\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char got[64];
    FILE *file = fopen(path, "wb");
    fputs(texts[i], file);
    fclose(file);
    struct json_lines metrics;
    assert_int_equal(json_lines_open(path, METRICS, 1, &metrics), NEAP_BAD_FORMAT);
    assert_non_null(strstr(neap_error_message(), path));
    assert_non_null(strstr(neap_error_message(), "line 1"));
    read_all(got, sizeof got);
    assert_string_equal(got, texts[i]);
  }
}

/* What is new takes no file's place but an empty one's, and what is no file is written to. */
static void test_new_file(void **state) {
  (void)state;
  unlink(path);
  assert_int_equal(metrics_check_new(path), NEAP_OK);
  assert_int_equal(metrics_check_new(NULL), NEAP_OK);
  assert_int_equal(metrics_check_new("/dev/null"), NEAP_OK);
  write_steps(-1, 1, 0);
  assert_int_equal(metrics_check_new(path), NEAP_OK);
  write_steps(-1, 1, 1);
  assert_int_equal(metrics_check_new(path), NEAP_INVALID_ARGUMENT);
  assert_non_null(strstr(neap_error_message(), path));
}

static void test_failures(void **state) {
  (void)state;
  struct json_lines metrics;
  assert_int_equal(json_lines_open("/dev/null/metrics", METRICS, -1, &metrics), NEAP_IO_FAILED);
  assert_non_null(strstr(neap_error_message(), "/dev/null/metrics"));
  assert_int_equal(json_lines_open(NULL, METRICS, -1, &metrics), NEAP_OK);
  assert_int_equal(metrics_write(&metrics, &(neap_train_progress){.step = 1}), NEAP_OK);
  assert_int_equal(json_lines_close(&metrics), NEAP_OK);
  if (access("/dev/full", W_OK) != 0) skip();
  assert_int_equal(json_lines_open("/dev/full", METRICS, -1, &metrics), NEAP_OK);
  assert_int_equal(metrics_write(&metrics, &(neap_train_progress){.step = 1}), NEAP_IO_FAILED);
  json_lines_close(&metrics);
}

static int make_file(void **state) {
  (void)state;
  const int file = mkstemp(path);
  return file < 0 ? 1 : close(file);
}

static int remove_file(void **state) {
  (void)state;
  return unlink(path);
}

int run_test_metrics(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lines),    cmocka_unit_test(test_resume),   cmocka_unit_test(test_other_file),
      cmocka_unit_test(test_new_file), cmocka_unit_test(test_failures),
  };
  return cmocka_run_group_tests(tests, make_file, remove_file);
}
