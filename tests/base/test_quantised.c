/* Quantised types beside what PyPI's gguf and bitsandbytes make of the same blocks and numbers
 * (quantised_cases.py), to the bit; and q8_0 beside its definition, 34 bytes of a scale in f16 and 32 whole
 * numbers. That oracle computes in double and finds the nearest f16 by looking at all of them. */
#include <math.h>
#include <string.h>

#include "base/quantised.h"
#include "kernel/cpu/dispatch.h"
#include "quantised_cases.h"
#include "testing.h"

enum { BLOCKS = 200, COUNT = 32 * BLOCKS, BYTES = 34 * BLOCKS };

/* A finite f16 by the definition of IEEE 754. */
static double half_value(unsigned bits) {
  const unsigned exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double size = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, (int)exponent - 25);
  return bits >> 15 ? -size : size;
}

static double distance_to_nearest_half(double x) {
  double least = INFINITY;
  for (unsigned bits = 0; bits < 0x7C00; bits++) least = fmin(least, fabs(half_value(bits) - x));
  return least;
}

static uint32_t next(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

/* Blocks of sizes from 2^-30 to 2^20, one of zeros, one of a single number. */
static void draw(float *x) {
  uint32_t state = 99;
  for (int b = 0; b < BLOCKS; b++)
    for (int i = 0; i < 32; i++) {
      const float u = (float)next(&state) * 0x1p-23f - 1;
      x[32 * b + i] = b == 0 || (b == 1 && i != 5) ? 0 : ldexpf(u, b % 51 - 30);
    }
}

static void test_definition(void **state) {
  (void)state;
  static float x[COUNT], y[COUNT];
  static unsigned char blocks[BYTES];
  draw(x);
  assert_int_equal(dtype_bytes(NEAP_Q8_0, COUNT), BYTES);
  assert_int_equal(quantise(NEAP_Q8_0, "x", COUNT, COUNT, x, blocks), NEAP_OK);
  dequantise(NEAP_Q8_0, COUNT, blocks, y);
  for (int b = 0; b < BLOCKS; b++) {
    const unsigned char *block = blocks + 34 * b;
    const double scale = half_value((unsigned)block[0] | (unsigned)block[1] << 8);
    double most = 0;
    for (int i = 0; i < 32; i++) most = fmax(most, fabs((double)x[32 * b + i]));
    assert_true(fabs(scale - most / 127) <= distance_to_nearest_half(most / 127) + most * 1e-9);
    for (int i = 0; i < 32; i++) {
      const int q = (int8_t)block[2 + i];
      const double wanted = most > 0 ? (double)x[32 * b + i] / most * 127 : 0;
      assert_true(fabs(q - wanted) <= 0.5 + 1e-4);
      assert_true((double)y[32 * b + i] == scale * q);
    }
  }
}

/* Numbers that were written down by hand: scale 1 and halves, which go away from 0. */
static void test_known_block(void **state) {
  (void)state;
  float x[32] = {127, -127, 0.5f, -0.5f, 1.5f, -1.5f, 2.5f, 0.49f, -0.49f, 126.5f};
  static const int8_t wanted[32] = {127, -127, 1, -1, 2, -2, 3, 0, 0, 127};
  unsigned char block[34];
  assert_int_equal(quantise(NEAP_Q8_0, "x", 32, 32, x, block), NEAP_OK);
  assert_true(block[0] == 0x00 && block[1] == 0x3C); /* 1 in f16 */
  assert_memory_equal(block + 2, wanted, 32);
}

/* What has been through the type once stays as it is, in place too. */
static void test_again(void **state) {
  (void)state;
  static float x[COUNT], y[COUNT], z[COUNT];
  static unsigned char blocks[BYTES];
  draw(x);
  assert_int_equal(quantise(NEAP_Q8_0, "x", COUNT, COUNT, x, blocks), NEAP_OK);
  dequantise(NEAP_Q8_0, COUNT, blocks, y);
  memcpy(z, y, sizeof z);
  assert_int_equal(quantise(NEAP_Q8_0, "x", COUNT, COUNT, z, z), NEAP_OK);
  unsigned char *end = (unsigned char *)z + sizeof z - BYTES;
  memmove(end, z, BYTES);
  dequantise(NEAP_Q8_0, COUNT, end, z);
  assert_memory_equal(z, y, sizeof y);
}

/* Numbers that no scale of f16 reaches become 0. */
static void test_tiny(void **state) {
  (void)state;
  float x[64] = {0x1p-149f, -0x1p-130f, [32] = 0x1p-100f, -0x1p-101f}, y[64];
  unsigned char blocks[68];
  assert_int_equal(quantise(NEAP_Q8_0, "x", 64, 64, x, blocks), NEAP_OK);
  dequantise(NEAP_Q8_0, 64, blocks, y);
  for (int i = 0; i < 64; i++) assert_true(y[i] == 0 && !signbit(y[i]));
}

static void test_out_of_range(void **state) {
  (void)state;
  static const float bad[] = {NAN, INFINITY, -INFINITY, 8.4e6f};
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
    float x[64] = {0};
    unsigned char blocks[68];
    x[40] = bad[k];
    assert_int_equal(quantise(NEAP_Q8_0, "w", 64, 64, x, blocks), NEAP_INVALID_ARGUMENT);
    assert_non_null(strstr(neap_error_message(), "'w': element 40 is "));
  }
  float x[32] = {8.3e6f};
  unsigned char block[34];
  assert_int_equal(quantise(NEAP_Q8_0, "w", 32, 32, x, block), NEAP_OK);
  assert_int_equal(quantise(NEAP_BF16, "w", 32, 32, x, block), NEAP_INTERNAL);
}

