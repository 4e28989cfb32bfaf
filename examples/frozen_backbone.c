/* Fine-tuning with a frozen backbone: its weights stay as they are, to the bit, and have no gradient and no
 * momentum; the classifier behind it is trained. */
#include "neap.h"
#include <stdio.h>
#include <string.h>
enum { BATCH = 16, KERNEL = 8 * 1 * 3 * 3 };

int main(void) {
  neap_graph *graph = NULL;
  neap_session *s = NULL;
  neap_step_result result = {0};
  neap_memory memory = {0};
  float before[KERNEL] = {0}, after[KERNEL] = {1};
  neap_builder *b = neap_builder_create("fine-tuning");
  const neap_tensor label = neap_input(b, "label", NEAP_I32, 1, (int64_t[]){BATCH});
  neap_tensor x = neap_input(b, "image", NEAP_F32, 4, (int64_t[]){BATCH, 1, 8, 8});
  neap_freeze(b, true);
  x = neap_relu(b, neap_conv(b, x, (neap_conv_options){.filters = 8, .size = 3, .padding = 1}));
  neap_freeze(b, false);
  x = neap_linear(b, neap_flatten(b, x), 2, true);
  neap_status status = neap_builder_finish(b, neap_softmax_cross_entropy(b, x, label, 0), &graph);
  neap_builder_free(b);
  if (status == NEAP_OK)
    status = neap_session_create(graph, &(neap_session_options){.momentum = 0.9f, .seed = 1}, NULL, &s);
  if (status == NEAP_OK) status = neap_session_read(s, 0, before); /* the first variable: the kernels */
  for (int step = 0; status == NEAP_OK && step < 20; step++) {
    for (int i = 0; i < BATCH; i++) ((int32_t *)neap_session_input(s, "label"))[i] = i % 2;
    for (int i = 0; i < BATCH * 64; i++) ((float *)neap_session_input(s, "image"))[i] = i / 64 % 2 ? 1 : -1;
    status = neap_session_step(s, 0.05f, &result);
  }
  if (status == NEAP_OK) status = neap_session_read(s, 0, after);
  if (status == NEAP_OK) neap_session_memory(s, &memory);
  if (status != NEAP_OK) fprintf(stderr, "%s\n", neap_error_message());
  printf("%d of %d right; %llu bytes of parameters, %llu of momentum\n", (int)result.correct, BATCH,
         (unsigned long long)memory.parameters, (unsigned long long)memory.states);
  neap_session_free(s);
  neap_graph_free(graph);
  return status == NEAP_OK && result.correct == BATCH && memcmp(before, after, sizeof before) == 0 ? 0 : 1;
}
