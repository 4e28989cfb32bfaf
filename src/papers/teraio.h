/* TeraIO 2025 (2506.06472): values of a step lie elsewhere while nothing reads them. */
#ifndef NEAP_PAPERS_TERAIO_H
#define NEAP_PAPERS_TERAIO_H

#include "step/planner.h"

planner_function plan_teraio;

#endif
