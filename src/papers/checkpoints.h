/* Checkpointing of chains whose steps are alike, or of which only the peak counts: pure algorithms on numbers
 * and plain arrays. Stages are 0 .. n - 1. */
#ifndef NEAP_PAPERS_CHECKPOINTS_H
#define NEAP_PAPERS_CHECKPOINTS_H

#include "base/region.h"
#include "base/status.h"
#include "search/chain_operation.h"

/* ---- Revolve: Griewank and Walther 2000, algorithm 799 ---- */

/* Least number of forward steps, beside the one in front of each backward step, that reverse a chain of
 * `steps` with `slots` checkpoints, the chain's input included: r * steps - C(slots + r, r - 1), r being the
 * least number of repetitions with C(slots + r, slots) >= steps. Both at least 1. */
int64_t revolve_forward_steps(int64_t steps, int32_t slots);

/* A schedule with so many, appended to `out`. */
neap_status revolve_operations(int32_t steps, int32_t slots, chain_operations *out);

/* ---- BPTT: Gruslys et al. 2016, Memory-efficient backpropagation through time ---- */

/* C(t, m): least forward steps, each backward step's own included, with m slots of hidden states, one of
 * which holds the chain's input (section 3.1); with `internal` > 0 a step may also be run once and all of it
 * kept, in so many slots (section 3.3). */
struct bptt {
  int32_t steps, slots, internal;
  struct region region;
  int32_t *cost;  /* [steps + 1][slots + 1] */
  int32_t *split; /* the same: steps to the next checkpoint; 0: keep all of the first step */
};

/* O(steps^2 slots) time. NEAP_TOO_LARGE: more than INT32_MAX / 2 forward steps. To be freed also after a
 * failure.
 */
neap_status bptt_create(int32_t steps, int32_t slots, int32_t internal, struct bptt *out);
void bptt_free(struct bptt *bptt);
int32_t bptt_forward_steps(const struct bptt *bptt, int32_t slots);
neap_status bptt_operations(const struct bptt *bptt, int32_t slots, chain_operations *out);

/* ---- Hong et al. 2025, 2502.12499 ---- */

/* Layers 0 .. n - 1: a checkpoint at i holds kept[i] bytes; layer k, when it is made again, bytes[k]. Chosen
 * is a rising sequence 0 = i_0 < ... < i_c = n - 1, of layers that hold checkpoints. The first objective:
 *
 *     sum of kept[i_k] + max of W(i_k, i_k+1),  W(i, j) = sum of bytes[i + 1 .. j - 1] + max of bytes[i .. j]
 *
 * `chosen` is [n]. O(n^3) time, O(n^2) memory. */
neap_status hong_n3_checkpoints(int32_t n, const uint64_t *bytes, const uint64_t *kept, int32_t *chosen,
                                int32_t *count, uint64_t *peak);

/* The revised objective: a checkpoint dies when its segment is done.
 *
 *     T(n - 1) = kept[n - 1],  T(i) = kept[i] + min over j > i of max(T(j), U(i, j)),
 *     U(i, j) = sum of bytes[i + 1 .. j] + max of bytes[i .. j],  peak = T(0)
 *
 * O(n) time and memory: prefix sums, a sliding maximum and a deque of candidates j. */
neap_status hong_checkpoints(int32_t n, const uint64_t *bytes, const uint64_t *kept, int32_t *chosen,
                             int32_t *count, uint64_t *peak);

#endif
