/* Adapters as llama.cpp takes them: a GGUF file of LoRA. */
#ifndef NEAP_TRAIN_ADAPTER_GGUF_H
#define NEAP_TRAIN_ADAPTER_GGUF_H

#include "train/adapter_folder.h"

/* Writes the file, whole or not at all: tensors NAME.lora_a [rank, in] and NAME.lora_b [out, rank] of F32,
 * where NAME is what a GGUF file of the model calls the weight; rows of lora_b lie as that weight's.
 * `*layers`: that have an adapter. NEAP_INVALID_ARGUMENT: the run's model is no language model of a folder or
 * GGUF file. NEAP_UNSUPPORTED: the family has no form in a GGUF file, or the run trained something that such
 * a file does not have; the message names it. NEAP_BAD_FORMAT: the weights lack a tensor, or have another
 * shape. */
neap_status adapter_gguf_write(const struct adapter_export *from, const char *path, int64_t *layers);

#endif
