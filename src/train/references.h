/* The reference of a run that learns from preferences (DPO, Rafailov et al. 2023): the log-probabilities of
 * all sequences by the model that the run began with. */
#ifndef NEAP_TRAIN_REFERENCES_H
#define NEAP_TRAIN_REFERENCES_H

#include "train/training.h"

/* Functions for a reference of preferences; on other data they do nothing.
 *
 * Computes the reference by the loaded weights of a new run, in the memory of its session, and gives it to
 * the source; or reads it from the folder that is resumed or evaluated. NEAP_UNSUPPORTED: several processes.
 * NEAP_BAD_FORMAT: the folder has none, or that of other data. */
neap_status references_take(struct training *t);

/* Writes the reference into the run's folder, as reference.safetensors: "train" and "test" [records, 2]. */
neap_status references_keep(const struct training *t);

#endif
