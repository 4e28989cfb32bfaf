/* Products: on every instruction set of this processor they are those of plain loops, whatever the sizes,
 * layouts, types, items and threads, and an element's bits are the same in every part of the result. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantised.h"
#include "effort.h"
#include "kernel/cpu/dispatch.h"
#include "testing.h"

enum { MOST = 1 << 17 };

struct memory {
  float a[MOST], b[MOST], c[MOST], wanted[MOST], bias[64];
};

static struct memory *make(void) {
  struct memory *m = malloc(sizeof *m);
  assert_non_null(m);
  for (int i = 0; i < MOST; i++) {
    m->a[i] = (float)(i * 37 % 101) / 50 - 1;
    m->b[i] = (float)(i * 53 % 97) / 48 - 1;
    m->c[i] = (float)(i % 13) / 6 - 1;
  }
  for (int i = 0; i < 64; i++) m->bias[i] = (float)i / 32;
  return m;
}

static void run(const struct cpu_kernels *k, struct product p, const struct memory *m, const float *bias,
                int threads, float *c) {
  const bool by_channel = p.a.kind == PRODUCT_WINDOWS && p.a.channels == 1 && p.columns == 1;
  p.threads = threads;
  p.biased = bias != NULL;
  void *workspace = malloc(by_channel ? k->channel_product_workspace(&p) : k->product_workspace(&p));
  assert_non_null(workspace);
  const struct product_operands o = {.a = m->a, .b = m->b, .bias = bias, .addend = p.add ? c : NULL, .c = c};
  memcpy(c, m->c, sizeof m->c);
  if (by_channel)
    k->channel_product(&p, &o, workspace);
  else
    k->product(&p, &o, workspace);
  free(workspace);
}

/* Compares the result on all instruction sets, with 1 and 3 threads, with m->wanted. */
static void compare(const struct product *p, const struct memory *m, const float *bias) {
  float *one = malloc(sizeof m->c), *three = malloc(sizeof m->c);
  assert_true(one != NULL && three != NULL);
  for (int i = 0; cpu_kernels_at(i) != NULL; i++) {
    run(cpu_kernels_at(i), *p, m, bias, 1, one);
    run(cpu_kernels_at(i), *p, m, bias, 3, three);
    assert_memory_equal(one, three, sizeof m->c);
    for (int j = 0; j < MOST; j++)
      assert_true(fabsf(one[j] - m->wanted[j]) <= 1e-4f * (1 + fabsf(m->wanted[j])));
  }
  free(one);
  free(three);
}

static struct product_matrix matrix(int64_t row, int64_t column) {
  return (struct product_matrix){.row = row, .column = column};
}

/* Three items, whose second factor is one for all; the rows of the result are parts of longer ones. */
static void plain_case(int64_t rows, int64_t columns, int64_t depth, bool a_transposed, bool b_transposed,
                       bool add, bool with_bias) {
  struct memory *m = make();
  const int64_t wide = columns + 3;
  const struct product p = {.rank = 1,
                            .dims = {3},
                            .a_item = {rows * depth},
                            .c_item = {rows * wide},
                            .rows = rows,
                            .columns = columns,
                            .depth = depth,
                            .a = a_transposed ? matrix(rows, 1) : matrix(depth, 1),
                            .b = b_transposed ? matrix(1, depth) : matrix(columns, 1),
                            .c = matrix(wide, 1),
                            .a_turned = a_transposed,
                            .add = add};
  assert_true(3 * rows * (depth > wide ? depth : wide) <= MOST && depth * columns <= MOST);
  memcpy(m->wanted, m->c, sizeof m->c);
  for (int64_t i = 0; i < 3 * rows * columns; i++) {
    const int64_t item = i / columns / rows, r = i / columns % rows, n = i % columns;
    float *to = &m->wanted[item * rows * wide + r * wide + n];
    double sum = (add ? *to : 0) + (with_bias ? m->bias[(item * columns + n) % 64] : 0);
    for (int64_t k = 0; k < depth; k++)
      sum += (double)m->a[item * rows * depth + (a_transposed ? k * rows + r : r * depth + k)] *
             (double)m->b[b_transposed ? n * depth + k : k * columns + n];
    *to = (float)sum;
  }
  compare(&p, m, with_bias ? m->bias : NULL);
  free(m);
}

