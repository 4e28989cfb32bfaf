/* Nodes that several processes (ranks) run together: a gradient that is added to a sum of all ranks,
 * statistics that each rank has some of, updates of which each rank does a share.
 *
 * A sum, and the states of an update, lie once over all ranks: rank r has the r-th share of their elements,
 * as they lie in memory. The sum of an element is the left fold over micro-batches in their order, which
 * starts from what the owner has: the bits of one process. What an update changes in the parameter is then
 * gathered by every rank. Source: ZeRO-1 (Rajbhandari et al. 2020), with the order of LightGBM's and
 * XGBoost's small all-reduces. */
#ifndef NEAP_KERNEL_RANKS_H
#define NEAP_KERNEL_RANKS_H

#include "kernel/kernel.h"
#include "neap_collective.h"

/* What a rank has sent and received, and how long that and waiting for others took. */
struct traffic {
  uint64_t sent, received; /* bytes */
  double seconds;
};

/* What a run has besides where there are several ranks. */
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

/* For the ranks of a collective; in the region. */
neap_status ranks_open(const struct neap_collective *collective, struct region *region, struct ranks **ranks);

/* Gives every rank all shares of `whole` elements of `size` bytes each, of which each rank has its own in
 * `all`. */
neap_status ranks_gather(struct ranks *ranks, void *all, int64_t whole, uint64_t size);

/* Tells every rank whether any of them says so. */
neap_status ranks_any(struct ranks *ranks, bool own, bool *any);

/* Whether this rank has none: then it only runs what ranks run together. */
static inline bool ranks_idle(const struct run_context *context) {
  return context->ranks != NULL && context->ranks->collective->rank >= context->ranks->active;
}

/* Cuts elements into the parts that sums of squares have; a share is whole parts. */
enum { SHARE_PARTS = 64 };

/* The share of a rank in `whole` elements; and the most that a rank has. */
struct share share_of_rank(int64_t whole, int rank, int ranks);
int64_t share_most(int64_t whole, int ranks);

/* The bytes of a tensor in a format that a rank has: all, or where it lies in shares its own. */
struct byte_share {
  uint64_t first, count, whole;
};
struct byte_share byte_share_of_rank(const struct backend *backend, const struct tensor *tensor,
                                     struct memory_format format, int rank);

/* Bytes that a tensor takes in a format: of what lies in shares, the largest share. */
uint64_t share_bytes(const struct backend *backend, const struct tensor *tensor, struct memory_format format);

/* Whether ranks run a node together, so that all have to run it in one order; and whether they do so at all,
 * or each on its share. */
bool ranks_meet(const struct neap_graph *graph, const struct node *node);
bool ranks_share(const struct neap_graph *graph, const struct node *node);

/* Whether that order follows from the step, whatever the plans of ranks. What is gathered again and again has
 * its place from the plan, which then is the same on all ranks. */
bool ranks_ordered(const struct neap_graph *graph, const struct node *node);

/* Of a node that ranks share: its elements, and what it receives into besides the kernel's workspace. */
struct rank_part {
  int64_t whole;
  uint64_t workspace; /* bytes; before the kernel's own */
  bool at_once;       /* it has room for the values of all ranks */
};

/* `formats`: by tensor of the graph, views included. */
struct rank_part ranks_prepare(const struct backend *backend, const struct neap_graph *graph,
                               const struct node *node, const struct memory_format *formats, int ranks);

/* What a rank sends, and in how many exchanges, in one run of a plan's schedule [length], where each rank has
 * a micro-batch. NULL: of all nodes once. */
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
