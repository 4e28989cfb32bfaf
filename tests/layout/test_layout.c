/* The layout solver on random buffers: valid by a look at every pair, optimal where all orders can be tried,
 * and as low as it must be where buffers were cut out of a full rectangle. */
#include <omp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "effort.h"
#include "layout/layout.h"
#include "layout/stages.h"
#include "neap.h"
#include "testing.h"

enum { LIMIT = 4000, SMALL = 20 };

/* Sanitizers make everything twenty times slower: fewer rounds then. */
static uint32_t draw(uint32_t *random, uint32_t below) {
  *random = *random * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)*random * below >> 32);
}

/* ---- Oracles ---- */

static void expect_valid(const neap_buffer *buffers, int64_t count, const neap_layout_result *result) {
  uint64_t highest = 0;
  for (int64_t i = 0; i < count; i++) {
    const neap_buffer *a = &buffers[i];
    assert_true(a->offset <= UINT64_MAX - a->size);
    if (a->size > 0 && a->offset + a->size > highest) highest = a->offset + a->size;
    for (int64_t k = 0; k < i; k++) {
      const neap_buffer *b = &buffers[k];
      if (a->size == 0 || b->size == 0 || a->lower >= b->upper || b->lower >= a->upper) continue;
      assert_true(a->offset + a->size <= b->offset || b->offset + b->size <= a->offset);
    }
  }
  assert_int_equal(result->height, highest);
  assert_true(result->lower_bound <= highest);
  if (highest == result->lower_bound) assert_true(result->proven_optimal);
}

/* The sum of sizes at the beginning of each buffer. */
static uint64_t most_live(const neap_buffer *buffers, int64_t count) {
  uint64_t most = 0;
  for (int64_t i = 0; i < count; i++) {
    uint64_t live = 0;
    for (int64_t k = 0; k < count; k++)
      if (buffers[k].lower <= buffers[i].lower && buffers[i].lower < buffers[k].upper)
        live += buffers[k].size;
    if (live > most) most = live;
  }
  return most;
}

/* The least height of shapes piled up in every order, each on top of all before it that it meets: any
 * layout, pushed down, is such a pile. */
static uint64_t least_pile(const struct shape *shapes, int32_t count, const struct span *spans,
                           uint64_t *offsets, uint32_t placed, uint64_t height, uint64_t best) {
  if (height >= best) return best;
  if (placed == (1u << count) - 1) return height;
  for (int32_t i = 0; i < count; i++) {
    if (placed >> i & 1) continue;
    uint64_t top = height;
    offsets[i] = 0;
    for (int32_t k = 0; k < count; k++)
      for (int32_t p = shapes[i].first; p < shapes[i].first + shapes[i].count && placed >> k & 1; p++)
        for (int32_t q = shapes[k].first; q < shapes[k].first + shapes[k].count; q++)
          if (spans[p].lower < spans[q].upper && spans[q].lower < spans[p].upper &&
              offsets[k] + spans[q].size > offsets[i])
            offsets[i] = offsets[k] + spans[q].size;
    for (int32_t p = shapes[i].first; p < shapes[i].first + shapes[i].count; p++)
      if (offsets[i] + spans[p].size > top) top = offsets[i] + spans[p].size;
    best = least_pile(shapes, count, spans, offsets, placed | 1u << i, top, best);
  }
  return best;
}

/* Whether buffers by rising `lower` fit under a height of at most 63 bytes: every offset of each, in turn. */
static bool fits(neap_buffer *buffers, int32_t count, int32_t next, uint64_t height) {
  if (next == count) return true;
  uint64_t taken = 0;
  neap_buffer *b = &buffers[next];
  for (int32_t i = 0; i < next; i++)
    if (buffers[i].upper > b->lower) taken |= (((uint64_t)1 << buffers[i].size) - 1) << buffers[i].offset;
  for (b->offset = 0; b->offset + b->size <= height; b->offset++)
    if ((taken & (((uint64_t)1 << b->size) - 1) << b->offset) == 0 && fits(buffers, count, next + 1, height))
      return true;
  return false;
}

