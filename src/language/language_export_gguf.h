/* Writes language models as GGUF files. */
#ifndef NEAP_LANGUAGE_LANGUAGE_EXPORT_GGUF_H
#define NEAP_LANGUAGE_LANGUAGE_EXPORT_GGUF_H

#include "language/language_exporting.h"

/* Writes a GGUF file, completely or not at all: matrices in `dtype` (in F16 if rows do not fill blocks of
 * Q8_0), norms, biases and tables of positions in F32. The pairs of a GGUF file are copied; those of a folder
 * are made from config.json and the tokenizer's files. Needs memory for the largest tensor twice.
 * NEAP_UNSUPPORTED: the family, its activation or the tokenizer has no form in a GGUF file.
 * NEAP_INVALID_ARGUMENT: the file is the base. */
neap_status language_export_gguf(const struct language_export *from, const char *path, int64_t *tensors);

#endif
