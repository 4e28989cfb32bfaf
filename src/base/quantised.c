#include "base/quantised.h"

#include <float.h>
#include <math.h>

/* ---- Blocks of numbers that all fit, as ggml's quantize_row_..._ref makes them ---- */

/* The scale is the largest size over 127, rounded to f16; numbers are rounded, halves away from 0, by the
 * scale before that was rounded. Below FLT_MIN, where ggml's inverse may be infinite, they are 0, as the
 * scale is. */
static void q8_0_from_floats(const float *x, void *block) {
  struct q8_0 b;
  float most = 0;
  for (int i = 0; i < 32; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
  const float scale = most / 127, inverse = scale >= FLT_MIN ? 1 / scale : 0;
  for (int i = 0; i < 32; i++) b.q[i] = (int8_t)roundf(x[i] * inverse);
  b.scale = f16_from_float(scale);
  memcpy(block, &b, sizeof b);
}

/* The inverse of a scale; 0 where that is 0 or has no finite one, as ggml has it for 0. */
static float inverse_of(float scale) {
  const float inverse = scale != 0 ? 1 / scale : 0;
  return isfinite(inverse) ? inverse : 0;
}

static uint8_t cut(float x, int most) { return (uint8_t)(x < 0 ? 0 : x > (float)most ? most : (int)x); }

/* Numbers q of 0 to 2 half - 1, where `half` means 0: the first number of the largest size becomes 0 and
 * gives the scale its sign. */
static uint16_t round_about_zero(const float *x, int half, uint8_t q[32]) {
  float most = 0;
  for (int i = 0; i < 32; i++)
    if (fabsf(x[i]) > fabsf(most)) most = x[i];
  const float scale = most / (float)-half, inverse = inverse_of(scale);
  for (int i = 0; i < 32; i++) q[i] = cut(x[i] * inverse + ((float)half + 0.5f), 2 * half - 1);
  return f16_from_float(scale);
}

/* Numbers q of 0 to `most`, from the least number on. */
static uint16_t round_from_least(const float *x, int most, uint8_t q[32], uint16_t *least) {
  float low = x[0], high = x[0];
  for (int i = 1; i < 32; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  const float scale = (high - low) / (float)most, inverse = inverse_of(scale);
  for (int i = 0; i < 32; i++) q[i] = cut((x[i] - low) * inverse + 0.5f, most);
  *least = f16_from_float(low);
  return f16_from_float(scale);
}

static void pack(const uint8_t q[32], uint8_t low[16]) {
  for (int i = 0; i < 16; i++) low[i] = (uint8_t)((q[i] & 15) | q[16 + i] << 4);
}

static void pack_fifth(const uint8_t q[32], uint8_t high[4]) {
  memset(high, 0, 4);
  for (int i = 0; i < 32; i++) high[i / 8] |= (uint8_t)(q[i] >> 4 << i % 8);
}

static void q4_0_from_floats(const float *x, void *block) {
  struct q4_0 b;
  uint8_t q[32];
  b.scale = round_about_zero(x, 8, q);
  pack(q, b.q);
  memcpy(block, &b, sizeof b);
}

static void q4_1_from_floats(const float *x, void *block) {
  struct q4_1 b;
  uint8_t q[32];
  b.scale = round_from_least(x, 15, q, &b.least);
  pack(q, b.q);
  memcpy(block, &b, sizeof b);
}

static void q5_0_from_floats(const float *x, void *block) {
  struct q5_0 b;
  uint8_t q[32];
  b.scale = round_about_zero(x, 16, q);
  pack(q, b.q);
  pack_fifth(q, b.high);
  memcpy(block, &b, sizeof b);
}

static void q5_1_from_floats(const float *x, void *block) {
  struct q5_1 b;
  uint8_t q[32];
  b.scale = round_from_least(x, 31, q, &b.least);
  pack(q, b.q);
  pack_fifth(q, b.high);
  memcpy(block, &b, sizeof b);
}

/* ---- Blocks of 256 numbers in parts, as ggml's quantize_row_q4_K_ref and its like make them ---- */

/* To the nearest within limits that are whole, halves to the even one. NaN is `low`. */
static int round_within(float x, float low, float high) {
  const float whole = 0x1.8p23f; /* of this size floats are whole numbers */
  x = x > low ? (x < high ? x : high) : low;
  return (int)(x + whole - whole);
}

/* A part of 32 numbers, and how much each weighs. */
struct part {
  const float *x;
  float weights[32], low, high, sum, sum_x; /* of weights; of weights times x */
};

static void measure_part(const float *x, struct part *p) {
  float squares = 0;
  *p = (struct part){.x = x, .low = x[0], .high = x[0]};
  for (int i = 0; i < 32; i++) squares += x[i] * x[i];
  const float size = sqrtf(squares / 32);
  for (int i = 0; i < 32; i++) {
    p->weights[i] = size + fabsf(x[i]);
    p->low = x[i] < p->low ? x[i] : p->low;
    p->high = x[i] > p->high ? x[i] : p->high;
    p->sum += p->weights[i];
    p->sum_x += p->weights[i] * x[i];
  }
  p->low = p->low > 0 ? 0 : p->low;
}

/* Numbers of a part, q of 0 to `most`, whose values are scale q + low. */
struct fit {
  uint8_t q[32];
  float scale, low, error;
};

/* Rounds from a low on, which is that of the best fit so far. */
static void round_part(const struct part *p, float inverse, float low, int most, uint8_t q[32]) {
  for (int i = 0; i < 32; i++) q[i] = (uint8_t)round_within(inverse * (p->x[i] - low), 0, (float)most);
}

static void weigh_error(const struct part *p, struct fit *f) {
  f->error = 0;
  for (int i = 0; i < 32; i++) {
    const float off = f->scale * (float)f->q[i] + f->low - p->x[i];
    f->error += p->weights[i] * (off * off);
  }
}

/* Takes the scale and low of least squares, a low of at most 0; false where q has one number. */
static bool fit_line(const struct part *p, struct fit *f) {
  float sum = 0, squares = 0, products = 0;
  for (int i = 0; i < 32; i++) {
    const float q = (float)f->q[i], weighed = p->weights[i] * q;
    sum += weighed;
    squares += weighed * q;
    products += weighed * p->x[i];
  }
  const float divisor = p->sum * squares - sum * sum;
  if (!(divisor > 0)) return false;
  f->scale = (p->sum * products - p->sum_x * sum) / divisor;
  f->low = (squares * p->sum_x - sum * products) / divisor;
  if (f->low > 0) {
    f->low = 0;
    f->scale = products / squares;
  }
  weigh_error(p, f);
  return true;
}

/* ggml's make_qkx2_quants: tries scales for `most` + `first` numbers and on, in steps of 0.1. */
static void fit_part(const float *x, int most, float first, int steps, struct fit *best) {
  struct part p;
  measure_part(x, &p);
  *best = (struct fit){.low = p.low};
  const float range = p.high - p.low;
  if (!(range > 1e-30f)) return; /* numbers that f16 does not tell apart, either */
  best->scale = 1 / ((float)most / range);
  round_part(&p, (float)most / range, best->low, most, best->q);
  weigh_error(&p, best);
  for (int step = 0; step <= steps; step++) {
    struct fit f;
    const float numbers = first + 0.1f * (float)step + (float)most;
    round_part(&p, numbers / (p.high - best->low), best->low, most, f.q);
    if (fit_line(&p, &f) && f.error < best->error) *best = f;
  }
}

/* The first members of q4_k and q5_k. */
struct k_head {
  uint16_t scale, least;
  uint8_t scales[12];
};

static void pack_k_scale(int p, int scale, int least, uint8_t s[12]) {
  if (p < 4) {
    s[p] = (uint8_t)scale;
    s[p + 4] = (uint8_t)least;
    return;
  }
  s[p + 4] = (uint8_t)((scale & 15) | (least & 15) << 4);
  s[p - 4] |= (uint8_t)(scale >> 4 << 6);
  s[p] |= (uint8_t)(least >> 4 << 6);
}

static struct k_head round_parts(const float *x, int most, float first, int steps, uint8_t q[256]) {
  struct k_head head = {0};
  struct fit fits[8];
  float scale = 0, least = 0;
  for (int p = 0; p < 8; p++) {
    fit_part(x + 32 * p, most, first, steps, &fits[p]);
    scale = fits[p].scale > scale ? fits[p].scale : scale;
    least = -fits[p].low > least ? -fits[p].low : least;
  }
  const float scales = scale > 0 ? 63 / scale : 0, leasts = least > 0 ? 63 / least : 0;
  for (int p = 0; p < 8; p++)
    pack_k_scale(p, round_within(scales * fits[p].scale, 0, 63), round_within(leasts * -fits[p].low, 0, 63),
                 head.scales);
  head.scale = f16_from_float(scale / 63);
  head.least = f16_from_float(least / 63);
  for (int p = 0; p < 8; p++) {
    const float own = f16_to_float(head.scale) * (float)k_scale(head.scales, p),
                low = f16_to_float(head.least) * (float)k_least(head.scales, p);
    memcpy(q + 32 * p, fits[p].q, 32);
    for (int i = 32 * p; own != 0 && i < 32 * p + 32; i++)
      q[i] = (uint8_t)round_within((x[i] + low) / own, 0, (float)most);
  }
  return head;
}

static void pack_halves(const uint8_t q[256], uint8_t low[128]) {
  for (int i = 0; i < 128; i++)
    low[i] = (uint8_t)((q[i / 32 * 64 + i % 32] & 15) | q[i / 32 * 64 + 32 + i % 32] << 4);
}

static void q4_k_from_floats(const float *x, void *block) {
  struct q4_k b;
  uint8_t q[256];
  const struct k_head head = round_parts(x, 15, -1, 20, q);
  memcpy(&b, &head, sizeof head);
  pack_halves(q, b.q);
  memcpy(block, &b, sizeof b);
}

static void q5_k_from_floats(const float *x, void *block) {
  struct q5_k b;
  uint8_t q[256];
  const struct k_head head = round_parts(x, 31, -0.5f, 15, q);
  memcpy(&b, &head, sizeof head);
  pack_halves(q, b.q);
  memset(b.high, 0, sizeof b.high);
  for (int i = 0; i < 256; i++) b.high[i % 32] |= (uint8_t)(q[i] >> 4 << i / 32);
  memcpy(block, &b, sizeof b);
}

/* ggml's make_qx_quants: returns the scale of 16 numbers of -32 to 31, the best of 19, and the numbers plus
 * 32; errors weigh as the squares of the numbers. Of zeros all bits are 0. */
static float fit_about_zero(const float *x, uint8_t q[16]) {
  float most = 0, best = 0, scale = 0;
  for (int i = 0; i < 16; i++)
    if (fabsf(x[i]) > fabsf(most)) most = x[i];
  memset(q, 0, 16);
  if (fabsf(most) < 1e-15f) return 0;
  for (int step = 0; step < 19; step++) { /* first 32 numbers, then 32 - 0.9 to 32 + 0.9 */
    const int tenths = step == 0 ? 0 : step <= 9 ? step - 10 : step - 9;
    const float inverse = -(32 + 0.1f * (float)tenths) / most;
    float products = 0, squares = 0;
    uint8_t tried[16];
    for (int i = 0; i < 16; i++) {
      const int number = round_within(inverse * x[i], -32, 31);
      const float weighed = x[i] * x[i];
      tried[i] = (uint8_t)(number + 32);
      products += weighed * x[i] * (float)number;
      squares += weighed * (float)number * (float)number;
    }
    if (step > 0 && !(squares > 0 && products * products > best * squares)) continue;
    memcpy(q, tried, sizeof tried);
    scale = squares != 0 ? products / squares : 0;
    best = scale * products;
  }
  return scale;
}

static void q6_k_from_floats(const float *x, void *block) {
  struct q6_k b = {.scale = 0};
  uint8_t q[256];
  float scales[16], most = 0;
  for (int p = 0; p < 16; p++) {
    scales[p] = fit_about_zero(x + 16 * p, q + 16 * p);
    if (fabsf(scales[p]) > fabsf(most)) most = scales[p];
  }
  if (fabsf(most) < 1e-15f) { /* all bits are 0, as ggml has them */
    memcpy(block, &b, sizeof b);
    return;
  }
  const float inverse = -128 / most;
  b.scale = f16_from_float(1 / inverse);
  for (int p = 0; p < 16; p++) {
    b.scales[p] = (int8_t)round_within(inverse * scales[p], -128, 127);
    const float own = f16_to_float(b.scale) * (float)b.scales[p];
    for (int i = 16 * p; i < 16 * p + 16; i++) {
      const int number = own != 0 ? 32 + round_within(x[i] / own, -32, 31) : q[i];
      b.q[p / 8 * 64 + p % 4 * 16 + i % 16] |= (uint8_t)((number & 15) << p / 4 % 2 * 4);
      b.high[p / 8 * 32 + p % 2 * 16 + i % 16] |= (uint8_t)(number >> 4 << p / 2 % 4 * 2);
    }
  }
  memcpy(block, &b, sizeof b);
}

/* ---- Blocks as bitsandbytes makes them ---- */

/* As bitsandbytes' quantize_4bit: what is above a border, the middle of two numbers of the table, takes the
 * larger one. */
static void nf4_from_floats(const float *x, void *block) {
  static const float borders[15] = {-0.8480963706970215f,   -0.6106328964233398f,  -0.4599952697753906f,
                                    -0.33967941999435425f,  -0.23460739850997925f, -0.13791173696517944f,
                                    -0.045525018125772476f, 0.03979014977812767f,  0.120255246758461f,
                                    0.2035212516784668f,    0.2920137643814087f,   0.3893125355243683f,
                                    0.5016634464263916f,    0.6427869200706482f,   0.8614784479141235f};
  struct nf4 b;
  b.scale = 0;
  for (int i = 0; i < 64; i++) b.scale = fabsf(x[i]) > b.scale ? fabsf(x[i]) : b.scale;
  const float inverse = 1 / (b.scale > 1e-38f ? b.scale : 1e-38f);
  for (int i = 0; i < 64; i++) {
    const float size = x[i] * inverse;
    int q = 0;
    for (int k = 0; k < 15; k++) q += size > borders[k];
    b.q[i / 2] = (uint8_t)(i % 2 == 0 ? q << 4 : b.q[i / 2] | q);
  }
  memcpy(block, &b, sizeof b);
}

/* As bitsandbytes' int8_vectorwise_quant: to the nearest, halves to the even one. A row of zeros, of which it
 * has NaN before it rounds, is 0. */
static void i8_from_row(const float *x, int64_t count, void *blocks) {
  unsigned char *block = blocks;
  float most = 0;
  for (int64_t i = 0; i < count; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
  const float inverse = most > 0 && isfinite(127 / most) ? 127 / most : 0;
  for (int64_t first = 0; first < count; first += 64, block += sizeof(struct i8)) {
    struct i8 b = {.absmax = most};
    for (int i = 0; i < 64; i++) b.q[i] = (int8_t)rintf(x[first + i] * inverse);
    memcpy(block, &b, sizeof b);
  }
}

/* ---- States of 8 bits ---- */

/* bitsandbytes' dynamic maps of 8 bits (create_dynamic_map): seven ranges of powers of ten, each with twice
 * as many numbers as the one below, the middles of equal parts of [0.1, 1]; and 0 and 1. The map with signs
 * has no -1. */
const float dyn8s_map[256] = {-9.9296874e-01f, -9.789063e-01f,  -9.6484375e-01f, -9.507812e-01f,
                              -9.3671876e-01f, -9.2265624e-01f, -9.085938e-01f,  -8.9453125e-01f,
                              -8.804687e-01f,  -8.6640626e-01f, -8.5234374e-01f, -8.382813e-01f,
                              -8.2421875e-01f, -8.101562e-01f,  -7.9609376e-01f, -7.8203124e-01f,
                              -7.679688e-01f,  -7.5390625e-01f, -7.398437e-01f,  -7.2578126e-01f,
                              -7.117188e-01f,  -6.976563e-01f,  -6.8359375e-01f, -6.695312e-01f,
                              -6.5546876e-01f, -6.414063e-01f,  -6.273438e-01f,  -6.1328125e-01f,
                              -5.992187e-01f,  -5.8515626e-01f, -5.710938e-01f,  -5.570313e-01f,
                              -5.4296875e-01f, -5.289062e-01f,  -5.148437e-01f,  -5.0078124e-01f,
                              -4.867187e-01f,  -4.7265625e-01f, -4.5859373e-01f, -4.4453126e-01f,
                              -4.3046874e-01f, -4.1640624e-01f, -4.0234375e-01f, -3.8828123e-01f,
                              -3.7421876e-01f, -3.6015624e-01f, -3.4609374e-01f, -3.3203125e-01f,
                              -3.1796873e-01f, -3.0390626e-01f, -2.8984374e-01f, -2.7578127e-01f,
                              -2.6171875e-01f, -2.4765624e-01f, -2.3359375e-01f, -2.1953125e-01f,
                              -2.0546874e-01f, -1.9140625e-01f, -1.7734376e-01f, -1.6328125e-01f,
                              -1.4921875e-01f, -1.3515624e-01f, -1.2109375e-01f, -1.07031256e-01f,
                              -9.859375e-02f,  -9.578126e-02f,  -9.2968754e-02f, -9.015625e-02f,
                              -8.734375e-02f,  -8.453125e-02f,  -8.171876e-02f,  -7.890625e-02f,
                              -7.609375e-02f,  -7.328125e-02f,  -7.0468746e-02f, -6.7656256e-02f,
                              -6.484375e-02f,  -6.203125e-02f,  -5.9218753e-02f, -5.640625e-02f,
                              -5.359375e-02f,  -5.078125e-02f,  -4.796875e-02f,  -4.515625e-02f,
                              -4.2343747e-02f, -3.953125e-02f,  -3.6718752e-02f, -3.390625e-02f,
                              -3.109375e-02f,  -2.8281251e-02f, -2.546875e-02f,  -2.265625e-02f,
                              -1.9843752e-02f, -1.703125e-02f,  -1.421875e-02f,  -1.140625e-02f,
                              -9.71875e-03f,   -9.156249e-03f,  -8.59375e-03f,   -8.03125e-03f,
                              -7.46875e-03f,   -6.90625e-03f,   -6.34375e-03f,   -5.78125e-03f,
                              -5.2187503e-03f, -4.6562497e-03f, -4.09375e-03f,   -3.5312497e-03f,
                              -2.96875e-03f,   -2.40625e-03f,   -1.84375e-03f,   -1.2812499e-03f,
                              -9.437501e-04f,  -8.3125e-04f,    -7.1875006e-04f, -6.062501e-04f,
                              -4.9375003e-04f, -3.8125002e-04f, -2.6875004e-04f, -1.5625001e-04f,
                              -8.875e-05f,     -6.625e-05f,     -4.375e-05f,     -2.1249998e-05f,
                              -7.75e-06f,      -3.2500002e-06f, -5.5000004e-07f, 0.0f,
                              5.5000004e-07f,  3.2500002e-06f,  7.75e-06f,       2.1249998e-05f,
                              4.375e-05f,      6.625e-05f,      8.875e-05f,      1.5625001e-04f,
                              2.6875004e-04f,  3.8125002e-04f,  4.9375003e-04f,  6.062501e-04f,
                              7.1875006e-04f,  8.3125e-04f,     9.437501e-04f,   1.2812499e-03f,
                              1.84375e-03f,    2.40625e-03f,    2.96875e-03f,    3.5312497e-03f,
                              4.09375e-03f,    4.6562497e-03f,  5.2187503e-03f,  5.78125e-03f,
                              6.34375e-03f,    6.90625e-03f,    7.46875e-03f,    8.03125e-03f,
                              8.59375e-03f,    9.156249e-03f,   9.71875e-03f,    1.140625e-02f,
                              1.421875e-02f,   1.703125e-02f,   1.9843752e-02f,  2.265625e-02f,
                              2.546875e-02f,   2.8281251e-02f,  3.109375e-02f,   3.390625e-02f,
                              3.6718752e-02f,  3.953125e-02f,   4.2343747e-02f,  4.515625e-02f,
                              4.796875e-02f,   5.078125e-02f,   5.359375e-02f,   5.640625e-02f,
                              5.9218753e-02f,  6.203125e-02f,   6.484375e-02f,   6.7656256e-02f,
                              7.0468746e-02f,  7.328125e-02f,   7.609375e-02f,   7.890625e-02f,
                              8.171876e-02f,   8.453125e-02f,   8.734375e-02f,   9.015625e-02f,
                              9.2968754e-02f,  9.578126e-02f,   9.859375e-02f,   1.07031256e-01f,
                              1.2109375e-01f,  1.3515624e-01f,  1.4921875e-01f,  1.6328125e-01f,
                              1.7734376e-01f,  1.9140625e-01f,  2.0546874e-01f,  2.1953125e-01f,
                              2.3359375e-01f,  2.4765624e-01f,  2.6171875e-01f,  2.7578127e-01f,
                              2.8984374e-01f,  3.0390626e-01f,  3.1796873e-01f,  3.3203125e-01f,
                              3.4609374e-01f,  3.6015624e-01f,  3.7421876e-01f,  3.8828123e-01f,
                              4.0234375e-01f,  4.1640624e-01f,  4.3046874e-01f,  4.4453126e-01f,
                              4.5859373e-01f,  4.7265625e-01f,  4.867187e-01f,   5.0078124e-01f,
                              5.148437e-01f,   5.289062e-01f,   5.4296875e-01f,  5.570313e-01f,
                              5.710938e-01f,   5.8515626e-01f,  5.992187e-01f,   6.1328125e-01f,
                              6.273438e-01f,   6.414063e-01f,   6.5546876e-01f,  6.695312e-01f,
                              6.8359375e-01f,  6.976563e-01f,   7.117188e-01f,   7.2578126e-01f,
                              7.398437e-01f,   7.5390625e-01f,  7.679688e-01f,   7.8203124e-01f,
                              7.9609376e-01f,  8.101562e-01f,   8.2421875e-01f,  8.382813e-01f,
                              8.5234374e-01f,  8.6640626e-01f,  8.804687e-01f,   8.9453125e-01f,
                              9.085938e-01f,   9.2265624e-01f,  9.3671876e-01f,  9.507812e-01f,
                              9.6484375e-01f,  9.789063e-01f,   9.9296874e-01f,  1.0e+00f};

const float dyn8u_map[256] = {
    0.0f,           3.2500003e-07f,  7.75e-07f,      2.1249998e-06f, 4.3749997e-06f, 6.625e-06f,
    8.874999e-06f,  1.5624999e-05f,  2.6875001e-05f, 3.8125e-05f,    4.9374998e-05f, 6.0625003e-05f,
    7.1875e-05f,    8.312499e-05f,   9.4375e-05f,    1.28125e-04f,   1.84375e-04f,   2.4062501e-04f,
    2.9687502e-04f, 3.5312498e-04f,  4.0937503e-04f, 4.6562502e-04f, 5.2187504e-04f, 5.78125e-04f,
    6.34375e-04f,   6.9062505e-04f,  7.46875e-04f,   8.031251e-04f,  8.5937505e-04f, 9.15625e-04f,
    9.7187504e-04f, 1.140625e-03f,   1.421875e-03f,  1.703125e-03f,  1.984375e-03f,  2.265625e-03f,
    2.5468748e-03f, 2.828125e-03f,   3.1093748e-03f, 3.3906251e-03f, 3.671875e-03f,  3.953125e-03f,
    4.2343745e-03f, 4.515625e-03f,   4.7968747e-03f, 5.078125e-03f,  5.359375e-03f,  5.6406246e-03f,
    5.921875e-03f,  6.2031248e-03f,  6.484375e-03f,  6.7656254e-03f, 7.0468746e-03f, 7.328125e-03f,
    7.6093744e-03f, 7.890625e-03f,   8.171875e-03f,  8.453124e-03f,  8.734375e-03f,  9.015624e-03f,
    9.2968745e-03f, 9.578126e-03f,   9.859375e-03f,  1.0703126e-02f, 1.2109376e-02f, 1.3515624e-02f,
    1.4921876e-02f, 1.6328124e-02f,  1.7734377e-02f, 1.9140625e-02f, 2.0546874e-02f, 2.1953126e-02f,
    2.3359375e-02f, 2.4765624e-02f,  2.6171876e-02f, 2.7578129e-02f, 2.8984373e-02f, 3.0390626e-02f,
    3.1796873e-02f, 3.3203125e-02f,  3.4609374e-02f, 3.6015626e-02f, 3.742188e-02f,  3.8828123e-02f,
    4.0234376e-02f, 4.1640624e-02f,  4.3046873e-02f, 4.4453125e-02f, 4.5859374e-02f, 4.7265626e-02f,
    4.867187e-02f,  5.0078124e-02f,  5.1484372e-02f, 5.2890625e-02f, 5.4296877e-02f, 5.570313e-02f,
    5.7109382e-02f, 5.8515627e-02f,  5.9921872e-02f, 6.1328124e-02f, 6.273438e-02f,  6.414063e-02f,
    6.554688e-02f,  6.695312e-02f,   6.8359375e-02f, 6.976563e-02f,  7.117188e-02f,  7.2578125e-02f,
    7.398438e-02f,  7.539063e-02f,   7.679688e-02f,  7.820313e-02f,  7.960938e-02f,  8.1015624e-02f,
    8.242188e-02f,  8.382813e-02f,   8.5234374e-02f, 8.6640626e-02f, 8.804687e-02f,  8.945312e-02f,
    9.0859376e-02f, 9.226563e-02f,   9.367188e-02f,  9.5078126e-02f, 9.648438e-02f,  9.789063e-02f,
    9.9296875e-02f, 1.03515625e-01f, 1.1054687e-01f, 1.1757813e-01f, 1.2460937e-01f, 1.3164061e-01f,
    1.3867188e-01f, 1.4570314e-01f,  1.5273437e-01f, 1.5976563e-01f, 1.6679686e-01f, 1.7382812e-01f,
    1.8085939e-01f, 1.8789062e-01f,  1.9492188e-01f, 2.0195311e-01f, 2.0898438e-01f, 2.1601564e-01f,
    2.2304687e-01f, 2.3007813e-01f,  2.3710936e-01f, 2.4414062e-01f, 2.5117186e-01f, 2.5820312e-01f,
    2.6523438e-01f, 2.722656e-01f,   2.7929688e-01f, 2.8632814e-01f, 2.9335937e-01f, 3.003906e-01f,
    3.0742186e-01f, 3.1445312e-01f,  3.214844e-01f,  3.2851562e-01f, 3.3554685e-01f, 3.425781e-01f,
    3.4960938e-01f, 3.5664064e-01f,  3.6367187e-01f, 3.707031e-01f,  3.7773436e-01f, 3.8476562e-01f,
    3.917969e-01f,  3.9882812e-01f,  4.0585935e-01f, 4.128906e-01f,  4.1992188e-01f, 4.2695314e-01f,
    4.3398437e-01f, 4.410156e-01f,   4.4804686e-01f, 4.5507812e-01f, 4.621094e-01f,  4.6914062e-01f,
    4.7617185e-01f, 4.832031e-01f,   4.9023438e-01f, 4.972656e-01f,  5.042969e-01f,  5.113281e-01f,
    5.1835936e-01f, 5.253906e-01f,   5.324218e-01f,  5.3945315e-01f, 5.4648435e-01f, 5.535157e-01f,
    5.605469e-01f,  5.6757814e-01f,  5.746094e-01f,  5.816406e-01f,  5.886719e-01f,  5.957031e-01f,
    6.027344e-01f,  6.0976565e-01f,  6.1679685e-01f, 6.238282e-01f,  6.308594e-01f,  6.3789064e-01f,
    6.449219e-01f,  6.519531e-01f,   6.589844e-01f,  6.660156e-01f,  6.730469e-01f,  6.8007815e-01f,
    6.8710935e-01f, 6.941407e-01f,   7.011719e-01f,  7.0820314e-01f, 7.152344e-01f,  7.222656e-01f,
    7.292969e-01f,  7.363281e-01f,   7.433594e-01f,  7.5039065e-01f, 7.5742185e-01f, 7.644532e-01f,
    7.714844e-01f,  7.785156e-01f,   7.855469e-01f,  7.925781e-01f,  7.996094e-01f,  8.066406e-01f,
    8.136718e-01f,  8.2070315e-01f,  8.2773435e-01f, 8.347657e-01f,  8.417969e-01f,  8.488281e-01f,
    8.558594e-01f,  8.628906e-01f,   8.699219e-01f,  8.769531e-01f,  8.839843e-01f,  8.9101565e-01f,
    8.9804685e-01f, 9.050782e-01f,   9.121094e-01f,  9.191406e-01f,  9.261719e-01f,  9.332031e-01f,
    9.402344e-01f,  9.472656e-01f,   9.542968e-01f,  9.6132815e-01f, 9.6835935e-01f, 9.753907e-01f,
    9.824219e-01f,  9.894531e-01f,   9.964844e-01f,  1.0e+00f};

/* ---- The types ---- */

#define F16_LARGEST 65504.0f

/* The largest size of a number. A type without a quantiser is only read. */
static const struct quantiser {
  neap_dtype dtype;
  float largest;
  void (*from_floats)(const float *x, void *block);
  void (*from_row)(const float *x, int64_t count, void *blocks); /* in place of it: rows have a scale */
} quantisers[] = {
    {NEAP_Q8_0, 127 * F16_LARGEST, .from_floats = q8_0_from_floats},
    {NEAP_Q4_0, 8 * F16_LARGEST, .from_floats = q4_0_from_floats},
    {NEAP_Q4_1, F16_LARGEST, .from_floats = q4_1_from_floats},
    {NEAP_Q5_0, 16 * F16_LARGEST, .from_floats = q5_0_from_floats},
    {NEAP_Q5_1, F16_LARGEST, .from_floats = q5_1_from_floats},
    {NEAP_Q4_K, 32 * F16_LARGEST, .from_floats = q4_k_from_floats},
    {NEAP_Q5_K, 32 * F16_LARGEST, .from_floats = q5_k_from_floats},
    {NEAP_Q6_K, 32 * F16_LARGEST, .from_floats = q6_k_from_floats},
    {NEAP_NF4, FLT_MAX, .from_floats = nf4_from_floats},
    {NEAP_I8, FLT_MAX, .from_row = i8_from_row},
};

static const struct quantiser *find_quantiser(neap_dtype dtype) {
  for (size_t i = 0; i < sizeof quantisers / sizeof *quantisers; i++)
    if (quantisers[i].dtype == dtype) return &quantisers[i];
  return NULL;
}

bool can_quantise(neap_dtype dtype) { return find_quantiser(dtype) != NULL; }

/* Fails where one of the numbers is larger than the type can hold. */
static neap_status check_numbers(const struct quantiser *quantiser, const char *name, int64_t first,
                                 int64_t count, const float *x) {
  for (int64_t i = first; i < first + count; i++)
    RETURN_IF(!(fabsf(x[i]) <= quantiser->largest), NEAP_INVALID_ARGUMENT,
              "'%s': element %lld is %g, but %s holds numbers from -%g to %g", name, (long long)i,
              (double)x[i], dtype_rows[quantiser->dtype].name, (double)quantiser->largest,
              (double)quantiser->largest);
  return NEAP_OK;
}

neap_status quantise(neap_dtype dtype, const char *name, int64_t row, int64_t count, const float *x,
                     void *blocks) {
  const struct dtype_row *type = &dtype_rows[dtype];
  const struct quantiser *quantiser = find_quantiser(dtype);
  RETURN_IF(!dtype_is_quantised(dtype), NEAP_INTERNAL, "'%s': %s is not a quantised type", name, type->name);
  RETURN_IF(quantiser == NULL, NEAP_UNSUPPORTED,
            "'%s': cannot convert numbers to blocks of %s; only a file with such blocks provides them", name,
            type->name);
  const int64_t step = quantiser->from_row != NULL ? row : type->block_elements;
  RETURN_IF(step < 1 || step % type->block_elements != 0 || count % step != 0, NEAP_INTERNAL,
            "'%s': %lld elements must consist of whole rows of %lld", name, (long long)count, (long long)row);
  for (int64_t first = 0; first < count; first += step) {
    void *to = (unsigned char *)blocks + dtype_bytes(dtype, (uint64_t)first);
    TRY(check_numbers(quantiser, name, first, step, x));
    if (quantiser->from_row != NULL)
      quantiser->from_row(x + first, step, to);
    else
      quantiser->from_floats(x + first, to);
  }
  return NEAP_OK;
}
