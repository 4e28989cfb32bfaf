/* Nodes that several processes (ranks) run together: a gradient that is added to a sum of all ranks,
 * statistics of which each rank has some, updates of which each rank does a share.
 *
 * A sum, and the states of an update, exist once over all ranks: rank r has the r-th share of their elements,
 * in memory order. The sum of an element is the left fold over micro-batches in their order, starting from
 * the owner's value: the bits of one process. Every rank then gathers the updated parameter. Source: ZeRO-1
 * (Rajbhandari et al. 2020); ranks add in the order of their numbers, as LightGBM and XGBoost do for small
 * sums. */
#ifndef NEAP_KERNEL_RANKS_H
#define NEAP_KERNEL_RANKS_H

#include "kernel/kernel.h"
#include "neap_collective.h"

/* The bytes that a rank has sent and received, and the time for this and for waiting; of gathers that run
 * beside kernels, the waiting alone. */
struct traffic {
  uint64_t sent, received; /* bytes */
  double seconds;
};

/* The additional state of a run with several ranks. */
struct ranks {
  const struct neap_collective *collective;
  int32_t active;         /* ranks that have a micro-batch in this round: 0 to active - 1 */
  struct traffic traffic; /* of all exchanges so far */
  /* Private: the arguments of an exchange, allocated once for all steps. */
  uint64_t *sizes;      /* [size] */
  neap_piece *pieces;   /* [2 size] */
  unsigned char **from; /* [size] */
  unsigned char *flags; /* [size] */
};

/* Opens the ranks of a collective; in the region. */
neap_status ranks_open(const struct neap_collective *collective, struct region *region, struct ranks **ranks);

/* Exchanges ranks->pieces: [size] to send, then [size] to receive. */
neap_status ranks_exchange(struct ranks *ranks);

/* Returns when every rank has made the call, and sees what the others had written before to memory that all
 * reach. */
neap_status ranks_wait(struct ranks *ranks);

/* Gives every rank all shares of `whole` elements of `size` bytes each; a rank's own share is in `all`. */
neap_status ranks_gather(struct ranks *ranks, void *all, int64_t whole, uint64_t size);

/* Copies this rank's share of the parameter that an AllGather reads to its place in all of it; returns what
 * ranks_gather then needs. */
struct whole {
  int64_t units;
  uint64_t unit; /* bytes */
};
struct whole ranks_place_own(const struct lowered *lowered, const struct kernel *kernel,
                             const struct ranks *ranks, const void *share, void *all);

/* Tells every rank whether `own` is true on any of them. */
neap_status ranks_any(struct ranks *ranks, bool own, bool *any);

/* Returns true if this rank has no micro-batch: it only runs nodes that ranks run together. */
static inline bool ranks_idle(const struct run_context *context) {
  return context->ranks != NULL && context->ranks->collective->rank >= context->ranks->active;
}

/* The number of parts of elements in sums of squares; a share consists of whole parts. */
enum { SHARE_PARTS = 64 };

/* Return the share of a rank in `whole` elements; and the largest share. */
struct share share_of_rank(int64_t whole, int rank, int ranks);
int64_t share_most(int64_t whole, int ranks);

/* The bytes of a tensor in a format that a rank has: all, or its share if the tensor is in shares. */
struct byte_share {
  uint64_t first, count, whole;
};
struct byte_share byte_share_of_rank(const struct backend *backend, const struct tensor *tensor,
                                     struct memory_format format, int rank);

/* Returns the bytes of a tensor in a format; for a tensor in shares, those of the largest share. */
uint64_t share_bytes(const struct backend *backend, const struct tensor *tensor, struct memory_format format);

/* Return whether ranks run a node together, so that all must run it in one order; and whether they share it
 * at all, together or each on its share. */
bool ranks_meet(const struct neap_graph *graph, const struct node *node);
bool ranks_share(const struct neap_graph *graph, const struct node *node);

/* Returns true if that order follows from the step, whatever the plans of ranks. Repeated gathers get their
 * place from the plan, which then is the same on all ranks. */
bool ranks_ordered(const struct neap_graph *graph, const struct node *node);

/* A node that ranks share: its elements, and the memory for received data before the kernel's workspace. */
struct rank_part {
  int64_t whole;
  uint64_t workspace; /* bytes; before the kernel's own */
  bool at_once;       /* it has room for the values of all ranks */
};

/* Prepares a node. `formats`: by tensor of the graph, views included. */
struct rank_part ranks_prepare(const struct backend *backend, const struct neap_graph *graph,
                               const struct node *node, const struct memory_format *formats, int ranks);

/* The bytes that a rank sends, and the number of exchanges, in one run of a plan's schedule [length] in which
 * each rank has a micro-batch. NULL: every node once. */
struct expected_traffic {
  int64_t calls;
  uint64_t sent; /* bytes */
};
struct expected_traffic ranks_expect(const struct lowered *lowered, const int32_t *schedule, int32_t length,
                                     int rank, int ranks);

/* Runs a node that ranks share, as kernel->run does; `context` has ranks. */
neap_status ranks_run(const struct lowered *lowered, const struct kernel *kernel, void *const *inputs,
                      void *const *outputs, void *workspace, const struct run_context *context);

#endif
