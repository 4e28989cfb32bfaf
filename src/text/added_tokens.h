/* The added tokens of a tokenizer.json: texts that are found before anything else, and are one token each. */
#ifndef NEAP_TEXT_ADDED_TOKENS_H
#define NEAP_TEXT_ADDED_TOKENS_H

#include "text/normalizer.h"
#include "text/vocabulary.h"

struct added_token {
  char *text;
  size_t length;
  char *normal; /* what the normalizer makes of it, where it is normalized; else NULL */
  size_t normal_length;
  int32_t id;
  bool single_word; /* it is none within a word */
  bool left, right; /* takes the white space on that side */
  bool normalized;  /* it is looked for in what the normalizer made */
  bool special;     /* it is no text for a reader */
};

/* Texts that are looked for at once, sorted by their bytes; of equal ones there is the first. */
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

/* To be read only. */
struct added_tokens {
  VECTOR(struct added_token) list;
  VECTOR(int32_t) by_id; /* places in the list; -1: none */
  struct token_texts plain, normalized;
  struct expression *word; /* a character that is part of a word */
};

/* Makes them of the field "added_tokens", a list that may be missing. A token that the vocabulary has gets
 * its id from there. NEAP_BAD_FORMAT: it is wrong. Free with added_tokens_free, whatever the status. */
neap_status added_tokens_parse(const json_t *list, const struct json_place *place,
                               const struct vocabulary *vocabulary, const struct steps *normalizer,
                               struct added_tokens *added);
void added_tokens_free(struct added_tokens *added);

/* What an id is; NULL: no added token. And the token of a text. */
const struct added_token *added_token_of_id(const struct added_tokens *added, int32_t id);
const struct added_token *added_token_of_text(const struct added_tokens *added, const char *text,
                                              size_t length);

/* Takes a part of a text: a token, or with an id of -1 what is between tokens. */
typedef neap_status added_taker(void *context, const struct passage *part, int32_t id);

/* Splits a text at the tokens that it has, the longest at the first place each. */
neap_status added_tokens_split(const struct added_tokens *added, bool normalized, struct matcher *matcher,
                               const struct passage *text, added_taker *take, void *context);

#endif
