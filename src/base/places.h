/* Regular places along an axis: steps, fractions of steps, and what stands for places outside the axis. */
#ifndef NEAP_BASE_PLACES_H
#define NEAP_BASE_PLACES_H

#include <stdint.h>

/* Place i is floor((first + i step) / divisor). */
struct take_places {
  int64_t first, step, divisor;
  int64_t border; /* enum neap_border: what stands for a place outside */
};

/* The same numbers as enum neap_border (neap_operators.h). */
enum { BORDER_NONE, BORDER_CONSTANT, BORDER_EDGE, BORDER_REFLECT, BORDER_WRAP };

/* Returns a / b, rounded down; b is positive. */
static inline int64_t floor_division(int64_t a, int64_t b) { return a / b - (a % b < 0); }

static inline int64_t place_at(struct take_places p, int64_t i) {
  return floor_division(p.first + i * p.step, p.divisor);
}

/* Returns the element of an axis of `size` that is read at a place; -1: none, the constant stands there. */
static inline int64_t element_at(int64_t place, int64_t size, int64_t border) {
  if (place >= 0 && place < size) return place;
  if (border == BORDER_EDGE) return place < 0 ? 0 : size - 1;
  if (border == BORDER_WRAP) return place - floor_division(place, size) * size;
  if (border != BORDER_REFLECT) return -1;
  if (size == 1) return 0;
  const int64_t period = 2 * (size - 1), at = place - floor_division(place, period) * period;
  return at < size ? at : period - at;
}

#endif
