#include "collective/streaming_copy.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>

enum { LINE = 64, AHEAD = 8 * LINE };

void streaming_copy(void *to, const void *from, size_t bytes) {
  char *t = to;
  const char *f = from;
  const size_t before = (LINE - (uintptr_t)t % LINE) % LINE;
  if (bytes < before + LINE) {
    memcpy(t, f, bytes);
    return;
  }
  memcpy(t, f, before);
  size_t at = before;
  for (; at + LINE <= bytes; at += LINE) {
    _mm_prefetch(f + at + AHEAD, _MM_HINT_NTA); /* beyond the end it does nothing */
    for (int i = 0; i < LINE; i += 16)
      _mm_stream_si128((__m128i *)(void *)(t + at + i),
                       _mm_loadu_si128((const __m128i *)(const void *)(f + at + i)));
  }
  memcpy(t + at, f + at, bytes - at);
  _mm_sfence();
}

#else

void streaming_copy(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }

#endif
