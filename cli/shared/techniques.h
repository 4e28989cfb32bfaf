/* Techniques that make a step smaller, in any combination: those of `plan --profile` and `curve --allow`. */
#ifndef NEAP_CLI_TECHNIQUES_H
#define NEAP_CLI_TECHNIQUES_H

#include "shared/format.h"
#include "shared/options.h"

enum {
  TECHNIQUE_RECOMPUTE = 1,
  TECHNIQUE_MICRO = 2,
  TECHNIQUE_HALF = 4,
  TECHNIQUE_STATES8 = 8,
  TECHNIQUE_SPARSE = 16,
  TECHNIQUES = 5
};

/* A model's step, and the values of each technique. */
struct techniques {
  neap_train_options whole; /* without any */
  int64_t micro_batch;      /* about a tenth of the batch, if it is left open */
  neap_dtype precision;     /* of 16 bits */
  double density;
  unsigned allowed; /* besides recomputation, which always is */
  bool usual;       /* no argument names them: one that other options refuse is left out */
};

/* Gives the techniques that the arguments allow. Returns EXIT_DONE, or another status after a message. */
int techniques_open(const struct verb *verb, const struct arguments *a, struct techniques *techniques);

/* Return the step with the techniques in `taken`, and their names: "micro=10+f16", or "none". */
neap_train_options techniques_source(const struct techniques *techniques, unsigned taken);
struct name techniques_text(const struct techniques *techniques, unsigned taken);

#endif
