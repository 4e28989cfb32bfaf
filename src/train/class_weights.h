/* Weights of the classes in the training loss. */
#ifndef NEAP_TRAIN_CLASS_WEIGHTS_H
#define NEAP_TRAIN_CLASS_WEIGHTS_H

#include "base/region.h"
#include "data/source.h"

/* Makes the weights [classes] that are asked for, in the region. "balanced": records / (classes * records of
 * the class), over the classes that the training part has; a class without records gets 0. For labels of
 * pixels, pixels count instead of records. Anything else is the path of a file: a line "NAME,WEIGHT", or with
 * blanks between the two, for each class of the source, by its name or number; empty lines, and those that
 * begin with #, are ignored.
 *
 * NEAP_BAD_FORMAT names the file and the line. NEAP_INVALID_ARGUMENT: the labels are not classes. */
neap_status class_weights_make(const char *asked, const struct source *source, int64_t classes,
                               struct region *region, float **weights);

/* The same from a file only; `names` [classes] may be NULL. Fills `weights`. */
neap_status class_weights_read(const char *path, const char *const *names, int64_t classes, float *weights);

#endif
