/* Makes inputs of images inputs of bytes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "rewrite/copy.h"

struct bytes {
  struct copy copy;
  const neap_byte_input *input;
  int32_t old;           /* the input in the old graph; NO_TENSOR: none exists */
  int32_t image, window; /* what means it in the new one */
};

static int32_t find_input(const struct neap_graph *graph, const neap_byte_input *input) {
  for (size_t t = 0; t < graph->tensors.count; t++) {
    const struct tensor *tensor = &graph->tensors.data[t];
    if (tensor->role == NEAP_ROLE_INPUT && tensor->view_of < 0 && tensor->dtype == NEAP_F32 &&
        tensor->rank == 4 && tensor->dims[1] <= NEAP_BYTE_CHANNELS && strcmp(tensor->name, input->name) == 0)
      return (int32_t)t;
  }
  return NO_TENSOR;
}

/* Makes the input one of bytes. Its windows come after all other residents. */
static neap_status change_input(struct bytes *b) {
  char name[512];
  b->image = b->copy.map[b->old];
  struct tensor *image = &b->copy.to->tensors.data[b->image];
  image->dtype = NEAP_U8;
  snprintf(name, sizeof name, "%s.window", image->name);
  const struct tensor window = {.name = name,
                                .dtype = NEAP_I32,
                                .role = NEAP_ROLE_INPUT,
                                .rank = 2,
                                .dims = {image->dims[0], 4},
                                .view_of = -1};
  return graph_add_tensor(b->copy.to, window, &b->window);
}

/* Adds the numbers that replace a value, or the input, of the old graph. */
static neap_status add_pixels(struct bytes *b, int32_t old) {
  struct tensor pixels = b->copy.from->tensors.data[old];
  union attributes a = {.pixels = {.dtype = (int32_t)pixels.dtype}};
  pixels.image = pixels.dtype == NEAP_F32;
  pixels.role = NEAP_ROLE_VALUE;
  for (int64_t c = 0; c < pixels.dims[1]; c++) {
    a.pixels.mean[c] = b->input->mean[c];
    a.pixels.deviation[c] = b->input->deviation[c] != 0 ? b->input->deviation[c] : 1;
  }
  TRY(graph_add_tensor(b->copy.to, pixels, &b->copy.map[old]));
  return graph_add_node(b->copy.to, (struct node){.name = pixels.name,
                                                  .op = OP_PIXELS,
                                                  .pass = NEAP_PASS_FORWARD,
                                                  .attributes = a,
                                                  .inputs = (int32_t[]){b->image, b->window},
                                                  .input_count = 2,
                                                  .outputs = &b->copy.map[old],
                                                  .output_count = 1});
}

static bool reads(const struct neap_graph *graph, const struct node *node, int32_t tensor) {
  for (int32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != NO_TENSOR && graph_storage(graph, node->inputs[i]) == tensor) return true;
  return false;
}

static neap_status rewrite_all(struct bytes *b) {
  const struct neap_graph *from = b->copy.from;
  if (b->old != NO_TENSOR) TRY(change_input(b));
  for (size_t v = 0; v < from->nodes.count; v++) {
    const struct node *node = &from->nodes.data[v];
    if (b->old != NO_TENSOR && node->op == OP_CAST && node->inputs[0] == b->old) {
      TRY(add_pixels(b, node->outputs[0]));
      continue;
    }
    if (b->old != NO_TENSOR && b->copy.map[b->old] == b->image && reads(from, node, b->old))
      TRY(add_pixels(b, b->old));
    TRY(copy_node(&b->copy, *node));
  }
  return NEAP_OK;
}

neap_status rewrite_bytes(const struct neap_graph *graph, const neap_byte_input *input,
                          struct neap_graph **out) {
  for (int i = 0; i < NEAP_BYTE_CHANNELS; i++)
    RETURN_IF(!isfinite(input->mean[i]) || !isfinite(input->deviation[i]) || input->deviation[i] < 0,
              NEAP_INVALID_ARGUMENT,
              "byte input '%s': mean %g and deviation %g of channel %d must be finite, the deviation "
              "positive, or 0 for 1",
              input->name, (double)input->mean[i], (double)input->deviation[i], i);
  struct bytes b = {.input = input, .old = find_input(graph, input)};
  TRY(copy_begin(&b.copy, graph, NULL));
  return copy_end(&b.copy, rewrite_all(&b), out);
}
