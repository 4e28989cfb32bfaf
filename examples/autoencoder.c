/* An autoencoder with tied weights: one matrix encodes, its transpose decodes; the loss is the mean squared
 * error. */
#include "neap.h"
#include <stdio.h>
enum { BATCH = 16, PIXELS = 64, CODE = 8 };

static neap_status build(neap_graph **graph) {
  neap_builder *b = neap_builder_create("autoencoder");
  const neap_tensor x = neap_input(b, "x", NEAP_F32, 2, (int64_t[]){BATCH, PIXELS});
  const neap_tensor w = neap_parameter(b, "weight", 2, (int64_t[]){CODE, PIXELS},
                                       (neap_parameter_options){.initial = NEAP_INITIAL_HE});
  const neap_tensor code = neap_gelu(b, neap_matmul(b, x, w, false, true)); /* x W^T: [BATCH, CODE] */
  const neap_tensor y = neap_matmul(b, code, w, false, false);              /* code W: [BATCH, PIXELS] */
  neap_output(b, "code", code);
  const neap_status status = neap_builder_finish(b, neap_mse_loss(b, y, x), graph);
  neap_builder_free(b);
  return status;
}

int main(void) {
  neap_graph *graph = NULL;
  neap_session *s = NULL;
  neap_step_result first = {0}, last = {0};
  neap_status status = build(&graph);
  if (status == NEAP_OK)
    status = neap_session_create(graph, &(neap_session_options){.momentum = 0.9f, .seed = 1}, NULL, &s);
  for (int step = 0; status == NEAP_OK && step < 200; step++) {
    float *x = neap_session_input(s, "x"); /* waves of CODE / 2 lengths: what a code can hold */
    for (int i = 0; i < BATCH * PIXELS; i++) x[i] = (float)((i % PIXELS * (1 + i / PIXELS % 4)) % 16) / 8 - 1;
    status = neap_session_step(s, 0.2f, step == 0 ? &first : &last);
  }
  if (status != NEAP_OK) fprintf(stderr, "%s\n", neap_error_message());
  printf("loss %.4f, then %.4f\n", first.loss, last.loss);
  neap_session_free(s);
  neap_graph_free(graph);
  return status == NEAP_OK && last.loss < first.loss / 2 ? 0 : 1;
}
