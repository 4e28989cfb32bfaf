/* Fits a model and a data set to each other. */
#ifndef NEAP_TRAIN_MODEL_DATA_H
#define NEAP_TRAIN_MODEL_DATA_H

#include "data/loader.h"

/* The data, and the model that they are for. */
struct data_choice {
  const neap_model *model;
  const char *name;
  const neap_model_options *shape; /* that was asked for */
  int threads;                     /* that fill batches */
  const struct encoding *encoding; /* of the run of the model, to predict with; NULL: it learns */
  const struct encoding *before;   /* of the run that goes on; NULL: none does */
  const neap_data_source *own;     /* the caller's, instead of `name`; NULL: `name` */
  struct task_chat chat;
  neap_pack pack;  /* of conversations */
  bool one_length; /* all records get one length, even if the model could take shorter ones */
};

/* Returns the data that a run learns from, with what its options say of conversations, but not packed. */
struct data_choice data_of_run(const neap_model *model, const neap_train_options *run, int threads);

/* Opens data for a model. Synthetic data have the shape asked for, or else the model's usual one. Free with
 * loader_close, whatever the status. */
neap_status open_data(const struct data_choice *choice, struct loader *loader);

/* Sets the model's shape: images are those of the data; so are classes, or more if asked for. */
neap_status settle_shape(const neap_model *model, const char *name, const neap_model_options *asked,
                         const struct loader *loader, neap_model_options *shape);

#endif
