/* Memory that all ranks of a collective reach, where all are processes of one machine, whatever connects
 * them. */
#ifndef NEAP_COLLECTIVE_COMMON_MEMORY_H
#define NEAP_COLLECTIVE_COMMON_MEMORY_H

#include "base/status.h"
#include "neap_collective.h"

/* Gives every rank a descriptor of the same `bytes` zeroed bytes, and the rest of their last page. They are
 * there until all ranks have closed it and unmapped them; they have no name, so nothing is left of it. Every
 * rank makes the call, with the same number. A failure is the same on all ranks. NEAP_OUT_OF_MEMORY: the
 * system does not have as many. NEAP_UNSUPPORTED: a rank does not reach the memory of rank 0: it runs on
 * another machine, in another container, or for another user; the message begins with `what`, which needs it.
 */
neap_status collective_open_memory(const neap_collective *c, const char *what, uint64_t bytes,
                                   int *descriptor);

#endif
