/* Beam search beside a search of everything, and beside the choice of the likeliest token each time. */
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "testing.h"
#include "train/beam.h"

enum { WORDS = 4, END = 2, MOST = 4, WIDEST = 256 }; /* wider than there are hypotheses */

/* What a model says after a hypothesis: anything, but always the same. */
static void logits_of(uint64_t seed, const int32_t *tokens, int64_t length, float logits[WORDS]) {
  uint64_t number = 1;
  for (int64_t i = 0; i < length; i++) number = number * WORDS + (uint64_t)tokens[i];
  for (int w = 0; w < WORDS; w++) {
    uint32_t word[4];
    random_philox(seed, number, (uint64_t)w, word);
    logits[w] = 4 * random_uniform(word[0]);
  }
}

static double log_probability(const float logits[WORDS], int32_t token) {
  double sum = 0;
  for (int w = 0; w < WORDS; w++) sum += exp((double)logits[w]);
  return (double)logits[token] - log(sum);
}

struct answer {
  int32_t tokens[MOST];
  int64_t length;
  double score;
};

/* Each hypothesis is one of those before, the one that is named, and one more token. */
static void check_parents(const struct beam *beam, const int32_t *before, int32_t alive) {
  const size_t length = (size_t)beam->length - 1;
  for (int32_t h = 0; h < beam->alive; h++) {
    assert_in_range(beam->parents[h], 0, alive - 1);
    assert_memory_equal(beam_tokens(beam, h), before + beam->parents[h] * beam->most,
                        length * sizeof *before);
  }
}

static struct answer search(const struct beam_rules *rules, int64_t most, uint64_t seed) {
  static float logits[WIDEST * WORDS];
  static struct beam_candidate candidates[2 * WIDEST];
  static int32_t before[WIDEST * MOST];
  struct region region = {0};
  struct beam beam;
  struct answer answer = {0};
  assert_int_equal(beam_start(rules, most, &region, &beam), NEAP_OK);
  while (!beam.done) {
    for (int32_t h = 0; h < beam.alive; h++)
      logits_of(seed, beam_tokens(&beam, h), beam.length, logits + h * WORDS);
    const int32_t alive = beam.alive;
    memcpy(before, beam.tokens, (size_t)(alive * most) * sizeof *before);
    beam_advance(rules, &beam, logits, candidates);
    check_parents(&beam, before, alive);
    assert_true(beam.alive <= rules->width && beam.length <= most + 1);
  }
  assert_true(beam.best_length >= 0 && beam.best_length <= most);
  answer.length = beam.best_length;
  answer.score = beam.best_score;
  memcpy(answer.tokens, beam.best, (size_t)beam.best_length * sizeof *beam.best);
  region_free(&region);
  return answer;
}

/* ---- Oracles ---- */

/* The best of all hypotheses that begin with these tokens. */
static void search_all(double penalty, int64_t most, uint64_t seed, struct answer *now, double sum,
                       struct answer *best) {
  float logits[WORDS];
  logits_of(seed, now->tokens, now->length, logits);
  const double ended = sum + log_probability(logits, END);
  now->score = ended / pow((double)(now->length + 1), penalty);
  if ((now->length > 0 || most == 0) && now->score > best->score) *best = *now;
  for (int32_t w = 0; w < WORDS && now->length < most; w++) {
    if (w == END) continue;
    now->tokens[now->length++] = w;
    search_all(penalty, most, seed, now, sum + log_probability(logits, w), best);
    now->length--;
  }
}

static struct answer greedy(double penalty, int64_t most, uint64_t seed) {
  struct answer answer = {0};
  double sum = 0;
  for (;; answer.length++) {
    float logits[WORDS];
    int32_t best = -1;
    logits_of(seed, answer.tokens, answer.length, logits);
    for (int32_t w = 0; w < WORDS; w++) {
      const bool may = answer.length == most ? w == END : w != END || answer.length > 0;
      if (may && (best < 0 || logits[w] > logits[best])) best = w;
    }
    sum += log_probability(logits, best);
    if (best == END) break;
    answer.tokens[answer.length] = best;
  }
  answer.score = sum / pow((double)(answer.length + 1), penalty);
  return answer;
}

