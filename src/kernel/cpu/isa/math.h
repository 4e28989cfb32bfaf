/* Functions of a float without branches, so that compilers vectorise loops over them. Accurate to a few
 * units in the last place. Infinities and NaN give the results of libm. */
#ifndef NEAP_KERNEL_CPU_ISA_MATH_H
#define NEAP_KERNEL_CPU_ISA_MATH_H

#include "kernel/cpu/isa/isa.h"

#define INLINE static inline __attribute__((always_inline))

union word {
  float value;
  int32_t bits;
};

INLINE float power_of_two(int32_t n) {
  return (union word){.bits = (n + 127) * (1 << 23)}.value;
} /* -126 to 127 */
INLINE float absolute(float x) { return (union word){.bits = (union word){x}.bits & 0x7FFFFFFF}.value; }
INLINE float with_sign(float magnitude, float sign) {
  return (union word){.bits = (union word){magnitude}.bits | ((union word){sign}.bits & INT32_MIN)}.value;
}

/* Returns e^x / 2^n of a bounded x = n ln 2 + r, by a polynomial in r (Cephes). */
INLINE float exponential_part(float x, float *n) {
  static const float rounder = 0x1.8p23f;
  *n = multiply_add(x, 1.44269504f, rounder) - rounder;
  const float r = multiply_add(*n, 2.12194440e-4f, multiply_add(*n, -0.693359375f, x));
  float p = multiply_add(1.9875691500e-4f, r, 1.3981999507e-3f);
  p = multiply_add(p, r, 8.3334519073e-3f);
  p = multiply_add(p, r, 4.1665795894e-2f);
  p = multiply_add(p, r, 1.6666665459e-1f);
  p = multiply_add(p, r, 5.0000001201e-1f);
  return 1 + multiply_add(p, r * r, r); /* the sum is rounded once */
}

/* Returns e^x. Multiplies by 2^n in two halves, so that neither overflows. */
INLINE float exponential(float x) {
  float bounded = x < -104 ? -104 : x, n;
  bounded = bounded > 89 ? 89 : bounded;
  const float p = exponential_part(bounded, &n);
  const int32_t whole = x == x ? (int32_t)n : 0, half = whole / 2;
  return p * power_of_two(half) * power_of_two(whole - half);
}

/* Returns e^x for x <= 0, with one product less. */
INLINE float exponential_of_negative(float x) {
  static const float lowest = -87;
  float n;
  const float p = exponential_part(x < lowest ? lowest : x, &n);
  return x < lowest ? 0 : p * power_of_two(x == x ? (int32_t)n : 0);
}

/* Returns ln x: x = 2^n m with m in [sqrt(1/2), sqrt(2)), and a polynomial in m - 1 (Cephes). */
INLINE float logarithm(float x) {
  const int tiny = x < 0x1p-126f;
  const float scaled = tiny ? x * 0x1p23f : x;
  const int32_t bits = (union word){scaled}.bits;
  int32_t n = ((bits >> 23) & 255) - 126 - (tiny ? 23 : 0);
  float m = (union word){.bits = (bits & 0x007FFFFF) | 0x3F000000}.value; /* [1/2, 1) */
  const int low = m < 0.707106781186547524f;
  n -= low;
  m = (low ? m + m : m) - 1;
  const float z = m * m, e = (float)n;
  float p = multiply_add(7.0376836292e-2f, m, -1.1514610310e-1f);
  p = multiply_add(p, m, 1.1676998740e-1f);
  p = multiply_add(p, m, -1.2420140846e-1f);
  p = multiply_add(p, m, 1.4249322787e-1f);
  p = multiply_add(p, m, -1.6668057665e-1f);
  p = multiply_add(p, m, 2.0000714765e-1f);
  p = multiply_add(p, m, -2.4999993993e-1f);
  p = multiply_add(p, m, 3.3333331174e-1f);
  float y = p * m * z;
  y = multiply_add(e, -2.12194440e-4f, y);
  y = multiply_add(z, -0.5f, y);
  const float result = multiply_add(e, 0.693359375f, m + y);
  const float infinity = __builtin_inff(), nan = __builtin_nanf("");
  return x > 0 ? (x < infinity ? result : infinity) : x == 0 ? -infinity : nan;
}

/* Returns tanh x: near 0 a polynomial (Cephes), else 1 - 2 / (e^2x + 1). */
INLINE float hyperbolic_tangent(float x) {
  const float z = x * x, size = absolute(x);
  float p = multiply_add(-5.70498872745e-3f, z, 2.06390887954e-2f);
  p = multiply_add(p, z, -5.37397155531e-2f);
  p = multiply_add(p, z, 1.33314422036e-1f);
  p = multiply_add(p, z, -3.33332819422e-1f);
  const float near = multiply_add(p * z, x, x), far = 1 - 2 / (exponential(2 * size) + 1);
  return size < 0.625f ? near : with_sign(far, x);
}

/* Returns the error function of x: near 0 a polynomial, else 1 - e^-q with a polynomial q (after N. Juffa's
 * erff). */
INLINE float error_function(float x) {
  const float size = absolute(x), z = x * x;
  float q = multiply_add(-1.72853470e-5f, size, 3.83197126e-4f);
  const float u = multiply_add(-3.88396438e-3f, size, 2.42546219e-2f);
  q = multiply_add(q, z, u);
  q = multiply_add(q, size, -1.06777877e-1f);
  q = multiply_add(q, size, -6.34846687e-1f);
  q = multiply_add(q, size, -1.28717512e-1f);
  q = multiply_add(q, size, -size);
  const float far = 1 - exponential_of_negative(size > 10 ? -100 : q);
  float p = multiply_add(-5.96761703e-4f, z, 4.99119423e-3f);
  p = multiply_add(p, z, -2.67681349e-2f);
  p = multiply_add(p, z, 1.12819925e-1f);
  p = multiply_add(p, z, -3.76125336e-1f);
  p = multiply_add(p, z, 1.28379166e-1f);
  const float near = multiply_add(p, x, x);
  return size > 0.921875f ? with_sign(far, x) : near;
}

/* Returns x^a; NaN for a negative, finite x if a is not whole. x^2 is correctly rounded. */
INLINE float real_power(float x, float a) {
  const float size = exponential(a * logarithm(absolute(x)));
  const float half = a * 0.5f;
  const int whole = __builtin_truncf(a) == a, odd = whole && __builtin_truncf(half) != half;
  const float signed_size = odd ? with_sign(size, x) : size;
  const float general = x < 0 && x >= -__FLT_MAX__ && !whole ? __builtin_nanf("") : signed_size;
  return a == 2 ? x * x : a == 1 ? x : a == 0 ? 1 : general;
}

#endif
