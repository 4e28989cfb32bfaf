/* Mixup: what a record is mixed with (Zhang, Cisse, Dauphin, Lopez-Paz 2018, "mixup: Beyond Empirical Risk
 * Minimization"). */
#ifndef NEAP_DATA_MIXUP_H
#define NEAP_DATA_MIXUP_H

#include <stdint.h>

struct mixing {
  int64_t partner; /* in [0, count), each as likely; it may be the record itself */
  float share;     /* of the record, from Beta(alpha, alpha); the partner has the rest */
};

/* What a record is mixed with in an epoch: a function of these numbers alone, each drawn from counters. alpha
 * > 0, count > 0. The share is G / (G + H) of two draws from Gamma(alpha) by Marsaglia and Tsang 2000, "A
 * Simple Method for Generating Gamma Variables". */
struct mixing mixup_draw(float alpha, uint64_t seed, int64_t epoch, int64_t record, int64_t count);

#endif
