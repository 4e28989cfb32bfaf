/* Pipelines: the simulator beside published bubbles and formulas, and beside relaxation of all constraints;
 * ours beside all borders and choices of recomputation of small problems. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/check.h"
#include "pipeline/published.h"
#include "pipeline/roundpipe.h"
#include "pipeline/ways.h"
#include "testing.h"

/* ---- Published ---- */

enum { RANKS = 8, MICRO_BATCHES = 16, MOST_BLOCKS = 96 };

/* RoundPipe's five numbers of a model (milliseconds: a layer's forward and backward, the head's, a transfer),
 * and what its simulator prints: makespans in the order of `kinds`, and bubbles in percent. */
static const struct published {
  int32_t layers;
  double forward, backward, head_forward, head_backward, transfer;
  const char *stages, *loops, *round_forward, *round_backward; /* layers of each; xN: N times */
  double makespan[5], bubble[5];
} published[] = {
    {28,
     7.429,
     15.831,
     22.0655,
     43.707,
     1.6,
     "3x2 4x5 2",
     "1x18 2x5 0",
     "7x4",
     "3x8 2x2",
     {2896.9170, 2854.7220, 2560.8020, 2467.2710, 2286.0170},
     {36.1346, 35.1906, 27.7520, 25.0131, 19.0676}},
    {32,
     18.50370313,
     41.20659375,
     37.2255,
     74.501,
     3.2,
     "4x8",
     "1x32",
     "5x4 6x2",
     "2x16",
     {9028.1120, 9028.1120, 7539.2180, 7385.6180, 6100.5450},
     {42.0793, 42.0793, 30.6407, 29.1982, 14.2839}},
    {24,
     21.6445625,
     81.780875,
     44.2925,
     86.264,
     2.25,
     "3x8",
     "1x24",
     "4 5x4",
     "1x24",
     {10750.2340, 10750.2340, 9071.2540, 8999.2540, 7282.8064},
     {41.7271, 41.7271, 30.9415, 30.3890, 13.9827}},
    {64,
     40.5610625,
     91.17429688,
     54.928,
     108.294,
     4,
     "8x8",
     "1x64",
     "2x2 3x20",
     "1x64",
     {34370.0936, 34370.0936, 26375.5690, 25927.5690, 23978.8338},
     {34.8841, 34.8841, 15.1473, 13.6811, 6.6661}},
    {94,
     43.016,
     58.376,
     42.444,
     43.294,
     3.2,
     "11 12x6 11",
     "0 1x94 0",
     "2x47",
     "1x94",
     {39698.3300, 39716.4600, 29052.8820, 28575.7140, 28250.0320},
     {31.1805, 31.2119, 5.9640, 4.3937, 3.2915}},
};

static int32_t read_counts(const char *text, int32_t *counts) {
  int32_t count = 0;
  for (char *end; *text != '\0'; text = end + (*end == ' ')) {
    const int32_t layers = (int32_t)strtol(text, &end, 10);
    long times = 1;
    if (*end == 'x') times = strtol(end + 1, &end, 10);
    while (times-- > 0) counts[count++] = layers;
  }
  return count;
}

/* An embedding, which takes no time, the layers, and the head, which is not recomputed. */
static struct pipeline_problem problem_of(const struct published *p, struct pipeline_block *blocks) {
  const int32_t count = p->layers + 2;
  memset(blocks, 0, (size_t)count * sizeof *blocks);
  for (int32_t b = 1; b <= p->layers; b++)
    blocks[b] =
        (struct pipeline_block){.forward = p->forward, .backward = p->backward, .recompute = p->forward};
  blocks[count - 1] = (struct pipeline_block){.forward = p->head_forward, .backward = p->head_backward};
  return (struct pipeline_problem){.block_count = count,
                                   .blocks = blocks,
                                   .ranks = RANKS,
                                   .micro_batches = MICRO_BATCHES,
                                   .bandwidth = INFINITY,
                                   .latency = p->transfer,
                                   .budget = UINT64_MAX};
}

