/* Language models written as GGUF files. */
#ifndef NEAP_MODEL_LANGUAGE_EXPORT_GGUF_H
#define NEAP_MODEL_LANGUAGE_EXPORT_GGUF_H

#include "model/language_exporting.h"

/* Writes a GGUF file, whole or not at all: matrices in `dtype` (rows that are no whole blocks of Q8_0 in
 * F16), norms, biases and tables of positions in F32. Of a GGUF file the pairs are copied; of a folder they
 * are made of config.json and the tokenizer's files. It takes memory for the largest tensor twice.
 * NEAP_UNSUPPORTED: the family, its activation or the tokenizer has no form in a GGUF file.
 * NEAP_INVALID_ARGUMENT: the file is the base. */
neap_status language_export_gguf(const struct language_export *from, const char *path, int64_t *tensors);

#endif
