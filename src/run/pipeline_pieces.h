/* The pieces of a run that ranks divide by depth: which rank runs which nodes of each program, which values
 * pass from piece to piece, and which rank has which variable. No bytes, no data. */
#ifndef NEAP_RUN_PIPELINE_PIECES_H
#define NEAP_RUN_PIPELINE_PIECES_H

#include "plan/pipeline_plan.h"
#include "session/session.h"

/* Nodes of one program that a rank runs at once. */
struct piece {
  int32_t rank; /* of a part of a schedule the first one that runs it */
  bool *nodes;  /* by node of the program's whole graph */
};

/* A value, or an input of a step, that pieces other than its maker read. */
struct piece_value {
  enum program_kind program;
  int32_t tensor;
  int32_t maker; /* a piece; -1: it is an input */
  bool *readers; /* by piece: reads it, and does not make it itself */
};

struct pieces {
  struct region region;
  int32_t ranks;
  bool common; /* all ranks reach all variables and values, and any rank may run a part of the step */
  const struct lowered *whole[PROGRAM_COUNT]; /* borrowed; NULL: there is no such program */
  struct piece *pieces;                       /* the parts of the schedule first */
  int32_t count, begin[PROGRAM_COUNT],
      end[PROGRAM_COUNT]; /* pieces of each program, in the order of running */
  struct piece_value *values;
  int32_t value_count;
  int32_t *owner;    /* by tensor of the step: the rank that has a variable for all; -1: not a variable */
  uint64_t *present; /* by tensor of the step: bit r is set if rank r has it */
};

/* Divides the programs of a session by a schedule whose parts each stay on one rank, but where variables and
 * values lie in memory that is `common` to all. `chain`: the blocks of whole[PROGRAM_STEP]. Free `out` with
 * pipeline_pieces_free, also after a failure. NEAP_UNSUPPORTED: the evaluation reads weights in another order
 * than the step. */
neap_status pipeline_pieces_make(const struct lowered *const *whole, const struct chain *chain,
                                 const struct pipeline_schedule *schedule, bool common, struct pieces *out);
void pipeline_pieces_free(struct pieces *pieces);

/* Return the rank that runs a part of a schedule, the first of them; that which does for a micro-batch; and
 * whether a rank does for any. -1: none. */
int32_t pipeline_rank_of_part(const struct pipeline_schedule *schedule, int32_t part);
int32_t pipeline_rank_of_task(const struct pipeline_schedule *schedule, struct pipeline_task task);
bool pipeline_runs_part(const struct pipeline_schedule *schedule, int32_t rank, int32_t part);

/* Returns the tensor of the step that is the same variable as tensor `id` of a program; -1: none. */
int32_t pipeline_variable(const struct pieces *pieces, enum program_kind program, int32_t id);

/* A tick: each rank runs at most one task; then values are sent. */
struct tick {
  struct pipeline_task *tasks; /* by rank; part -1: none */
};

/* Gives the ticks of a schedule: every task as early as its rank, the part before it and the same part of the
 * micro-batch before allow. Memory is the region's. NEAP_INVALID_PLAN: ranks wait for each other. */
neap_status ticks_make(const struct pipeline_schedule *schedule, struct region *region, struct tick **ticks,
                       int32_t *count);

#endif
