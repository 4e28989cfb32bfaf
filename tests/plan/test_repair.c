/* Plans by repair and placement by ejection, on random steps: whatever the demand, the plan is valid by the
 * independent checker, the same every time, never worse than the schedule's own layout, and pays for itself.
 */
#include "effort.h"
#include "random_step.h"

#include <omp.h>

#include "layout/eject.h"
#include "layout/layout.h"
#include "layout/stages.h"
#include "plan/planners.h"
#include "plan/repair.h"
#include "step/lower_bound.h"

/* Sanitizers make everything twenty times slower: fewer steps then. */
static void expect_same(const neap_plan *a, const neap_plan *b) {
  assert_int_equal(a->length, b->length);
  assert_memory_equal(a->schedule, b->schedule, (size_t)a->length * sizeof *a->schedule);
  assert_int_equal(a->instance_count, b->instance_count);
  for (int32_t i = 0; i < a->instance_count; i++)
    assert_int_equal(a->instances[i].offset, b->instances[i].offset);
  assert_int_equal(a->arena_bytes, b->arena_bytes);
  assert_true(a->cost == b->cost);
}

static bool is_tight(const neap_plan *plan) {
  const uint64_t live = plan->live_peak_bytes - plan->resident_bytes;
  return plan->arena_bytes <= live + live / TIGHTNESS;
}

/* With sizes that are multiples of the alignment, as lowered steps have them. */
static neap_step *aligned_step(enum family family, int32_t forward, uint32_t seed) {
  neap_step *step = random_step(family, forward, seed);
  struct step_tensor *tensors = (struct step_tensor *)step->tensors;
  struct step_node *nodes = (struct step_node *)step->nodes;
  for (int32_t t = 0; t < step->tensor_count; t++) tensors[t].bytes *= LAYOUT_ALIGNMENT;
  for (int32_t v = 0; v < step->node_count; v++) nodes[v].workspace *= LAYOUT_ALIGNMENT;
  step->resident_bytes *= LAYOUT_ALIGNMENT;
  return step;
}

/* A schedule between the least and keeping everything. */
static bool find_schedule(const neap_step *step, int part, struct schedule *schedule) {
  struct schedule all = {0};
  struct simulation keep;
  const struct planner_options quick = {.effort = EFFORT_QUICK};
  assert_int_equal(planner_find("keep-all")->plan(step, UINT64_MAX, &quick, &all), NEAP_OK);
  assert_int_equal(simulate(step, all.nodes.data, (int32_t)all.nodes.count, &keep), NEAP_OK);
  schedule_free(&all);
  const uint64_t lowest = plan_lower_bound(step);
  const uint64_t budget = lowest + (keep.peak_bytes - lowest) * (uint64_t)part / 8;
  return planner_find("neap")->plan(step, budget, &quick, schedule) == NEAP_OK;
}

static void test_repaired_plans(void **state) {
  (void)state;
  int repaired = 0, mended = 0;
  for (int i = 0; i < shorten(60); i++) {
    neap_step *step = aligned_step((enum family)(i % FAMILY_COUNT), 6 + i % 50, (uint32_t)i + 9000);
    struct schedule schedule = {0};
    if (find_schedule(step, 2 + i % 6, &schedule)) {
      /* A little less than the schedule itself can be laid out in, or just that. */
      struct demand demand = {.planner = "neap", .goal = i % 3 > 0 ? GOAL_TIGHT : GOAL_FIT};
      struct neap_plan *plain, *plan, *again;
      assert_int_equal(plan_of_schedule(step, &schedule, &demand, &plain), NEAP_OK);
      const uint64_t less = LAYOUT_ALIGNMENT * (uint64_t)(i % 5);
      demand.capacity = plain->arena_bytes > less ? plain->arena_bytes - less : plain->arena_bytes;
      demand.effort = i % 4 == 0 ? EFFORT_QUICK : EFFORT_USUAL;
      neap_plan_free(plain);
      assert_int_equal(plan_of_schedule(step, &schedule, &demand, &plain), NEAP_OK);
      assert_int_equal(plan_by_repair(step, &schedule, NULL, &demand, &plan), NEAP_OK);
      assert_int_equal(plan_by_repair(step, &schedule, NULL, &demand, &again), NEAP_OK);
      expect_valid(step, plain);
      expect_valid(step, plan);
      for (int32_t k = 0; k < plan->instance_count; k++)
        assert_int_equal(plan->instances[k].offset % LAYOUT_ALIGNMENT, 0);
      expect_same(plan, again);
      const bool plain_fits = plain->arena_bytes <= demand.capacity,
                 fits = plan->arena_bytes <= demand.capacity;
      const bool plain_tight = is_tight(plain) || demand.goal == GOAL_FIT,
                 tight = is_tight(plan) || demand.goal == GOAL_FIT;
      assert_true(fits || !plain_fits);
      if (!fits) assert_true(plan->arena_bytes <= plain->arena_bytes);
      /* What is asked for is as it was; what costs more, or holds more, brings what was missing. */
      if (plain_fits && (plain_tight || demand.effort == EFFORT_QUICK)) expect_same(plan, plain);
      if (plain_fits) assert_true(tight || (!plain_tight && plan->cost <= plain->cost));
      if (plain_fits && plan->cost > plain->cost) assert_true(tight && !plain_tight);
      repaired += !plain_fits;
      mended += fits && !plain_fits;
      neap_plan_free(plain);
      neap_plan_free(plan);
      neap_plan_free(again);
    }
    schedule_free(&schedule);
    neap_step_free(step);
  }
  assert_true(repaired >= shorten(60) / 20); /* some are in need of it, and some are helped */
  assert_true(2 * mended >= repaired);
}

