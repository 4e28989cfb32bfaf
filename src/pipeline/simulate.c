#include "pipeline/simulate.h"

#include <stdlib.h>

/* Bytes that a rank allocates (above 0) or frees (below 0) at a time. */
struct event {
  double time;
  int32_t rank;
  int64_t bytes;
};

struct simulation {
  const struct pipeline_problem *problem;
  const struct pipeline_schedule *schedule;
  struct pipeline_result *result;
  int32_t *place;   /* [part][micro-batch]: of its task */
  int32_t *rank_of; /* the same: its rank */
  int32_t *maker;   /* [block]: forward part that has it */
  int32_t *taker;   /* [block]: backward part that has it */
  bool *has;        /* [rank][block] */
  struct event *events;
  int32_t event_count;
};

static int32_t at(const struct simulation *s, int32_t part, int32_t micro_batch) {
  return part * s->schedule->micro_batches + micro_batch;
}

static neap_status index_tasks(struct simulation *s, struct region *region) {
  const struct pipeline_schedule *c = s->schedule;
  const size_t tasks = (size_t)c->part_count * (size_t)c->micro_batches,
               blocks = (size_t)s->problem->block_count;
  s->place = region_alloc(region, tasks, sizeof *s->place);
  s->rank_of = region_alloc(region, tasks, sizeof *s->rank_of);
  s->maker = region_alloc(region, blocks, sizeof *s->maker);
  s->taker = region_alloc(region, blocks, sizeof *s->taker);
  s->has = region_alloc(region, (size_t)c->ranks * blocks, sizeof *s->has);
  s->result->rank_busy = region_alloc(region, (size_t)c->ranks, sizeof *s->result->rank_busy);
  s->result->rank_bytes = region_alloc(region, (size_t)c->ranks + 1, sizeof *s->result->rank_bytes);
  s->result->times = region_alloc(region, tasks, sizeof *s->result->times);
  RETURN_IF(!s->place || !s->rank_of || !s->maker || !s->taker || !s->has || !s->result->rank_busy ||
                !s->result->rank_bytes || !s->result->times,
            NEAP_OUT_OF_MEMORY, "pipeline: out of memory");
  for (int32_t p = 0; p < c->part_count; p++)
    for (int32_t b = c->parts[p].begin; b < c->parts[p].end; b++) {
      if (c->parts[p].pass != PIPELINE_BACKWARD) s->maker[b] = p;
      if (c->parts[p].pass != PIPELINE_FORWARD) s->taker[b] = p;
    }
  for (int32_t r = 0; r < c->ranks; r++)
    for (int32_t i = c->task_start[r]; i < c->task_start[r + 1]; i++) {
      const int32_t k = at(s, c->tasks[i].part, c->tasks[i].micro_batch);
      const struct pipeline_part *part = &c->parts[c->tasks[i].part];
      s->place[k] = i;
      s->rank_of[k] = r;
      for (int32_t b = part->begin; b < part->end; b++) s->has[r * s->problem->block_count + b] = true;
    }
  return NEAP_OK;
}

/* ---- Times ---- */

static uint64_t output_bytes(const struct simulation *s, int32_t block) {
  return block >= 0 ? s->problem->blocks[block].boundary : 0;
}

/* Bytes that a part hands to the one after it. */
static uint64_t handed_bytes(const struct simulation *s, int32_t part) {
  const struct pipeline_part *p = &s->schedule->parts[part];
  return output_bytes(s, p->pass == PIPELINE_FORWARD ? p->end - 1 : p->begin - 1);
}

/* Returns the moment at which a task's result is on a rank. */
static double arrival(const struct simulation *s, int32_t part, int32_t micro_batch, int32_t rank,
                      uint64_t bytes) {
  const int32_t k = at(s, part, micro_batch);
  const double end = s->result->times[s->place[k]].end;
  return s->rank_of[k] == rank ? end : end + pipeline_transfer(s->problem, bytes);
}

static bool is_done(const bool *done, const struct simulation *s, int32_t part, int32_t micro_batch) {
  return part < 0 || done[at(s, part, micro_batch)];
}

/* Returns the forward part that makes a part's first input; -1: it is the model's. */
static int32_t source_part(const struct simulation *s, int32_t part) {
  const struct pipeline_part *p = &s->schedule->parts[part];
  return p->begin > 0 ? s->maker[p->begin - 1] : -1;
}

