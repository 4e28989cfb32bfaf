/* The random stream of each random operator, the same in every backend. */
#ifndef NEAP_KERNEL_RANDOM_STREAM_H
#define NEAP_KERNEL_RANDOM_STREAM_H

#include <stdint.h>

#include "op/op.h"

/* Returns one of the 2^20 streams of a step: no two steps with one seed share a stream. */
static inline uint64_t random_stream(uint64_t step, int32_t stream) {
  return step << 20 | (uint64_t)(uint32_t)stream;
}

/* Returns the stream that an update rounds 16-bit variables by; -1: not an update. These numbers must not
 * change when operators are added: runs would get other bits, and continued runs another end. */
static inline int32_t update_stream(int32_t op) {
  switch (op) {
#define UPDATE(NAME, id, word, text, stream, ...)                                                            \
  case OP_##NAME:                                                                                            \
    return stream;
#define MATRIX_UPDATE UPDATE
#include "op/update_list.h"
  case OP_ACCUMULATE:
    return 115;
  case OP_CLEAR:
    return 116;
  case OP_MOMENTUM_BEGIN:
    return 117;
  case OP_MOMENTUM_END:
    return 118;
  default:
    return -1;
  }
}

/* Returns the stream of the noise that a step adds to its parameters: the same in all its micro-batches. Its
 * normal numbers (Box and Muller 1958): with the words w of a counter c,
 *     radius = sqrt(-2 ln u(w[0])),  u(w) = (w / 2^8 + 1) / 2^24, w / 2^8 rounded down,
 *     angle = pi / 2 (w[1] / 2^30 - 1 / 2),  w[1] without its lowest 8 bits,
 * z(4 c) = radius cos(angle), z(4 c + 1) = radius sin(angle); z(4 c + 2), z(4 c + 3) by w[2] and w[3]. */
static inline uint64_t noise_stream(uint64_t step) {
  enum { NOISE_STREAM = 130 };
  return random_stream(step, NOISE_STREAM);
}

/* Returns the stream by which a micro-batch rounds values that gradients read (OP_COMPRESS). The key has the
 * name of the node, since a tensor may be another's copy in the part of a pipeline. Element i of a tensor
 * takes 16 bits of counter i / 8, the lower half of a word first. `draw`: of run_draw. */
static inline uint64_t compress_stream(uint64_t draw) {
  enum { COMPRESS_STREAM = 131 };
  return random_stream(draw, COMPRESS_STREAM);
}

/* Returns the stream by which a step draws the rows that its backward pass reads (OP_KEPT_ROWS), the same in
 * all its micro-batches. The key has the name of the node. */
static inline uint64_t kept_rows_stream(uint64_t step) {
  enum { KEPT_ROWS_STREAM = 132 };
  return random_stream(step, KEPT_ROWS_STREAM);
}

/* Distinguishes the draws for one tensor from those for others: a hash of its name, which may come in pieces
 * (FNV-1a: Fowler, Noll and Vo 1991). Pass RANDOM_NO_NAME with the first piece. */
#define RANDOM_NO_NAME 14695981039346656037u
static inline uint64_t random_name(uint64_t hash, const char *piece) {
  for (; *piece != '\0'; piece++) hash = (hash ^ (unsigned char)*piece) * 1099511628211u;
  return hash;
}

#endif
