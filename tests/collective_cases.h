/* What every engine of collectives has to do, for tests of each: run by all ranks, each with its
 * neap_collective. What is sent follows from a seed, the call and both ranks, so that a receiver knows it
 * without the sender. */
#ifndef COLLECTIVE_CASES_H
#define COLLECTIVE_CASES_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/random.h"
#include "base/status.h"
#include "neap_collective.h"

enum { GUARD_BYTES = 16, GUARD = 0xA5 };

/* Byte `i` of what rank `from` sends rank `to` (-1: everyone). */
static inline unsigned char case_byte(uint64_t seed, int from, int to, uint64_t i) {
  const uint64_t key = seed + 1000003u * (uint64_t)from + 10007u * (uint64_t)(to + 1);
  return (unsigned char)((i * 0x9E3779B1u + key * 0xC2B2AE35u) >> 13);
}

/* How many bytes those are: often none, one, or about `slot`. */
static inline uint64_t case_bytes(uint64_t seed, int from, int to, uint64_t slot) {
  uint32_t words[4];
  random_philox(seed, (uint64_t)from << 16 | (uint64_t)(to + 1), 0, words);
  switch (random_below(words[0], 6)) {
  case 0:
    return 0;
  case 1:
    return 1 + random_below(words[1], 3);
  case 2:
    return slot - 2 + random_below(words[1], 5);
  case 3:
    return 2 * slot - 2 + random_below(words[1], 5);
  default:
    return random_below(words[1], 4 * slot);
  }
}

static inline void case_fill(unsigned char *data, uint64_t bytes, uint64_t seed, int from, int to) {
  for (uint64_t i = 0; i < bytes; i++) data[i] = case_byte(seed, from, to, i);
}

static inline neap_status case_check(const unsigned char *data, uint64_t bytes, uint64_t seed, int from,
                                     int to) {
  for (uint64_t i = 0; i < bytes; i++)
    RETURN_IF(data[i] != case_byte(seed, from, to, i), NEAP_INTERNAL,
              "byte %llu of %llu from rank %d to %d is wrong", (unsigned long long)i,
              (unsigned long long)bytes, from, to);
  return NEAP_OK;
}

static inline neap_status case_check_guard(const unsigned char *data, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i++)
    RETURN_IF(data[i] != GUARD, NEAP_INTERNAL, "a byte was written that nobody sent");
  return NEAP_OK;
}

static inline void *case_each(const neap_collective *c, size_t bytes) {
  return calloc(c->size > 0 ? (size_t)c->size : 1, bytes);
}

static inline void case_free(neap_piece *pieces, int size) {
  for (int r = 0; pieces != NULL && r < size; r++) free(pieces[r].data);
  free(pieces);
}

/* Pieces with guards behind them; sent ones are filled. */
static inline neap_piece *case_pieces(const neap_collective *c, uint64_t seed, uint64_t slot, bool sent) {
  neap_piece *pieces = case_each(c, sizeof *pieces);
  for (int r = 0; pieces != NULL && r < c->size; r++) {
    const int from = sent ? c->rank : r, to = sent ? r : c->rank;
    const uint64_t bytes = case_bytes(seed, from, to, slot);
    if (bytes == 0 && seed % 2 == 0) continue; /* NULL */
    pieces[r] = (neap_piece){malloc(bytes + GUARD_BYTES), bytes};
    memset(pieces[r].data, GUARD, bytes + GUARD_BYTES);
    if (sent) case_fill(pieces[r].data, bytes, seed, from, to);
  }
  return pieces;
}

static inline neap_status case_exchange(const neap_collective *c, uint64_t seed, uint64_t slot) {
  neap_piece *send = case_pieces(c, seed, slot, true), *receive = case_pieces(c, seed, slot, false);
  neap_status status = c->exchange(c->self, send, receive);
  for (int r = 0; r < c->size; r++) /* what was sent may be overwritten */
    if (send[r].bytes > 0) memset(send[r].data, 0, send[r].bytes);
  for (int r = 0; r < c->size && status == NEAP_OK; r++) {
    const unsigned char *data = receive[r].data;
    const uint64_t bytes = r == c->rank ? 0 : receive[r].bytes; /* the own piece is ignored */
    if (data != NULL) status = case_check(data, bytes, seed, r, c->rank);
    if (data != NULL && status == NEAP_OK)
      status = case_check_guard(data + bytes, receive[r].bytes - bytes + GUARD_BYTES);
  }
  case_free(send, c->size);
  case_free(receive, c->size);
  return status;
}

static inline neap_status case_allgather(const neap_collective *c, uint64_t seed, uint64_t slot) {
  uint64_t *bytes = case_each(c, sizeof *bytes), total = 0;
  for (int r = 0; r < c->size; r++) total += bytes[r] = case_bytes(seed, r, -1, slot);
  unsigned char *all = malloc(total + GUARD_BYTES), *part = all;
  memset(all, GUARD, total + GUARD_BYTES);
  for (int r = 0; r < c->rank; r++) part += bytes[r];
  case_fill(part, bytes[c->rank], seed, c->rank, -1);
  neap_status status = c->allgather(c->self, all, bytes);
  part = all;
  for (int r = 0; r < c->size && status == NEAP_OK; part += bytes[r++])
    status = case_check(part, bytes[r], seed, r, -1);
  if (status == NEAP_OK) status = case_check_guard(all + total, GUARD_BYTES);
  free(all);
  free(bytes);
  return status;
}

