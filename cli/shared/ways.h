/* The ways to fine-tune a language model of a file, as `neap plan MODEL` compares them. */
#ifndef NEAP_CLI_WAYS_H
#define NEAP_CLI_WAYS_H

#include "shared/way.h"

/* Returns true if the open model is one whose ways are compared by these arguments. */
bool asks_for_ways(const struct arguments *a);

/* Refuses settings that only plan_ways takes, and `steps`. Returns EXIT_DONE, or EXIT_USAGE after a message.
 */
int check_ways_alone(const struct verb *verb, const struct arguments *a, int64_t steps);

/* Prints the table; the model is set. `steps`: of try_ways; 0: it is not asked for. Returns an exit status.
 */
int plan_ways(const struct verb *verb, const struct arguments *a, int64_t steps);

#endif
