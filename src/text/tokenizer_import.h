/* Reads tokenizers of others. */
#ifndef NEAP_TEXT_TOKENIZER_IMPORT_H
#define NEAP_TEXT_TOKENIZER_IMPORT_H

#include "base/region.h"
#include "text/token_vocabulary.h"
#include "text/tokenizer.h"

/* Reads a tokenizer.json, of Hugging Face's `tokenizers` or of Neap, or a folder that has one, or vocab.json
 * and merges.txt. Special tokens of tokenizer_config.json and special_tokens_map.json in the same folder
 * count too. Free with tokenizer_free. NEAP_IO_FAILED: a file cannot be read. NEAP_BAD_FORMAT: a file is
 * invalid; the message names it. NEAP_UNSUPPORTED: a component is not supported; the message names it. */
neap_status tokenizer_import(const char *path, struct tokenizer **out);

/* Makes a tokenizer from the lists of a GGUF file. Errors as above. */
neap_status tokenizer_from_vocabulary(const struct token_vocabulary *v, struct tokenizer **out);

/* Special tokens by their texts; NULL: none is named. */
struct special_texts {
  const char *bos, *eos, *unknown, *padding;
};

/* Gives the content of a folder's tokenizer.json, with the tokens that the files next to it add, or the same
 * made from its vocab.json and merges.txt. The caller frees `*out` with json_decref; it is NULL if the folder
 * has no tokenizer. Texts are the region's. Errors as above. */
neap_status tokenizer_folder_to_json(const char *folder, struct region *region, json_t **out,
                                     struct special_texts *special);

#endif
