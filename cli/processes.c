/* Runs of several processes: `--processes N` on this machine, or those that mpirun started. */
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* Processors are divided among the processes of a machine, where the user says nothing. */
static void divide_threads(struct arguments *a, int processes) {
  const int each = omp_get_num_procs() / processes;
  if (a->options.session.threads == 0) a->options.session.threads = each > 1 ? each : 1;
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
  if (launched->by_launcher) divide_threads(a, launched->collective.size);
  if (launched->by_launcher || launched->asked <= 1) return true;
  divide_threads(a, (int)launched->asked);
  fflush(NULL);
  status = neap_collective_fork((int)launched->asked, &launched->collective, exit_status);
  if (launched->collective.size > 0) return true;
  /* A process that ended by itself has told why, or has had it reported. */
  if (status != NEAP_OK && status != NEAP_INTERRUPTED &&
      strstr(neap_error_message(), "ended with exit") == NULL)
    fprintf(stderr, "neap: %s\n", neap_error_message());
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
  const bool shared = strncmp(neap_error_message(), "rank ", 5) == 0, /* by all: the first process tells it */
      first = is_first_process(launched);
  if (launched->collective.size <= 1 || status == NEAP_OK || status == NEAP_INTERRUPTED) return true;
  if (status != NEAP_IO_FAILED && (first || shared)) return first;
  if (launched->by_launcher) return neap_collective_fail(&launched->collective, status);
  neap_collective_report(&launched->collective, status);
  return false;
}

int end_process(const struct launched *launched, neap_status status) {
  if (tell_failure(launched, status) && status != NEAP_OK && status != NEAP_INTERRUPTED)
    fprintf(stderr, "neap: rank %d: %s\n", launched->collective.rank, neap_error_message());
  return exit_status_of(status);
}

void leave_processes(const struct launched *launched) {
  if (launched->collective.size > 0 && launched->collective.close != NULL)
    launched->collective.close(launched->collective.self);
}
