/* Hong et al. 2025 (2502.12499): checkpointing of a chain that minimises only the peak. */
#ifndef NEAP_PAPERS_HONG_H
#define NEAP_PAPERS_HONG_H

#include "step/planner.h"

/* Chooses checkpoints of layers 0 .. n - 1: one at i holds kept[i] bytes; layer k, when it is made again,
 * bytes[k]. The choice is a rising sequence 0 = i_0 < ... < i_c = n - 1 of layers. The first objective:
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

/* The planners: a step as a chain, by the number of stages at its end that keep everything. */
planner_function plan_hong_n3, plan_hong;

#endif
