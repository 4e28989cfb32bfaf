/* neap bench of several processes: how fast they exchange bytes. */
#include <jansson.h>
#include <stdio.h>

#include "shared/exchanges.h"
#include "shared/failure.h"
#include "shared/format.h"
#include "shared/processes.h"

/* Bytes of an exchange: from what lies in caches to what does not. */
static const uint64_t sizes[] = {64 << 10, 1 << 20, 16 << 20, 64 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Latency and rate for `neap plan`: the least latency, and the rate of the largest exchange. */
static double least_latency(const neap_exchange_speed *speeds) {
  double least = speeds[0].latency;
  for (int i = 1; i < SIZES; i++)
    if (speeds[i].latency < least) least = speeds[i].latency;
  return least;
}

static void print_speeds(const neap_exchange_speed *speeds, int processes) {
  const double latency = least_latency(speeds), rate = speeds[SIZES - 1].exchange_bytes;
  printf("%d processes: the smallest allgather takes %.1f microseconds\n\n", processes, 1e6 * latency);
  printf("%-12s %14s %14s %14s %10s\n", "bytes each", "exchange", "allgather", "memcpy", "of memcpy");
  for (int i = 0; i < SIZES; i++)
    printf("%-12s %14s %14s %14s %10s\n", bytes_text(speeds[i].bytes).text,
           rate_text(speeds[i].exchange_bytes, "B/s").text, rate_text(speeds[i].allgather_bytes, "B/s").text,
           rate_text(speeds[i].copy_bytes, "B/s").text,
           percent_text(speeds[i].exchange_bytes / speeds[i].copy_bytes).text);
  printf("\nexchange: bytes that each process sends while it receives as many; allgather:\n"
         "that each receives; memcpy: that each copies while all copy. Plan by these:\n"
         "  neap plan --processes %d --bandwidth %.0f --latency %.2g\n",
         processes, rate, latency);
}

static json_t *speeds_json(const neap_exchange_speed *speeds, int processes) {
  json_t *list = json_array();
  bool whole = list != NULL;
  for (int i = 0; i < SIZES; i++)
    whole = whole && json_array_append_new(
                         list, json_pack("{s:I, s:f, s:f, s:f}", "bytes", (json_int_t)speeds[i].bytes,
                                         "exchange_bytes_per_second", speeds[i].exchange_bytes,
                                         "allgather_bytes_per_second", speeds[i].allgather_bytes,
                                         "memcpy_bytes_per_second", speeds[i].copy_bytes)) == 0;
  if (!whole) {
    json_decref(list);
    return NULL;
  }
  return json_pack("{s:i, s:f, s:f, s:o}", "processes", processes, "latency_seconds", least_latency(speeds),
                   "bandwidth_bytes_per_second", speeds[SIZES - 1].exchange_bytes, "exchanges", list);
}

int bench_exchanges(const struct verb *verb, const struct launched *launched, bool json) {
  const neap_collective *c = &launched->collective;
  neap_exchange_speed speeds[SIZES];
  neap_status status = NEAP_OK;
  for (int i = 0; status == NEAP_OK && i < SIZES; i++)
    status = neap_collective_measure(c, sizes[i], &speeds[i]);
  if (!is_first_process(launched)) return end_process(launched, status);
  if (status != NEAP_OK)
    return tell_failure(launched, status) ? report_failure(verb, status) : exit_status_of(status);
  if (json) return print_json(speeds_json(speeds, c->size));
  print_speeds(speeds, c->size);
  return EXIT_DONE;
}
