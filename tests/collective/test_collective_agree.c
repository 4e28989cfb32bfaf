/* What ranks find out together. */
#include "collective_ranks.h"

#include "collective/agree.h"
#include "collective/threads.h"

static void run(int size, rank_work *work, struct rank *ranks) {
  neap_collective collectives[MOST_RANKS];
  assert_int_equal(threads_connect(size, collectives), NEAP_OK);
  run_ranks(size, collectives, work, ranks);
}

static void all_tell(int size, rank_work *work, neap_status status, const char *message) {
  struct rank ranks[MOST_RANKS];
  run(size, work, ranks);
  for (int r = 0; r < size; r++) {
    if (status != NEAP_OK) assert_string_equal(ranks[r].ending.message, message);
    assert_int_equal(ranks[r].ending.status, status);
  }
}

static neap_status same(const neap_collective *c, int *shared) {
  (void)shared;
  TRY(collective_agree(c, "model", "abc", 3));
  TRY(collective_agree(c, "model", "", 0));
  return collective_agree(c, "model", NULL, 0);
}

static neap_status other_model(const neap_collective *c, int *shared) {
  (void)shared;
  TRY(collective_agree(c, "batch", "8", 1));
  return collective_agree(c, "model", c->rank >= 2 ? "abd" : "abc", 3);
}

static neap_status other_length(const neap_collective *c, int *shared) {
  (void)shared;
  return collective_agree(c, "model", "abc", c->rank == 1 ? 2 : 3);
}

static void test_agree(void **state) {
  (void)state;
  all_tell(1, same, NEAP_OK, "");
  all_tell(4, same, NEAP_OK, "");
  all_tell(4, other_model, NEAP_INVALID_ARGUMENT,
           "rank 2: its model differs from rank 0's; start all ranks with the same model");
  all_tell(2, other_length, NEAP_INVALID_ARGUMENT,
           "rank 1: its model differs from rank 0's; start all ranks with the same model");
}

static neap_status all_well(const neap_collective *c, int *shared) {
  (void)shared;
  (void)neap_fail(NEAP_INTERNAL, "of before");
  return collective_share_status(c, NEAP_OK);
}

static neap_status two_fail(const neap_collective *c, int *shared) {
  (void)shared;
  neap_status own = NEAP_OK;
  if (c->rank == 1) own = neap_fail(NEAP_BAD_FORMAT, "data.csv: line 3 has no label");
  if (c->rank == 3) own = neap_fail(NEAP_OUT_OF_MEMORY, "out of memory");
  return collective_share_status(c, own);
}

static neap_status longest_message(const neap_collective *c, int *shared) {
  (void)shared;
  char text[MESSAGE_BYTES + 100];
  memset(text, 'x', sizeof text);
  text[sizeof text - 1] = '\0';
  return collective_share_status(c, neap_fail(NEAP_BAD_FORMAT, "%s", text));
}

static void test_share_status(void **state) {
  (void)state;
  all_tell(3, all_well, NEAP_OK, "");
  all_tell(4, two_fail, NEAP_BAD_FORMAT, "rank 1: data.csv: line 3 has no label");
  char text[MESSAGE_BYTES];
  memset(text, 'x', sizeof text);
  memcpy(text, "rank 0: ", 8);
  text[sizeof text - 1] = '\0';
  all_tell(2, longest_message, NEAP_BAD_FORMAT, text);
  text[0] = 'x';
  memset(text, 'x', 8);
  all_tell(1, longest_message, NEAP_BAD_FORMAT, text); /* alone: unchanged */
}

/* Every rank gets the same figures, and they are possible. */
static neap_status measure(const neap_collective *c, int *shared) {
  (void)shared;
  neap_exchange_speed some, none;
  TRY(neap_collective_measure(c, 100000, &some));
  RETURN_IF(!(some.latency > 0 && some.latency < 60), NEAP_INTERNAL, "latency %g", some.latency);
  RETURN_IF(!(some.copy_bytes > 0), NEAP_INTERNAL, "%g bytes a second are copied", some.copy_bytes);
  RETURN_IF((some.exchange_bytes > 0) != (c->size > 1) || (some.allgather_bytes > 0) != (c->size > 1),
            NEAP_INTERNAL, "%d ranks: %g bytes a second exchanged, %g gathered", c->size, some.exchange_bytes,
            some.allgather_bytes);
  TRY(neap_collective_measure(c, 0, &none));
  RETURN_IF(none.exchange_bytes != 0 || none.allgather_bytes != 0 || none.copy_bytes != 0, NEAP_INTERNAL,
            "%g bytes a second of no bytes", none.exchange_bytes);
  return collective_agree(c, "figure", &some, sizeof some);
}

static void test_measure(void **state) {
  (void)state;
  all_tell(1, measure, NEAP_OK, "");
  all_tell(3, measure, NEAP_OK, "");
}

int run_test_collective_agree(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_agree),
      cmocka_unit_test(test_share_status),
      cmocka_unit_test(test_measure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
