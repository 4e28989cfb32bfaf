/* Pre-tokenizers: split a text into the words that a model gets. */
#ifndef NEAP_TEXT_PRE_TOKENIZER_H
#define NEAP_TEXT_PRE_TOKENIZER_H

#include "text/step.h"

/* BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, Metaspace, Punctuation, Split, Whitespace,
 * WhitespaceSplit. */
extern const struct step_family pre_tokenizers;

/* The state of one run of the steps. */
struct splitting {
  const struct steps *steps;
  struct passage_buffer *buffers; /* [steps], the caller's */
  struct matcher *matcher;
  neap_status (*take)(void *context, const struct passage *word); /* receives the words in order */
  void *context;
};

/* Splits a text by the steps from `stage` on, 0 for all. Empty words are left out. */
neap_status pre_tokenize(struct splitting *splitting, size_t stage, const struct passage *in);

#endif
