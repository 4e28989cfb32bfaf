#include "train/beam.h"

#include <math.h>
#include <string.h>

neap_status beam_start(const struct beam_rules *rules, int64_t most, struct region *region,
                       struct beam *beam) {
  const size_t width = (size_t)rules->width;
  size_t tokens;
  RETURN_IF(__builtin_mul_overflow(width, (size_t)most, &tokens), NEAP_TOO_LARGE,
            "%d hypotheses of %lld tokens are too many", rules->width, (long long)most);
  *beam = (struct beam){.most = most,
                        .alive = 1,
                        .tokens = region_alloc(region, tokens, sizeof *beam->tokens),
                        .spare = region_alloc(region, tokens, sizeof *beam->spare),
                        .parents = region_alloc(region, width, sizeof *beam->parents),
                        .scores = region_alloc(region, width, sizeof *beam->scores),
                        .best = region_alloc(region, (size_t)most, sizeof *beam->best),
                        .best_length = -1};
  RETURN_IF(!beam->tokens || !beam->spare || !beam->parents || !beam->scores || !beam->best,
            NEAP_OUT_OF_MEMORY, "beam search: out of memory");
  return NEAP_OK;
}

/* Returns the logarithm of the sum of exp(logits). */
static double log_sum(const float *logits, int64_t count) {
  float largest = logits[0];
  double sum = 0;
  for (int64_t i = 1; i < count; i++) largest = logits[i] > largest ? logits[i] : largest;
  for (int64_t i = 0; i < count; i++) sum += exp((double)logits[i] - (double)largest);
  return (double)largest + log(sum);
}

/* Inserts a candidate into the list of the best so far, the best first; equal ones stay in the order of
 * insertion. */
static void insert(struct beam_candidate *list, int32_t *count, int32_t limit, struct beam_candidate c) {
  int32_t at = *count < limit ? (*count)++ : limit - 1;
  for (; at > 0 && list[at - 1].score < c.score; at--) list[at] = list[at - 1];
  list[at] = c;
}

static int32_t find_candidates(const struct beam_rules *rules, const struct beam *beam, const float *logits,
                               struct beam_candidate *list) {
  const bool must_end = beam->length == beam->most, may_end = must_end || beam->length > 0;
  const int32_t limit = 2 * rules->width;
  int32_t count = 0;
  for (int32_t h = 0; h < beam->alive; h++, logits += rules->vocabulary) {
    const double base = beam->scores[h] - log_sum(logits, rules->vocabulary);
    const int64_t first = must_end ? rules->end : 0, last = must_end ? rules->end + 1 : rules->tokens;
    for (int64_t token = first; token < last; token++) {
      const double score = base + (double)logits[token];
      if (!isfinite(score) || (count == limit && score <= list[count - 1].score)) continue;
      if (token == rules->end && !may_end) continue;
      insert(list, &count, limit, (struct beam_candidate){score, h, (int32_t)token});
    }
  }
  return count;
}

static double score_of(const struct beam_rules *rules, double sum, int64_t tokens) {
  return sum / pow((double)tokens, rules->penalty);
}

static void finish(const struct beam_rules *rules, struct beam *beam, const struct beam_candidate *c) {
  const double score = score_of(rules, c->score, beam->length + 1);
  beam->finished++;
  if (beam->best_length >= 0 && score <= beam->best_score) return;
  beam->best_score = score;
  beam->best_length = beam->length;
  memcpy(beam->best, beam_tokens(beam, c->hypothesis), (size_t)beam->length * sizeof *beam->best);
}

/* Returns true if a living hypothesis may still beat the best finished one. As sums only fall, tests its best
 * score if it ended now or as late as it may. */
static bool can_be_better(const struct beam_rules *rules, const struct beam *beam) {
  if (beam->best_length < 0) return true;
  const double soon = score_of(rules, beam->scores[0], beam->length + 1),
               late = score_of(rules, beam->scores[0], beam->most + 1);
  return soon > beam->best_score || late > beam->best_score;
}

void beam_advance(const struct beam_rules *rules, struct beam *beam, const float *logits,
                  struct beam_candidate *candidates) {
  const int32_t count = find_candidates(rules, beam, logits, candidates);
  int32_t alive = 0;
  for (int32_t i = 0; i < count; i++) {
    const struct beam_candidate *c = &candidates[i];
    if (c->token == rules->end && i < rules->width) finish(rules, beam, c);
    if (c->token == rules->end || alive == rules->width) continue;
    int32_t *to = beam->spare + alive * beam->most;
    memcpy(to, beam_tokens(beam, c->hypothesis), (size_t)beam->length * sizeof *to);
    to[beam->length] = c->token;
    beam->parents[alive] = c->hypothesis;
    beam->scores[alive++] = c->score; /* those of this step are in the candidates already */
  }
  int32_t *tokens = beam->tokens;
  beam->tokens = beam->spare;
  beam->spare = tokens;
  beam->alive = alive;
  beam->length++;
  beam->done = alive == 0 || beam->finished >= rules->width || !can_be_better(rules, beam);
}
