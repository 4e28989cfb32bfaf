/* exchange [RANKS [ROUNDS]]
 *
 * How fast ranks exchange bytes: RANKS (2) processes of this machine through shared memory, or, under mpirun,
 * its ranks through the plugin of its MPI. Prints the seconds of the smallest allgather, and by size what
 * each rank sends, and receives, in a second: in an exchange; in an allgather of so many bytes in all, what
 * it receives; and beside these what each copies by memcpy while all copy at the same time. The best of
 * ROUNDS (5), in turn. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "collective/measure.h"
#include "collective/plugin.h"
#include "collective/processes.h"

enum { MOST_RANKS = 1024, TURNS = 6 }; /* the first maps the memory */

struct bench {
  const neap_collective *c;
  char *from, *to;
  uint64_t bytes, parts[MOST_RANKS], each[MOST_RANKS];
  double seconds[MOST_RANKS];
};

static neap_status copy(struct bench *b) {
  memcpy(b->to, b->from, b->bytes);
  __asm__ volatile("" : : "r"(b->to) : "memory");
  return NEAP_OK;
}

static neap_status gather(struct bench *b) { return b->c->allgather(b->c->self, b->to, b->parts); }

/* The least seconds of some turns, each the longest of all ranks. */
static neap_status least_seconds(struct bench *b, neap_status (*work)(struct bench *), double *least) {
  *least = 1e9;
  for (int i = 0; i < TURNS; i++) {
    double longest = 0;
    TRY(b->c->barrier(b->c->self));
    const double begin = clock_seconds();
    TRY(work(b));
    b->seconds[b->c->rank] = clock_seconds() - begin;
    TRY(b->c->allgather(b->c->self, b->seconds, b->each));
    for (int r = 0; r < b->c->size; r++)
      if (b->seconds[r] > longest) longest = b->seconds[r];
    if (i > 0 && longest < *least) *least = longest;
  }
  return NEAP_OK;
}

static neap_status measure_bytes(struct bench *b, int rounds) {
  const double size = b->c->size;
  double latency = 1, exchange = 0, allgather = 0, memory = 0;
  for (int r = 0; r < b->c->size; r++) b->parts[r] = b->bytes / (uint64_t)b->c->size;
  for (int i = 0; i < rounds; i++) {
    double l, e, g, m;
    TRY(collective_measure(b->c, b->bytes, &l, &e));
    TRY(least_seconds(b, gather, &g));
    TRY(least_seconds(b, copy, &m));
    latency = l < latency ? l : latency;
    exchange = e > exchange ? e : exchange;
    allgather = (double)b->bytes * (size - 1) / size / g > allgather
                    ? (double)b->bytes * (size - 1) / size / g
                    : allgather;
    memory = (double)b->bytes / m > memory ? (double)b->bytes / m : memory;
  }
  if (b->c->rank == 0)
    printf("%12llu %12.1f %14.2f %15.2f %12.2f %8.2f\n", (unsigned long long)b->bytes, latency * 1e6,
           exchange / 1e9, allgather / 1e9, memory / 1e9, exchange / memory);
  return NEAP_OK;
}

static neap_status measure(const neap_collective *c, int rounds) {
  static struct bench b;
  RETURN_IF(c->size > MOST_RANKS, NEAP_TOO_LARGE, "at most %d ranks", MOST_RANKS);
  b.c = c;
  for (int r = 0; r < c->size; r++) b.each[r] = sizeof *b.seconds;
  if (c->rank == 0)
    printf("%12s %12s %14s %15s %12s %8s\n", "bytes", "latency us", "exchange GB/s", "allgather GB/s",
           "memcpy GB/s", "share");
  for (b.bytes = 4 << 10; b.bytes <= 256 << 20; b.bytes *= 4) {
    b.from = malloc(b.bytes);
    b.to = malloc(b.bytes);
    RETURN_IF(b.from == NULL || b.to == NULL, NEAP_OUT_OF_MEMORY, "out of memory");
    memset(b.from, 1, b.bytes);
    memset(b.to, 1, b.bytes);
    TRY(measure_bytes(&b, rounds));
    free(b.from);
    free(b.to);
  }
  return NEAP_OK;
}

int main(int argc, char **argv) {
  const int ranks = argc > 1 ? atoi(argv[1]) : 2, rounds = argc > 2 ? atoi(argv[2]) : 5;
  neap_collective own;
  int exit_status = 1;
  neap_status status = plugin_open(NULL, NULL, &own);
  const bool is_mpi = own.size > 0;
  if (status == NEAP_OK && !is_mpi) status = processes_start(ranks, &own, &exit_status);
  if (own.size > 0) {
    status = measure(&own, rounds);
    if (!is_mpi) processes_report(&own, status);
    if (!is_mpi || status == NEAP_OK) own.close(own.self);
    exit_status = status != NEAP_OK;
  }
  if (status != NEAP_OK && (own.size == 0 || is_mpi)) fprintf(stderr, "exchange: %s\n", neap_error_message());
  return exit_status;
}
