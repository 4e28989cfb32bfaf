/* Texts of a table's column as records: tokens in a temporary file, of which the process holds the places.
 *
 * A text becomes the ids that the tokenizer makes of it, with those that it sets before and behind. One that
 * is longer than task.length loses ids before those that are set behind. */
#ifndef NEAP_DATA_TABLE_TEXTS_H
#define NEAP_DATA_TABLE_TEXTS_H

#include "data/csv.h"
#include "data/source.h"
#include "text/bpe.h"

struct text_record {
  int64_t first; /* of its tokens in the file */
  int32_t count;
  float label; /* or the bits of a class */
};

struct table_texts {
  const char *path; /* for messages */
  int descriptor;
  VECTOR(struct text_record) records;
  int64_t written, longest, longest_line; /* tokens */
  const char *longest_path;
  struct token_ids ids;
};

/* Opens the temporary file, and finds the tokenizer: the model's. */
neap_status table_texts_open(struct source *source, const char *path, struct table_texts *texts);
void table_texts_close(struct table_texts *texts);

/* Adds a record. NEAP_BAD_FORMAT: the text gives no token; the message names file, line and column. */
neap_status table_texts_add(struct source *source, struct table_texts *texts, const struct csv *csv,
                            const char *column, const char *text, const float *label);

/* Sets the length of the source's sequences, and with task.any_length those of its records, where labels are
 * classes; and adds the field of tokens. */
neap_status table_texts_finish(struct source *source, struct table_texts *texts, bool values);

neap_status table_texts_read(const struct table_texts *texts, int64_t place, void *const *fields,
                             int64_t *lengths);

#endif
