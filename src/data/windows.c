#include "data/windows.h"

#include <string.h>

#include "data/stream.h"

static int64_t window_length(const struct source *source) { return source->fields[0].dims[0] - 1; }

/* Returns the place at which a window begins. */
static int64_t window_start(const struct source *source, enum split split, int64_t record,
                            const struct draw *draw) {
  uint32_t bits[4] = {0};
  const int64_t length = window_length(source), start = record * length;
  /* Places for the first window, at least 1. */
  const int64_t room = source->tokens[split] - source->records[split] * length;
  if (!draw->augment) return start;
  data_random(draw->seed, STREAM_WINDOW, (uint64_t)draw->epoch, 0, bits);
  return start + random_below(bits[0], (uint64_t)(room < length ? room : length));
}

static neap_status read_window(const struct source *source, enum split split, int64_t record,
                               const struct draw *draw, void *const *fields, int64_t *lengths) {
  const struct token_row *row = source->context;
  const int64_t wanted = window_length(source) + 1, start = window_start(source, split, record, draw),
                left = source->tokens[split] - start, count = left < wanted ? left : wanted;
  int32_t *tokens = fields[0];
  lengths[0] = count;
  if (tokens == NULL) return NEAP_OK;
  memset(tokens + count, 0, (size_t)(wanted - count) * sizeof *tokens);
  return row->read(row->context, row->first[split] + start, count, tokens);
}

neap_status windows_open(struct source *source, const struct token_row *row, neap_task kind, int32_t mask) {
  const int64_t length = source->task.length > 0 ? source->task.length : 1;
  for (int i = 0; i < SPLITS; i++)
    RETURN_IF(
        source->tokens[i] < length + 1, NEAP_INVALID_ARGUMENT,
        "%s: its %s part has %lld tokens, but sequences of %lld need at least %lld; use a smaller `length`",
        row->paths[i], i == SPLIT_TRAIN ? "training" : "test", (long long)source->tokens[i],
        (long long)length, (long long)length + 1);
  source->context = region_copy(&source->region, row, 1, sizeof *row);
  RETURN_IF_NULL(source->context);
  source->kind = kind;
  source->read = read_window;
  source->sequence_length = length;
  if (kind == NEAP_TASK_MASKED) source->mask_token = mask;
  /* The label of a window's last token lies behind it; one window less leaves room for the offset. */
  const int64_t whole = (source->tokens[SPLIT_TRAIN] - 1) / length;
  source->records[SPLIT_TRAIN] = whole > 1 ? whole - 1 : 1;
  source->records[SPLIT_TEST] = (source->tokens[SPLIT_TEST] - 1 + length - 1) / length;
  return source_add_field(source, (struct field){"tokens", NEAP_I32, 1, {length + 1}, false});
}
