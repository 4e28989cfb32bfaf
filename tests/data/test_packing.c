/* Packing fits every sequence once, in few rows. What a model learns from a row of several sequences is what
 * it learns from each of them alone, and bits do not depend on the budget. */
#include "effort.h"
#include "session_help.h"

#include "data/packing.h"

/* ---- Rows ---- */

enum { MOST = 400 };

static int64_t total(int64_t count, const int32_t *lengths) {
  int64_t sum = 0;
  for (int64_t i = 0; i < count; i++) sum += lengths[i];
  return sum;
}

/* Whether the sequences from `at` on fit into what is left of `rows` rows. */
static bool fits(int64_t count, const int32_t *lengths, int64_t at, int rows, int64_t *room) {
  if (at == count) return true;
  for (int r = 0; r < rows; r++) {
    if (room[r] < lengths[at]) continue;
    room[r] -= lengths[at];
    const bool done = fits(count, lengths, at + 1, rows, room);
    room[r] += lengths[at];
    if (done) return true;
  }
  return false;
}

static int fewest_rows(int64_t count, const int32_t *lengths, int64_t length) {
  for (int rows = 0;; rows++) {
    int64_t room[16];
    for (int r = 0; r < rows; r++) room[r] = length;
    if (fits(count, lengths, 0, rows, room)) return rows;
  }
}

static struct packing packed(struct region *region, int64_t count, const int32_t *lengths, int64_t length) {
  struct packing p;
  bool seen[MOST] = {false};
  ASSERT_OK(packing_make(region, count, lengths, length, &p));
  assert_true(p.first[0] == 0 && p.first[p.rows] == count);
  for (int64_t r = 0; r < p.rows; r++) {
    int64_t used = 0;
    assert_true(p.first[r] < p.first[r + 1]);
    for (int64_t i = p.first[r]; i < p.first[r + 1]; i++) {
      const int32_t sequence = p.members[i];
      assert_true(sequence >= 0 && sequence < count && !seen[sequence]);
      assert_true(i == p.first[r] || lengths[p.members[i - 1]] >= lengths[sequence]); /* the longest first */
      seen[sequence] = true;
      used += lengths[sequence];
    }
    assert_true(used <= length);
  }
  return p;
}

static void draw_lengths(uint64_t seed, int64_t count, int64_t most, int32_t *lengths) {
  for (int64_t i = 0; i < count; i++) {
    uint32_t word[4];
    random_philox(seed, 0, (uint64_t)i, word);
    lengths[i] = 1 + (int32_t)random_below(word[0], (uint64_t)most);
  }
}

static void test_rows(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 400; seed++) {
    int32_t lengths[MOST];
    uint32_t word[4];
    random_philox(seed, 1, 0, word);
    const bool small = seed % 2 == 0; /* enough to search all */
    const int64_t count = small ? 1 + word[0] % 8 : 1 + word[0] % MOST, length = 1 + word[1] % 300,
                  most = 1 + word[2] % (uint64_t)length;
    draw_lengths(seed, count, most, lengths);
    struct region region = {0};
    const struct packing p = packed(&region, count, lengths, length);
    assert_true(p.rows >= (total(count, lengths) + length - 1) / length);
    if (small) assert_true(9 * p.rows <= 11 * fewest_rows(count, lengths, length) + 6); /* Dosa 2007 */
    region_free(&region);
  }
}

static void test_edges(void **state) {
  (void)state;
  struct region region = {0};
  const int32_t ones[] = {1, 1, 1}, full[] = {64, 64}, pairs[] = {40, 24, 63, 1, 64};
  assert_int_equal(packed(&region, 0, ones, 5).rows, 0);
  assert_int_equal(packed(&region, 3, ones, 1).rows, 3);
  assert_int_equal(packed(&region, 3, ones, 64).rows, 1);
  assert_int_equal(packed(&region, 2, full, 64).rows, 2);
  assert_int_equal(packed(&region, 5, pairs, 64).rows, 3);
  region_free(&region);
}

/* ---- What is learned ---- */

enum { LENGTH = 24, CLASSES = 11, SEQUENCES = 4 };
static const int32_t lengths[SEQUENCES] = {9, 1, 11, 3}; /* together a row */

