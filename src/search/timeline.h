/* A schedule under change. Live bytes by position and cost, as the simulator has them for a schedule, are
 * kept up to date while runs of nodes are inserted and removed, one at a time, each in O(sqrt(positions)) and
 * the readers it touches: local search scores its moves here. Both changes undo each other exactly.
 *
 * A run is one position of the schedule. It reads, of every value, the latest instance made before it, as in
 * the simulator, so the list alone decides who reads what: inserting a run takes over the later readers of
 * the run before it, removing gives them back.
 *
 * Positions are kept in blocks of at most TIMELINE_BLOCK runs; a range of positions is raised by touching the
 * blocks at its ends and one number for each block between. */
#ifndef NEAP_SEARCH_TIMELINE_H
#define NEAP_SEARCH_TIMELINE_H

#include "step/schedule.h"

enum { TIMELINE_BLOCK = 64 };

/* A value that a node reads; each once, however often it is listed. */
struct read {
  int32_t producer, output; /* the tensor is output number `output` of `producer` */
};

/* The facts about a node that all its runs share. Number node_count means the end of the step, which reads
 * the step's outputs. */
struct reading {
  int32_t first_read, read_count;
  int32_t first_pair, pair_count;   /* in place: (output, read) */
  int32_t first_fence, fence_count; /* nodes that no run may come after (updates of its inputs) */
  int32_t first_after, after_count; /* nodes that it must come after (readers of tensors that it updates) */
};

struct run {
  int32_t node;
  int32_t block, index;   /* its position */
  int32_t previous, next; /* runs of the same maker, in order of position; -1: none */
  int32_t first_link, first_slot;
  int64_t credit; /* bytes that it saves by working in place */
};

/* One read of one run. */
struct link {
  int32_t slot, reader;
  int32_t previous, next; /* of the same slot, in no order */
};

/* One instance: an output of a run. */
struct slot {
  int32_t run, readers; /* first link; -1: none */
  int32_t last;         /* the run that reads it last; its own if there is no reader */
  int64_t bytes;
};

struct block {
  int32_t count;
  int32_t runs[TIMELINE_BLOCK];
  int64_t live[TIMELINE_BLOCK]; /* without the amount by which the block was raised */
};

struct timeline {
  const neap_step *step;
  int64_t limit;  /* on live bytes of values */
  double cost;    /* of all runs */
  int64_t work;   /* done so far, in blocks looked at: the same on every machine */
  int64_t excess; /* sum over positions of live bytes above the limit */
  uint64_t area;  /* sum over positions of live bytes, modulo 2^64: of use for differences */
  int32_t length; /* runs, the end's left out */
  int32_t end;    /* the run that means the end of the step */

  struct run *runs;
  struct link *links;
  struct slot *slots;
  int32_t *first_run, *last_run, *run_count; /* by maker: its runs and those of the node that restores it */
  int32_t *free_run;                         /* by node */
  int32_t *present, *present_at;             /* runs in no order; run -> its index there */
  int32_t *repeated, *repeated_at;           /* makers with several runs, likewise */
  int32_t repeated_count;
  int32_t runs_used, links_used, slots_used, run_limit, link_limit, slot_limit;

  struct block *blocks;
  int32_t *order; /* block -> its place in the order; -1: it is free */
  int32_t *at;    /* by place: the block */
  int64_t *raised, *highest, *lowest,
      *over; /* by place: added to all, largest and least live, bytes above the limit */
  int32_t block_count, free_block, blocks_used, block_limit;
  int32_t *stale, *is_stale; /* blocks whose sums are not up to date; by block: 1 if it is one */
  int32_t stale_count;

  struct reading *readings; /* node_count + 1 */
  struct read *reads;
  struct inplace_pair *pairs; /* .input: index of a read */
  int32_t *fences, *afters;
  struct region region; /* owns all of it */
};

/* Copies a valid schedule (NEAP_INVALID_PLAN if it is not). `limit`: bytes of values, without resident ones.
 * `spare`: how many runs may be added. Call timeline_free also after a failure. */
neap_status timeline_create(const neap_step *step, uint64_t limit, const int32_t *schedule, int32_t length,
                            int32_t spare, struct timeline *out);
void timeline_free(struct timeline *timeline);

/* Inserts a run of `node` before `successor` and returns it. Returns -1 and changes nothing if a rule forbids
 * it (an input is not made before, an update would come too early or a read too late, the node must not
 * repeat) or if there is no room for one more. `moving`: the node's other run is about to be removed. */
int32_t timeline_insert(struct timeline *timeline, int32_t node, int32_t successor, bool moving);

/* Removes a run. Returns false and changes nothing if a reader would find no earlier instance, or if it is
 * the only run of a node that is not optional. */
bool timeline_remove(struct timeline *timeline, int32_t run);

/* Returns the node whose outputs a node makes: itself, or the one that it restores. Also of the end. */
static inline int32_t timeline_maker(const struct timeline *t, int32_t node) {
  return node < t->step->node_count ? t->step->maker[node] : node;
}

/* Returns true if `run` is strictly before `other`. */
static inline bool timeline_before(const struct timeline *t, int32_t run, int32_t other) {
  const struct run *a = &t->runs[run], *b = &t->runs[other];
  return a->block == b->block ? a->index < b->index : t->order[a->block] < t->order[b->block];
}

int32_t timeline_successor(const struct timeline *timeline, int32_t run);   /* -1 after the end */
int32_t timeline_predecessor(const struct timeline *timeline, int32_t run); /* -1 before the first */
int64_t timeline_peak(const struct timeline *timeline);                     /* live bytes of values */
int64_t timeline_live(const struct timeline *timeline, int32_t run);        /* at its position */

/* Returns by how much the excess would fall with this many bytes less at every position strictly between two
 * runs. */
int64_t timeline_relief(struct timeline *timeline, int32_t after, int32_t before, int64_t bytes);

/* Returns a run whose position is over the limit, the highest in the `pick`-th block (modulo their number)
 * that has one; -1: none. */
int32_t timeline_hottest(const struct timeline *timeline, uint32_t pick);

/* Writes the node ids in order into a schedule that has room for `length` of them. */
void timeline_copy(const struct timeline *timeline, int32_t *schedule);

#endif
