/* Plans the pipelines of a step: neap_pipeline_make. */
#include "plan/pipeline_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/check.h"
#include "pipeline/ways.h"
#include "plan/pipeline_blocks.h"

struct neap_pipeline {
  struct region region;
  struct chain chain;
  struct pipeline_problem problem;
  struct pipeline_best best;
  struct pipeline_result result;
  const char *way;
};

bool neap_pipeline_way_at(int32_t index, const char **name) {
  if (index < 0 || index >= PIPELINE_WAYS || name == NULL) return false;
  *name = pipeline_ways[index].name;
  return true;
}

static const struct pipeline_way *way_of(const char *name) {
  for (int i = 0; i < PIPELINE_WAYS; i++)
    if (strcmp(pipeline_ways[i].name, name) == 0) return &pipeline_ways[i];
  return NULL;
}

static neap_status fail_unknown(const char *name) {
  char known[128] = "";
  for (int i = 0, at = 0; i < PIPELINE_WAYS && at < (int)sizeof known; i++)
    at += snprintf(known + at, sizeof known - (size_t)at, "%s%s", i == 0 ? "" : ", ", pipeline_ways[i].name);
  return neap_fail(NEAP_INVALID_ARGUMENT, "pipeline: unknown way '%s'; the ways are %s", name, known);
}

neap_status pipeline_chain(const neap_step *step, struct chain *out) {
  enum { MOST_BLOCKS = 96 };
  return chain_create(step, MOST_BLOCKS, out);
}

bool pipeline_is_common(const char *way) {
  const struct pipeline_way *row = way != NULL ? way_of(way) : NULL;
  return row != NULL && row->common;
}

const struct pipeline_schedule *pipeline_schedule_of(const neap_pipeline *p) { return &p->best.schedule; }
const struct pipeline_problem *pipeline_problem_of(const neap_pipeline *p) { return &p->problem; }

static neap_status make(const neap_step *step, const struct pipeline_way *way, struct neap_pipeline *p) {
  TRY(pipeline_chain(step, &p->chain));
  TRY(pipeline_blocks_find(&p->chain, &p->region, &p->problem));
  RETURN_IF(!way->common && p->problem.ranks > p->problem.block_count, NEAP_UNSUPPORTED,
            "`pipeline` %d: the step has %d blocks, and each rank needs one; give `pipeline` %d or less",
            p->problem.ranks, p->problem.block_count, p->problem.block_count);
  TRY(way->make(&p->problem, &p->best));
  RETURN_IF(!p->best.found, NEAP_UNSUPPORTED,
            "pipeline: %s has no schedule of %d blocks, %d ranks and %d micro-batches%s; take another way",
            way->name, p->problem.block_count, p->problem.ranks, p->problem.micro_batches,
            p->problem.fixed ? " in which each part stays on one rank and takes micro-batches in order" : "");
  TRY(pipeline_check(&p->problem, &p->best.schedule));
  return pipeline_simulate(&p->problem, &p->best.schedule, &p->region, &p->result);
}

neap_status neap_pipeline_make(const neap_step *step, const neap_pipeline_options *options,
                               neap_pipeline **out) {
  NEED(step);
  NEED(options);
  NEED(out);
  const struct pipeline_way *way = way_of(options->way != NULL ? options->way : "neap");
  if (way == NULL) return fail_unknown(options->way);
  RETURN_IF(
      options->ranks < 1 || options->ranks > 64 || options->micro_batches < 1 ||
          options->micro_batches > 4096 || !(options->bandwidth > 0) || !(options->latency >= 0),
      NEAP_INVALID_ARGUMENT,
      "pipeline: got %d ranks and %d micro-batches; it needs 1 to 64, 1 to 4096, and a bandwidth above 0",
      options->ranks, options->micro_batches);
  RETURN_IF(options->budget == NEAP_BUDGET_AVAILABLE, NEAP_UNSUPPORTED,
            "pipeline: a budget of what is available is not supported; give the bytes of a rank");
  struct neap_pipeline *p = calloc(1, sizeof *p);
  RETURN_IF_NULL(p);
  p->way = way->name;
  p->problem = (struct pipeline_problem){.ranks = options->ranks,
                                         .micro_batches = options->micro_batches,
                                         .bandwidth = options->bandwidth,
                                         .latency = options->latency,
                                         .budget = options->budget,
                                         .common = way->common,
                                         .fixed = options->fixed};
  const neap_status status = make(step, way, p);
  if (status == NEAP_OK)
    *out = p;
  else
    neap_pipeline_free(p);
  return status;
}

void neap_pipeline_free(neap_pipeline *p) {
  if (p == NULL) return;
  pipeline_best_free(&p->best);
  chain_free(&p->chain);
  region_free(&p->region);
  free(p);
}

void neap_pipeline_describe(const neap_pipeline *p, neap_pipeline_info *info) {
  uint64_t least = UINT64_MAX;
  if (p == NULL || info == NULL) return;
  for (int32_t r = 0; r < p->problem.ranks; r++)
    if (p->result.rank_bytes[r] < least) least = p->result.rank_bytes[r];
  *info = (neap_pipeline_info){.way = p->way,
                               .ranks = p->problem.ranks,
                               .micro_batches = p->problem.micro_batches,
                               .blocks = p->problem.block_count,
                               .parts = p->best.schedule.part_count,
                               .fits = p->best.fits,
                               .seconds = p->result.seconds,
                               .bubble = p->result.bubble,
                               .least_bytes = least,
                               .highest_bytes = p->result.most_bytes,
                               .smallest_budget = p->best.least_bytes,
                               .shared_bytes = p->result.common_bytes};
}

uint64_t neap_pipeline_rank_bytes(const neap_pipeline *p, int32_t rank) {
  return p != NULL && rank >= 0 && rank < p->problem.ranks ? p->result.rank_bytes[rank] : 0;
}

bool neap_pipeline_part_at(const neap_pipeline *p, int32_t index, neap_pipeline_part *part) {
  if (p == NULL || part == NULL || index < 0 || index >= p->best.schedule.part_count) return false;
  const struct pipeline_part *own = &p->best.schedule.parts[index];
  *part = (neap_pipeline_part){.first_block = own->begin,
                               .end_block = own->end,
                               .first_node = p->chain.stages[own->begin].forward_begin,
                               .end_node = p->chain.stages[own->end - 1].forward_end,
                               .forward = own->pass != PIPELINE_BACKWARD,
                               .backward = own->pass != PIPELINE_FORWARD,
                               .recompute = own->recompute};
  return true;
}

bool neap_pipeline_task_at(const neap_pipeline *p, int32_t rank, int32_t index, neap_pipeline_task *task) {
  if (p == NULL || task == NULL) return false;
  const struct pipeline_schedule *c = &p->best.schedule;
  if (rank < 0 || rank >= c->ranks || index < 0 || index >= c->task_start[rank + 1] - c->task_start[rank])
    return false;
  const int32_t i = c->task_start[rank] + index;
  *task = (neap_pipeline_task){c->tasks[i].part, c->tasks[i].micro_batch, p->result.times[i].start,
                               p->result.times[i].end};
  return true;
}