/* The instances one above the other, as if nothing could share bytes: far from tight. */
static neap_plan *heap_up(const neap_step *step, const struct schedule *schedule) {
  struct demand demand = {.planner = "neap", .effort = EFFORT_QUICK};
  neap_plan *laid_out, *heap;
  assert_int_equal(plan_of_schedule(step, schedule, &demand, &laid_out), NEAP_OK);
  struct placed *placed = malloc(((size_t)laid_out->instance_count + 1) * sizeof *placed);
  assert_non_null(placed);
  struct neap_plan draft = *laid_out;
  draft.arena_bytes = 0;
  for (int32_t i = 0; i < draft.instance_count; i++) {
    placed[i] = laid_out->instances[i];
    placed[i].offset = draft.arena_bytes;
    draft.arena_bytes += placed[i].bytes;
  }
  draft.instances = placed;
  assert_int_equal(plan_create(&draft, &heap), NEAP_OK);
  free(placed);
  neap_plan_free(laid_out);
  return heap;
}

static void test_tightened_plans(void **state) {
  (void)state;
  int seen = 0, tight = 0;
  for (int i = 0; i < shorten(30); i++) {
    neap_step *step = aligned_step((enum family)(i % FAMILY_COUNT), 6 + i % 50, (uint32_t)i + 5000);
    struct schedule schedule = {0};
    if (find_schedule(step, 2 + i % 6, &schedule)) {
      neap_plan *heap = heap_up(step, &schedule), *plan = heap_up(step, &schedule),
                *least = heap_up(step, &schedule), *again = heap_up(step, &schedule);
      expect_valid(step, heap);
      assert_int_equal(plan_tighten(step, false, &plan), NEAP_OK);
      assert_int_equal(plan_tighten(step, true, &least), NEAP_OK);
      assert_int_equal(plan_tighten(step, true, &again), NEAP_OK);
      expect_valid(step, plan);
      expect_valid(step, least);
      expect_same(least, again);
      assert_int_equal(least->length, heap->length);
      assert_memory_equal(least->schedule, heap->schedule, (size_t)heap->length * sizeof *heap->schedule);
      assert_true(plan->arena_bytes <= heap->arena_bytes && least->arena_bytes <= heap->arena_bytes);
      if (is_tight(plan)) {
        const neap_plan *before = plan;
        assert_int_equal(plan_tighten(step, true, &plan), NEAP_OK);
        assert_ptr_equal(plan, before);
      }
      seen++;
      tight += is_tight(plan);
      neap_plan_free(heap);
      neap_plan_free(plan);
      neap_plan_free(least);
      neap_plan_free(again);
    }
    schedule_free(&schedule);
    neap_step_free(step);
  }
  assert_true(seen >= shorten(30) / 2 && 10 * tight >= 7 * seen);
}

