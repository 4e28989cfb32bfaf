/* The compression function of SHA-256: in plain C, and by the instructions of x86-64 processors. */
#include "base/sha256_blocks.h"

#include <stdalign.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#endif

alignas(16) static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate_right(uint32_t x, int bits) { return x >> bits | x << (32 - bits); }

static uint32_t big_endian_32(const unsigned char *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void compress(uint32_t state[8], const unsigned char block[64]) {
  uint32_t w[64];
  for (int t = 0; t < 16; t++) w[t] = big_endian_32(block + 4 * t);
  for (int t = 16; t < 64; t++) {
    const uint32_t s0 = rotate_right(w[t - 15], 7) ^ rotate_right(w[t - 15], 18) ^ w[t - 15] >> 3;
    const uint32_t s1 = rotate_right(w[t - 2], 17) ^ rotate_right(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  for (int t = 0; t < 64; t++) {
    const uint32_t s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + round_constants[t] + w[t];
    const uint32_t s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d;
  state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void sha256_portable(uint32_t state[8], const unsigned char *blocks, size_t count) {
  for (size_t i = 0; i < count; i++) compress(state, blocks + 64 * i);
}

#if defined(__x86_64__)

/* Asks the processor, which takes microseconds in a virtual machine. */
static bool ask_processor(void) {
  enum { SSSE3_AND_SSE41 = 1 << 9 | 1 << 19, SHA = 1 << 29 };
  unsigned a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & SSSE3_AND_SSE41) != SSSE3_AND_SSE41) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & SHA) != 0;
}

bool sha256_has_instructions(void) {
  enum { UNKNOWN, ABSENT, PRESENT };
  static atomic_int known;
  int answer = atomic_load_explicit(&known, memory_order_relaxed);
  if (answer == UNKNOWN) {
    answer = ask_processor() ? PRESENT : ABSENT;
    atomic_store_explicit(&known, answer, memory_order_relaxed);
  }
  return answer == PRESENT;
}

/* The instructions hold the state as a, b, e, f and c, d, g, h, from the highest word down. */
__attribute__((target("sha,ssse3,sse4.1"))) void
sha256_by_instructions(uint32_t state[8], const unsigned char *blocks, size_t count) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i abcd = _mm_loadu_si128((const __m128i *)(const void *)state),
                efgh = _mm_loadu_si128((const __m128i *)(const void *)(state + 4));
  const __m128i badc = _mm_shuffle_epi32(abcd, 0xb1), hgfe = _mm_shuffle_epi32(efgh, 0x1b);
  __m128i abef = _mm_alignr_epi8(badc, hgfe, 8), cdgh = _mm_blend_epi16(hgfe, badc, 0xf0);
  for (size_t i = 0; i < count; i++) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4]; /* words of the message schedule: those of rounds 4 r to 4 r + 15 at w[r % 4] on */
    for (int k = 0; k < 4; k++)
      w[k] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(blocks + 64 * i) + k), swap);
#pragma GCC unroll 16
    for (int r = 0; r < 16; r++) {
      const __m128i *constants = (const __m128i *)(const void *)round_constants + r;
      __m128i sum = _mm_add_epi32(w[r % 4], _mm_load_si128(constants));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      sum = _mm_shuffle_epi32(sum, 0x0e);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, sum);
      const __m128i later = _mm_alignr_epi8(w[(r + 3) % 4], w[(r + 2) % 4], 4);
      w[r % 4] = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w[r % 4], w[(r + 1) % 4]), later),
                                      w[(r + 3) % 4]);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

#else

bool sha256_has_instructions(void) { return false; }

void sha256_by_instructions(uint32_t state[8], const unsigned char *blocks, size_t count) {
  sha256_portable(state, blocks, count);
}

#endif
