/* Patterns of attention beside the masks that their definitions make, for every length up to a bound: each
 * query is in one tile, each key that it sees in its rows once, and nothing else is seen. */
#include "base/attention_pattern.h"
#include "effort.h"
#include "session_help.h"

/* A pattern's two numbers, by its definition. */
typedef bool definition(int64_t i, int64_t j, int64_t a, int64_t b);

static bool dense(int64_t i, int64_t j, int64_t a, int64_t b) {
  (void)i, (void)j, (void)a, (void)b;
  return true;
}
static bool window(int64_t i, int64_t j, int64_t w, int64_t b) {
  (void)b;
  return i - w < j && j < i + w;
}
static bool strided(int64_t i, int64_t j, int64_t l, int64_t b) {
  (void)b;
  return (i - j) % l == 0;
}
static bool fixed(int64_t i, int64_t j, int64_t l, int64_t c) { return j / l == i / l || j % l >= l - c; }
/* The keys i + g t with |t| < w. */
static bool dilated(int64_t i, int64_t j, int64_t w, int64_t g) {
  for (int64_t t = 1 - w; t < w; t++)
    if (j == i + g * t) return true;
  return false;
}

static const struct one {
  const char *text;
  definition *sees;
  int64_t a, b;
  int64_t global;
} patterns[] = {
    {"dense", dense, 0, 0, 0},
    {"window:1", window, 1, 0, 0},
    {"window:5", window, 5, 0, 0},
    {"window:1000", window, 1000, 0, 0},
    {"strided:1", strided, 1, 0, 0},
    {"strided:7", strided, 7, 0, 0},
    {"strided:32", strided, 32, 0, 0},
    {"strided:1000", strided, 1000, 0, 0},
    {"fixed:1,1", fixed, 1, 1, 0},
    {"fixed:7,2", fixed, 7, 2, 0},
    {"fixed:8,8", fixed, 8, 8, 0},
    {"fixed:16,3", fixed, 16, 3, 0},
    {"fixed:50,7", fixed, 50, 7, 0},
    {"fixed:1000,3", fixed, 1000, 3, 0},
    {"dilated:3,1", dilated, 3, 1, 0},
    {"dilated:4,3", dilated, 4, 3, 0},
    {"dilated:2,40", dilated, 2, 40, 0},
    {"dilated:1,9", dilated, 1, 9, 0},
    {"global=5", dense, 0, 0, 5},
    {"dense,global=0", dense, 0, 0, 0},
    {"window:1,global=1", window, 1, 0, 1},
    {"window:5,global=first", window, 5, 0, 1},
    {"window:5,global=12", window, 5, 0, 12},
    {"window:3,global=1000", window, 3, 0, 1000},
    {"strided:7,global=3", strided, 7, 0, 3},
    {"strided:7,global=20", strided, 7, 0, 20},
    {"strided:1000,global=2", strided, 1000, 0, 2},
    {"fixed:7,2,global=1", fixed, 7, 2, 1},
    {"fixed:7,2,global=6", fixed, 7, 2, 6},
    {"fixed:16,3,global=37", fixed, 16, 3, 37},
    {"dilated:4,3,global=8", dilated, 4, 3, 8},
    {"dilated:2,40,global=first", dilated, 2, 40, 1},
};
enum { ALL = sizeof patterns / sizeof *patterns, LONGEST = 100, TILE = 8 };

static struct attention_pattern read(const char *text) {
  struct attention_heads heads;
  ASSERT_OK(attention_read(text, 0, 0, &heads));
  assert_int_equal(heads.count, 1);
  return heads.of[0];
}

