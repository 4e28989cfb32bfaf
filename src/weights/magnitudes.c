#include "weights/magnitudes.h"

#include <math.h>
#include <string.h>

#include "weights/variables.h"

static const struct tensor *tensor_of(const struct neap_session *s, int32_t index) {
  return &s->main->graph->tensors.data[s->variables[index].tensor];
}

/* Finds the weights of the layer "X" of "X.lora_magnitude_vector"; -1: none. */
static int32_t find_weights(const struct neap_session *s, const char *lengths) {
  const size_t module = (size_t)(strrchr(lengths, '.') - lengths);
  for (int32_t i = 0; i < s->variable_count; i++) {
    const char *name = s->variables[i].name;
    if (strncmp(name, lengths, module) == 0 && strcmp(name + module, ".weight") == 0) return i;
  }
  return -1;
}

/* Replaces a matrix by the norms of its rows, or of its columns. */
static void take_norms(int64_t rows, int64_t columns, bool of_columns, float *w) {
  const int64_t count = of_columns ? columns : rows, length = of_columns ? rows : columns,
                step = of_columns ? columns : 1, stride = of_columns ? 1 : columns;
  for (int64_t i = 0; i < count;
       i++) { /* this overwrites only what was read: element i belongs to line i or one before */
    double sum = 0;
    for (int64_t k = 0; k < length; k++) {
      const double x = (double)w[i * stride + k * step];
      sum += x * x;
    }
    w[i] = (float)sqrt(sum);
  }
}

static neap_status begin(struct neap_session *s, int32_t index, float *data) {
  const struct tensor *lengths = tensor_of(s, index);
  bool given = false;
  TRY(neap_session_read(s, index, data));
  for (int64_t i = 0; i < lengths->elements; i++) given = given || data[i] != 0;
  if (given) return NEAP_OK;
  const int32_t weights = find_weights(s, lengths->name);
  RETURN_IF(weights < 0, NEAP_INTERNAL, "'%s' has no weights whose norms it could have", lengths->name);
  TRY(neap_session_read(s, weights, data));
  const struct tensor *w = tensor_of(s, weights);
  take_norms(w->dims[0], w->dims[1], lengths->norms_of == 2, data);
  return neap_session_write(s, index, data);
}

neap_status magnitudes_begin(struct neap_session *s) {
  if (s->has_magnitudes || !s->options.lora_dora) return NEAP_OK;
  float *data, *allocated;
  TRY(session_scratch(s, &data, &allocated));
  neap_status status = NEAP_OK;
  for (int32_t i = 0; status == NEAP_OK && i < s->variable_count; i++)
    if (s->variables[i].kind == NEAP_VARIABLE_PARAMETER && s->variables[i].layer < 0 &&
        tensor_of(s, i)->norms_of > 0)
      status = begin(s, i, data);
  free(allocated);
  s->has_magnitudes = status == NEAP_OK;
  return status;
}
