/* Threads: whether the system gives as many as are wanted, for OpenMP ends the process where it does not; and
 * how long they spin. */
#include <limits.h>
#include <omp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/exit_status.h"
#include "shared/threads.h"

struct gate {
  pthread_mutex_t mutex;
  pthread_cond_t change;
  bool open;
};

static void *wait_at(void *context) {
  struct gate *gate = context;
  pthread_mutex_lock(&gate->mutex);
  while (!gate->open) pthread_cond_wait(&gate->change, &gate->mutex);
  pthread_mutex_unlock(&gate->mutex);
  return NULL;
}

enum { PROBE_LIMIT = 1024 };

/* Counts how many of `wanted` threads can exist at once, this one included; `*why`: errno of the first thread
 * that could not be created.
 */
static int count_threads(int wanted, int *why) {
  static pthread_t threads[PROBE_LIMIT];
  struct gate gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
  int made = 0;
  *why = 0;
  while (made < wanted - 1 && *why == 0) {
    *why = pthread_create(&threads[made], NULL, wait_at, &gate);
    if (*why == 0) made++;
  }
  pthread_mutex_lock(&gate.mutex);
  gate.open = true;
  pthread_cond_broadcast(&gate.change);
  pthread_mutex_unlock(&gate.mutex);
  for (int i = 0; i < made; i++) pthread_join(threads[i], NULL);
  return made + 1;
}

int prepare_threads(int asked) {
  const int processors = omp_get_num_procs(), usual = omp_get_max_threads();
  const int runs_on = asked > 0 ? asked : processors;
  /* Planning has no more than it would have, and none beside those that were asked for. */
  const int plans_with = asked > 0 && asked < usual ? asked : usual;
  omp_set_num_threads(plans_with);
  const int wanted = runs_on > plans_with ? runs_on : plans_with;
  if (wanted > PROBE_LIMIT) return EXIT_DONE; /* which the library refuses */
  int why;
  const int there = count_threads(wanted, &why);
  if (why == 0) return EXIT_DONE;
  fprintf(stderr, "neap: the system allows this process %d thread%s, not %d: %s\n  use --threads %d", there,
          there == 1 ? "" : "s", wanted, strerror(why), there);
  fputs("; ulimit -u limits threads, ulimit -v the memory of their stacks\n", stderr);
  return EXIT_FAILED;
}

/* Iterations of OpenMP's loop: some tens of microseconds, which is what it takes to wake a thread. */
static const char spin_count[] = "2000";

void limit_spinning(char **arguments) {
  if (getenv("GOMP_SPINCOUNT") != NULL || getenv("OMP_WAIT_POLICY") != NULL) return;
  char *command = realpath("/proc/self/exe", NULL);
  if (command != NULL && setenv("GOMP_SPINCOUNT", spin_count, 1) == 0) execv(command, arguments);
  free(command);
}

static bool ended;

static void tell_of_end(void) {
  if (!ended)
    fputs("neap: a library ended the process; its message is above; if it lacked threads, use fewer "
          "(--threads 1) or free some memory\n",
          stderr);
}

void watch_for_exit(void) { atexit(tell_of_end); }
void end_watched(void) { ended = true; }
