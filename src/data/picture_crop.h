/* Chooses the part of a picture that is taken, and its size: torchvision's usual recipe for classifying. */
#ifndef NEAP_DATA_PICTURE_CROP_H
#define NEAP_DATA_PICTURE_CROP_H

#include "data/source.h"
#include "picture/resize.h"

/* Scales the picture until it just covers [height, width], and takes the middle (Resize, CenterCrop). A
 * picture of that size is taken as it is. */
void crop_centre(int64_t picture_height, int64_t picture_width, int64_t height, int64_t width,
                 struct box *box, struct target *target);

/* Draws a box of 8 % to all of the picture's area, at any place, with a ratio of 3:4 to 4:3
 * (RandomResizedCrop), by seed, epoch and record. */
void crop_at_random(int64_t picture_height, int64_t picture_width, int64_t height, int64_t width,
                    const struct draw *draw, int64_t record, struct box *box, struct target *target);

#endif
