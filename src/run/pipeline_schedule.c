#include "run/pipeline_schedule.h"

#include <string.h>

#include "collective/agree.h"
#include "plan/planners.h"
#include "run/pipeline_pieces.h"
#include "session/choose.h"

/* Returns the block of the session's step that begins at a forward node; the number of blocks for its end. */
static int32_t block_at(const struct chain *chain, int32_t node) {
  int32_t block = 0;
  while (block < chain->stage_count && chain->stages[block].forward_begin < node) block++;
  return block;
}

/* Moves the borders of a schedule from one step's blocks to another's. NEAP_UNSUPPORTED: a part has none. */
static neap_status move_borders(const neap_pipeline *made, const struct chain *chain,
                                struct pipeline_schedule *schedule) {
  neap_pipeline_part part;
  for (int32_t i = 0; neap_pipeline_part_at(made, i, &part); i++) {
    schedule->parts[i].begin = block_at(chain, part.first_node);
    schedule->parts[i].end = block_at(chain, part.end_node);
    RETURN_IF(schedule->parts[i].begin >= schedule->parts[i].end, NEAP_UNSUPPORTED,
              "pipeline: the step of micro-batches has %d blocks, fewer than its %d parts; give a smaller "
              "`pipeline`",
              chain->stage_count, schedule->part_count);
  }
  return NEAP_OK;
}

/* A way's pipeline, and its seconds in a run, where all ranks wait for the slowest whenever one sends. */
struct candidate {
  neap_pipeline *made;
  neap_pipeline_info info;
  double seconds;
};

/* Returns true if a tick makes a value that another rank reads: the next part of its micro-batch is there. */
static bool sends(const struct pipeline_schedule *schedule, const int32_t *rank_of, const struct tick *tick) {
  for (int32_t r = 0; r < schedule->ranks; r++) {
    const int32_t part = tick->tasks[r].part;
    if (part >= 0 && part + 1 < schedule->part_count && rank_of[part + 1] != r) return true;
  }
  return false;
}

/* Adds up the seconds between waits: of each, those of the rank with the most to do. */
static double add_ticks(const neap_pipeline *made, const struct tick *ticks, int32_t count,
                        const int32_t *rank_of, double *own) {
  const struct pipeline_schedule *schedule = pipeline_schedule_of(made);
  double seconds = 0;
  for (int32_t t = 0; t < count; t++) {
    double slowest = 0;
    for (int32_t r = 0; r < schedule->ranks; r++) {
      const int32_t part = ticks[t].tasks[r].part;
      if (part >= 0) own[r] += pipeline_part_seconds(pipeline_problem_of(made), &schedule->parts[part]);
      slowest = own[r] > slowest ? own[r] : slowest;
    }
    if (t + 1 < count && !sends(schedule, rank_of, &ticks[t])) continue;
    seconds += slowest;
    memset(own, 0, (size_t)schedule->ranks * sizeof *own);
  }
  return seconds;
}

static neap_status time_ticks(const neap_pipeline *made, double *seconds) {
  const struct pipeline_schedule *schedule = pipeline_schedule_of(made);
  struct region region = {0};
  struct tick *ticks;
  int32_t count, *rank_of = region_alloc(&region, (size_t)schedule->part_count, sizeof *rank_of);
  double *own = region_alloc(&region, (size_t)schedule->ranks, sizeof *own);
  neap_status status = rank_of != NULL && own != NULL
                           ? ticks_make(schedule, &region, &ticks, &count)
                           : neap_fail(NEAP_OUT_OF_MEMORY, "pipeline: out of memory");
  for (int32_t i = 0; status == NEAP_OK && i < schedule->part_count; i++)
    rank_of[i] = pipeline_rank_of_part(schedule, i);
  if (status == NEAP_OK) *seconds = add_ticks(made, ticks, count, rank_of, own);
  region_free(&region);
  return status;
}

/* Returns true if the other candidate is better: of those within the budget the faster, of those that are
 * about as fast, or that no budget is met by, the smaller. */
static bool is_worse(const struct candidate *c, const struct candidate *other) {
  static const double about = 0.02;
  if (c->made == NULL || c->info.fits != other->info.fits) return c->made == NULL || other->info.fits;
  const bool smaller = other->info.highest_bytes < c->info.highest_bytes;
  if (!c->info.fits) return smaller;
  return other->seconds < c->seconds * (1 - about) || (other->seconds < c->seconds * (1 + about) && smaller);
}