static int by_lower(const void *a, const void *b) {
  const neap_buffer *x = a, *y = b;
  return (x->lower > y->lower) - (x->lower < y->lower);
}

static uint64_t least_height(const neap_buffer *buffers, int32_t count) {
  neap_buffer sorted[SMALL];
  uint64_t height = most_live(buffers, count);
  memcpy(sorted, buffers, (size_t)count * sizeof *sorted);
  qsort(sorted, (size_t)count, sizeof *sorted, by_lower);
  while (!fits(sorted, count, 0, height)) height++;
  return height;
}

/* ---- Properties ---- */

static int64_t random_buffers(uint32_t *random, int64_t count, uint32_t time, uint32_t size,
                              neap_buffer *buffers) {
  for (int64_t i = 0; i < count; i++) {
    const uint32_t lower = draw(random, time);
    const uint32_t length = draw(random, 4) == 0 ? time : time < 12 ? 3 : time / 6;
    uint32_t upper = lower + 1 + draw(random, length);
    if (upper > time) upper = time;
    buffers[i] = (neap_buffer){.lower = lower, .upper = upper, .size = 1 + draw(random, size)};
  }
  return count;
}

/* At each position some end and others begin with the same sum, so that all positions are full: what makes
 * room need not lie together. Returns how many there are. */
static int32_t full_buffers(uint32_t *random, int32_t most, neap_buffer *buffers) {
  int32_t count = 0;
  uint64_t room = 5 + draw(random, 3);
  for (int64_t at = 0; at < 8; at++) {
    const bool whole = at % 2 == 1; /* small ones make room for one large, which makes room for small ones */
    for (; room > 0 && count < most; count++) {
      const uint64_t size =
          whole || count + 1 == most ? room : 1 + draw(random, room > 2 ? 2 : (uint32_t)room);
      buffers[count] = (neap_buffer){at, 8, size, 0};
      room -= size;
    }
    for (int32_t i = 0; i < count && count < most; i++) {
      if (buffers[i].upper < 8 || buffers[i].lower > at || draw(random, 2) > 0) continue;
      buffers[i].upper = at + 1;
      room += buffers[i].size;
    }
  }
  return count;
}

static void test_small(void **state) {
  (void)state;
  int above = 0;
  for (int i = 0; i < shorten(2000); i++) {
    uint32_t random = (uint32_t)i * 2654435761u + 1;
    neap_buffer buffers[SMALL];
    const int32_t count =
        i % 4 > 0 ? full_buffers(&random, SMALL, buffers) : 1 + (int32_t)draw(&random, SMALL - 6);
    if (i % 4 == 0) random_buffers(&random, count, 4 + draw(&random, 4), 4, buffers);
    const uint64_t least = least_height(buffers, count);
    neap_layout_result result;
    assert_int_equal(neap_layout_solve(buffers, count, 0, &result), NEAP_OK);
    expect_valid(buffers, count, &result);
    assert_int_equal(result.height, least);
    assert_int_equal(result.lower_bound, most_live(buffers, count));
    assert_true(result.proven_optimal);
    above += least > result.lower_bound;
    assert_int_equal(neap_layout_solve(buffers, count, least, &result), NEAP_OK);
    expect_valid(buffers, count, &result);
    if (least == 1) continue;
    assert_int_equal(neap_layout_solve(buffers, count, least - 1, &result), NEAP_OVER_BUDGET);
    assert_non_null(strstr(neap_error_message(), "no layout exists within"));
    expect_valid(buffers, count, &result);
    assert_int_equal(result.height, least);
  }
  assert_true(above > 0); /* some that the bound alone does not decide: they are rare */
}

