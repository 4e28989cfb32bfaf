/* Files that are written are read back, also by a parser of the test's own; every kind of damage to the
 * header is refused with the file and the tensor named. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/safetensors.h"
#include "testing.h"

static char path[] = "/tmp/neap-safetensors-XXXXXX";

static const struct safetensors_tensor shapes[] = {
    {.name = "conv.weight", .rank = 4, .dims = {2, 3, 1, 5}, .elements = 30},
    {.name = "scalar", .rank = 0, .elements = 1},
    {.name = "empty", .rank = 2, .dims = {0, 7}, .elements = 0},
    {.name = "quote\"and\\slash", .rank = 1, .dims = {4}, .elements = 4},
};
enum { COUNT = sizeof shapes / sizeof *shapes };

static neap_status give(void *context, int32_t index, float *data) {
  const int32_t *failing = context;
  if (failing != NULL && *failing == index) return neap_fail(NEAP_INTERNAL, "as asked");
  for (int64_t i = 0; i < shapes[index].elements; i++) data[i] = (float)(index * 100 + i) + 0.5f;
  return NEAP_OK;
}

static neap_status write_to(FILE *file, int32_t *failing) {
  const struct safetensors_text texts[] = {{"step", "18446744073709551615"}, {"format", "x"}};
  return safetensors_write(file, path,
                           &(struct safetensors_content){.tensors = shapes,
                                                         .tensor_count = COUNT,
                                                         .metadata = texts,
                                                         .metadata_count = 2,
                                                         .read = give,
                                                         .context = failing});
}

static void test_round_trip(void **state) {
  (void)state;
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(write_to(file, NULL), NEAP_OK);
  const long size = ftell(file);
  fclose(file);
  struct safetensors tensors;
  assert_int_equal(safetensors_open(path, &tensors), NEAP_OK);
  assert_int_equal(tensors.tensor_count, COUNT);
  for (int32_t i = 0; i < COUNT; i++) {
    const int32_t k = safetensors_find(&tensors, shapes[i].name);
    assert_in_range(k, 0, COUNT - 1);
    assert_int_equal(tensors.tensors[k].rank, shapes[i].rank);
    for (int d = 0; d < shapes[i].rank; d++) assert_int_equal(tensors.tensors[k].dims[d], shapes[i].dims[d]);
    float wanted[30] = {0}, got[30] = {0};
    give(NULL, i, wanted);
    assert_int_equal(safetensors_read(&tensors, k, got), NEAP_OK);
    assert_memory_equal(got, wanted, sizeof got);
  }
  assert_int_equal(safetensors_find(&tensors, "conv"), -1);
  assert_string_equal(safetensors_metadata(&tensors, "step"), "18446744073709551615");
  assert_null(safetensors_metadata(&tensors, "steps"));
  safetensors_close(&tensors);
  /* By the format alone: the data are the last 35 floats, 8-byte aligned, in the order they were given. */
  float data[35];
  uint64_t header;
  file = fopen(path, "rb");
  assert_int_equal(fread(&header, 8, 1, file), 1);
  assert_int_equal(header % 8, 0);
  assert_int_equal(8 + header + sizeof data, size);
  assert_int_equal(fseek(file, (long)(8 + header), SEEK_SET), 0);
  assert_int_equal(fread(data, sizeof data, 1, file), 1);
  fclose(file);
  assert_true(data[0] == 0.5f && data[29] == 29.5f && data[30] == 100.5f && data[31] == 300.5f &&
              data[34] == 303.5f);
}

static void test_write_failures(void **state) {
  (void)state;
  int32_t failing = 1;
  FILE *file = fopen(path, "wb");
  assert_int_equal(write_to(file, &failing), NEAP_INTERNAL);
  assert_string_equal(neap_error_message(), "as asked");
  fclose(file);
  file = fopen(path, "rb"); /* not writable, like a full disk */
  assert_int_equal(write_to(file, NULL), NEAP_IO_FAILED);
  assert_non_null(strstr(neap_error_message(), path));
  fclose(file);
}

static void test_two_of_one_name(void **state) {
  (void)state;
  const struct safetensors_tensor twins[] = {shapes[1], shapes[1]};
  FILE *file = tmpfile();
  assert_non_null(file);
  assert_int_equal(
      safetensors_write(file, path,
                        &(struct safetensors_content){.tensors = twins, .tensor_count = 2, .read = give}),
      NEAP_INVALID_ARGUMENT);
  assert_non_null(strstr(neap_error_message(), "scalar"));
  fclose(file);
}

