/* The operating system's figures of this process's memory. */
#ifndef NEAP_BASE_MEMORY_STATUS_H
#define NEAP_BASE_MEMORY_STATUS_H

#include <stdint.h>

struct memory_status {
  uint64_t resident_bytes;      /* in memory now: VmRSS */
  uint64_t peak_resident_bytes; /* the most since the process began, or since it was forgotten: VmHWM */
  uint64_t swapped_bytes;       /* swapped out now: VmSwap */
};

/* Zeros where the system does not say (no /proc). Allocates nothing. */
struct memory_status memory_status_read(void);

/* Gives what the heap has free back to the system, where the C library can. */
void memory_status_trim(void);

/* From now on the peak is the most since now (proc(5), clear_refs). Where the system does not allow that, it
 * stays the most since the process began. */
void memory_status_forget_peak(void);

#endif