/* Tries a way, and keeps it if it is better. A way without a schedule is passed over. */
static neap_status try_way(const neap_step *step, const neap_pipeline_options *options,
                           struct candidate *best) {
  struct candidate c;
  neap_status status = neap_pipeline_make(step, options, &c.made);
  if (status == NEAP_UNSUPPORTED) return NEAP_OK;
  if (status != NEAP_OK) return status;
  neap_pipeline_describe(c.made, &c.info);
  status = time_ticks(c.made, &c.seconds);
  if (status == NEAP_OK && is_worse(best, &c)) {
    const struct candidate former = *best;
    *best = c;
    c = former;
  }
  neap_pipeline_free(c.made);
  return status;
}

/* Divides a step with its updates, in which each state belongs to a block, by the given way or the best. */
static neap_status divide(const neap_step *step, const struct chain *chain, const neap_session_options *o,
                          uint64_t budget, struct pipeline_schedule *out, uint64_t *lower) {
  const struct lower_options lowering = lower_options_of(o);
  struct candidate best = {0};
  neap_pipeline_options options = {.way = o->pipeline_way,
                                   .ranks = o->pipeline,
                                   .micro_batches = o->micro_batches / batch_ranks_of(o),
                                   .bandwidth = lowering.roofline.exchange > 0 ? lowering.roofline.exchange
                                                                               : usual_roofline.exchange,
                                   .budget = budget == NEAP_BUDGET_MIN ? 1 : budget,
                                   .fixed = true};
  neap_status status = NEAP_OK;
  if (options.way != NULL && strcmp(options.way, "auto") != 0)
    status = neap_pipeline_make(step, &options, &best.made);
  else
    for (int32_t i = 0; status == NEAP_OK && neap_pipeline_way_at(i, &options.way); i++)
      if (!pipeline_is_common(options.way)) status = try_way(step, &options, &best);
  if (status == NEAP_OK && best.made == NULL) { /* it says why */
    options.way = NULL;
    status = neap_pipeline_make(step, &options, &best.made);
  }
  if (status == NEAP_OK) {
    neap_pipeline_describe(best.made, &best.info);
    *lower = best.info.fits && best.info.highest_bytes > 1 ? best.info.highest_bytes - 1 : 0;
  }
  if (status == NEAP_OK) status = pipeline_schedule_copy(pipeline_schedule_of(best.made), out);
  if (status == NEAP_OK) status = move_borders(best.made, chain, out);
  neap_pipeline_free(best.made);
  return status;
}

neap_status pipeline_schedule_choose(const struct neap_graph *graph, const neap_session_options *options,
                                     const struct chain *chain, uint64_t budget,
                                     struct pipeline_schedule *out, uint64_t *lower) {
  neap_session_options whole = *options;
  neap_step *step;
  whole.micro_batches = 1;
  whole.pipeline = 0;
  whole.collective = NULL;
  TRY(neap_step_from_graph(graph, &whole, &step));
  const neap_status status = divide(step, chain, options, budget, out, lower);
  neap_step_free(step);
  return status;
}

neap_status pipeline_schedule_hand(const struct neap_collective *c, int32_t ranks,
                                   struct pipeline_schedule *schedule) {
  struct pipeline_schedule own = *schedule;
  TRY(collective_broadcast(c, 0, &own.part_count, sizeof own.part_count));
  TRY(collective_broadcast(c, 0, &own.micro_batches, sizeof own.micro_batches));
  if (c->rank > 0) {
    const struct pipeline_problem size = {.ranks = ranks, .micro_batches = own.micro_batches};
    TRY(pipeline_schedule_create(&size, own.part_count, schedule));
  }
  TRY(collective_broadcast(c, 0, schedule->parts, (uint64_t)own.part_count * sizeof *schedule->parts));
  TRY(collective_broadcast(c, 0, schedule->task_start, ((uint64_t)ranks + 1) * sizeof *schedule->task_start));
  return collective_broadcast(c, 0, schedule->tasks,
                              (uint64_t)own.part_count * (uint64_t)own.micro_batches *
                                  sizeof *schedule->tasks);
}
