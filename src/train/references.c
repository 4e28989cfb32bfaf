#include "train/references.h"

#include <stdlib.h>
#include <string.h>

#include "formats/safetensors.h"
#include "train/training_ranks.h"

static const char file_name[] = "reference.safetensors";
static const char *const parts[SPLITS] = {"train", "test"};

/* Computes the log-probabilities of a part of the data; `batch` has room for those of a micro-batch. */
static neap_status compute(struct training *t, enum split split, float *batch) {
  float *reference = t->data.source.reference[split];
  TRY(neap_session_select(t->session, training_graph(t, 0)));
  for (int64_t first = 0, count;; first += count) {
    neap_step_result unused;
    TRY(loader_fill_at(&t->data, split, 0, first, &count));
    if (count == 0) return NEAP_OK;
    TRY(neap_session_evaluate(t->session, &unused));
    TRY(neap_session_output(t->session, "log_probability", NULL, batch));
    memcpy(reference + 2 * first, batch, (size_t)(2 * count) * sizeof *batch);
  }
}

static neap_status compute_all(struct training *t) {
  float *batch = malloc((size_t)(2 * t->micro) * sizeof *batch);
  RETURN_IF(batch == NULL, NEAP_OUT_OF_MEMORY, "out of memory for log-probabilities");
  neap_status status = NEAP_OK;
  for (int s = 0; s < SPLITS && status == NEAP_OK; s++) status = compute(t, (enum split)s, batch);
  free(batch);
  return status;
}

static neap_status read_part(struct training *t, const struct safetensors *file, enum split split) {
  const int32_t index = safetensors_find(file, parts[split]);
  const int64_t elements = 2 * t->data.source.records[split];
  RETURN_IF(index < 0 || file->tensors[index].elements != elements, NEAP_BAD_FORMAT,
            "%s: '%s' must have log-probabilities of %lld pairs, which the data have; give the data that the "
            "run began with",
            file->path, parts[split], (long long)(elements / 2));
  TRY(safetensors_need_real(file, index));
  return safetensors_read(file, index, t->data.source.reference[split]);
}

static neap_status read_all(struct training *t, const char *folder) {
  struct safetensors file;
  const char *path = region_format(&t->region, "%s/%s", folder, file_name);
  RETURN_IF_NULL(path);
  neap_status status = safetensors_open(path, &file);
  for (int s = 0; s < SPLITS && status == NEAP_OK; s++) status = read_part(t, &file, (enum split)s);
  safetensors_close(&file);
  return status;
}

neap_status references_take(struct training *t) {
  struct source *source = &t->data.source;
  const char *folder = t->options->resume;
  float *made[SPLITS];
  if (!source->preferences) return NEAP_OK;
  RETURN_IF(training_ranks(t) > 1, NEAP_UNSUPPORTED,
            "data '%s': preferences are learned from in one process; start one", source->name);
  for (int s = 0; s < SPLITS; s++) {
    made[s] = region_alloc(&source->region, (size_t)(2 * source->records[s]) + 1, sizeof *made[s]);
    RETURN_IF(made[s] == NULL, NEAP_OUT_OF_MEMORY, "out of memory for log-probabilities");
    memset(made[s], 0, (size_t)(2 * source->records[s]) * sizeof *made[s]);
    source->reference[s] = made[s];
  }
  return folder != NULL ? read_all(t, folder) : compute_all(t);
}

static neap_status give(void *context, int32_t index, float *data) {
  const struct source *source = context;
  memcpy(data, source->reference[index], (size_t)(2 * source->records[index]) * sizeof *data);
  return NEAP_OK;
}

neap_status references_keep(const struct training *t) {
  const struct source *source = &t->data.source;
  struct safetensors_tensor tensors[SPLITS];
  struct region region = {0};
  if (!source->preferences) return NEAP_OK;
  for (int s = 0; s < SPLITS; s++)
    tensors[s] = (struct safetensors_tensor){.name = parts[s],
                                             .dtype = "F32",
                                             .rank = 2,
                                             .dims = {source->records[s], 2},
                                             .elements = 2 * source->records[s]};
  const char *path = region_format(&region, "%s/%s", t->options->out, file_name);
  const neap_status status =
      path == NULL ? neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", t->options->out)
                   : safetensors_save(path, &(struct safetensors_content){.tensors = tensors,
                                                                          .tensor_count = SPLITS,
                                                                          .read = give,
                                                                          .context = (void *)source});
  region_free(&region);
  return status;
}
