/* Several processes that train one model: the functions by which they communicate.
 *
 * The library is linked to no communication library. The caller fills a struct of functions: for threads of
 * one process, processes of one machine over shared memory (`neap train --processes 4`), MPI
 * (libneap_openmpi.so, libneap_mpich.so), or their own. All ranks make the same calls in the same order, with
 * sizes that agree; the session ensures that.
 *
 * Source: LightGBM's Network::Init, which takes its collectives as functions. */
#ifndef NEAP_COLLECTIVE_H
#define NEAP_COLLECTIVE_H

#include "neap_session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A piece of memory to send from, or to receive into. With no bytes nothing is sent, and `data` may be
 * NULL. */
typedef struct neap_piece {
  void *data;
  uint64_t bytes;
} neap_piece;

/* The functions of an engine. They return NEAP_OK when this rank's part is done: all data were received, and
 * the memory sent from may be overwritten. A failure on any rank ends this call, or the next one, with a
 * failure on every rank; after that only `close` is allowed. The message of a failure (neap_error_message)
 * names the rank that failed and why. Only one thread calls at a time. */
typedef struct neap_collective {
  int rank, size; /* from 0; at least 1 */
  void *self;     /* state of the engine, passed to each function */
  /* Sends send[r] to rank r and receives receive[r] from it, for each r but the own rank, whose pieces are
   * ignored. [size] pieces each. send[r].bytes here equals receive[own].bytes at rank r. Pieces do not
   * overlap. */
  neap_status (*exchange)(void *self, const neap_piece *send, const neap_piece *receive);
  /* Gives every rank the parts of all: part r has bytes[r] bytes and follows the earlier parts in `all`. A
   * rank puts its own part there before the call. Every rank passes the same `bytes` [size]. */
  neap_status (*allgather)(void *self, void *all, const uint64_t *bytes);
  /* Returns when every rank has called it. */
  neap_status (*barrier)(void *self);
  /* Ends the connection and frees `self`. NULL: there is nothing to close. */
  void (*close)(void *self);
  /* Connects some of the ranks as a collective of their own: `count` of them, every `stride`-th from `first`
   * on, among them this one. Each of these makes the call, and closes the part before the whole. Any two
   * ranks make their calls, of the whole and of parts that both are in, in one order. NULL: it has no parts,
   * which pipelines need that also divide the batch. */
  neap_status (*part)(void *self, int first, int stride, int count, struct neap_collective *part);
} neap_collective;

/* The bytes that a process sends in a step of several processes, and the number of exchanges. */
typedef struct neap_exchanges {
  int64_t calls;
  uint64_t sent_bytes;
} neap_exchanges;

/* Computes, before anything runs, the exchanges of the rank that sends the most. options->collective has the
 * number of ranks; its functions are not called. options->micro_batches is a multiple of that number. `plan`:
 * for the step of a micro-batch, which may gather a weight several times; NULL: each node runs once.
 * NEAP_INVALID_ARGUMENT: the micro-batches do not divide. NEAP_INVALID_PLAN: the plan has other nodes. Other
 * errors are those of neap_step_from_graph. */
neap_status neap_step_exchanges(const neap_graph *graph, const neap_session_options *options,
                                const neap_plan *plan, neap_exchanges *exchanges);

/* The rates at which the ranks of a collective exchange bytes, in bytes per second. */
typedef struct neap_exchange_speed {
  uint64_t bytes;         /* of an exchange, a rank */
  double latency;         /* seconds of an allgather of 8 bytes a rank: the median of 100 */
  double exchange_bytes;  /* that each rank sends, and receives, in equal parts for the others */
  double allgather_bytes; /* that each rank receives in an allgather of `bytes` in all */
  double copy_bytes;      /* that each rank copies by memcpy, while all do */
} neap_exchange_speed;

/* Measures with all ranks, which give the same `bytes`; every rank gets the same speeds: of the best of up to
 * 5 rounds, each as long as on the slowest rank. No round begins after 3 seconds. Rates are 0 if no bytes are
 * sent. Takes twice `bytes` of memory while it runs. */
neap_status neap_collective_measure(const neap_collective *c, uint64_t bytes, neap_exchange_speed *speed);

/* ---- Engines ---- */

/* Connects `size` threads of this process: ranks[r] [size] is for the thread of rank r, which closes it. */
neap_status neap_collective_threads(int size, neap_collective *ranks);

/* Forks `count` processes (1 to 128), connected by shared memory. Call it before this process has other
 * threads, OpenMP's included. Returns NEAP_OK in each of them, with its collective in `*own`.
 *
 * In the parent own->size is 0. The parent passes signals on, and returns when all have ended: `*exit_status`
 * is 0, or that of the rank that failed first (128 plus its signal). NEAP_INTERRUPTED: a signal that was
 * passed on ended them. Another status: the first failure, with a message that names its rank. */
neap_status neap_collective_fork(int count, neap_collective *own, int *exit_status);

/* Records a failure of this rank, with this thread's last message, which the parent of neap_collective_fork
 * then reports. Only the first failure of all ranks counts. */
void neap_collective_report(const neap_collective *own, neap_status status);

/* Called once, by a thread of its own, if another rank died, failed, or left while this one still calls. This
 * rank's thread may wait inside the engine forever: the function must end the process if the process does not
 * end by itself. It prints the message if `speaks`; otherwise another rank does. */
typedef void neap_rank_lost_function(void *context, bool speaks, const char *message);

/* Connects this process with the others of an MPI launcher, by libneap_openmpi.so or libneap_mpich.so, and
 * monitors them: each rank sends a sign of life every second over TCP, and counts as dead after 8 seconds
 * without one. own->size is 0 if no launcher started more than one. `lost` NULL: no monitoring.
 * NEAP_UNSUPPORTED: the plugin is missing, or of another MPI or version; the message names the package that
 * it is built with. */
neap_status neap_collective_launched(neap_rank_lost_function *lost, void *context, neap_collective *own);

/* Tells the other ranks of neap_collective_launched, called with a `lost`, that this one failed with this
 * thread's last message. Returns true if this rank must print it. */
bool neap_collective_fail(const neap_collective *own, neap_status status);

#ifdef __cplusplus
}
#endif

#endif
