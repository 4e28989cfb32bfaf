/* Writes the description of a language model: config.json of a folder, or the pairs of a GGUF file. */
#ifndef NEAP_LANGUAGE_FAMILY_WRITING_H
#define NEAP_LANGUAGE_FAMILY_WRITING_H

#include "language/families.h"

/* Returns the config.json that describes such a model, for the caller to free with json_decref; NULL: out of
 * memory. `type`: of its weights, as "float32". */
json_t *family_config(const struct family *family, const struct transformer *t, int64_t context,
                      const char *type);

/* Adds the pairs that describe such a model in a GGUF file; keys are the region's. `architecture` is the
 * family's. NEAP_UNSUPPORTED: such a file cannot describe the model. */
neap_status family_pairs(const char *architecture, const struct transformer *t, int64_t context,
                         struct region *region, struct gguf_pairs *pairs);

#endif
