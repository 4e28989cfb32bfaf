/* The training step of a graph: forward, backward and update nodes in one graph. */
#ifndef NEAP_GRAD_GRADIENT_H
#define NEAP_GRAD_GRADIENT_H

#include "grad/optimizer.h"

#define AVERAGE_SUFFIX "average"

/* Extends the forward `graph` in place: gradients of its loss by every parameter, each node right after what
 * it needs, and the update of a parameter as soon as its gradient is complete and its last reader is done, so
 * that gradients never add up to a second copy of the model; where they are clipped by their norm, behind all
 * of them. Where parameters are perturbed there are no gradients: the graph stays a forward one, but for
 * averages. On failure the graph is half made: free it. */
neap_status graph_add_training(struct neap_graph *graph, const struct optimizer *optimizer);

/* Returns true if nodes run before and after the micro-batches, of which there may be only one. */
bool step_in_parts(const struct optimizer *optimizer);

/* Make the graphs that run before the first micro-batch and after the last; their residents are the training
 * graph's. Each micro-batch runs the training graph, which adds gradients up, in the momentum itself if it
 * can, else in sums of f32. Its loss is the share of the step's loss that LossShare gives. */
neap_status graph_begin_step(const struct neap_graph *training, const struct optimizer *optimizer,
                             struct neap_graph **out);
neap_status graph_end_step(const struct neap_graph *training, const struct optimizer *optimizer,
                           struct neap_graph **out);

#endif
