#include "collective/measure.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { LATENCY_CALLS = 100, EXCHANGES = 5 };

/* What a measurement needs. */
struct buffers {
  neap_piece *send, *receive; /* [size] */
  double *seconds;            /* [size], of each rank */
  uint64_t *each;             /* [size], bytes of one of these */
  char *sent, *received;      /* [bytes] */
};

static void free_buffers(struct buffers *b) {
  free(b->send);
  free(b->receive);
  free(b->seconds);
  free(b->each);
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
                        malloc(bytes + 1),
                        malloc(bytes + 1)};
  if (!b->send || !b->receive || !b->seconds || !b->each || !b->sent || !b->received) {
    free_buffers(b);
    return neap_fail(NEAP_OUT_OF_MEMORY, "collective_measure: out of memory");
  }
  memset(b->sent, 1, bytes); /* mapped before it is measured */
  memset(b->received, 2, bytes);
  for (int r = 0, place = 0; r < c->size; r++) {
    b->each[r] = sizeof *b->seconds;
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

static neap_status measure_rate(const neap_collective *c, struct buffers *b, double *bytes_per_second) {
  const int other = c->rank == 0 ? 1 : 0;
  const uint64_t bytes = c->size > 1 ? b->send[other].bytes * (uint64_t)(c->size - 1) : 0;
  *bytes_per_second = 0;
  for (int i = 0; i < EXCHANGES; i++) {
    TRY(c->barrier(c->self));
    const double begin = clock_seconds();
    TRY(c->exchange(c->self, b->send, b->receive));
    double seconds = clock_seconds() - begin;
    TRY(longest(c, b, &seconds));
    if (seconds > 0 && (double)bytes / seconds > *bytes_per_second)
      *bytes_per_second = (double)bytes / seconds;
  }
  return NEAP_OK;
}

neap_status collective_measure(const neap_collective *c, uint64_t bytes, double *latency,
                               double *bytes_per_second) {
  struct buffers b;
  RETURN_IF(bytes > SIZE_MAX / 4, NEAP_TOO_LARGE, "collective_measure: %llu bytes are too many",
            (unsigned long long)bytes);
  TRY(make_buffers(c, bytes, &b));
  neap_status status = measure_latency(c, &b, latency);
  if (status == NEAP_OK) status = measure_rate(c, &b, bytes_per_second);
  free_buffers(&b);
  return status;
}