static void test_plain_matrices(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{1, 1, 1},     {5, 7, 3},    {130, 65, 9},
                                     {33, 20, 300}, {4, 17, 513}, {3, 2, 0}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int kind = 0; kind < 16; kind++)
      plain_case(sizes[i][0], sizes[i][1], sizes[i][2], kind & 1, kind & 2, kind & 4,
                 (kind & 8) && 3 * sizes[i][1] <= 64);
}

/* A convolution of 3 x 3 taps with stride 2 of images of 7 x 5 pixels in channels last, in groups. */
enum { IMAGES = 2, HEIGHT = 7, WIDTH = 5, HIGH = 4, WIDE = 3, TAPS = 9 };

static void windows_case(int64_t groups, int64_t channels, int64_t filters) {
  struct memory *m = make();
  struct product_tap taps[TAPS];
  for (int t = 0; t < TAPS; t++) taps[t] = (struct product_tap){t, t / 3 - 1, t % 3 - 1};
  const struct product p = {.rank = 1,
                            .dims = {groups},
                            .a_item = {channels},
                            .b_item = {filters * channels * TAPS},
                            .c_item = {filters},
                            .rows = IMAGES * HIGH * WIDE,
                            .columns = filters,
                            .depth = TAPS * channels,
                            .a = {.kind = PRODUCT_WINDOWS,
                                  .taps = taps,
                                  .channels = channels,
                                  .grid_height = HIGH,
                                  .grid_width = WIDE,
                                  .step = 2,
                                  .height = HEIGHT,
                                  .width = WIDTH,
                                  .pixel = groups * channels},
                            .b = {.kind = PRODUCT_KERNELS,
                                  .taps = taps,
                                  .channels = channels,
                                  .row = TAPS,
                                  .column = channels * TAPS},
                            .c = matrix(groups * filters, 1)};
  memcpy(m->wanted, m->c, sizeof m->c);
  for (int64_t i = 0; i < p.rows * groups * filters; i++) {
    const int64_t group = i / filters % groups, f = i % filters, row = i / filters / groups,
                  image = row / WIDE / HIGH;
    double sum = 0;
    for (int64_t k = 0; k < TAPS * channels; k++) {
      const int64_t tap = k % TAPS, channel = k / TAPS, y = row / WIDE % HIGH * 2 + taps[tap].y,
                    x = row % WIDE * 2 + taps[tap].x;
      if (y < 0 || y >= HEIGHT || x < 0 || x >= WIDTH) continue;
      sum +=
          (double)m->a[((image * HEIGHT + y) * WIDTH + x) * groups * channels + group * channels + channel] *
          (double)m->b[(group * filters + f) * channels * TAPS + k];
    }
    m->wanted[i] = (float)sum;
  }
  compare(&p, m, NULL);
  free(m);
}

static void test_convolutions(void **state) {
  (void)state;
  windows_case(1, 3, 70);
  windows_case(1, 40, 5);
  windows_case(4, 2, 3);
  windows_case(37, 1, 1); /* each channel alone */
}

/* A product of matrices of any types: a [ROWS, depth], or [depth, ROWS] if turned, b [depth, COLUMNS] or its
 * transpose. */
enum { ROWS = 230, COLUMNS = 96, DEEPEST = 768 };
struct typed_case {
  const struct cpu_kernels *kernels;
  neap_dtype a_type, b_type, c_type;
  bool a_turned, b_transposed, add;
  int64_t depth;
  float a[ROWS * DEEPEST], b[COLUMNS * DEEPEST]; /* what the operands hold */
  unsigned char a_stored[sizeof(float) * ROWS * DEEPEST], b_stored[sizeof(float) * COLUMNS * DEEPEST];
};

/* Stores values as a type, and reads back what the type holds of them. */
static void store_as(neap_dtype type, int64_t row, int64_t count, float *values, void *stored) {
  if (!dtype_is_quantised(type)) {
    cpu_kernels_at(0)->narrow(type, count, values, stored);
    cpu_kernels_at(0)->widen(type, count, stored, values);
    return;
  }
  assert_int_equal(quantise(type, "b", row, count, values, stored), NEAP_OK);
  dequantise(type, count, stored, values);
}

