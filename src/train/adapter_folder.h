/* Adapters as peft keeps them: a folder with adapter_config.json and adapter_model.safetensors, whose tensors
 * have the names of the session's variables behind ADAPTER_PREFIX. */
#ifndef NEAP_TRAIN_ADAPTER_FOLDER_H
#define NEAP_TRAIN_ADAPTER_FOLDER_H

#include "base/safetensors.h"

#define ADAPTER_PREFIX "base_model.model."

/* What adapter_config.json says of the adapters' arithmetic. */
struct adapter_config {
  int64_t rank;
  double alpha; /* divided by the rank, what they count */
};

/* Reads adapter_config.json of a folder. NEAP_BAD_FORMAT: it is no such file, or a field is missing or of a
 * wrong type. NEAP_UNSUPPORTED: adapters of another kind than LoRA, or with what Neap does not have: DoRA,
 * biases, ranks and alphas that differ by layer. */
neap_status adapter_config_read(const char *folder, struct adapter_config *config);

/* Gives a session with adapters the values of a folder. NEAP_INVALID_ARGUMENT: rank, alpha or layers are
 * others than those of the session; the message says what to ask for. A failure changes nothing, unless the
 * file cannot be read to its end. */
neap_status adapter_folder_read(const char *folder, const neap_session_options *options,
                                neap_session *session);

/* What a folder is written from. */
struct adapter_export {
  const neap_graph *graph;             /* of the model, with a loss or without */
  const neap_session_options *session; /* of the run: lora and what goes with it, freeze */
  const struct safetensors *weights;   /* of the run: has what was trained */
  const char *base;                    /* what the adapters go with, for base_model_name_or_path */
  const char *model;                   /* the folder or GGUF file that the model is of; NULL: none */
};

/* Makes the folder where it is missing, and writes both files; each is whole or as it was. `*layers`: that
 * have an adapter. What else was trained (options.freeze) goes with it as peft's modules_to_save.
 * NEAP_BAD_FORMAT: the weights lack a tensor, or have another shape. */
neap_status adapter_folder_write(const struct adapter_export *from, const char *folder, int64_t *layers);

#endif
