/* Draws the partner of a record for mixup (Zhang, Cisse, Dauphin, Lopez-Paz 2018, "mixup: Beyond Empirical
 * Risk Minimization"). */
#ifndef NEAP_DATA_MIXUP_H
#define NEAP_DATA_MIXUP_H

#include <stdint.h>

struct mixing {
  int64_t partner; /* in [0, count), uniform; it may be the record itself */
  float share;     /* weight of the record, from Beta(alpha, alpha); the partner has the rest */
};

/* Draws partner and share of a record in an epoch, from counters: they depend on these arguments alone. alpha
 * > 0, count > 0. The share is G / (G + H) of two draws from Gamma(alpha) by Marsaglia and Tsang 2000, "A
 * Simple Method for Generating Gamma Variables". */
struct mixing mixup_draw(float alpha, uint64_t seed, int64_t epoch, int64_t record, int64_t count);

#endif
