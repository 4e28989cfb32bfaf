/* How well values are predicted. */
#ifndef NEAP_TRAIN_VALUES_H
#define NEAP_TRAIN_VALUES_H

#include <stdint.h>

/* Sums over values and their predictions; zeros: of none. */
struct value_sums {
  double count, distance, squares; /* |prediction - value|, and its square */
  double first, sum, sum_squares;  /* of value - first */
};

void values_add(struct value_sums *sums, double value, double prediction);

/* The mean absolute error; 1 less the squared error over that of the mean (R2): 0 where values do not differ.
 */
double values_mae(const struct value_sums *sums);
double values_r2(const struct value_sums *sums);

#endif
