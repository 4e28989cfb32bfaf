#include "kernel/router.h"

#include <string.h>

#include "base/elementary.h"

static bool is_among(const int32_t *chosen, int64_t count, int64_t expert) {
  for (int64_t i = 0; i < count; i++)
    if (chosen[i] == expert) return true;
  return false;
}

void route_row(const double *scores, int64_t experts, int64_t count, bool normalised, int32_t *chosen,
               double *shares) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) {
    int64_t best = -1;
    for (int64_t e = 0; e < experts; e++)
      if (!is_among(chosen, i, e) && (best < 0 || scores[e] > scores[best])) best = e;
    chosen[i] = (int32_t)best;
  }
  const double most = scores[chosen[0]];
  for (int64_t i = 0; i < count; i++) shares[i] = natural_exponential(scores[chosen[i]] - most);
  for (int64_t i = 0; normalised && i < count; i++) sum += shares[i];
  for (int64_t e = 0; !normalised && e < experts; e++) sum += natural_exponential(scores[e] - most);
  for (int64_t i = 0; i < count; i++) shares[i] /= sum;
}

void route_row_backward(const double *scores, int64_t experts, int64_t count, bool normalised,
                        const double *dshares, int32_t *chosen, double *shares, double *dscores) {
  double all = 0;
  route_row(scores, experts, count, normalised, chosen, shares);
  const double most = scores[chosen[0]], first = shares[0];
  for (int64_t i = 0; i < count; i++) all += dshares[i] * shares[i];
  for (int64_t e = 0; e < experts; e++)
    dscores[e] = normalised ? 0 : -all * natural_exponential(scores[e] - most) * first;
  for (int64_t i = 0; i < count; i++) dscores[chosen[i]] = shares[i] * (dshares[i] - all);
}

void route_sort(const int32_t *chosen, int64_t rows, int64_t count, int64_t experts, int32_t *rows_of,
                int32_t *places, int32_t *ends) {
  memset(ends, 0, (size_t)experts * sizeof *ends);
  for (int64_t i = 0; i < rows * count; i++) ends[chosen[i]]++;
  int32_t before = 0;
  for (int64_t e = 0; e < experts; e++) { /* where each expert begins */
    const int32_t own = ends[e];
    ends[e] = before;
    before += own;
  }
  for (int64_t i = 0; i < rows * count; i++) {
    const int32_t place = ends[chosen[i]]++; /* in the end where it ends */
    rows_of[place] = (int32_t)(i / count);
    places[i] = place;
  }
}
