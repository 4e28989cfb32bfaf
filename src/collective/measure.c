/* Measures how fast the ranks of a collective exchange bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "neap_collective.h"

enum { LATENCY_CALLS = 100, EXCHANGES = 5, ROUNDS = 5 };
static const double enough_seconds = 3; /* after which no other round begins */

/* The buffers of a measurement. */
struct buffers {
  neap_piece *send, *receive; /* [size] */
  double *seconds;            /* [size], of each rank */
  uint64_t *each, *parts;     /* [size], bytes of one of these; of each rank's part of an allgather */
  char *sent, *received;      /* [bytes] */
  uint64_t bytes;
};

static void free_buffers(struct buffers *b) {
  free(b->send);
  free(b->receive);
  free(b->seconds);
  free(b->each);
  free(b->parts);
  free(b->sent);
  free(b->received);
}

static neap_status make_buffers(const neap_collective *c, uint64_t bytes, struct buffers *b) {
  const size_t size = (size_t)c->size;
  const uint64_t part = c->size > 1 ? bytes / (uint64_t)(c->size - 1) : 0;
  *b = (struct buffers){calloc(size, sizeof *b->send),
                        calloc(size, sizeof *b->receive),
                        calloc(size, sizeof *b->seconds),
                        calloc(size, sizeof *b->each),
                        calloc(size, sizeof *b->parts),
                        malloc(bytes + 1),
                        malloc(bytes + 1),
                        bytes};
  if (!b->send || !b->receive || !b->seconds || !b->each || !b->parts || !b->sent || !b->received) {
    free_buffers(b);
    return neap_fail(NEAP_OUT_OF_MEMORY, "neap_collective_measure: out of memory");
  }
  memset(b->sent, 1, bytes); /* mapped before it is measured */
  memset(b->received, 2, bytes);
  for (int r = 0, place = 0; r < c->size; r++) {
    b->each[r] = sizeof *b->seconds;
    b->parts[r] = bytes / (uint64_t)c->size;
    if (r == c->rank) continue;
    b->send[r] = (neap_piece){b->sent + (uint64_t)place * part, part};
    b->receive[r] = (neap_piece){b->received + (uint64_t)place++ * part, part};
  }
  return NEAP_OK;
}

/* `*seconds` becomes the longest of all ranks. */
static neap_status longest(const neap_collective *c, struct buffers *b, double *seconds) {
  b->seconds[c->rank] = *seconds;
  TRY(c->allgather(c->self, b->seconds, b->each));
  for (int r = 0; r < c->size; r++)
    if (b->seconds[r] > *seconds) *seconds = b->seconds[r];
  return NEAP_OK;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static neap_status measure_latency(const neap_collective *c, struct buffers *b, double *latency) {
  double seconds[LATENCY_CALLS];
  TRY(c->barrier(c->self));
  for (int i = 0; i < LATENCY_CALLS; i++) {
    const double begin = clock_seconds();
    TRY(c->allgather(c->self, b->seconds, b->each));
    seconds[i] = clock_seconds() - begin;
  }
  qsort(seconds, LATENCY_CALLS, sizeof *seconds, by_size);
  *latency = seconds[LATENCY_CALLS / 2];
  return longest(c, b, latency);
}

/* ---- What is repeated ---- */

static neap_status exchange(const neap_collective *c, struct buffers *b) {
  return c->exchange(c->self, b->send, b->receive);
}

static neap_status gather(const neap_collective *c, struct buffers *b) {
  return c->allgather(c->self, b->received, b->parts);
}

static neap_status copy(const neap_collective *c, struct buffers *b) {
  (void)c;
  memcpy(b->received, b->sent, b->bytes);
  __asm__ volatile("" : : "r"(b->received) : "memory");
  return NEAP_OK;
}

/* Raises `*rate`, bytes per second, to that of the best of some turns, each as long as on the slowest rank.
 */
static neap_status measure_rate(const neap_collective *c, struct buffers *b, uint64_t bytes,
                                neap_status (*work)(const neap_collective *, struct buffers *),
                                double *rate) {
  for (int i = 0; i < EXCHANGES; i++) {
    TRY(c->barrier(c->self));
    const double begin = clock_seconds();
    TRY(work(c, b));
    double seconds = clock_seconds() - begin;
    TRY(longest(c, b, &seconds));
    if (seconds > 0 && (double)bytes / seconds > *rate) *rate = (double)bytes / seconds;
  }
  return NEAP_OK;
}

static neap_status measure_round(const neap_collective *c, struct buffers *b, neap_exchange_speed *speed) {
  const uint64_t others = (uint64_t)c->size - 1, part = others > 0 ? b->bytes / others : 0;
  double latency;
  TRY(measure_latency(c, b, &latency));
  if (speed->latency == 0 || latency < speed->latency) speed->latency = latency;
  TRY(measure_rate(c, b, part * others, exchange, &speed->exchange_bytes));
  TRY(measure_rate(c, b, b->bytes / (uint64_t)c->size * others, gather, &speed->allgather_bytes));
  return measure_rate(c, b, b->bytes, copy, &speed->copy_bytes);
}

static neap_status measure(const neap_collective *c, struct buffers *b, neap_exchange_speed *speed) {
  const double begin = clock_seconds();
  double passed = 0;
  for (int i = 0; i < ROUNDS && passed < enough_seconds; i++) {
    TRY(measure_round(c, b, speed));
    passed = clock_seconds() - begin;
    TRY(longest(c, b, &passed)); /* then all ranks go on, or none */
  }
  return NEAP_OK;
}

neap_status neap_collective_measure(const neap_collective *c, uint64_t bytes, neap_exchange_speed *speed) {
  NEED(c);
  NEED(speed);
  struct buffers b;
  RETURN_IF(c->size < 1, NEAP_INVALID_ARGUMENT, "neap_collective_measure: %d ranks; at least 1 is needed",
            c->size);
  RETURN_IF(bytes > SIZE_MAX / 4, NEAP_TOO_LARGE, "neap_collective_measure: %llu bytes are too many",
            (unsigned long long)bytes);
  *speed = (neap_exchange_speed){.bytes = bytes};
  TRY(make_buffers(c, bytes, &b));
  const neap_status status = measure(c, &b, speed);
  free_buffers(&b);
  return status;
}
