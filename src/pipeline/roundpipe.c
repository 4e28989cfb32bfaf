#include "pipeline/roundpipe.h"

#include <math.h>
#include <stdlib.h>

static const double MOST_OF_SLOWEST = 1.1;

/* ---- Partition ---- */

static double forward_of(const struct pipeline_block *b) { return b->forward; }
static double backward_of(const struct pipeline_block *b) { return b->recompute + b->backward; }
static double last_of(const struct pipeline_block *b) { return b->forward + b->backward; }

/* As published, the last blocks are packed by the same seconds as those that recompute. */
static int32_t pack_last(const struct pipeline_problem *p, double most) {
  int32_t begin = p->block_count;
  for (double sum = 0; begin > 0; begin--) {
    sum += last_of(&p->blocks[begin - 1]);
    if (sum > most) break;
  }
  return begin < p->block_count ? begin : p->block_count - 1;
}

static int32_t pack_forward(const struct pipeline_problem *p, int32_t end, double most,
                            struct pipeline_part *parts) {
  int32_t count = 0;
  double sum = INFINITY;
  for (int32_t b = end - 1; b >= 0; b--) {
    if (sum + forward_of(&p->blocks[b]) > most) {
      parts[count++] = (struct pipeline_part){.end = b + 1, .pass = PIPELINE_FORWARD};
      sum = 0;
    }
    sum += forward_of(&p->blocks[b]);
    parts[count - 1].begin = b;
  }
  for (int32_t i = 0; i < count / 2; i++) {
    const struct pipeline_part part = parts[i];
    parts[i] = parts[count - 1 - i];
    parts[count - 1 - i] = part;
  }
  return count;
}

static int32_t pack_backward(const struct pipeline_problem *p, int32_t end, double most,
                             struct pipeline_part *parts) {
  int32_t count = 0;
  double sum = INFINITY;
  for (int32_t b = 0; b < end; b++) {
    if (sum + backward_of(&p->blocks[b]) > most) {
      parts[count++] = (struct pipeline_part){.begin = b, .pass = PIPELINE_BACKWARD, .recompute = true};
      sum = 0;
    }
    sum += backward_of(&p->blocks[b]);
    parts[count - 1].end = b + 1;
    parts[count - 1].early += p->blocks[b].recompute;
  }
  for (int32_t i = 0; i < count / 2; i++) {
    const struct pipeline_part part = parts[i];
    parts[i] = parts[count - 1 - i];
    parts[count - 1 - i] = part;
  }
  return count;
}

static int32_t pack(const struct pipeline_problem *p, double most, struct pipeline_part *parts) {
  const int32_t last = pack_last(p, most);
  int32_t count = pack_forward(p, last, most, parts);
  parts[count++] = (struct pipeline_part){.begin = last, .end = p->block_count, .pass = PIPELINE_BOTH};
  return count + pack_backward(p, last, most, &parts[count]);
}

static double slowest_block(const struct pipeline_problem *p) {
  double slowest = last_of(&p->blocks[p->block_count - 1]);
  for (int32_t b = 0; b < p->block_count - 1; b++) slowest = fmax(slowest, backward_of(&p->blocks[b]));
  return slowest;
}

neap_status pipeline_roundpipe_parts(const struct pipeline_problem *p, struct pipeline_part *parts,
                                     int32_t *part_count) {
  double (*const seconds[])(const struct pipeline_block *) = {forward_of, backward_of, last_of};
  struct pipeline_part *tried = malloc((2 * (size_t)p->block_count + 1) * sizeof *tried);
  const double slowest = slowest_block(p);
  double least = INFINITY, sum = 0;
  *part_count = 0;
  RETURN_IF_NULL(tried);
  for (size_t kind = 0; kind < sizeof seconds / sizeof *seconds; kind++)
    for (int32_t begin = 0; begin < p->block_count; begin++)
      for (int32_t end = begin; end < p->block_count; end++) {
        sum = (end > begin ? sum : 0) + seconds[kind](&p->blocks[end]);
        if (sum > slowest * MOST_OF_SLOWEST) break;
        if (sum < slowest) continue;
        const int32_t count = pack(p, sum, tried);
        const double cost = (count > p->ranks ? count : p->ranks) * sum;
        if (cost >= least) continue;
        least = cost;
        *part_count = count;
        for (int32_t i = 0; i < count; i++) parts[i] = tried[i];
      }
  free(tried);
  return NEAP_OK;
}

