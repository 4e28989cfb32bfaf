#include "language/language_exporting.h"

#include <stdlib.h>
#include <string.h>

neap_status language_exporting_open(struct language_exporting *x, bool folder) {
  struct language_model *m = &x->model;
  x->whole_of = -1;
  TRY(language_file_with(x->from->base, x->from->options, m));
  TRY(language_file_check(m));
  x->forms = region_alloc(&m->region, (size_t)m->origin_count, sizeof *x->forms);
  RETURN_IF(x->forms == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for names", m->path);
  for (int32_t i = 0; i < m->origin_count; i++)
    TRY(language_file_form(m, &m->origins[i], folder, &x->forms[i]));
  return NEAP_OK;
}

neap_status language_exporting_read(void *context, int32_t index, float *data) {
  struct language_exporting *x = context;
  const struct origin *o = &x->model.origins[index];
  TRY(language_file_read(&x->model, o, data));
  TRY(x->from->change(x->from->context, o->name, o->rank, o->dims, data));
  return language_file_store(&x->model, o, &x->forms[index], data);
}

neap_status language_exporting_read_expert(struct language_exporting *x, int32_t index, int64_t expert,
                                           float *data) {
  const struct origin *o = &x->model.origins[index];
  const int64_t own = origin_elements(o) / language_file_experts(&x->model, o->part);
  if (x->whole_of != index) {
    free(x->whole);
    x->whole_of = -1;
    x->whole = malloc((size_t)origin_elements(o) * sizeof *x->whole);
    RETURN_IF(x->whole == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for '%s'", x->model.path, o->name);
    TRY(language_exporting_read(x, index, x->whole));
    x->whole_of = index;
  }
  memcpy(data, x->whole + expert * own, (size_t)own * sizeof *data);
  return NEAP_OK;
}

void language_exporting_close(struct language_exporting *x) {
  free(x->whole);
  if (x->model.opened != NULL) language_file_release(&x->model);
}
