/* Reads the tokenizer of a folder of Hugging Face as the lists that a GGUF file holds. */
#ifndef NEAP_TEXT_FOLDER_VOCABULARY_H
#define NEAP_TEXT_FOLDER_VOCABULARY_H

#include "base/region.h"
#include "text/token_vocabulary.h"

/* Fills the lists for a model whose embedding has `rows` rows: ids without a token are [PADn], unused. They
 * are in the region. Byte-level BPE becomes "gpt2", with GGUF's word for its way of splitting text. BPE with
 * byte_fallback becomes "llama", whose scores are the order of its merges, which are there too. `config`:
 * config.json, for the ids of special tokens that the tokenizer does not name. `v->tokens` is NULL if the
 * folder has no tokenizer. NEAP_UNSUPPORTED: it has another kind, or GGUF has no word for its way of
 * splitting text. NEAP_BAD_FORMAT: a file is damaged, or has ids that the embedding does not have. */
neap_status folder_vocabulary_read(const char *folder, const json_t *config, int64_t rows,
                                   struct region *region, struct token_vocabulary *v);

#endif
