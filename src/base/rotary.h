/* The angles of rotary positions (Su et al. 2021), and how models are made to reach further than they were
 * trained. */
#ifndef NEAP_BASE_ROTARY_H
#define NEAP_BASE_ROTARY_H

#include <stddef.h>
#include <stdint.h>

#include "base/elementary.h"

/* Frequencies are divided by `factor` (0: they are not): all of them, where `places` is 0 ("linear"); else
 * those that turn fewer than `low` times over the first `places` positions, those that turn more than `high`
 * times are kept, and between the two the share of the one goes over into the other (Llama 3). Whatever they
 * are, what is turned is multiplied by `amplitude` (0: by 1). */
struct rotary_scaling {
  float factor, low, high;
  int64_t places;
  float amplitude;
};

/* Returns the angle in radians by which elements d and d + depth / 2, of the `depth` that are turned, turn
 * from one position to the next. `divisors` [depth / 2], in the place of the factor (LongRoPE, Ding et al.
 * 2024), may be NULL. */
static inline double rotary_frequency(float base, const struct rotary_scaling *scaling, const float *divisors,
                                      int64_t depth, int64_t d) {
  const double frequency = power((double)base, -2 * (double)d / (double)depth),
               factor = (double)scaling->factor;
  if (divisors != NULL) return frequency / (double)divisors[d];
  if (factor == 0) return frequency;
  if (scaling->places == 0) return frequency / factor;
  const double turns = (double)scaling->places * frequency / 6.283185307179586, low = (double)scaling->low,
               high = (double)scaling->high;
  if (turns < low) return frequency / factor;
  if (turns > high) return frequency;
  const double share = (turns - low) / (high - low);
  return frequency * ((1 - share) / factor + share);
}

/* Returns the factor of the elements that are turned. */
static inline double rotary_amplitude(const struct rotary_scaling *scaling) {
  return scaling->amplitude != 0 ? (double)scaling->amplitude : 1;
}

#endif
