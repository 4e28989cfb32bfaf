/* A training step that is divided among ranks by its depth: a chain of blocks, of which each rank runs some,
 * for one micro-batch after another. Pure numbers: seconds and bytes. */
#ifndef NEAP_PIPELINE_PIPELINE_H
#define NEAP_PIPELINE_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/region.h"
#include "base/status.h"

/* Seconds and bytes are those of one micro-batch, but for update, resident and weights. */
struct pipeline_block {
  double forward, backward; /* seconds */
  double recompute;         /* seconds to make `kept` again from the block's input */
  double update;            /* seconds, once a step */
  uint64_t resident;        /* bytes of weights, sums of gradients, states */
  uint64_t weights;         /* bytes of gradients that ranks sum, and of weights that they send, where several
                               have the block */
  uint64_t kept;            /* bytes made inside that backward reads, but for input and output */
  uint64_t pinned;          /* the same of what is not made twice: kept where the block is recomputed, too */
  uint64_t working;         /* bytes beyond all that while a node runs */
  uint64_t boundary;        /* bytes of the value that leaves it, and of its gradient; 0 for the last block */
  bool reads_output;        /* its backward reads the value that leaves it */
};

/* A variable that several blocks read: each rank that has one of them has it once. */
struct pipeline_shared {
  uint64_t resident, weights;
  int32_t begin, end; /* its blocks: shared_blocks[begin .. end) */
};

struct pipeline_problem {
  int32_t block_count, shared_count, ranks, micro_batches;
  const struct pipeline_block *blocks;
  const struct pipeline_shared *shared;
  const int32_t *shared_blocks;
  double bandwidth, latency; /* bytes a second; seconds of a transfer besides its bytes */
  uint64_t budget;           /* bytes of each rank; UINT64_MAX: any */
  bool common; /* all ranks reach one memory: weights, sums, states and values between parts lie in it
                  once; each rank counts an equal part of its bytes, and nothing is sent */
  bool fixed; /* only schedules whose parts take micro-batches in their order and, but for `common`, each stay
                 on one rank */
};

/* A part is a run of blocks that a rank runs at once. Every micro-batch goes through all parts in their
 * order: forward ones, whose blocks rise from the first, then backward ones, whose blocks fall from the last.
 * Their borders may differ. A part of both passes, which runs blocks forward and at once backward, may stand
 * between them. */
enum pipeline_pass { PIPELINE_FORWARD, PIPELINE_BACKWARD, PIPELINE_BOTH };

struct pipeline_part {
  int32_t begin, end; /* blocks [begin, end) */
  enum pipeline_pass pass;
  bool recompute; /* of a backward part: its blocks keep only its input, and run forward again */
  double early;   /* seconds of its work that may be done before the value from the part before arrives */
};

struct pipeline_task {
  int32_t part, micro_batch;
};

/* Rank r runs tasks[task_start[r] .. task_start[r + 1]) in this order. */
struct pipeline_schedule {
  struct region region; /* owns all that is pointed to */
  int32_t ranks, micro_batches, part_count;
  struct pipeline_part *parts;
  int32_t *task_start;
  struct pipeline_task *tasks;
};

/* Makes room for parts, and for the tasks that they have: each part once for each micro-batch. */
neap_status pipeline_schedule_create(const struct pipeline_problem *problem, int32_t part_count,
                                     struct pipeline_schedule *out);
void pipeline_schedule_free(struct pipeline_schedule *schedule);

/* Frees `*to` and makes it a copy. On failure it is empty. */
neap_status pipeline_schedule_copy(const struct pipeline_schedule *from, struct pipeline_schedule *to);

/* Seconds of a task of the part, of which the first are for recomputation. */
double pipeline_recompute_seconds(const struct pipeline_problem *problem, const struct pipeline_part *part);
double pipeline_part_seconds(const struct pipeline_problem *problem, const struct pipeline_part *part);

/* Seconds of one transfer between ranks. */
double pipeline_transfer(const struct pipeline_problem *problem, uint64_t bytes);

#endif
