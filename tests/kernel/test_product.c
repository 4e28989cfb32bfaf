/* The products that take oneDNN's place where there is none: on every instruction set of this processor they
 * are those of plain loops, whatever the sizes, layouts, items and threads. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

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

static void run(const struct cpu_kernels *k, const struct product *p, const struct memory *m,
                const float *bias, int threads, float *c) {
  void *workspace = malloc(k->product_workspace(p, threads));
  assert_non_null(workspace);
  const int usual = omp_get_max_threads();
  omp_set_num_threads(threads);
  memcpy(c, m->c, sizeof m->c);
  k->product(p, m->a, m->b, bias, c, workspace);
  omp_set_num_threads(usual);
  free(workspace);
}

/* Compares the result on all instruction sets, with 1 and 3 threads, with m->wanted. */
static void compare(const struct product *p, const struct memory *m, const float *bias) {
  float *one = malloc(sizeof m->c), *three = malloc(sizeof m->c);
  assert_true(one != NULL && three != NULL);
  for (int i = 0; cpu_kernels_at(i) != NULL; i++) {
    run(cpu_kernels_at(i), p, m, bias, 1, one);
    run(cpu_kernels_at(i), p, m, bias, 3, three);
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

int run_test_product(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain_matrices),
                                     cmocka_unit_test(test_convolutions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
