#include "zoo/sequence.h"

#include <stdio.h>

void sequence_name(char name[SEQUENCE_NAME], const char *scope, const char *part) {
  snprintf(name, SEQUENCE_NAME, "%s.%s", scope, part);
}

neap_tensor sequence_parameter(neap_builder *b, const char *owner, const char *part, int rank,
                               const int64_t *dims, double deviation) {
  char name[SEQUENCE_NAME];
  sequence_name(name, owner, part);
  const neap_initial initial = deviation > 0 ? NEAP_INITIAL_NORMAL : NEAP_INITIAL_ZERO;
  return neap_parameter(b, name, rank, dims,
                        (neap_parameter_options){.initial = initial, .scale = (float)deviation});
}

neap_tensor sequence_linear(neap_builder *b, neap_tensor x, const char *owner, int64_t outputs,
                            double deviation, bool bias) {
  int64_t dims[NEAP_MAX_RANK] = {0};
  const int rank = neap_shape(b, x, dims);
  const int64_t shape[] = {outputs, rank > 0 ? dims[rank - 1] : 1};
  const neap_tensor weight = sequence_parameter(b, owner, "weight", 2, shape, deviation),
                    offset = bias ? sequence_parameter(b, owner, "bias", 1, shape, 0) : -1;
  return neap_linear_with(b, x, weight, offset);
}

neap_tensor sequence_dropout(neap_builder *b, neap_tensor x, double probability) {
  return probability > 0 ? neap_dropout(b, x, (float)probability) : x;
}

neap_tensor sequence_logits(neap_builder *b, neap_tensor x, neap_tensor weight, neap_tensor bias) {
  neap_output(b, "logits", neap_linear_with(b, x, weight, bias));
  return -1;
}

/* Up to this, logits take less than most activations and are worth keeping, and weights may be copied whole
 * where they are stored in 16 bits. Elements. */
static const int64_t small = 4 << 20;

neap_tensor sequence_loss(neap_builder *b, neap_tensor x, neap_tensor weight, neap_tensor bias,
                          float smoothing) {
  int64_t dims[NEAP_MAX_RANK] = {0};
  const neap_tensor logits = neap_linear_with(b, x, weight, bias);
  const int rank = neap_shape(b, logits, dims);
  const neap_tensor label = neap_input(b, "label", NEAP_I32, rank - 1, dims);
  int64_t rows = 1;
  for (int i = 0; i + 1 < rank; i++) rows *= dims[i];
  neap_output(b, "logits", logits);
  int64_t shape[NEAP_MAX_RANK] = {0};
  neap_shape(b, weight, shape);
  if (rank > 0 && rows * dims[rank - 1] <= small && shape[0] * shape[1] <= small)
    return neap_softmax_cross_entropy(b, neap_reshape(b, logits, 2, (int64_t[]){rows, -1}),
                                      neap_reshape(b, label, 1, &rows), smoothing);
  return neap_linear_cross_entropy(b, x, weight, bias, label,
                                   (neap_linear_cross_entropy_options){.smoothing = smoothing});
}
