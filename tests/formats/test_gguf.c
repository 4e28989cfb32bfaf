/* Files of GGUF: what is written is read back, also by a parser of the test's own; values and blocks that the
 * test lays out byte by byte are read as they stand; every kind of damage is refused with the file and the
 * place named. python/tests/torch/test_gguf.py holds reader and writer against PyPI's gguf. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/gguf.h"
#include "testing.h"

static char path[] = "/tmp/neap-gguf-XXXXXX";

/* ---- A file, laid out by hand ---- */

static struct {
  unsigned char bytes[8192];
  size_t size;
} file;

static void put(const void *data, size_t bytes) {
  assert_true(file.size + bytes <= sizeof file.bytes);
  memcpy(file.bytes + file.size, data, bytes);
  file.size += bytes;
}
static void put_u32(uint32_t value) { put(&value, 4); }
static void put_u64(uint64_t value) { put(&value, 8); }
static void put_text(const char *text) {
  put_u64(strlen(text));
  put(text, strlen(text));
}
static void put_key(const char *key, uint32_t type) {
  put_text(key);
  put_u32(type);
}
static void begin(uint32_t version, uint64_t tensors, uint64_t pairs) {
  file.size = 0;
  put("GGUF", 4);
  put_u32(version);
  put_u64(tensors);
  put_u64(pairs);
}
/* ne of rank 2, contiguous first. */
static void put_tensor(const char *name, uint64_t ne0, uint64_t ne1, uint32_t type, uint64_t offset) {
  put_text(name);
  put_u32(2);
  put_u64(ne0);
  put_u64(ne1);
  put_u32(type);
  put_u64(offset);
}
static void put_data(size_t bytes) {
  while (file.size % 32 != 0) put("", 1);
  for (size_t i = 0; i < bytes; i++) put(&(unsigned char){(unsigned char)i}, 1);
}

static void write_file(void) {
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  assert_int_equal(fwrite(file.bytes, 1, file.size, out), file.size);
  assert_int_equal(fclose(out), 0);
}

static void open_file(struct gguf *gguf) {
  write_file();
  const neap_status status = gguf_open(path, gguf);
  if (status != NEAP_OK) print_error("%s\n", neap_error_message());
  assert_int_equal(status, NEAP_OK);
}

static struct gguf_strings strings_of(struct gguf *gguf, const char *key) {
  struct gguf_strings strings;
  assert_int_equal(gguf_read_strings(gguf, key, &gguf->region, &strings), NEAP_OK);
  return strings;
}

/* ---- Values ---- */

static const struct {
  const char *key;
  enum gguf_type type;
  uint64_t bits;
  int64_t integer;
  double real;
  bool is_integer, is_real;
} scalars[] = {
    {"u8", GGUF_U8, 200, 200, 200, true, true},
    {"i8", GGUF_I8, 0xFE, -2, -2, true, true},
    {"u16", GGUF_U16, 65535, 65535, 65535, true, true},
    {"i16", GGUF_I16, 0x8000, -32768, -32768, true, true},
    {"u32", GGUF_U32, 4294967295, 4294967295, 4294967295, true, true},
    {"i32", GGUF_I32, 0x80000000, -2147483648LL, -2147483648.0, true, true},
    {"u64", GGUF_U64, INT64_MAX, INT64_MAX, 0x1p63, true, true},
    {"u64 of 64 bits", GGUF_U64, 1ull << 63, 0, 0, false, false},
    {"i64", GGUF_I64, UINT64_MAX, -1, -1, true, true},
    {"f32", GGUF_F32, 0x3FC00000, 0, 1.5, false, true},
    {"f64", GGUF_F64, 0xC008000000000000, 0, -3, false, true},
    {"bool", GGUF_BOOL, 1, 0, 0, false, false},
};
enum { SCALARS = sizeof scalars / sizeof *scalars };

static size_t bytes_of(enum gguf_type type) {
  static const size_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return bytes[type];
}

