#include "pipeline/pipeline.h"

#include <string.h>

neap_status pipeline_schedule_create(const struct pipeline_problem *problem, int32_t part_count,
                                     struct pipeline_schedule *out) {
  *out = (struct pipeline_schedule){
      .ranks = problem->ranks, .micro_batches = problem->micro_batches, .part_count = part_count};
  out->parts = region_alloc(&out->region, (size_t)part_count, sizeof *out->parts);
  out->task_start = region_alloc(&out->region, (size_t)problem->ranks + 1, sizeof *out->task_start);
  out->tasks =
      region_alloc(&out->region, (size_t)part_count * (size_t)problem->micro_batches, sizeof *out->tasks);
  if (out->parts != NULL && out->task_start != NULL && out->tasks != NULL) return NEAP_OK;
  pipeline_schedule_free(out);
  return neap_fail(NEAP_OUT_OF_MEMORY, "pipeline: out of memory");
}

void pipeline_schedule_free(struct pipeline_schedule *schedule) {
  region_free(&schedule->region);
  *schedule = (struct pipeline_schedule){0};
}

neap_status pipeline_schedule_copy(const struct pipeline_schedule *from, struct pipeline_schedule *to) {
  const struct pipeline_problem size = {.ranks = from->ranks, .micro_batches = from->micro_batches};
  pipeline_schedule_free(to);
  TRY(pipeline_schedule_create(&size, from->part_count, to));
  memcpy(to->parts, from->parts, (size_t)from->part_count * sizeof *to->parts);
  memcpy(to->task_start, from->task_start, ((size_t)from->ranks + 1) * sizeof *to->task_start);
  memcpy(to->tasks, from->tasks, (size_t)from->part_count * (size_t)from->micro_batches * sizeof *to->tasks);
  return NEAP_OK;
}

double pipeline_recompute_seconds(const struct pipeline_problem *problem, const struct pipeline_part *part) {
  double seconds = 0;
  for (int32_t b = part->begin; part->recompute && b < part->end; b++)
    seconds += problem->blocks[b].recompute;
  return seconds;
}

double pipeline_part_seconds(const struct pipeline_problem *problem, const struct pipeline_part *part) {
  double seconds = pipeline_recompute_seconds(problem, part);
  for (int32_t b = part->begin; b < part->end; b++)
    seconds += (part->pass != PIPELINE_BACKWARD ? problem->blocks[b].forward : 0) +
               (part->pass != PIPELINE_FORWARD ? problem->blocks[b].backward : 0);
  return seconds;
}

double pipeline_transfer(const struct pipeline_problem *problem, uint64_t bytes) {
  return problem->common ? 0 : problem->latency + (double)bytes / problem->bandwidth;
}
