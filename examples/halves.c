/* The network of the README: is the bright pixel in the right half? Trains in 6 MiB, where keeping everything
 * takes 8, saves its weights, and predicts with them. docs/c.md explains it. */
#include <neap.h>
#include <stdio.h>

enum { BATCH = 64, SIDE = 16, PIXELS = SIDE * SIDE };

static void draw(neap_session *s, int step) { /* your data: is the bright pixel in the right half? */
  float *image = neap_session_input(s, "image");
  int32_t *label = neap_session_input(s, "label"); /* NULL where a session only predicts */
  for (int i = 0; i < BATCH * PIXELS; i++) image[i] = i % PIXELS == (i / PIXELS * 37 + step) % PIXELS ? 4 : 0;
  for (int i = 0; label && i < BATCH; i++) label[i] = (i * 37 + step) % SIDE >= SIDE / 2;
}

int main(void) {
  neap_builder *b = neap_builder_create("halves");
  neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){BATCH, 1, SIDE, SIDE});
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){BATCH});
  for (int block = 0; block < 3; block++) {
    x = neap_conv(b, x, (neap_conv_options){.filters = 16, .size = 3, .padding = 1});
    x = neap_relu(b, neap_batch_norm(b, x, (neap_batch_norm_options){0}));
  }
  x = neap_dropout(b, neap_relu(b, neap_linear(b, neap_flatten(b, x), 32, true)), 0.2f);
  x = neap_linear(b, x, 2, true);
  neap_output(b, "logits", x);
  neap_graph *graph = NULL;
  neap_session *s = NULL;
  neap_step_result result = {0};
  uint64_t smallest; /* where the budget cannot be met: one that can */
  bool ok = neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph) == NEAP_OK;
  const neap_session_options train = {.budget = 6 << 20, .momentum = 0.9f}, predict = {.predict = true};
  ok = ok && neap_session_create(graph, &train, &smallest, &s) == NEAP_OK;
  for (int step = 0; ok && step < 40; step++) {
    draw(s, step);
    ok = neap_session_step(s, 0.02f, &result) == NEAP_OK;
  }
  ok = ok && neap_session_save(s, "halves.safetensors") == NEAP_OK;
  if (ok) printf("loss %.4f, %d of %d right\n", result.loss, (int)result.correct, BATCH);

  float logits[BATCH][2]; /* predicting could as well be another program, which builds the same network */
  neap_session_free(s), s = NULL;
  ok = ok && neap_session_create(graph, &predict, &smallest, &s) == NEAP_OK;
  ok = ok && neap_session_load(s, "halves.safetensors") == NEAP_OK;
  if (ok) draw(s, 105);
  ok = ok && neap_session_predict(s) == NEAP_OK;
  ok = ok && neap_session_output(s, "logits", NULL, &logits[0][0]) == NEAP_OK;
  if (ok)
    printf("the first is in the %s half\n", logits[0][1] > logits[0][0] ? "right" : "left");
  else
    fprintf(stderr, "%s\n", neap_error_message());
  neap_session_free(s), neap_graph_free(graph), neap_builder_free(b);
  return !ok;
}
