/* Graph files. What can be read is the same after it was written and read again, and its plans are valid.
 * What cannot gives a message that names the file, and no step. */
#include "support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_path("graph.json");
  neap_step *step = NULL;
  fuzz_write(path, data, size);
  const neap_status status = neap_step_read(path, &step);
  fuzz_taken = status == NEAP_OK;
  if (!fuzz_taken) {
    CHECK(status == NEAP_BAD_FORMAT && step == NULL);
    fuzz_check_refused(status, path);
    return 0;
  }
  fuzz_check_step(step);
  fuzz_check_planning(step);
  neap_step_free(step);
  return 0;
}
