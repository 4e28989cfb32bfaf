#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

int report_failure(neap_status status) {
  fprintf(stderr, "neap: %s (%s)\n", neap_error_message(), neap_status_text(status));
  switch (status) {
  case NEAP_OVER_BUDGET:
    return EXIT_OVER_BUDGET;
  case NEAP_INVALID_PLAN:
    return EXIT_INVALID;
  case NEAP_INTERRUPTED:
    return EXIT_INTERRUPTED;
  default:
    return EXIT_FAILED;
  }
}

static char *next_buffer(void) {
  static char ring[16][32];
  static unsigned next;
  return ring[next++ % 16];
}

const char *bytes_text(uint64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double size = (double)bytes;
  int unit = 0;
  for (; size >= 1024 && unit < 4; unit++) size /= 1024;
  char *text = next_buffer();
  snprintf(text, 32, unit == 0 ? "%.0f %s" : size < 100 ? "%.2f %s" : "%.1f %s", size, units[unit]);
  return text;
}

const char *duration_text(double seconds) {
  char *text = next_buffer();
  const long whole = lround(seconds);
  if (seconds < 1)
    snprintf(text, 32, "%.0f ms", 1000 * seconds);
  else if (seconds < 100)
    snprintf(text, 32, "%.1f s", seconds);
  else if (whole < 3600)
    snprintf(text, 32, "%ld min %02ld s", whole / 60, whole % 60);
  else
    snprintf(text, 32, "%ld h %02ld min", whole / 3600, whole / 60 % 60);
  return text;
}

int print_json(json_t *object) {
  const bool good = object != NULL && json_dumpf(object, stdout, JSON_REAL_PRECISION(17)) == 0 &&
                    putchar('\n') != EOF && fflush(stdout) == 0;
  json_decref(object);
  if (good) return EXIT_DONE;
  fputs("neap: the JSON result could not be written\n", stderr);
  return EXIT_FAILED;
}

json_t *plan_json(const neap_step *step, const neap_plan *plan, const char *planner, uint64_t budget,
                  uint64_t smallest, int64_t largest_batch) {
  neap_step_info info;
  neap_step_describe(step, &info);
  if (plan == NULL)
    return json_pack("{s:s, s:s, s:I, s:b, s:I, s:f, s:I, s:I}", "graph", info.name, "planner", planner,
                     "budget_bytes", (json_int_t)budget, "feasible", 0, "resident_bytes",
                     (json_int_t)info.resident_bytes, "base_cost", info.base_cost, "smallest_budget_bytes",
                     (json_int_t)smallest, "largest_batch", (json_int_t)largest_batch);
  neap_plan_info p;
  neap_plan_describe(plan, &p);
  return json_pack(
      "{s:s, s:s, s:I, s:b, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:b}", "graph", info.name, "planner",
      p.planner, "budget_bytes",
      (json_int_t)(budget == NEAP_BUDGET_MAX || budget == NEAP_BUDGET_MIN ? p.peak_bytes : budget),
      "feasible", 1, "peak_bytes", (json_int_t)p.peak_bytes, "resident_bytes", (json_int_t)p.resident_bytes,
      "arena_bytes", (json_int_t)p.arena_bytes, "cost", p.cost, "base_cost", p.base_cost, "overhead",
      p.base_cost > 0 ? p.cost / p.base_cost - 1 : 0, "seconds", p.seconds, "recomputed",
      (json_int_t)p.recomputed, "lower_bound_bytes", (json_int_t)p.lower_bound_bytes, "proven_optimal",
      (int)p.proven_optimal);
}
