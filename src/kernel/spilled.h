/* Updates of variables that lie in a session's file on disk (tensor.spilled). Such an update takes the memory
 * of two pieces: while a kernel works on one, the next is read and the one before is written. Pieces are cut
 * in memory order at multiples of one constant, so results have the bits of a run in memory. Rules that need
 * whole matrices read all of their variables first. */
#ifndef NEAP_KERNEL_SPILLED_H
#define NEAP_KERNEL_SPILLED_H

#include "kernel/kernel.h"

enum { SPILL_PIECE = 1 << 17 /* elements of a piece: whole blocks of every type */, SPILL_PAGE = 4096 };

/* The file of a session, whose variables have numbers. Jobs end in the order in which they start. */
struct spill {
  /* Starts to read a piece to memory that begins at a multiple of SPILL_PAGE and has room for whole pages, or
   * to write it; returns the number of the job. */
  uint64_t (*start)(void *context, bool write, int64_t variable, int64_t piece, void *memory);
  /* Waits until job `number` and those before it have ended. Returns their first failure. */
  neap_status (*wait)(void *context, uint64_t number);
  /* Start to read a complete variable or value to a place in the session's memory, or to write it from there.
   */
  void (*load)(void *context, int64_t variable, uint64_t place);
  void (*store)(void *context, int64_t variable, uint64_t place);
  void *context;
  /* Reads bytes of a variable and waits; of a piece that was read last they come from memory. */
  neap_status (*read)(void *context, int64_t variable, uint64_t first, uint64_t count, void *to);
  struct lane *lane; /* program/lane.h: of its jobs */
};

/* The elements of an update of spilled variables, and its memory. Zeros: it has no such variable. */
struct spilled_part {
  int64_t whole, piece; /* elements */
  uint64_t workspace;   /* bytes; before the kernel's own */
  uint64_t read, written;
};

/* Returns true if a node updates spilled variables where they lie, or reads them for updates. */
bool spilled_updates(const struct neap_graph *graph, const struct node *node);

/* Prepares a node. `formats`: by tensor of the graph. */
struct spilled_part spilled_prepare(const struct backend *backend, const struct neap_graph *graph,
                                    const struct node *node, const struct memory_format *formats);

/* Returns the seconds that such an update reads and writes. */
double spilled_seconds(const struct roofline *roofline, const struct spilled_part *part);

/* Runs a node as kernel->run does. `numbers`: by input, the number of a spilled variable. `context` has a
 * spill. No job is left when it returns. */
neap_status spilled_run(const struct lowered *lowered, const struct kernel *kernel, const uint64_t *numbers,
                        void *const *inputs, void *workspace, const struct run_context *context);

#endif
