/* Runs of several processes: `--processes N` on this machine, or those that mpirun started. */
#ifndef NEAP_CLI_PROCESSES_H
#define NEAP_CLI_PROCESSES_H

#include "neap_collective.h"
#include "shared/options.h"

struct launched {
  int32_t asked; /* --processes; 0: not given */
  bool by_launcher;
  neap_collective collective; /* size 0 or 1: there is one process */
};

/* Makes this process one of several, if the arguments ask for that. Returns false if this process has to exit
 * with
 * `*exit_status`: it supervised the others, or they could not be started. */
bool launch_processes(const struct verb *verb, struct arguments *a, struct launched *launched,
                      int *exit_status);
bool is_first_process(const struct launched *launched);

/* Returns how many threads each of some processes on this machine runs by default. */
int usual_threads(int processes);

/* Divides --total-budget, if it was given, among the processes of the session's collective, as the --budget
 * of each. Returns an exit status, after a message if it is not EXIT_DONE. */
int divide_budget(const struct verb *verb, struct arguments *a);

/* Returns whether this process reports why its run failed, with this thread's last message. Otherwise another
 * process does, or the one that started them. */
bool tell_failure(const struct launched *launched, neap_status status);

/* Returns the exit status of a process that is not the first, or does not report. */
int end_process(const struct launched *launched, neap_status status);
void leave_processes(const struct launched *launched);

#endif