/* Searches, layouts and repairs are shared among threads: of whole plans, whatever their number, the same. */
static void test_any_number_of_threads(void **state) {
  (void)state;
  const int usual = omp_get_max_threads();
  int recomputed = 0;
  for (int i = 0; i < shorten(12); i++) {
    neap_step *step = random_step(i % 2 ? FAMILY_DENSE : FAMILY_LAYERED, 40 + 3 * i, (uint32_t)i + 700);
    const uint64_t lowest = plan_lower_bound(step);
    const char *planner = i % 3 == 0 ? "auto" : "neap";
    uint64_t most, smallest, same;
    neap_plan *alone, *shared;
    assert_int_equal(neap_step_keep_all_bytes(step, &most), NEAP_OK);
    const uint64_t budget = lowest + (most - lowest) / 10 * (uint64_t)(6 + i % 3);
    omp_set_num_threads(1);
    const neap_status status = neap_plan_make(step, budget, planner, &smallest, &alone);
    omp_set_num_threads(3);
    assert_int_equal(neap_plan_make(step, budget, planner, &same, &shared), status);
    omp_set_num_threads(usual);
    assert_int_equal(smallest, same);
    if (status == NEAP_OK) {
      expect_valid(step, alone);
      expect_same(alone, shared);
      recomputed += alone->recomputed > 0;
      neap_plan_free(alone);
      neap_plan_free(shared);
    }
    neap_step_free(step);
  }
  assert_true(recomputed >= shorten(12) / 2);
}

/* ---- Ejection ---- */

enum { SHAPES = 60, SPANS = 3 * SHAPES };

struct pile {
  int32_t count;
  struct shape shapes[SHAPES];
  struct span spans[SPANS];
  uint64_t hidden[SHAPES]; /* a placement within the capacity */
  int32_t heir_of[SHAPES];
};

/* A capacity that is cut into layers, each of which is cut in time: full everywhere. Some shapes may share
 * their offset with the one before them in the layer, whose last position is their first. */
static void fill_pile(uint32_t *random, uint64_t capacity, int64_t length, struct pile *p) {
  p->count = 0;
  for (uint64_t floor = 0; floor < capacity;) {
    uint64_t thick = 1 + draw(random, 12);
    if (thick > capacity - floor) thick = capacity - floor;
    for (int64_t at = 0; at < length && p->count < SHAPES;) {
      int64_t until = at + 2 + draw(random, 20);
      if (until > length) until = length;
      const bool shares = at > 0 && draw(random, 4) == 0;
      const int32_t i = p->count++;
      p->shapes[i] = (struct shape){.first = 2 * i, .count = 1};
      p->spans[2 * i] = (struct span){at - shares, until, thick};
      if (until - at > 4 && draw(random, 3) == 0) { /* two spans, the second no larger */
        p->shapes[i].count = 2;
        p->spans[2 * i].upper = at + 2;
        p->spans[2 * i + 1] = (struct span){at + 2, until, 1 + draw(random, (uint32_t)thick)};
      }
      p->heir_of[i] = shares ? i - 1 : -1;
      p->hidden[i] = floor;
      at = until;
    }
    floor += thick;
  }
}

static void expect_placed(const struct pile *p, uint64_t capacity, const uint64_t *offsets) {
  for (int32_t a = 0; a < p->count; a++)
    for (int32_t k = p->shapes[a].first; k < p->shapes[a].first + p->shapes[a].count; k++) {
      const struct span *x = &p->spans[k];
      assert_true(offsets[a] <= capacity && x->size <= capacity - offsets[a]);
      for (int32_t b = 0; b < a; b++) {
        if ((p->heir_of[a] == b || p->heir_of[b] == a) && offsets[a] == offsets[b]) continue;
        for (int32_t l = p->shapes[b].first; l < p->shapes[b].first + p->shapes[b].count; l++) {
          const struct span *y = &p->spans[l];
          assert_true(x->lower >= y->upper || y->lower >= x->upper || offsets[a] + x->size <= offsets[b] ||
                      offsets[b] + y->size <= offsets[a]);
        }
      }
    }
}

