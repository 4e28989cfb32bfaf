/* The training step of a graph: forward, backward and update nodes in one graph. */
#ifndef NEAP_GRAD_GRADIENT_H
#define NEAP_GRAD_GRADIENT_H

#include "op/op.h"

#define AVERAGE_SUFFIX "average"

struct optimizer {
  neap_optimizer kind;
  float momentum, weight_decay, beta1, beta2, epsilon;
  bool nesterov;
  float clip_value, clip_norm;        /* 0: none */
  const neap_parameter_group *groups; /* borrowed */
  int group_count;
  int32_t micro_batches; /* that a step has; 0: 1 */
  int32_t ranks;         /* processes that it is divided among, with their states; 0: one */
  bool scaled;           /* gradients are larger by a loss scale */
  bool tentative;        /* an update may be skipped, so before it only sums of gradients change */
  bool averages;         /* trained parameters have a state AVERAGE_SUFFIX, which no node changes */
  bool norm;             /* the squares of all gradients are added up: graph.norm */
  bool sparse;           /* some parameters are: a step is in three parts, whatever their number */
};

/* One row per update rule, in the order of neap_optimizer. */
struct optimizer_row {
  const char *name, *summary, *source;
  enum op op;
  const char *states[2];       /* names of a parameter's states */
  int32_t momentum_state;      /* the state that exists only with a momentum above 0; -1: none */
  float beta1, beta2, epsilon; /* used if an option is 0 */
  double rate;                 /* the usual learning rate */
  float decay, momentum;       /* the usual weight decay and momentum */
};
enum { OPTIMIZERS = NEAP_LION + 1 };
extern const struct optimizer_row optimizer_rows[OPTIMIZERS];

/* Extends the forward `graph` in place: gradients of its loss by every parameter, each node right after what
 * it needs, and the update of a parameter as soon as its gradient is complete and its last reader is done, so
 * that gradients never add up to a second copy of the model; where they are clipped by their norm, behind all
 * of them. On failure the graph is half made: free it. */
neap_status graph_add_training(struct neap_graph *graph, const struct optimizer *optimizer);

/* Whether something comes before and after the micro-batches, of which there may be one alone. */
bool step_in_parts(const struct optimizer *optimizer);

/* In such a step that graph is what each of them runs: it adds gradients up, where it can in the
 * momentum itself, else in sums of f32, and takes the loss as the share of the whole that LossShare tells.
 * Before the first and after the last come these two, whose residents are the training graph's. */
neap_status graph_begin_step(const struct neap_graph *training, const struct optimizer *optimizer,
                             struct neap_graph **out);
neap_status graph_end_step(const struct neap_graph *training, const struct optimizer *optimizer,
                           struct neap_graph **out);

#endif
