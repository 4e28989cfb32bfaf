/* The tokenizer of a folder of Hugging Face as the lists that a GGUF file holds. */
#ifndef NEAP_TEXT_FOLDER_VOCABULARY_H
#define NEAP_TEXT_FOLDER_VOCABULARY_H

#include "base/region.h"
#include "text/token_vocabulary.h"

/* Fills the lists for a model whose embedding has `rows` rows: ids that have no token are [PADn], unused.
 * They lie in the region. Byte-level BPE becomes "gpt2" with the word for its way to split text; BPE with
 * byte_fallback "llama", whose scores are the order of its merges, which are there, too. `config`:
 * config.json, for the ids of special tokens that the tokenizer does not name. `v->tokens` is NULL where the
 * folder has no tokenizer. NEAP_UNSUPPORTED: it is of another kind, or splits text in a way that GGUF has no
 * word for. NEAP_BAD_FORMAT: a file is damaged, or has ids that the embedding does not. */
neap_status folder_vocabulary_read(const char *folder, const json_t *config, int64_t rows,
                                   struct region *region, struct token_vocabulary *v);

#endif