static void test_ejection(void **state) {
  (void)state;
  int found_count = 0;
  const int count = shorten(1000);
  for (int i = 0; i < count; i++) {
    uint32_t random = (uint32_t)i * 2654435761u + 11;
    struct pile pile;
    uint64_t offsets[SHAPES], before[SHAPES];
    const uint64_t capacity = 16 + draw(&random, 32);
    fill_pile(&random, capacity, 40, &pile);
    /* From scratch; from the placement itself; from one that is right but too high. */
    for (int32_t k = 0; k < pile.count; k++)
      offsets[k] = i % 3 == 0 ? UINT64_MAX : pile.hidden[k] + (i % 3 == 2 ? 7 : 0);
    memcpy(before, offsets, sizeof before);
    int64_t work = i % 5 == 0 ? 100 : 300000;
    bool found;
    const struct packing packing = {pile.shapes, pile.count, pile.spans, pile.heir_of};
    assert_int_equal(place_by_ejection(&packing, NULL, capacity, &work, offsets, &found), NEAP_OK);
    if (found)
      expect_placed(&pile, capacity, offsets);
    else
      assert_memory_equal(offsets, before, (size_t)pile.count * sizeof *offsets);
    if (i % 3 == 1) assert_true(found);
    found_count += found;
  }
  assert_true(found_count > count / 2);
}

/* Those of later stages have no place of their own to begin with, whatever is given. */
static void test_stages(void **state) {
  (void)state;
  int found_count = 0;
  const int count = shorten(500);
  for (int i = 0; i < count; i++) {
    uint32_t random = (uint32_t)i * 2654435761u + 23;
    struct pile pile;
    uint64_t offsets[SHAPES];
    int32_t stage_of[SHAPES];
    const uint64_t capacity = 16 + draw(&random, 32);
    fill_pile(&random, capacity, 40, &pile);
    memcpy(offsets, pile.hidden, sizeof offsets);
    for (int32_t k = 0; k < pile.count; k++) stage_of[k] = (int32_t)draw(&random, 3);
    int64_t work = i % 5 == 0 ? 10 : 300000;
    bool found;
    const struct packing packing = {pile.shapes, pile.count, pile.spans, pile.heir_of};
    assert_int_equal(place_by_ejection(&packing, stage_of, capacity, &work, offsets, &found), NEAP_OK);
    if (found)
      expect_placed(&pile, capacity, offsets);
    else
      assert_memory_equal(offsets, pile.hidden, (size_t)pile.count * sizeof *offsets);
    found_count += found;
  }
  assert_true(found_count > count / 2);
}

/* Full at both ends of the time and not in between. What is found is right, whether it keeps the capacity or
 * not. */
static void test_tight_first(void **state) {
  (void)state;
  int kept = 0;
  const int count = shorten(500);
  for (int i = 0; i < count; i++) {
    uint32_t random = (uint32_t)i * 2654435761u + 5;
    struct pile pile;
    uint64_t offsets[SHAPES], height;
    const uint64_t capacity = 16 + draw(&random, 32), threshold = capacity * (50 + (uint64_t)i % 50) / 100;
    fill_pile(&random, capacity, 40, &pile);
    for (int32_t k = 0; k < pile.count; k++) offsets[k] = UINT64_MAX;
    for (int32_t k = 0; k < pile.count; k++)
      for (int32_t l = pile.shapes[k].first; l < pile.shapes[k].first + pile.shapes[k].count; l++)
        if (pile.spans[l].lower >= 8 && pile.spans[l].upper <= 32)
          pile.spans[l].size = (pile.spans[l].size + 1) / 2;
    int64_t work = i % 5 == 0 ? 10 : 100000;
    const struct packing packing = {pile.shapes, pile.count, pile.spans, i % 2 ? pile.heir_of : NULL};
    if (packing.heir_of == NULL)
      for (int32_t k = 0; k < pile.count; k++) pile.heir_of[k] = -1;
    assert_int_equal(place_in_stages(&packing, TIGHT_FIRST, threshold, capacity, &work, offsets, &height),
                     NEAP_OK);
    if (height < UINT64_MAX) expect_placed(&pile, height, offsets);
    kept += height <= capacity;
  }
  assert_true(kept > count / 3);
}

int run_test_repair(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_repaired_plans),
                                     cmocka_unit_test(test_tightened_plans),
                                     cmocka_unit_test(test_any_number_of_threads),
                                     cmocka_unit_test(test_ejection),
                                     cmocka_unit_test(test_stages),
                                     cmocka_unit_test(test_tight_first)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
