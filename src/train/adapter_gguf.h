/* Writes adapters for llama.cpp: a GGUF file of LoRA. */
#ifndef NEAP_TRAIN_ADAPTER_GGUF_H
#define NEAP_TRAIN_ADAPTER_GGUF_H

#include "train/adapter_folder.h"

/* Writes the file completely or not at all: tensors NAME.lora_a [rank, in] and NAME.lora_b [out, rank] of
 * F32, where NAME is the weight's name in a GGUF file of the model; rows of lora_b have that weight's order.
 * `*layers`: the number of layers with an adapter. NEAP_INVALID_ARGUMENT: the run's model is not a language
 * model from a folder or GGUF file. NEAP_UNSUPPORTED: GGUF has no form for the family, or such a file cannot
 * have something that the run trained; the message names it. NEAP_BAD_FORMAT: the weights lack a tensor, or
 * have another shape. */
neap_status adapter_gguf_write(const struct adapter_export *from, const char *path, int64_t *layers);

#endif
