/* The training step of a graph: forward, backward and update nodes in one graph. */
#ifndef NEAP_GRAD_GRADIENT_H
#define NEAP_GRAD_GRADIENT_H

#include "op/op.h"

struct optimizer {
  neap_optimizer kind;
  float momentum, weight_decay, beta1, beta2, epsilon;
  bool nesterov;
};

/* Extends the forward `graph` in place: gradients of its loss by every parameter, each node right after what
 * it needs, and the update of a parameter as soon as its gradient is complete and its last reader is done, so
 * that gradients never add up to a second copy of the model. On failure the graph is half made: free it. */
neap_status graph_add_training(struct neap_graph *graph, const struct optimizer *optimizer);

#endif