static void assert_same(const struct answer *is, const struct answer *wanted) {
  assert_int_equal(is->length, wanted->length);
  assert_memory_equal(is->tokens, wanted->tokens, (size_t)wanted->length * sizeof *wanted->tokens);
  assert_true(fabs(is->score - wanted->score) <= 1e-9);
}

static const double penalties[] = {0, 0.6, 1, 2, -0.5};
enum { PENALTIES = sizeof penalties / sizeof *penalties, SEEDS = 60 };

static struct beam_rules rules_of(int32_t width, double penalty) {
  return (struct beam_rules){
      .width = width, .penalty = penalty, .vocabulary = WORDS, .tokens = WORDS, .end = END};
}

static void test_beside_oracles(void **state) {
  (void)state;
  int missed = 0;
  for (int p = 0; p < PENALTIES; p++)
    for (uint64_t seed = 0; seed < SEEDS; seed++)
      for (int64_t most = 0; most <= MOST; most++) {
        struct answer best = {.score = -INFINITY}, now = {0};
        search_all(penalties[p], most, seed, &now, 0, &best);
        const struct beam_rules wide = rules_of(WIDEST, penalties[p]), one = rules_of(1, penalties[p]),
                                three = rules_of(3, penalties[p]);
        const struct answer all = search(&wide, most, seed), first = search(&one, most, seed),
                            some = search(&three, most, seed), likeliest = greedy(penalties[p], most, seed);
        assert_same(&all, &best);
        assert_same(&first, &likeliest);
        assert_true(some.score <= best.score + 1e-9);
        missed += some.score < best.score - 1e-9;
      }
  assert_true(missed < PENALTIES * SEEDS); /* of five times as many */
}

static void test_equal_scores(void **state) {
  static const float logits[3 * WORDS] = {0};
  struct beam_candidate candidates[6];
  const struct beam_rules rules = rules_of(3, 1);
  struct region region = {0};
  struct beam beam;
  (void)state;
  assert_int_equal(beam_start(&rules, MOST, &region, &beam), NEAP_OK);
  beam_advance(&rules, &beam, logits, candidates);
  assert_int_equal(beam.alive, 3);
  for (int32_t h = 0; h < 3; h++) assert_int_equal(*beam_tokens(&beam, h), h + (h >= END));
  while (!beam.done) beam_advance(&rules, &beam, logits, candidates);
  assert_int_equal(beam.best_length, 1); /* of equal scores the one that was there first */
  assert_int_equal(beam.best[0], 0);
  region_free(&region);
}

static void test_what_is_no_number(void **state) {
  const float logits[WORDS] = {NAN, NAN, NAN, NAN};
  struct beam_candidate candidates[4];
  const struct beam_rules rules = rules_of(2, 1);
  struct region region = {0};
  struct beam beam;
  (void)state;
  assert_int_equal(beam_start(&rules, MOST, &region, &beam), NEAP_OK);
  beam_advance(&rules, &beam, logits, candidates);
  assert_true(beam.done && beam.best_length < 0);
  region_free(&region);
}

/* Logits beyond the tokens count in the probabilities, and are never chosen. */
static void test_logits_without_tokens(void **state) {
  const float logits[WORDS] = {0, 0, 0, 9};
  struct beam_candidate candidates[8];
  struct beam_rules rules = rules_of(4, 0);
  struct region region = {0};
  struct beam beam;
  (void)state;
  rules.tokens = WORDS - 1;
  assert_int_equal(beam_start(&rules, MOST, &region, &beam), NEAP_OK);
  beam_advance(&rules, &beam, logits, candidates);
  assert_int_equal(beam.alive, 2);
  assert_true(fabs(beam.scores[0] - log_probability(logits, 0)) <= 1e-12);
  region_free(&region);
}

int run_test_beam(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_beside_oracles), cmocka_unit_test(test_equal_scores),
      cmocka_unit_test(test_what_is_no_number), cmocka_unit_test(test_logits_without_tokens)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