static void run_task(struct simulation *s, int32_t place, int32_t rank, double *free_at) {
  const struct pipeline_task *task = &s->schedule->tasks[place];
  const struct pipeline_part *part = &s->schedule->parts[task->part];
  const int32_t source = source_part(s, task->part);
  const double seconds = pipeline_part_seconds(s->problem, part);
  double start = *free_at;
  if (part->pass == PIPELINE_BACKWARD && part->recompute && source >= 0) {
    const double input = arrival(s, source, task->micro_batch, rank, output_bytes(s, part->begin - 1));
    start = input > start ? input : start;
  }
  double main = start + part->early;
  if (task->part > 0) {
    const double input = arrival(s, task->part - 1, task->micro_batch, rank, handed_bytes(s, task->part - 1));
    main = input > main ? input : main;
  }
  s->result->times[place] =
      (struct pipeline_time){.start = main - part->early, .end = main + seconds - part->early};
  s->result->rank_busy[rank] += seconds;
  *free_at = s->result->times[place].end;
}

/* Runs ranks in turn, each as far as it can. */
static neap_status run_tasks(struct simulation *s, struct region *region) {
  const struct pipeline_schedule *c = s->schedule;
  const int32_t all = c->task_start[c->ranks];
  bool *done = region_alloc(region, (size_t)c->part_count * (size_t)c->micro_batches, sizeof *done);
  int32_t *next = region_copy(region, c->task_start, (size_t)c->ranks, sizeof *next);
  double *free_at = region_alloc(region, (size_t)c->ranks, sizeof *free_at);
  RETURN_IF(!done || !next || !free_at, NEAP_OUT_OF_MEMORY, "pipeline: out of memory");
  for (int32_t count = 0, before = -1; count < all;) {
    RETURN_IF(count == before, NEAP_INVALID_PLAN, "pipeline: ranks wait for each other");
    before = count;
    for (int32_t r = 0; r < c->ranks; r++)
      for (; next[r] < c->task_start[r + 1]; next[r]++, count++) {
        const struct pipeline_task *task = &c->tasks[next[r]];
        if (!is_done(done, s, task->part - 1, task->micro_batch) ||
            !is_done(done, s, source_part(s, task->part), task->micro_batch))
          break;
        run_task(s, next[r], r, &free_at[r]);
        done[at(s, task->part, task->micro_batch)] = true;
      }
  }
  return NEAP_OK;
}

/* ---- Ends of ranks ---- */

static int32_t count_copies(const struct simulation *s, const int32_t *blocks, int32_t count, int32_t rank,
                            bool *here) {
  int32_t copies = 0;
  *here = false;
  for (int32_t r = 0; r < s->schedule->ranks; r++) {
    bool has = false;
    for (int32_t i = 0; i < count; i++) has = has || s->has[r * s->problem->block_count + blocks[i]];
    copies += has;
    if (r == rank) *here = has;
  }
  return copies;
}

/* Returns the seconds of an exchange by a ring, which sums gradients, then sends weights. */
static double exchange_seconds(const struct simulation *s, uint64_t bytes, int32_t copies) {
  if (copies < 2 || bytes == 0) return 0;
  return 2 * (copies - 1) * pipeline_transfer(s->problem, bytes / (uint64_t)copies);
}

/* The same where all ranks reach one memory, which has every variable once. */
static double end_common_rank(struct simulation *s, int32_t rank) {
  const struct pipeline_problem *p = s->problem;
  uint64_t *bytes = &s->result->rank_bytes[s->schedule->ranks];
  double update = 0;
  for (int32_t b = 0; b < p->block_count; b++) {
    update += p->blocks[b].update / s->schedule->ranks;
    *bytes += rank == 0 ? p->blocks[b].resident : 0;
  }
  for (int32_t i = 0; i < p->shared_count; i++) *bytes += rank == 0 ? p->shared[i].resident : 0;
  s->result->rank_busy[rank] += update;
  return update;
}

