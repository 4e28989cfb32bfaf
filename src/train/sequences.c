#include "train/sequences.h"

#include <string.h>

#include "train/data_random.h"

/* Where window `record` begins. */
static int64_t window_start(const struct data_set *set, const struct data_split *split,
                            const struct data_batch *batch, int64_t record) {
  uint32_t bits[4] = {0};
  const int64_t room =
      split->tokens - split->count * set->length; /* places for the first window, at least 1 */
  if (!batch->augment) return record * set->length;
  data_random(batch->seed, STREAM_WINDOW, (uint64_t)batch->epoch, 0, bits);
  return record * set->length + random_below(bits[0], (uint64_t)(room < set->length ? room : set->length));
}

/* The tokens from `start` on into the set's window, and how many there are; what is missing is 0. */
static neap_status read_window(const struct data_set *set, const struct data_split *split, int64_t start,
                               int64_t *count) {
  const int64_t wanted = set->length + 1;
  *count = split->tokens - start < wanted ? split->tokens - start : wanted;
  memset(set->window + *count, 0, (size_t)(wanted - *count) * sizeof *set->window);
  return set->read_tokens(set, split->first + start, *count, set->window);
}

/* Labels are the tokens that follow. */
static void label_next(const struct data_set *set, int64_t count, int32_t *labels) {
  for (int64_t i = 0; i < set->length; i++) labels[i] = i + 1 < count ? set->window[i + 1] : -1;
}

/* Of 15 % of the tokens; 80 % of these are masked, 10 % become any token, 10 % stay (Devlin et al. 2019). */
static void label_masked(const struct data_set *set, uint64_t seed, uint64_t index, int64_t count,
                         int32_t *labels) {
  static const float share = 0.15f, masked = 0.8f, other = 0.9f;
  for (int64_t i = 0; i < set->length; i++) {
    uint32_t bits[4];
    data_random(seed, STREAM_MASK, index, (uint64_t)i, bits);
    labels[i] = -1;
    if (i >= count || random_uniform(bits[0]) >= share) continue;
    const float fate = random_uniform(bits[1]);
    labels[i] = set->window[i];
    if (fate < masked)
      set->window[i] = set->mask_token;
    else if (fate < other)
      set->window[i] = (int32_t)random_below(bits[2], (uint64_t)set->classes);
  }
}

static neap_status fill_record(const struct data_set *set, const struct data_split *split,
                               const struct data_batch *batch, int64_t record, int32_t *tokens,
                               int32_t *labels) {
  int64_t count = 0;
  if (record >= 0)
    TRY(read_window(set, split, window_start(set, split, batch, record), &count));
  else
    memset(set->window, 0, (size_t)(set->length + 1) * sizeof *set->window);
  if (set->mask_token >= 0)
    label_masked(set, batch->seed, (uint64_t)batch->epoch << 32 | (uint64_t)(record + 1), count, labels);
  else
    label_next(set, count, labels);
  if (tokens != NULL) memcpy(tokens, set->window, (size_t)set->length * sizeof *tokens);
  return NEAP_OK;
}

static neap_status fill(const struct data_set *set, const struct data_split *split,
                        const struct data_batch *batch, void *inputs, int32_t *labels) {
  for (int64_t i = 0; i < batch->count; i++)
    TRY(fill_record(set, split, batch, batch->records[i],
                    inputs != NULL ? (int32_t *)inputs + i * set->length : NULL, labels + i * set->length));
  return NEAP_OK;
}

neap_status sequences_of_tokens(struct data_set *set, const char *path, enum model_kind kind, int32_t mask) {
  struct data_split *const splits[] = {&set->train, &set->test};
  for (int i = 0; i < 2; i++)
    RETURN_IF(
        splits[i]->tokens < set->length + 1, NEAP_INVALID_ARGUMENT,
        "%s: its %s part has %lld tokens, but sequences of %lld need %lld at least; --length would give "
        "shorter ones",
        path, i == 0 ? "training" : "test", (long long)splits[i]->tokens, (long long)set->length,
        (long long)set->length + 1);
  set->kind = kind;
  set->fill = fill;
  set->mask_token = kind == MODEL_MASKED ? mask : -1;
  set->window = region_alloc(&set->region, (size_t)set->length + 1, sizeof *set->window);
  RETURN_IF(set->window == NULL, NEAP_OUT_OF_MEMORY, "out of memory for a window of tokens");
  /* The label of a window's last token lies behind it; one window less leaves room for the offset. */
  const int64_t whole = (set->train.tokens - 1) / set->length;
  set->train.count = whole > 1 ? whole - 1 : 1;
  set->test.count = (set->test.tokens - 1 + set->length - 1) / set->length;
  return NEAP_OK;
}
