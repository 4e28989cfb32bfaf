/* state.json: what is written is read; any damage and any setting that differs is refused by name. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "effort.h"
#include "testing.h"
#include "train/checkpoint.h"

static char folder[64], path[96];
static json_t *settings;

static const struct checkpoint written = {.epoch = 3,
                                          .step = 1234567890123,
                                          .session_steps = 1234567890323,
                                          .loss_sum = 812.1 / 3,
                                          .correct = 19231,
                                          .images = 50000,
                                          .test_accuracy = 0.1 + 0.2,
                                          .weights = "weights-5-0123456789ab.safetensors",
                                          .weights_sha256 = "0123456789abcdef0123456789abcdef"
                                                            "0123456789abcdef0123456789abcdef"};

static int setup(void **state) {
  (void)state;
  strcpy(folder, "/tmp/neap-checkpoint-XXXXXX");
  if (mkdtemp(folder) == NULL) return 1;
  snprintf(path, sizeof path, "%s/state.json", folder);
  settings = json_pack("{s:s, s:i, s:f, s:b, s:s}", "model", "wrn-28-2", "batch", 100, "momentum",
                       (double)0.9f, "shuffle", 1, "seed", "18446744073709551615");
  return settings == NULL;
}

static int teardown(void **state) {
  (void)state;
  json_decref(settings);
  unlink(path);
  return rmdir(folder);
}

static void write_text(const char *text, size_t length) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, length, file), length);
  fclose(file);
}

static size_t read_text(char *text, size_t size) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  const size_t length = fread(text, 1, size, file);
  fclose(file);
  assert_in_range(length, 1, size - 1);
  text[length] = '\0';
  return length;
}

static void expect_refused(neap_status status, const char *part) {
  struct checkpoint got;
  const neap_status is = checkpoint_read_state(folder, settings, &got);
  if (is != status || strstr(neap_error_message(), part) == NULL)
    print_error("status %d, message: %s\n", (int)is, neap_error_message());
  assert_int_equal(is, status);
  assert_non_null(strstr(neap_error_message(), path));
  assert_non_null(strstr(neap_error_message(), part));
}

static void expect_same(const struct checkpoint *got) {
  assert_int_equal(got->epoch, written.epoch);
  assert_int_equal(got->step, written.step);
  assert_true(got->loss_sum == written.loss_sum);
  assert_int_equal(got->correct, written.correct);
  assert_int_equal(got->images, written.images);
  assert_true(got->test_accuracy == written.test_accuracy);
  assert_string_equal(got->weights, written.weights);
  assert_string_equal(got->weights_sha256, written.weights_sha256);
}

static void test_round_trip(void **state) {
  (void)state;
  struct checkpoint got = {0};
  assert_int_equal(checkpoint_write_state(folder, settings, &written), NEAP_OK);
  assert_int_equal(checkpoint_read_state(folder, settings, &got), NEAP_OK);
  expect_same(&got);
  struct checkpoint diverged = written;
  diverged.loss_sum = INFINITY;
  assert_int_equal(checkpoint_write_state(folder, settings, &diverged), NEAP_OK);
  assert_int_equal(checkpoint_read_state(folder, settings, &got), NEAP_OK);
  assert_false(isfinite(got.loss_sum));
}

static void test_kernels(void **state) {
  (void)state;
  json_t *read = NULL, *kernels = json_pack("[s, s]", "oneDNN 2.6.3 jit:avx2", "winograd 4x4 2 avx2");
  struct checkpoint made = written, got;
  assert_int_equal(checkpoint_write_state(folder, settings, &made), NEAP_OK);
  assert_int_equal(checkpoint_read_kernels(folder, &read), NEAP_OK);
  assert_null(read);
  made.kernels = kernels;
  assert_int_equal(checkpoint_write_state(folder, settings, &made), NEAP_OK);
  assert_int_equal(checkpoint_read_state(folder, settings, &got), NEAP_OK);
  expect_same(&got);
  assert_int_equal(checkpoint_read_kernels(folder, &read), NEAP_OK);
  assert_true(json_equal(read, kernels));
  json_decref(read);
  json_decref(kernels);
  json_t *const others[] = {json_integer(3), json_pack("[s, i]", "oneDNN", 3), json_null()};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    made.kernels = others[i];
    assert_int_equal(checkpoint_write_state(folder, settings, &made), NEAP_OK);
    expect_refused(NEAP_BAD_FORMAT, "kernels");
    assert_int_equal(checkpoint_read_kernels(folder, &read), NEAP_BAD_FORMAT);
    json_decref(others[i]);
  }
}

static void test_settings(void **state) {
  (void)state;
  assert_int_equal(checkpoint_write_state(folder, settings, &written), NEAP_OK);
  const struct {
    const char *name;
    json_t *value;
  } others[] = {{"model", json_string("lenet")}, {"batch", json_integer(101)},
                {"batch", json_string("100")},   {"momentum", json_real(nextafter((double)0.9f, 1))},
                {"shuffle", json_false()},       {"seed", json_string("1844674407370955161")},
                {"dropout", json_real(0.5)}};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    json_t *kept = settings;
    settings = json_copy(kept);
    json_object_set_new(settings, others[i].name, others[i].value);
    expect_refused(NEAP_INVALID_ARGUMENT, others[i].name);
    json_decref(settings);
    settings = kept;
  }
  /* A setting that only the file has is one that does not matter to this run. */
  struct checkpoint got;
  json_t *kept = settings;
  settings = json_copy(kept);
  json_object_del(settings, "seed");
  assert_int_equal(checkpoint_read_state(folder, settings, &got), NEAP_OK);
  json_decref(settings);
  settings = kept;
}

