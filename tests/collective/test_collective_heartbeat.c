/* Heartbeats: what they find out where the engine would wait for ever. Ranks are threads, or processes
 * without a supervisor. A hang ends the test by SIGALRM. */
#include "collective_ranks.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collective/heartbeat.h"
#include "collective/shared_memory.h"
#include "collective/threads.h"

static const struct heartbeat_options usual = {
    .beat_seconds = 0.1, .silent_seconds = 1.5, .connect_seconds = 20};

static void pause_for(double seconds) {
  struct timespec left = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

/* Threads. */

static rank_work *work_with_heartbeat;

static void count_loss(void *context, bool speaks, const char *message) {
  (void)speaks;
  (void)message;
  __atomic_add_fetch((int *)context, 1, __ATOMIC_SEQ_CST);
}

/* Runs work_with_heartbeat; `*shared` counts the ranks that lost another. The engine itself is closed by
 * run_rank. */
static void leave_open(void *self) { (void)self; }

static neap_status with_heartbeat(const neap_collective *c, int *shared) {
  struct heartbeat_options options = usual;
  neap_collective inner = *c, heart;
  options.lost = count_loss;
  options.context = shared;
  inner.close = leave_open;
  TRY(heartbeat_start(&inner, &options, &heart));
  const neap_status status = work_with_heartbeat(&heart, shared);
  heartbeat_report(&heart, status);
  heart.close(heart.self);
  pause_for(0.4); /* then run_rank closes the engine, which tells the others */
  return status;
}

static void run(int size, rank_work *work, struct rank *ranks) {
  neap_collective collectives[MOST_RANKS];
  assert_int_equal(threads_connect(size, collectives), NEAP_OK);
  work_with_heartbeat = work;
  run_ranks(size, collectives, with_heartbeat, ranks);
}

static neap_status nobody_is_lost(const neap_collective *c, int *shared) {
  TRY(case_random_calls(c, 3, 60, 1000));
  TRY(case_parts(c, 4, 1000)); /* in which ranks make different numbers of calls */
  pause_for(0.05 * c->rank);   /* ranks leave one after the other */
  return __atomic_load_n(shared, __ATOMIC_SEQ_CST) == 0 ? NEAP_OK
                                                        : neap_fail(NEAP_INTERNAL, "a rank was lost");
}

static void test_honest_ranks(void **state) {
  (void)state;
  static const int sizes[] = {1, 3, 8};
  struct rank ranks[MOST_RANKS];
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    run(sizes[i], nobody_is_lost, ranks);
    assert_all_ok(sizes[i], ranks);
  }
}

static neap_status one_leaves(const neap_collective *c, int *shared) {
  (void)shared;
  TRY(c->barrier(c->self));
  if (c->rank == 1) return NEAP_OK;
  if (c->rank == 2) pause_for(0.2); /* its call begins after rank 1 has left */
  return c->barrier(c->self);
}

static neap_status one_reports(const neap_collective *c, int *shared) {
  (void)shared;
  TRY(c->barrier(c->self));
  if (c->rank == 1) return neap_fail(NEAP_OUT_OF_MEMORY, "out of memory at step 7");
  return c->barrier(c->self);
}

static void test_failures(void **state) {
  (void)state;
  struct rank ranks[MOST_RANKS];
  run(4, one_leaves, ranks);
  assert_all_fail(4, ranks, NEAP_IO_FAILED, "rank 1: closed its connection while other ranks called", 1);
  run(4, one_reports, ranks);
  assert_int_equal(ranks[1].ending.status, NEAP_OUT_OF_MEMORY);
  assert_all_fail(4, ranks, NEAP_OUT_OF_MEMORY, "rank 1: out of memory at step 7", 1);
}

/* Processes: their engine knows of no death. */

enum { PROCESSES = 3, LOST = 40 };

struct seen { /* by all processes */
  pid_t ids[PROCESSES];
  int lost[PROCESSES], speaks[PROCESSES], go;
  char message[PROCESSES][MESSAGE_BYTES];
};
static struct seen *seen;

/* As a command does whose main thread may be inside a call for ever. */
static void end_process(void *context, bool speaks, const char *message) {
  const int rank = *(int *)context;
  seen->speaks[rank] = speaks;
  snprintf(seen->message[rank], sizeof seen->message[rank], "%s", message);
  seen->lost[rank] = 1;
  _exit(LOST);
}

static neap_status work_as_process(struct shared_region *region, int rank, rank_work *work) {
  neap_collective inner, heart;
  struct heartbeat_options options = usual;
  options.lost = end_process;
  options.context = &rank;
  alarm(300);
  TRY(shared_memory_connect(region, rank, &inner));
  TRY(heartbeat_start(&inner, &options, &heart));
  const neap_status status = work(&heart, NULL);
  heart.close(heart.self);
  return status;
}