/* ---- Every type, by tables ---- */

enum { CASES = sizeof quantised_cases / sizeof *quantised_cases, MOST = 1024 };

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return isnan(x) ? 0x7FC00000 : bits;
}

static void test_numbers(void **state) {
  (void)state;
  type_set seen = 0;
  for (int k = 0; k < CASES; k++) {
    const struct quantised_case *c = &quantised_cases[k];
    float x[MOST];
    assert_true(c->elements <= MOST);
    dequantise(c->dtype, c->elements, c->blocks, x);
    for (int64_t i = 0; i < c->elements; i++) {
      if (bits_of(x[i]) != c->numbers[i])
        print_error("%s, number %lld\n", dtype_rows[c->dtype].name, (long long)i);
      assert_int_equal(bits_of(x[i]), c->numbers[i]);
    }
    seen |= 1u << c->dtype;
  }
  assert_int_equal(seen, TYPES_QUANTISED & ~(TYPES_DYNAMIC | TYPES_COMPRESSED));
}

/* Maps rise, with bitsandbytes' landmarks; a number of the map is kept, one in the middle of two becomes the
 * lower one, and a block that has a NaN becomes NaN. */
static void test_dynamic_blocks(void **state) {
  (void)state;
  static const neap_dtype types[] = {NEAP_DYN8S, NEAP_DYN8U};
  for (int k = 0; k < 2; k++) {
    const float *map = k == 0 ? dyn8s_map : dyn8u_map;
    struct dyn8s block;
    float x[256], y[256];
    for (int i = 0; i < 256; i++) x[i] = 4 * map[i];
    for (int i = 1; i < 256; i++) assert_true(map[i] > map[i - 1]);
    dyn8_from_floats(types[k], x, &block);
    assert_true(block.absmax == 4);
    for (int i = 0; i < 256; i++) assert_int_equal(block.q[i], i);
    dequantise(types[k], 256, &block, y);
    assert_memory_equal(x, y, sizeof x);
    for (int i = 0; i < 255; i++) x[i] = 0.5f * (map[i] + map[i + 1]);
    x[255] = 1;
    dyn8_from_floats(types[k], x, &block);
    for (int i = 0; i < 255; i++) { /* in f32 the middle may be nearer to one of them */
      const int nearer = map[i + 1] - x[i] < x[i] - map[i] ? i + 1 : i;
      assert_int_equal(block.q[i], nearer);
    }
    x[7] = NAN;
    dyn8_from_floats(types[k], x, &block);
    dequantise(types[k], 256, &block, y);
    for (int i = 0; i < 256; i++) assert_true(isnan(y[i]));
    memset(x, 0, sizeof x);
    dyn8_from_floats(types[k], x, &block);
    dequantise(types[k], 256, &block, y);
    for (int i = 0; i < 256; i++) assert_true(y[i] == 0);
  }
  assert_true(dyn8s_map[0] == -0.9929687380790710f && dyn8s_map[127] == 0 && dyn8s_map[255] == 1);
  assert_true(dyn8u_map[0] == 0 && dyn8u_map[1] == 3.2500003e-7f && dyn8u_map[255] == 1);
}

/* Numbers lie between the least and the most of their block, whatever they are; and over all that can be
 * drawn each has its mean, to 2^-17 of a step. */
