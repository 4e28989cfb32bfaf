/* Ranks that are processes, and their supervisor: what it does about a death, a failure and a signal. A hang
 * ends the test by SIGALRM. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collective/processes.h"
#include "collective_cases.h"
#include "testing.h"

typedef neap_status rank_work(const neap_collective *);

static int *shared; /* counters that all ranks see */
enum { SHARED_INTS = 16 };

/* In a rank: does the work as a command would, and ends the process. */
static void be_rank(const neap_collective *own, rank_work *work) {
  const neap_status status = work(own);
  processes_report(own, status);
  own->close(own->self);
  _exit(status == NEAP_OK ? 0 : 4);
}

/* Returns in the supervisor. */
static neap_status run(int count, rank_work *work, int *exit_status) {
  neap_collective own;
  memset(shared, 0, SHARED_INTS * sizeof *shared);
  const neap_status status = processes_start(count, &own, exit_status);
  if (own.size > 0) be_rank(&own, work);
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no rank is left, none a zombie */
  assert_int_equal(errno, ECHILD);
  return status;
}

static void all_succeed(rank_work *work) {
  static const int sizes[] = {1, 2, 3, 4, 8};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int exit_status;
    if (run(sizes[i], work, &exit_status) != NEAP_OK)
      fail_msg("%d ranks: %s", sizes[i], neap_error_message());
    assert_int_equal(exit_status, 0);
  }
}

/* The supervisor's message begins with `begin`, and `end` is in it. */
static void fails(int count, rank_work *work, neap_status status, int expected_exit, const char *begin,
                  const char *end) {
  int exit_status;
  const neap_status got = run(count, work, &exit_status);
  const char *message = neap_error_message();
  if (strncmp(message, begin, strlen(begin)) != 0 || strstr(message, end) == NULL) fail_msg("%s", message);
  assert_int_equal(got, status);
  assert_int_equal(exit_status, expected_exit);
}

