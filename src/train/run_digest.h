/* A digest by which the results of a run are known again. */
#ifndef NEAP_TRAIN_RUN_DIGEST_H
#define NEAP_TRAIN_RUN_DIGEST_H

#include "train/training_state.h"

/* Makes the digest of a run that training_build has made: of its settings, its steps, its records, the
 * version, and name, size and time of the files that its weights come from. Reads all records. */
neap_status run_digest_make(struct training *t, char digest[65]);

#endif
