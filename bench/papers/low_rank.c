/* Deep networks of low rank in place of MLPs (DLR-Lock 2026: a lock by the memory of the backward pass): two
 * layers of them beside two of gated MLPs with as many weights. Published are no bytes; the rows show what a
 * plan leaves of the lock, with the bits of keeping everything. */
#include <stdio.h>

#include "papers.h"

enum { LAYERS = 2, WIDTH = 512, HIDDEN = 2048, RANK = 64, BLOCKS = 48, ROWS = 1024, CLASSES = 32 };
_Static_assert(2 * RANK * BLOCKS == 3 * HIDDEN, "the weights of a layer are as many");

static neap_tensor mlp(neap_builder *b, neap_tensor x) {
  return neap_linear(b, neap_swiglu(b, neap_linear(b, x, 2 * HIDDEN, false)), WIDTH, false);
}

static neap_tensor low_rank(neap_builder *b, neap_tensor x) {
  for (int i = 0; i < BLOCKS; i++) {
    const neap_tensor inner = neap_silu(b, neap_linear(b, x, RANK, false));
    x = neap_add(b, x, neap_linear(b, inner, WIDTH, false));
  }
  return x;
}

static neap_status build(neap_tensor (*layer)(neap_builder *b, neap_tensor x), neap_step **step) {
  neap_builder *b = neap_builder_create("layers");
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){ROWS});
  neap_tensor x = neap_input(b, "x", NEAP_F32, 2, (int64_t[]){ROWS, WIDTH});
  for (int i = 0; i < LAYERS; i++) x = neap_add(b, x, layer(b, neap_rms_norm(b, x, 1e-6f)));
  x = neap_linear(b, neap_rms_norm(b, x, 1e-6f), CLASSES, true);
  neap_graph *graph = NULL;
  neap_status status = neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph);
  neap_builder_free(b);
  if (status == NEAP_OK) status = neap_step_from_graph(graph, &(neap_session_options){0}, step);
  neap_graph_free(graph);
  return status;
}

neap_status print_low_rank(struct report *report) {
  static const struct {
    const char *name;
    neap_tensor (*layer)(neap_builder *b, neap_tensor x);
  } rows[] = {{"gated MLP", mlp}, {"low rank", low_rank}};
  printf("  %d layers of width %d, %d rows; MB beside the weights: all kept, and at 1.0, 1.1 and 1.3 of the "
         "time; least, its time\n",
         LAYERS, WIDTH, ROWS);
  for (int i = 0; i < 2; i++) {
    neap_step *step = NULL;
    TRY(build(rows[i].layer, &step));
    const neap_status status = print_least_within(report, rows[i].name, step, (double[]){1.0, 1.1, 1.3});
    neap_step_free(step);
    if (status != NEAP_OK) return status;
  }
  return NEAP_OK;
}
