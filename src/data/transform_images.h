/* Transforms of images that are bytes [C, H, W], and of label maps [H, W]. */
#ifndef NEAP_DATA_TRANSFORM_IMAGES_H
#define NEAP_DATA_TRANSFORM_IMAGES_H

#include "data/transform.h"

/* frame: gives the rows and columns that belong to the picture, as "NAME.window" of neap_byte_input: all.
 * crop: moves the picture by up to source->crop_padding pixels each way; new places are outside of the
 * window, and background of a map. flip: mirrors half of the pictures. Both apply only if the draw augments.
 * numbers: converts to f32, normalised, with 0 outside of the window; applies if the graph takes no bytes.
 * centre: takes the middle of a map, in the size that the graph wants. */
extern const struct transform transform_frame, transform_crop, transform_flip, transform_numbers,
    transform_centre;

#endif
