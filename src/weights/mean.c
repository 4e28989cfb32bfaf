/* The mean of several files of weights. */
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors.h"
#include "weights/variables.h"

struct mean {
  neap_session *session;
  struct safetensors *files;
  int32_t count, open; /* open: of the files, that are to be closed */
  double *sums;        /* room for the largest variable */
  float *whole;        /* the same, where those of the session are written in parts; else NULL */
};

/* Adds a variable; neap_session_load has checked that the first file has the session's variables. */
static neap_status add_variable(const struct mean *m, const struct safetensors *file,
                                const neap_variable *variable, float *values) {
  const int32_t index = safetensors_find(file, variable->name);
  RETURN_IF(index < 0, NEAP_BAD_FORMAT, "%s: has no tensor '%s', as %s has", file->path, variable->name,
            m->files[0].path);
  const struct safetensors_tensor *tensor = &file->tensors[index];
  bool same = tensor->rank == variable->rank;
  for (int d = 0; same && d < variable->rank; d++) same = tensor->dims[d] == variable->dims[d];
  RETURN_IF(!same, NEAP_BAD_FORMAT, "%s: tensor '%s' does not have the same shape as in %s", file->path,
            variable->name, m->files[0].path);
  TRY(safetensors_need_real(file, index));
  TRY(safetensors_read(file, index, values));
  for (int64_t i = 0; i < variable->elements; i++) m->sums[i] += (double)values[i];
  return NEAP_OK;
}

static neap_status average(const struct mean *m, int32_t index, const neap_variable *variable,
                           float *values) {
  memset(m->sums, 0, (size_t)variable->elements * sizeof *m->sums);
  for (int32_t f = 0; f < m->count; f++) TRY(add_variable(m, &m->files[f], variable, values));
  bool same = true; /* as in the last file, whose values these are */
  for (int64_t i = 0; i < variable->elements; i++) {
    same &= m->sums[i] == m->count * (double)values[i];
    values[i] = (float)(m->sums[i] / m->count);
  }
  if (same && dtype_is_quantised(variable->dtype)) return NEAP_OK; /* the blocks of the first file stay */
  return neap_session_write(m->session, index, values);
}

static neap_status average_all(struct mean *m, float *values) {
  const int32_t variables = neap_session_variable_count(m->session);
  neap_variable variable;
  int64_t most = 1;
  for (int32_t i = 0; i < variables; i++) {
    TRY(neap_session_variable(m->session, i, &variable));
    most = variable.elements > most ? variable.elements : most;
  }
  m->sums = malloc((size_t)most * sizeof *m->sums);
  RETURN_IF_NULL(m->sums);
  if (m->session->spill_file != NULL) {
    values = m->whole = malloc((size_t)most * sizeof *values);
    RETURN_IF_NULL(values);
  }
  for (int32_t i = 0; i < variables; i++) {
    TRY(neap_session_variable(m->session, i, &variable));
    if (!variable_is_saved(m->session, i) && safetensors_find(&m->files[0], variable.name) < 0) continue;
    if (variable.kind == NEAP_VARIABLE_PARAMETER || variable.kind == NEAP_VARIABLE_RUNNING_STATISTIC)
      TRY(average(m, i, &variable, values));
  }
  return NEAP_OK;
}

static neap_status open_files(struct mean *m, const char *const *paths) {
  m->files = calloc((size_t)m->count, sizeof *m->files);
  RETURN_IF_NULL(m->files);
  while (m->open < m->count) {
    const int32_t f = m->open++;
    TRY(safetensors_open(paths[f], &m->files[f]));
  }
  return NEAP_OK;
}

neap_status neap_session_load_mean(neap_session *s, const char *const *paths, int32_t count) {
  NEED(s);
  NEED(paths);
  RETURN_IF(count < 1, NEAP_INVALID_ARGUMENT, "mean of weights: got %d files; at least one is needed", count);
  for (int32_t i = 0; i < count; i++) NEED(paths[i]);
  RETURN_IF(s->sparse->layer_count > 0, NEAP_UNSUPPORTED,
            "mean of weights: sparse parameters have none, as their values are at other places in each file");
  RETURN_IF(s->average_count > 0, NEAP_UNSUPPORTED,
            "mean of weights: the session already averages its parameters (ema)");
  struct mean m = {.session = s, .count = count};
  float *values, *allocated = NULL;
  neap_status status = neap_session_load(s, paths[0]);
  if (status != NEAP_OK || count == 1) return status;
  TRY_DONE(open_files(&m, paths));
  TRY_DONE(session_scratch(s, &values, &allocated));
  status = average_all(&m, values);
done:
  for (int32_t f = 0; f < m.open; f++) safetensors_close(&m.files[f]);
  free(allocated);
  free(m.whole);
  free(m.sums);
  free(m.files);
  return status;
}