/* Shapes of several spans: chains in which each takes over the bytes of the one before. */
static void test_small_shapes(void **state) {
  (void)state;
  int above = 0;
  for (int i = 0; i < shorten(3000); i++) {
    uint32_t random = (uint32_t)i * 2246822519u + 7;
    struct shape shapes[6] = {0};
    struct span spans[18];
    uint64_t offsets[6];
    const int32_t count = 2 + (int32_t)draw(&random, 5);
    int32_t filled = 0;
    for (int32_t k = 0; k < count; k++) {
      shapes[k].first = filled;
      shapes[k].count = 1 + (int32_t)draw(&random, 3);
      int64_t at = draw(&random, 6);
      for (int32_t p = 0; p < shapes[k].count; p++) {
        const int64_t until = at + 1 + draw(&random, 3);
        spans[filled++] = (struct span){at, until, 1 + draw(&random, 6)};
        at = until;
      }
    }
    const uint64_t least = least_pile(shapes, count, spans, offsets, 0, 0, UINT64_MAX);
    struct placement_result result;
    const struct placement_limits limits = {.searched = 50000000, .closing = 50000000};
    const struct packing packing = {shapes, count, spans, NULL};
    assert_int_equal(place_shapes(&packing, &limits, offsets, &result), NEAP_OK);
    assert_int_equal(result.height, least);
    assert_int_equal(result.least, least);
    above += least > result.lower_bound;
    for (int32_t a = 0; a < count; a++)
      for (int32_t b = 0; b < a; b++)
        for (int32_t p = shapes[a].first; p < shapes[a].first + shapes[a].count; p++)
          for (int32_t q = shapes[b].first; q < shapes[b].first + shapes[b].count; q++)
            assert_true(spans[p].lower >= spans[q].upper || spans[q].lower >= spans[p].upper ||
                        offsets[a] + spans[p].size <= offsets[b] || offsets[b] + spans[q].size <= offsets[a]);
  }
  assert_true(above >= shorten(60));
}

static void test_large(void **state) {
  (void)state;
  neap_buffer *buffers = calloc(LIMIT, sizeof *buffers), *again = calloc(LIMIT, sizeof *again);
  assert_true(buffers != NULL && again != NULL);
  for (int i = 0; i < shorten(20); i++) {
    uint32_t random = (uint32_t)i + 99;
    const int64_t count = random_buffers(&random, i % 10 == 0 ? 1500 : 20 + i * 3, 300, 1u << 20, buffers);
    const uint64_t capacity = most_live(buffers, count) * 5 / 4;
    memcpy(again, buffers, (size_t)count * sizeof *buffers);
    neap_layout_result result, other;
    const neap_status status = neap_layout_solve(buffers, count, capacity, &result);
    expect_valid(buffers, count, &result);
    assert_int_equal(status, result.height <= capacity ? NEAP_OK : NEAP_OVER_BUDGET);
    assert_int_equal(neap_layout_solve(again, count, capacity, &other), status);
    assert_int_equal(memcmp(buffers, again, (size_t)count * sizeof *buffers), 0);
    assert_int_equal(other.height, result.height);
  }
  free(buffers);
  free(again);
}

/* Cuts a rectangle of time and bytes into buffers that fill it, and shuffles them. */
static int64_t cut(uint32_t *random, int64_t wanted, neap_buffer *buffers) {
  int64_t count = 1;
  buffers[0] = (neap_buffer){.lower = 0, .upper = 512, .size = 1 << 20};
  while (count < wanted) {
    neap_buffer *a = &buffers[draw(random, (uint32_t)count)], *b = &buffers[count];
    const uint64_t length = (uint64_t)(a->upper - a->lower), units = a->size >> 10;
    if (length * units < draw(random, 512 * 1024) / (uint32_t)count) continue; /* larger ones rather */
    *b = *a;
    if (draw(random, 2) == 0 && units > 1) {
      a->size = (uint64_t)(1 + draw(random, (uint32_t)units - 1)) << 10;
      b->size -= a->size;
    } else if (length > 1) {
      a->upper = b->lower = a->lower + 1 + draw(random, (uint32_t)length - 1);
    } else {
      continue;
    }
    count++;
  }
  for (int64_t i = count - 1; i > 0; i--) {
    const int64_t k = draw(random, (uint32_t)i + 1);
    const neap_buffer other = buffers[k];
    buffers[k] = buffers[i];
    buffers[i] = other;
  }
  return count;
}

