/* Random numbers. Those that training draws are counter-based: a function of key and counter, so that they
 * can be made again. */
#ifndef NEAP_BASE_RANDOM_H
#define NEAP_BASE_RANDOM_H

#include <stdint.h>

/* Round `round` of Philox4x32 (Salmon, Moraes, Dror, Shaw 2011) on a counter of four words. */
static inline void random_philox_round(uint64_t seed, uint32_t round, uint32_t *c0, uint32_t *c1,
                                       uint32_t *c2, uint32_t *c3) {
  const uint32_t k0 = (uint32_t)seed + round * 0x9E3779B9u, k1 = (uint32_t)(seed >> 32) + round * 0xBB67AE85u;
  const uint64_t a = (uint64_t)0xD2511F53u * *c0, b = (uint64_t)0xCD9E8D57u * *c2;
  *c0 = (uint32_t)(b >> 32) ^ *c1 ^ k0;
  *c1 = (uint32_t)b;
  *c2 = (uint32_t)(a >> 32) ^ *c3 ^ k1;
  *c3 = (uint32_t)a;
}

enum { RANDOM_ROUNDS = 10 };

/* Philox4x32-10: key = seed, counter = (counter, stream). */
static inline void random_philox(uint64_t seed, uint64_t stream, uint64_t counter, uint32_t out[4]) {
  out[0] = (uint32_t)counter, out[1] = (uint32_t)(counter >> 32);
  out[2] = (uint32_t)stream, out[3] = (uint32_t)(stream >> 32);
  for (uint32_t round = 0; round < RANDOM_ROUNDS; round++)
    random_philox_round(seed, round, &out[0], &out[1], &out[2], &out[3]);
}

/* The next word of a sequence (xorshift32, Marsaglia 2003), for searches that draw in order. `*state` is not
 * 0. */
static inline uint32_t random_next(uint32_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

/* A word as a number in [0, 1), with 24 bits. */
static inline float random_uniform(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }

/* An integer in [0, bound), bound at most 2^32, from a word (bias below bound / 2^32). */
static inline uint32_t random_below(uint32_t word, uint64_t bound) {
  return (uint32_t)((uint64_t)word * bound >> 32);
}

#endif
