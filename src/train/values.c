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

static double mae(const struct value_sums *s) { return s->count > 0 ? s->distance / s->count : 0; }

static double rmse(const struct value_sums *s) { return s->count > 0 ? sqrt(s->squares / s->count) : 0; }

static double r2(const struct value_sums *s) {
  const double spread = s->count > 0 ? s->sum_squares - s->sum * s->sum / s->count : 0;
  return spread > 0 ? 1 - s->squares / spread : 0;
}

static double mean_of(double (*figure)(const struct value_sums *), const struct value_sums *sums,
                      int64_t each) {
  double sum = 0;
  for (int64_t i = 0; i < each; i++) sum += figure(&sums[i]);
  return each > 0 ? sum / (double)each : 0;
}

double values_mae(const struct value_sums *sums, int64_t each) { return mean_of(mae, sums, each); }
double values_rmse(const struct value_sums *sums, int64_t each) { return mean_of(rmse, sums, each); }
double values_r2(const struct value_sums *sums, int64_t each) { return mean_of(r2, sums, each); }