/* ---- Order ---- */

struct rounds {
  const struct pipeline_problem *problem;
  struct pipeline_schedule *schedule;
  int32_t *rank_of; /* [part][micro-batch] */
  double *end;      /* the same */
  double *free_at;  /* [ranks] */
};

static void run_part(struct rounds *q, int32_t part, int32_t rank, int32_t micro_batch) {
  const struct pipeline_part *p = &q->schedule->parts[part];
  const int32_t k = part * q->schedule->micro_batches + micro_batch, before = k - q->schedule->micro_batches;
  double main = q->free_at[rank] + p->early;
  if (part > 0) {
    const struct pipeline_part *b = &q->schedule->parts[part - 1];
    const int32_t border = b->pass == PIPELINE_FORWARD ? b->end : b->begin;
    const double hop = q->rank_of[before] == rank
                           ? 0
                           : pipeline_transfer(q->problem, q->problem->blocks[border - 1].boundary);
    main = fmax(main, q->end[before] + hop);
  }
  q->rank_of[k] = rank;
  q->end[k] = q->free_at[rank] = main - p->early + pipeline_part_seconds(q->problem, p);
}

static int32_t first_free(const double *free_at, int32_t ranks) {
  int32_t first = 0;
  for (int32_t r = 1; r < ranks; r++)
    if (free_at[r] < free_at[first]) first = r;
  return first;
}

/* Tasks of a rank run round by round, in each part by part: so were they placed. */
static void list_tasks(struct rounds *q) {
  struct pipeline_schedule *c = q->schedule;
  int32_t at = 0;
  for (int32_t r = 0; r < c->ranks; r++) {
    c->task_start[r] = at;
    for (int32_t begin = 0; begin < c->micro_batches; begin += c->ranks)
      for (int32_t p = 0; p < c->part_count; p++)
        for (int32_t m = begin; m < begin + c->ranks && m < c->micro_batches; m++)
          if (q->rank_of[p * c->micro_batches + m] == r) c->tasks[at++] = (struct pipeline_task){p, m};
  }
  c->task_start[c->ranks] = at;
}

neap_status pipeline_order_rounds(const struct pipeline_problem *problem, struct pipeline_schedule *c) {
  struct region region = {0};
  const size_t tasks = (size_t)c->part_count * (size_t)c->micro_batches;
  struct rounds q = {.problem = problem, .schedule = c};
  q.rank_of = region_alloc(&region, tasks, sizeof *q.rank_of);
  q.end = region_alloc(&region, tasks, sizeof *q.end);
  q.free_at = region_alloc(&region, (size_t)c->ranks, sizeof *q.free_at);
  if (!q.rank_of || !q.end || !q.free_at) {
    region_free(&region);
    return neap_fail(NEAP_OUT_OF_MEMORY, "pipeline: out of memory");
  }
  for (int32_t begin = 0; begin < c->micro_batches; begin += c->ranks) {
    const int32_t first = first_free(q.free_at, c->ranks);
    for (int32_t p = 0; p < c->part_count; p++)
      for (int32_t m = begin; m < begin + c->ranks && m < c->micro_batches; m++)
        run_part(&q, p, (first + p) % c->ranks, m);
  }
  list_tasks(&q);
  region_free(&region);
  return NEAP_OK;
}

neap_status pipeline_roundpipe(const struct pipeline_problem *problem, struct pipeline_best *best) {
  struct pipeline_schedule schedule;
  int32_t count;
  if (problem->block_count < 2) return NEAP_OK;
  struct pipeline_part *parts = malloc((2 * (size_t)problem->block_count + 1) * sizeof *parts);
  RETURN_IF_NULL(parts);
  neap_status status = pipeline_roundpipe_parts(problem, parts, &count);
  if (status == NEAP_OK) status = pipeline_schedule_create(problem, count, &schedule);
  if (status == NEAP_OK) {
    for (int32_t i = 0; i < count; i++) schedule.parts[i] = parts[i];
    status = pipeline_order_rounds(problem, &schedule);
    if (status == NEAP_OK) status = pipeline_offer(problem, &schedule, best);
    pipeline_schedule_free(&schedule);
  }
  free(parts);
  return status;
}
