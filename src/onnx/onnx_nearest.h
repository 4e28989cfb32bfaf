/* Places of nearest pixels in a Resize of ONNX, as fractions. */
#ifndef NEAP_ONNX_ONNX_NEAREST_H
#define NEAP_ONNX_ONNX_NEAREST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/places.h"

/* Gives the places of `to` pixels among `from`, both at least 1 and below 2^20, for a
 * coordinate_transformation_mode and a nearest_mode. Returns false if it knows one of the modes not. */
bool nearest_places(const char *coordinates, const char *rounding, int64_t from, int64_t to,
                    struct take_places *places);

/* Gives the first modes that have these places, for `to` pixels among `from`; returns false if none has. */
bool nearest_modes(struct take_places places, int64_t from, int64_t to, const char **coordinates,
                   const char **rounding);

/* Returns true if every place is the one that numbers of 32 bits give, as runtimes compute it. */
bool nearest_is_exact(const char *coordinates, const char *rounding, int64_t from, int64_t to);

#endif
