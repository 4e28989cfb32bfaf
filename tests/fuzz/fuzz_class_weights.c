/* Files of the weights of classes. One that is taken gives each of three classes a finite weight of 0 or
 * more, not all 0, and is the same file with a line at its end that does not matter. Whatever is refused
 * names the file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "support.h"
#include "train/class_weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const names[] = {"cat", "dog, big", "cow"};
  const char *path = fuzz_path("weights.csv"), *longer = fuzz_path("longer.csv");
  float weights[3], again[3];
  char *more = malloc(size + 16);
  CHECK(more != NULL);
  memcpy(more, data, size);
  memcpy(more + size, "\n# the end\n\n", 12);
  fuzz_write(path, data, size);
  fuzz_write(longer, more, size + 12);
  free(more);
  const neap_status status = class_weights_read(path, names, 3, weights);
  fuzz_taken = status == NEAP_OK;
  if (status != NEAP_OK) {
    fuzz_check_refused(status, "weights.csv");
    return 0;
  }
  float sum = 0;
  for (int i = 0; i < 3; i++) {
    CHECK(isfinite(weights[i]) && weights[i] >= 0);
    sum += weights[i];
  }
  CHECK(sum > 0);
  CHECK_OK(class_weights_read(longer, names, 3, again));
  CHECK(memcmp(weights, again, sizeof weights) == 0);
  return 0;
}