/* As published, a task that takes no time does not count. */
static void check_published(const char *what, const struct pipeline_problem *problem,
                            const struct pipeline_schedule *schedule, double makespan, double bubble) {
  struct region region = {0};
  struct pipeline_result result;
  double last = 0, busy = 0;
  ASSERT_OK(pipeline_check(problem, schedule));
  ASSERT_OK(pipeline_simulate(problem, schedule, &region, &result));
  for (int32_t i = 0; i < schedule->task_start[RANKS]; i++)
    if (pipeline_part_seconds(problem, &schedule->parts[schedule->tasks[i].part]) > 0)
      last = fmax(last, result.times[i].end);
  for (int32_t r = 0; r < RANKS; r++) busy += result.rank_busy[r];
  const double idle = 100 * (1 - busy / (RANKS * last));
  if (fabs(last - makespan) > 1e-4 || fabs(idle - bubble) > 1e-4)
    fail_msg("%s of %d blocks: %.4f and %.4f %%, published %.4f and %.4f %%", what, problem->block_count,
             last, idle, makespan, bubble);
  region_free(&region);
}

static void run_stages(const struct pipeline_problem *problem, const char *text, int kind, double makespan,
                       double bubble) {
  static const char *const names[] = {"gpipe", "1f1b", "interleaved", "breadth-first"};
  struct pipeline_stages stages = {0};
  struct pipeline_schedule schedule;
  int32_t counts[MOST_BLOCKS + 2], warmup[RANKS];
  stages.count = read_counts(text, counts);
  for (int32_t s = 0; s < stages.count; s++) {
    stages.border[s + 1] = stages.border[s] + counts[s] + (s == 0) + (s == stages.count - 1);
    stages.recompute[s] = true;
  }
  assert_int_equal(stages.border[stages.count], problem->block_count);
  ASSERT_OK(pipeline_stages_parts(problem, &stages, &schedule));
  for (int32_t r = 0; r < RANKS; r++) warmup[r] = kind == 0 ? MICRO_BATCHES : RANKS - r;
  if (kind < 2) pipeline_order_warmup(&schedule, warmup);
  if (kind == 2) assert_true(pipeline_order_interleaved(&schedule));
  if (kind == 3) assert_true(pipeline_order_breadth_first(&schedule));
  check_published(names[kind], problem, &schedule, makespan, bubble);
  pipeline_schedule_free(&schedule);
}

/* The published simulator lets the head run forward before its input arrives: its seconds are early ones. */
static void run_rounds(const struct pipeline_problem *problem, const struct published *p) {
  struct pipeline_schedule schedule;
  int32_t forward[MOST_BLOCKS], backward[MOST_BLOCKS];
  const int32_t forwards = read_counts(p->round_forward, forward),
                backwards = read_counts(p->round_backward, backward);
  ASSERT_OK(pipeline_schedule_create(problem, forwards + 1 + backwards, &schedule));
  struct pipeline_part *part = schedule.parts;
  for (int32_t i = 0, at = 0; i < forwards; i++, part++) {
    const int32_t end = at + forward[i] + (i == 0);
    *part = (struct pipeline_part){.begin = at, .end = end, .pass = PIPELINE_FORWARD};
    at = end;
  }
  *part++ = (struct pipeline_part){
      .begin = p->layers + 1, .end = p->layers + 2, .pass = PIPELINE_BOTH, .early = p->head_forward};
  for (int32_t i = 0, at = p->layers + 1; i < backwards; i++, part++) {
    const int32_t begin = at - backward[i] - (i == backwards - 1);
    *part = (struct pipeline_part){.begin = begin,
                                   .end = at,
                                   .pass = PIPELINE_BACKWARD,
                                   .recompute = true,
                                   .early = backward[i] * p->forward};
    at = begin;
  }
  ASSERT_OK(pipeline_order_rounds(problem, &schedule));
  check_published("roundpipe", problem, &schedule, p->makespan[4], p->bubble[4]);
  pipeline_schedule_free(&schedule);
}