/* Sleeps now and then, so that ranks arrive in every order. */
static inline void case_dawdle(uint32_t *state) {
  const struct timespec pause = {0, (long)random_below(random_next(state), 400) * 1000};
  if (random_below(random_next(state), 8) == 0) nanosleep(&pause, NULL);
}

/* `calls` random calls around pieces of `slot` bytes. */
static inline neap_status case_random_calls(const neap_collective *c, uint64_t seed, int calls,
                                            uint64_t slot) {
  uint32_t kinds = (uint32_t)seed + 1, own = (uint32_t)seed * 977 + (uint32_t)c->rank + 1;
  for (int i = 0; i < calls; i++) {
    case_dawdle(&own);
    const uint64_t call = seed * 1000 + (uint64_t)i;
    switch (random_below(random_next(&kinds), 5)) {
    case 0:
      TRY(c->barrier(c->self));
      break;
    case 1:
    case 2:
      TRY(case_allgather(c, call, slot));
      break;
    default:
      TRY(case_exchange(c, call, slot));
    }
  }
  return NEAP_OK;
}

/* Makes calls of rows of `width` ranks, of columns, and of the whole in turns. A row further down makes more
 * of them; the pieces of whole calls are then still in transit for others. */
static inline neap_status case_grid(const neap_collective *c, int width, uint64_t seed, uint64_t slot) {
  const int row = c->rank / width, column = c->rank % width;
  neap_collective along, across;
  TRY(c->part(c->self, row * width, 1, width, &along));
  neap_status status = c->part(c->self, column, width, c->size / width, &across);
  if (status != NEAP_OK) {
    along.close(along.self);
    return status;
  }
  if (along.rank != column || along.size != width || across.rank != row || across.size != c->size / width)
    status = neap_fail(NEAP_INTERNAL, "rank %d of a row, %d of a column", along.rank, across.rank);
  for (uint64_t i = 0; i < 3 && status == NEAP_OK; i++) {
    status = case_random_calls(c, seed + i, 2, slot);
    if (status == NEAP_OK) status = case_random_calls(&along, seed + i + (uint64_t)row, 1 + 2 * row, slot);
    if (status == NEAP_OK) status = case_random_calls(&across, seed + i + (uint64_t)column, 2, slot);
    if (status == NEAP_OK) status = case_random_calls(&along, seed + i, 2, slot);
  }
  across.close(across.self);
  along.close(along.self);
  return status;
}

/* Divides the ranks into rows in every way. */
static inline neap_status case_parts(const neap_collective *c, uint64_t seed, uint64_t slot) {
  for (int width = 1; width <= c->size; width++)
    if (c->size % width == 0) TRY(case_grid(c, width, seed + (uint64_t)width, slot));
  return c->barrier(c->self);
}

/* No rank leaves a barrier before the last has come: `count` is shared by all ranks and begins with 0. */
static inline neap_status case_barriers(const neap_collective *c, int *count, int rounds) {
  uint32_t own = (uint32_t)c->rank + 5;
  for (int i = 0; i < rounds; i++) {
    case_dawdle(&own);
    __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
    TRY(c->barrier(c->self));
    const int came = __atomic_load_n(count, __ATOMIC_SEQ_CST);
    RETURN_IF(came < (i + 1) * c->size, NEAP_INTERNAL, "barrier %d: left with %d arrivals", i, came);
    TRY(c->barrier(c->self));
  }
  return NEAP_OK;
}

/* Work whose calls do not belong together on 3 ranks. A rank whose own part was done sees that in its next
 * call. */
static inline neap_status case_other_size(const neap_collective *c) {
  unsigned char bytes[64] = {0};
  neap_piece send[3] = {{bytes, 5}, {bytes, 5}, {bytes, 5}};
  neap_piece receive[3] = {{bytes + 16, 5}, {bytes + 32, 5}, {bytes + 48, 5}};
  if (c->rank == 2) receive[1].bytes = 7;
  TRY(c->exchange(c->self, send, receive));
  return c->barrier(c->self);
}

static inline neap_status case_other_call(const neap_collective *c) {
  const uint64_t bytes[3] = {0};
  TRY(c->rank == 1 ? c->allgather(c->self, NULL, bytes) : c->barrier(c->self));
  return c->barrier(c->self);
}

static inline neap_status case_other_parts(const neap_collective *c) {
  char all[16] = {0};
  const uint64_t bytes[3] = {4, 4, c->rank == 2 ? 5 : 4};
  TRY(c->allgather(c->self, all, bytes));
  return c->barrier(c->self);
}

#endif
