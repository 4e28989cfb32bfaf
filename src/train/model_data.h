/* What a model and a data set agree on. */
#ifndef NEAP_TRAIN_MODEL_DATA_H
#define NEAP_TRAIN_MODEL_DATA_H

#include "data/loader.h"

/* Opens data for a model, the caller's own where they are not NULL; data that are drawn are drawn as the
 * options ask, or else as the model usually takes them. `encoding`: of the run that the model comes from, to
 * predict by it; NULL: the data are learned from. `threads` fill batches. Free with loader_close, whatever
 * the status. */
neap_status open_data(const char *model, const char *name, const neap_model_options *asked, int threads,
                      const struct encoding *encoding, const neap_data_source *own, struct loader *loader);

/* The shape that the model gets: images are those of the data; classes too, or more where they are asked for.
 */
neap_status settle_shape(const char *model, const char *name, const neap_model_options *asked,
                         const struct loader *loader, neap_model_options *shape);

#endif
