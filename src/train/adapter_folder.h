/* Adapters in the form of peft: a folder with adapter_config.json and adapter_model.safetensors, whose
 * tensors are named ADAPTER_PREFIX and the session's variable. Side nets: a folder with side_config.json and
 * side_model.safetensors, whose tensors are named as the session's variables. */
#ifndef NEAP_TRAIN_ADAPTER_FOLDER_H
#define NEAP_TRAIN_ADAPTER_FOLDER_H

#include "formats/safetensors.h"

#define ADAPTER_PREFIX "base_model.model."

/* The fields of adapter_config.json for the adapters' arithmetic. */
struct adapter_config {
  int64_t rank;
  double alpha; /* alpha / rank is the factor of the adapters */
  bool root;    /* alpha / the root of rank is */
  bool dora;
};

/* Reads adapter_config.json of a folder. NEAP_BAD_FORMAT: it is not such a file, or a field is missing or of
 * a wrong type. NEAP_UNSUPPORTED: the adapters are not LoRA, or use something that Neap does not have:
 * biases, alphas that differ by layer. */
neap_status adapter_config_read(const char *folder, struct adapter_config *config);

/* Reads side_config.json of a folder: the divisor of the side net's widths. NEAP_BAD_FORMAT: it is
 * not such a file. NEAP_UNSUPPORTED: a later version wrote it. */
neap_status side_config_read(const char *folder, int64_t *divisor);

/* Loads the values of a folder into a session with adapters or, if `side` is not 0, with a side net of that
 * divisor. NEAP_INVALID_ARGUMENT: rank, alpha, layers or divisor differ from those of the session; the
 * message says which options to give. A failure changes nothing, unless the file cannot be read to its
 * end. */
neap_status adapter_folder_read(const char *folder, const neap_session_options *options, int64_t side,
                                neap_session *session);

/* The sources of a folder that is written. */
struct adapter_export {
  const neap_graph *graph;             /* of the model, with a loss or without */
  const neap_session_options *session; /* of the run: lora and related options, freeze */
  int64_t side;                        /* of the run: the divisor of its side net; 0: it has adapters */
  const struct safetensors *weights;   /* of the run: the trained weights */
  const char *task;                    /* in peft's terms; NULL: it has none */
  const char *base;                    /* the model of the adapters, for base_model_name_or_path */
  const struct language_model *model;  /* the folder or GGUF file of the model; NULL: none */
};

/* Makes the folder if it is missing, and writes both files; a failure leaves each complete or unchanged.
 * `*layers`: the number of layers with an adapter. Other trained parameters (options.freeze) are written as
 * peft's modules_to_save. NEAP_BAD_FORMAT: the weights lack a tensor, or have another shape. */
neap_status adapter_folder_write(const struct adapter_export *from, const char *folder, int64_t *layers);

#endif
