/* A network of one's own on data of one's own, inside a budget, without a file: learns to tell whether the
 * bright spot of a small picture is left or right of the middle. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "neap.h"

enum { BATCH = 32, SIDE = 16, STEPS = 60 };

static neap_status build(neap_graph **graph) {
  neap_builder *b = neap_builder_create("spots");
  const neap_tensor image = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){BATCH, 1, SIDE, SIDE});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){BATCH});
  neap_tensor x = image;
  for (int block = 0; block < 2; block++) {
    x = neap_conv(b, x, (neap_conv_options){.filters = 16, .size = 3, .padding = 1});
    x = neap_relu(b, neap_batch_norm(b, x, (neap_batch_norm_options){0}));
    x = neap_max_pool(b, x, (neap_pool_options){.size = 2, .stride = 2});
  }
  x = neap_linear(b, neap_flatten(b, x), 2, true);
  const neap_status status = neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), graph);
  neap_builder_free(b);
  return status;
}

static void draw_batch(neap_session *session) {
  float *images = neap_session_input(session, "image");
  int32_t *labels = neap_session_input(session, "label");
  memset(images, 0, BATCH * SIDE * SIDE * sizeof *images);
  for (int i = 0; i < BATCH; i++) {
    const int row = rand() % SIDE, column = rand() % SIDE;
    images[(i * SIDE + row) * SIDE + column] = 4;
    labels[i] = column >= SIDE / 2;
  }
}

static neap_status train(neap_session *session) {
  neap_step_result result = {0};
  neap_status status = NEAP_OK;
  for (int step = 0; status == NEAP_OK && step < STEPS; step++) {
    draw_batch(session);
    status = neap_session_step(session, 0.05f, &result);
  }
  neap_memory memory;
  neap_session_memory(session, &memory);
  printf("loss %.4f, %d of %d right; %llu bytes where keeping everything takes %llu\n", result.loss,
         (int)result.correct, BATCH, (unsigned long long)memory.measured_peak,
         (unsigned long long)memory.keep_all);
  return status;
}

int main(void) {
  const neap_session_options options = {.budget = NEAP_BUDGET_MIN, .momentum = 0.9f, .seed = 1};
  neap_graph *graph = NULL;
  neap_session *session = NULL;
  neap_status status = build(&graph);
  if (status == NEAP_OK) status = neap_session_create(graph, &options, NULL, &session);
  if (status == NEAP_OK) status = train(session);
  if (status != NEAP_OK) fprintf(stderr, "%s\n", neap_error_message());
  neap_session_free(session);
  neap_graph_free(graph);
  return status == NEAP_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