/* What fills the rectangle, whole or with some left out, cut short or made smaller, is found in it. */
static void test_full(void **state) {
  (void)state;
  neap_buffer buffers[300];
  neap_layout_result result;
  for (int i = 0; i < shorten(1000); i++) {
    uint32_t random = (uint32_t)i * 2654435761u + 5;
    const int64_t count = cut(&random, i % 25 == 0 ? 20 + i / 5 : 5 + (int64_t)draw(&random, 25), buffers);
    for (int64_t k = 0; k < count && i % 2 == 1; k++) {
      const uint32_t what = draw(&random, 12);
      if (what == 0) buffers[k].size = 0;
      if (what == 1) buffers[k].size = buffers[k].size / 2 + 1;
      if (what == 2) buffers[k].upper -= (buffers[k].upper - buffers[k].lower) / 2;
      if (what == 3) buffers[k].lower += (buffers[k].upper - buffers[k].lower) / 2;
    }
    assert_int_equal(neap_layout_solve(buffers, count, 1 << 20, &result), NEAP_OK);
    expect_valid(buffers, count, &result);
    assert_true(result.height <= 1 << 20);
    if (i % 2 == 1) continue;
    assert_int_equal(result.height, 1 << 20);
    assert_int_equal(neap_layout_solve(buffers, count, (1 << 20) - 1, &result), NEAP_OVER_BUDGET);
    assert_int_equal(result.height, 1 << 20);
  }
}

/* Orders are tried side by side where threads are free; what comes out is the same. */
static void test_any_number_of_threads(void **state) {
  (void)state;
  enum { COUNT = 120 };
  const struct placement_limits limits = {.searched = 40000000, .staged = 4000000, .closing = 16000000};
  const int usual = omp_get_max_threads();
  int met = 0, missed = 0;
  for (int i = 0; i < 20; i += shorten(10) < 10 ? 3 : 1) {
    uint32_t random = (uint32_t)i + 31;
    neap_buffer buffers[COUNT];
    struct shape shapes[COUNT];
    struct span spans[COUNT];
    uint64_t offsets[2][COUNT];
    struct placement_result result[2];
    cut(&random, COUNT, buffers);
    for (int k = 0; k < COUNT && i % 2 == 1; k++) buffers[k].size += draw(&random, 4096); /* full no longer */
    for (int32_t k = 0; k < COUNT; k++) {
      spans[k] = (struct span){buffers[k].lower, buffers[k].upper, buffers[k].size};
      shapes[k] = (struct shape){.first = k, .count = 1};
    }
    const struct packing packing = {shapes, COUNT, spans, NULL};
    for (int r = 0; r < 2; r++) {
      omp_set_num_threads(r == 0 ? 1 : 3);
      assert_int_equal(place_shapes(&packing, &limits, offsets[r], &result[r]), NEAP_OK);
    }
    omp_set_num_threads(usual);
    assert_int_equal(result[0].height, result[1].height);
    assert_int_equal(result[0].least, result[1].least);
    assert_memory_equal(offsets[0], offsets[1], sizeof *offsets);
    *(result[0].height == result[0].lower_bound ? &met : &missed) += 1;
  }
  assert_true(met > 0 && missed > 0);
}

/* ---- Cases of their own ---- */

static void test_windows(void **state) {
  (void)state;
  neap_buffer buffers[40];
  uint64_t least = 0;
  for (int w = 0; w < 8; w++) {
    uint32_t random = (uint32_t)w + 3;
    neap_buffer *part = &buffers[5 * w];
    random_buffers(&random, 5, 8, 20, part);
    const uint64_t height = least_height(part, 5);
    if (height > least) least = height;
    for (int i = 0; i < 5; i++) {
      part[i].lower += 8 * w; /* windows touch, and nothing crosses */
      part[i].upper += 8 * w;
    }
  }
  neap_layout_result result;
  assert_int_equal(neap_layout_solve(buffers, 40, 0, &result), NEAP_OK);
  expect_valid(buffers, 40, &result);
  assert_int_equal(result.height, least);
  assert_true(result.proven_optimal);
}