/* Adds 1 to `found` for each pair that the table says is seen; counts how often a query is in a tile. */
static void walk(const struct attention_pattern *p, bool causal, int64_t length, int64_t end,
                 int (*found)[LONGEST], int *queries) {
  for (int64_t t = 0; t < attention_tiles(p, length, TILE); t++) {
    const struct attention_rows q = attention_tile(p, length, TILE, t);
    if (q.count <= 0) continue;
    assert_true(q.count <= TILE && q.run == 1 && q.from == 0);
    struct attention_rows keys[ATTENTION_RUNS];
    const int runs = attention_keys(p, causal, &q, 0, end, keys);
    int64_t before = -1;
    for (int64_t i = 0; i < q.count; i++) queries[attention_row(&q, i)]++;
    for (int r = 0; r < runs; r++)
      for (int64_t k = 0; k < keys[r].count; k++) {
        const int64_t key = attention_row(&keys[r], k);
        assert_true(key > before && key < end && (key < p->global || (key - q.first) % q.stride == 0));
        before = key;
        int64_t first, behind;
        attention_seen_by(p, causal, q.first, q.stride, key, &first, &behind);
        for (int64_t i = first > 0 ? first : 0; i < q.count && i < behind; i++)
          found[attention_row(&q, i)][key]++;
      }
  }
}

static void check(const struct one *one, bool causal, int64_t length, int64_t end) {
  static int found[LONGEST][LONGEST];
  int queries[LONGEST] = {0};
  const struct attention_pattern p = read(one->text);
  memset(found, 0, sizeof found);
  walk(&p, causal, length, end, found, queries);
  double pairs = 0;
  for (int64_t i = 0; i < length; i++) {
    assert_int_equal(queries[i], 1);
    for (int64_t j = 0; j < length; j++) {
      const bool seen = (one->sees(i, j, one->a, one->b) || j < one->global) && !(causal && j > i);
      pairs += seen;
      if (attention_sees(&p, causal, i, j) != seen || found[i][j] != (seen && j < end))
        fail_msg("%s%s, length %d, %d keys: query %d, key %d: found %d times", one->text,
                 causal ? ", causal" : "", (int)length, (int)end, (int)i, (int)j, found[i][j]);
    }
  }
  assert_true(attention_pairs(&p, causal, length, length) == pairs);
}

static void test_equals_the_definitions(void **state) {
  (void)state;
  for (int i = 0; i < ALL; i++)
    for (int causal = 0; causal < 2; causal++)
      for (int64_t length = 1; length <= LONGEST; length += quick_pass() ? 3 : 1) {
        check(&patterns[i], causal, length, length);
        check(&patterns[i], causal, length, length * 2 / 3);
      }
}

/* Keys before the first of a query's own sequence are left out. */
static void test_begin(void **state) {
  (void)state;
  for (int64_t begin = 0; begin < 40; begin++) {
    const struct attention_pattern p = read("strided:7");
    const struct attention_rows q = attention_tile(&p, 60, TILE, 3);
    struct attention_rows keys[ATTENTION_RUNS];
    const int runs = attention_keys(&p, true, &q, begin, 60, keys);
    int64_t expected = 0;
    for (int64_t j = begin; j <= attention_row(&q, q.count - 1); j++) expected += j % 7 == q.first % 7;
    assert_int_equal(runs > 0 ? keys[0].count : 0, expected);
    if (runs > 0) assert_true(attention_row(&keys[0], 0) >= begin && attention_row(&keys[0], 0) < begin + 7);
  }
}

/* The same of keys that every query sees, and of blocks. */
static void test_begin_of_global_keys_and_blocks(void **state) {
  (void)state;
  for (int64_t begin = 0; begin < 40; begin++) {
    const struct attention_pattern p = read("fixed:7,2,global=9");
    const struct attention_rows q = attention_tile(&p, 60, TILE, 3);
    struct attention_rows keys[ATTENTION_RUNS];
    const int runs = attention_keys(&p, false, &q, begin, 60, keys);
    int64_t expected = 0, found = 0;
    for (int64_t j = begin; j < 60; j++) {
      bool seen = false;
      for (int64_t i = 0; i < q.count; i++) seen = seen || attention_sees(&p, false, attention_row(&q, i), j);
      expected += seen;
    }
    for (int r = 0; r < runs; r++)
      for (int64_t k = 0; k < keys[r].count; k++, found++) assert_true(attention_row(&keys[r], k) >= begin);
    assert_int_equal(found, expected);
  }
}