static void test_save(void **state) {
  (void)state;
  struct safetensors tensors;
  struct safetensors_content content = {.tensors = shapes, .tensor_count = COUNT, .read = give};
  assert_int_equal(safetensors_save(path, &content), NEAP_OK);
  /* A failure in the middle has its own reason, and leaves the old file. */
  int32_t failing = 2;
  content.context = &failing;
  assert_int_equal(safetensors_save(path, &content), NEAP_INTERNAL);
  assert_string_equal(neap_error_message(), "as asked");
  assert_int_equal(safetensors_save("/dev/null/file", &content), NEAP_IO_FAILED);
  assert_non_null(strstr(neap_error_message(), "/dev/null/file"));
  assert_int_equal(safetensors_open(path, &tensors), NEAP_OK);
  assert_int_equal(tensors.tensor_count, COUNT);
  safetensors_close(&tensors);
}

static void write_raw(uint64_t length, const char *header, size_t data_bytes) {
  FILE *file = fopen(path, "wb");
  assert_int_equal(fwrite(&length, 8, 1, file), 1);
  fputs(header, file);
  for (size_t i = 0; i < data_bytes; i++) fputc((int)i, file);
  fclose(file);
}

static void expect_refused(neap_status status, const char *part) {
  struct safetensors tensors;
  const neap_status got = safetensors_open(path, &tensors);
  safetensors_close(&tensors);
  if (got != status || strstr(neap_error_message(), part) == NULL)
    print_error("status %d, message: %s\n", (int)got, neap_error_message());
  assert_int_equal(got, status);
  assert_non_null(strstr(neap_error_message(), path));
  assert_non_null(strstr(neap_error_message(), part));
}

#define TENSOR(name, dtype, shape, begin, end)                                                               \
  "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static void test_bad_headers(void **state) {
  (void)state;
  const struct {
    const char *header, *part;
    size_t data;
  } bad[] = {
      {"", "JSON", 8},
      {"[]", "object", 0},
      {"{\"a\"", "JSON", 8},
      {"{} x", "JSON", 0},
      {"{\"a\":3}", "'a'", 8},
      {"{" TENSOR("a", "F31", "[2]", 0, 8) "}", "'a': unknown dtype 'F31'", 8},
      {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", "'a': unknown dtype '(none)'", 8},
      {"{" TENSOR("a", "F32", "2", 0, 8) "}", "'a': shape", 8},
      {"{" TENSOR("a", "F32", "[2.0]", 0, 8) "}", "'a': shape[0]", 8},
      {"{" TENSOR("a", "F32", "[1,-2]", 0, 8) "}", "'a': shape[1]", 8},
      {"{" TENSOR("a", "F32", "[4294967296,4294967296,0]", 0, 0) "}", "'a': shape", 0},
      {"{" TENSOR("a", "F32", "[4611686018427387904]", 0, 0) "}", "'a': data_offsets", 0},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", "'a': data_offsets", 8},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":8}}", "'a': data_offsets", 8},
      {"{" TENSOR("a", "F32", "[2]", 0, 9) "}", "'a': data_offsets", 9},
      {"{" TENSOR("a", "F32", "[2]", -8, 0) "}", "'a': data_offsets", 8},
      {"{" TENSOR("a", "F32", "[2]", 8, 0) "}", "'a': data_offsets", 8},
      {"{" TENSOR("a", "F32", "[2]", 0, 8) "}", "'a': data_offsets", 7},
      {"{" TENSOR("a", "F32", "[2]", 0, 8) "}", "9 bytes of data", 9},
      {"{" TENSOR("a", "F32", "[2]", 4, 12) "}", "'a' begins at offset 4", 12},
      {"{" TENSOR("a", "F32", "[2]", 0, 8) "," TENSOR("b", "F32", "[2]", 4, 12) "}", "'b' begins at offset 4",
       12},
      {"{" TENSOR("a", "F32", "[2]", 0, 8) "," TENSOR("b", "F32", "[1]", 12, 16) "}",
       "'b' begins at offset 12", 16},
      {"{" TENSOR("a", "F32", "[2]", 0, 8) "," TENSOR("a", "F32", "[2]", 0, 8) "}", "JSON", 8},
      {"{\"__metadata__\":{\"k\":1}}", "'k'", 0},
      {"{\"__metadata__\":\"k\"}", "__metadata__", 0},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    write_raw(strlen(bad[i].header), bad[i].header, bad[i].data);
    expect_refused(NEAP_BAD_FORMAT, bad[i].part);
  }
  const char *deep = "{" TENSOR("a", "F32", "[1,1,1,1,1,1,1,1,1]", 0, 4) "}";
  write_raw(strlen(deep), deep, 4);
  expect_refused(NEAP_UNSUPPORTED, "rank 9");
}

