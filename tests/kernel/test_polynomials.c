/* Functions of a float (isa/math.h) on every instruction set: beside the C library's in double, over floats
 * of all sizes with infinities, NaN and subnormals; and the same bits on all sets that have fused
 * multiply-add. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "effort.h"
#include "kernel/cpu/dispatch.h"
#include "testing.h"

typedef void unary_kernel(int64_t count, struct scalars s, struct stored x, struct stored y);

/* In units of the last place. */
static double distance(float got, double exact) {
  const float near = (float)exact;
  if (got == near || (isnan(got) && isnan(near))) return 0;
  if (!isfinite(got) || !isfinite(near)) return INFINITY;
  return fabs((double)got - exact) / ((double)nextafterf(fabsf(near), INFINITY) - (double)fabsf(near));
}

enum { COUNT = 1 << 16 };

/* Every step-th float, from the smallest bits to the largest. */
static void compare(const char *name, size_t place, double (*exact)(double), double most) {
  const uint64_t step = quick_pass() ? 4801 : 97;
  float *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y),
        *fused = malloc(COUNT * sizeof *fused);
  assert_true(x != NULL && y != NULL && fused != NULL);
  for (uint64_t first = 0; first < UINT64_C(1) << 32; first += COUNT * step) {
    bool any = false;
    for (uint64_t i = 0; i < COUNT; i++) {
      const uint32_t bits = (uint32_t)(first + i * step);
      memcpy(&x[i], &bits, sizeof bits);
    }
    for (int k = 0; cpu_kernels_at(k) != NULL; k++) {
      const struct cpu_kernels *kernels = cpu_kernels_at(k);
      unary_kernel *kernel;
      memcpy(&kernel, (const char *)kernels + place, sizeof kernel);
      kernel(COUNT, (struct scalars){0}, (struct stored){NEAP_F32, x}, (struct stored){NEAP_F32, y});
      for (int i = 0; i < COUNT; i++)
        if (distance(y[i], exact((double)x[i])) > most)
          fail_msg("%s %s(%.9g) is %.9g, %.3g units of the last place off", kernels->name, name, (double)x[i],
                   (double)y[i], distance(y[i], exact((double)x[i])));
      if (strcmp(kernels->name, "generic") == 0 && cpu_kernels_fused(kernels) != kernels)
        continue; /* not fused */
      for (int i = 0; any && i < COUNT; i++)
        assert_true(memcmp(&y[i], &fused[i], sizeof *y) == 0 || (isnan(y[i]) && isnan(fused[i])));
      memcpy(fused, y, COUNT * sizeof *y);
      any = true;
    }
  }
  free(x);
  free(y);
  free(fused);
}

#define COMPARE(id, most) compare(#id, offsetof(struct cpu_kernels, id), id, most)

static void test_units_of_the_last_place(void **state) {
  (void)state;
  COMPARE(exp, 1);
  COMPARE(log, 1);
  COMPARE(tanh, 2);
  COMPARE(erf, 2);
}

int run_test_polynomials(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_units_of_the_last_place)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
