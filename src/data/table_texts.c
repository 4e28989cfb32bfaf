#include "data/table_texts.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "data/source_tokenizer.h"
#include "text/tokenizer.h"

static const int64_t usual_length = 1024; /* of data that are looked at */

neap_status table_texts_open(struct source *source, const char *path, struct table_texts *texts) {
  *texts = (struct table_texts){.path = path};
  if (source->task.length == 0) source->task.length = usual_length;
  TRY(source_tokenizer_make(source, path, NULL, NULL));
  RETURN_IF(source->task.length <= tokenizer_behind(source->tokenizer), NEAP_INVALID_ARGUMENT,
            "%s: a length of %lld leaves no room for a text: its tokenizer appends %d tokens; use a larger "
            "`length`",
            path, (long long)source->task.length, tokenizer_behind(source->tokenizer));
  return source_temporary_file(source, path, &texts->descriptor);
}

void table_texts_close(struct table_texts *texts) {
  vector_free(&texts->records);
  vector_free(&texts->ids);
}

/* Cuts to `most` ids, but keeps the last `behind`, which the tokenizer appends. */
static void cut(struct token_ids *ids, size_t most, size_t behind) {
  memmove(ids->data + most - behind, ids->data + ids->count - behind, behind * sizeof *ids->data);
  ids->count = most;
}

neap_status table_texts_add(struct source *source, struct table_texts *texts, const struct csv *csv,
                            const char *column, const char *text, double label) {
  char name[512];
  const size_t most = (size_t)source->task.length;
  snprintf(name, sizeof name, "%.300s (line %lld, column '%.100s')", csv->path, (long long)csv->line, column);
  const struct text whole = {.bytes = text, .length = strlen(text), .name = name};
  texts->ids.count = 0;
  TRY(tokenizer_encode_places(source->tokenizer, &whole, true, &texts->ids, NULL));
  RETURN_IF(texts->ids.count == 0, NEAP_BAD_FORMAT,
            "%s: line %lld, column '%s': has no text; fill it in or remove the line", csv->path,
            (long long)csv->line, column);
  if (texts->ids.count > most) {
    cut(&texts->ids, most, (size_t)tokenizer_behind(source->tokenizer));
    source->cut++;
  }
  const struct text_record record = {texts->written, (int32_t)texts->ids.count, label};
  TRY(vector_push(&texts->records, record));
  if (record.count > texts->longest) {
    texts->longest = record.count;
    texts->longest_line = csv->line;
    texts->longest_path = csv->path;
  }
  texts->written += record.count;
  return source_write_file(csv->path, texts->descriptor, texts->ids.data,
                           texts->ids.count * sizeof *texts->ids.data);
}

neap_status table_texts_finish(struct source *source, struct table_texts *texts, bool values) {
  RETURN_IF(texts->records.count > INT32_MAX, NEAP_TOO_LARGE, "%s: has more than %d records", texts->path,
            INT32_MAX);
  source->longest = region_format(&source->region, "%s: line %lld, of %lld tokens", texts->longest_path,
                                  (long long)texts->longest_line, (long long)texts->longest);
  RETURN_IF_NULL(source->longest);
  source->sequence_length = texts->longest;
  if (values) source->task.any_length = false; /* the mean of a filled batch is that of its records */
  return source_add_field(source, (struct field){"tokens", NEAP_I32, 1, {texts->longest}, true});
}

neap_status table_texts_read(const struct table_texts *texts, int64_t place, int32_t *tokens,
                             int64_t *lengths) {
  const struct text_record *r = &texts->records.data[place];
  lengths[0] = r->count;
  if (tokens == NULL) return NEAP_OK;
  return file_need_at(texts->path, texts->descriptor, (uint64_t)r->first * sizeof *tokens, tokens,
                      (size_t)r->count * sizeof *tokens);
}
