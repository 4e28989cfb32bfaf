/* Runs of several processes: `--processes N` on this machine, or those that mpirun started. */
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/failure.h"
#include "shared/processes.h"

/* The machine and the processors of a launcher's rank. */
struct place {
  char boot[40];                   /* names a start of its machine; "": not known */
  cpu_set_t processors, launchers; /* that it may use; that the process may use which started it */
};

static void find_place(struct place *place) {
  memset(place, 0, sizeof *place); /* its padding is sent, too */
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
  if (file != NULL && fgets(place->boot, sizeof place->boot, file) == NULL) place->boot[0] = 0;
  if (file != NULL) fclose(file);
  if (sched_getaffinity(0, sizeof place->processors, &place->processors) != 0) /* over 1,024 processors */
    for (int i = 0; i < omp_get_num_procs() && i < CPU_SETSIZE; i++) CPU_SET(i, &place->processors);
  if (sched_getaffinity(getppid(), sizeof place->launchers, &place->launchers) != 0)
    place->launchers = place->processors;
}

/* Counts the ranks of a rank's machine that may use any of its processors, itself included; `*together`: all
 * that the ranks of this machine may use. */
static int count_sharers(const struct place *places, int size, const struct place *own, cpu_set_t *together) {
  int sharers = 0;
  CPU_ZERO(together);
  for (int r = 0; r < size; r++) {
    cpu_set_t both;
    if (strcmp(places[r].boot, own->boot) != 0) continue;
    CPU_OR(together, together, &places[r].processors);
    CPU_AND(&both, &own->processors, &places[r].processors);
    sharers += CPU_COUNT(&both) > 0;
  }
  return sharers > 0 ? sharers : 1;
}

/* Names the first rank whose launcher keeps it from processors that its threads could use. */
static void tell_of_binding(const struct place *places, int size, int asked, int threads) {
  for (int r = 0; r < size; r++) {
    cpu_set_t together;
    const int own = CPU_COUNT(&places[r].processors), all = CPU_COUNT(&places[r].launchers);
    count_sharers(places, size, &places[r], &together);
    if (own >= all || (asked > 0 ? asked <= own : CPU_COUNT(&together) >= all)) continue;
    fprintf(stderr,
            "neap: rank %d: its launcher binds it to %d of %d processors, where it runs %d thread%s; "
            "mpirun --bind-to none (srun --cpu-bind=none) lets it use all\n",
            r, own, all, threads, threads == 1 ? "" : "s");
    return;
  }
}

/* Gives each rank of a launcher, where the user says nothing, the threads for which every rank has
 * processors: all ranks run the same number. */
static neap_status share_processors(struct arguments *a, const neap_collective *c) {
  const size_t size = (size_t)c->size;
  struct place *places = calloc(size, sizeof *places);
  uint64_t *bytes = calloc(size, sizeof *bytes);
  neap_status status = places != NULL && bytes != NULL ? NEAP_OK : no_memory();
  if (status == NEAP_OK) {
    for (size_t r = 0; r < size; r++) bytes[r] = sizeof *places;
    find_place(&places[c->rank]);
    status = c->allgather(c->self, places, bytes);
  }
  if (status == NEAP_OK) {
    const int asked = a->options.session.threads;
    int threads = asked > 0 ? asked : CPU_SETSIZE;
    for (int r = 0; r < c->size && asked == 0; r++) {
      cpu_set_t together;
      const int each =
          CPU_COUNT(&places[r].processors) / count_sharers(places, c->size, &places[r], &together);
      threads = each < 1 ? 1 : each < threads ? each : threads;
    }
    if (c->rank == 0) tell_of_binding(places, c->size, asked, threads);
    a->options.session.threads = threads;
  }
  free(places);
  free(bytes);
  return status;
}

int usual_threads(int processes) {
  const int each = omp_get_num_procs() / (processes > 1 ? processes : 1);
  return each > 1 ? each : 1;
}

/* The run's own thread may end by itself in the meantime, with all that it has to clean up. */
static void end_lost(void *unused, bool speaks, const char *message) {
  (void)unused;
  if (speaks) fprintf(stderr, "neap: %s\n", message);
  sleep(1);
  _exit(EXIT_FAILED);
}

bool launch_processes(const struct verb *verb, struct arguments *a, struct launched *launched,
                      int *exit_status) {
  neap_status status = neap_collective_launched(end_lost, NULL, &launched->collective);
  launched->by_launcher = launched->collective.size > 1;
  if (status != NEAP_OK) {
    *exit_status = report_failure(verb, status);
    return false;
  }
  if (launched->by_launcher && launched->asked > 1) {
    *exit_status = report_usage(
        verb, "--processes %d: a launcher has already started %d processes; leave the option out",
        (int)launched->asked, launched->collective.size);
    return false;
  }
  if (launched->by_launcher) {
    status = share_processors(a, &launched->collective);
    if (status == NEAP_OK) return true;
    *exit_status = end_process(launched, status);
    leave_processes(launched);
    return false;
  }
  if (launched->asked <= 1) return true;
  if (a->options.session.threads == 0) a->options.session.threads = usual_threads((int)launched->asked);
  fflush(NULL);
  status = neap_collective_fork((int)launched->asked, &launched->collective, exit_status);
  if (launched->collective.size > 0) return true;
  /* A process that ended by itself has told why, or has had it reported. */
  if (status != NEAP_OK && status != NEAP_INTERRUPTED && strstr(library_message(), "ended with exit") == NULL)
    fprintf(stderr, "neap: %s\n", library_message());
  return false;
}

int divide_budget(const struct verb *verb, struct arguments *a) {
  neap_setting total;
  char *text = NULL;
  if (a->options.total_budget == 0) return EXIT_DONE;
  if (neap_setting_at(neap_setting_find("total-budget"), &total) &&
      neap_setting_check_use(&total, &a->options) != NEAP_OK)
    return report_failure(verb, NEAP_INVALID_ARGUMENT);
  neap_train_options_divide_budget(&a->options);
  if (asprintf(&text, "%llu", (unsigned long long)a->options.session.budget) < 0) text = NULL;
  const char *kept = text != NULL ? keep_text(text) : NULL;
  if (kept == NULL) return report_failure(verb, no_memory());
  a->given[neap_setting_find("budget")] = kept; /* which a checkpoint keeps */
  return EXIT_DONE;
}

bool is_first_process(const struct launched *launched) {
  return launched->collective.size <= 1 || launched->collective.rank == 0;
}

bool tell_failure(const struct launched *launched, neap_status status) {
  const bool shared = strncmp(library_message(), "rank ", 5) == 0, /* by all: the first process tells it */
      first = is_first_process(launched);
  if (launched->collective.size <= 1 || status == NEAP_OK || status == NEAP_INTERRUPTED) return true;
  if (status != NEAP_IO_FAILED && (first || shared)) return first;
  if (launched->by_launcher) return neap_collective_fail(&launched->collective, status);
  neap_collective_report(&launched->collective, status);
  return false;
}

int end_process(const struct launched *launched, neap_status status) {
  if (tell_failure(launched, status) && status != NEAP_OK && status != NEAP_INTERRUPTED)
    fprintf(stderr, "neap: rank %d: %s\n", launched->collective.rank, library_message());
  return exit_status_of(status);
}

void leave_processes(const struct launched *launched) {
  if (launched->collective.size > 0 && launched->collective.close != NULL)
    launched->collective.close(launched->collective.self);
}
