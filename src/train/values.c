#include "train/values.h"

#include <math.h>

void values_add(struct value_sums *s, double value, double prediction) {
  const double error = prediction - value;
  if (s->count == 0) s->first = value;
  s->count++;
  s->distance += fabs(error);
  s->squares += error * error;
  s->sum += value - s->first;
  s->sum_squares += (value - s->first) * (value - s->first);
}

double values_mae(const struct value_sums *s) { return s->count > 0 ? s->distance / s->count : 0; }

double values_r2(const struct value_sums *s) {
  const double spread = s->count > 0 ? s->sum_squares - s->sum * s->sum / s->count : 0;
  return spread > 0 ? 1 - s->squares / spread : 0;
}