static void test_bad_lengths(void **state) {
  (void)state;
  const char *header = "{" TENSOR("a", "F32", "[2]", 0, 8) "}";
  write_raw(UINT64_MAX, header, 8);
  expect_refused(NEAP_BAD_FORMAT, "18446744073709551615");
  write_raw(strlen(header) + 9, header, 8);
  expect_refused(NEAP_BAD_FORMAT, "offset 0");
  for (long length = 0; length < 8; length++) {
    assert_int_equal(truncate(path, length), 0);
    expect_refused(NEAP_BAD_FORMAT, "has at least 8");
  }
  unlink(path);
  expect_refused(NEAP_IO_FAILED, "No such file");
}

/* Every truncation of a whole file is refused; a bit flipped in the header never reads as something it was
 * not in size, and never crashes. */
static void test_damage(void **state) {
  (void)state;
  static char bytes[2000];
  FILE *file = fopen(path, "wb");
  assert_int_equal(write_to(file, NULL), NEAP_OK);
  fclose(file);
  file = fopen(path, "rb");
  const size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  for (size_t length = size; length-- > 0;) {
    assert_int_equal(truncate(path, (off_t)length), 0);
    expect_refused(NEAP_BAD_FORMAT, "");
  }
  for (size_t bit = 0; bit < 8 * (size - 35 * sizeof(float)); bit++) {
    bytes[bit / 8] ^= (char)(1 << bit % 8);
    file = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    bytes[bit / 8] ^= (char)(1 << bit % 8);
    struct safetensors tensors;
    if (safetensors_open(path, &tensors) == NEAP_OK) {
      uint64_t data = 0;
      for (int32_t i = 0; i < tensors.tensor_count; i++) data += tensors.tensors[i].bytes;
      assert_int_equal(data, 35 * sizeof(float));
    }
    safetensors_close(&tensors);
  }
}

/* What 16 bits hold is read as it was given, the rest rounded. */
static neap_status give_halves(void *context, int32_t index, float *data) {
  (void)context, (void)index;
  for (int i = 0; i < 5; i++) data[i] = (float)i - 1.5f;
  data[5] = 1.0001f;
  return NEAP_OK;
}

static void test_16_bits(void **state) {
  (void)state;
  const struct safetensors_tensor halves[] = {
      {.name = "b", .dtype = "BF16", .rank = 2, .dims = {2, 3}, .elements = 6},
      {.name = "h", .dtype = "F16", .rank = 1, .dims = {6}, .elements = 6}};
  const struct safetensors_content content = {.tensors = halves, .tensor_count = 2, .read = give_halves};
  assert_int_equal(safetensors_save(path, &content), NEAP_OK);
  struct safetensors tensors;
  assert_int_equal(safetensors_open(path, &tensors), NEAP_OK);
  for (int32_t i = 0; i < 2; i++) {
    float wanted[6], got[6];
    const int32_t k = safetensors_find(&tensors, halves[i].name);
    assert_string_equal(tensors.tensors[k].dtype, halves[i].dtype);
    assert_int_equal(tensors.tensors[k].bytes, 12);
    assert_int_equal(safetensors_read(&tensors, k, got), NEAP_OK);
    give_halves(NULL, i, wanted);
    wanted[5] = 1;
    assert_memory_equal(got, wanted, sizeof got);
  }
  safetensors_close(&tensors);
}

static void test_other_dtypes(void **state) {
  (void)state;
  const char *header = "{" TENSOR("b", "I64", "[]", 8, 16) "," TENSOR("a", "F32", "[2]", 0, 8) "}";
  write_raw(strlen(header), header, 16);
  struct safetensors tensors;
  float data[4];
  assert_int_equal(safetensors_open(path, &tensors), NEAP_OK);
  assert_int_equal(safetensors_read(&tensors, safetensors_find(&tensors, "a"), data), NEAP_OK);
  const unsigned char bytes[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  assert_memory_equal(data, bytes, 8);
  assert_int_equal(safetensors_read(&tensors, safetensors_find(&tensors, "b"), data), NEAP_UNSUPPORTED);
  assert_non_null(strstr(neap_error_message(), "'b'"));
  safetensors_close(&tensors);
}

static int make_file(void **state) {
  (void)state;
  const int file = mkstemp(path);
  return file < 0 ? 1 : close(file);
}

static int remove_file(void **state) {
  (void)state;
  unlink(path);
  return 0;
}

int run_test_safetensors(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),      cmocka_unit_test(test_write_failures),
      cmocka_unit_test(test_two_of_one_name), cmocka_unit_test(test_save),
      cmocka_unit_test(test_bad_headers),     cmocka_unit_test(test_bad_lengths),
      cmocka_unit_test(test_damage),          cmocka_unit_test(test_16_bits),
      cmocka_unit_test(test_other_dtypes),
  };
  return cmocka_run_group_tests(tests, make_file, remove_file);
}
