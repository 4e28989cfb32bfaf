/* Graph to graph. Each rewrite makes a new graph and leaves the old one as it is. Inputs, parameters and
 * states keep their order. */
#ifndef NEAP_REWRITE_REWRITE_H
#define NEAP_REWRITE_REWRITE_H

#include "graph/op.h"

/* One kernel instead of two where the result between them has no other reader: BatchNorm + Relu (whose
 * gradient then needs the input alone), Conv + Add (the sum is made in the convolution's registers). On a
 * forward graph. */
neap_status rewrite_fuse(const struct neap_graph *graph, struct neap_graph **out);

/* The forward graph that evaluates: batch norm reads the running statistics, dropout is gone, nothing is
 * updated. */
neap_status rewrite_evaluation(const struct neap_graph *graph, struct neap_graph **out);

#endif
