/* Tokenizers as JSON and in files: docs/formats.md. */
#ifndef NEAP_TEXT_TOKENIZER_FILE_H
#define NEAP_TEXT_TOKENIZER_FILE_H

#include <jansson.h>

#include "text/tokenizer.h"

/* An object with all that a tokenizer is made of, for the caller to free with json_decref. */
neap_status tokenizer_to_json(const struct tokenizer *tokenizer, json_t **out);

/* The tokenizer that such an object describes, to be freed with tokenizer_free. NEAP_BAD_FORMAT: it describes
 * none; the message names `file` and the field. */
neap_status tokenizer_from_json(const json_t *object, const char *file, struct tokenizer **out);

/* The same as a file, with format and version, that is written whole or not at all. */
neap_status tokenizer_save(const struct tokenizer *tokenizer, const char *path);
neap_status tokenizer_read(const char *path, struct tokenizer **out);

#endif
