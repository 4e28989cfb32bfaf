/* The angles of rotary positions (Su et al. 2021), and how models are made to reach further than they were
 * trained. */
#ifndef NEAP_BASE_ROTARY_H
#define NEAP_BASE_ROTARY_H

#include <stdint.h>

#include "base/elementary.h"

/* Frequencies are divided by `factor` (0: they are not): all of them, where `places` is 0 ("linear"); else
 * those that turn fewer than `low` times over the first `places` positions, those that turn more than `high`
 * times are kept, and between the two the share of the one goes over into the other (Llama 3). */
struct rotary_scaling {
  float factor, low, high;
  int64_t places;
};

/* How far elements d and d + depth / 2 of a head are turned from one position to the next, in radians. */
static inline double rotary_frequency(float base, const struct rotary_scaling *scaling, int64_t depth,
                                      int64_t d) {
  const double frequency = power((double)base, -2 * (double)d / (double)depth),
               factor = (double)scaling->factor;
  if (factor == 0) return frequency;
  if (scaling->places == 0) return frequency / factor;
  const double turns = (double)scaling->places * frequency / 6.283185307179586, low = (double)scaling->low,
               high = (double)scaling->high;
  if (turns < low) return frequency / factor;
  if (turns > high) return frequency;
  const double share = (turns - low) / (high - low);
  return frequency * ((1 - share) / factor + share);
}

#endif
