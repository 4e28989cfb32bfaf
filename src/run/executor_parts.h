/* The executor of a graph with prepared states (struct parts), which only predicts. */
#ifndef NEAP_RUN_EXECUTOR_PARTS_H
#define NEAP_RUN_EXECUTOR_PARTS_H

#include "session/executor.h"

extern const struct executor parts_executor;

#endif