/* Adds a rank's work after its last task, and resident bytes. */
static double end_rank(struct simulation *s, int32_t rank) {
  const struct pipeline_problem *p = s->problem;
  double exchange = 0, update = 0;
  bool here;
  if (p->common) return end_common_rank(s, rank);
  for (int32_t b = 0; b < p->block_count; b++) {
    const int32_t copies = count_copies(s, &b, 1, rank, &here);
    if (!here) continue;
    s->result->rank_bytes[rank] += p->blocks[b].resident;
    exchange += exchange_seconds(s, p->blocks[b].weights, copies);
    update += p->blocks[b].update;
  }
  for (int32_t i = 0; i < p->shared_count; i++) {
    const struct pipeline_shared *shared = &p->shared[i];
    const int32_t copies =
        count_copies(s, &p->shared_blocks[shared->begin], shared->end - shared->begin, rank, &here);
    if (!here) continue;
    s->result->rank_bytes[rank] += shared->resident;
    exchange += exchange_seconds(s, shared->weights, copies);
  }
  s->result->rank_busy[rank] += update;
  return exchange + update;
}

static void end_step(struct simulation *s) {
  const struct pipeline_schedule *c = s->schedule;
  double busy = 0;
  for (int32_t r = 0; r < c->ranks; r++) {
    const int32_t last = c->task_start[r + 1] - 1;
    const double end = (last >= c->task_start[r] ? s->result->times[last].end : 0) + end_rank(s, r);
    s->result->seconds = end > s->result->seconds ? end : s->result->seconds;
    busy += s->result->rank_busy[r];
  }
  if (s->result->seconds > 0) s->result->bubble = 1 - busy / (s->result->seconds * c->ranks);
}

/* ---- Bytes ---- */

static void add_bytes(struct simulation *s, int32_t rank, double from, double to, uint64_t bytes) {
  if (bytes == 0 || to <= from) return;
  s->events[s->event_count++] = (struct event){.time = from, .rank = rank, .bytes = (int64_t)bytes};
  s->events[s->event_count++] = (struct event){.time = to, .rank = rank, .bytes = -(int64_t)bytes};
}

/* Returns where a value that a rank keeps for later tasks lies: behind the ranks, the memory of all. */
static int32_t home(const struct simulation *s, int32_t rank) {
  return s->problem->common ? s->schedule->ranks : rank;
}

/* Counts a value that goes to another rank on both while it is under way. Returns the moment from which the
 * reader's rank has it. */
static double send(struct simulation *s, int32_t maker, int32_t reader, double made, double reads_end,
                   uint64_t bytes) {
  if (s->problem->common || s->rank_of[maker] == s->rank_of[reader] || bytes == 0) return made;
  const double sent = s->result->times[s->place[maker]].end,
               there = sent + pipeline_transfer(s->problem, bytes);
  add_bytes(s, s->rank_of[maker], sent, there, bytes);
  add_bytes(s, s->rank_of[reader], sent, reads_end, bytes);
  return -1;
}

static double later(double a, double b) { return a > b ? a : b; }

/* The value before a forward part, or one that only recomputation inside its maker reads: until its readers
 * end. `border`: the block after it. */
static void count_border(struct simulation *s, int32_t border, int32_t m) {
  const struct pipeline_schedule *c = s->schedule;
  const int32_t maker = at(s, s->maker[border - 1], m), forward = at(s, s->maker[border], m),
                backward = at(s, s->taker[border], m);
  const uint64_t bytes = output_bytes(s, border - 1);
  const struct pipeline_part *taker = &c->parts[s->taker[border]], *before = &c->parts[s->taker[border - 1]];
  const bool kept = !taker->recompute || taker->begin == border;
  const double made = s->result->times[s->place[maker]].start;
  double until = s->result->times[s->place[maker]].end;
  if (before->pass == PIPELINE_BACKWARD && !before->recompute && s->problem->blocks[border - 1].reads_output)
    until = s->result->times[s->place[at(s, s->taker[border - 1], m)]].end;
  const double forward_end = s->result->times[s->place[forward]].end,
               backward_end = kept ? s->result->times[s->place[backward]].end : 0;
  const bool same = kept && (s->problem->common || s->rank_of[forward] == s->rank_of[backward]);
  if (forward != maker &&
      send(s, maker, forward, made, same ? later(forward_end, backward_end) : forward_end, bytes) >= 0)
    until = later(until, same ? later(forward_end, backward_end) : forward_end);
  else if (forward == maker && same)
    until = later(until, backward_end);
  if (kept && !same && send(s, maker, backward, made, backward_end, bytes) >= 0)
    until = later(until, backward_end);
  add_bytes(s, home(s, s->rank_of[maker]), made, until, bytes);
}

