/* Tokenizers as JSON and in files: docs/formats.md. */
#ifndef NEAP_TEXT_TOKENIZER_FILE_H
#define NEAP_TEXT_TOKENIZER_FILE_H

#include <jansson.h>

#include "text/tokenizer.h"

/* Gives an object with all data of a tokenizer, for the caller to free with json_decref. */
neap_status tokenizer_to_json(const struct tokenizer *tokenizer, json_t **out);

/* Makes the tokenizer that such an object describes, to be freed with tokenizer_free. NEAP_BAD_FORMAT: the
 * object is invalid; the message names `file` and the field. */
neap_status tokenizer_from_json(const json_t *object, const char *file, struct tokenizer **out);

/* Writes the same to a file, with format and version; a failure leaves no partial file. */
neap_status tokenizer_save(const struct tokenizer *tokenizer, const char *path);
neap_status tokenizer_read(const char *path, struct tokenizer **out);

#endif