static void pause_for(double seconds) {
  struct timespec left = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

static neap_status call_at_random(const neap_collective *c) {
  TRY(case_random_calls(c, 3, 25, 1000));
  TRY(case_random_calls(c, 4, 6, 64 << 10));
  return case_parts(c, 5, 64 << 10);
}

static neap_status meet_often(const neap_collective *c) { return case_barriers(c, shared, 30); }

static void test_calls(void **state) {
  (void)state;
  all_succeed(call_at_random);
  all_succeed(meet_often);
}

static neap_status one_is_killed(const neap_collective *c) {
  for (int i = 0;; i++) {
    TRY(case_random_calls(c, (uint64_t)i, 1, 100000));
    if (i == 20 && c->rank == 2) raise(SIGKILL);
  }
}

static neap_status one_faults(const neap_collective *c) {
  signal(SIGSEGV, SIG_DFL); /* not a sanitizer's */
  if (c->rank == 0) raise(SIGSEGV);
  return c->barrier(c->self);
}

/* The others are in a long kernel, and one of them is stopped. */
static neap_status one_is_killed_while_others_compute(const neap_collective *c) {
  TRY(c->barrier(c->self));
  if (c->rank == 1) raise(SIGKILL);
  if (c->rank == 3) raise(SIGSTOP);
  for (;;) pause_for(1000);
}

static void test_death(void **state) {
  (void)state;
  fails(4, one_is_killed, NEAP_IO_FAILED, 128 + SIGKILL, "rank 2 (process ",
        ") was ended by signal 9 (Killed); the kernel does that where memory runs out (see dmesg)");
  fails(2, one_faults, NEAP_IO_FAILED, 128 + SIGSEGV, "rank 0 (process ",
        ") was ended by signal 11 (Segmentation fault)");
  fails(4, one_is_killed_while_others_compute, NEAP_IO_FAILED, 128 + SIGKILL, "rank 1 (process ",
        ") was ended by signal 9");
}

static neap_status one_fails(const neap_collective *c) {
  if (c->rank == 1) return neap_fail(NEAP_BAD_FORMAT, "data.csv: line 3 has no label");
  const neap_status status = c->barrier(c->self);
  RETURN_IF(strcmp(neap_error_message(), "rank 1: data.csv: line 3 has no label") != 0, NEAP_INTERNAL,
            "rank %d does not know the reason: %s", c->rank, neap_error_message());
  return status;
}

static neap_status one_exits(const neap_collective *c) {
  if (c->rank == 2) _exit(3);
  return c->barrier(c->self);
}

static neap_status one_exits_well(const neap_collective *c) {
  if (c->rank == 2) _exit(0);
  return c->barrier(c->self);
}

static neap_status one_closes(const neap_collective *c) {
  TRY(c->barrier(c->self));
  return c->rank == 1 ? NEAP_OK : c->barrier(c->self);
}

static void test_failure(void **state) {
  (void)state;
  fails(3, one_fails, NEAP_BAD_FORMAT, 4, "rank 1: data.csv: line 3 has no label", "");
  fails(3, one_exits, NEAP_IO_FAILED, 3, "rank 2 (process ", ") ended with exit status 3");
  fails(3, one_exits_well, NEAP_IO_FAILED, 4,
        "collective: rank 2 closed its connection while another rank called", "");
  fails(3, one_closes, NEAP_IO_FAILED, 4,
        "collective: rank 1 closed its connection while another rank called", "");
  fails(3, case_other_size, NEAP_INVALID_ARGUMENT, 4,
        "collective: rank 1 sends 5 bytes to rank 2, which expects 7", "");
}

/* A rank ends with another exit status after it closed: that is no failure of the ranks' work. */
static neap_status exit_with_two(const neap_collective *c) {
  TRY(c->barrier(c->self));
  c->close(c->self);
  _exit(c->rank == 1 ? 2 : 0);
}

static void test_exit_status(void **state) {
  (void)state;
  int exit_status;
  assert_int_equal(run(3, exit_with_two, &exit_status), NEAP_OK);
  assert_int_equal(exit_status, 2);
}

/* Rank 0 stops rank 1 for a while, in which no call ends. */
static neap_status one_is_stopped(const neap_collective *c) {
  pid_t ids[3] = {0};
  const uint64_t bytes[3] = {sizeof *ids, sizeof *ids, sizeof *ids};
  ids[c->rank] = getpid();
  TRY(c->allgather(c->self, ids, bytes));
  if (c->rank == 0) {
    kill(ids[1], SIGSTOP);
    pause_for(1.5);
    __atomic_store_n(shared, 1, __ATOMIC_SEQ_CST);
    kill(ids[1], SIGCONT);
  }
  if (c->rank == 1) pause_for(0.3); /* it is stopped here, or in a call */
  TRY(c->barrier(c->self));
  RETURN_IF(__atomic_load_n(shared, __ATOMIC_SEQ_CST) != 1, NEAP_INTERNAL, "left the barrier without rank 0");
  return case_random_calls(c, 5, 10, 1000);
}

static void test_stopped_rank(void **state) {
  (void)state;
  int exit_status;
  if (run(3, one_is_stopped, &exit_status) != NEAP_OK) fail_msg("%s", neap_error_message());
}

static void count_signal(int number) {
  (void)number;
  __atomic_add_fetch(shared, 1, __ATOMIC_SEQ_CST);
}

/* The supervisor gets one signal: each rank gets it once. */
static neap_status stop_on_request(const neap_collective *c) {
  signal(SIGTERM, count_signal);
  TRY(c->barrier(c->self));
  if (c->rank == 2) kill(getppid(), SIGTERM);
  while (__atomic_load_n(shared, __ATOMIC_SEQ_CST) < c->size) pause_for(0.01);
  pause_for(0.3);
  const int count = __atomic_load_n(shared, __ATOMIC_SEQ_CST);
  RETURN_IF(count != c->size, NEAP_INTERNAL, "%d signals for %d ranks", count, c->size);
  return c->barrier(c->self);
}

static neap_status end_by_request(const neap_collective *c) {
  TRY(c->barrier(c->self));
  if (c->rank == 2) kill(getppid(), SIGINT);
  for (;;) TRY(c->barrier(c->self));
}

/* What this process ignores (nohup), it does not forward. */
static neap_status outlive_hangup(const neap_collective *c) {
  TRY(c->barrier(c->self));
  if (c->rank == 0) kill(getppid(), SIGHUP);
  pause_for(0.3);
  return c->barrier(c->self);
}

static void test_signals(void **state) {
  (void)state;
  int exit_status;
  if (run(3, stop_on_request, &exit_status) != NEAP_OK) fail_msg("%s", neap_error_message());
  fails(3, end_by_request, NEAP_INTERRUPTED, 128 + SIGINT, "stopped by signal 2 (Interrupt)", "");
  signal(SIGHUP, SIG_IGN);
  if (run(3, outlive_hangup, &exit_status) != NEAP_OK) fail_msg("%s", neap_error_message());
  signal(SIGHUP, SIG_DFL);
}

/* Starts a supervisor that is a child of the test, whose ranks hold the writing end of a pipe. */
static pid_t start_supervisor(int count, rank_work *work, int *reading_end) {
  int ends[2], exit_status;
  assert_int_equal(pipe(ends), 0);
  memset(shared, 0, SHARED_INTS * sizeof *shared);
  const pid_t id = fork();
  assert_true(id >= 0);
  if (id == 0) {
    neap_collective own;
    setpgid(0, 0);
    close(ends[0]);
    const neap_status status = processes_start(count, &own, &exit_status);
    if (own.size > 0) be_rank(&own, work);
    _exit(status == NEAP_OK ? exit_status : 100);
  }
  close(ends[1]);
  *reading_end = ends[0];
  return id;
}

static neap_status count_up_for_ever(const neap_collective *c) {
  for (;;) {
    TRY(c->barrier(c->self));
    __atomic_add_fetch(&shared[c->rank], 1, __ATOMIC_SEQ_CST);
    pause_for(0.002);
  }
}

static int counted(int rank) { return __atomic_load_n(&shared[rank], __ATOMIC_SEQ_CST); }

static void wait_for_count(int more) {
  const int begin = counted(0);
  while (counted(0) < begin + more) pause_for(0.01);
}

/* No rank outlives its supervisor. */
static void test_supervisor_killed(void **state) {
  (void)state;
  char byte;
  int pipe_end, status;
  const pid_t id = start_supervisor(3, count_up_for_ever, &pipe_end);
  wait_for_count(5);
  kill(id, SIGKILL);
  assert_int_equal(waitpid(id, &status, 0), id);
  assert_int_equal(read(pipe_end, &byte, 1), 0); /* comes when nobody holds the other end */
  close(pipe_end);
}

/* A terminal's stop, and `fg`: ranks stop and go on with their supervisor. */
static void test_terminal_stop(void **state) {
  (void)state;
  int pipe_end, status;
  const pid_t id = start_supervisor(3, count_up_for_ever, &pipe_end);
  wait_for_count(5);
  kill(id, SIGTSTP);
  assert_int_equal(waitpid(id, &status, WUNTRACED), id);
  assert_true(WIFSTOPPED(status));
  pause_for(0.1);
  const int count = counted(0) + counted(1) + counted(2);
  pause_for(0.2);
  assert_int_equal(counted(0) + counted(1) + counted(2), count);
  kill(id, SIGCONT);
  wait_for_count(5);
  kill(id, SIGTERM);
  assert_int_equal(waitpid(id, &status, 0), id);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 100); /* stopped by a signal */
  close(pipe_end);
}

