#include "data/transform_tokens.h"

#include <string.h>

#include "data/stream.h"

/* ---- Windows ---- */

enum { WINDOW, TOKENS, LABEL };

static neap_status prepare_window(struct stage *stage, neap_task kind, int *slots, bool *applies) {
  const struct task_row *row = &task_rows[kind];
  slots[WINDOW] = stage_find_slot(stage, row->input);
  *applies = stage->source->kind == kind && slots[WINDOW] >= 0 && stage_find_slot(stage, row->label) < 0;
  if (!*applies) return NEAP_OK;
  struct field tokens = stage->slots[slots[WINDOW]].field;
  tokens.dims[0]--;
  tokens.ragged = false;
  struct field label = tokens;
  label.name = row->label;
  TRY(stage_add_slot(stage, tokens, &slots[TOKENS]));
  return stage_add_slot(stage, label, &slots[LABEL]);
}

static neap_status prepare_next(struct stage *stage, const struct field *wanted, int wanted_count, int *slots,
                                bool *applies) {
  (void)wanted, (void)wanted_count;
  return prepare_window(stage, NEAP_TASK_TOKENS, slots, applies);
}

static neap_status prepare_masked(struct stage *stage, const struct field *wanted, int wanted_count,
                                  int *slots, bool *applies) {
  (void)wanted, (void)wanted_count;
  return prepare_window(stage, NEAP_TASK_MASKED, slots, applies);
}

static void take_tokens(const struct stage *stage, const int *slots, const struct sample *s) {
  void *tokens = s->values[slots[TOKENS]];
  if (tokens != NULL)
    memcpy(tokens, s->values[slots[WINDOW]], slot_bytes(&stage->slots[slots[TOKENS]], s->length));
}

static void apply_next(const struct stage *stage, const int *slots, struct sample *s) {
  const int64_t length = stage->slots[slots[TOKENS]].field.dims[0], count = s->lengths[slots[WINDOW]];
  const int32_t *window = s->values[slots[WINDOW]];
  int32_t *labels = s->values[slots[LABEL]];
  for (int64_t i = 0; labels != NULL && i < length; i++) labels[i] = i + 1 < count ? window[i + 1] : -1;
  take_tokens(stage, slots, s);
}

/* Chooses 15 % of the tokens; 80 % of these are masked, 10 % become any token, 10 % stay (Devlin et al.
 * 2019). */
static void apply_masked(const struct stage *stage, const int *slots, struct sample *s) {
  static const float share = 0.15f, masked = 0.8f, other = 0.9f;
  const int64_t length = stage->slots[slots[TOKENS]].field.dims[0], count = s->lengths[slots[WINDOW]];
  const uint64_t index = (uint64_t)s->draw->epoch << 32 | (uint64_t)(s->record + 1);
  int32_t *window = s->values[slots[WINDOW]], *labels = s->values[slots[LABEL]];
  for (int64_t i = 0; i < length; i++) {
    uint32_t bits[4];
    if (labels != NULL) labels[i] = -1;
    if (i >= count) continue;
    data_random(s->draw->seed, STREAM_MASK, index, (uint64_t)i, bits);
    if (random_uniform(bits[0]) >= share) continue;
    const float fate = random_uniform(bits[1]);
    if (labels != NULL) labels[i] = window[i];
    if (fate < masked)
      window[i] = stage->source->mask_token;
    else if (fate < other)
      window[i] = (int32_t)random_below(bits[2], (uint64_t)stage->source->classes);
  }
  take_tokens(stage, slots, s);
}

/* ---- Pairs ---- */

enum { SOURCE, TARGET, PADDED };

/* Adds the slots "source", "tokens" and "label", which follow each other from PADDED on. */
static neap_status prepare_pad(struct stage *stage, const struct field *wanted, int wanted_count, int *slots,
                               bool *applies) {
  static const char *const names[] = {"source", "tokens", "label"};
  (void)wanted, (void)wanted_count;
  slots[SOURCE] = stage_find_slot(stage, "source");
  slots[TARGET] = stage_find_slot(stage, "target");
  *applies = slots[SOURCE] >= 0 && slots[TARGET] >= 0;
  for (int i = 0; *applies && i < 3; i++) {
    int slot;
    const struct field field = {names[i], NEAP_I32, 1, {stage->slots[slots[SOURCE]].field.dims[0]}, true};
    TRY(stage_add_slot(stage, field, &slot));
    if (i == 0) slots[PADDED] = slot;
  }
  return NEAP_OK;
}

