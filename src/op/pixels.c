/* Turns images that a session keeps as bytes into numbers. A rewrite makes these nodes (rewrite/bytes.c). */
#include "op/op.h"

static const struct attribute_row pixels_attributes[] = {
    ATTRIBUTE(pixels.mean[0], REAL),      ATTRIBUTE(pixels.mean[1], REAL),
    ATTRIBUTE(pixels.mean[2], REAL),      ATTRIBUTE(pixels.mean[3], REAL),
    ATTRIBUTE(pixels.deviation[0], REAL), ATTRIBUTE(pixels.deviation[1], REAL),
    ATTRIBUTE(pixels.deviation[2], REAL), ATTRIBUTE(pixels.deviation[3], REAL),
    ATTRIBUTE(pixels.dtype, INT32),
};

const struct op_row op_row_pixels = {"Pixels", "bytes of images as numbers, normalised by channel",
                                     .output_count = 1, ROW_ATTRIBUTES(pixels_attributes),
                                     .takes = {TYPE_U8, TYPE_I32}};
