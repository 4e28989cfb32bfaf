#include "pipeline/published.h"

/* ---- One stage a rank ---- */

static neap_status offer_warmups(const struct pipeline_problem *problem, bool all,
                                 struct pipeline_best *best) {
  struct pipeline_stages stages;
  struct pipeline_schedule schedule;
  int32_t warmup[PIPELINE_STAGES];
  if (problem->ranks > problem->block_count || problem->ranks > PIPELINE_STAGES) return NEAP_OK;
  for (int32_t r = 0; r < problem->ranks; r++) {
    const int32_t rest = problem->ranks - r;
    warmup[r] = all || rest > problem->micro_batches ? problem->micro_batches : rest;
  }
  for (int recompute = 0; recompute < 2; recompute++) {
    TRY(pipeline_stages_balance(problem, problem->ranks, recompute, &stages));
    TRY(pipeline_stages_parts(problem, &stages, &schedule));
    pipeline_order_warmup(&schedule, warmup);
    const neap_status status = pipeline_offer(problem, &schedule, best);
    pipeline_schedule_free(&schedule);
    if (status != NEAP_OK) return status;
  }
  return NEAP_OK;
}

neap_status pipeline_gpipe(const struct pipeline_problem *problem, struct pipeline_best *best) {
  return offer_warmups(problem, true, best);
}

neap_status pipeline_1f1b(const struct pipeline_problem *problem, struct pipeline_best *best) {
  return offer_warmups(problem, false, best);
}

/* ---- Several stages a rank ---- */

bool pipeline_order_interleaved(struct pipeline_schedule *c) {
  const int32_t stages = c->part_count / 2, ranks = c->ranks, m = c->micro_batches, local = stages / ranks,
                rounds = m / ranks > 1 ? m / ranks : 1, round = m / rounds, all = local * m;
  int32_t at = 0;
  if (stages % ranks != 0 || m % rounds != 0 || m < ranks) return false;
  for (int32_t r = 0; r < ranks; r++) {
    const int32_t wanted = (local - 1) * round + 2 * (ranks - 1 - r), warmup = wanted < all ? wanted : all;
    c->task_start[r] = at;
    for (int32_t forward = 0, backward = 0; backward < all;) {
      const bool ahead = forward < all && forward <= warmup + backward;
      const int32_t i = ahead ? forward++ : backward++, turn = i / round % local,
                    stage = (ahead ? turn : local - 1 - turn) * ranks + r,
                    micro_batch = i / (round * local) * round + i % round;
      c->tasks[at++] = (struct pipeline_task){ahead ? stage : c->part_count - 1 - stage, micro_batch};
    }
  }
  c->task_start[ranks] = at;
  return true;
}

bool pipeline_order_breadth_first(struct pipeline_schedule *c) {
  const int32_t stages = c->part_count / 2;
  int32_t at = 0;
  if (stages % c->ranks != 0) return false;
  for (int32_t r = 0; r < c->ranks; r++) {
    c->task_start[r] = at;
    for (int32_t s = r; s < stages; s += c->ranks)
      for (int32_t m = 0; m < c->micro_batches; m++) c->tasks[at++] = (struct pipeline_task){s, m};
    for (int32_t s = stages - c->ranks + r; s >= 0; s -= c->ranks)
      for (int32_t m = c->micro_batches - 1; m >= 0; m--)
        c->tasks[at++] = (struct pipeline_task){c->part_count - 1 - s, m};
  }
  c->task_start[c->ranks] = at;
  return true;
}

static neap_status offer_looped(const struct pipeline_problem *problem,
                                bool (*order)(struct pipeline_schedule *), struct pipeline_best *best) {
  struct pipeline_stages stages;
  struct pipeline_schedule schedule;
  for (int32_t count = 2 * problem->ranks;
       problem->ranks > 1 && count <= problem->block_count && count <= PIPELINE_STAGES;
       count += problem->ranks)
    for (int recompute = 0; recompute < 2; recompute++) {
      TRY(pipeline_stages_balance(problem, count, recompute, &stages));
      TRY(pipeline_stages_parts(problem, &stages, &schedule));
      const neap_status status = order(&schedule) ? pipeline_offer(problem, &schedule, best) : NEAP_OK;
      pipeline_schedule_free(&schedule);
      if (status != NEAP_OK) return status;
    }
  return NEAP_OK;
}

neap_status pipeline_interleaved(const struct pipeline_problem *problem, struct pipeline_best *best) {
  return offer_looped(problem, pipeline_order_interleaved, best);
}

neap_status pipeline_breadth_first(const struct pipeline_problem *problem, struct pipeline_best *best) {
  return offer_looped(problem, pipeline_order_breadth_first, best);
}
