/* Ranks that are processes of this machine, connected by shared memory (shared_memory.h). */
#ifndef NEAP_COLLECTIVE_PROCESSES_H
#define NEAP_COLLECTIVE_PROCESSES_H

#include "base/status.h"
#include "neap_collective.h"

/* Forks `count` processes (1 to 128). Call it before the process has other threads (OpenMP's, too): they do
 * not survive a fork.
 *
 * Returns NEAP_OK in each of them, with its collective in `*own`. There the caller does the work, reports a
 * failure with processes_report instead of printing it, closes the collective and exits.
 *
 * The parent has `own->size` 0. It supervises: it forwards SIGINT, SIGTERM, SIGHUP and SIGQUIT once each time
 * to all ranks, which have a process group of their own, and lets them stop and go on with itself (SIGTSTP).
 * It returns when all have ended. `*exit_status` is 0 if all exited with 0; else that of the rank that failed
 * first, or 128 and its signal. NEAP_OK           every rank closed its collective, or exited with 0, without
 * a failure NEAP_INTERRUPTED  a rank was ended by a signal that this process forwarded another status    the
 * first failure; the message names its rank and what it reported, its signal or its exit status. The others'
 * calls fail; those that have not ended 1.5 s later are ended (SIGKILL) The ranks are ended (SIGKILL) when
 * the thread that called this ends. Where `own->size` is 0 after an error before the fork, `*exit_status`
 * is 1. */
neap_status processes_start(int count, neap_collective *own, int *exit_status);

/* Records the failure of a rank with this thread's last message, which becomes that of the parent's
 * processes_start. Only the first failure of all ranks counts. NEAP_OK: does nothing. */
void processes_report(const neap_collective *own, neap_status status);

/* Bytes of shared memory that `count` processes map in all: each has its share of that, and maps all. */
uint64_t processes_bytes(int count);

#endif
