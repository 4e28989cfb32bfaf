/* BLEU is what sacreBLEU says: bleu_cases.h has its numbers. */
#include <math.h>
#include <string.h>

#include "bleu_cases.h"
#include "testing.h"

enum { CASES = sizeof bleu_cases / sizeof *bleu_cases };

static void assert_near(double is, double wanted, const char *name, const char *what) {
  if (!(fabs(is - wanted) <= 1e-9)) fail_msg("%s: %s is %.17g, not %.17g", name, what, is, wanted);
}

static void assert_same(const struct bleu *is, const struct bleu *wanted, const char *name) {
  assert_int_equal(is->hypothesis_length, wanted->hypothesis_length);
  assert_int_equal(is->reference_length, wanted->reference_length);
  for (int n = 0; n < BLEU_ORDERS; n++) {
    assert_int_equal(is->matches[n], wanted->matches[n]);
    assert_int_equal(is->totals[n], wanted->totals[n]);
    assert_near(is->precisions[n], wanted->precisions[n], name, "a precision");
  }
  assert_near(is->brevity, wanted->brevity, name, "the brevity penalty");
  assert_near(is->score, wanted->score, name, "the score");
}

static void test_cases(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    const struct bleu_case *c = &bleu_cases[i];
    for (enum bleu_tokenization kind = BLEU_13A; kind <= BLEU_NONE; kind++) {
      struct bleu bleu;
      assert_int_equal(bleu_corpus(c->hypotheses, c->references, c->count, kind, &bleu), NEAP_OK);
      assert_same(&bleu, &c->wanted[kind], c->name);
    }
  }
}

/* Counts of a corpus are the sums of its segments', in any order. */
static void test_order_of_segments(void **state) {
  (void)state;
  const char *hypotheses[4 * CASES], *references[4 * CASES];
  struct bleu sum = {0}, all, turned;
  size_t count = 0;
  for (int i = 0; i < CASES; i++) {
    const struct bleu_case *c = &bleu_cases[i];
    const struct bleu *counts = &c->wanted[BLEU_13A];
    sum.hypothesis_length += counts->hypothesis_length;
    sum.reference_length += counts->reference_length;
    for (int n = 0; n < BLEU_ORDERS; n++) sum.matches[n] += counts->matches[n];
    for (int n = 0; n < BLEU_ORDERS; n++) sum.totals[n] += counts->totals[n];
    for (size_t k = 0; k < c->count; k++, count++)
      hypotheses[count] = c->hypotheses[k], references[count] = c->references[k];
  }
  assert_int_equal(bleu_corpus(hypotheses, references, count, BLEU_13A, &all), NEAP_OK);
  assert_int_equal(all.hypothesis_length, sum.hypothesis_length);
  assert_int_equal(all.reference_length, sum.reference_length);
  assert_memory_equal(all.matches, sum.matches, sizeof sum.matches);
  assert_memory_equal(all.totals, sum.totals, sizeof sum.totals);
  for (size_t i = 0; i < count / 2; i++) {
    const char *hypothesis = hypotheses[i], *reference = references[i];
    hypotheses[i] = hypotheses[count - 1 - i], references[i] = references[count - 1 - i];
    hypotheses[count - 1 - i] = hypothesis, references[count - 1 - i] = reference;
  }
  assert_int_equal(bleu_corpus(hypotheses, references, count, BLEU_13A, &turned), NEAP_OK);
  assert_memory_equal(&turned, &all, sizeof all);
}

static void test_refusals(void **state) {
  (void)state;
  const char *good[] = {"a b", "c d"}, *bad[] = {"a b", "c \xFF"};
  struct bleu bleu;
  assert_int_equal(bleu_corpus(good, good, 0, BLEU_13A, &bleu), NEAP_INVALID_ARGUMENT);
  assert_int_equal(bleu_corpus(bad, good, 2, BLEU_NONE, &bleu), NEAP_BAD_FORMAT);
  assert_non_null(strstr(neap_error_message(), "hypothesis 2: line 1, column 3"));
  assert_int_equal(bleu_corpus(good, bad, 2, BLEU_13A, &bleu), NEAP_BAD_FORMAT);
  assert_non_null(strstr(neap_error_message(), "reference 2: line 1, column 3"));
}

int run_test_bleu(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cases),
      cmocka_unit_test(test_order_of_segments),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
