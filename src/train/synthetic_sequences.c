/* Sequences that are drawn. Token i of the row is a function of the seed and of i alone: mostly it follows
 * from the one before by a fixed rule, and every few tokens, where a new run begins, it is any. A vector
 * tells its class by signs, under noise. */
#include <string.h>

#include "train/data_random.h"
#include "train/sequences.h"

enum { RUN = 16, TRAINING_TOKENS = 1 << 20, TEST_TOKENS = 1 << 16, VECTOR_SEQUENCES = 4096, TEST_PART = 8 };

static uint64_t seed_of(const struct data_set *set) {
  uint64_t seed;
  memcpy(&seed, set->source, sizeof seed);
  return seed;
}

static int32_t random_token(const struct data_set *set, int64_t run) {
  uint32_t bits[4];
  data_random(seed_of(set), STREAM_DRAW, 0, (uint64_t)run, bits);
  return (int32_t)random_below(bits[0], (uint64_t)set->classes);
}

/* A permutation of the vocabulary, nearly. */
static int32_t next_token(const struct data_set *set, int32_t token) {
  return (int32_t)(((int64_t)token * 5 + 3) % set->classes);
}

static neap_status read_tokens(const struct data_set *set, int64_t first, int64_t count, int32_t *tokens) {
  int64_t i = first / RUN * RUN;
  int32_t token = 0;
  for (; i < first + count; i++) {
    token = i % RUN == 0 ? random_token(set, i / RUN) : next_token(set, token);
    if (i >= first) tokens[i - first] = token;
  }
  return NEAP_OK;
}

/* Vectors: time t of record r has a class, whose code in signs is seen under noise as large. */
static void draw_vector(const struct data_set *set, uint64_t record, int64_t t, float *vector,
                        int32_t *label) {
  uint32_t bits[4], code[4] = {0};
  data_random(seed_of(set), STREAM_DRAW, record, (uint64_t)t << 16, bits);
  *label = (int32_t)random_below(bits[0], (uint64_t)set->classes);
  for (int64_t k = 0; vector != NULL && k < set->width; k++) {
    if (k % 128 == 0) data_random(seed_of(set), STREAM_COLOUR, (uint64_t)*label, (uint64_t)(k / 128), code);
    if (k % 4 == 0)
      data_random(seed_of(set), STREAM_DRAW, record, (uint64_t)t << 16 | (uint64_t)(k / 4 + 1), bits);
    const float sign = code[k % 128 / 32] >> k % 32 & 1 ? 1 : -1;
    vector[k] = sign + 2 * random_uniform(bits[k % 4]) - 1;
  }
}

static neap_status fill_vectors(const struct data_set *set, const struct data_split *split,
                                const struct data_batch *batch, void *inputs, int32_t *labels) {
  for (int64_t i = 0; i < batch->count * set->length; i++) {
    const int64_t record = batch->records[i / set->length];
    float *vector = inputs != NULL ? (float *)inputs + i * set->width : NULL;
    if (record >= 0) {
      draw_vector(set, (uint64_t)(split->first + record), i % set->length, vector, &labels[i]);
      continue;
    }
    if (vector != NULL) memset(vector, 0, (size_t)set->width * sizeof *vector);
    labels[i] = -1;
  }
  return NEAP_OK;
}

neap_status synthetic_sequences_open(uint64_t seed, struct data_set *set) {
  static const int64_t usual_classes = 256;
  const struct data_wish *wish = &set->wish;
  set->source = region_copy(&set->region, &seed, 1, sizeof seed);
  RETURN_IF_NULL(set->source);
  set->length = wish->length;
  set->classes = wish->classes > 0 ? wish->classes : usual_classes;
  if (wish->kind == MODEL_VECTORS) {
    set->kind = MODEL_VECTORS;
    set->width = wish->width;
    set->fill = fill_vectors;
    set->train.count = VECTOR_SEQUENCES > wish->batch ? VECTOR_SEQUENCES : wish->batch;
    set->test.first = set->train.count;
    set->test.count = VECTOR_SEQUENCES / TEST_PART;
    return NEAP_OK;
  }
  const int64_t least = (wish->batch + 2) * wish->length + 1; /* a batch, whatever it takes */
  set->train.tokens = TRAINING_TOKENS > least ? TRAINING_TOKENS : least;
  set->test.first = (set->train.tokens + RUN - 1) / RUN * RUN;
  set->test.tokens = TEST_TOKENS > wish->length + 1 ? TEST_TOKENS : wish->length + 1;
  set->read_tokens = read_tokens;
  return sequences_of_tokens(set, set->name, wish->kind == MODEL_MASKED ? MODEL_MASKED : MODEL_TOKENS,
                             (int32_t)set->classes - 1);
}
