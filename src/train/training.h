/* A run before its first step. */
#ifndef NEAP_TRAIN_TRAINING_H
#define NEAP_TRAIN_TRAINING_H

#include "train/training_state.h"

/* In this order; each needs those before it.
 *
 * What the options alone say. NEAP_INVALID_ARGUMENT: they contradict each other. */
neap_status training_check(const neap_train_options *options);
/* Holds the folder that is written to: before anything that takes long. */
neap_status training_claim(struct training *t);
/* Opens the data that the options name. */
neap_status training_open_data(struct training *t);

/* With the data open: techniques, micro-batches, graph, buckets, learning rates. */
neap_status training_build(struct training *t);
/* All that the bits of the weights depend on, as a checkpoint keeps it. */
neap_status training_settle(struct training *t);
/* Of the checkpoint that is gone on with. Before anything is planned: one of another run is refused at once.
 */
neap_status training_read_state(struct training *t);
/* NEAP_OVER_BUDGET: `result` says what would do. */
neap_status training_open_session(struct training *t, neap_train_result *result);
/* What the checkpoint in options.resume does without, where it does. */
neap_status training_load_base(struct training *t);
/* The weights that it begins with, and the names of its kernels. */
neap_status training_load(struct training *t);

/* Where a budget for the process was kept so far; else its run ends. */
neap_status training_check_process(const struct training *t, neap_train_result *result);

/* The number of the session's graph for a bucket: that of the longest is the first. */
int training_graph(const struct training *t, int bucket);

/* That of a micro-batch of a bucket, which may be one of a short step. */
int training_part_graph(const struct training *t, int bucket, int64_t records);

/* Whether sparse parameters change places, and after how many steps first. */
bool training_rewires(const neap_train_options *o);
bool training_augments(const struct training *t);
int64_t training_rewire_every(const neap_train_options *o);

/* Whatever of the above was reached. */
void training_release(struct training *t);

#endif
