/* Counts of algorithms on chains of unit layers. */
#include <stdio.h>
#include <stdlib.h>

#include "papers.h"
#include "papers/bptt.h"
#include "papers/hong.h"
#include "papers/revolve.h"

enum { STEPS = 1000 };

static void print_count(struct report *report, int32_t slots, int64_t published, int64_t ours) {
  printf("  %6d %12lld %12lld   %s\n", slots, (long long)published, (long long)ours,
         verdict(report, ours == published));
}

static int64_t count_forward(const chain_operations *operations, bool leaves) {
  int64_t count = 0;
  for (size_t i = 0; i < operations->count; i++) {
    const enum chain_action action = operations->data[i].action;
    count += action == CHAIN_FORWARD || action == CHAIN_FORWARD_KEEP || (leaves && action == CHAIN_LEAF);
  }
  return count;
}

neap_status print_revolve(struct report *report) {
  static const struct {
    int32_t slots;
    int64_t published;
  } rows[] = {{3, 12155}, {5, 6284}, {10, 3636}, {20, 2747}, {50, 1948}};
  printf("  Forward steps, beside the one before each backward step, that reverse %d steps: counted in the\n"
         "  schedule and equal to the formula.\n\n  %6s %12s %12s\n",
         STEPS, "slots", "published", "ours");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    chain_operations operations = {0};
    const neap_status status = revolve_operations(STEPS, rows[i].slots, &operations);
    const int64_t count = count_forward(&operations, false);
    vector_free(&operations);
    if (status != NEAP_OK) return status;
    RETURN_IF(count != revolve_forward_steps(STEPS, rows[i].slots), NEAP_INTERNAL,
              "the schedule has %lld forward steps, the formula says otherwise", (long long)count);
    print_count(report, rows[i].slots, rows[i].published, count);
  }
  return NEAP_OK;
}

neap_status print_bptt(struct report *report) {
  static const struct {
    int32_t slots;
    int64_t published;
  } rows[] = {{2, 29820}, {10, 4636}, {50, 2948}};
  printf("  Forward steps, each backward step's own included, that reverse %d steps: counted in the\n"
         "  schedule.\n\n  %6s %12s %12s\n",
         STEPS, "slots", "published", "ours");
  struct bptt bptt;
  neap_status status = bptt_create(STEPS, 50, 0, &bptt);
  for (size_t i = 0; status == NEAP_OK && i < sizeof rows / sizeof *rows; i++) {
    chain_operations operations = {0};
    status = bptt_operations(&bptt, rows[i].slots, &operations);
    if (status == NEAP_OK)
      print_count(report, rows[i].slots, rows[i].published, count_forward(&operations, true));
    vector_free(&operations);
  }
  bptt_free(&bptt);
  return status;
}

/* ---- Hong ---- */

/* A chain's peak when the layers `chosen` are checkpoints, each freed with its segment: looked up segment by
 * segment from the definition, not from the algorithm's recurrence. */
static uint64_t peak_of_checkpoints(const uint64_t *bytes, const int32_t *chosen, int32_t count) {
  uint64_t held = 0, peak = 0;
  for (int32_t c = 0; c < count; c++) {
    held += bytes[chosen[c]]; /* all checkpoints up to here, and the segment behind this one */
    uint64_t segment = 0, largest = 0;
    for (int32_t k = chosen[c]; c + 1 < count && k <= chosen[c + 1]; k++) {
      if (k > chosen[c]) segment += bytes[k];
      largest = bytes[k] > largest ? bytes[k] : largest;
    }
    peak = held + segment + largest > peak ? held + segment + largest : peak;
  }
  return peak;
}

static neap_status run_hong(int32_t layers, uint64_t *peak, double *seconds) {
  uint64_t *bytes = malloc((size_t)layers * sizeof *bytes);
  int32_t *chosen = malloc((size_t)layers * sizeof *chosen), count;
  neap_status status =
      bytes == NULL || chosen == NULL ? neap_fail(NEAP_OUT_OF_MEMORY, "out of memory") : NEAP_OK;
  if (status == NEAP_OK) {
    for (int32_t k = 0; k < layers; k++) bytes[k] = 1;
    const double start = clock_seconds();
    status = hong_checkpoints(layers, bytes, bytes, chosen, &count, peak);
    *seconds = clock_seconds() - start;
  }
  if (status == NEAP_OK && peak_of_checkpoints(bytes, chosen, count) != *peak)
    status =
        neap_fail(NEAP_INTERNAL, "the checkpoints of %d layers do not have the peak that is told", layers);
  free(bytes);
  free(chosen);
  return status;
}

neap_status print_hong(struct report *report) {
  static const struct {
    int32_t layers;
    uint64_t published, chen;
  } rows[] = {{100, 16, 20}, {1000, 47, 63}, {10000, 143, 200}};
  printf(
      "  Least peak of a chain of unit layers, checkpoints freed with their segments (revised objective);\n"
      "  of a million layers within half a second.\n\n  %8s %12s %12s %12s %10s\n",
      "layers", "Chen", "published", "ours", "seconds");
  uint64_t peak;
  double seconds;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    TRY(run_hong(rows[i].layers, &peak, &seconds));
    printf("  %8d %12llu %12llu %12llu %10.4f   %s\n", rows[i].layers, (unsigned long long)rows[i].chen,
           (unsigned long long)rows[i].published, (unsigned long long)peak, seconds,
           verdict(report, peak == rows[i].published));
  }
  TRY(run_hong(1000000, &peak, &seconds));
  print_row(report, "  %8d %12d %12s %12llu %10.4f   %s\n", 1000000, 2000, "-", (unsigned long long)peak,
            seconds, verdict(report, seconds <= 0.5));
  return NEAP_OK;
}
