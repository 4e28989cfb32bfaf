/* Writes language models as folders of Hugging Face. */
#ifndef NEAP_LANGUAGE_LANGUAGE_EXPORT_H
#define NEAP_LANGUAGE_LANGUAGE_EXPORT_H

#include "language/language_exporting.h"

/* Writes a folder of Hugging Face: model.safetensors, config.json, and the base's files for tokens, texts and
 * conversations. Each file is written completely or not at all, config.json last; a new folder is removed if
 * the weights fail. Needs memory for the largest tensor twice. NEAP_INVALID_ARGUMENT: the folder is not empty
 * (without `replace`), or is the base. `*tensors`: the number written. */
neap_status language_export_folder(const struct language_export *from, const char *folder, int64_t *tensors);

#endif
