/* How fast a collective is. */
#ifndef NEAP_COLLECTIVE_MEASURE_H
#define NEAP_COLLECTIVE_MEASURE_H

#include "base/status.h"
#include "neap_collective.h"

/* Measures with all ranks, which give the same `bytes`; every rank gets the same results.
 *   *latency           seconds of an allgather of 8 bytes a rank: the median of 100
 *   *bytes_per_second  what each rank sends, and receives, in an exchange of `bytes` bytes a rank, in equal
 * parts for the others; the best of 5. Rank count 1, or fewer bytes than other ranks: 0 Takes twice `bytes`
 * of memory while it runs. */
neap_status collective_measure(const neap_collective *c, uint64_t bytes, double *latency,
                               double *bytes_per_second);

#endif
