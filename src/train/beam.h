/* Beam search over a model that gives the logits of the next token: the hypotheses of one line, without the
 * model. Its rules are those of fairseq (Ott et al. 2019).
 *
 * A step considers the 2 `width` best continuations of all hypotheses, by the sum of their logarithms of
 * probabilities; among equals, that of the first hypothesis, then the lower token. Those among the first
 * `width` that end are finished: their score is that sum divided by tokens^penalty, with the end counted. The
 * first `width` of the others live on. The search is over when `width` hypotheses are finished, or when no
 * living one can reach a better score than the best finished one. */
#ifndef NEAP_TRAIN_BEAM_H
#define NEAP_TRAIN_BEAM_H

#include "base/region.h"
#include "base/status.h"

struct beam_rules {
  int32_t width;
  double penalty;
  int64_t vocabulary; /* logits of each hypothesis */
  int64_t tokens;     /* that may be chosen: the first this many */
  int32_t end; /* the token that ends a hypothesis; no hypothesis consists of it alone, unless most is 0 */
};

struct beam {
  int64_t most;            /* tokens of a hypothesis without its end: at this length it can only end */
  int64_t length;          /* tokens of each living hypothesis */
  int32_t alive, finished; /* how many */
  bool done;
  int32_t *tokens, *spare; /* [width, most] of the living ones */
  int32_t *parents;    /* [width] of them: the hypothesis that each had before its last token; 0 at first */
  double *scores;      /* [width] of them, sums */
  int32_t *best;       /* [most] tokens of the best finished one, without its end */
  int64_t best_length; /* -1: none is finished */
  double best_score;
};

/* Starts with one hypothesis without tokens. Its memory is the region's. */
neap_status beam_start(const struct beam_rules *rules, int64_t most, struct region *region,
                       struct beam *beam);

/* Returns the tokens of a living hypothesis, [length]. */
static inline const int32_t *beam_tokens(const struct beam *beam, int32_t hypothesis) {
  return beam->tokens + hypothesis * beam->most;
}

struct beam_candidate {
  double score; /* a sum */
  int32_t hypothesis, token;
};

/* Runs one step of a beam that is not done: logits [alive, vocabulary] of the tokens after each hypothesis;
 * `candidates` [2 width] is scratch memory. If all logits are NaN the beam is done. */
void beam_advance(const struct beam_rules *rules, struct beam *beam, const float *logits,
                  struct beam_candidate *candidates);

#endif
