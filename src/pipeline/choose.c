#include "pipeline/choose.h"

#include <math.h>

#include "pipeline/published.h"
#include "pipeline/roundpipe.h"

enum { LEAVES = 1500, CLIMB_ROUNDS = 6, LOOPS = 4 };

/* ---- One stage a rank ---- */

enum { ORDERS = 5 };

static void set_warmups(const struct pipeline_problem *p, int order, int32_t *warmup) {
  for (int32_t r = 0; r < p->ranks; r++) {
    const int32_t rest = p->ranks - r, wanted[ORDERS] = {rest, rest + 1, 2 * rest - 1, p->micro_batches, 1};
    warmup[r] = wanted[order] < p->micro_batches ? wanted[order] : p->micro_batches;
  }
}

static neap_status offer_orders(const struct pipeline_problem *p, const struct pipeline_stages *stages,
                                struct pipeline_best *best) {
  struct pipeline_schedule schedule;
  int32_t warmup[PIPELINE_STAGES];
  TRY(pipeline_stages_parts(p, stages, &schedule));
  neap_status status = NEAP_OK;
  for (int order = 0; status == NEAP_OK && order < ORDERS; order++) {
    set_warmups(p, order, warmup);
    pipeline_order_warmup(&schedule, warmup);
    status = pipeline_offer(p, &schedule, best);
  }
  pipeline_schedule_free(&schedule);
  return status;
}

struct search {
  const struct pipeline_problem *problem;
  struct pipeline_best *best;
  struct pipeline_stages stages;
  double *before; /* [blocks + 1]: seconds of one micro-batch, forward and backward, in the blocks before */
  double *tail;   /* [ranks + 1][blocks + 1]: no stages from this one and block on end sooner */
  int32_t leaves;
};

/* No schedule in which the stage is one of its rank ends sooner: the first micro-batch has to come to it, the
 * last one's gradient has to go back. INFINITY: one micro-batch does not fit. */
static double bound(const struct search *s, int32_t stage, int32_t begin, int32_t end, bool recompute) {
  const struct pipeline_problem *p = s->problem;
  double seconds = 0;
  uint64_t bytes = 0;
  for (int32_t b = begin; b < end; b++) {
    const struct pipeline_block *block = &p->blocks[b];
    seconds += block->forward + block->backward + (recompute ? block->recompute : 0);
    bytes += block->resident + block->kept;
  }
  if (bytes > p->budget) return INFINITY;
  return s->before[begin] + 2 * stage * p->latency + p->micro_batches * seconds;
}

static void fill_tail(struct search *s) {
  const int32_t n = s->problem->block_count, ranks = s->problem->ranks;
  for (int32_t b = 0; b <= n; b++) s->tail[ranks * (n + 1) + b] = b == n ? 0 : INFINITY;
  for (int32_t r = ranks - 1; r >= 0; r--)
    for (int32_t begin = 0; begin <= n; begin++) {
      double least = INFINITY;
      for (int32_t end = begin + 1; end <= n; end++)
        least = fmin(least, fmax(bound(s, r, begin, end, false), s->tail[(r + 1) * (n + 1) + end]));
      s->tail[r * (n + 1) + begin] = least;
    }
}

static neap_status choose_stage(struct search *s, int32_t stage) {
  const struct pipeline_problem *p = s->problem;
  const int32_t n = p->block_count, begin = s->stages.border[stage];
  if (stage == p->ranks) {
    s->leaves++;
    return offer_orders(p, &s->stages, s->best);
  }
  for (int32_t end = begin + 1; end <= n; end++) {
    const double rest = s->tail[(stage + 1) * (n + 1) + end];
    for (int recompute = 0; recompute < 2 && s->leaves < LEAVES; recompute++) {
      const double least = fmax(rest, bound(s, stage, begin, end, recompute));
      if (least == INFINITY || (s->best->fits && least >= s->best->seconds)) continue;
      s->stages.border[stage + 1] = end;
      s->stages.recompute[stage] = recompute;
      TRY(choose_stage(s, stage + 1));
    }
  }
  return NEAP_OK;
}

static neap_status search_stages(const struct pipeline_problem *p, struct pipeline_best *best) {
  struct region region = {0};
  struct search s = {.problem = p, .best = best, .stages = {.count = p->ranks, .early = true}};
  const size_t row = (size_t)p->block_count + 1;
  s.before = region_alloc(&region, row, sizeof *s.before);
  s.tail = region_alloc(&region, row * ((size_t)p->ranks + 1), sizeof *s.tail);
  neap_status status = NEAP_OK;
  if (s.before == NULL || s.tail == NULL) {
    status = neap_fail(NEAP_OUT_OF_MEMORY, "pipeline: out of memory for the search of borders");
  } else {
    for (int32_t b = 0; b < p->block_count; b++)
      s.before[b + 1] = s.before[b] + p->blocks[b].forward + p->blocks[b].backward;
    fill_tail(&s);
    status = choose_stage(&s, 0);
  }
  region_free(&region);
  return status;
}

