/* What a model and a data set agree on. */
#ifndef NEAP_TRAIN_MODEL_DATA_H
#define NEAP_TRAIN_MODEL_DATA_H

#include "data/loader.h"

/* Data, and the model that they are for. */
struct data_choice {
  const char *model, *name;
  const neap_model_options *shape; /* that is asked for */
  int threads;                     /* that fill batches */
  const struct encoding
      *encoding;               /* of the run that the model comes from, to predict by it; NULL: it learns */
  const neap_data_source *own; /* the caller's, in place of `name`; NULL: that */
  struct task_chat chat;
  neap_pack pack;  /* of conversations */
  bool one_length; /* all records have one length, also where the model could take shorter ones as they are */
};

/* Opens data for a model; data that are drawn are drawn as the shape asks, or else as the model usually takes
 * them. Free with loader_close, whatever the status. */
neap_status open_data(const struct data_choice *choice, struct loader *loader);

/* The shape that the model gets: images are those of the data; classes too, or more where they are asked for.
 */
neap_status settle_shape(const char *model, const char *name, const neap_model_options *asked,
                         const struct loader *loader, neap_model_options *shape);

#endif
