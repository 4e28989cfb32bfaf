/* ONNX files as models. What is taken is taken again as the same graph; a small one makes a session that
 * takes the file's values, or refuses them by the file's name, and predicts. What is refused gives a message
 * that names the file. */
#include <string.h>

#include "graph/graph.h"
#include "support.h"

/* Of tensors of a graph in all; a file of a few bytes may ask for any size. */
enum { ELEMENTS_LIMIT = 1 << 18 };

static bool is_small(const neap_graph *graph) {
  int64_t elements = 0;
  for (size_t t = 0; t < graph->tensors.count; t++) {
    if (graph->tensors.data[t].elements > ELEMENTS_LIMIT) return false;
    elements += graph->tensors.data[t].elements;
  }
  return elements <= ELEMENTS_LIMIT && graph->nodes.count < 256;
}

static void check_same(const neap_graph *a, const neap_graph *b) {
  CHECK(a->tensors.count == b->tensors.count && a->nodes.count == b->nodes.count && a->loss == b->loss);
  for (size_t t = 0; t < a->tensors.count; t++) {
    const struct tensor *x = &a->tensors.data[t], *y = &b->tensors.data[t];
    CHECK(strcmp(x->name, y->name) == 0 && x->rank == y->rank && x->role == y->role &&
          x->frozen == y->frozen);
    CHECK(memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims) == 0);
  }
}

static void check_session(const neap_model *model, const neap_model_options *shape, const neap_graph *graph) {
  neap_session *session;
  neap_session_options options = {.predict = true, .threads = 1, .backend = NEAP_REFERENCE};
  if (neap_session_create(graph, &options, NULL, &session) != NEAP_OK) return;
  const neap_status status = neap_model_load(model, shape, session);
  if (status != NEAP_OK)
    fuzz_check_refused(status, "input.onnx");
  else
    CHECK_OK(neap_session_predict(session));
  neap_session_free(session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_path("input.onnx");
  const neap_model_options shape = {.batch = 3, .length = 4};
  neap_graph *graph, *again;
  neap_model *model;
  fuzz_write(path, data, size);
  neap_status status = neap_model_open(path, &model);
  if (status == NEAP_OK) status = neap_model_build(model, &shape, &graph);
  fuzz_taken = status == NEAP_OK;
  if (!fuzz_taken) {
    fuzz_check_refused(status, "input.onnx");
    neap_model_close(model);
    return 0;
  }
  CHECK_OK(neap_model_build(model, &shape, &again));
  check_same(graph, again);
  if (is_small(graph)) check_session(model, &shape, graph);
  neap_graph_free(graph);
  neap_graph_free(again);
  neap_model_close(model);
  return 0;
}
