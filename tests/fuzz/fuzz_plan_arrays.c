/* Plans from arrays (neap_plan_create), for one small step. The checker judges them without harm, and what it
 * takes passes a plain comparison of its instances, too. A plan that can be written is the same after it was
 * read again; one that no file can hold gives a message, and no file. Taken is a plan that is valid.
 *
 * The input is a list of numbers: positions and instances; resident, peak and arena bytes; cost and base
 * cost; the schedule; of each instance position, tensor, offset and bytes. */
#include "numbers.h"

enum { LIMIT = 64 };

/* Three values in a row, each of which may take over the bytes of the one before it. */
static neap_step *make_step(void) {
  static const uint64_t bytes[] = {64, 64, 32, 100}, workspaces[] = {0, 16, 0};
  static const int32_t reads[] = {3, 0, 1}, made[] = {0, 1, 2}, kept[] = {2};
  static const neap_inplace pairs[] = {{.node = 1}, {.node = 2}};
  const neap_step_arrays arrays = {.name = "three",
                                   .tensor_count = 4,
                                   .node_count = 3,
                                   .step_output_count = 1,
                                   .tensor_bytes = bytes,
                                   .node_workspaces = workspaces,
                                   .inputs = {.ids = reads},
                                   .outputs = {.ids = made},
                                   .step_outputs = kept,
                                   .inplace_count = 2,
                                   .inplace = pairs};
  neap_step *step = NULL;
  CHECK_OK(neap_step_create(&arrays, &step));
  return step;
}

/* Whether docs/formats.md has a place for all that the plan says. */
static bool fits_a_file(const neap_plan_arrays *a) {
  bool fits =
      a->resident_bytes <= INT64_MAX && a->live_peak_bytes <= INT64_MAX && a->arena_bytes <= INT64_MAX;
  fits = fits && a->cost - a->cost == 0 && a->base_cost - a->base_cost == 0;
  for (int64_t i = 0; i < a->length; i++) fits = fits && a->schedule[i] >= 0;
  for (int64_t i = 0; i < a->instance_count; i++) {
    const neap_placement *p = &a->instances[i];
    fits = fits && p->at >= 0 && p->tensor >= -1 && p->offset <= INT64_MAX && p->bytes <= INT64_MAX;
  }
  return fits;
}

static int64_t next_count(struct numbers *numbers) {
  const int64_t count = next_integer(numbers);
  return count > LIMIT && count <= INT32_MAX ? LIMIT : count;
}

static void read_arrays(struct numbers *numbers, int32_t *schedule, neap_placement *instances,
                        neap_plan_arrays *a) {
  *a = (neap_plan_arrays){
      .graph = "three", .planner = "by hand", .schedule = schedule, .instances = instances};
  a->length = next_count(numbers);
  a->instance_count = next_count(numbers);
  a->resident_bytes = next_size(numbers);
  a->live_peak_bytes = next_size(numbers);
  a->arena_bytes = next_size(numbers);
  a->cost = next_real(numbers);
  a->base_cost = next_real(numbers);
  for (int64_t i = 0; i < a->length && i < LIMIT; i++) schedule[i] = next_id(numbers);
  for (int64_t i = 0; i < a->instance_count && i < LIMIT; i++) {
    instances[i].at = next_id(numbers);
    instances[i].tensor = next_id(numbers);
    instances[i].offset = next_size(numbers);
    instances[i].bytes = next_size(numbers);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  int32_t schedule[LIMIT];
  neap_placement instances[LIMIT];
  struct numbers numbers = numbers_begin(data, size);
  neap_plan_arrays arrays;
  neap_plan *plan = NULL;
  read_arrays(&numbers, schedule, instances, &arrays);
  free(numbers.text);
  const neap_status status = neap_plan_create(&arrays, &plan);
  fuzz_taken = false;
  if (status != NEAP_OK) {
    CHECK((status == NEAP_INVALID_ARGUMENT || status == NEAP_TOO_LARGE) && plan == NULL);
    fuzz_check_refused(status, NULL);
    return 0;
  }
  neap_step *step = make_step();
  fuzz_taken = fuzz_check_plan(step, plan);
  neap_step_free(step);
  if (fits_a_file(&arrays)) {
    fuzz_check_plan_file(plan);
  } else {
    const char *path = fuzz_path("refused.json");
    CHECK(!fuzz_taken);
    const neap_status written = neap_plan_write(plan, path);
    CHECK(written == NEAP_INVALID_PLAN);
    fuzz_check_refused(written, path);
    CHECK(!fuzz_exists(path));
  }
  neap_plan_free(plan);
  return 0;
}