/* The gradient that a backward part hands on. */
static void count_gradient(struct simulation *s, int32_t part, int32_t m) {
  const int32_t maker = at(s, part, m), reader = at(s, part + 1, m);
  const uint64_t bytes = handed_bytes(s, part);
  const double made = s->result->times[s->place[maker]].start, end = s->result->times[s->place[reader]].end;
  if (send(s, maker, reader, made, end, bytes) < 0)
    add_bytes(s, s->rank_of[maker], made, s->result->times[s->place[maker]].end, bytes);
  else
    add_bytes(s, home(s, s->rank_of[maker]), made, end, bytes);
}

/* Counts the bytes that blocks keep inside, and those that live while the task runs. */
static void count_task(struct simulation *s, int32_t part, int32_t m) {
  const struct pipeline_part *p = &s->schedule->parts[part];
  const int32_t task = at(s, part, m), rank = s->rank_of[task];
  const struct pipeline_time time = s->result->times[s->place[task]];
  uint64_t working = 0, inside = 0;
  for (int32_t b = p->begin; b < p->end; b++) {
    const struct pipeline_block *block = &s->problem->blocks[b];
    working = block->working > working ? block->working : working;
    if (p->pass == PIPELINE_BOTH) inside += block->kept;
    if (p->pass == PIPELINE_BACKWARD && p->recompute)
      inside += block->kept - block->pinned + (b > p->begin ? output_bytes(s, b - 1) : 0);
  }
  add_bytes(s, rank, time.start, time.end, working + inside);
  if (p->pass != PIPELINE_FORWARD) return;
  for (int32_t b = p->begin; b < p->end;) { /* by the backward part that reads it */
    const int32_t taker = s->taker[b];
    uint64_t kept = 0;
    for (; b < p->end && s->taker[b] == taker; b++)
      kept += s->schedule->parts[taker].recompute ? s->problem->blocks[b].pinned : s->problem->blocks[b].kept;
    add_bytes(s, home(s, rank), time.start, s->result->times[s->place[at(s, taker, m)]].end, kept);
  }
}

static int compare_events(const void *left, const void *right) {
  const struct event *a = left, *b = right;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  return (a->bytes > b->bytes) - (a->bytes < b->bytes); /* what goes makes room for what comes */
}

static void find_peaks(struct simulation *s) {
  qsort(s->events, (size_t)s->event_count, sizeof *s->events, compare_events);
  int64_t live = 0, most = 0;
  for (int32_t i = 0; i < s->event_count; i++) {
    live += s->events[i].bytes;
    most = live > most ? live : most;
    if (i + 1 < s->event_count && s->events[i + 1].rank == s->events[i].rank) continue;
    s->result->rank_bytes[s->events[i].rank] += (uint64_t)most;
    live = most = 0;
  }
  const uint64_t ranks = (uint64_t)s->schedule->ranks, common = s->result->rank_bytes[ranks];
  s->result->common_bytes = common;
  for (uint64_t r = 0; r < ranks; r++) {
    s->result->rank_bytes[r] += (common + ranks - 1) / ranks;
    if (s->result->rank_bytes[r] > s->result->most_bytes) s->result->most_bytes = s->result->rank_bytes[r];
  }
}

static neap_status count_bytes(struct simulation *s, struct region *region) {
  const struct pipeline_schedule *c = s->schedule;
  const size_t most =
      (size_t)c->micro_batches * (12 * (size_t)s->problem->block_count + 8 * (size_t)c->part_count);
  s->events = region_alloc(region, most, sizeof *s->events);
  RETURN_IF_NULL(s->events);
  for (int32_t m = 0; m < c->micro_batches; m++) {
    for (int32_t b = 1; b < s->problem->block_count; b++) count_border(s, b, m);
    for (int32_t p = 0; p < c->part_count; p++) {
      count_task(s, p, m);
      if (c->parts[p].pass != PIPELINE_FORWARD && p + 1 < c->part_count) count_gradient(s, p, m);
    }
  }
  find_peaks(s);
  return NEAP_OK;
}

neap_status pipeline_simulate(const struct pipeline_problem *problem,
                              const struct pipeline_schedule *schedule, struct region *region,
                              struct pipeline_result *out) {
  struct simulation s = {.problem = problem, .schedule = schedule, .result = out};
  *out = (struct pipeline_result){0};
  TRY(index_tasks(&s, region));
  TRY(run_tasks(&s, region));
  end_step(&s);
  return count_bytes(&s, region);
}
