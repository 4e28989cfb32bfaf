/* The batches of a run: their order, and the session's results for them. */
#ifndef NEAP_TRAIN_BATCHES_H
#define NEAP_TRAIN_BATCHES_H

#include "train/training.h"

/* Runs one step, micro-batch by micro-batch. Gives its loss and right answers, how many records it had room
 * for, and how many labels counted. */
neap_status batches_step(struct training *t, double rate, neap_step_result *result, int64_t *records,
                         double *counted);

/* Returns true if each record has one label, a class. */
bool batches_have_a_class(const struct training *t);

/* Returns true if each record has one label, a class, and training batches are full. */
bool batches_are_whole(const struct training *t);

/* Evaluates all of the test set, by the labels that count: sets the test's loss and accuracy. */
neap_status batches_evaluate(struct training *t);

/* Returns the bits of the test text's tokens divided by its bytes. -1: there is no text, or no loss yet. */
double batches_bits_per_byte(const struct training *t);

#endif