/* Pads a pair. An empty record gets a source of one token, so that attention always sees something. */
static void apply_pad(const struct stage *stage, const int *slots, struct sample *s) {
  const int32_t end = stage->source->end_token;
  const bool any = s->record >= 0;
  const int64_t sources = s->lengths[slots[SOURCE]], targets = s->lengths[slots[TARGET]];
  const int32_t *from = s->values[slots[SOURCE]], *to = s->values[slots[TARGET]];
  int32_t *source = s->values[slots[PADDED]], *tokens = s->values[slots[PADDED] + 1],
          *label = s->values[slots[PADDED] + 2];
  for (int64_t i = 0; source != NULL && i < s->length; i++)
    source[i] = i < sources ? from[i] : i == sources ? end : -1;
  for (int64_t i = 0; tokens != NULL && i < s->length; i++)
    tokens[i] = i == 0 ? end : i <= targets ? to[i - 1] : -1;
  for (int64_t i = 0; label != NULL && i < s->length; i++)
    label[i] = i < targets ? to[i] : i == targets && any ? end : -1;
}

/* ---- Conversations ---- */

enum { CONVERSATION };

static neap_status prepare_answers(struct stage *stage, const struct field *wanted, int wanted_count,
                                   int *slots, bool *applies) {
  (void)wanted, (void)wanted_count;
  slots[CONVERSATION] = stage_find_slot(stage, "conversation");
  *applies = slots[CONVERSATION] >= 0;
  if (!*applies) return NEAP_OK;
  const struct field tokens = {
      task_rows[NEAP_TASK_TOKENS].input, NEAP_I32, 1, {stage->source->sequence_length}, true};
  struct field label = tokens;
  label.name = task_rows[NEAP_TASK_TOKENS].label;
  TRY(stage_add_slot(stage, tokens, &slots[TOKENS]));
  return stage_add_slot(stage, label, &slots[LABEL]);
}

static void apply_answers(const struct stage *stage, const int *slots, struct sample *s) {
  (void)stage;
  const int64_t count = s->lengths[slots[CONVERSATION]];
  const int32_t *ids = s->values[slots[CONVERSATION]];
  int32_t *tokens = s->values[slots[TOKENS]], *labels = s->values[slots[LABEL]];
  for (int64_t i = 0; tokens != NULL && i < s->length; i++)
    tokens[i] = i >= count ? 0 : ids[i] < 0 ? ~ids[i] : ids[i];
  for (int64_t i = 0; labels != NULL && i < s->length; i++)
    labels[i] = i + 1 < count && ids[i + 1] >= 0 ? ids[i + 1] : -1;
}

/* ---- Texts ---- */

enum { TEXT };

static neap_status prepare_text(struct stage *stage, const struct field *wanted, int wanted_count, int *slots,
                                bool *applies) {
  (void)wanted, (void)wanted_count;
  slots[TEXT] = stage_find_slot(stage, task_rows[NEAP_TASK_TEXTS].input);
  *applies = stage->source->kind == NEAP_TASK_TEXTS && slots[TEXT] >= 0;
  return *applies ? stage_add_slot(stage, stage->slots[slots[TEXT]].field, &slots[TOKENS]) : NEAP_OK;
}

/* Pads a text. An empty record gets one token, so that attention always sees something. */
static void apply_text(const struct stage *stage, const int *slots, struct sample *s) {
  (void)stage;
  const int64_t count = s->record >= 0 ? s->lengths[slots[TEXT]] : 1;
  const int32_t *text = s->values[slots[TEXT]];
  int32_t *tokens = s->values[slots[TOKENS]];
  for (int64_t i = 0; tokens != NULL && i < s->length; i++)
    tokens[i] = i >= count ? -1 : s->record >= 0 ? text[i] : 0;
}

const struct transform transform_next_token = {"next-token", "labels are the next tokens", prepare_next,
                                               apply_next},
                       transform_masked_token = {"masked-token", "labels are the masked tokens",
                                                 prepare_masked, apply_masked},
                       transform_pad = {"pad", "pads pairs to one length, with </s>", prepare_pad, apply_pad},
                       transform_answers = {"answers", "labels are the tokens of the answers",
                                            prepare_answers, apply_answers},
                       transform_text = {"text", "pads texts to one length", prepare_text, apply_text};
