/* Functions that models of sequences share. */
#ifndef NEAP_ZOO_SEQUENCE_H
#define NEAP_ZOO_SEQUENCE_H

#include "zoo/zoo.h"

/* A parameter "OWNER.PART", normal with that deviation; 0: zeros. */
neap_tensor sequence_parameter(neap_builder *b, const char *owner, const char *part, int rank,
                               const int64_t *dims, double deviation);

/* A linear layer "OWNER" over the last axis of x, whose weights are normal with that deviation. */
neap_tensor sequence_linear(neap_builder *b, neap_tensor x, const char *owner, int64_t outputs,
                            double deviation, bool bias);

/* Dropout, where the probability is above 0. */
neap_tensor sequence_dropout(neap_builder *b, neap_tensor x, double probability);

/* "SCOPE.NAME" in a buffer; names of layers are short. */
enum { SEQUENCE_NAME = 64 };
void sequence_name(char name[SEQUENCE_NAME], const char *scope, const char *part);

/* The output "logits" [N, T, classes], x weight^T + bias of x [N, T, K], of a graph that has no loss:
 * gives -1. */
neap_tensor sequence_logits(neap_builder *b, neap_tensor x, neap_tensor weight, neap_tensor bias);

/* The logits x weight^T + bias of x [N, T, K], an output "logits" [N, T, classes], and their loss against the
 * input "label" [N, T], which it makes. Where the logits are large, training does not make them. */
neap_tensor sequence_loss(neap_builder *b, neap_tensor x, neap_tensor weight, neap_tensor bias,
                          float smoothing);

#endif
