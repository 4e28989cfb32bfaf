/* A language model that is opened once and makes text several times:
 *
 *     struct generation g;
 *     neap_status status = generation_open(&g, &options);
 *     if (status == NEAP_OK) status = generation_start(&g, places, &smallest);
 *     if (status == NEAP_OK) status = generation_feed(&g, ids, count);
 *     if (status == NEAP_OK) status = generation_make(&g, 100, &seconds);
 *     ... feed and make again ...
 *     generation_close(&g);
 */
#ifndef NEAP_TRAIN_GENERATION_H
#define NEAP_TRAIN_GENERATION_H

#include "base/region.h"
#include "run/session.h"
#include "text/tokenizer.h"

struct candidate {
  int32_t id;
  float logit;
};

struct generation {
  const neap_generate_options *options; /* borrowed */
  struct tokenizer *tokenizer;
  neap_session *session;
  struct token_ids ids; /* those that were fed, then those that were made */
  size_t made;          /* the first of ids that the last generation_make made */
  bool ended;           /* by a token or a text that ends an answer, not by the number of tokens */
  /* What ends an answer besides the tokenizer's token for the end; to be set by whoever opened it. */
  int32_t end_token;          /* -1: none */
  const char *end_text;       /* which is not given out; NULL: none; borrowed */
  int (*stop)(void *context); /* of options; asked before each token; not 0: stop, with NEAP_INTERRUPTED */
  /* Private. */
  struct region region;
  neap_model_options shape;
  neap_graph *graph;
  size_t read;                  /* of ids: those that the session has read */
  float *logits;                /* [shape.classes] */
  struct candidate *candidates; /* [choices] */
  int64_t choices;              /* ids that may be made: from 0 on */
  size_t decoded;               /* bytes of what was made that were given out, of a tokenizer of others */
  VECTOR(char) text;            /* what was made and not given out */
};

/* Checks the options, of which prompt and tokens do not matter, and reads the tokenizer. Whatever the status:
 * close with generation_close. */
neap_status generation_open(struct generation *g, const neap_generate_options *options);
void generation_close(struct generation *g);

/* How many tokens the model can tell apart by their places; 0: any number. */
neap_status generation_places(const struct generation *g, int64_t *places);

/* Makes the session with room for `tokens`, of which the last is made and not read. NEAP_OVER_BUDGET:
 * `*smallest_budget` would do. */
neap_status generation_start(struct generation *g, int64_t tokens, uint64_t *smallest_budget);

/* Makes ids [count], 1 or more and fewer than there is room for, the text so far, in place of what was fed
 * and made. What it has in common with that, from the beginning on, is not read again; a recurrent state,
 * which has no way back, begins anew where the text is not a continuation. Reads nothing yet. */
neap_status generation_feed(struct generation *g, const int32_t *ids, size_t count);

/* Reads what is new and makes up to `tokens` tokens, for which there must be room, with the text going to
 * options.text. `*seconds`: for both. NEAP_INTERRUPTED: it was stopped; what was made is in ids. After this
 * and NEAP_OK it can be fed again. */
neap_status generation_make(struct generation *g, int64_t tokens, double *seconds);

#endif
