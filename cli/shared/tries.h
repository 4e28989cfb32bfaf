/* `neap plan MODEL --try STEPS`: trains for some steps by each way, on the user's data, and compares the
 * losses. */
#ifndef NEAP_CLI_TRIES_H
#define NEAP_CLI_TRIES_H

#include <jansson.h>

#include "shared/way.h"

/* A way that was tried. */
struct try {
  bool done;      /* else there is nothing but `why`: its name is empty if the way does not exist */
  const char *as; /* the name of a way before it with the same bits, whose losses these are; NULL: none */
  bool kept;      /* the losses are those of an earlier command */
  bool diverged;  /* the losses are NAN */
  double loss,
      held_out;   /* mean over the last quarter of the steps; after them (NAN: there are no test data) */
  double seconds; /* of a step, the median; NAN: it was not run here, or for less than three steps */
  uint64_t peak;  /* bytes; 0: it was not run here */
  char digest[65];
  char why[256];
};

/* Trains by each way that fits, from the same start and for the steps of its options, without a checkpoint.
 * Ways with the same bits are trained once. Losses are kept under the user's cache, by the digest of the run,
 * and taken from there. Returns an exit status, after a message if it is not EXIT_DONE. */
int try_ways(const struct verb *verb, const struct ways *w, struct try tries[WAYS]);

void print_tries(const struct ways *w, int64_t steps, const struct try tries[WAYS]);

/* Returns the loss by which ways are compared: held out, if there are test data. NAN: it diverged. */
double try_loss(const struct try *way);

/* Returns what is known of one way; NULL: out of memory. */
json_t *try_json(const struct try *way);

#endif
