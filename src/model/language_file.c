#include "model/language_file.h"

bool language_file_has_rows(const struct language_model *m, const struct origin *o) {
  if (o->made || o->packed != NULL) return false;
  if (m->config == NULL) return o->rank > 1 || o->form.permuted_heads == 0;
  for (int64_t e = 1; e < o->expert_count; e++)
    if (o->experts[e]->file->tensors[o->experts[e]->index].indices != NULL) return false;
  return o->file->file->tensors[o->file->index].indices == NULL;
}

uint64_t language_file_bytes(const struct language_model *m, const struct origin *o) {
  if (!language_file_has_rows(m, o)) return 0;
  return m->config == NULL ? m->gguf.tensors[o->tensor].bytes
                           : (uint64_t)o->expert_count * o->file->file->tensors[o->file->index].bytes;
}