static void test_scalars(void **state) {
  (void)state;
  struct gguf gguf;
  begin(2, 0, SCALARS);
  for (int i = 0; i < SCALARS; i++) {
    put_key(scalars[i].key, scalars[i].type);
    put(&scalars[i].bits, bytes_of(scalars[i].type));
  }
  open_file(&gguf);
  assert_int_equal(gguf.version, 2);
  assert_int_equal(gguf.pair_count, SCALARS);
  for (int i = 0; i < SCALARS; i++) {
    int64_t integer = 0;
    double real = 0;
    bool truth = false;
    assert_int_equal(gguf_integer(&gguf, scalars[i].key, &integer), scalars[i].is_integer);
    assert_int_equal(integer, scalars[i].integer);
    assert_int_equal(gguf_real(&gguf, scalars[i].key, &real), scalars[i].is_real);
    assert_true(real == scalars[i].real);
    assert_int_equal(gguf_bool(&gguf, scalars[i].key, &truth), scalars[i].type == GGUF_BOOL);
    assert_int_equal(truth, scalars[i].type == GGUF_BOOL);
    assert_null(gguf_text(&gguf, scalars[i].key));
    assert_true(strings_of(&gguf, scalars[i].key).texts == NULL &&
                gguf_integers(&gguf, scalars[i].key) == NULL);
  }
  int64_t unused;
  assert_false(gguf_integer(&gguf, "u", &unused));
  assert_int_equal(gguf_find(&gguf, "u8"), -1);
  gguf_close(&gguf);
}

static void test_arrays(void **state) {
  (void)state;
  struct gguf gguf;
  static const char *const texts[] = {"", "ab", "a\0b", "\xC4\xA0the"};
  static const size_t lengths[] = {0, 2, 3, 5};
  static const int16_t numbers[] = {-1, 2, 300};
  static const float reals[] = {0.5f, -1e30f};
  begin(3, 0, 7);
  put_key("strings", GGUF_ARRAY);
  put_u32(GGUF_STRING);
  put_u64(4);
  for (int i = 0; i < 4; i++) {
    put_u64(lengths[i]);
    put(texts[i], lengths[i]);
  }
  put_key("numbers", GGUF_ARRAY);
  put_u32(GGUF_I16);
  put_u64(3);
  put(numbers, sizeof numbers);
  put_key("reals", GGUF_ARRAY);
  put_u32(GGUF_F32);
  put_u64(2);
  put(reals, sizeof reals);
  put_key("truths", GGUF_ARRAY);
  put_u32(GGUF_BOOL);
  put_u64(2);
  put("\1\0", 2);
  put_key("none", GGUF_ARRAY);
  put_u32(GGUF_STRING);
  put_u64(0);
  put_key("large", GGUF_ARRAY);
  put_u32(GGUF_U64);
  put_u64(1);
  put_u64(UINT64_MAX);
  put_key("text", GGUF_STRING);
  put_text("llama");
  open_file(&gguf);
  const struct gguf_strings strings = strings_of(&gguf, "strings");
  assert_true(strings.texts != NULL && strings.count == 4);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(strings.lengths[i], lengths[i]);
    assert_memory_equal(strings.texts[i], texts[i], lengths[i] + 1);
  }
  const struct gguf_array *array = gguf_integers(&gguf, "numbers");
  assert_true(array != NULL && array->count == 3);
  for (int i = 0; i < 3; i++) assert_int_equal(gguf_integer_at(array, i), numbers[i]);
  array = gguf_reals(&gguf, "reals");
  assert_true(array != NULL && array->count == 2);
  for (int i = 0; i < 2; i++) assert_true(gguf_real_at(array, i) == (double)reals[i]);
  array = gguf_integers(&gguf, "truths");
  assert_true(array != NULL && gguf_integer_at(array, 0) == 1 && gguf_integer_at(array, 1) == 0);
  assert_true(gguf_integer_at(gguf_integers(&gguf, "large"), 0) == INT64_MAX);
  assert_true(strings_of(&gguf, "none").texts != NULL && strings_of(&gguf, "none").count == 0);
  assert_string_equal(gguf_text(&gguf, "text"), "llama");
  assert_true(strings_of(&gguf, "text").texts == NULL && gguf_integers(&gguf, "reals") == NULL &&
              gguf_reals(&gguf, "numbers") == NULL && gguf_integers(&gguf, "strings") == NULL);
  gguf_close(&gguf);
}