static void test_equal(void **state) {
  (void)state;
  neap_buffer buffers[60];
  for (int i = 0; i < 60; i++) buffers[i] = (neap_buffer){i / 20 * 2, i / 20 * 2 + 3, 7, 0};
  neap_layout_result result;
  assert_int_equal(neap_layout_solve(buffers, 60, 0, &result), NEAP_OK);
  expect_valid(buffers, 60, &result);
  assert_int_equal(result.height, 40 * 7); /* the first and the third group share */
  assert_int_equal(neap_layout_solve(buffers, 60, 40 * 7 - 1, &result), NEAP_OVER_BUDGET);
}

static void test_edges(void **state) {
  (void)state;
  neap_layout_result result;
  assert_int_equal(neap_layout_solve(NULL, 0, 0, &result), NEAP_OK);
  assert_int_equal(result.height, 0);
  assert_true(result.proven_optimal);

  neap_buffer touching[] = {{0, 3, 4, 0}, {3, 9, 4, 0}, {0, 9, 4, 0}, {9, 21, 4, 0}, {0, 21, 4, 0}};
  assert_int_equal(neap_layout_solve(touching, 5, 12, &result), NEAP_OK);
  expect_valid(touching, 5, &result);
  assert_int_equal(result.height, 12);
  assert_int_equal(neap_layout_solve(touching, 5, 11, &result), NEAP_OVER_BUDGET);

  neap_buffer empty[] = {{0, 9, 0, 0}, {2, 3, 0, 0}};
  assert_int_equal(neap_layout_solve(empty, 2, 0, &result), NEAP_OK);
  assert_int_equal(result.height, 0);
  neap_buffer some_empty[] = {{0, 9, 0, 0}, {2, 5, 8, 0}, {4, 6, 8, 0}};
  assert_int_equal(neap_layout_solve(some_empty, 3, 16, &result), NEAP_OK);
  expect_valid(some_empty, 3, &result);

  neap_buffer backwards[] = {{0, 3, 4, 0}, {3, 3, 4, 0}};
  assert_int_equal(neap_layout_solve(backwards, 2, 0, &result), NEAP_INVALID_ARGUMENT);
  assert_int_equal(neap_layout_solve(backwards, -1, 0, &result), NEAP_INVALID_ARGUMENT);
}

static void test_extremes(void **state) {
  (void)state;
  const uint64_t half = (uint64_t)1 << 63;
  neap_layout_result result;
  neap_buffer too_much[] = {{0, 3, half, 0}, {2, 5, half, 0}};
  assert_int_equal(neap_layout_solve(too_much, 2, 0, &result), NEAP_TOO_LARGE);
  too_much[1].lower = 3;
  assert_int_equal(neap_layout_solve(too_much, 2, 0, &result), NEAP_OK);
  expect_valid(too_much, 2, &result);
  assert_int_equal(result.height, half);

  /* The sizes fit and the capacity is the largest there is; a pile of all three does not fit. */
  neap_buffer large[] = {{0, 2, half, 0}, {2, 4, half, 0}, {1, 3, half - 3, 0}, {0, 4, 1, 0}};
  assert_int_equal(neap_layout_solve(large, 4, UINT64_MAX, &result), NEAP_OK);
  expect_valid(large, 4, &result);
  neap_buffer all_time[] = {{INT64_MIN, INT64_MAX, 5, 0}, {INT64_MIN, 0, 6, 0}, {0, INT64_MAX, 6, 0}};
  assert_int_equal(neap_layout_solve(all_time, 3, 0, &result), NEAP_OK);
  expect_valid(all_time, 3, &result);
  assert_int_equal(result.height, 11);
}

