/* Several processes that train one model: what the library needs of whatever connects them.
 *
 * The library links no engine. Who connects processes fills a struct of functions: threads of one process,
 * processes of one machine over shared memory (`neap train --processes 4`), MPI (libneap_openmpi.so,
 * libneap_mpich.so), or the caller's own. All ranks make the same calls in the same order, with sizes that
 * agree; that is what the session sees to.
 *
 * Source: LightGBM's Network::Init, which takes its collectives as functions. */
#ifndef NEAP_COLLECTIVE_H
#define NEAP_COLLECTIVE_H

#include "neap_session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A piece of memory to send from, or to receive into. No bytes: nothing is sent; `data` may be NULL then. */
typedef struct neap_piece {
  void *data;
  uint64_t bytes;
} neap_piece;

/* Functions return NEAP_OK when this rank's part is done: what it received is there and what it sent may be
 * overwritten. A failure on any rank ends this call, or the next one, on every rank with a failure; after it
 * only `close` is allowed. The message of a failure (neap_error_message) names the rank that failed and why.
 * Calls are made by one thread at a time. */
typedef struct neap_collective {
  int rank, size; /* from 0; at least 1 */
  void *self;     /* the engine's own, given to each function */
  /* Sends send[r] to rank r and receives receive[r] from it, for each r but the own rank, whose pieces are
   * ignored. [size] pieces each. send[r].bytes here equals receive[own].bytes at rank r. Pieces do not
   * overlap. */
  neap_status (*exchange)(void *self, const neap_piece *send, const neap_piece *receive);
  /* Gives every rank the parts of all: part r is bytes[r] long and lies behind the parts before it in `all`.
   * The own part is there before the call. Every rank gives the same `bytes` [size]. */
  neap_status (*allgather)(void *self, void *all, const uint64_t *bytes);
  /* Returns when every rank has called it. */
  neap_status (*barrier)(void *self);
  /* Ends the connection and frees `self`. NULL: nothing to do. */
  void (*close)(void *self);
} neap_collective;

/* What a process sends in a step that several make together, and in how many exchanges. */
typedef struct neap_exchanges {
  int64_t calls;
  uint64_t sent_bytes;
} neap_exchanges;

/* Computes that before anything runs, for the rank that sends the most. options->collective has the number of
 * ranks; its functions are not called. options->micro_batches is a multiple of it. `plan`: of the step of a
 * micro-batch, which may gather a weight several times; NULL: each node runs once. NEAP_INVALID_ARGUMENT: the
 * micro-batches do not divide; NEAP_INVALID_PLAN: the plan has other nodes; other errors are those of
 * neap_step_from_graph. */
neap_status neap_step_exchanges(const neap_graph *graph, const neap_session_options *options,
                                const neap_plan *plan, neap_exchanges *exchanges);

/* ---- Engines ---- */

/* Connects `size` threads of this process: ranks[r] [size] is for the thread that is rank r, which closes it.
 */
neap_status neap_collective_threads(int size, neap_collective *ranks);

/* Forks `count` processes (1 to 128), connected by shared memory; before this process has other threads,
 * OpenMP's included. Returns NEAP_OK in each of them, with its collective in `*own`.
 *
 * The parent has own->size 0. It passes signals on, and returns when all have ended: `*exit_status` is 0, or
 * that of the rank that failed first (128 and its signal). NEAP_INTERRUPTED: a signal that it passed on ended
 * them. Another status: the first failure, with a message that names its rank. */
neap_status neap_collective_fork(int count, neap_collective *own, int *exit_status);

/* Records a failure of this rank, with this thread's last message, for the parent of neap_collective_fork to
 * tell. The first of all ranks counts. */
void neap_collective_report(const neap_collective *own, neap_status status);

/* Told once, by a thread of its own, that another rank died, failed, or left while this one still calls. This
 * rank's thread may wait inside the engine for ever: the function has to end the process where that does not
 * end by itself. It prints the message where `speaks`; another rank does elsewhere. */
typedef void neap_rank_lost_function(void *context, bool speaks, const char *message);

/* Connects this process with those that an MPI launcher started beside it, by libneap_openmpi.so or
 * libneap_mpich.so, and watches over them: each rank sends a sign of life every second over TCP, and counts
 * as dead after 8 seconds without one. No launcher started more than one: own->size is 0. `lost` NULL: nobody
 * watches. NEAP_UNSUPPORTED: the plugin is missing, or of another MPI or version; the message says which
 * package it is built with. */
neap_status neap_collective_launched(neap_rank_lost_function *lost, void *context, neap_collective *own);

/* Tells the ranks of neap_collective_launched, which has a `lost`, that this one has failed with this
 * thread's last message. Returns whether this rank is to print it. */
bool neap_collective_fail(const neap_collective *own, neap_status status);

#ifdef __cplusplus
}
#endif

#endif
