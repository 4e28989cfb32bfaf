/* A quick lower bound on peaks: the largest node. */
#include "step/lower_bound.h"

uint64_t node_bytes_at_once(const neap_step *step, const struct step_node *node) {
  uint64_t bytes = node->workspace, taken = 0;
  for (int32_t i = 0; i < node->output_count; i++) bytes += step->tensors[node->outputs[i]].bytes;
  for (int32_t i = 0; i < node->input_count; i++) {
    bool seen = step->tensors[node->inputs[i]].role != NEAP_ROLE_VALUE;
    for (int32_t k = 0; k < i; k++) seen = seen || node->inputs[k] == node->inputs[i];
    if (!seen) bytes += step->tensors[node->inputs[i]].bytes;
  }
  for (int32_t o = 0; o < node->output_count; o++)
    for (int32_t p = 0; p < node->inplace_count; p++)
      if (node->inplace[p].output == o) {
        taken += step->tensors[node->outputs[o]].bytes;
        break;
      }
  return bytes - taken;
}

uint64_t plan_lower_bound(const neap_step *step) {
  uint64_t most = 0, outputs = 0;
  for (int32_t v = 0; v < step->node_count; v++) {
    const uint64_t bytes = node_bytes_at_once(step, &step->nodes[v]);
    if (bytes > most) most = bytes;
  }
  for (int32_t i = 0; i < step->output_count; i++) {
    bool seen = false;
    for (int32_t k = 0; k < i; k++) seen = seen || step->outputs[k] == step->outputs[i];
    if (!seen) outputs += step->tensors[step->outputs[i]].bytes;
  }
  return step->resident_bytes + (most > outputs ? most : outputs);
}
