/* Fine-tuned language models as the files of others. */
#ifndef NEAP_TRAIN_EXPORT_LANGUAGE_H
#define NEAP_TRAIN_EXPORT_LANGUAGE_H

#include "base/safetensors.h"

/* What a run made of a model. */
struct language_run {
  const neap_export_options *options;
  const neap_session_options *session; /* lora and lora_alpha */
  const struct safetensors *weights;   /* what was trained, at least; NULL: there is no run, nothing was */
};

/* Whether a name asks for a GGUF file. */
bool export_is_gguf(const char *path);

/* Writes the model with what the run trained, adapters added to the weights that they are beside:
 * W + alpha / r B A; as a GGUF file or as a folder, by its name. NEAP_INVALID_ARGUMENT: the run's model is no
 * language model of a folder or GGUF file, or the type is unknown. NEAP_BAD_FORMAT: the weights that the run
 * began with have changed, or have other shapes. `*tensors`: that were written. */
neap_status export_language(const struct language_run *run, int64_t *tensors);

#endif
