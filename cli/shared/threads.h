/* Threads: whether the system grants the number that a run has, and how they wait. */
#ifndef NEAP_CLI_THREADS_H
#define NEAP_CLI_THREADS_H

/* Sets the most threads (0: OpenMP's own number), before anything runs in parallel. Returns EXIT_FAILED,
 * after a message, if the system does not grant them: OpenMP would end the process. */
int prepare_threads(int asked);

/* Makes threads that wait for each other spin for a moment and then sleep. By default OpenMP spins for
 * milliseconds, which starves the threads they wait for if other processes run. OpenMP reads its environment
 * when it is loaded: the command starts itself anew, once. Returns if OMP_WAIT_POLICY or GOMP_SPINCOUNT is
 * set, or if the command can not start anew. */
void limit_spinning(char **arguments);

/* OpenMP, out of threads, ends the process with a message of its own: between these two calls the command
 * adds one. */
void watch_for_exit(void);
void end_watched(void);

#endif