static void fill_case(struct typed_case *t) {
  const int64_t a_count = ROWS * t->depth, b_count = COLUMNS * t->depth;
  for (int64_t i = 0; i < a_count; i++) t->a[i] = (float)(i * 7919 % 10007) / 5003 - 1;
  for (int64_t i = 0; i < b_count; i++) t->b[i] = (float)(i * 6007 % 9973) / 4986 - 1;
  store_as(t->a_type, t->depth, a_count, t->a, t->a_stored);
  store_as(t->b_type, t->b_transposed ? t->depth : COLUMNS, b_count, t->b, t->b_stored);
}

/* Multiplies some rows and columns from the given ones on, into c [rows, columns], whose elements were 0.25
 * if added to. */
static void multiply_part(const struct typed_case *t, neap_dtype b_type, const void *b, int64_t row,
                          int64_t rows, int64_t column, int64_t columns, int threads, void *c) {
  struct product p = {.rank = 1,
                      .dims = {1},
                      .rows = rows,
                      .columns = columns,
                      .depth = t->depth,
                      .a = t->a_turned ? matrix(ROWS, 1) : matrix(t->depth, 1),
                      .b = t->b_transposed ? matrix(1, t->depth) : matrix(COLUMNS, 1),
                      .c = matrix(columns, 1),
                      .a_turned = t->a_turned,
                      .add = t->add,
                      .threads = threads};
  p.a.storage = t->a_type;
  p.b.storage = b_type;
  p.c.storage = t->c_type;
  void *workspace = malloc(t->kernels->product_workspace(&p) + 1);
  assert_non_null(workspace);
  float *before = malloc((size_t)(rows * columns) * sizeof *before);
  assert_non_null(before);
  for (int64_t i = 0; i < rows * columns; i++) before[i] = 0.25f;
  t->kernels->narrow(t->c_type, rows * columns, before, c);
  free(before);
  const uint64_t a_first = (uint64_t)(t->a_turned ? row : row * t->depth),
                 b_first = (uint64_t)(t->b_transposed ? column * t->depth : column);
  const struct product_operands o = {.a = t->a_stored + dtype_bytes(t->a_type, a_first),
                                     .b = (const unsigned char *)b + dtype_bytes(b_type, b_first),
                                     .addend = t->add ? c : NULL,
                                     .c = c};
  t->kernels->product(&p, &o, workspace);
  free(workspace);
}

/* Compares parts of the result with the whole, and the whole with sums in double. */
static void compare_parts(struct typed_case *t) {
  static const int64_t counts[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,  11,  12,  13,  14, 23,
                                   24, 25, 36, 47, 48, 49, 71, 96, 97, 144, 191, 192, 193, 229};
  const size_t size = (size_t)dtype_bytes(t->c_type, 1);
  unsigned char *whole = malloc(ROWS * COLUMNS * size), *part = malloc(ROWS * COLUMNS * size);
  float *wide = malloc(ROWS * COLUMNS * sizeof *wide);
  assert_true(whole != NULL && part != NULL && wide != NULL);
  multiply_part(t, t->b_type, t->b_stored, 0, ROWS, 0, COLUMNS, 2, whole);
  t->kernels->widen(t->c_type, ROWS * COLUMNS, whole, wide);
  const bool pairs = t->kernels->multiplies_pairs() && t->a_type == NEAP_BF16 && t->b_type != NEAP_F32;
  const double rounding =
      (pairs ? 0x1p-8 : 0) + (t->c_type == NEAP_F32 ? 0 : 0x1p-8) + 0x1p-24 * (double)(t->depth + 2);
  for (int64_t r = 0; r < ROWS; r += 29)
    for (int64_t n = 0; n < COLUMNS; n++) {
      double sum = t->add ? 0.25 : 0, size_of_terms = fabs(sum);
      for (int64_t k = 0; k < t->depth; k++) {
        const double term = (double)t->a[t->a_turned ? k * ROWS + r : r * t->depth + k] *
                            (double)t->b[t->b_transposed ? n * t->depth + k : k * COLUMNS + n];
        sum += term;
        size_of_terms += fabs(term);
      }
      assert_true(fabs((double)wide[r * COLUMNS + n] - sum) <= rounding * size_of_terms);
    }
  const size_t some = sanitized() ? 5 : 1; /* of the counts, others for each depth */
  for (size_t i = (size_t)t->depth % some; i < sizeof counts / sizeof *counts; i += some) {
    const int64_t rows = counts[i], row = i % 2 == 0 ? 0 : ROWS - rows;
    multiply_part(t, t->b_type, t->b_stored, row, rows, 0, COLUMNS, 1 + (int)(i % 3), part);
    assert_memory_equal(part, whole + (size_t)(row * COLUMNS) * size, (size_t)(rows * COLUMNS) * size);
  }
  for (int64_t column = 0; column < COLUMNS && (t->b_transposed || !dtype_is_quantised(t->b_type));
       column += 31) {
    const int64_t columns = column == 0 ? 5 : COLUMNS - column;
    multiply_part(t, t->b_type, t->b_stored, 7, 40, column, columns, 2, part);
    for (int64_t r = 0; r < 40; r++)
      assert_memory_equal(part + (size_t)(r * columns) * size,
                          whole + (size_t)((7 + r) * COLUMNS + column) * size, (size_t)columns * size);
  }
  /* Blocks give what their numbers give. */
  if (dtype_is_quantised(t->b_type) && !pairs) {
    multiply_part(t, NEAP_F32, t->b, 0, ROWS, 0, COLUMNS, 1, part);
    assert_memory_equal(part, whole, ROWS * COLUMNS * size);
  }
  free(whole);
  free(part);
  free(wide);
}

