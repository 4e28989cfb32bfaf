/* Recognises the uses of a graph's parameters by how its nodes read them: never by their names. */
#ifndef NEAP_OP_LAYERS_H
#define NEAP_OP_LAYERS_H

#include "op/op.h"

bool is_parameter(const struct tensor *t);

/* Returns the parameter that a node multiplies its first input by; else NO_TENSOR. */
int32_t matrix_of(const struct neap_graph *graph, const struct node *node);

/* Marks the logits: named outputs, what losses read, and what becomes either element by element or by a
 * softmax, as before a bias or a cap. `logits` starts zeroed. */
void mark_logits(const struct neap_graph *graph, bool *logits);

/* Returns true if rows of a parameter are gathered. */
bool is_embedding(const struct neap_graph *graph, int32_t weight);

#endif
