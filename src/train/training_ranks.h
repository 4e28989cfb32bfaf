/* A run of several processes (ranks): what they tell each other beside what sessions exchange. Each function
 * returns at once where there is one process. All ranks call them in the same order. */
#ifndef NEAP_TRAIN_TRAINING_RANKS_H
#define NEAP_TRAIN_TRAINING_RANKS_H

#include "train/training_state.h"

/* How many there are, and which this one is. */
int32_t training_ranks(const struct training *t);
int32_t training_rank(const struct training *t);

/* Fails on every process where one has failed, with the message of the first that did. */
neap_status training_share_status(const struct training *t, neap_status own);

/* Fails where the processes have other settings, models or data (after training_settle); other kernels, of
 * another processor or version, which compute other bits (after training_load). `what`: which, for the
 * message. */
neap_status training_agree(const struct training *t, const char *what, const json_t *value);

/* Room for what a step's micro-batches give. */
neap_status training_prepare_parts(struct training *t);

/* What a micro-batch gave; sums of it are folded in the order of micro-batches, as in one process. */
struct part_result {
  double loss, weight; /* its share of the step's loss; of its labels' classes */
  double counted;      /* labels */
  int64_t correct, labels;
};

/* Where the part `part` of a step is; this process fills in its own. training_gather_parts gives all ranks
 * those of all. */
struct part_result *training_part_result(struct training *t, int32_t part);
neap_status training_gather_parts(struct training *t);

/* Gives every rank the `bytes` of each rank, in their order: `all` [ranks][bytes], where the own ones are. */
neap_status training_gather(const struct training *t, void *all, uint64_t bytes);

/* Why a run ends between two steps. */
enum ending_reason { GOES_ON, STOP_ASKED, MEMORY_SHORT };

/* The most pressing reason of any rank. */
neap_status training_ending(const struct training *t, enum ending_reason own, enum ending_reason *reason);

/* What the report says of all processes. Where a run has come to its end. */
neap_status training_compare(const struct training *t, neap_train_result *result);

#endif
