#include "run/kernel_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/vector.h"
#include "run/pipeline_prepare.h"

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

typedef VECTOR(const char *) texts;

static neap_status collect_own(const struct lowered *l, struct region *region, texts *names) {
  const char *name = region_format(region, "neap %s %s", neap_version(), l->backend->own_kernels(l->state));
  RETURN_IF_NULL(name);
  return vector_push(names, name);
}

static neap_status collect(const struct lowered *l, struct region *region, texts *names) {
  for (int32_t v = 0; v < (int32_t)l->graph->nodes.count; v++) {
    char text[128];
    if (node_flops(l->graph, &l->graph->nodes.data[v]) == 0) continue;
    l->backend->describe(&l->kernels[v], text, sizeof text);
    const char *name = region_string(region, text);
    RETURN_IF_NULL(name);
    TRY(vector_push(names, name));
  }
  return NEAP_OK;
}

static neap_status sort_into(json_t *array, const texts *names) {
  if (names->count > 0) qsort(names->data, names->count, sizeof *names->data, by_text);
  for (size_t i = 0; i < names->count; i++)
    if (i == 0 || strcmp(names->data[i], names->data[i - 1]) != 0)
      RETURN_IF(json_array_append_new(array, json_string(names->data[i])) != 0, NEAP_OUT_OF_MEMORY,
                "out of memory for the names of kernels");
  return NEAP_OK;
}

neap_status session_kernel_names(const neap_session *session, json_t **out) {
  struct region region = {0};
  texts names = {0};
  json_t *array = json_array();
  neap_status status = NEAP_OK;
  RETURN_IF_NULL(array);
  TRY_DONE(collect_own(session->main, &region, &names));
  const bool named = session->options.bits != NEAP_BITS_PORTABLE; /* which algorithm is a matter of shapes */
  if (named) TRY_DONE(collect(session_whole_step(session), &region, &names));
  for (size_t i = 0; named && i < session->shapes.count; i++)
    TRY_DONE(collect(session->shapes.data[i].step.lowered, &region, &names));
  TRY_DONE(sort_into(array, &names));
  *out = json_incref(array);
done:
  json_decref(array);
  vector_free(&names);
  region_free(&region);
  return status;
}
