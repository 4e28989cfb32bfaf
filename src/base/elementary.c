#include "base/elementary.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static double of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Returns 2^n, of n from -1022 to 1023. */
static double power_of_two(int n) { return of_bits((uint64_t)(n + 1023) << 52); }

/* ln 2 in two parts: the first has zeros at its end, so that small multiples of it are exact. */
static const double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;

/* x = n ln 2 + r; e^r = 1 + r + r c / (2 - c), where c = r - r^2 P(r^2). Multiplies by 2^n in two halves, so
 * that neither overflows. */
double natural_exponential(double x) {
  if (!(x > -746)) return x == x ? 0 : x;
  if (x > 710) return INFINITY;
  const double n = floor(x * 1.44269504088896338700 + 0.5), high = x - n * ln2_high, low = n * ln2_low,
               r = high - low, t = r * r;
  const double p = 1.66666666666666019037e-01 +
                   t * (-2.77777777770155933842e-03 +
                        t * (6.61375632143793436117e-05 +
                             t * (-1.65339022054652515390e-06 + t * 4.13813679705723846039e-08)));
  const double c = r - t * p, y = 1 - ((low - r * c / (2 - c)) - high);
  const int half = (int)n / 2;
  return y * power_of_two(half) * power_of_two((int)n - half);
}

/* x = 2^n (1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1); ln (1 + f) = f - f^2 / 2 + s (f^2 / 2 + R(s^2)), where
 * s = f / (2 + f). */
double natural_logarithm(double x) {
  if (!(x > 0)) return x == 0 ? -INFINITY : NAN;
  if (x == INFINITY) return x;
  const int tiny = x < 0x1p-1022;
  const uint64_t bits = bits_of(tiny ? x * 0x1p54 : x);
  int n = (int)(bits >> 52) - 1023 - (tiny ? 54 : 0);
  double m = of_bits((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000);
  if (m >= 1.41421356237309504880) {
    m /= 2;
    n++;
  }
  const double f = m - 1, s = f / (2 + f), z = s * s, half = f * f / 2, k = n;
  const double rest =
      z * (6.666666666666735130e-01 +
           z * (3.999999999940941908e-01 +
                z * (2.857142874366239149e-01 +
                     z * (2.222219843214978396e-01 +
                          z * (1.818357216161805012e-01 +
                               z * (1.531383769920937332e-01 + z * 1.479819860511658591e-01))))));
  return k * ln2_high - ((half - (s * (half + rest) + k * ln2_low)) - f);
}

double power(double x, double y) {
  const double size = y < 0 ? -y : y;
  if (floor(size) != size || size >= 0x1p31) return natural_exponential(y * natural_logarithm(x));
  double product = 1;
  for (uint32_t n = (uint32_t)size; n != 0; n >>= 1, x *= x)
    if (n & 1) product *= x;
  return y < 0 ? 1 / product : product;
}

/* sin and cos of x + rest, |x| <= pi / 4. */
static double sine_near(double x, double rest) {
  const double z = x * x, v = z * x,
               r = 8.33333333332248946124e-03 +
                   z * (-1.98412698298579493134e-04 +
                        z * (2.75573137070700676789e-06 +
                             z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)));
  return x - ((z * (0.5 * rest - v * r) - rest) - v * -1.66666666666666324348e-01);
}
static double cosine_near(double x, double rest) {
  const double z = x * x,
               r = z * (4.16666666666666019037e-02 +
                        z * (-1.38888888888741095749e-03 +
                             z * (2.48015872894767294178e-05 +
                                  z * (-2.75573143513906633035e-07 +
                                       z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
  const double half = 0.5 * z, w = 1 - half;
  return w + (((1 - w) - half) + (z * r - x * rest));
}

/* An angle as a number of quarter turns and what is left, in two parts. */
struct turned {
  unsigned quarters;
  double x, rest;
};
static struct turned turn(double x) {
  static const double most = 0x1p20, whole_turn = 6.28318530717958647693;
  /* pi / 2 in three parts of 33 bits and the rest: products with numbers below 2^20 are exact. */
  static const double first = 1.57079632673412561417e+00, second = 6.07710050630396597660e-11,
                      third = 2.02226624871116645580e-21, fourth = 8.47842766036889956997e-32;
  if (x > most || x < -most) x = fmod(x, whole_turn); /* exact of the rounded turn */
  const double n = floor(x * 6.36619772367581382433e-01 + 0.5);
  double high = x - n * first, low = n * second, before = high;
  high = before - low;
  low = n * third - ((before - high) - low);
  before = high;
  high = before - low;
  low = n * fourth - ((before - high) - low);
  const double y = high - low;
  return (struct turned){(unsigned)(int)n & 3, y, (high - y) - low};
}

double sine(double x) {
  if (!(x - x == 0)) return NAN;
  const struct turned t = turn(x);
  const double y = t.quarters & 1 ? cosine_near(t.x, t.rest) : sine_near(t.x, t.rest);
  return t.quarters & 2 ? -y : y;
}

double cosine(double x) {
  if (!(x - x == 0)) return NAN;
  const struct turned t = turn(x);
  const double y = t.quarters & 1 ? sine_near(t.x, t.rest) : cosine_near(t.x, t.rest);
  return t.quarters == 1 || t.quarters == 2 ? -y : y;
}
