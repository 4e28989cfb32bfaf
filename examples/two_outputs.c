/* One trunk, two outputs: the class of a point and how far from the middle it is; the loss is their sum. */
#include "neap.h"
#include <stdio.h>
enum { BATCH = 64 };
int main(void) {
  neap_graph *graph = NULL;
  neap_session *s = NULL;
  neap_step_result result = {0};
  neap_builder *b = neap_builder_create("two outputs");
  const neap_tensor point = neap_input(b, "point", NEAP_F32, 2, (int64_t[]){BATCH, 2});
  const int64_t rows[] = {BATCH, 1};
  const neap_tensor trunk = neap_silu(b, neap_layer_norm(b, neap_linear(b, point, 32, true), 0));
  const neap_tensor logits = neap_linear(b, trunk, 2, true), far = neap_linear(b, trunk, 1, true);
  neap_output(b, "logits", logits);
  neap_output(b, "distance", far);
  neap_tensor loss = neap_softmax_cross_entropy(b, logits, neap_input(b, "label", NEAP_I32, 1, rows), 0);
  loss = neap_add(b, loss, neap_smooth_l1_loss(b, far, neap_input(b, "target", NEAP_F32, 2, rows), 0));
  neap_status status = neap_builder_finish(b, loss, &graph);
  neap_builder_free(b);
  if (status == NEAP_OK)
    status = neap_session_create(graph, &(neap_session_options){.momentum = 0.9f, .seed = 1}, NULL, &s);
  for (int step = 0; status == NEAP_OK && step < 300; step++) {
    float *points = neap_session_input(s, "point"), *targets = neap_session_input(s, "target");
    for (int i = 0; i < BATCH; i++) {
      const float x = points[2 * i] = (float)((step + 7 * i) % 33 - 16) / 16;
      const float y = points[2 * i + 1] = (float)(i % 15 - 7) / 8;
      ((int32_t *)neap_session_input(s, "label"))[i] = x > 0;
      targets[i] = x * x + y * y;
    }
    status = neap_session_step(s, 0.02f, &result);
  }
  float distance[BATCH] = {0};
  if (status == NEAP_OK) status = neap_session_predict(s);
  if (status == NEAP_OK) status = neap_session_output(s, "distance", NULL, distance);
  printf("loss %.4f, %d right; %s\n", result.loss, (int)result.correct, status ? neap_error_message() : "");
  neap_session_free(s);
  neap_graph_free(graph);
  return status == NEAP_OK && result.correct > BATCH * 9 / 10 && result.loss < 0.5 ? 0 : 1;
}
