/* Makes the tokenizers that a source of text names by tokens=. */
#ifndef NEAP_DATA_SOURCE_TOKENIZER_H
#define NEAP_DATA_SOURCE_TOKENIZER_H

#include "data/source.h"
#include "text/utf8.h"

/* Makes source->tokenizer: "bytes" (also if `kind` is NULL), "characters", a number of byte-pair codes, or
 * one read from FILE.json. Codes are learned from texts[0], the training part; characters are those of both
 * texts [2]. NEAP_INVALID_ARGUMENT: `kind` is another word; `file` is for the message. Other errors are
 * those of tokenizer.h. */
neap_status source_tokenizer_make(struct source *source, const char *file, const char *kind,
                                  const struct text *texts);

/* Returns true if that needs the texts. */
bool source_tokenizer_learns(const char *kind);

#endif
