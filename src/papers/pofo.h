/* POFO (Beaumont et al. 2021, Efficient combination of rematerialization and offloading for training DNNs): a
 * chain whose values are kept, made again, or stored elsewhere and brought back, by dynamic programming.
 * Plain numbers, no graph: memory in slots, costs in any unit, as in search/rotor.h.
 *
 * A state is (i, A, f, g, inside): stages 0 .. i - 1 have run forward; A slots stay for their backward parts;
 * f slots are still to be sent, and g are to be brought back before those parts; boundary i - 1 is there
 * (`input`), with all that stage i - 1 keeps if `inside`. From a state either
 *
 *   keep:  stage i runs forward and keeps all; f slots that do not fit beside it must have left before, and
 * of the g slots those that do not fit beside its backward part are brought back behind it; later: stages i
 * .. j - 1 run forward and keep nothing. Their backward pass is rotor's optimum in the slots that are left,
 * with all, half or none of g there; the rest is brought back behind it.
 *
 * Either way the input stays or is stored. Both directions have a rate of their own, and transfers run beside
 * the stages. At the end what is left of f and g is waited for. With rates of 0 this is rotor's optimum for
 * stages with one option. */
#ifndef NEAP_PAPERS_POFO_H
#define NEAP_PAPERS_POFO_H

#include "search/rotor.h"

struct pofo_chain {
  const struct rotor_stage *stages; /* [count], of one mode, option and leaf each: all is kept */
  int32_t count, slots;
  const int32_t *input_stored;  /* [count]: slots of boundary s - 1 that can be stored */
  const int32_t *inside_stored; /* [count]: and of what stage s keeps */
  double write, read;           /* slots in a unit of cost */
};

/* The values of a stage's input that are stored. */
enum pofo_stored {
  POFO_NOTHING,
  POFO_INPUT,           /* boundary s - 1 */
  POFO_INPUT_AND_INSIDE /* and what stage s - 1 keeps */
};

/* Finds the cheapest way: its estimated cost, operations that are appended to `out`, and what is stored, by
 * stage [count]. NEAP_OVER_BUDGET: none exists. O(count^2 slots^3) time and O(count slots^3) memory at most;
 * only states that are reached are looked at. */
neap_status pofo_solve(const struct pofo_chain *chain, float *cost, chain_operations *out,
                       enum pofo_stored *stored);

#endif
