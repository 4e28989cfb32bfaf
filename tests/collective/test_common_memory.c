/* Memory that ranks have in common: threads and processes see each other's bytes; a rank that does not reach
 * it is named on all. */
#include "collective_ranks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collective/agree.h"
#include "collective/common_memory.h"
#include "collective/processes.h"
#include "collective/threads.h"

enum { BYTES = 3 * 4096 + 100 };

/* Every rank writes a part, and finds those of all; what nobody wrote is 0. */
static neap_status write_parts(const neap_collective *c, int *shared) {
  (void)shared;
  int file;
  TRY(collective_open_memory(c, "shared", BYTES, &file));
  unsigned char *bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  RETURN_IF(bytes == MAP_FAILED, NEAP_INTERNAL, "rank %d: it cannot be mapped", c->rank);
  neap_status status = NEAP_OK;
  for (int at = 0; at < BYTES && status == NEAP_OK; at++)
    if (bytes[at] != 0) status = neap_fail(NEAP_INTERNAL, "byte %d begins as %d", at, bytes[at]);
  status = collective_share_status(c, status);
  for (int at = c->rank; at < BYTES; at += c->size) bytes[at] = (unsigned char)(1 + at % 251);
  if (status == NEAP_OK) status = c->barrier(c->self);
  for (int at = 0; at < BYTES && status == NEAP_OK; at++)
    if (bytes[at] != 1 + at % 251)
      status = neap_fail(NEAP_INTERNAL, "rank %d: byte %d is %d", c->rank, at, bytes[at]);
  munmap(bytes, BYTES);
  return status;
}

static void test_threads(void **state) {
  (void)state;
  neap_collective collectives[MOST_RANKS];
  struct rank ranks[MOST_RANKS];
  for (int size = 1; size <= 4; size++) {
    assert_int_equal(threads_connect(size, collectives), NEAP_OK);
    run_ranks(size, collectives, write_parts, ranks);
    assert_all_ok(size, ranks);
  }
}

static void test_processes(void **state) {
  (void)state;
  for (int size = 2; size <= 4; size++) {
    neap_collective own;
    int exit_status;
    const neap_status status = processes_start(size, &own, &exit_status);
    if (own.size > 0) {
      const neap_status made = write_parts(&own, NULL);
      processes_report(&own, made);
      own.close(own.self);
      _exit(made == NEAP_OK ? 0 : 4);
    }
    if (status != NEAP_OK) fail_msg("%d processes: %s", size, neap_error_message());
  }
}

/* ---- A rank on another machine ---- */

struct far {
  neap_collective inner;
};

/* Where rank 0 tells where its memory is, this rank finds other memory there: the last byte differs. */
static neap_status allgather(void *self, void *all, const uint64_t *bytes) {
  const struct far *far = self;
  TRY(far->inner.allgather(far->inner.self, all, bytes));
  if (bytes[0] > 0 && bytes[1] == 0) ((unsigned char *)all)[bytes[0] - 1] ^= 1;
  return NEAP_OK;
}

static neap_status open_far(const neap_collective *c, int *shared) {
  (void)shared;
  struct far far = {.inner = *c};
  neap_collective own = {.rank = c->rank, .size = c->size, .self = &far, .allgather = allgather};
  int file = -1;
  const neap_status status = collective_open_memory(c->rank == 1 ? &own : c, "shared", BYTES, &file);
  RETURN_IF(file >= 0, NEAP_INTERNAL, "rank %d has memory", c->rank);
  return status;
}

static void test_far(void **state) {
  (void)state;
  neap_collective collectives[MOST_RANKS];
  struct rank ranks[MOST_RANKS];
  assert_int_equal(threads_connect(3, collectives), NEAP_OK);
  run_ranks(3, collectives, open_far, ranks);
  assert_all_fail(3, ranks, NEAP_UNSUPPORTED,
                  "rank 1: shared: this process does not reach the memory of rank 0", -1);
}

/* More than the system has is refused on all ranks, before anything is touched. */
static neap_status open_too_much(const neap_collective *c, int *shared) {
  (void)shared;
  int file;
  return collective_open_memory(c, "shared", UINT64_MAX - 100, &file);
}

static void test_too_much(void **state) {
  (void)state;
  neap_collective collectives[MOST_RANKS];
  struct rank ranks[MOST_RANKS];
  assert_int_equal(threads_connect(2, collectives), NEAP_OK);
  run_ranks(2, collectives, open_too_much, ranks);
  assert_all_fail(2, ranks, NEAP_OUT_OF_MEMORY, "rank 0: the system cannot provide", -1);
}

int run_test_common_memory(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads), cmocka_unit_test(test_processes),
                                     cmocka_unit_test(test_far), cmocka_unit_test(test_too_much)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
