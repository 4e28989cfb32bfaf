/* Divides a long row of tokens into windows, which are the records. */
#ifndef NEAP_DATA_WINDOWS_H
#define NEAP_DATA_WINDOWS_H

#include "data/source.h"

/* The source of tokens: first those of the training part, then those to test with. */
struct token_row {
  const char *paths[SPLITS]; /* of each part's file, for messages */
  int64_t first[SPLITS];
  neap_status (*read)(const void *context, int64_t first, int64_t count, int32_t *tokens);
  const void *context;
};

/* Opens a source whose records are windows of source->task.length + 1 tokens; the last token is only a label.
 * Its parts have source->tokens each. `kind`: NEAP_TASK_TOKENS or NEAP_TASK_MASKED; `mask`: the token that
 * replaces masked ones.
 *
 * Training windows do not overlap; in each epoch they begin at an offset that is drawn (augmentation). Test
 * windows cover everything; lengths[0] gives the number of tokens of the last one, which is padded with
 * zeros. NEAP_INVALID_ARGUMENT: a part is shorter than a window. */
neap_status windows_open(struct source *source, const struct token_row *row, neap_task kind, int32_t mask);

#endif
