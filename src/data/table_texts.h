/* Records that are texts of one column of a table: tokens in a temporary file; the process holds only their
 * places.
 *
 * A text becomes the ids that the tokenizer gives, with those that it puts before and after it. A text longer
 * than task.length loses its last ids before those that are put after it. */
#ifndef NEAP_DATA_TABLE_TEXTS_H
#define NEAP_DATA_TABLE_TEXTS_H

#include "data/csv.h"
#include "data/source.h"
#include "text/bpe.h"

struct text_record {
  int64_t first; /* its first token in the file */
  int32_t count;
  double label; /* its value, or the place of its class */
};

struct table_texts {
  const char *path; /* for messages */
  int descriptor;
  VECTOR(struct text_record) records;
  int64_t written, longest, longest_line; /* numbers of tokens, and the line of the longest text */
  const char *longest_path;
  struct token_ids ids;
};

/* Opens the temporary file, and finds the tokenizer of the model. */
neap_status table_texts_open(struct source *source, const char *path, struct table_texts *texts);
void table_texts_close(struct table_texts *texts);

/* Adds a record. NEAP_BAD_FORMAT: the text has no token; the message names file, line and column. */
neap_status table_texts_add(struct source *source, struct table_texts *texts, const struct csv *csv,
                            const char *column, const char *text, double label);

/* Sets the length of the source's sequences, and with task.any_length the lengths of records, if labels are
 * classes; adds the field of tokens. */
neap_status table_texts_finish(struct source *source, struct table_texts *texts, bool values);

/* Reads the tokens of a record, if they are not NULL, and their number. */
neap_status table_texts_read(const struct table_texts *texts, int64_t place, int32_t *tokens,
                             int64_t *lengths);

#endif
