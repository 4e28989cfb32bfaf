/* The choice that a router makes, for kernels of all backends. */
#ifndef NEAP_KERNEL_ROUTER_H
#define NEAP_KERNEL_ROUTER_H

#include <stdbool.h>
#include <stdint.h>

/* Chooses the `count` experts of the highest scores of a row, the best first; of equal ones the first. Gives
 * their numbers, and their shares of the softmax over all experts or, if `normalised`, over those chosen. */
void route_row(const double *scores, int64_t experts, int64_t count, bool normalised, int32_t *chosen,
               double *shares);

/* Gives the gradient of the scores, from those of the shares. */
void route_row_backward(const double *scores, int64_t experts, int64_t count, bool normalised,
                        const double *dshares, int32_t *chosen, double *shares, double *dscores);

/* Sorts the rows of chosen experts [rows, count] by expert, then by row: `rows_of` [rows * count] has the row
 * that each is of, `places` [rows, count] where each stands, `ends` [experts] where each expert's end. */
void route_sort(const int32_t *chosen, int64_t rows, int64_t count, int64_t experts, int32_t *rows_of,
                int32_t *places, int32_t *ends);

#endif