/* ---- Tensors ---- */

static void test_tensors(void **state) {
  (void)state;
  struct gguf gguf;
  static const float f32[6] = {0, 1, 2, 3, 4, 5};
  static const uint16_t f16[2] = {0x3C00, 0xC000}, bf16[2] = {0x3F80, 0xC040};
  unsigned char q4_1[40] = {0x00, 0x3C, 0x00, 0xBC}; /* twice 32 numbers: scale 1, from -1 on; scale 0 */
  for (int i = 0; i < 16; i++) q4_1[4 + i] = (unsigned char)(i | (15 - i) << 4);
  begin(3, 5, 1);
  put_key("general.alignment", GGUF_U32);
  put_u32(64);
  put_tensor("f32", 3, 2, 0, 0);
  put_tensor("f16", 2, 1, 1, 64);
  put_tensor("bf16", 1, 2, 30, 128);
  put_tensor("q4_1", 32, 2, 3, 192);
  put_tensor("others", 256, 1, 10, 256);
  while (file.size % 64 != 0) put("", 1);
  put(f32, sizeof f32);
  while (file.size % 64 != 0) put("", 1);
  put(f16, sizeof f16);
  while (file.size % 64 != 0) put("", 1);
  put(bf16, sizeof bf16);
  while (file.size % 64 != 0) put("", 1);
  put(q4_1, sizeof q4_1);
  while (file.size % 64 != 0) put("", 1);
  for (int i = 0; i < 84; i++) put("x", 1);
  open_file(&gguf);
  float x[64];
  unsigned char blocks[84];
  const struct gguf_tensor *t = &gguf.tensors[gguf_find(&gguf, "f32")];
  assert_true(t->rank == 2 && t->dims[0] == 2 && t->dims[1] == 3 && t->elements == 6 && t->bytes == 24);
  assert_int_equal(gguf_read(&gguf, gguf_find(&gguf, "f32"), 0, 2, x), NEAP_OK);
  assert_memory_equal(x, f32, sizeof f32);
  assert_int_equal(gguf_read(&gguf, gguf_find(&gguf, "f32"), 1, 1, x), NEAP_OK);
  assert_memory_equal(x, f32 + 3, 3 * sizeof *f32);
  assert_int_equal(gguf_read(&gguf, gguf_find(&gguf, "f32"), 1, 2, x), NEAP_INVALID_ARGUMENT);
  assert_int_equal(gguf_read(&gguf, gguf_find(&gguf, "f32"), -1, 1, x), NEAP_INVALID_ARGUMENT);
  assert_int_equal(gguf_read(&gguf, gguf_find(&gguf, "f16"), 0, 1, x), NEAP_OK);
  assert_true(x[0] == 1 && x[1] == -2);
  assert_int_equal(gguf_read(&gguf, gguf_find(&gguf, "bf16"), 0, 2, x), NEAP_OK);
  assert_true(x[0] == 1 && x[1] == -3);
  assert_int_equal(gguf_read(&gguf, gguf_find(&gguf, "q4_1"), 0, 2, x), NEAP_OK);
  for (int i = 0; i < 64; i++) assert_true(x[i] == (float)(i < 16 ? i - 1 : i < 32 ? 30 - i : 0));
  assert_int_equal(gguf_read_blocks(&gguf, gguf_find(&gguf, "q4_1"), 0, 2, blocks), NEAP_OK);
  assert_memory_equal(blocks, q4_1, sizeof q4_1);
  const int32_t others = gguf_find(&gguf, "others");
  assert_false(gguf.tensors[others].known);
  assert_int_equal(gguf_read(&gguf, others, 0, 1, x), NEAP_UNSUPPORTED);
  assert_non_null(strstr(neap_error_message(), "tensor 'others' has type Q2_K"));
  assert_int_equal(gguf_read_blocks(&gguf, others, 0, 1, blocks), NEAP_OK);
  assert_true(blocks[83] == 'x');
  gguf_close(&gguf);
}