/* A token of a sequence; one behind its end is its last label. */
static int32_t token(int32_t sequence, int32_t at) { return (7 * sequence + at * at + 3 * at) % CLASSES; }

static neap_session *session_of(const char *model, bool pack, uint64_t budget) {
  neap_graph *graph = NULL;
  neap_session *s = NULL;
  const neap_model_options shape = {
      .batch = pack ? 1 : SEQUENCES, .length = LENGTH, .classes = CLASSES, .packed = pack};
  ASSERT_OK(build_named(model, &shape, &graph));
  const neap_session_options options = {.budget = budget,
                                        .planner = quick_planner(),
                                        .optimizer = NEAP_SGD,
                                        .momentum = 0.9f,
                                        .seed = 3,
                                        .threads = 2};
  ASSERT_OK(neap_session_create(graph, &options, NULL, &s));
  neap_graph_free(graph);
  return s;
}

static void fill(neap_session *s, bool pack) {
  int32_t *tokens = neap_session_input(s, "tokens"), *labels = neap_session_input(s, "label"),
          *places = neap_session_input(s, "place");
  assert_true((places != NULL) == pack);
  int32_t row = 0;
  for (int32_t i = 0; i < (pack ? 1 : SEQUENCES) * LENGTH; i++) tokens[i] = 0, labels[i] = -1;
  for (int32_t k = 0; k < SEQUENCES; k++) {
    const int32_t first = pack ? row : k * LENGTH;
    for (int32_t i = 0; i < lengths[k]; i++) {
      tokens[first + i] = token(k, i);
      labels[first + i] = token(k, i + 1);
      if (pack) places[first + i] = i;
    }
    row += lengths[k];
  }
}

static neap_step_result train(neap_session *s, bool pack, int steps) {
  neap_step_result result = {0};
  for (int i = 0; i < steps; i++) {
    fill(s, pack);
    ASSERT_OK(neap_session_step(s, 0.05f, &result));
  }
  return result;
}

/* Learned places, rotary ones, groups of heads. */
static const char *const models[] = {"gpt-2x16x2", "llama-2x32x4x2"};

static void test_learns_the_same(void **state) {
  (void)state;
  for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
    neap_session *alone = session_of(models[m], false, NEAP_BUDGET_MAX),
                 *together = session_of(models[m], true, NEAP_BUDGET_MAX),
                 *before = session_of(models[m], true, NEAP_BUDGET_MAX);
    const neap_step_result a = train(alone, false, 3), b = train(together, true, 3);
    assert_true(fabs((double)a.loss - (double)b.loss) <= 1e-5 * fabs((double)a.loss));
    assert_int_equal(a.correct, b.correct);
    expect_alike(before, alone, together, models[m], 1e-4);
    neap_session_free(alone);
    neap_session_free(together);
    neap_session_free(before);
  }
}

static void test_bits(void **state) {
  (void)state;
  for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
    char digests[2][65];
    const uint64_t budgets[] = {NEAP_BUDGET_MAX, NEAP_BUDGET_MIN};
    for (int i = 0; i < 2; i++) {
      neap_session *s = session_of(models[m], true, budgets[i]);
      train(s, true, 3);
      ASSERT_OK(neap_session_digest(s, digests[i]));
      neap_session_free(s);
    }
    assert_string_equal(digests[0], digests[1]);
  }
}

static void test_refusals(void **state) {
  (void)state;
  static const char *const others[] = {"lstm-1x16", "bert-2x16x2", "lenet", "dynamicconv-64"};
  neap_graph *graph = NULL;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    const neap_model_options shape = {.batch = 1, .packed = true};
    assert_int_equal(build_named(others[i], &shape, &graph), NEAP_INVALID_ARGUMENT);
    if (strstr(neap_error_message(), "no rows of several sequences") == NULL)
      fail_msg("%s: %s", others[i], neap_error_message());
  }
  assert_int_equal(build_named("gpt-2x16x2", &(neap_model_options){.decode = 4, .packed = true}, &graph),
                   NEAP_INVALID_ARGUMENT);
}

int run_test_packing(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows), cmocka_unit_test(test_edges),    cmocka_unit_test(test_learns_the_same),
      cmocka_unit_test(test_bits), cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