static void test_published(void **state) {
  (void)state;
  struct pipeline_block blocks[MOST_BLOCKS];
  for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
    const struct published *p = &published[i];
    const struct pipeline_problem problem = problem_of(p, blocks);
    for (int kind = 0; kind < 4; kind++)
      run_stages(&problem, kind < 2 ? p->stages : p->loops, kind, p->makespan[kind], p->bubble[kind]);
    run_rounds(&problem, p);
  }
}

/* ---- Formulas ---- */

static void test_formulas(void **state) {
  (void)state;
  struct pipeline_block blocks[24];
  for (int32_t b = 0; b < 24; b++) blocks[b] = (struct pipeline_block){.forward = 1, .backward = 2};
  for (int32_t ranks = 1; ranks <= 4; ranks++)
    for (int32_t m = ranks; m <= 4 * ranks; m += ranks)
      for (int32_t loops = 1; loops <= 3; loops++)
        for (int kind = 0; kind < 2; kind++) {
          const struct pipeline_problem problem = {.block_count = loops * ranks,
                                                   .blocks = blocks,
                                                   .ranks = ranks,
                                                   .micro_batches = m,
                                                   .bandwidth = INFINITY,
                                                   .budget = UINT64_MAX};
          struct pipeline_stages stages;
          struct pipeline_schedule schedule;
          struct pipeline_result result;
          struct region region = {0};
          int32_t warmup[4];
          for (int32_t r = 0; r < ranks; r++) warmup[r] = kind == 0 ? m : ranks - r;
          ASSERT_OK(pipeline_stages_balance(&problem, loops * ranks, false, &stages));
          ASSERT_OK(pipeline_stages_parts(&problem, &stages, &schedule));
          if (loops == 1)
            pipeline_order_warmup(&schedule, warmup);
          else
            assert_true(kind == 0 ? pipeline_order_interleaved(&schedule)
                                  : pipeline_order_breadth_first(&schedule));
          ASSERT_OK(pipeline_check(&problem, &schedule));
          ASSERT_OK(pipeline_simulate(&problem, &schedule, &region, &result));
          const double expected = (ranks - 1.0) / (loops * m + ranks - 1);
          if (fabs(result.bubble - expected) > 1e-9)
            fail_msg("kind %d, %d ranks, %d micro-batches, %d loops: bubble %g, expected %g", kind, ranks, m,
                     loops, result.bubble, expected);
          region_free(&region);
          pipeline_schedule_free(&schedule);
        }
}

/* ---- Small problems ---- */

static uint32_t seed = 1;
static int32_t draw(int32_t below) {
  seed = seed * 1664525u + 1013904223u;
  return (int32_t)((seed >> 8) % (uint32_t)below);
}

static struct pipeline_problem random_problem(struct pipeline_block *blocks) {
  const int32_t count = 2 + draw(5), most = count < 3 ? count : 3;
  for (int32_t b = 0; b < count; b++)
    blocks[b] = (struct pipeline_block){.forward = 1 + draw(9),
                                        .backward = 1 + draw(19),
                                        .update = draw(3),
                                        .resident = (uint64_t)draw(200),
                                        .kept = 20 + (uint64_t)draw(80),
                                        .pinned = (uint64_t)draw(20),
                                        .working = (uint64_t)draw(30),
                                        .boundary = b + 1 < count ? 1 + (uint64_t)draw(20) : 0,
                                        .reads_output = draw(2)};
  for (int32_t b = 0; b < count; b++) blocks[b].recompute = blocks[b].forward * draw(3) / 2;
  return (struct pipeline_problem){.block_count = count,
                                   .blocks = blocks,
                                   .ranks = 1 + draw(most),
                                   .micro_batches = 1 + draw(6),
                                   .bandwidth = 1 + draw(40),
                                   .latency = draw(3) / 2.0,
                                   .budget = UINT64_MAX};
}

