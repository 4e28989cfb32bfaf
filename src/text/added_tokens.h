/* The added tokens of a tokenizer.json: texts that are found before anything else; each is one token. */
#ifndef NEAP_TEXT_ADDED_TOKENS_H
#define NEAP_TEXT_ADDED_TOKENS_H

#include "text/normalizer.h"
#include "text/vocabulary.h"

struct added_token {
  char *text;
  size_t length;
  char *normal; /* its normalized form if `normalized`; else NULL */
  size_t normal_length;
  int32_t id;
  bool single_word; /* it is not found inside a word */
  bool left, right; /* takes the white space on that side */
  bool normalized;  /* it is looked for in normalized text */
  bool special;     /* it is not shown to readers */
};

/* Texts that are searched for together, sorted by their bytes; of equal ones only the first is kept. */
struct token_texts {
  struct token_text {
    const char *bytes; /* of the token */
    size_t length;
    int32_t id;
    size_t order;
  } * data;
  size_t count, capacity;
  bool begins[256]; /* whether one begins with a byte */
};

/* Read-only for others. */
struct added_tokens {
  VECTOR(struct added_token) list;
  VECTOR(int32_t) by_id; /* places in the list; -1: none */
  struct token_texts plain, normalized;
  struct expression *word; /* a character that is part of a word */
};

/* Makes added tokens from the field "added_tokens", a list that may be missing. A token that the vocabulary
 * has gets its id from there. NEAP_BAD_FORMAT: the list is invalid. Free with added_tokens_free, whatever the
 * status. */
neap_status added_tokens_parse(const json_t *list, const struct json_place *place,
                               const struct vocabulary *vocabulary, const struct steps *normalizer,
                               struct added_tokens *added);
void added_tokens_free(struct added_tokens *added);

/* Return the added token of an id (NULL: none), and the id of a text. */
const struct added_token *added_token_of_id(const struct added_tokens *added, int32_t id);
const struct added_token *added_token_of_text(const struct added_tokens *added, const char *text,
                                              size_t length);

/* Takes a part of a text: a token, or, with an id of -1, the text between tokens. */
typedef neap_status added_taker(void *context, const struct passage *part, int32_t id);

/* Splits a text at its added tokens: at each place the longest, from left to right. */
neap_status added_tokens_split(const struct added_tokens *added, bool normalized, struct matcher *matcher,
                               const struct passage *text, added_taker *take, void *context);

#endif