static void test_parts(void **state) {
  (void)state;
  static const neap_dtype types[] = {NEAP_F32,  NEAP_BF16, NEAP_F16,  NEAP_Q8_0, NEAP_Q4_0,
                                     NEAP_Q4_1, NEAP_Q5_0, NEAP_Q5_1, NEAP_Q4_K, NEAP_Q5_K,
                                     NEAP_Q6_K, NEAP_NF4,  NEAP_I8};
  static const int64_t depths[] = {1, 64, 255, 256, 257, 320, 768};
  struct typed_case *t = malloc(sizeof *t);
  assert_non_null(t);
  for (int k = 0; (t->kernels = cpu_kernels_at(k)) != NULL; k++)
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
      for (size_t j = 0; j < sizeof depths / sizeof *depths; j++)
        for (int kind = 0; kind < 8; kind++) {
          const size_t turn = i + j + (size_t)k;
          if (leaves_out(i + j, (size_t)kind % 4, 4)) continue;
          if (sanitized() && (turn % 3 != 0 || (size_t)kind / 4 != turn / 3 % 2)) continue;
          t->b_type = types[i];
          t->a_type = types[(i + (size_t)kind) % 3];
          t->c_type = types[(i + j + (size_t)kind) % 3];
          t->depth = depths[j];
          t->a_turned = kind & 1, t->b_transposed = kind & 2, t->add = kind & 4;
          const int64_t row = t->b_transposed ? t->depth : COLUMNS;
          if (dtype_is_quantised(t->b_type) && row % dtype_rows[t->b_type].block_elements != 0) continue;
          fill_case(t);
          compare_parts(t);
        }
  free(t);
}

/* Returns the sum that an instruction of matrices gives: of each 32 terms the even and the odd ones. */
static float sum_in_matrices(const struct typed_case *t, int64_t row, int64_t column) {
  float sum = 0;
  for (int64_t first = 0; first < t->depth; first += 32) {
    float halves[2] = {0, 0};
    for (int64_t k = first; k < first + 32 && k < t->depth; k++) {
      const float a = t->a[t->a_turned ? k * ROWS + row : row * t->depth + k],
                  b = t->b[t->b_transposed ? column * t->depth + k : k * COLUMNS + column];
      halves[k % 2] += a * b; /* exact, but for the sum */
    }
    sum += halves[0] + halves[1];
  }
  return sum;
}

/* Sums of bf16 in registers of matrices have the order that the processor's manual gives. */
static void test_order_in_matrices(void **state) {
  (void)state;
  static const int64_t depths[] = {1, 31, 32, 64, 257, 320, 768};
  struct typed_case *t = malloc(sizeof *t);
  float *c = malloc(ROWS * COLUMNS * sizeof *c);
  assert_true(t != NULL && c != NULL);
  t->kernels = cpu_kernels_at(0);
  if (strcmp(t->kernels->name, "amx_bf16") != 0) {
    free(t);
    free(c);
    skip();
  }
  for (size_t j = 0; j < sizeof depths / sizeof *depths; j++)
    for (int kind = 0; kind < 4; kind++) {
      t->a_type = t->b_type = NEAP_BF16;
      t->c_type = NEAP_F32;
      t->depth = depths[j];
      t->a_turned = kind & 1, t->b_transposed = kind & 2, t->add = false;
      fill_case(t);
      multiply_part(t, NEAP_BF16, t->b_stored, 0, ROWS, 0, COLUMNS, 2, c);
      for (int64_t r = 0; r < ROWS; r++)
        for (int64_t n = 0; n < COLUMNS; n++) assert_true(c[r * COLUMNS + n] == sum_in_matrices(t, r, n));
    }
  free(t);
  free(c);
}

