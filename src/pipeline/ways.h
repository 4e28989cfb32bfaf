/* The ways to make a schedule. */
#ifndef NEAP_PIPELINE_WAYS_H
#define NEAP_PIPELINE_WAYS_H

#include "pipeline/stages.h"

struct pipeline_way {
  const char *name;
  bool common; /* it is for ranks that reach one memory (struct pipeline_problem) */
  neap_status (*make)(const struct pipeline_problem *problem, struct pipeline_best *best);
};

enum { PIPELINE_WAYS = 6 };
extern const struct pipeline_way pipeline_ways[PIPELINE_WAYS]; /* ours last */

#endif
