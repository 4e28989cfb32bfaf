#include "weights/averages.h"

#include <stdio.h>
#include <string.h>

#include "grad/gradient.h"
#include "session/session_memory.h"

/* An average and its parameter. Elements in memory, padding of a layout included, all have one type. */
struct average {
  int32_t variable, parameter; /* indices of variables */
  uint64_t from, to;           /* places of the parameter; of the average */
  uint64_t bytes;
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
    RETURN_IF(tensor_bytes(s->main, from) != tensor_bytes(s->main, to) ||
                  tensors[from].dtype != tensor->dtype,
              NEAP_INTERNAL, "'%s' does not have its parameter's memory layout", tensor->name);
    s->averages[s->average_count++] = (struct average){.variable = i,
                                                       .parameter = parameter,
                                                       .from = session_place(s, from),
                                                       .to = session_place(s, to),
                                                       .bytes = tensor_bytes(s->main, to),
                                                       .wide = tensor->dtype == NEAP_F64};
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

neap_status averages_begin(struct neap_session *s, int32_t index) {
  for (int32_t i = 0; i < s->average_count; i++) {
    const struct average *a = &s->averages[i];
    struct device_loan from;
    if (index >= 0 && a->variable != index && a->parameter != index) continue;
    TRY(device_lend(&s->memory, a->from, a->bytes, &from));
    const neap_status status = device_write(&s->memory, a->to, from.data, a->bytes);
    TRY(device_give_back(&s->memory, &from, false));
    TRY(status);
  }
  return NEAP_OK;
}

/* Changes a parameter and its average. */
typedef void change_pair(const struct neap_session *s, const struct average *a, void *from, void *to);

static neap_status change_average(struct neap_session *s, const struct average *a, change_pair *change,
                                  bool both) {
  struct device_loan from, to;
  TRY(device_lend(&s->memory, a->from, a->bytes, &from));
  const neap_status status = device_lend(&s->memory, a->to, a->bytes, &to);
  if (status == NEAP_OK) change(s, a, from.data, to.data);
  const neap_status back = device_give_back(&s->memory, &from, both && status == NEAP_OK),
                    back_too = device_give_back(&s->memory, &to, status == NEAP_OK);
  return status != NEAP_OK ? status : back != NEAP_OK ? back : back_too;
}

static void move(const struct neap_session *s, const struct average *a, void *from, void *to) {
  const float kept = s->options.ema, taken = 1 - kept;
  if (a->wide) {
    double *y = to;
    const double *x = from;
    for (uint64_t k = 0; k < a->bytes / sizeof *y; k++)
      y[k] = (double)kept * y[k] + (1 - (double)kept) * x[k];
    return;
  }
  float *y = to;
  const float *x = from;
  const int64_t count = (int64_t)(a->bytes / sizeof *y);
#pragma omp simd
  for (int64_t k = 0; k < count; k++) y[k] = kept * y[k] + taken * x[k];
}

neap_status averages_move(struct neap_session *s) {
  for (int32_t i = 0; i < s->average_count; i++) TRY(change_average(s, &s->averages[i], move, false));
  return NEAP_OK;
}

static void swap(const struct neap_session *s, const struct average *a, void *from, void *to) {
  uint32_t *x = from, *y = to;
  (void)s;
  for (uint64_t k = 0; k < a->bytes / sizeof *x; k++) {
    const uint32_t kept = x[k];
    x[k] = y[k];
    y[k] = kept;
  }
}

neap_status averages_swap(struct neap_session *s) {
  neap_status status = NEAP_OK;
  for (int32_t i = 0; status == NEAP_OK && i < s->average_count; i++)
    status = change_average(s, &s->averages[i], swap, true);
  s->torn = s->torn || status != NEAP_OK;
  return status;
}
