/* neap check */
#include <jansson.h>
#include <stdio.h>

#include "shared/failure.h"
#include "shared/format.h"
#include "shared/source.h"
#include "verbs/verbs.h"

/* `peak`: with the gaps in the arena, as everywhere else. */
static json_t *check_json(const neap_check_result *check, uint64_t peak) {
  return json_pack("{s:b, s:I, s:o, s:I, s:I, s:o, s:o}", "valid", check->valid, "peak_bytes",
                   (json_int_t)peak, "cost", number_json(check->cost), "stored_bytes",
                   (json_int_t)check->stored_bytes, "restored_bytes", (json_int_t)check->restored_bytes,
                   "reason", check->valid ? json_null() : json_string(check->reason), "position",
                   check->position < 0 ? json_null() : json_integer(check->position));
}

static void print_check(const neap_check_result *check, uint64_t peak) {
  if (check->valid)
    printf("valid: peak %s (%llu bytes), cost %g\n", bytes_text(peak).text, (unsigned long long)peak,
           check->cost);
  else if (check->position >= 0)
    printf("not valid, at position %lld of the schedule: %s\n", (long long)check->position, check->reason);
  else
    printf("not valid: %s\n", check->reason);
  if (check->valid) print_transfers(check);
}

int run_check(const struct verb *verb, int count, char **arguments) {
  struct arguments a;
  if (!read_arguments(verb, count, arguments, NULL, &a)) return EXIT_USAGE;
  const struct operands operands = a.operands;
  if (operands.count < 2) return report_usage(verb, "a step file and a plan file are needed");
  neap_step *step = NULL;
  neap_plan *plan = NULL;
  neap_check_result check = {.position = -1};
  neap_status status = neap_step_read(operands.values[0], &step);
  if (status == NEAP_OK) status = neap_plan_read(operands.values[1], &plan);
  if (status == NEAP_OK) status = neap_plan_check(step, plan, &check);
  int result;
  if (status == NEAP_OK || (status == NEAP_INVALID_PLAN && plan != NULL)) {
    result = check.valid ? EXIT_DONE : EXIT_INVALID;
    const uint64_t peak = check.valid ? plan_bytes(plan) : check.live_peak_bytes;
    if (a.json && print_json(check_json(&check, peak)) != EXIT_DONE) result = EXIT_FAILED;
    if (!a.json) print_check(&check, peak);
  } else {
    result = report_failure(verb, status);
  }
  neap_plan_free(plan);
  neap_step_free(step);
  return result;
}