/* ---- Noise ---- */

/* Multiplies rows of a [rows, depth] by b [columns, depth], with noise as b is packed, or without. */
static void multiply_noisy(const struct cpu_kernels *k, int64_t rows, int64_t columns, int64_t depth,
                           const float *a, const float *b, const struct noise *noise, int threads, float *c) {
  struct product p = {.rows = rows,
                      .columns = columns,
                      .depth = depth,
                      .a = matrix(depth, 1),
                      .b = matrix(1, depth),
                      .c = matrix(columns, 1),
                      .threads = threads};
  p.b.perturbed = noise != NULL;
  void *workspace = malloc(k->product_workspace(&p) + 1);
  assert_non_null(workspace);
  struct product_operands o = {.a = a, .b = b, .c = c};
  if (noise != NULL) o.noise = *noise;
  k->product(&p, &o, workspace);
  free(workspace);
}

/* A product that adds noise to what it packs has the bits of one with all of it added before; from any place
 * in the tensor that the noise is of. The numbers are normal. */
static void test_noise(void **state) {
  (void)state;
  enum { DEPTH = 301, OUTPUTS = 197, MOST_ROWS_OF_A = 200 };
  static const int64_t rows[] = {1, 5, MOST_ROWS_OF_A}, columns[] = {1, 33, OUTPUTS};
  float *a = malloc(MOST_ROWS_OF_A * DEPTH * sizeof *a), *b = malloc(OUTPUTS * DEPTH * sizeof *b),
        *noisy = malloc(OUTPUTS * DEPTH * sizeof *noisy), *c = malloc(MOST_ROWS_OF_A * OUTPUTS * sizeof *c),
        *wanted = malloc(MOST_ROWS_OF_A * OUTPUTS * sizeof *wanted);
  assert_true(a != NULL && b != NULL && noisy != NULL && c != NULL && wanted != NULL);
  for (int i = 0; i < MOST_ROWS_OF_A * DEPTH; i++) a[i] = (float)(i * 7919 % 10007) / 5003 - 1;
  for (int i = 0; i < OUTPUTS * DEPTH; i++) b[i] = (float)(i * 6007 % 9973) / 4986 - 1;
  for (int n = 0; cpu_kernels_at(n) != NULL; n++) {
    const struct cpu_kernels *k = cpu_kernels_at(n);
    for (int64_t first = 0; first < 200; first += 67) {
      const struct noise noise = {.key = {3, 5}, .scale = 0.5f, .first = first};
      double sum = 0, squares = 0;
      k->perturb(OUTPUTS * DEPTH, noise, (struct stored){NEAP_F32, b}, (struct stored){NEAP_F32, noisy});
      for (int i = 0; i < OUTPUTS * DEPTH; i++) {
        const double z = 2 * ((double)noisy[i] - (double)b[i]);
        sum += z / (OUTPUTS * DEPTH);
        squares += z * z / (OUTPUTS * DEPTH);
      }
      assert_true(fabs(sum) < 0.02 && fabs(squares - 1) < 0.02);
      for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t w = 0; w < sizeof columns / sizeof *columns; w++)
          for (int threads = 1; threads <= 3; threads += 2) {
            const size_t bytes = (size_t)(rows[r] * columns[w]) * sizeof *c;
            multiply_noisy(k, rows[r], columns[w], DEPTH, a, b, &noise, threads, c);
            multiply_noisy(k, rows[r], columns[w], DEPTH, a, noisy, NULL, 1, wanted);
            assert_memory_equal(c, wanted, bytes);
          }
    }
  }
  free(a);
  free(b);
  free(noisy);
  free(c);
  free(wanted);
}

int run_test_product(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain_matrices),
                                     cmocka_unit_test(test_convolutions), cmocka_unit_test(test_parts),
                                     cmocka_unit_test(test_order_in_matrices), cmocka_unit_test(test_noise)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
