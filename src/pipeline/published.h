/* The published ways to run a pipeline. Each offers its schedules, with recomputation of all stages and
 * without: of borders that make the slowest stage as fast as it can be. As published, a stage recomputes when
 * its gradient has arrived. A way that has no schedule of the problem's sizes offers none. */
#ifndef NEAP_PIPELINE_PUBLISHED_H
#define NEAP_PIPELINE_PUBLISHED_H

#include "pipeline/stages.h"

/* All micro-batches forward, then all backward (Huang et al. 2019). */
neap_status pipeline_gpipe(const struct pipeline_problem *problem, struct pipeline_best *best);

/* One forward, one backward (Narayanan et al. 2019; PyTorch's Schedule1F1B). */
neap_status pipeline_1f1b(const struct pipeline_problem *problem, struct pipeline_best *best);

/* The same with several stages a rank (Narayanan et al. 2021; PyTorch's ScheduleInterleaved1F1B). */
neap_status pipeline_interleaved(const struct pipeline_problem *problem, struct pipeline_best *best);

/* Several stages a rank, each for all micro-batches before the next (Lamy-Poirier 2022; ScheduleLoopedBFS).
 */
neap_status pipeline_breadth_first(const struct pipeline_problem *problem, struct pipeline_best *best);

/* The orders of the last two alone. Whether there is one: the stages are a multiple of the ranks and,
 * interleaved, the micro-batches divide into rounds of at least as many as there are ranks. */
bool pipeline_order_interleaved(struct pipeline_schedule *schedule);
bool pipeline_order_breadth_first(struct pipeline_schedule *schedule);

#endif
