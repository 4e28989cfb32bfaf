/* Tokenizers of others become ours. */
#ifndef NEAP_TEXT_TOKENIZER_IMPORT_H
#define NEAP_TEXT_TOKENIZER_IMPORT_H

#include "base/region.h"
#include "text/token_vocabulary.h"
#include "text/tokenizer.h"

/* Reads a tokenizer.json, of Hugging Face's `tokenizers` or of Neap, or a folder that has one, or vocab.json
 * and merges.txt. What tokenizer_config.json and special_tokens_map.json beside it say of special tokens
 * counts too. Free with tokenizer_free. NEAP_IO_FAILED: something cannot be read. NEAP_BAD_FORMAT: something
 * is wrong in a file; the message names it. NEAP_UNSUPPORTED: a component is not supported; the message names
 * it. */
neap_status tokenizer_import(const char *path, struct tokenizer **out);

/* Makes one of what a GGUF file says. Errors as above. */
neap_status tokenizer_from_vocabulary(const struct token_vocabulary *v, struct tokenizer **out);

/* Special tokens by their texts; NULL: none is named. */
struct special_texts {
  const char *bos, *eos, *unknown, *padding;
};

/* What the tokenizer.json of a folder says, with the tokens that the files beside it add; or what one would
 * say of its vocab.json and merges.txt. The caller frees `*out` with json_decref; it is NULL where the folder
 * has no tokenizer. Texts are the region's. Errors as above. */
neap_status tokenizer_folder_to_json(const char *folder, struct region *region, json_t **out,
                                     struct special_texts *special);

#endif
