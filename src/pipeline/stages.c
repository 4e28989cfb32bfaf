#include "pipeline/stages.h"

#include <math.h>

neap_status pipeline_stages_parts(const struct pipeline_problem *problem,
                                  const struct pipeline_stages *stages, struct pipeline_schedule *out) {
  const int32_t count = stages->count;
  TRY(pipeline_schedule_create(problem, 2 * count, out));
  for (int32_t s = 0; s < count; s++) {
    struct pipeline_part *forward = &out->parts[s], *backward = &out->parts[2 * count - 1 - s];
    *forward = (struct pipeline_part){.begin = stages->border[s], .end = stages->border[s + 1]};
    *backward = *forward;
    backward->pass = PIPELINE_BACKWARD;
    backward->recompute = stages->recompute[s];
    if (stages->early) backward->early = pipeline_recompute_seconds(problem, backward);
  }
  return NEAP_OK;
}

void pipeline_order_warmup(struct pipeline_schedule *c, const int32_t *warmup) {
  int32_t at = 0;
  for (int32_t r = 0; r < c->ranks; r++) {
    c->task_start[r] = at;
    for (int32_t forward = 0, backward = 0; backward < c->micro_batches;) {
      const bool ahead = forward < c->micro_batches && forward < warmup[r] + backward;
      c->tasks[at++] = ahead ? (struct pipeline_task){r, forward++}
                             : (struct pipeline_task){c->part_count - 1 - r, backward++};
    }
  }
  c->task_start[c->ranks] = at;
}

static double block_seconds(const struct pipeline_block *block, bool recompute) {
  return block->forward + block->backward + (recompute ? block->recompute : 0);
}

neap_status pipeline_stages_balance(const struct pipeline_problem *problem, int32_t count, bool recompute,
                                    struct pipeline_stages *out) {
  const int32_t n = problem->block_count;
  struct region region = {0};
  const size_t row = (size_t)n + 1;
  double *sum = region_alloc(&region, row, sizeof *sum),
         *best =
             region_alloc(&region, ((size_t)count + 1) * row, sizeof *best); /* [stages][blocks]: slowest */
  int32_t *from = region_alloc(&region, ((size_t)count + 1) * row, sizeof *from);
  if (sum == NULL || best == NULL || from == NULL) {
    region_free(&region);
    return neap_fail(NEAP_OUT_OF_MEMORY, "pipeline: out of memory");
  }
  for (int32_t b = 0; b < n; b++) sum[b + 1] = sum[b] + block_seconds(&problem->blocks[b], recompute);
  for (int32_t b = 1; b <= n; b++) best[b] = INFINITY;
  for (int32_t s = 1; s <= count; s++)
    for (int32_t end = 0; end <= n; end++) {
      double *least = &best[(size_t)s * row + (size_t)end];
      *least = INFINITY;
      for (int32_t begin = s - 1; begin < end; begin++) {
        const double stage = sum[end] - sum[begin], before = best[(size_t)(s - 1) * row + (size_t)begin],
                     slowest = stage > before ? stage : before;
        if (slowest < *least) *least = slowest, from[(size_t)s * row + (size_t)end] = begin;
      }
    }
  *out = (struct pipeline_stages){.count = count};
  out->border[count] = n;
  for (int32_t s = count; s > 0; s--) {
    out->border[s - 1] = from[(size_t)s * row + (size_t)out->border[s]];
    out->recompute[s - 1] = recompute;
  }
  region_free(&region);
  return NEAP_OK;
}

/* Returns true if each part stays on one rank, and takes micro-batches in their order. */
static bool is_fixed(const struct pipeline_schedule *c) {
  for (int32_t r = 0; r < c->ranks; r++)
    for (int32_t i = c->task_start[r]; i < c->task_start[r + 1]; i++) {
      int32_t earlier = 0; /* micro-batches of the same part on this rank */
      for (int32_t k = c->task_start[r]; k < i; k++) earlier += c->tasks[k].part == c->tasks[i].part;
      if (c->tasks[i].micro_batch != earlier) return false;
    }
  return true;
}

neap_status pipeline_offer(const struct pipeline_problem *problem, const struct pipeline_schedule *schedule,
                           struct pipeline_best *best) {
  struct region region = {0};
  if (problem->fixed && !problem->common && !is_fixed(schedule)) return NEAP_OK;
  struct pipeline_result result;
  neap_status status = pipeline_simulate(problem, schedule, &region, &result);
  region_free(&region);
  if (status != NEAP_OK) return status;
  if (!best->found || result.most_bytes < best->least_bytes) best->least_bytes = result.most_bytes;
  const bool fits = result.most_bytes <= problem->budget;
  const bool better =
      !best->found || (fits && !best->fits) ||
      (fits == best->fits && (fits ? result.seconds < best->seconds ||
                                         (result.seconds <= best->seconds && result.most_bytes < best->bytes)
                                   : result.most_bytes < best->bytes));
  if (!better) return NEAP_OK;
  TRY(pipeline_schedule_copy(schedule, &best->schedule));
  best->seconds = result.seconds;
  best->bytes = result.most_bytes;
  best->found = true;
  best->fits = fits;
  return NEAP_OK;
}

void pipeline_best_free(struct pipeline_best *best) {
  pipeline_schedule_free(&best->schedule);
  *best = (struct pipeline_best){0};
}