static void *wait_at_lock(void *lock) {
  pthread_mutex_lock(lock);
  pthread_mutex_unlock(lock);
  return NULL;
}

static void test_what_is_refused(void **state) {
  (void)state;
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_t thread;
  neap_collective own;
  int exit_status = 0;
  assert_int_equal(processes_start(0, &own, &exit_status), NEAP_INVALID_ARGUMENT);
  assert_int_equal(processes_start(129, &own, &exit_status), NEAP_INVALID_ARGUMENT);
  pthread_mutex_lock(&lock);
  assert_int_equal(pthread_create(&thread, NULL, wait_at_lock, &lock), 0);
  assert_int_equal(processes_start(2, &own, &exit_status), NEAP_INVALID_ARGUMENT);
  assert_string_equal(neap_error_message(), "processes: this process already has 2 threads, which would not "
                                            "survive a fork; start the processes first");
  assert_int_equal(own.size, 0);
  assert_int_equal(exit_status, 1);
  pthread_mutex_unlock(&lock);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

static void test_bytes(void **state) {
  (void)state;
  for (int count = 1; count <= 128; count++) {
    assert_true(processes_bytes(count) >= (uint64_t)count << 20);
    assert_true(processes_bytes(count) <=
                ((uint64_t)count << 20) + 128u * (uint64_t)(count * count) + (64 << 10));
  }
}

int run_test_collective_processes(void) {
  shared =
      mmap(NULL, SHARED_INTS * sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  alarm(600);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_calls),
      cmocka_unit_test(test_death),
      cmocka_unit_test(test_failure),
      cmocka_unit_test(test_exit_status),
      cmocka_unit_test(test_stopped_rank),
      cmocka_unit_test(test_signals),
      cmocka_unit_test(test_supervisor_killed),
      cmocka_unit_test(test_terminal_stop),
      cmocka_unit_test(test_what_is_refused),
      cmocka_unit_test(test_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