/* An entry of global tokens alone leaves a layer its window; no other entry goes with one. */
static void test_own_window(void **state) {
  (void)state;
  struct attention_heads heads;
  ASSERT_OK(attention_read("global=2;window:3", 0, 9, &heads));
  assert_memory_equal(&heads.of[0], (&(struct attention_pattern){.reach = 9, .global = 2}),
                      sizeof heads.of[0]);
  static const char *const others[] = {"dense", "dense,global=2", "window:9", "[global=2;global=2]"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_int_equal(attention_read(others[i], 0, 9, &heads), NEAP_INVALID_ARGUMENT);
  assert_non_null(strstr(neap_error_message(), "window of 9 tokens"));
}

/* The pattern that a head of a layer has, as steps, reach, block and columns. */
static void test_layers_and_heads(void **state) {
  (void)state;
  static const struct {
    const char *list;
    int64_t entries, layer, head;
    struct attention_pattern is;
  } cases[] = {
      {"dense", 1, 3, 2, {0}},
      {"window:9", 1, 3, 2, {.reach = 9}},
      {"window:9;strided:4", 2, 0, 2, {.reach = 9}},
      {"window:9;strided:4", 2, 5, 2, {.step = 4}},
      {"window:9;strided:4", 2, 6, 0, {.reach = 9}},
      {"[window:9;dilated:3,2];fixed:8,2", 2, 0, 0, {.reach = 9}},
      {"[window:9;dilated:3,2];fixed:8,2", 2, 2, 3, {.reach = 3, .step = 2}},
      {"[window:9;dilated:3,2];fixed:8,2", 2, 1, 3, {.block = 8, .columns = 2}},
      {"[dense]", 1, 1, 3, {0}},
      {"dense;[dense;dense;dense;dense;dense;dense;dense;window:2]", 2, 1, 15, {.reach = 2}},
      {"window:9,global=first;dilated:3,2,global=7", 2, 0, 1, {.reach = 9, .global = 1}},
      {"window:9,global=first;dilated:3,2,global=7", 2, 1, 1, {.reach = 3, .step = 2, .global = 7}},
      {"[fixed:8,2,global=4;dense,global=4]", 1, 0, 0, {.block = 8, .columns = 2, .global = 4}},
      {"[fixed:8,2,global=4;dense,global=4]", 1, 0, 1, {.global = 4}},
      {"global=3", 1, 2, 1, {.global = 3}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct attention_heads heads;
    ASSERT_OK(attention_read(cases[i].list, cases[i].layer, 0, &heads));
    assert_int_equal(attention_entries(cases[i].list), cases[i].entries);
    assert_memory_equal(attention_of_head(&heads, cases[i].head), &cases[i].is, sizeof cases[i].is);
  }
}

static void test_what_is_refused(void **state) {
  (void)state;
  static const char *const bad[] = {
      "",
      "windows",
      "window",
      "window:",
      "window:0",
      "window:-1",
      "window:1.5",
      "window:+1",
      "window: 1",
      "window:1,2",
      "fixed:8",
      "fixed:8,9",
      "fixed:8,0",
      "fixed:8;2",
      "dense:1",
      "dense;",
      ";dense",
      "dense;;dense",
      "[dense",
      "dense]",
      "[]",
      "[dense;]",
      "[[dense]]",
      "dilated:3",
      "dilated:3,2,1",
      "strided:99999999999",
      "strided:1e3",
      "[dense;dense;dense;dense;dense;dense;dense;dense;dense]",
      " dense",
      "dense ",
      "global=",
      "global=-1",
      "global=one",
      "global=2,",
      "global=2,window:8",
      "global=99999999999999999999999",
      ",global=2",
      "window:8global=2",
      "window:8;global=2,global=2",
      "window:8,,global=2",
      "windows,global=2",
      "[window:8,global=2;window:8]",
      "window:8,global=First",
  };
  struct attention_heads heads;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (attention_read(bad[i], 0, 0, &heads) != NEAP_INVALID_ARGUMENT) fail_msg("'%s' is taken", bad[i]);
  assert_int_equal(attention_read("dense;window:8,global=tokens", 0, 0, &heads), NEAP_UNSUPPORTED);
  assert_non_null(strstr(neap_error_message(), "no source of data marks tokens"));
}

int run_test_attention_pattern(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equals_the_definitions),
      cmocka_unit_test(test_begin),
      cmocka_unit_test(test_begin_of_global_keys_and_blocks),
      cmocka_unit_test(test_own_window),
      cmocka_unit_test(test_layers_and_heads),
      cmocka_unit_test(test_what_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
