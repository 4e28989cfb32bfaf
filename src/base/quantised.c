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
