/* neap plan --pipeline P. */
#ifndef PIPELINE_H
#define PIPELINE_H

#include "cli.h"

/* Prints what each way to run a model's step on the ranks of a pipeline takes. The batch is divided into the
 * micro-batches of --micro-batch, else each way takes the division with which it is fastest. Returns an exit
 * status: EXIT_OVER_BUDGET, where none fits, after naming the smallest budget. */
int plan_pipeline(const struct verb *verb, struct arguments *a, int32_t ranks, double bandwidth,
                  double latency);

#endif