static void test_compressed_blocks(void **state) {
  (void)state;
  static const float spans[][2] = {
      {-1, 1},           {0, 0},          {0.1f, 0.1f},    {-100.3f, -100.1f}, {0, 1e-44f},
      {-3e-39f, 1e-40f}, {-1e38f, 2e38f}, {1, 1.0000001f}, {-7, 1e-20f}};
  for (size_t i = 0; i < 2 * sizeof spans / sizeof *spans; i++) {
    const float low = spans[i / 2][0], high = spans[i / 2][1];
    const struct spacing s = spacing_of(i % 2 == 0 ? NEAP_C8 : NEAP_C4, true, low, high);
    const double least = (double)bf16_to_float(s.least), step = (double)bf16_to_float(s.step);
    assert_true(least <= (double)low && least + s.most * step >= (double)high);
    assert_true(least >= (double)low - fabs((double)low) / 64 - 1e-40);
    assert_true(step <= ((double)high - least) / s.most * (1 + 1.0 / 64) + 1e-40);
    for (int part = 0; part <= 16; part++) {
      const float x = low + (high - low) * (float)part / 16;
      double sum = 0;
      for (uint32_t random = 0; random < 1 << 16; random++) sum += compressed_number(s, x, random);
      assert_true(fabs(least + sum * 0x1p-16 * step - (double)x) <=
                  0x1p-16 * step + 0x1p-23 * fabs((double)x));
    }
  }
  const struct spacing none = spacing_of(NEAP_C8, false, 0, 1),
                       wide = spacing_of(NEAP_C4, true, -3e38f, 3e38f);
  assert_true(none.step == NOT_FINITE && none.least == NOT_FINITE && wide.step == NOT_FINITE);
}

static void test_blocks(void **state) {
  (void)state;
  for (int k = 0; k < CASES; k++) {
    const struct quantised_case *c = &quantised_cases[k];
    const struct dtype_row *row = &dtype_rows[c->dtype];
    const float *x = (const float *)(const void *)quantised_from;
    static unsigned char blocks[sizeof quantised_from];
    assert_true(can_quantise(c->dtype));
    assert_int_equal(quantise(c->dtype, "w", c->row, c->from, x, blocks), NEAP_OK);
    for (int64_t b = 0; b < c->from / row->block_elements; b++) {
      const unsigned char *block = blocks + b * row->block_bytes;
      if (memcmp(block, c->written + b * row->block_bytes, (size_t)row->block_bytes) != 0)
        print_error("%s, block %lld\n", row->name, (long long)b);
      assert_memory_equal(block, c->written + b * row->block_bytes, row->block_bytes);
    }
    /* In place they are the same, and so are their numbers. */
    static float y[MOST], z[MOST];
    memcpy(y, x, sizeof quantised_from);
    assert_int_equal(quantise(c->dtype, "w", c->row, c->from, y, y), NEAP_OK);
    const size_t bytes = dtype_bytes(c->dtype, (uint64_t)c->from);
    assert_memory_equal(y, blocks, bytes);
    unsigned char *end = (unsigned char *)(y + c->from) - bytes;
    memmove(end, y, bytes);
    dequantise(c->dtype, c->from, blocks, z);
    dequantise(c->dtype, c->from, end, y);
    assert_memory_equal(y, z, (size_t)c->from * sizeof *z);
  }
}

/* Weights of a usual size, and numbers of every size: a type of more bits errs less, none by more than a step
 * of the largest size. Scales below f16's least are lost; what is left is finite. */
static void test_errors(void **state) {
  (void)state;
  static const neap_dtype types[] = {NEAP_Q4_0, NEAP_Q4_K, NEAP_Q5_0, NEAP_Q5_K, NEAP_Q6_K, NEAP_Q8_0};
  static const double steps[] = {8, 7.5, 16, 15.5, 32, 127}; /* that the largest size has, either way */
  enum { TYPES = sizeof types / sizeof *types, NUMBERS = 64 * 256 };
  static float x[NUMBERS], y[NUMBERS];
  static unsigned char blocks[sizeof x];
  uint32_t random = 7;
  for (int size = -110; size <= 15; size += 5) {
    double before = INFINITY;
    for (int i = 0; i < NUMBERS; i++) {
      float sum = 0; /* nearly normal */
      for (int k = 0; k < 6; k++) sum += (float)next(&random) * 0x1p-24f - 0.5f;
      x[i] = ldexpf(sum, size - 2);
    }
    for (int t = 0; t < TYPES; t++) {
      assert_int_equal(quantise(types[t], "w", 256, NUMBERS, x, blocks), NEAP_OK);
      dequantise(types[t], NUMBERS, blocks, y);
      double squares = 0;
      for (int b = 0; b < NUMBERS; b += 256) {
        double most = 0, off = 0;
        for (int i = b; i < b + 256; i++) {
          const double d = (double)y[i] - (double)x[i];
          most = fmax(most, fabs((double)x[i]));
          off = fmax(off, fabs(d));
          squares += d * d;
        }
        assert_true(off <= (size < 0 ? 3 : 1 / steps[t]) * most * 1.01);
      }
      if (size >= 0) assert_true(squares < before);
      before = squares;
    }
  }
}

