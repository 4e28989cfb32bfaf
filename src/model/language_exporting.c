#include "model/language_exporting.h"

neap_status language_exporting_open(struct language_exporting *x, bool folder) {
  struct language_model *m = &x->model;
  TRY(language_file_open(m, x->from->base, true));
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
