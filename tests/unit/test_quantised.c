/* Quantised types beside their definition: block_q8_0 of ggml, 34 bytes of a scale in f16 and 32 whole
 * numbers. The oracle computes in double and finds the nearest f16 by looking at all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/quantised.h"
#include "kernel/cpu/isa/kernels.h"

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
  assert_int_equal(quantise(NEAP_Q8_0, "x", COUNT, x, blocks), NEAP_OK);
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
  assert_int_equal(quantise(NEAP_Q8_0, "x", 32, x, block), NEAP_OK);
  assert_true(block[0] == 0x00 && block[1] == 0x3C); /* 1 in f16 */
  assert_memory_equal(block + 2, wanted, 32);
}

/* What has been through the type once stays as it is, in place too. */
static void test_again(void **state) {
  (void)state;
  static float x[COUNT], y[COUNT], z[COUNT];
  static unsigned char blocks[BYTES];
  draw(x);
  assert_int_equal(quantise(NEAP_Q8_0, "x", COUNT, x, blocks), NEAP_OK);
  dequantise(NEAP_Q8_0, COUNT, blocks, y);
  memcpy(z, y, sizeof z);
  assert_int_equal(quantise(NEAP_Q8_0, "x", COUNT, z, z), NEAP_OK);
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
  assert_int_equal(quantise(NEAP_Q8_0, "x", 64, x, blocks), NEAP_OK);
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
    assert_int_equal(quantise(NEAP_Q8_0, "w", 64, x, blocks), NEAP_INVALID_ARGUMENT);
    assert_non_null(strstr(neap_error_message(), "'w': element 40 is "));
  }
  float x[32] = {8.3e6f};
  unsigned char block[34];
  assert_int_equal(quantise(NEAP_Q8_0, "w", 32, x, block), NEAP_OK);
  assert_int_equal(quantise(NEAP_BF16, "w", 32, x, block), NEAP_INTERNAL);
}

/* Each instruction set gives the numbers, in f32 and rounded to 16 bits. */
static void test_kernels(void **state) {
  (void)state;
  _Alignas(64) static float x[COUNT], y[COUNT], made[COUNT];
  _Alignas(64) static uint16_t half[COUNT], wanted[COUNT];
  _Alignas(64) static unsigned char blocks[BYTES];
  draw(x);
  assert_int_equal(quantise(NEAP_Q8_0, "x", COUNT, x, blocks), NEAP_OK);
  dequantise(NEAP_Q8_0, COUNT, blocks, y);
  for (int i = 0; cpu_kernels_at(i) != NULL; i++) {
    const struct cpu_kernels *k = cpu_kernels_at(i);
    for (int64_t count = 32; count <= COUNT; count += COUNT - 32) {
      k->dequantise(NEAP_Q8_0, count, blocks, (struct stored){NEAP_F32, made});
      assert_memory_equal(made, y, (size_t)count * sizeof *y);
      k->dequantise(NEAP_Q8_0, count, blocks, (struct stored){NEAP_BF16, half});
      for (int64_t e = 0; e < count; e++) wanted[e] = bf16_from_float(y[e]);
      assert_memory_equal(half, wanted, (size_t)count * sizeof *half);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_definition),   cmocka_unit_test(test_known_block),
                                     cmocka_unit_test(test_again),        cmocka_unit_test(test_tiny),
                                     cmocka_unit_test(test_out_of_range), cmocka_unit_test(test_kernels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
