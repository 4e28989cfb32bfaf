/* Winograd's convolution gives what a direct one in double gives, to a fraction of the size of the result, in
 * all three passes, for any image, padding and number of channels, on every instruction set that this
 * processor has, stored in any type and in little workspace, too; the same bits whatever its workspace holds.
 */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "effort.h"
#include "kernel/cpu/dispatch.h"
#include "kernel/cpu/winograd.h"
#include "testing.h"

enum { THREADS = 2, TAPS = 9 };

struct shape {
  int64_t images, inputs, outputs, height, width, top, left;
};

static const struct shape shapes[] = {
    {1, 16, 16, 1, 1, 1, 1},    {2, 16, 32, 7, 5, 1, 1},   {3, 24, 17, 6, 9, 0, 2},
    {2, 40, 100, 13, 4, 2, 1},  {1, 64, 64, 14, 15, 1, 1}, {5, 64, 48, 3, 3, 0, 0},
    {2, 128, 160, 9, 10, 1, 1}, {1, 32, 64, 30, 61, 2, 2}, {1, 256, 144, 8, 8, 1, 0},
    {2, 512, 512, 7, 7, 1, 1},  {9, 16, 16, 23, 40, 1, 1}, {37, 16, 16, 33, 29, 1, 1},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- The oracle ---- */

static double rounded(neap_dtype storage, float value) {
  return storage == NEAP_BF16  ? (double)bf16_to_float(bf16_from_float(value))
         : storage == NEAP_F16 ? (double)f16_to_float(f16_from_float(value))
                               : (double)value;
}

/* That the type holds. */
static double *numbers(neap_dtype storage, int64_t count, uint64_t seed) {
  double *values = malloc((size_t)count * sizeof *values);
  assert_non_null(values);
  for (int64_t i = 0; i < count; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    values[i] = rounded(storage, (float)((double)(seed >> 11) * 0x1p-52 - 1));
  }
  return values;
}

/* What a pass gives, in row-major order; `into`: the one of the three that is made, which begins as zeros or
 * what is to be added to. */
struct tensors {
  double *x, *w, *y;
};

/* One image, filter and channel. */
static void convolve_plane(const struct shape *s, enum winograd_pass pass, double *x, double *w, double *y) {
  const int64_t height = s->height + 2 * s->top - 2, width = s->width + 2 * s->left - 2;
  for (int64_t tap = 0; tap < TAPS; tap++)
    for (int64_t row = 0; row < height; row++) {
      const int64_t from = row + tap / 3 - s->top, shift = tap % 3 - s->left;
      if (from < 0 || from >= s->height) continue;
      for (int64_t column = 0; column < width; column++) {
        if (column + shift < 0 || column + shift >= s->width) continue;
        double *pixel = x + from * s->width + column + shift, *result = y + row * width + column;
        if (pass == WINOGRAD_FORWARD)
          *result += w[tap] * *pixel;
        else if (pass == WINOGRAD_BACKWARD_DATA)
          *pixel += w[tap] * *result;
        else
          w[tap] += *result * *pixel;
      }
    }
}

static void convolve_directly(const struct shape *s, const struct tensors *t, enum winograd_pass pass) {
  const int64_t pixels = (s->height + 2 * s->top - 2) * (s->width + 2 * s->left - 2);
  for (int64_t n = 0; n < s->images; n++)
    for (int64_t k = 0; k < s->outputs; k++)
      for (int64_t c = 0; c < s->inputs; c++)
        convolve_plane(s, pass, t->x + (n * s->inputs + c) * s->height * s->width,
                       t->w + (k * s->inputs + c) * TAPS, t->y + (n * s->outputs + k) * pixels);
}

/* ---- Operands in memory ---- */

static int64_t place(struct activation a, int64_t i) {
  const int64_t pixels = a.height * a.width, p = i % pixels, c = i / pixels % a.channels,
                n = i / pixels / a.channels, blocks = (a.channels + a.lanes - 1) / a.lanes;
  return ((n * blocks + c / a.lanes) * pixels + p) * a.lanes + c % a.lanes;
}

static float *room(int64_t count, int byte) {
  float *values = aligned_alloc(64, ((size_t)count * sizeof *values + 127) / 64 * 64);
  assert_non_null(values);
  memset(values, byte, (size_t)count * sizeof *values);
  return values;
}

/* Elements of any type of storage; they take the room of floats. */
static void put(neap_dtype storage, void *data, int64_t i, double value) {
  uint16_t *half = data;
  if (storage == NEAP_F32)
    ((float *)data)[i] = (float)value;
  else
    half[i] = storage == NEAP_BF16 ? bf16_from_float((float)value) : f16_from_float((float)value);
}

static double get(neap_dtype storage, const void *data, int64_t i) {
  const uint16_t *half = data;
  return storage == NEAP_F32    ? (double)((const float *)data)[i]
         : storage == NEAP_BF16 ? (double)bf16_to_float(half[i])
                                : (double)f16_to_float(half[i]);
}

static float *lay_out(struct activation a, const double *values) {
  float *data = room(stored_elements(a), 0);
  for (int64_t i = 0; i < a.images * a.channels * a.height * a.width; i++)
    put(a.storage, data, place(a, i), values[i]);
  return data;
}

static float *row_major(neap_dtype storage, const double *values, int64_t count) {
  float *data = room(count, 0);
  for (int64_t i = 0; i < count; i++) put(storage, data, i, values[i]);
  return data;
}

/* ---- Checks ---- */

/* Root mean square error over that of the result. */
static double error_of(const double *wanted, neap_dtype storage, const float *made,
                       const struct activation *a, int64_t count) {
  double error = 0, size = 0;
  for (int64_t i = 0; i < count; i++) {
    const double e = get(storage, made, a == NULL ? i : place(*a, i)) - wanted[i];
    error += e * e;
    size += wanted[i] * wanted[i];
  }
  return sqrt(error / size);
}

static void expect_padding(struct activation a, const float *data) {
  float *copy = room(stored_elements(a), 0);
  memcpy(copy, data, (size_t)stored_elements(a) * sizeof *copy);
  for (int64_t i = 0; i < a.images * a.channels * a.height * a.width; i++)
    put(a.storage, copy, place(a, i), 0);
  for (int64_t i = 0; i < stored_elements(a); i++) assert_true(get(a.storage, copy, i) == 0);
  free(copy);
}

struct check {
  const struct shape *shape;
  enum winograd_pass pass;
  struct tensors given;
  double *bias, *addend, *wanted;
  const struct cpu_kernels *kernels;
  struct activation x, y;
  double most_workspace;
};

static struct activation result_of(const struct check *c) {
  return c->pass == WINOGRAD_BACKWARD_DATA ? c->x : c->y;
}

/* The result of a pass, in a workspace full of `garbage`. */
static float *run(const struct check *c, int garbage, bool in_place) {
  const struct shape *s = c->shape;
  const struct tensors *t = &c->given;
  struct winograd plans[WINOGRAD_PASSES];
  winograd_plan(c->x, c->y, s->top, s->left, THREADS, c->most_workspace, plans);
  const struct winograd w = plans[c->pass];
  float *workspace = room((int64_t)(winograd_workspace(&w) / sizeof(float)) + 16, garbage),
        *shifted = garbage == 0 ? workspace : workspace + 16;
  float *x = lay_out(c->x, t->x), *y = lay_out(c->y, t->y),
        *weights = row_major(c->x.storage, t->w, s->inputs * s->outputs * TAPS);
  const bool back = c->pass == WINOGRAD_BACKWARD_DATA;
  const struct activation to = result_of(c);
  float **made = c->pass == WINOGRAD_BACKWARD_WEIGHTS ? &weights : back ? &x : &y;
  const int64_t count = made == &weights ? s->inputs * s->outputs * TAPS : stored_elements(to);
  memset(*made, garbage, (size_t)count * sizeof(float));
  if (made == &weights) {
    winograd_backward_weights(&w, c->kernels, x, y, weights, shifted);
  } else {
    float *bias = row_major(to.storage, c->bias, to.channels), *addend = lay_out(to, c->addend);
    if (in_place) memcpy(*made, addend, (size_t)count * sizeof(float));
    winograd_convolve(&w, c->kernels, back ? y : x, weights, bias, in_place ? *made : addend, *made, shifted);
    expect_padding(to, *made);
    free(bias);
    free(addend);
  }
  float *result = *made;
  *made = NULL;
  free(x);
  free(y);
  free(weights);
  free(workspace);
  return result;
}

/* The rims of a tile are the least accurate. Results of 16 bits are rounded once. */
static double tolerance(struct activation to) {
  const bool whole_tiles = to.height >= WINOGRAD_TILE && to.width >= WINOGRAD_TILE;
  return to.storage == NEAP_BF16 ? 0x1p-9 : to.storage == NEAP_F16 ? 0x1p-12 : whole_tiles ? 1e-6 : 1.2e-6;
}

/* On one instruction set, in one format. */
static void check_format(struct check *c, const struct cpu_kernels *kernels, int64_t lanes) {
  const struct shape *s = c->shape;
  c->kernels = kernels;
  c->x.lanes = lanes > 0 ? lanes : s->inputs;
  c->y.lanes = lanes > 0 ? lanes : s->outputs;
  const struct activation to = result_of(c);
  const bool sums = c->pass == WINOGRAD_BACKWARD_WEIGHTS;
  const int64_t weights = s->inputs * s->outputs * TAPS,
                count = sums ? weights : to.images * to.channels * to.height * to.width;
  float *made = run(c, 0, false), *again = run(c, 0xFF, true);
  const double error = error_of(c->wanted, to.storage, made, sums ? NULL : &to, count);
  if (!(error <= tolerance(to)))
    fail_msg("%s: pass %d of %lld -> %lld channels, %lld x %lld, lanes %lld, storage %d: error %g",
             kernels->name, (int)c->pass, (long long)s->inputs, (long long)s->outputs, (long long)s->height,
             (long long)s->width, (long long)lanes, (int)to.storage, error);
  assert_memory_equal(made, again,
                      (size_t)(sums ? weights : stored_elements(to)) *
                          (to.storage == NEAP_F32 ? sizeof(float) : sizeof(uint16_t)));
  free(made);
  free(again);
}

static void check_pass(const struct shape *s, enum winograd_pass pass, neap_dtype storage,
                       double most_workspace) {
  struct check c = {
      .shape = s,
      .pass = pass,
      .x = {s->images, s->inputs, s->height, s->width, 1, storage},
      .y = {s->images, s->outputs, s->height + 2 * s->top - 2, s->width + 2 * s->left - 2, 1, storage},
      .most_workspace = most_workspace};
  const int64_t weights = s->inputs * s->outputs * TAPS;
  c.given = (struct tensors){numbers(storage, stored_elements(c.x), 1), numbers(storage, weights, 2),
                             numbers(storage, stored_elements(c.y), 3)};
  const struct activation to = result_of(&c);
  c.bias = numbers(storage, to.channels, 4);
  c.addend = numbers(storage, stored_elements(to), 5);
  c.wanted = calloc((size_t)(stored_elements(to) + weights), sizeof *c.wanted);
  assert_non_null(c.wanted);
  for (int64_t i = 0; pass != WINOGRAD_BACKWARD_WEIGHTS && i < stored_elements(to); i++)
    c.wanted[i] = c.addend[i] + c.bias[i / (to.height * to.width) % to.channels];
  struct tensors t = c.given;
  *(pass == WINOGRAD_BACKWARD_WEIGHTS ? &t.w : pass == WINOGRAD_BACKWARD_DATA ? &t.x : &t.y) = c.wanted;
  convolve_directly(s, &t, pass);
  for (int set = 0; cpu_kernels_at(set) != NULL; set++) {
    check_format(&c, cpu_kernels_at(set), 16);
    check_format(&c, cpu_kernels_at(set), 0);
    if (cpu_kernels_lanes(cpu_kernels_at(set)) <= 8) check_format(&c, cpu_kernels_at(set), 8);
  }
  double *all[] = {c.given.x, c.given.w, c.given.y, c.bias, c.addend, c.wanted};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void test_against_direct(void **state) {
  (void)state;
  omp_set_num_threads(THREADS);
  int wide = 0; /* those that take most time: a quick pass tries each of them in one direction */
  for (int i = 0; i < SHAPES; i++) {
    const bool shortened = quick_pass() && shapes[i].inputs * shapes[i].outputs > 1 << 14;
    wide += shortened;
    for (int pass = 0; pass < 3; pass++) {
      if (shortened && pass != wide % 3) continue;
      check_pass(&shapes[i], (enum winograd_pass)pass, NEAP_F32, INFINITY);
      if (shortened) continue;
      check_pass(&shapes[i], (enum winograd_pass)pass, NEAP_F32, 0);
      check_pass(&shapes[i], (enum winograd_pass)pass, NEAP_BF16, INFINITY);
      check_pass(&shapes[i], (enum winograd_pass)pass, NEAP_F16, 0);
    }
  }
}

/* What a plan may take it does not exceed, where the smallest blocks do not; those take little. */
static void test_workspace(void **state) {
  (void)state;
  const struct activation x = {100, 64, 32, 32, 16, NEAP_F32};
  struct winograd plans[WINOGRAD_PASSES];
  size_t before[WINOGRAD_PASSES] = {SIZE_MAX, SIZE_MAX, SIZE_MAX};
  for (double most = 16e6; most >= 0.5e6; most /= 2) {
    assert_true(winograd_plan(x, x, 1, 1, THREADS, most, plans));
    for (int pass = 0; pass < WINOGRAD_PASSES; pass++) {
      assert_true((double)winograd_workspace(&plans[pass]) <= most);
      assert_true(winograd_workspace(&plans[pass]) <= before[pass]);
      before[pass] = winograd_workspace(&plans[pass]);
    }
  }
  assert_false(winograd_plan(x, x, 1, 1, THREADS, 1e5, plans));
}

/* Images of 2 x 2 pixels leave most of a tile unused, in any type; where direct convolutions are fast, fewer
 * shapes pay. */
static void test_pays(void **state) {
  (void)state;
  static const neap_dtype types[] = {NEAP_F32, NEAP_BF16, NEAP_F16};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    const neap_dtype storage = types[i];
    const struct activation small = {8, 512, 2, 2, 16, storage}, large = {8, 128, 28, 28, 16, storage};
    struct winograd plans[WINOGRAD_PASSES];
    winograd_plan(small, small, 1, 1, THREADS, INFINITY, plans);
    assert_false(winograd_pays(plans, 1));
    winograd_plan(large, large, 1, 1, THREADS, INFINITY, plans);
    assert_true(winograd_pays(plans, 1));
    assert_false(winograd_pays(plans, 8));
  }
}

int run_test_winograd(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_direct), cmocka_unit_test(test_workspace),
                                     cmocka_unit_test(test_pays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