/* The ends of tasks by relaxation, until nothing changes. Of stages alone. */
static double relax(const struct pipeline_problem *p, const struct pipeline_schedule *c) {
  double end[2 * 3][6] = {{0}}, last = 0;
  int32_t rank_of[2 * 3][6];
  for (int32_t r = 0; r < c->ranks; r++)
    for (int32_t i = c->task_start[r]; i < c->task_start[r + 1]; i++)
      rank_of[c->tasks[i].part][c->tasks[i].micro_batch] = r;
  for (int round = 0; round <= c->part_count * c->micro_batches; round++)
    for (int32_t r = 0; r < c->ranks; r++)
      for (int32_t i = c->task_start[r]; i < c->task_start[r + 1]; i++) {
        const struct pipeline_task t = c->tasks[i];
        const struct pipeline_part *part = &c->parts[t.part];
        double ready = i > c->task_start[r] ? end[c->tasks[i - 1].part][c->tasks[i - 1].micro_batch] : 0;
        double input = 0, recompute = 0, rest = 0, update = 0;
        if (t.part > 0) {
          const int32_t border = part->pass == PIPELINE_FORWARD ? part->begin : part->end;
          input = end[t.part - 1][t.micro_batch];
          if (rank_of[t.part - 1][t.micro_batch] != r)
            input += p->latency +
                     (double)(border < p->block_count ? p->blocks[border - 1].boundary : 0) / p->bandwidth;
        }
        for (int32_t b = part->begin; b < part->end; b++) {
          recompute += part->recompute ? p->blocks[b].recompute : 0;
          rest += part->pass == PIPELINE_FORWARD ? p->blocks[b].forward : p->blocks[b].backward;
          update += p->blocks[b].update;
        }
        if (part->early > 0)
          end[t.part][t.micro_batch] = fmax(ready + recompute, input) + rest;
        else
          end[t.part][t.micro_batch] = fmax(ready, input) + recompute + rest;
        last = fmax(last, end[t.part][t.micro_batch] + (i + 1 == c->task_start[r + 1] ? update : 0));
      }
  return last;
}

/* Tries all borders and choices of recomputation in the orders of GPipe and 1F1B. */
static void try_all(const struct pipeline_problem *p, struct pipeline_stages *stages, int32_t stage,
                    struct pipeline_best *best) {
  if (stage < p->ranks) {
    for (int recompute = 0; recompute < 2; recompute++)
      for (int32_t end = stages->border[stage] + 1; end <= p->block_count - (p->ranks - 1 - stage); end++) {
        if (stage == p->ranks - 1 && end < p->block_count) continue;
        stages->border[stage + 1] = end;
        stages->recompute[stage] = recompute;
        try_all(p, stages, stage + 1, best);
      }
    return;
  }
  for (int all = 0; all < 2; all++) {
    struct pipeline_schedule schedule;
    struct pipeline_result result;
    struct region region = {0};
    int32_t warmup[3];
    for (int32_t r = 0; r < p->ranks; r++)
      warmup[r] = all || p->ranks - r > p->micro_batches ? p->micro_batches : p->ranks - r;
    ASSERT_OK(pipeline_stages_parts(p, stages, &schedule));
    pipeline_order_warmup(&schedule, warmup);
    ASSERT_OK(pipeline_check(p, &schedule));
    ASSERT_OK(pipeline_simulate(p, &schedule, &region, &result));
    if (fabs(result.seconds - relax(p, &schedule)) > 1e-9)
      fail_msg("the simulator has %g seconds, relaxation %g", result.seconds, relax(p, &schedule));
    region_free(&region);
    ASSERT_OK(pipeline_offer(p, &schedule, best));
    pipeline_schedule_free(&schedule);
  }
}

