#include "data/source_tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer_import.h"

bool source_tokenizer_learns(const char *kind) {
  return kind != NULL && strcmp(kind, "bytes") != 0 && !source_is_tokenizer(kind);
}

static neap_status make(struct source *source, const char *file, const char *kind, const struct text *texts) {
  if (kind == NULL && source->task.texts != NULL) {
    TRY(source->task.texts->read_tokenizer(source->task.model, &source->tokenizer));
    source->of_model = source->tokenizer != NULL;
    if (source->of_model) return NEAP_OK;
  }
  if (kind == NULL || strcmp(kind, "bytes") == 0) return tokenizer_bytes(&source->tokenizer);
  if (source_is_tokenizer(kind)) return tokenizer_import(kind, &source->tokenizer);
  if (strcmp(kind, "characters") == 0) return tokenizer_characters(texts, 2, &source->tokenizer);
  char *end;
  errno = 0;
  const long size = strtol(kind, &end, 10);
  RETURN_IF(end == kind || *end != '\0' || errno != 0 || size < BYTE_TOKENS || size > 1 << 20,
            NEAP_INVALID_ARGUMENT,
            "data set '%s:%s': tokens=%s must be bytes, characters, the .json file of a tokenizer or a "
            "number of byte-pair codes from %d to %d",
            source->name, file, kind, BYTE_TOKENS, 1 << 20);
  return tokenizer_learn(texts, 1, (int32_t)size, &source->tokenizer);
}

neap_status source_tokenizer_make(struct source *source, const char *file, const char *kind,
                                  const struct text *texts) {
  TRY(make(source, file, kind, texts));
  const bool learned = source_tokenizer_learns(kind) && strcmp(kind, "characters") != 0;
  const char *object = source->of_model ? "the model's own" : kind == NULL ? "bytes" : kind;
  return understood_add(&source->understood, &source->region,
                        (neap_understood){learned ? "byte pairs" : object, "tokenizer, with its tokens",
                                          tokenizer_size(source->tokenizer),
                                          learned ? "learned from the text" : NULL});
}
