/* The errors of predicted values. */
#ifndef NEAP_TRAIN_VALUES_H
#define NEAP_TRAIN_VALUES_H

#include <stdint.h>

/* Sums over one value of each record and its predictions; starts with zeros. */
struct value_sums {
  double count, distance, squares; /* |prediction - value|, and its square */
  double first, sum, sum_squares;  /* of value - first */
};

void values_add(struct value_sums *sums, double value, double prediction);

/* Return means over `each` values of a record, as in scikit-learn: of the mean absolute errors; of the roots
 * of the mean squared errors; of 1 less the squared error over that of the mean (R2), 0 for a value that is
 * always the same. */
double values_mae(const struct value_sums *sums, int64_t each);
double values_rmse(const struct value_sums *sums, int64_t each);
double values_r2(const struct value_sums *sums, int64_t each);

#endif
