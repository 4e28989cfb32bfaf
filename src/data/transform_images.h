/* Transforms of images that are bytes [C, H, W], and of label maps [H, W]. */
#ifndef NEAP_DATA_TRANSFORM_IMAGES_H
#define NEAP_DATA_TRANSFORM_IMAGES_H

#include "data/transform.h"

/* frame: which rows and columns are of the picture, as "NAME.window" of neap_byte_input: all.
 * crop: moves it by up to source->crop_padding pixels each way; what comes in is outside of the window, and
 * background of a map. flip: mirrors half of them. Both only where the draw augments.
 * numbers: f32, normalised; outside of the window 0; where the graph wants no bytes.
 * centre: the middle of a map, in the size that the graph wants. */
extern const struct transform transform_frame, transform_crop, transform_flip, transform_numbers,
    transform_centre;

#endif
