/* The variables of a session as a file and as a digest. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/safetensors.h"
#include "base/sha256.h"
#include "rewrite/rewrite.h"
#include "run/sparse.h"
#include "run/variables.h"

neap_status neap_session_digest(neap_session *s, char digest[65]) {
  float *buffer, *allocated;
  struct sha256 hash;
  neap_status status = NEAP_OK;
  TRY(session_scratch(s, &buffer, &allocated));
  sha256_start(&hash);
  for (int32_t i = 0; status == NEAP_OK && i < s->variable_count; i++) {
    status = neap_session_read(s, i, buffer);
    const int64_t elements = s->main->graph->tensors.data[s->variables[i].tensor].elements;
    if (status == NEAP_OK) sha256_feed(&hash, buffer, (size_t)elements * sizeof *buffer);
  }
  if (status == NEAP_OK) sha256_finish(&hash, digest);
  free(allocated);
  return status;
}

/* ---- Writing ---- */

static neap_status read_variable(void *context, int32_t index, float *data) {
  const neap_session *const *session = context;
  return neap_session_read(*session, index, data);
}

neap_status neap_session_save(neap_session *s, const char *path) {
  neap_status status;
  float *buffer, *allocated;
  char steps[24], threshold[40], scale[40], good[24];
  struct safetensors_tensor *tensors = calloc((size_t)s->variable_count + 1, sizeof *tensors);
  RETURN_IF_NULL(tensors);
  for (int32_t i = 0; i < s->variable_count; i++) {
    neap_variable variable;
    neap_session_variable(s, i, &variable); /* the index is valid */
    tensors[i] = (struct safetensors_tensor){.name = variable.name,
                                             .dtype = dtype_rows[variable.dtype].safetensors,
                                             .rank = variable.rank,
                                             .elements = variable.elements};
    memcpy(tensors[i].dims, variable.dims, sizeof tensors[i].dims);
  }
  snprintf(steps, sizeof steps, "%" PRIu64, s->steps);
  snprintf(threshold, sizeof threshold, "%a", s->sparse.threshold);
  snprintf(scale, sizeof scale, "%a", (double)s->loss_scale);
  snprintf(good, sizeof good, "%" PRIu64, s->good_steps);
  struct safetensors_text metadata[5] = {{"format", "neap"}, {"steps", steps}};
  int32_t texts = 2;
  if (s->sparse.layer_count > 0) metadata[texts++] = (struct safetensors_text){"sparse_threshold", threshold};
  if (s->options.dynamic_loss_scale) {
    metadata[texts++] = (struct safetensors_text){"loss_scale", scale};
    metadata[texts++] = (struct safetensors_text){"good_steps", good};
  }
  TRY_DONE(session_scratch(s, &buffer, &allocated));
  status = safetensors_save(path, &(struct safetensors_content){.tensors = tensors,
                                                                .tensor_count = s->variable_count,
                                                                .metadata = metadata,
                                                                .metadata_count = texts,
                                                                .read = read_variable,
                                                                .context = &s,
                                                                .buffer = buffer});
  free(allocated);
done:
  free(tensors);
  return status;
}

/* ---- Reading ---- */

/* Whether the file has what it must have, and all of it as the session needs it. */
static neap_status check_file(const neap_session *s, const struct safetensors *file) {
  for (int32_t i = 0; i < s->variable_count; i++) {
    neap_variable variable;
    TRY(neap_session_variable(s, i, &variable));
    const int32_t index = safetensors_find(file, variable.name);
    const bool needed =
        variable.kind == NEAP_VARIABLE_PARAMETER ||
        (variable.kind == NEAP_VARIABLE_RUNNING_STATISTIC && s->programs[PROGRAM_STEP].lowered == NULL);
    RETURN_IF(index < 0 && needed, NEAP_BAD_FORMAT,
              "%s: has no tensor '%s', a parameter or statistic of this model", file->path, variable.name);
    if (index < 0) continue;
    const struct safetensors_tensor *tensor = &file->tensors[index];
    if (variable.kind != NEAP_VARIABLE_POSITIONS) TRY(safetensors_need_real(file, index));
    bool same = tensor->rank == variable.rank;
    for (int d = 0; same && d < variable.rank; d++) same = tensor->dims[d] == variable.dims[d];
    RETURN_IF(!same, NEAP_BAD_FORMAT,
              "%s: tensor '%s': its shape is not that of this model's parameter or state", file->path,
              tensor->name);
  }
  return NEAP_OK;
}

