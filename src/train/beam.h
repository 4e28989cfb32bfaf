/* Beam search over a model that gives the logits of the next token: the hypotheses of one line, without the
 * model. Its rules are those of fairseq (Ott et al. 2019).
 *
 * A step looks at the 2 `width` best continuations of all hypotheses, by the sum of their logarithms of
 * probabilities; of equal ones at that of the first hypothesis, then at the lower token. Those among the
 * first `width` that end are finished: their score is that sum divided by tokens^penalty, the end counted.
 * The first `width` of the others live on. It is over when `width` hypotheses are finished, or when none that
 * lives can come to a better score than the best that is. */
#ifndef NEAP_TRAIN_BEAM_H
#define NEAP_TRAIN_BEAM_H

#include "base/region.h"
#include "base/status.h"

struct beam_rules {
  int32_t width;
  double penalty;
  int64_t vocabulary; /* logits of each hypothesis */
  int64_t tokens;     /* those that may be chosen: the first this many */
  int32_t end; /* the token that ends a hypothesis; no hypothesis is that token alone, but where most is 0 */
};

struct beam {
  int64_t most;            /* tokens of a hypothesis, its end not counted: there it can only end */
  int64_t length;          /* tokens of each that lives */
  int32_t alive, finished; /* how many */
  bool done;
  int32_t *tokens, *spare; /* [width, most] of those that live */
  int32_t *parents;        /* [width] of them: which hypothesis each had before its last token; 0 at first */
  double *scores;          /* [width] of them, sums */
  int32_t *best;           /* [most] tokens of the best that is finished, its end not among them */
  int64_t best_length;     /* -1: none is finished */
  double best_score;
};

/* One hypothesis without tokens. Its memory is the region's. */
neap_status beam_start(const struct beam_rules *rules, int64_t most, struct region *region,
                       struct beam *beam);

/* The tokens of a hypothesis that lives, [length]. */
static inline const int32_t *beam_tokens(const struct beam *beam, int32_t hypothesis) {
  return beam->tokens + hypothesis * beam->most;
}

struct beam_candidate {
  double score; /* a sum */
  int32_t hypothesis, token;
};

/* One step of a beam that is not done: logits [alive, vocabulary] of what follows each hypothesis;
 * `candidates` [2 width] is for it to work with. Where no logits are numbers the beam is done. */
void beam_advance(const struct beam_rules *rules, struct beam *beam, const float *logits,
                  struct beam_candidate *candidates);

#endif
