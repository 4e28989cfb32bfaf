/* Measures the memory that this process may still take. */
#ifndef NEAP_BASE_AVAILABLE_MEMORY_H
#define NEAP_BASE_AVAILABLE_MEMORY_H

#include "neap.h"

/* neap_memory_available, with /proc and /sys under the folder `root` ("" for the system's own). */
neap_status available_memory_read(const char *root, neap_available *out);

/* Replaces NEAP_BUDGET_AVAILABLE by a budget for the whole process: what it takes now, and what is available.
 * Leaves other budgets as they are. `*told` (may be NULL) then is what was found, else zeros.
 * NEAP_UNSUPPORTED: the system does not say. */
neap_status available_memory_settle(neap_session_options *options, neap_available *told);

/* Watches a run that took what was available. */
struct memory_watch {
  neap_available found; /* when the watch began; bytes 0: nothing is watched */
  uint64_t swapped;     /* bytes of the process that were swapped out then */
  double looked;        /* when it was last looked at, in seconds of clock_seconds */
};

/* Begins to watch; found->bytes 0: does nothing. */
void memory_watch_begin(struct memory_watch *watch, const neap_available *found);

/* Returns true if memory has become short since: pages of the process were swapped out, or less is free than
 * a quarter of the margin. */
bool memory_is_short(const struct memory_watch *watch, uint64_t swapped, uint64_t free_bytes);

/* NEAP_OUT_OF_MEMORY once memory_is_short. Looks at most once a second. */
neap_status memory_watch_check(struct memory_watch *watch);

#endif
