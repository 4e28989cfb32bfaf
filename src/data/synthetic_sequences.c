/* Draws sequences. Token i of the row depends on the seed and on i alone: mostly it follows from the token
 * before by a fixed rule, but every few tokens, where a new run begins, it is any token. A vector shows its
 * class by signs, under noise. */
#include "data/synthetic_sequences.h"

#include <string.h>

#include "data/stream.h"
#include "data/windows.h"

enum { RUN = 16, TRAINING_TOKENS = 1 << 20, TEST_TOKENS = 1 << 16, VECTOR_SEQUENCES = 4096, TEST_PART = 8 };

struct drawing {
  uint64_t seed;
  int64_t classes;
};

/* ---- Tokens ---- */

static int32_t random_token(const struct drawing *d, int64_t run) {
  uint32_t bits[4];
  data_random(d->seed, STREAM_DRAW, 0, (uint64_t)run, bits);
  return (int32_t)random_below(bits[0], (uint64_t)d->classes);
}

/* Permutes the vocabulary, nearly. */
static int32_t next_token(const struct drawing *d, int32_t token) {
  return (int32_t)(((int64_t)token * 5 + 3) % d->classes);
}

static neap_status read_tokens(const void *context, int64_t first, int64_t count, int32_t *tokens) {
  const struct drawing *d = context;
  int64_t i = first / RUN * RUN;
  int32_t token = 0;
  for (; i < first + count; i++) {
    token = i % RUN == 0 ? random_token(d, i / RUN) : next_token(d, token);
    if (i >= first) tokens[i - first] = token;
  }
  return NEAP_OK;
}

static neap_status open_tokens(const struct drawing *d, struct source *source) {
  const struct task *task = &source->task;
  const int64_t least = (task->batch + 2) * task->length + 1; /* a batch, whatever it takes */
  const int64_t train = TRAINING_TOKENS > least ? TRAINING_TOKENS : least;
  const struct token_row row = {.paths = {source->name, source->name},
                                .first = {0, (train + RUN - 1) / RUN * RUN},
                                .read = read_tokens,
                                .context = d};
  source->tokens[SPLIT_TRAIN] = train;
  source->tokens[SPLIT_TEST] = TEST_TOKENS > task->length + 1 ? TEST_TOKENS : task->length + 1;
  return windows_open(source, &row, task->kind == NEAP_TASK_MASKED ? NEAP_TASK_MASKED : NEAP_TASK_TOKENS,
                      (int32_t)d->classes - 1);
}

/* ---- Vectors ---- */

/* Draws the vector at time t of record r: the code of its class in signs, under noise of equal size. */
static void draw_vector(const struct drawing *d, uint64_t record, int64_t t, int64_t width, float *vector,
                        int32_t *label) {
  uint32_t bits[4], code[4] = {0};
  data_random(d->seed, STREAM_DRAW, record, (uint64_t)t << 16, bits);
  *label = (int32_t)random_below(bits[0], (uint64_t)d->classes);
  for (int64_t k = 0; vector != NULL && k < width; k++) {
    if (k % 128 == 0) data_random(d->seed, STREAM_COLOUR, (uint64_t)*label, (uint64_t)(k / 128), code);
    if (k % 4 == 0)
      data_random(d->seed, STREAM_DRAW, record, (uint64_t)t << 16 | (uint64_t)(k / 4 + 1), bits);
    const float sign = code[k % 128 / 32] >> k % 32 & 1 ? 1 : -1;
    vector[k] = sign + 2 * random_uniform(bits[k % 4]) - 1;
  }
}

static neap_status read_vectors(const struct source *source, enum split split, int64_t record,
                                const struct draw *draw, void *const *fields, int64_t *lengths) {
  (void)draw, (void)lengths;
  const int64_t length = source->fields[0].dims[0], width = source->fields[0].dims[1];
  const int64_t number = split == SPLIT_TRAIN ? record : source->records[SPLIT_TRAIN] + record;
  for (int64_t t = 0; t < length; t++) {
    int32_t label;
    draw_vector(source->context, (uint64_t)number, t, width,
                fields[0] != NULL ? (float *)fields[0] + t * width : NULL, &label);
    if (fields[1] != NULL) ((int32_t *)fields[1])[t] = label;
  }
  return NEAP_OK;
}

neap_status synthetic_sequences_open(uint64_t seed, struct source *source) {
  static const int64_t usual_classes = 256;
  const struct task *task = &source->task;
  const struct drawing d = {seed, task->classes > 0 ? task->classes : usual_classes};
  struct drawing *kept = region_copy(&source->region, &d, 1, sizeof d);
  RETURN_IF_NULL(kept);
  source->classes = d.classes;
  if (task->kind != NEAP_TASK_VECTORS) return open_tokens(kept, source);
  source->kind = NEAP_TASK_VECTORS;
  source->context = kept;
  source->read = read_vectors;
  source->sequence_length = task->length;
  source->records[SPLIT_TRAIN] = VECTOR_SEQUENCES > task->batch ? VECTOR_SEQUENCES : task->batch;
  source->records[SPLIT_TEST] = VECTOR_SEQUENCES / TEST_PART;
  TRY(source_add_field(source, (struct field){"sequence", NEAP_F32, 2, {task->length, task->width}, false}));
  return source_add_field(source, (struct field){"label", NEAP_I32, 1, {task->length}, false});
}