static void check_ours(struct pipeline_problem problem) {
  struct pipeline_best ours = {0}, exhaustive = {0};
  struct pipeline_stages stages = {.count = problem.ranks, .early = draw(2)};
  try_all(&problem, &stages, 0, &exhaustive);
  for (int w = 0; w < PIPELINE_WAYS; w++) {
    struct pipeline_best best = {0};
    ASSERT_OK(pipeline_ways[w].make(&problem, &best));
    if (best.found) ASSERT_OK(pipeline_check(&problem, &best.schedule));
    if (best.fits) assert_true(best.bytes <= problem.budget);
    if (w < PIPELINE_WAYS - 1 && best.fits && (!exhaustive.fits || best.seconds < exhaustive.seconds)) {
      pipeline_best_free(&exhaustive);
      exhaustive = best;
      continue;
    }
    if (w < PIPELINE_WAYS - 1)
      pipeline_best_free(&best);
    else
      ours = best;
  }
  assert_true(ours.found);
  if (exhaustive.fits && (!ours.fits || ours.seconds > exhaustive.seconds + 1e-9))
    fail_msg("%d blocks, %d ranks, %d micro-batches, budget %llu: ours %g (fits: %d), another %g",
             problem.block_count, problem.ranks, problem.micro_batches, (unsigned long long)problem.budget,
             ours.seconds, ours.fits, exhaustive.seconds);
  if (!ours.fits) { /* the least that it names is met */
    problem.budget = ours.least_bytes;
    struct pipeline_best least = {0};
    ASSERT_OK(pipeline_ways[PIPELINE_WAYS - 1].make(&problem, &least));
    assert_true(least.fits);
    pipeline_best_free(&least);
  }
  pipeline_best_free(&ours);
  pipeline_best_free(&exhaustive);
}

static void test_small(void **state) {
  (void)state;
  struct pipeline_block blocks[6];
  for (int i = 0; i < 150; i++) {
    struct pipeline_problem problem = random_problem(blocks);
    check_ours(problem);
    problem.budget = 150 + (uint64_t)draw(900);
    check_ours(problem);
  }
}

/* ---- One memory for all ranks ---- */

static struct pipeline_time time_of(const struct pipeline_schedule *c, const struct pipeline_result *result,
                                    int32_t part, int32_t micro_batch) {
  for (int32_t i = 0; i < c->task_start[c->ranks]; i++)
    if (c->tasks[i].part == part && c->tasks[i].micro_batch == micro_batch) return result->times[i];
  fail_msg("part %d has no task of micro-batch %d", part, micro_batch);
  return (struct pipeline_time){0, 0};
}

/* Returns the part that runs a block forward, or backward. */
static int32_t part_of(const struct pipeline_schedule *c, int32_t block, bool forward) {
  int32_t part = 0;
  while (block < c->parts[part].begin || block >= c->parts[part].end ||
         c->parts[part].pass == (forward ? PIPELINE_BACKWARD : PIPELINE_FORWARD))
    part++;
  return part;
}

static uint64_t live(struct pipeline_time made, double until, double now, uint64_t bytes) {
  return made.start <= now && now < until ? bytes : 0;
}

/* Adds up what lies in the memory of all at a moment, of one micro-batch in rounds: borders from when they
 * are made until the last part that begins with them ends, gradients until the next part ends, and what is
 * made once alone. */
static uint64_t live_between(const struct pipeline_problem *p, const struct pipeline_schedule *c,
                             const struct pipeline_result *result, int32_t m, double now) {
  uint64_t bytes = 0;
  for (int32_t b = 0; b < p->block_count; b++) {
    const int32_t forward = part_of(c, b, true), back = part_of(c, b, false);
    const struct pipeline_time made = time_of(c, result, forward, m);
    if (forward != back) bytes += live(made, time_of(c, result, back, m).end, now, p->blocks[b].pinned);
    if (b + 1 == p->block_count) continue;
    const int32_t readers[] = {part_of(c, b + 1, true), part_of(c, b + 1, false)};
    double until = made.end;
    for (int k = 0; k < 2; k++)
      if (c->parts[readers[k]].begin == b + 1) until = fmax(until, time_of(c, result, readers[k], m).end);
    bytes += live(made, until, now, p->blocks[b].boundary);
  }
  for (int32_t i = 0; i + 1 < c->part_count; i++)
    if (c->parts[i].pass != PIPELINE_FORWARD)
      bytes += live(time_of(c, result, i, m), time_of(c, result, i + 1, m).end, now,
                    p->blocks[c->parts[i].begin - 1].boundary);
  return bytes;
}

