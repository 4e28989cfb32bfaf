/* Images that a session keeps as bytes. A rewrite makes these nodes (rewrite/bytes.c). */
#include "op/op.h"

#define OF_CHANNEL(c) ATTRIBUTE(pixels.mean[c], REAL), ATTRIBUTE(pixels.deviation[c], REAL)
static const struct attribute_row pixels_attributes[] = {OF_CHANNEL(0), OF_CHANNEL(1), OF_CHANNEL(2),
                                                         OF_CHANNEL(3), ATTRIBUTE(pixels.dtype, INT32)};

const struct op_row op_row_pixels = {"Pixels", "bytes of images as numbers, normalised by channel",
                                     .output_count = 1, ROW_ATTRIBUTES(pixels_attributes)};
