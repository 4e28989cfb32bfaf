#include "collective/processes.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "collective/calls.h"
#include "collective/shared_memory.h"

static const double grace_seconds = 1.5; /* that ranks have to end after a failure of another */

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
enum { FORWARDED = sizeof forwarded / sizeof *forwarded };

struct supervisor {
  struct shared_region *region;
  int count, running, exit_status;
  pid_t ids[SHARED_MOST_RANKS]; /* 0: it has ended */
  bool asked[NSIG];             /* which signals were forwarded */
  double deadline;              /* when ranks are ended after a failure; 0: there was none */
};

uint64_t processes_bytes(int count) { return shared_memory_bytes(count); }

static void processes_close(void *self) {
  if (self == NULL) return;
  struct shared_region *region = shared_memory_region(self);
  shared_memory_close(self);
  shared_memory_unmap(region);
}

void processes_report(const neap_collective *own, neap_status status) {
  char message[MESSAGE_BYTES + 32];
  if (status == NEAP_OK || own->close != processes_close) return;
  calls_name_rank(own->rank, neap_error_message(), message, sizeof message);
  shared_memory_fail(shared_memory_region(own->self), own->rank, status, message);
}

/* Forked processes have the calling thread alone. */
static neap_status check_no_threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  int count = 0;
  if (tasks == NULL) return NEAP_OK;
  for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;) count += entry->d_name[0] != '.';
  closedir(tasks);
#ifdef __SANITIZE_THREAD__
  count--; /* its own */
#endif
  RETURN_IF(count > 1, NEAP_INVALID_ARGUMENT,
            "processes: this process already has %d threads, which would not survive a fork; start the "
            "processes first",
            count);
  return NEAP_OK;
}

static void signal_all(const struct supervisor *s, int signal) {
  for (int r = 0; r < s->count; r++)
    if (s->ids[r] > 0) kill(s->ids[r], signal);
}

/* Stops the ranks and this process, as a terminal asked for, until it goes on. */
static void stop_all(const struct supervisor *s) {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  signal_all(s, SIGSTOP);
  raise(SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &stop, NULL); /* stops here; not where no shell could let it go on */
  sigprocmask(SIG_BLOCK, &stop, NULL);
  signal_all(s, SIGCONT);
}

static void pass_on(struct supervisor *s, int signal) {
  if (signal == SIGTSTP) {
    stop_all(s);
    return;
  }
  s->asked[signal] = true;
  signal_all(s, signal);
}

static void record_signal(struct supervisor *s, int rank, pid_t id, int signal) {
  char message[MESSAGE_BYTES];
  const char *hint = signal == SIGKILL ? "; the kernel does that where memory runs out (see dmesg)" : "";
  if (s->asked[signal])
    snprintf(message, sizeof message, "stopped by signal %d (%s)", signal, strsignal(signal));
  else
    snprintf(message, sizeof message, "rank %d (process %d) was ended by signal %d (%s)%s", rank, (int)id,
             signal, strsignal(signal), hint);
  shared_memory_fail_dead(s->region, rank, s->asked[signal] ? NEAP_INTERRUPTED : NEAP_IO_FAILED, message);
}

static void record_exit(struct supervisor *s, int rank, pid_t id, int code) {
  char message[MESSAGE_BYTES];
  snprintf(message, sizeof message, "rank %d (process %d) ended with exit status %d", rank, (int)id, code);
  shared_memory_fail_dead(s->region, rank, NEAP_IO_FAILED, message);
}

static void note_end(struct supervisor *s, int rank, int status) {
  const pid_t id = s->ids[rank];
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  int first = -1;
  s->ids[rank] = 0;
  s->running--;
  if (WIFSIGNALED(status))
    record_signal(s, rank, id, WTERMSIG(status));
  else if (code != 0 && !shared_memory_has_left(s->region, rank))
    record_exit(s, rank, id, code);
  shared_memory_leave(s->region, rank);
  (void)shared_memory_failure(s->region, &first);
  if (code != 0 && (s->exit_status == 0 || first == rank)) s->exit_status = code;
}