/* Variables lie there once; nothing is sent; ranks count equal parts. */
static void test_common(void **state) {
  (void)state;
  struct pipeline_block blocks[6];
  int tried = 0;
  for (int i = 0; i < 100; i++) {
    struct pipeline_problem p = random_problem(blocks);
    struct pipeline_best best = {0};
    struct region region = {0};
    struct pipeline_result result;
    uint64_t most = 0, resident = 0;
    p.common = p.fixed = true;
    ASSERT_OK(pipeline_roundpipe(&p, &best));
    if (!best.found) continue;
    tried++;
    ASSERT_OK(pipeline_check(&p, &best.schedule));
    ASSERT_OK(pipeline_simulate(&p, &best.schedule, &region, &result));
    for (int32_t b = 0; b < p.block_count; b++) resident += blocks[b].resident;
    for (int32_t k = 0; k < best.schedule.task_start[p.ranks]; k++) {
      uint64_t bytes = 0;
      for (int32_t m = 0; m < p.micro_batches; m++)
        bytes += live_between(&p, &best.schedule, &result, m, result.times[k].start);
      most = bytes > most ? bytes : most;
    }
    assert_int_equal(result.common_bytes, resident + most);
    const uint64_t part = (result.common_bytes + (uint64_t)p.ranks - 1) / (uint64_t)p.ranks;
    for (int32_t r = 0; r < p.ranks; r++) assert_true(result.rank_bytes[r] >= part);
    p.bandwidth = 1e-9; /* nothing is sent */
    struct pipeline_result slow;
    ASSERT_OK(pipeline_simulate(&p, &best.schedule, &region, &slow));
    assert_true(slow.seconds == result.seconds);
    region_free(&region);
    pipeline_best_free(&best);
  }
  assert_true(tried > 50);
}

/* What the checker is for: each rule, broken. */
static void test_checker(void **state) {
  (void)state;
  struct pipeline_block blocks[3] = {{.forward = 1}, {.forward = 1}, {.forward = 1}};
  const struct pipeline_problem p = {.block_count = 3,
                                     .blocks = blocks,
                                     .ranks = 3,
                                     .micro_batches = 2,
                                     .bandwidth = 1,
                                     .budget = UINT64_MAX};
  const int32_t warmup[] = {2, 2, 1}, stuck[] = {1, 2, 1};
  for (int fault = 0; fault < 5; fault++) {
    struct pipeline_stages stages;
    struct pipeline_schedule c;
    ASSERT_OK(pipeline_stages_balance(&p, 3, false, &stages));
    ASSERT_OK(pipeline_stages_parts(&p, &stages, &c));
    pipeline_order_warmup(&c, fault == 1 ? stuck : warmup);
    if (fault == 2) c.parts[1].end = 3;
    if (fault == 3) c.tasks[0].micro_batch = 1;
    if (fault == 4) { /* backward of stage 0 on the rank of stage 1 */
      c.tasks[0].part = 1, c.tasks[1].part = 1;
      c.tasks[c.task_start[1]].part = 0, c.tasks[c.task_start[1] + 1].part = 0;
    }
    struct region region = {0};
    struct pipeline_result result;
    assert_int_equal(pipeline_check(&p, &c), fault == 0 ? NEAP_OK : NEAP_INVALID_PLAN);
    if (fault == 1) assert_int_equal(pipeline_simulate(&p, &c, &region, &result), NEAP_INVALID_PLAN);
    region_free(&region);
    pipeline_schedule_free(&c);
  }
}

int run_test_pipeline(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_published), cmocka_unit_test(test_formulas),
                                     cmocka_unit_test(test_small), cmocka_unit_test(test_common),
                                     cmocka_unit_test(test_checker)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
