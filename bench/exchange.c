/* exchange [RANKS [ROUNDS]]
 *
 * How fast ranks that are processes of this machine (2) exchange bytes through shared memory: seconds of the
 * smallest allgather, and by size what each rank sends, and receives, in a second, beside what each copies by
 * memcpy while all copy at the same time; the best of ROUNDS (5), in turn. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "collective/measure.h"
#include "collective/processes.h"

/* Bytes that each rank copies in a second, while all copy `bytes`. */
static neap_status measure_copy(const neap_collective *c, uint64_t bytes, double *bytes_per_second) {
  char *from = malloc(bytes), *to = malloc(bytes);
  double *seconds = calloc(128, sizeof *seconds), longest = 0;
  uint64_t *each = calloc(128, sizeof *each);
  neap_status status = NEAP_OK;
  if (from == NULL || to == NULL || seconds == NULL || each == NULL)
    status = neap_fail(NEAP_OUT_OF_MEMORY, "out of memory");
  *bytes_per_second = 0;
  for (int r = 0; r < c->size && each != NULL; r++) each[r] = sizeof *seconds;
  for (int i = 0; i < 6 && status == NEAP_OK; i++) { /* the first maps the memory */
    if (i == 0) memset(from, 1, bytes);
    status = c->barrier(c->self);
    const double begin = clock_seconds();
    memcpy(to, from, bytes);
    __asm__ volatile("" : : "r"(to) : "memory");
    seconds[c->rank] = clock_seconds() - begin;
    if (status == NEAP_OK) status = c->allgather(c->self, seconds, each);
    longest = 0;
    for (int r = 0; r < c->size; r++)
      if (seconds[r] > longest) longest = seconds[r];
    if (i > 0 && (double)bytes / longest > *bytes_per_second) *bytes_per_second = (double)bytes / longest;
  }
  free(from);
  free(to);
  free(seconds);
  free(each);
  return status;
}

static neap_status measure(const neap_collective *c, int rounds) {
  if (c->rank == 0)
    printf("%12s %12s %12s %12s %8s\n", "bytes", "latency us", "exchange GB/s", "memcpy GB/s", "share");
  for (uint64_t bytes = 4 << 10; bytes <= 256 << 20; bytes *= 4) {
    double latency = 1, rate = 0, copy = 0;
    for (int i = 0; i < rounds; i++) {
      double l, r, m;
      TRY(collective_measure(c, bytes, &l, &r));
      TRY(measure_copy(c, bytes, &m));
      latency = l < latency ? l : latency;
      rate = r > rate ? r : rate;
      copy = m > copy ? m : copy;
    }
    if (c->rank == 0)
      printf("%12llu %12.1f %12.2f %12.2f %8.2f\n", (unsigned long long)bytes, latency * 1e6, rate / 1e9,
             copy / 1e9, rate / copy);
  }
  return NEAP_OK;
}

int main(int argc, char **argv) {
  const int ranks = argc > 1 ? atoi(argv[1]) : 2, rounds = argc > 2 ? atoi(argv[2]) : 5;
  neap_collective own;
  int exit_status;
  neap_status status = processes_start(ranks, &own, &exit_status);
  if (own.size > 0) {
    status = measure(&own, rounds);
    processes_report(&own, status);
    own.close(own.self);
    return status != NEAP_OK;
  }
  if (status != NEAP_OK) fprintf(stderr, "exchange: %s\n", neap_error_message());
  return exit_status;
}