static void reap(struct supervisor *s) {
  for (int r = 0; r < s->count; r++) {
    int status;
    if (s->ids[r] > 0 && waitpid(s->ids[r], &status, WNOHANG) == s->ids[r]) note_end(s, r, status);
  }
}

/* Ends ranks that do not end by themselves after a failure: they may be in a long kernel, or stopped. */
static void end_late(struct supervisor *s) {
  if (shared_memory_failure(s->region, NULL) == NEAP_OK) return;
  if (s->deadline == 0) s->deadline = clock_seconds() + grace_seconds;
  if (clock_is_past(s->deadline)) signal_all(s, SIGKILL);
}

static neap_status supervise(struct supervisor *s, const sigset_t *signals) {
  const struct timespec pause = {.tv_nsec = 200 * 1000 * 1000};
  while (s->running > 0) {
    const int signal = sigtimedwait(signals, NULL, &pause);
    if (signal > 0 && signal != SIGCHLD) pass_on(s, signal);
    reap(s);
    end_late(s);
  }
  const neap_status status = shared_memory_failure(s->region, NULL);
  if (status != NEAP_OK && s->exit_status == 0) s->exit_status = 1;
  return status;
}

/* The signals that the supervisor waits for: not those that this process ignores (nohup). */
static sigset_t awaited_signals(void) {
  sigset_t set;
  struct sigaction action;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGTSTP);
  for (int i = 0; i < FORWARDED; i++) sigaddset(&set, forwarded[i]);
  for (int i = 1; i < NSIG; i++)
    if (i != SIGCHLD && sigismember(&set, i) == 1 && sigaction(i, NULL, &action) == 0 &&
        action.sa_handler == SIG_IGN)
      sigdelset(&set, i);
  return set;
}

/* In a new rank: it ends with its supervisor, and a terminal's signals come through that alone. */
static void become_rank(pid_t supervisor) {
  setpgid(0, 0);
  signal(SIGTTOU, SIG_IGN); /* it writes to the terminal from the background */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) raise(SIGKILL);
}

/* Forks a rank, and makes `*own` its collective there. Here `own->size` stays 0. */
static neap_status start_rank(struct supervisor *s, int rank, neap_collective *own) {
  neap_collective collective;
  const pid_t supervisor = getpid();
  TRY(shared_memory_connect(s->region, rank, &collective));
  const pid_t id = fork();
  if (id == 0) {
    become_rank(supervisor);
    *own = collective;
    own->close = processes_close;
    return NEAP_OK;
  }
  const int reason = errno;
  shared_memory_disconnect(collective.self);
  RETURN_IF(id < 0, NEAP_OUT_OF_MEMORY, "processes: the system cannot start process %d of %d: %s", rank + 1,
            s->count, strerror(reason));
  setpgid(id, id); /* whichever of both comes first */
  s->ids[rank] = id;
  s->running++;
  return NEAP_OK;
}

/* Starts all ranks. Returns in each of them, too. */
static void start_ranks(struct supervisor *s, neap_collective *own) {
  for (int r = 0; r < s->count; r++) {
    const neap_status status = start_rank(s, r, own);
    if (own->size > 0) return;
    if (status == NEAP_OK) continue;
    shared_memory_fail(s->region, s->count, status, neap_error_message());
    signal_all(s, SIGKILL);
    return;
  }
}

neap_status processes_start(int count, neap_collective *own, int *exit_status) {
  struct supervisor s = {.count = count};
  const sigset_t signals = awaited_signals();
  sigset_t former_mask;
  struct sigaction former_action, usual = {.sa_handler = SIG_DFL};
  *own = (neap_collective){0};
  *exit_status = 1;
  TRY(check_no_threads());
  TRY(shared_memory_map(count, &s.region));
  fflush(NULL); /* ranks do not write again what waits to be written */
  sigaction(SIGCHLD, &usual, &former_action);
  sigprocmask(SIG_BLOCK, &signals, &former_mask);
  neap_status status = NEAP_OK;
  start_ranks(&s, own);
  if (own->size == 0) {
    status = supervise(&s, &signals);
    *exit_status = s.exit_status;
    shared_memory_unmap(s.region);
  }
  sigaction(SIGCHLD, &former_action, NULL);
  sigprocmask(SIG_SETMASK, &former_mask, NULL);
  return status;
}
