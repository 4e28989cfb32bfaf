/* A way to fine-tune a language model of a file, and its plans. */
#ifndef NEAP_CLI_WAY_H
#define NEAP_CLI_WAY_H

#include "shared/options.h"

enum { WAYS = 12 };

/* A plan of a way. */
struct found {
  bool met;
  uint64_t budget, peak; /* bytes: within which it was looked for; that it takes */
  double seconds;        /* of a step, micro-batches together, by the costs of planning */
};

struct way {
  const char *name;
  neap_train_options source;
  neap_step *step; /* of a micro-batch; NULL: the model does not have this way, and then */
  char why[256];
  neap_step_info info;
  uint64_t gradients, activations; /* live at the peak of the plan that keeps everything */
  uint64_t bound;                  /* no plan needs less */
  struct found least, fastest, within;
};

struct ways {
  const struct arguments *a;
  uint64_t budget;             /* 0: none was given */
  int64_t batch, parts;        /* records of a step; its micro-batches */
  int64_t length;              /* tokens of a sequence; 0: records are no sequences */
  int64_t records, pass_steps; /* of the data; 0: none were given */
  struct watch *watch;
  struct way list[WAYS];
};

#endif