/* What goes with the states; a file of another program has none of it. */
struct counters {
  uint64_t steps, good_steps;
  double threshold, loss_scale;
};

static neap_status read_count(const struct safetensors *file, const char *key, uint64_t *count) {
  const char *text = safetensors_metadata(file, key);
  if (text == NULL) return NEAP_OK;
  errno = 0;
  const long long number = strtoll(text, NULL, 10);
  RETURN_IF(text[0] == '\0' || text[strspn(text, "0123456789")] != '\0' || errno != 0, NEAP_BAD_FORMAT,
            "%s: __metadata__ '%s' is '%s', no number from 0 to 2^63 - 1", file->path, key, text);
  *count = (uint64_t)number;
  return NEAP_OK;
}

static neap_status read_positive(const struct safetensors *file, const char *key, double *number) {
  const char *text = safetensors_metadata(file, key);
  if (text == NULL) return NEAP_OK;
  char *end;
  const double value = strtod(text, &end);
  RETURN_IF(end == text || *end != '\0' || !(value > 0 && value < 1e30), NEAP_BAD_FORMAT,
            "%s: __metadata__ '%s' is '%s', no number above 0", file->path, key, text);
  *number = value;
  return NEAP_OK;
}

static neap_status read_counters(const struct safetensors *file, struct counters *c) {
  TRY(read_count(file, "steps", &c->steps));
  TRY(read_count(file, "good_steps", &c->good_steps));
  TRY(read_positive(file, "sparse_threshold", &c->threshold));
  return read_positive(file, "loss_scale", &c->loss_scale);
}

/* Positions come before values. Where the file has none, a parameter keeps its largest values. */
static neap_status load_positions(neap_session *s, const struct safetensors *file, float *buffer) {
  sparse_clear(s);
  for (int32_t i = 0; i < s->variable_count; i++) {
    const struct session_variable *v = &s->variables[i];
    if (v->kind != NEAP_VARIABLE_POSITIONS) continue;
    const struct sparse_layer *layer = &s->sparse.layers[v->layer];
    int32_t index = safetensors_find(file, v->name);
    const bool given = index >= 0;
    if (!given) index = safetensors_find(file, layer->name);
    TRY(safetensors_read(file, index, buffer));
    if (!given)
      sparse_largest(layer->elements, sparse_count(layer->elements, s->options.sparse_density), buffer);
    TRY(sparse_write_positions(s, v->layer, buffer));
  }
  return NEAP_OK;
}

static neap_status load_variables(neap_session *s, const struct safetensors *file, float *buffer) {
  TRY(load_positions(s, file, buffer));
  for (int32_t i = 0; i < s->variable_count; i++) {
    neap_variable variable;
    TRY(neap_session_variable(s, i, &variable));
    if (variable.kind == NEAP_VARIABLE_POSITIONS) continue;
    const int32_t index = safetensors_find(file, variable.name);
    if (index < 0) continue;
    TRY(safetensors_read(file, index, buffer));
    TRY(neap_session_write(s, i, buffer));
  }
  return NEAP_OK;
}

neap_status neap_session_load(neap_session *s, const char *path) {
  struct safetensors file;
  float *buffer, *allocated;
  struct counters counters = {s->steps, s->good_steps, s->sparse.threshold, (double)s->loss_scale};
  neap_status status;
  TRY_DONE(safetensors_open(path, &file));
  TRY_DONE(check_file(s, &file));
  TRY_DONE(read_counters(&file, &counters));
  TRY_DONE(session_scratch(s, &buffer, &allocated));
  status = load_variables(s, &file, buffer);
  if (status == NEAP_OK) {
    s->steps = counters.steps;
    s->sparse.threshold = counters.threshold;
    if (s->options.dynamic_loss_scale) {
      s->good_steps = counters.good_steps;
      s->loss_scale = (float)counters.loss_scale;
    }
  }
  free(allocated);
done:
  safetensors_close(&file);
  return status;
}
