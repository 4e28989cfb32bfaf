/* Exports fine-tuned language models. */
#ifndef NEAP_TRAIN_EXPORT_LANGUAGE_H
#define NEAP_TRAIN_EXPORT_LANGUAGE_H

#include "formats/safetensors.h"
#include "task/task.h"

/* The results of a run on a model. */
struct language_run {
  const neap_export_options *options;
  const neap_model *model;
  const neap_session_options *session; /* lora and lora_alpha */
  const struct safetensors *weights;   /* at least the trained ones; NULL: no run, nothing was trained */
  const neap_model_options *shape;
  struct task_labels labels; /* of a classifier; else none */
};

/* Returns true if a name asks for a GGUF file. */
bool export_is_gguf(const char *path);

/* Writes the model with the weights that the run trained, and adapters added to their weights: W + alpha / r
 * B A; as a GGUF file or as a folder, by its name. NEAP_INVALID_ARGUMENT: the run's model is not a language
 * model from a folder or GGUF file, or the type is unknown. NEAP_BAD_FORMAT: the weights that the run began
 * with have changed, or have other shapes. `*tensors`: the number written; `*dtype`: the type of
 * its matrices. */
neap_status export_language(const struct language_run *run, int64_t *tensors, neap_dtype *dtype);

#endif
