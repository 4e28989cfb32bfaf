/* Plan files, beside the graph file of their step. What can be read is the same after it was written and read
 * again; whether it is valid for the step is told without harm, and then it passes a plain comparison of its
 * instances, too. What cannot gives a message that names the file, and no plan. Taken is a plan that is
 * valid. */
#include "support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const parts[] = {"graph.json", "plan.json"};
  const char *folder = fuzz_folder("plan"), *path = fuzz_path("plan/plan.json");
  neap_step *step = NULL;
  neap_plan *plan = NULL;
  fuzz_unpack(data, size, folder, parts, 2);
  fuzz_taken = false;
  const neap_status status = neap_plan_read(path, &plan);
  if (status != NEAP_OK) {
    CHECK(status == (fuzz_exists(path) ? NEAP_BAD_FORMAT : NEAP_IO_FAILED) && plan == NULL);
    fuzz_check_refused(status, path);
    return 0;
  }
  fuzz_check_plan_file(plan);
  if (neap_step_read(fuzz_path("plan/graph.json"), &step) == NEAP_OK)
    fuzz_taken = fuzz_check_plan(step, plan);
  neap_plan_free(plan);
  neap_step_free(step);
  return 0;
}
