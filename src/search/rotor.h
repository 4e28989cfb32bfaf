/* Optimal persistent checkpointing of a heterogeneous chain with options per stage (Beaumont et al. 2019,
 * 1911.13214, section 4). Plain numbers, no graph: memory in slots of any size, costs in any unit.
 *
 * Stage s reads boundary s - 1 and makes boundary s. opt(p, m, a, b): least cost of running stages a .. b
 * forward and then b .. a backward in m slots, beside boundary a - 1, which is held, with the gradient of
 * boundary b counted in m:
 *
 *   leaf:   a = b: one of the leaves of a whose peak is at most m
 *   now:    a runs forward with option k and is not run again;
 *           cost[k] + opt(p, m - kept[k] - input[a + 1], a + 1, b)
 *   later:  stages a .. j - 1 run forward and keep only boundary j - 1;
 *           sum of forward costs + opt(p, m - input[j], j, b) + opt(p, m, a, j - 1)
 *
 * each only where the peaks of its own nodes fit. Beyond the paper, stages have modes: in mode p > 0 each
 * stage of a .. b holds a few bytes of its inside, beside m, which make running it again cheaper. A sweep of
 * mode 0 may leave them behind, H being the sum of what stages a .. j - 1 hold:
 *
 *   later, leaving p:  sum of forward costs + opt(0, m - input[j] - H, j, b) + opt(p, m - H, a, j - 1)
 *
 * (where b is the last stage, so in the first run, or the stretch is of at most ROTOR_EXACT stages). What the
 * stages of j .. b held is free again when they are done: in mode p the second half of `later` has that much
 * more. */
#ifndef NEAP_SEARCH_ROTOR_H
#define NEAP_SEARCH_ROTOR_H

#include <stdbool.h>

#include "base/region.h"
#include "search/chain_operation.h"

/* Returns the slots, of `slot` bytes each, that bytes take, rounded to the nearest number. */
static inline int32_t rotor_slots(double slot, uint64_t bytes) {
  const double slots = (double)bytes / slot + 0.5;
  return slots < INT32_MAX / 8 ? (int32_t)slots : INT32_MAX / 8;
}

/* A way to run a stage now and to use later what it keeps. */
struct rotor_option {
  int32_t kept;          /* slots between its forward and its backward part, without boundary s */
  int32_t forward_peak;  /* slots while it runs forward: what it keeps, boundary s, transients */
  int32_t backward_peak; /* slots while it runs backward: what it keeps, gradients, transients */
  float cost;            /* forward and backward together */
};

/* A way to run a stage forward and directly backward. */
struct rotor_leaf {
  int32_t peak;
  float cost;
};

enum { ROTOR_MODES = 3 };

struct rotor_mode {
  int32_t held;         /* slots; 0 in mode 0 */
  int32_t forward_peak; /* slots while it runs forward and keeps boundary s - 1, which is not counted */
  float forward_cost;   /* of running forward and keeping nothing more inside */
  int32_t option_count, leaf_count;
  const struct rotor_option *options;
  const struct rotor_leaf *leaves;
};

struct rotor_stage {
  int32_t input;    /* slots of boundary s - 1 */
  int32_t gradient; /* slots of the gradients that exist when the backward pass reaches s */
  int32_t kind;     /* stages of one kind are the same in every field: their tables are shared */
  struct rotor_mode modes[ROTOR_MODES];
};

struct rotor; /* the tables for all memories up to a limit */

/* Fills the tables of `modes` modes for all m up to `slots`. The stages must live as long as the tables. Up
 * to ROTOR_EXACT stages every split j is tried; of a longer stretch all those within ROTOR_EXACT / 2 of its
 * ends and ever fewer towards its middle. O(distinct (a, b) x splits x slots) time, O(distinct (a, b) x
 * slots) memory; stretches of the same kinds count once. */
enum { ROTOR_EXACT = 24 };
neap_status rotor_create(const struct rotor_stage *stages, int32_t count, int32_t modes, int32_t slots,
                         struct rotor **out);
void rotor_free(struct rotor *rotor);

/* Returns about how many additions rotor_create does: to choose the slots, or how far to coarsen a chain. */
double rotor_work(const struct rotor_stage *stages, int32_t count, int32_t modes, int32_t slots);

/* Returns the least cost within `slots`; INFINITY: none. */
float rotor_cost(const struct rotor *rotor, int32_t slots);

/* Returns the least cost of stages a .. b alone: opt(0, slots, a, b). */
float rotor_part_cost(const struct rotor *rotor, int32_t a, int32_t b, int32_t slots);

/* Appends to `out` the operations that reach rotor_cost(), or rotor_part_cost(); choices are options and
 * leaves of the modes. NEAP_OVER_BUDGET: none exist. */
neap_status rotor_trace(const struct rotor *rotor, int32_t slots, chain_operations *out);
neap_status rotor_part_trace(const struct rotor *rotor, int32_t a, int32_t b, int32_t slots,
                             chain_operations *out);

#endif