/* ---- Several stages a rank, and improving them ---- */

typedef bool order_function(struct pipeline_schedule *);

static neap_status offer_one(const struct pipeline_problem *p, const struct pipeline_stages *stages,
                             order_function *order, struct pipeline_best *best) {
  struct pipeline_schedule schedule;
  if (order == NULL) return offer_orders(p, stages, best);
  TRY(pipeline_stages_parts(p, stages, &schedule));
  const neap_status status = order(&schedule) ? pipeline_offer(p, &schedule, best) : NEAP_OK;
  pipeline_schedule_free(&schedule);
  return status;
}

/* Returns true if an offer changed this climb's best from these numbers. */
static bool is_better(const struct pipeline_best *now, double seconds, uint64_t bytes, bool fits) {
  return now->found && (now->fits != fits || now->seconds < seconds || now->bytes < bytes);
}

/* Moves one border, or changes whether one stage recomputes, as long as that helps. */
static neap_status climb(const struct pipeline_problem *p, struct pipeline_stages *stages,
                         order_function *order, struct pipeline_best *best) {
  struct pipeline_best own = {0};
  neap_status status = offer_one(p, stages, order, &own);
  for (int round = 0; status == NEAP_OK && own.found && round < CLIMB_ROUNDS; round++) {
    bool moved = false;
    for (int32_t move = 0; status == NEAP_OK && move < 3 * stages->count; move++) {
      struct pipeline_stages tried = *stages;
      const int32_t i = move / 3;
      if (move % 3 == 2)
        tried.recompute[i] = !tried.recompute[i];
      else if (i == 0)
        continue;
      else
        tried.border[i] += move % 3 == 0 ? -1 : 1;
      if (move % 3 != 2 && (tried.border[i] <= tried.border[i - 1] || tried.border[i] >= tried.border[i + 1]))
        continue;
      const double seconds = own.seconds;
      const uint64_t bytes = own.bytes;
      const bool fits = own.fits;
      status = offer_one(p, &tried, order, &own);
      if (status != NEAP_OK || !is_better(&own, seconds, bytes, fits)) continue;
      *stages = tried;
      moved = true;
    }
    if (!moved) break;
  }
  if (status == NEAP_OK && own.found) status = pipeline_offer(p, &own.schedule, best);
  pipeline_best_free(&own);
  return status;
}

static neap_status climb_all(const struct pipeline_problem *p, struct pipeline_best *best) {
  order_function *const orders[] = {pipeline_order_interleaved, pipeline_order_breadth_first};
  for (int32_t loops = 1; loops <= LOOPS && loops * p->ranks <= p->block_count; loops++)
    for (int recompute = 0; recompute < 2; recompute++)
      for (int order = 0; order < (loops == 1 ? 1 : 2); order++) {
        struct pipeline_stages stages;
        TRY(pipeline_stages_balance(p, loops * p->ranks, recompute, &stages));
        stages.early = true;
        TRY(climb(p, &stages, loops == 1 ? NULL : orders[order], best));
      }
  return NEAP_OK;
}

/* ---- */

/* Climbs to the least bytes: of a problem that no schedule fits, that is what is better. */
static neap_status offer_least(const struct pipeline_problem *p, struct pipeline_best *best) {
  struct pipeline_problem tight = *p;
  struct pipeline_best least = {0};
  tight.budget = 0;
  neap_status status = NEAP_OK;
  for (int recompute = 0; status == NEAP_OK && recompute < 2; recompute++) {
    struct pipeline_stages stages;
    status = pipeline_stages_balance(p, p->ranks, recompute, &stages);
    stages.early = true;
    if (status == NEAP_OK) status = climb(&tight, &stages, NULL, &least);
  }
  if (status == NEAP_OK && least.found) status = pipeline_offer(p, &least.schedule, best);
  pipeline_best_free(&least);
  return status;
}

neap_status pipeline_choose(const struct pipeline_problem *problem, struct pipeline_best *best) {
  if (problem->ranks > problem->block_count || problem->ranks > PIPELINE_STAGES) return NEAP_OK;
  TRY(pipeline_gpipe(problem, best));
  TRY(pipeline_1f1b(problem, best));
  TRY(pipeline_interleaved(problem, best));
  TRY(pipeline_breadth_first(problem, best));
  TRY(pipeline_roundpipe(problem, best));
  TRY(offer_least(problem, best));
  TRY(climb_all(problem, best));
  return search_stages(problem, best);
}
