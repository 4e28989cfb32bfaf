/* What a model and a data set agree on. */
#ifndef NEAP_TRAIN_MODEL_DATA_H
#define NEAP_TRAIN_MODEL_DATA_H

#include "train/data.h"

/* Opens a data set; data that are drawn are drawn as the model, or who asks for it, wants them. `threads`
 * fill batches. Free with data_close, whatever the status. */
neap_status open_data(const char *model, const char *name, const neap_model_options *asked, int threads,
                      struct data_set *data);

/* The shape that the model gets: images are those of the data; classes too, or more where they are asked for.
 */
neap_status settle_shape(const char *model, const char *name, const neap_model_options *asked,
                         const struct data_set *data, neap_model_options *shape);

#endif
