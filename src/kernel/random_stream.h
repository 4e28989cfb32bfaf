/* Which random stream a random operator draws from, the same in every backend. */
#ifndef NEAP_KERNEL_RANDOM_STREAM_H
#define NEAP_KERNEL_RANDOM_STREAM_H

#include <stdint.h>

/* 2^20 streams a step: a stream never meets another of the same seed. */
static inline uint64_t random_stream(uint64_t step, int32_t stream) {
  return step << 20 | (uint64_t)(uint32_t)stream;
}

/* What tells the draws for one tensor from those for others: a hash of its name, which may come in pieces
 * (FNV-1a: Fowler, Noll and Vo 1991). The first piece goes with RANDOM_NO_NAME. */
#define RANDOM_NO_NAME 14695981039346656037u
static inline uint64_t random_name(uint64_t hash, const char *piece) {
  for (; *piece != '\0'; piece++) hash = (hash ^ (unsigned char)*piece) * 1099511628211u;
  return hash;
}

#endif
