/* neap plan --pipeline P. */
#ifndef PIPELINE_H
#define PIPELINE_H

#include "shared/options.h"

/* Processes: `stages` of each of `pipelines`, which divide the batch. */
struct grid {
  int32_t stages, pipelines;
};

/* Prints what each way to run a model's step on the ranks of a pipeline takes. Its part of the batch is
 * divided into the micro-batches of --micro-batch, else each way takes the division with which it is fastest.
 * Returns an exit status: EXIT_OVER_BUDGET, where none fits, after naming the smallest budget. */
int plan_pipeline(const struct verb *verb, struct arguments *a, struct grid grid, double bandwidth,
                  double latency);

#endif