static void test_limits(void **state) {
  (void)state;
  float states[256] = {0};
  assert_int_equal(quantise(NEAP_DYN8S, "w", 256, 256, states, states), NEAP_UNSUPPORTED);
  assert_non_null(strstr(neap_error_message(), "dyn8s"));
  assert_false(can_quantise(NEAP_DYN8S));
  for (int k = 0; k < CASES; k++) {
    const neap_dtype dtype = quantised_cases[k].dtype;
    static const float bad[] = {NAN, INFINITY, -INFINITY, 8.4e6f};
    for (int i = 0; i < (dtype == NEAP_NF4 || dtype == NEAP_I8 ? 3 : 4) && can_quantise(dtype); i++) {
      float x[256] = {[40] = bad[i]};
      unsigned char blocks[sizeof x];
      assert_int_equal(quantise(dtype, "w", 256, 256, x, blocks), NEAP_INVALID_ARGUMENT);
      assert_non_null(strstr(neap_error_message(), "'w': element 40 is "));
      assert_non_null(strstr(neap_error_message(), dtype_rows[dtype].name));
    }
  }
}

/* Each instruction set gives the numbers, in f32 and rounded to 16 bits. */
static void test_kernels(void **state) {
  (void)state;
  enum { REPEATED = 4 * MOST }; /* more than the kernels turn at once */
  _Alignas(64) static float x[REPEATED], y[REPEATED], made[REPEATED];
  _Alignas(64) static uint16_t half[REPEATED], wanted[REPEATED];
  _Alignas(64) static unsigned char blocks[REPEATED * 2];
  for (int n = 0; n < CASES; n++) {
    const struct quantised_case *c = &quantised_cases[n];
    const int64_t length = dtype_rows[c->dtype].block_elements, bytes = dtype_rows[c->dtype].block_bytes;
    for (int64_t b = 0; b < REPEATED / length; b++)
      memcpy(blocks + b * bytes, c->blocks + b % (c->elements / length) * bytes, (size_t)bytes);
    dequantise(c->dtype, REPEATED, blocks, y);
    for (int e = 0; e < REPEATED; e++) x[e] = isnan(y[e]) ? NAN : y[e];
    for (int i = 0; cpu_kernels_at(i) != NULL; i++) {
      const struct cpu_kernels *k = cpu_kernels_at(i);
      for (int64_t count = length; count <= REPEATED; count += REPEATED - length) {
        k->dequantise(c->dtype, count, blocks, (struct stored){NEAP_F32, made});
        for (int64_t e = 0; e < count; e++) assert_int_equal(bits_of(made[e]), bits_of(x[e]));
        for (int is_f16 = 0; is_f16 < 2; is_f16++) {
          k->dequantise(c->dtype, count, blocks, (struct stored){is_f16 ? NEAP_F16 : NEAP_BF16, half});
          for (int64_t e = 0; e < count; e++) {
            wanted[e] = is_f16 ? f16_from_float(y[e]) : bf16_from_float(y[e]);
            const float got = is_f16 ? f16_to_float(half[e]) : bf16_to_float(half[e]);
            assert_true(half[e] == wanted[e] || (isnan(got) && isnan(y[e])));
          }
        }
      }
    }
  }
}

int run_test_quantised(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_definition),
                                     cmocka_unit_test(test_known_block),
                                     cmocka_unit_test(test_again),
                                     cmocka_unit_test(test_tiny),
                                     cmocka_unit_test(test_out_of_range),
                                     cmocka_unit_test(test_kernels),
                                     cmocka_unit_test(test_numbers),
                                     cmocka_unit_test(test_dynamic_blocks),
                                     cmocka_unit_test(test_compressed_blocks),
                                     cmocka_unit_test(test_blocks),
                                     cmocka_unit_test(test_errors),
                                     cmocka_unit_test(test_limits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
