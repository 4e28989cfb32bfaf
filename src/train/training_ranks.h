/* A run of several processes (ranks): their exchanges besides those of sessions. Each function returns at
 * once if there is one process. All ranks call them in the same order. */
#ifndef NEAP_TRAIN_TRAINING_RANKS_H
#define NEAP_TRAIN_TRAINING_RANKS_H

#include "train/training_state.h"

/* Return the number of processes, and which this one is. */
int32_t training_ranks(const struct training *t);
int32_t training_rank(const struct training *t);

/* Return the number of processes that divide the micro-batches, and which this one is. The ranks of a
 * pipeline all take all micro-batches, so that each is the only one. */
int32_t training_batch_ranks(const struct training *t);
int32_t training_batch_rank(const struct training *t);

/* Fails on every process if one has failed, with the message of the first that did. */
neap_status training_share_status(const struct training *t, neap_status own);

/* Fails if the processes have other settings, models or data (after training_settle); or other kernels, of
 * another processor or version, which compute other bits (after training_load). `what`: the compared thing,
 * for the message. */
neap_status training_agree(const struct training *t, const char *what, const json_t *value);

/* Allocates the results of a step's micro-batches. */
neap_status training_prepare_parts(struct training *t);

/* The result of a micro-batch; sums over them follow the order of micro-batches, as in one process. */
struct part_result {
  double loss, weight; /* its share of the step's loss; the sum of its labels' class weights */
  double share;        /* of its mean loss in the step's */
  double counted;      /* labels */
  int64_t correct, labels;
};

/* Returns the place of part `part` of a step; this process fills in its own. training_gather_parts then gives
 * all parts to all ranks. */
struct part_result *training_part_result(struct training *t, int32_t part);
neap_status training_gather_parts(struct training *t);

/* Fills in the results of all parts after the last, in a pipeline; elsewhere each part had its own. */
void training_take_results(struct training *t, int32_t parts);

/* Gives every rank the `bytes` of each rank, in order: `all` [ranks][bytes], which has the own ones. */
neap_status training_gather(const struct training *t, void *all, uint64_t bytes);

/* The same among the processes that divide micro-batches. */
neap_status training_gather_batches(const struct training *t, void *all, uint64_t bytes);

/* The reasons to end a run between two steps. */
enum ending_reason { GOES_ON, STOP_ASKED, MEMORY_SHORT };

/* Finds the most pressing reason of any rank. */
neap_status training_ending(const struct training *t, enum ending_reason own, enum ending_reason *reason);

/* Fills the figures of all processes into the report, at the end of a run. */
neap_status training_compare(const struct training *t, neap_train_result *result);

#endif
