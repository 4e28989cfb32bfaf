#include "run/averages.h"

#include <stdio.h>
#include <string.h>

#include "grad/gradient.h"

/* Elements of memory, those that pad a layout included, are all of one type. */
struct average {
  int32_t variable, parameter; /* indices of variables */
  unsigned char *from, *to;    /* of the parameter; of the average */
  int64_t count;
  bool wide; /* f64, of the reference backend */
};

static int32_t find_parameter(const struct neap_session *s, const struct tensor *average) {
  for (int32_t i = 0; i < s->variable_count; i++)
    if (s->variables[i].kind == NEAP_VARIABLE_PARAMETER &&
        strcmp(s->variables[i].name, average->state_of) == 0)
      return i;
  return -1;
}

static bool is_average(const struct tensor *t) {
  const size_t length = strlen(t->name), end = sizeof AVERAGE_SUFFIX - 1;
  return t->state_of != NULL && length > end && t->name[length - end - 1] == '.' &&
         strcmp(t->name + length - end, AVERAGE_SUFFIX) == 0;
}

neap_status averages_find(struct neap_session *s) {
  const struct tensor *tensors = s->main->graph->tensors.data;
  if (s->options.ema == 0) return NEAP_OK;
  s->averages = region_alloc(&s->region, (size_t)s->variable_count, sizeof *s->averages);
  RETURN_IF_NULL(s->averages);
  for (int32_t i = 0; i < s->variable_count; i++) {
    const struct tensor *tensor = &tensors[s->variables[i].tensor];
    const int32_t parameter = is_average(tensor) ? find_parameter(s, tensor) : -1;
    if (parameter < 0) continue;
    const int32_t from = s->variables[parameter].tensor, to = s->variables[i].tensor;
    const bool wide = tensor->dtype == NEAP_F64;
    RETURN_IF(tensor_bytes(s->main, from) != tensor_bytes(s->main, to) ||
                  tensors[from].dtype != tensor->dtype,
              NEAP_INTERNAL, "'%s' does not lie as its parameter does", tensor->name);
    s->averages[s->average_count++] = (struct average){
        .variable = i,
        .parameter = parameter,
        .from = s->memory + s->resident[s->main->step_tensor[from]],
        .to = s->memory + s->resident[s->main->step_tensor[to]],
        .count = (int64_t)(tensor_bytes(s->main, to) / (wide ? sizeof(double) : sizeof(float))),
        .wide = wide};
  }
  return NEAP_OK;
}

int32_t averages_parameter(const struct neap_session *s, int32_t index) {
  for (int32_t i = 0; i < s->average_count; i++)
    if (s->averages[i].variable == index) return s->averages[i].parameter;
  return -1;
}

int32_t averages_tensor(const struct safetensors *file, const char *name) {
  char average[512];
  const int length = snprintf(average, sizeof average, "%s." AVERAGE_SUFFIX, name);
  const int32_t index = length < (int)sizeof average ? safetensors_find(file, average) : -1;
  return index >= 0 ? index : safetensors_find(file, name);
}

void averages_begin(struct neap_session *s, int32_t index) {
  for (int32_t i = 0; i < s->average_count; i++) {
    const struct average *a = &s->averages[i];
    if (index < 0 || a->variable == index || a->parameter == index)
      memcpy(a->to, a->from, (size_t)a->count * (a->wide ? sizeof(double) : sizeof(float)));
  }
}

void averages_move(struct neap_session *s) {
  const float kept = s->options.ema, taken = 1 - kept;
  for (int32_t i = 0; i < s->average_count; i++) {
    const struct average *a = &s->averages[i];
    if (a->wide) {
      double *to = (void *)a->to;
      const double *from = (const void *)a->from;
      for (int64_t k = 0; k < a->count; k++) to[k] = (double)kept * to[k] + (1 - (double)kept) * from[k];
      continue;
    }
    float *to = (void *)a->to;
    const float *from = (const void *)a->from;
#pragma omp simd
    for (int64_t k = 0; k < a->count; k++) to[k] = kept * to[k] + taken * from[k];
  }
}

void averages_swap(struct neap_session *s) {
  for (int32_t i = 0; i < s->average_count; i++) {
    const struct average *a = &s->averages[i];
    uint32_t *x = (void *)a->from, *y = (void *)a->to;
    const int64_t words = a->count * (a->wide ? 2 : 1);
    for (int64_t k = 0; k < words; k++) {
      const uint32_t kept = x[k];
      x[k] = y[k];
      y[k] = kept;
    }
  }
}