/* No truncation is taken for a state, and no flipped bit for another one. */
static void test_damage(void **state) {
  (void)state;
  char text[4096];
  assert_int_equal(checkpoint_write_state(folder, settings, &written), NEAP_OK);
  const size_t length = read_text(text, sizeof text);
  size_t whole = length; /* up to the closing brace */
  while (text[whole - 1] != '}') whole--;
  for (size_t cut = 0; cut < whole; cut++) {
    write_text(text, cut);
    expect_refused(NEAP_BAD_FORMAT, "line ");
  }
  for (size_t bit = 0; bit < 8 * length; bit += quick_pass() ? 3 : 1) {
    text[bit / 8] ^= (char)(1 << bit % 8);
    write_text(text, length);
    struct checkpoint got;
    const neap_status status = checkpoint_read_state(folder, settings, &got);
    /* White space for another, or a digit behind those that a double has: the content is the same. */
    if (status == NEAP_OK) expect_same(&got);
    text[bit / 8] ^= (char)(1 << bit % 8);
  }
  write_text("{}", 2);
  expect_refused(NEAP_BAD_FORMAT, "'format'");
  write_text("[1]", 3);
  expect_refused(NEAP_BAD_FORMAT, "object");
  write_text("", 0);
  expect_refused(NEAP_BAD_FORMAT, "line ");
  unlink(path);
  expect_refused(NEAP_IO_FAILED, "cannot be read");
}

/* An intact file of another kind or version, and one that names weights outside of the folder. */
static void test_other_files(void **state) {
  (void)state;
  struct checkpoint outside = written;
  strcpy(outside.weights, "../weights.safetensors");
  assert_int_equal(checkpoint_write_state(folder, settings, &outside), NEAP_OK);
  expect_refused(NEAP_BAD_FORMAT, "'weights'");
  const struct {
    const char *text, *part;
    neap_status status;
  } others[] = {
      {"{\"format\": \"neap-plan\", \"version\": 1}", "'neap-plan'", NEAP_BAD_FORMAT},
      {"{\"format\": \"neap-checkpoint\", \"version\": 2}", "'version'", NEAP_BAD_FORMAT},
      {"{\"format\": \"neap-checkpoint\"}", "'version'", NEAP_BAD_FORMAT},
      {"{\"format\": \"neap-checkpoint\", \"version\": 1}", "'state_sha256'", NEAP_BAD_FORMAT},
      {"{\"format\": \"neap-checkpoint\", \"format\": 1}", "duplicate", NEAP_BAD_FORMAT},
  };
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    write_text(others[i].text, strlen(others[i].text));
    expect_refused(others[i].status, others[i].part);
  }
}

int run_test_checkpoint(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip), cmocka_unit_test(test_kernels),     cmocka_unit_test(test_settings),
      cmocka_unit_test(test_damage),     cmocka_unit_test(test_other_files),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
