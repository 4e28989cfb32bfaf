#include "pipeline/check.h"

#include <stdlib.h>
#include <string.h>

#define RULE(condition, ...) RETURN_IF(!(condition), NEAP_INVALID_PLAN, __VA_ARGS__)

static neap_status check_parts(int32_t blocks, const struct pipeline_schedule *c) {
  int32_t p = 0, at = 0;
  for (; p < c->part_count && c->parts[p].pass == PIPELINE_FORWARD; p++) {
    RULE(c->parts[p].begin == at && c->parts[p].end > at, "part %d: does not follow the one before it", p);
    at = c->parts[p].end;
  }
  const bool both = p < c->part_count && c->parts[p].pass == PIPELINE_BOTH;
  RULE((both ? c->parts[p].begin : blocks) == at, "part %d: forward parts end at block %d", p, at);
  RULE(!both || !c->parts[p].recompute, "part %d: has what it recomputes", p);
  at = blocks;
  for (int32_t first = p; p < c->part_count; p++) {
    RULE(c->parts[p].pass == PIPELINE_BACKWARD || p == first, "part %d: a forward part after a backward one",
         p);
    RULE(c->parts[p].end == at && c->parts[p].begin < at, "part %d: does not follow the one before it", p);
    at = c->parts[p].begin;
  }
  RULE(at == 0, "backward parts end at block %d", at);
  return NEAP_OK;
}

static neap_status find_ranks(const struct pipeline_schedule *c, int32_t *rank_of) {
  RULE(c->task_start[0] == 0 && c->task_start[c->ranks] == c->part_count * c->micro_batches,
       "%d tasks; there are %d parts of %d micro-batches", c->task_start[c->ranks], c->part_count,
       c->micro_batches);
  for (int32_t r = 0; r < c->ranks; r++)
    for (int32_t i = c->task_start[r]; i < c->task_start[r + 1]; i++) {
      const struct pipeline_task t = c->tasks[i];
      RULE(t.part >= 0 && t.part < c->part_count && t.micro_batch >= 0 && t.micro_batch < c->micro_batches,
           "rank %d: a task of part %d and micro-batch %d", r, t.part, t.micro_batch);
      int32_t *rank = &rank_of[t.part * c->micro_batches + t.micro_batch];
      RULE(*rank < 0, "part %d: runs twice for micro-batch %d", t.part, t.micro_batch);
      *rank = r;
    }
  return NEAP_OK;
}

/* Checks every pair of a forward and a backward part that have a block in common. */
static neap_status check_kept(const struct pipeline_schedule *c, const int32_t *rank_of) {
  for (int32_t f = 0; f < c->part_count; f++)
    for (int32_t b = f + 1; b < c->part_count; b++) {
      const struct pipeline_part *forward = &c->parts[f], *backward = &c->parts[b];
      if (forward->pass != PIPELINE_FORWARD || backward->pass != PIPELINE_BACKWARD || backward->recompute ||
          forward->end <= backward->begin || backward->end <= forward->begin)
        continue;
      for (int32_t m = 0; m < c->micro_batches; m++)
        RULE(rank_of[f * c->micro_batches + m] == rank_of[b * c->micro_batches + m],
             "part %d: what it reads of micro-batch %d was kept by another rank", b, m);
    }
  return NEAP_OK;
}

/* Takes tasks away whose part before is done, until none is left. */
static neap_status check_order(const struct pipeline_schedule *c, int32_t *next, int32_t *reached) {
  bool moved = true;
  memcpy(next, c->task_start, (size_t)c->ranks * sizeof *next);
  while (moved) {
    moved = false;
    for (int32_t r = 0; r < c->ranks; r++) {
      if (next[r] == c->task_start[r + 1]) continue;
      const struct pipeline_task t = c->tasks[next[r]];
      if (reached[t.micro_batch] != t.part) continue;
      reached[t.micro_batch]++;
      next[r]++;
      moved = true;
    }
  }
  for (int32_t r = 0; r < c->ranks; r++)
    RULE(next[r] == c->task_start[r + 1], "rank %d: waits for ever for micro-batch %d of part %d", r,
         c->tasks[next[r]].micro_batch, c->tasks[next[r]].part);
  return NEAP_OK;
}

neap_status pipeline_check(const struct pipeline_problem *problem, const struct pipeline_schedule *c) {
  struct region region = {0};
  const size_t tasks = (size_t)c->part_count * (size_t)c->micro_batches;
  int32_t *rank_of = region_alloc(&region, tasks, sizeof *rank_of),
          *next = region_alloc(&region, (size_t)c->ranks, sizeof *next),
          *reached = region_alloc(&region, (size_t)c->micro_batches, sizeof *reached);
  neap_status status = rank_of != NULL && next != NULL && reached != NULL
                           ? NEAP_OK
                           : neap_fail(NEAP_OUT_OF_MEMORY, "pipeline: out of memory");
  if (status == NEAP_OK) memset(rank_of, -1, tasks * sizeof *rank_of);
  if (status == NEAP_OK) status = check_parts(problem->block_count, c);
  if (status == NEAP_OK) status = find_ranks(c, rank_of);
  if (status == NEAP_OK) status = check_kept(c, rank_of);
  if (status == NEAP_OK) status = check_order(c, next, reached);
  region_free(&region);
  return status;
}
