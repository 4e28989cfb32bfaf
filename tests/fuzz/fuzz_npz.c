/* Files of numpy.savez. What is taken has records of finite numbers, or bytes, with labels that are classes
 * or finite values; else a message names the file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../data_help.h"
#include "support.h"

/* A record may still be refused: numbers of the part to test with are seen when they are read. */
static void check_records(const struct source *source, const char *path) {
  const int64_t count = field_elements(&source->fields[0]), labels = field_elements(&source->fields[1]);
  const bool bytes = source->fields[0].dtype == NEAP_U8, values = source->fields[1].dtype == NEAP_F32;
  if (count > 1 << 20 || labels > 1 << 20) return;
  float *x = malloc((size_t)count * sizeof *x), *y = malloc((size_t)labels * sizeof *y);
  CHECK(x != NULL && y != NULL);
  for (int s = 0; s < SPLITS; s++)
    for (int64_t i = 0; i < source->records[s] && i < 100; i++) {
      void *fields[FIELD_LIMIT] = {x, y};
      int64_t lengths[FIELD_LIMIT];
      const neap_status status = source->read(source, (enum split)s, i, &(struct draw){0}, fields, lengths);
      if (status != NEAP_OK) {
        fuzz_check_refused(status, path);
        continue;
      }
      for (int64_t k = 0; k < count && !bytes; k++) CHECK(isfinite(x[k]));
      for (int64_t k = 0; k < labels && values; k++) CHECK(isfinite(y[k]));
      const int32_t *label = (const int32_t *)(const void *)y;
      CHECK(values || (*label >= 0 && *label < source->classes));
    }
  free(x);
  free(y);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_path("arrays.npz");
  char text[160];
  struct loader loader;
  fuzz_write(path, data, size);
  snprintf(text, sizeof text, "npz:%s", path);
  const neap_status status = loader_open(&loader, text, &(struct task){.kind = NEAP_TASK_FEATURES});
  fuzz_taken = status == NEAP_OK;
  if (fuzz_taken)
    check_records(&loader.source, path);
  else
    CHECK(status != NEAP_INTERNAL && neap_error_message()[0] != '\0');
  loader_close(&loader);
  return 0;
}