static void start_processes(struct shared_region *region, rank_work *work) {
  memset(seen, 0, sizeof *seen);
  for (int r = 0; r < PROCESSES; r++) {
    const pid_t id = fork();
    assert_true(id >= 0);
    if (id == 0) {
      const neap_status status = work_as_process(region, r, work);
      if (status != NEAP_OK) fprintf(stderr, "rank %d: %s\n", r, neap_error_message());
      _exit(status == NEAP_OK ? 0 : 1);
    }
    seen->ids[r] = id;
  }
}

static int end_of(int rank) {
  int status;
  assert_int_equal(waitpid(seen->ids[rank], &status, 0), seen->ids[rank]);
  return status;
}

/* They are all in the work. */
static void wait_until_ready(void) {
  while (__atomic_load_n(&seen->go, __ATOMIC_SEQ_CST) < PROCESSES) pause_for(0.01);
}

/* Rank 1 is in a long kernel while the others wait for it in a call. */
static neap_status wait_for_one(const neap_collective *c, int *shared) {
  (void)shared;
  TRY(c->barrier(c->self));
  __atomic_add_fetch(&seen->go, 1, __ATOMIC_SEQ_CST);
  if (c->rank == 1) pause_for(2.5);
  return c->barrier(c->self);
}

/* Kills a rank: the others end, with one message of one rank. */
static void kill_one(int victim, int signal, const char *message) {
  struct shared_region *region;
  int speaking = 0;
  assert_int_equal(shared_memory_map(PROCESSES, &region), NEAP_OK);
  start_processes(region, wait_for_one);
  wait_until_ready();
  kill(seen->ids[victim], signal);
  for (int r = 0; r < PROCESSES; r++) {
    if (r == victim) continue;
    const int status = end_of(r);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == LOST);
    assert_non_null(strstr(seen->message[r], message));
    speaking += seen->speaks[r];
  }
  assert_int_equal(speaking, 1);
  kill(seen->ids[victim], SIGKILL);
  end_of(victim);
  shared_memory_unmap(region);
}

static void test_death(void **state) {
  (void)state;
  kill_one(2, SIGKILL, "rank 2: its connection ended (");
  kill_one(0, SIGKILL, "rank 0: its connection ended (");
  kill_one(
      1, SIGSTOP,
      "rank 1: nothing came from it for 1.5 seconds: the process, its machine or its network has stopped");
}

/* A rank that computes for longer than ranks may be silent, and one that is stopped for less, are alive; so
 * are all when all are stopped for longer. */
static void test_life(void **state) {
  (void)state;
  struct shared_region *region;
  assert_int_equal(shared_memory_map(PROCESSES, &region), NEAP_OK);
  start_processes(region, wait_for_one);
  wait_until_ready();
  kill(seen->ids[2], SIGSTOP);
  pause_for(0.7);
  kill(seen->ids[2], SIGCONT);
  pause_for(0.3);
  for (int r = 0; r < PROCESSES; r++) kill(seen->ids[r], SIGSTOP);
  pause_for(2);
  for (int r = 0; r < PROCESSES; r++) kill(seen->ids[r], SIGCONT);
  for (int r = 0; r < PROCESSES; r++) {
    assert_int_equal(end_of(r), 0);
    assert_int_equal(seen->lost[r], 0);
  }
  shared_memory_unmap(region);
}

/* Ranks that cannot connect fail all together, and the engine is theirs to use. */
static neap_status reach_nothing(const neap_collective *c, int *shared) {
  (void)shared;
  const struct heartbeat_options options = {.connect_seconds = 0.3, .address = "host.invalid"};
  neap_collective heart;
  const neap_status status = heartbeat_start(c, &options, &heart);
  RETURN_IF(status != NEAP_IO_FAILED, NEAP_INTERNAL, "status %d", status);
  RETURN_IF(strstr(neap_error_message(), "rank 0: heartbeat: rank 1 did not connect to rank 0 by TCP") ==
                NULL,
            NEAP_INTERNAL, "%s", neap_error_message());
  return c->barrier(c->self);
}

static void test_no_connection(void **state) {
  (void)state;
  struct rank ranks[MOST_RANKS];
  neap_collective collectives[MOST_RANKS];
  assert_int_equal(threads_connect(3, collectives), NEAP_OK);
  run_ranks(3, collectives, reach_nothing, ranks);
  assert_all_ok(3, ranks);
}

int run_test_collective_heartbeat(void) {
  seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (seen == MAP_FAILED) return 1;
  alarm(600);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_honest_ranks), cmocka_unit_test(test_failures),      cmocka_unit_test(test_death),
      cmocka_unit_test(test_life),         cmocka_unit_test(test_no_connection),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