/* ---- Damage ---- */

static void expect_refused(neap_status status, const char *part) {
  struct gguf gguf;
  write_file();
  const neap_status got = gguf_open(path, &gguf);
  if (got != status || strstr(neap_error_message(), part) == NULL)
    print_error("status %d, message: %s\n", (int)got, neap_error_message());
  assert_int_equal(got, status);
  assert_non_null(strstr(neap_error_message(), path));
  assert_non_null(strstr(neap_error_message(), part));
  assert_true(gguf.tensor_count == 0 && gguf_find(&gguf, "a") == -1 && gguf_text(&gguf, "k") == NULL);
  gguf_close(&gguf);
}

static void test_bad_beginnings(void **state) {
  (void)state;
  file.size = 0;
  expect_refused(NEAP_BAD_FORMAT, "offset 0: the header needs 4 bytes");
  begin(3, 0, 0);
  file.bytes[3] = 'X';
  expect_refused(NEAP_BAD_FORMAT, "begins with 47 47 55 58, not with \"GGUF\"");
  begin(1, 0, 0);
  expect_refused(NEAP_UNSUPPORTED, "has GGUF version 1; versions 2 and 3 are supported");
  begin(4, 0, 0);
  expect_refused(NEAP_UNSUPPORTED, "has GGUF version 4");
  begin(3u << 24, 0, 0);
  expect_refused(NEAP_UNSUPPORTED, "big-endian");
  begin(3, 0, 0);
  file.size = 20;
  expect_refused(NEAP_BAD_FORMAT, "offset 16: the header needs 8 bytes, but the file ends after 4");
  begin(3, UINT64_MAX, 0);
  expect_refused(NEAP_BAD_FORMAT, "18446744073709551615 tensors");
  begin(3, 1000, 0);
  expect_refused(NEAP_BAD_FORMAT, "1000 tensors do not fit in the file's last 0 bytes");
  begin(3, 0, 1000);
  expect_refused(NEAP_BAD_FORMAT, "1000 pairs do not fit");
}

static void test_bad_pairs(void **state) {
  (void)state;
  begin(3, 0, 1);
  put_u64(1ull << 60);
  put("abcdef", 6);
  expect_refused(NEAP_BAD_FORMAT, "offset 32: pair 0 needs 1152921504606846976 bytes");
  begin(3, 0, 1);
  put_u64(3);
  put("a\0b", 3);
  put_u32(0);
  expect_refused(NEAP_BAD_FORMAT, "pair 0: its name contains a zero byte");
  begin(3, 0, 1);
  put_key("k", 13);
  put_u64(0);
  expect_refused(NEAP_BAD_FORMAT, "key 'k': unknown type of values 13");
  begin(3, 0, 1);
  put_key("k", GGUF_BOOL);
  put("\2", 1);
  expect_refused(NEAP_BAD_FORMAT, "key 'k': boolean 0 is 2");
  begin(3, 0, 1);
  put_key("k", GGUF_ARRAY);
  put_u32(GGUF_ARRAY);
  put_u64(0);
  expect_refused(NEAP_UNSUPPORTED, "key 'k': is an array of arrays");
  begin(3, 0, 1);
  put_key("k", GGUF_ARRAY);
  put_u32(GGUF_F64);
  put_u64(1ull << 61); /* times 8 it overflows */
  expect_refused(NEAP_BAD_FORMAT, "key 'k': 2305843009213693952 values do not fit");
  begin(3, 0, 1);
  put_key("k", GGUF_ARRAY);
  put_u32(GGUF_STRING);
  put_u64(2);
  put_text("abcdef");
  put_u64(5);
  expect_refused(NEAP_BAD_FORMAT, "key 'k' needs 5 bytes, but the file ends after 0");
  begin(3, 0, 2);
  put_key("k", GGUF_U8);
  put("1", 1);
  put_key("k", GGUF_U8);
  put("2", 1);
  expect_refused(NEAP_BAD_FORMAT, "two pairs have the key 'k'");
  for (uint32_t alignment = 0; alignment <= 48; alignment += 48) {
    begin(3, 0, 1);
    put_key("general.alignment", GGUF_U32);
    put_u32(alignment);
    expect_refused(NEAP_BAD_FORMAT, "key 'general.alignment' must be a u32 and a power of 2");
  }
}

