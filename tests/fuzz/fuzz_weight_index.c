/* Indexes of weights in several files. One that is taken has each of its tensors from a file beside it; a
 * session takes what fits, or refuses it and has not changed. Whatever is refused gives a message. */
#include <string.h>

#include "formats/safetensors.h"
#include "support.h"
#include "weights/weight_files.h"

static neap_status read_ones(void *context, int32_t index, float *data) {
  (void)context;
  for (int i = 0; i < (index == 0 ? 6 : 2); i++) data[i] = 1;
  return NEAP_OK;
}

/* The parameters of fuzz_session. */
static void write_weights(const char *path) {
  const struct safetensors_tensor tensors[] = {
      {.name = "linear1.weight", .rank = 2, .dims = {2, 3}, .elements = 6},
      {.name = "linear1.bias", .rank = 1, .dims = {2}, .elements = 2}};
  CHECK_OK(safetensors_save(
      path, &(struct safetensors_content){.tensors = tensors, .tensor_count = 2, .read = read_ones}));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct weight_files files;
  neap_initialisation report;
  char before[65], after[65];
  write_weights(fuzz_path("a.safetensors"));
  const char *index = fuzz_path("index.json");
  fuzz_write(index, data, size);
  const neap_status status = weight_files_open(index, NULL, &files);
  fuzz_taken = status == NEAP_OK;
  if (status != NEAP_OK) fuzz_check_refused(status, NULL);
  for (int32_t i = 0; status == NEAP_OK && i < files.tensor_count; i++) {
    struct weight_tensor *t = &files.tensors[i];
    CHECK(weight_files_find(&files, t->name) == t);
    CHECK(strcmp(t->file->tensors[t->index].name, t->name) == 0);
  }
  weight_files_close(&files);
  neap_session *session = fuzz_session();
  CHECK_OK(neap_session_digest(session, before));
  const neap_status taken = neap_session_initialise(session, index, NULL, &report);
  CHECK_OK(neap_session_digest(session, after));
  if (taken == NEAP_OK)
    CHECK(status == NEAP_OK && report.taken > 0 && report.taken + report.missing_count == 2);
  else
    CHECK(strcmp(before, after) == 0);
  return 0;
}
