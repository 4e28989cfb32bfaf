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
#include "session/session.h"
#include "text/tokenizer.h"

struct candidate {
  int32_t id;
  float logit;
};

struct generation {
  const neap_generate_options *options; /* borrowed */
  const neap_model *model;              /* of the options, or: */
  neap_model *own_model;                /* opened here; NULL: the caller has it open */
  struct tokenizer *tokenizer;
  neap_session *session;
  struct token_ids ids; /* those that were fed, then those that were generated */
  size_t made;          /* the first of ids that the last generation_make added */
  bool ended;           /* by a token or a text that ends an answer, not by the limit on tokens */
  /* Signals that end an answer besides the tokenizer's end token; set by the caller of generation_open. */
  int32_t end_token;          /* -1: none */
  const char *end_text;       /* not passed on; NULL: none; borrowed */
  int (*stop)(void *context); /* of options; called before each token; not 0: stop, with NEAP_INTERRUPTED */
  /* Private. */
  struct region region;
  neap_model_options shape;
  neap_graph *graph;
  size_t read;                  /* of ids: those that the session has read */
  float *logits;                /* [shape.classes] */
  struct candidate *candidates; /* [choices] */
  int64_t choices;              /* ids that may be generated: from 0 on */
  size_t decoded;               /* bytes of generated text that were passed on, for a tokenizer of others */
  VECTOR(char) text;            /* text that was generated and not passed on */
};

/* Checks the options, except prompt and tokens, and reads the tokenizer. Close with generation_close,
 * whatever the status. */
neap_status generation_open(struct generation *g, const neap_generate_options *options);
void generation_close(struct generation *g);

/* Gives the number of tokens that the model has positions for; 0: any number. */
neap_status generation_places(const struct generation *g, int64_t *places);

/* Appends the tokens of a prompt; an empty one, or NULL, is the end of a line or else token 0. */
neap_status generation_encode(const struct generation *g, const char *prompt, struct token_ids *ids);

/* Gives the tokens of a prompt of this number and its text: those that are asked for, or the model's
 * positions. The last one is not read. */
neap_status generation_length(const struct generation *g, int64_t prompt, int64_t *most);

/* Makes the session with room for `tokens`; the last one is generated and not read. NEAP_OVER_BUDGET:
 * `*smallest_budget` is enough. */
neap_status generation_start(struct generation *g, int64_t tokens, uint64_t *smallest_budget);

/* Replaces the text so far, fed and generated, by ids [count], 1 or more and fewer than there is room for.
 * Their common beginning is not read again; a recurrent state, which cannot go back, restarts unless the new
 * text is a continuation. Reads nothing yet. */
neap_status generation_feed(struct generation *g, const int32_t *ids, size_t count);

/* Returns true if the session can go back to any token, as it keeps earlier ones by their positions; else it
 * has a recurrent state. */
bool generation_goes_back(const struct generation *g);

/* Reads the new ids and generates up to `tokens` tokens, for which there must be room; the text goes to
 * options.text. `*seconds`: for both. NEAP_INTERRUPTED: it was stopped; the generated tokens are in ids.
 * After this and NEAP_OK more can be fed. */
neap_status generation_make(struct generation *g, int64_t tokens, double *seconds);

#endif
