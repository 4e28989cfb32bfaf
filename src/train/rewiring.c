#include "train/rewiring.h"

bool rewiring_due(int64_t step, int64_t steps, int64_t every) {
  static const double doubled[] = {0.125, 0.4, 0.7}, last = 0.95;
  const double gone = (double)step / (double)steps;
  for (size_t i = 0; i < sizeof doubled / sizeof *doubled; i++)
    if (gone > doubled[i] && every <= INT64_MAX / 2) every *= 2;
  return gone <= last && step % every == 0;
}
