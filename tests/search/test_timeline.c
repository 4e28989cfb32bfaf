/* The timeline against the simulator: after any insertion or removal it says what the simulator says of the
 * whole schedule, and refuses exactly what the simulator refuses. */
#include "effort.h"
#include "random_step.h"

#include <math.h>

#include "search/timeline.h"
#include "step/simulate.h"

enum { MOVES = 400, LENGTH_LIMIT = 4000 };

static int steps(void) { return quick_pass() ? 12 : 120; }

static void expect_same(const struct timeline *timeline, struct simulator *simulator,
                        const int32_t *schedule) {
  struct simulation score;
  assert_int_equal(simulator_run(simulator, schedule, timeline->length, &score), NEAP_OK);
  const uint64_t resident = timeline->step->resident_bytes;
  assert_int_equal(timeline_peak(timeline) + (int64_t)resident, score.peak_bytes);
  assert_true(fabs(timeline->cost - score.cost) < 1e-9 * score.cost);
  int64_t excess = 0;
  uint64_t area = 0;
  for (int32_t i = 0; i < timeline->length; i++) {
    const int64_t live = (int64_t)simulator->live.data[i];
    area += (uint64_t)live;
    excess += live > timeline->limit ? live - timeline->limit : 0;
  }
  /* The end of the step, a position here and not there, holds the outputs. */
  const int64_t end = timeline_live(timeline, timeline->end);
  assert_int_equal(timeline->excess, excess + (end > timeline->limit ? end - timeline->limit : 0));
  assert_int_equal(timeline->area, area + (uint64_t)end);
}

static int32_t run_at(const struct timeline *timeline, int32_t position) {
  int32_t run = timeline->blocks[timeline->at[0]].runs[0];
  while (position-- > 0) run = timeline_successor(timeline, run);
  return run;
}

/* What the simulator thinks of the schedule with one node more, or one position less. */
static bool valid_with(struct simulator *simulator, const int32_t *schedule, int32_t length, int32_t position,
                       int32_t node) {
  static int32_t changed[LENGTH_LIMIT];
  memcpy(changed, schedule, (size_t)position * sizeof *changed);
  int32_t count = position;
  if (node >= 0) changed[count++] = node;
  for (int32_t i = position + (node < 0); i < length; i++) changed[count++] = schedule[i];
  struct simulation score;
  return simulator_run(simulator, changed, count, &score) == NEAP_OK;
}

static void test_moves(void **state) {
  (void)state;
  int inserted = 0, removed = 0, refused = 0;
  for (int i = 0; i < steps(); i++) {
    neap_step *step = random_step((enum family)(i % FAMILY_COUNT), 3 + i % 60, (uint32_t)i + 1);
    if (i % 2 == 1) step = with_restorers(step, false, (uint32_t)i);
    static int32_t schedule[LENGTH_LIMIT];
    for (int32_t v = 0; v < step->node_count; v++) schedule[v] = v;
    struct simulator simulator;
    struct timeline timeline;
    assert_int_equal(simulator_create(step, &simulator), NEAP_OK);
    assert_int_equal(
        timeline_create(step, 200 + 20u * (unsigned)i, schedule, step->node_count, 500, &timeline), NEAP_OK);
    expect_same(&timeline, &simulator, schedule);
    uint32_t random = (uint32_t)i + 77;
    for (int k = 0; k < MOVES; k++) {
      const int32_t position = (int32_t)draw(&random, (uint32_t)timeline.length);
      const int32_t run = run_at(&timeline, position);
      const bool insert = draw(&random, 20) < (k < MOVES / 2 ? 14u : 8u);
      const int32_t node = insert ? (int32_t)draw(&random, (uint32_t)step->node_count) : -1;
      const bool valid = valid_with(&simulator, schedule, timeline.length, position, node);
      const bool done =
          insert ? timeline_insert(&timeline, node, run, false) >= 0 : timeline_remove(&timeline, run);
      assert_int_equal(done, valid);
      timeline_copy(&timeline, schedule);
      expect_same(&timeline, &simulator, schedule);
      inserted += done && insert;
      removed += done && !insert;
      refused += !done;
    }
    simulator_free(&simulator);
    timeline_free(&timeline);
    neap_step_free(step);
  }
  assert_true(inserted > 50 * steps() && removed > 10 * steps() && refused > 50 * steps());
}

/* Taken back in reverse, changes leave the schedule and its figures as they were. */
static void test_undo(void **state) {
  (void)state;
  for (int i = 0; i < steps(); i++) {
    neap_step *step = random_step((enum family)(i % FAMILY_COUNT), 5 + i % 60, (uint32_t)i + 1);
    static int32_t schedule[LENGTH_LIMIT], again[LENGTH_LIMIT];
    for (int32_t v = 0; v < step->node_count; v++) schedule[v] = v;
    struct timeline timeline;
    assert_int_equal(timeline_create(step, 300, schedule, step->node_count, 500, &timeline), NEAP_OK);
    const int64_t peak = timeline_peak(&timeline), excess = timeline.excess;
    const uint64_t area = timeline.area;
    static int32_t added[MOVES];
    int count = 0;
    uint32_t random = (uint32_t)i + 5;
    for (int k = 0; k < MOVES; k++) {
      const int32_t run = run_at(&timeline, (int32_t)draw(&random, (uint32_t)timeline.length));
      const int32_t made =
          timeline_insert(&timeline, (int32_t)draw(&random, (uint32_t)step->node_count), run, false);
      if (made >= 0) added[count++] = made;
    }
    while (count > 0) assert_true(timeline_remove(&timeline, added[--count]));
    timeline_copy(&timeline, again);
    assert_int_equal(timeline.length, step->node_count);
    assert_memory_equal(schedule, again, (size_t)step->node_count * sizeof *again);
    assert_int_equal(timeline_peak(&timeline), peak);
    assert_int_equal(timeline.excess, excess);
    assert_int_equal(timeline.area, area);
    timeline_free(&timeline);
    neap_step_free(step);
  }
}

int run_test_timeline(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_moves),
      cmocka_unit_test(test_undo),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
