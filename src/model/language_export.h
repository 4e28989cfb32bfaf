/* Language models written: the files of language_model.h with other weights. */
#ifndef NEAP_MODEL_LANGUAGE_EXPORT_H
#define NEAP_MODEL_LANGUAGE_EXPORT_H

#include "graph/task.h"

struct language_export {
  const char *base; /* the folder or GGUF file that the model began with: its description and tokenizer */
  neap_dtype dtype; /* that weights are written in: F32, F16, BF16, of GGUF Q8_0 too */
  /* Changes a variable from its value in the base to its value now, [dims...]. */
  neap_status (*change)(void *context, const char *name, int rank, const int64_t *dims, float *data);
  void *context;
  bool replace;                      /* a folder that has files is written to */
  const neap_model_options *options; /* of the model; its head */
  struct task_labels labels;         /* that config.json says of a classifier; none: as the base has it */
};

/* Writes a folder of Hugging Face: model.safetensors, config.json, and what the base says of tokens, texts
 * and conversations. Each file is written whole or not at all, config.json last; a folder that was made is
 * removed if the weights fail. It takes memory for the largest tensor twice. NEAP_INVALID_ARGUMENT: the
 * folder is not empty (without `replace`), or is the base. `*tensors`: that were written. */
neap_status language_export_folder(const struct language_export *from, const char *folder, int64_t *tensors);

#endif