/* An output that takes over an input's bytes and is not read: it needs nothing beyond that position. */
static void test_dies_in_place(void **state) {
  (void)state;
  const struct instance instances[] = {{.tensor = 0, .at = 0, .last = 1, .takes_over = -1, .bytes = 128},
                                       {.tensor = 1, .at = 1, .last = 1, .takes_over = 0, .bytes = 64},
                                       {.tensor = 2, .at = 1, .last = 2, .takes_over = -1, .bytes = 64},
                                       {.tensor = 3, .at = 2, .last = 3, .takes_over = -1, .bytes = 128}};
  const struct layout_limits limits = {.enough = 0};
  struct layout layout;
  assert_int_equal(layout_instances(instances, 4, &limits, &layout), NEAP_OK);
  assert_int_equal(layout.live_bytes, 192);
  assert_int_equal(layout.arena_bytes, 192);
  free(layout.offsets);
}

/* A few large shapes among many small ones: whatever is placed in stages lies apart and below the height that
 * is said, however little work may be done. */
static void test_stages(void **state) {
  (void)state;
  enum { COUNT = 120 };
  uint32_t random = 5;
  int placed[STAGINGS] = {0}, kept[STAGINGS] = {0};
  for (int round = 0; round < shorten(60); round++) {
    struct shape shapes[COUNT];
    struct span spans[COUNT];
    neap_buffer buffers[COUNT];
    uint64_t offsets[COUNT], again[COUNT], height, same, highest = 0;
    for (int32_t i = 0; i < COUNT; i++) {
      const int64_t lower = draw(&random, 60), upper = lower + 1 + draw(&random, 20);
      const uint64_t size = draw(&random, 4) == 0 ? 64 * (1 + draw(&random, 8)) : 1 + draw(&random, 7);
      shapes[i] = (struct shape){.first = i, .count = 1};
      spans[i] = (struct span){lower, upper, size};
    }
    const struct packing packing = {shapes, COUNT, spans, NULL};
    const enum staging staging = round % STAGINGS;
    const uint64_t goal = 4000 + draw(&random, 4000);
    const uint64_t threshold = staging == TIGHT_FIRST ? goal / 100 * (50 + draw(&random, 50)) : goal / 128;
    int64_t work = 1 + draw(&random, 4000000);
    int64_t rest = work;
    const int64_t given = work;
    /* They lie nowhere, or one above the other. */
    const bool lies = draw(&random, 2) == 0;
    for (int32_t i = 0; i < COUNT; i++) {
      offsets[i] = again[i] = lies ? highest : UINT64_MAX;
      highest += spans[i].size;
    }
    highest = 0;
    assert_int_equal(place_in_stages(&packing, staging, threshold, goal, &work, offsets, &height), NEAP_OK);
    assert_int_equal(place_in_stages(&packing, staging, threshold, goal, &rest, again, &same), NEAP_OK);
    assert_true(work <= given);
    assert_int_equal(work, rest);
    assert_int_equal(height, same);
    if (height == UINT64_MAX) continue;
    placed[staging]++;
    kept[staging] += height <= goal;
    assert_memory_equal(offsets, again, sizeof offsets);
    for (int32_t i = 0; i < COUNT; i++) {
      buffers[i] = (neap_buffer){spans[i].lower, spans[i].upper, spans[i].size, offsets[i]};
      if (offsets[i] + spans[i].size > highest) highest = offsets[i] + spans[i].size;
    }
    const neap_layout_result result = {.height = highest};
    expect_valid(buffers, COUNT, &result);
    assert_int_equal(height, highest);
  }
  for (int s = 0; s < STAGINGS; s++) assert_true(placed[s] > 0 && kept[s] > 0);
}

int run_test_layout(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_small),
                                     cmocka_unit_test(test_small_shapes),
                                     cmocka_unit_test(test_large),
                                     cmocka_unit_test(test_full),
                                     cmocka_unit_test(test_windows),
                                     cmocka_unit_test(test_equal),
                                     cmocka_unit_test(test_edges),
                                     cmocka_unit_test(test_extremes),
                                     cmocka_unit_test(test_stages),
                                     cmocka_unit_test(test_dies_in_place),
                                     cmocka_unit_test(test_any_number_of_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
