/* A run before its first step. */
#ifndef NEAP_TRAIN_TRAINING_H
#define NEAP_TRAIN_TRAINING_H

#include "train/training_state.h"

/* Call these in this order; each needs those before it.
 *
 * Checks the options alone. NEAP_INVALID_ARGUMENT: they contradict each other. */
neap_status training_check(const neap_train_options *options);
/* Holds the output folder, before anything that takes long. */
neap_status training_claim(struct training *t);
/* Opens the data that the options name. */
neap_status training_open_data(struct training *t);

/* With the data open: techniques, micro-batches, graph, buckets, learning rates. */
neap_status training_build(struct training *t);
/* Collects all settings that the bits of the weights depend on, for checkpoints. */
neap_status training_settle(struct training *t);
/* Reads the state of the checkpoint to resume, before anything is planned: one of another run is refused at
 * once. */
neap_status training_read_state(struct training *t);
/* Opens the session. NEAP_OVER_BUDGET: `result` has a budget that is enough. */
neap_status training_open_session(struct training *t, neap_train_result *result);
/* Loads the weights that the checkpoint in options.resume leaves out, if any. */
neap_status training_load_base(struct training *t);
/* Loads the first weights, and collects the names of the kernels. */
neap_status training_load(struct training *t);

/* Ends the run if it has exceeded a budget for the process. */
neap_status training_check_process(const struct training *t, neap_train_result *result);

/* Returns the number of the session's graph for a bucket; that of the longest is the first. */
int training_graph(const struct training *t, int bucket);

/* Returns the number for a micro-batch of a bucket, which may belong to a short step. */
int training_part_graph(const struct training *t, int bucket, int64_t records);

/* Returns true if sparse values change places, and after how many steps first. */
bool training_rewires(const neap_train_options *o);
bool training_augments(const struct training *t);
int64_t training_rewire_every(const neap_train_options *o);

/* Frees all of the above, however far it got. */
void training_release(struct training *t);

#endif
