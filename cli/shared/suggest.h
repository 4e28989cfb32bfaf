/* The name that a misspelt word may stand for: consider each candidate, then read `best`. */
#ifndef NEAP_CLI_SUGGEST_H
#define NEAP_CLI_SUGGEST_H

#include "shared/verb.h"

struct suggestion {
  const char *word;
  size_t distance; /* of the best candidate; at first the most that is near enough */
  char best[64];   /* "": no candidate is near enough */
};
struct suggestion suggest_for(const char *word);
void suggest(struct suggestion *s, const char *candidate);

/* "; did you mean NAME?", or nothing. */
struct did_you_mean {
  char text[96];
};
struct did_you_mean suggestion_text(const struct suggestion *s, const char *before);

/* Returns EXIT_DONE if one of `neap models` has this name; EXIT_USAGE after a message. */
int check_model_name(const struct verb *verb, const char *name);

#endif