static void test_bad_tensors(void **state) {
  (void)state;
  static const struct {
    uint64_t ne0, ne1;
    uint32_t type;
    uint64_t offset;
    const char *part;
  } bad[] = {
      {32, 1, 4, 0, "tensor 'a': has the unknown type 4"},
      {32, 1, UINT32_MAX, 0, "unknown type 4294967295"},
      {48, 2, 8, 0, "tensor 'a': its rows of 48 elements must consist of whole blocks of Q8_0 (32 elements)"},
      {32, 1, 0, 4, "tensor 'a': offset 4 must be a multiple of the alignment, 32"},
      {32, 3, 0, 0, "tensor 'a': 384 bytes at offset 0 end past the file's 256 bytes"},
      {32, 1, 0, 256, "128 bytes at offset 256 end past"},
      {32, 1, 0, UINT64_MAX - 31, "end past"},
      {1ull << 63, 1, 0, 0, "tensor 'a': dimension 1 is 9223372036854775808; it must be below 2^63"},
      {1ull << 32, 1ull << 32, 0, 0, "tensor 'a': has more than 2^63 elements"},
      {1ull << 30, 1ull << 30, 0, 0, "end past"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    begin(3, 1, 0);
    put_tensor("a", bad[i].ne0, bad[i].ne1, bad[i].type, bad[i].offset);
    put_data(256);
    expect_refused(NEAP_BAD_FORMAT, bad[i].part);
  }
  begin(3, 1, 0);
  put_tensor("a", 1ull << 62, 1, 28, 0); /* 2^65 bytes */
  expect_refused(NEAP_BAD_FORMAT, "tensor 'a': has more than 2^64 bytes");
  begin(3, 1, 0);
  put_text("a");
  put_u32(9);
  for (int i = 0; i < 12; i++) put_u64(1);
  expect_refused(NEAP_BAD_FORMAT, "tensor 'a': has 9 dimensions, at most 8");
  begin(3, 2, 0);
  put_tensor("a", 32, 1, 0, 0);
  put_tensor("b", 32, 1, 0, 96);
  put_data(256);
  expect_refused(NEAP_BAD_FORMAT, "tensor 'b' begins at offset 224, but the one before it ends at 256");
  begin(3, 3, 0); /* an empty one between them hides nothing */
  put_tensor("a", 32, 1, 0, 0);
  put_tensor("none", 32, 0, 0, 32);
  put_tensor("b", 32, 1, 0, 64);
  put_data(256);
  expect_refused(NEAP_BAD_FORMAT, "tensor 'b' begins at");
  begin(3, 2, 0);
  put_tensor("a", 32, 1, 0, 0);
  put_tensor("a", 32, 1, 0, 128);
  put_data(256);
  expect_refused(NEAP_BAD_FORMAT, "two tensors are named 'a'");
}

static void test_no_file(void **state) {
  (void)state;
  struct gguf gguf;
  assert_int_equal(gguf_open("/nonexistent/x.gguf", &gguf), NEAP_IO_FAILED);
  assert_non_null(strstr(neap_error_message(), "/nonexistent/x.gguf"));
  gguf_close(&gguf);
  assert_int_equal(gguf_open("/tmp", &gguf), NEAP_IO_FAILED);
  gguf_close(&gguf);
}

/* ---- Writing ---- */

static const struct gguf_tensor shapes[] = {
    {.name = "blk.0.attn_q.weight", .dtype = NEAP_F32, .rank = 2, .dims = {2, 3}, .elements = 6},
    {.name = "scalar", .dtype = NEAP_F32, .rank = 0, .elements = 1},
    {.name = "half", .dtype = NEAP_F16, .rank = 3, .dims = {2, 1, 3}, .elements = 6},
    {.name = "empty", .dtype = NEAP_F32, .rank = 2, .dims = {0, 7}, .elements = 0},
    {.name = "bf16", .dtype = NEAP_BF16, .rank = 1, .dims = {5}, .elements = 5},
    {.name = "q8_0", .dtype = NEAP_Q8_0, .rank = 2, .dims = {2, 64}, .elements = 128},
};
enum { COUNT = sizeof shapes / sizeof *shapes };

/* Numbers that every type holds: of q8_0 the largest is 127 times the scale 1/4. */
static neap_status give(void *context, int32_t index, float *data) {
  const int32_t *failing = context;
  if (failing != NULL && *failing == index) return neap_fail(NEAP_INTERNAL, "as asked");
  for (int64_t i = 0; i < shapes[index].elements; i++)
    data[i] = (float)(i % 32 == 5 ? 127 : i % 32 - index) / 4;
  return NEAP_OK;
}

static void test_round_trip(void **state) {
  (void)state;
  static const char *const texts[] = {"<s>", "", "x\0y"};
  static const size_t lengths[] = {3, 0, 3};
  static const int32_t kinds[] = {3, 1, -1};
  struct gguf first, gguf;
  struct gguf_content content = {
      .tensors = shapes,
      .tensor_count = COUNT,
      .pairs =
          (const struct gguf_pair[]){gguf_pair_text("general.architecture", "llama"),
                                     gguf_pair_u32("llama.block_count", 4000000000u),
                                     gguf_pair_f32("eps", 1e-5f), gguf_pair_bool("add_bos", true),
                                     gguf_pair_array("kinds", GGUF_I32, 3, kinds),
                                     gguf_pair_strings("tokens", (struct gguf_strings){3, texts, lengths}),
                                     gguf_pair_u32("general.alignment", 128)},
      .pair_count = 7,
      .read = give};
  assert_int_equal(gguf_save(path, &content), NEAP_OK);
  /* Copied, pairs and all, it is the same file. */
  assert_int_equal(gguf_open(path, &first), NEAP_OK);
  for (int32_t i = 0; i < first.pair_count; i++)
    first.pairs[i].strings = strings_of(&first, first.pairs[i].key);
  content.pairs = first.pairs;
  assert_int_equal(first.pair_count, 7);
  char *bytes[2] = {malloc(65536), malloc(65536)};
  size_t sizes[2];
  for (int i = 0; i < 2; i++) {
    FILE *in = fopen(path, "rb");
    sizes[i] = fread(bytes[i], 1, 65536, in);
    fclose(in);
    if (i == 0) assert_int_equal(gguf_save(path, &content), NEAP_OK);
  }
  assert_true(sizes[0] == sizes[1] && sizes[0] % 128 == 0);
  assert_memory_equal(bytes[0], bytes[1], sizes[0]);
  free(bytes[0]);
  free(bytes[1]);
  gguf_close(&first);
  assert_int_equal(gguf_open(path, &gguf), NEAP_OK);
  assert_int_equal(gguf.version, 3);
  assert_int_equal(gguf.tensor_count, COUNT);
  for (int32_t i = 0; i < COUNT; i++) {
    const struct gguf_tensor *t = &gguf.tensors[i];
    float wanted[128] = {0}, got[128] = {0};
    assert_string_equal(t->name, shapes[i].name);
    assert_true(t->dtype == shapes[i].dtype && t->rank == shapes[i].rank && t->offset % 128 == 0);
    for (int d = 0; d < t->rank; d++) assert_int_equal(t->dims[d], shapes[i].dims[d]);
    give(NULL, i, wanted);
    const int64_t row = t->rank > 0 ? t->dims[t->rank - 1] : 1;
    assert_int_equal(gguf_read(&gguf, i, 0, t->elements / row, got), NEAP_OK);
    assert_memory_equal(got, wanted, sizeof got);
  }
  int64_t integer;
  double real;
  bool truth;
  assert_string_equal(gguf_text(&gguf, "general.architecture"), "llama");
  assert_true(gguf_integer(&gguf, "llama.block_count", &integer) && integer == 4000000000);
  assert_true(gguf_real(&gguf, "eps", &real) && real == (double)1e-5f);
  assert_true(gguf_bool(&gguf, "add_bos", &truth) && truth);
  assert_int_equal(gguf_integer_at(gguf_integers(&gguf, "kinds"), 2), -1);
  assert_memory_equal(strings_of(&gguf, "tokens").texts[2], "x\0y", 4);
  gguf_close(&gguf);
}

static void expect_unwritten(const struct gguf_content *content, neap_status status, const char *part) {
  struct gguf gguf;
  assert_int_equal(gguf_save(path, content), status);
  assert_non_null(strstr(neap_error_message(), part));
  assert_int_equal(gguf_open(path, &gguf), NEAP_OK); /* the old file is there */
  assert_int_equal(gguf.tensor_count, 1);
  gguf_close(&gguf);
}

static void test_write_failures(void **state) {
  (void)state;
  int32_t failing = 2;
  struct gguf_content content = {.tensors = shapes, .tensor_count = 1, .read = give, .context = &failing};
  assert_int_equal(gguf_save(path, &content), NEAP_OK);
  content.tensor_count = COUNT;
  expect_unwritten(&content, NEAP_INTERNAL, "as asked");
  content.tensors = (const struct gguf_tensor[]){shapes[0], shapes[0]};
  content.tensor_count = 2;
  expect_unwritten(&content, NEAP_INVALID_ARGUMENT, "two tensors are named 'blk.0.attn_q.weight'");
  struct gguf_tensor other = {.name = "w", .rank = 2, .dims = {2, 48}, .elements = 96};
  content.tensors = &other;
  content.tensor_count = 1;
  static const struct {
    neap_dtype dtype;
    const char *part;
  } bad[] = {{NEAP_Q8_0, "tensor 'w': its rows of 48 elements must consist of whole blocks of Q8_0"},
             {NEAP_I32, "tensor 'w' cannot be written as i32"},
             {NEAP_F64, "tensor 'w' cannot be written as f64"},
             {NEAP_NF4, "tensor 'w' cannot be written as nf4"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    other.dtype = bad[i].dtype;
    expect_unwritten(&content, NEAP_INVALID_ARGUMENT, bad[i].part);
  }
  content.tensors = shapes;
  content.pairs = (const struct gguf_pair[]){gguf_pair_u32("k", 1), gguf_pair_u32("k", 2)};
  content.pair_count = 2;
  expect_unwritten(&content, NEAP_INVALID_ARGUMENT, "two pairs have the key 'k'");
  content.pairs = (const struct gguf_pair[]){gguf_pair_u32("general.alignment", 3)};
  content.pair_count = 1;
  expect_unwritten(&content, NEAP_INVALID_ARGUMENT, "'general.alignment'");
  content.pair_count = 0;
  assert_int_equal(gguf_save("/dev/null/file", &content), NEAP_IO_FAILED);
  assert_non_null(strstr(neap_error_message(), "/dev/null/file"));
}

int run_test_gguf(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_scalars),        cmocka_unit_test(test_arrays),
      cmocka_unit_test(test_tensors),        cmocka_unit_test(test_bad_beginnings),
      cmocka_unit_test(test_bad_pairs),      cmocka_unit_test(test_bad_tensors),
      cmocka_unit_test(test_no_file),        cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_write_failures),
  };
  const int file_of_test = mkstemp(path);
  if (file_of_test < 0) return 1;
  close(file_of_test);
  const int failures = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(path);
  return failures;
}
