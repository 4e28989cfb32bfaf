/* The values of a lowered graph that lie in a session's file on disk: variables (tensor.spilled), then values
 * that a plan stores there (kernel/restorers.h). */
#ifndef NEAP_PROGRAM_SPILLED_VARIABLES_H
#define NEAP_PROGRAM_SPILLED_VARIABLES_H

#include "base/vector.h"
#include "program/spill_file.h"
#include "step/plan.h"

/* Returns such a variable. */
struct spilled_variable spilled_variable_of(const struct lowered *lowered, int32_t tensor);

/* Returns how many elements of a variable are read and written at a time without the others: a piece of a
 * row-major one on disk; 0: all at once. */
int64_t spilled_piece(const struct lowered *lowered, int32_t tensor);

/* Returns the number of variables. */
int64_t spilled_count(const struct lowered *lowered);

/* Adds the values that a plan stores, by the number of the Store, as its calls number them
 * (program/program.c).
 */
typedef VECTOR(struct spilled_variable) spilled_list;
neap_status spilled_add_values(const struct neap_step *step, const struct neap_plan *plan,
                               spilled_list *list);

/* Gives the bytes of a file with all of them. */
neap_status spilled_file_bytes(const struct lowered *lowered, const struct neap_plan *plan, uint64_t *bytes);

/* Returns the bytes of the largest one that is read as a whole, in its format; 0: none is. */
uint64_t spilled_whole_bytes(const struct lowered *lowered);

#endif
