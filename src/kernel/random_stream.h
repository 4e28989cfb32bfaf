/* Which random stream a random operator draws from, the same in every backend. */
#ifndef NEAP_KERNEL_RANDOM_STREAM_H
#define NEAP_KERNEL_RANDOM_STREAM_H

#include <stdint.h>

/* 2^20 streams a step: a stream never meets another of the same seed. */
static inline uint64_t random_stream(uint64_t step, int32_t stream) {
  return step << 20 | (uint64_t)(uint32_t)stream;
}

#endif
