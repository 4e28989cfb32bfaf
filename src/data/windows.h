/* Windows of a long row of tokens, as records. */
#ifndef NEAP_DATA_WINDOWS_H
#define NEAP_DATA_WINDOWS_H

#include "data/source.h"

/* Where tokens come from. Those of the training part come first, then those to test with. */
struct token_row {
  const char *path; /* for messages */
  int64_t first[SPLITS];
  neap_status (*read)(const void *context, int64_t first, int64_t count, int32_t *tokens);
  const void *context;
};

/* Makes a source whose parts have source->tokens each one of windows of source->task.length + 1 tokens, of
 * which the last is only a label. `kind`: TASK_TOKENS or TASK_MASKED; `mask`: the token that takes the place
 * of masked ones.
 *
 * Training windows begin anew in each epoch, at an offset that is drawn (augmentation), and do not overlap;
 * test windows cover everything; of the last one lengths[0] tells how many tokens it has, zeros follow.
 * NEAP_INVALID_ARGUMENT: a part is shorter than a window. */
neap_status windows_open(struct source *source, const struct token_row *row, enum task_kind kind,
                         int32_t mask);

#endif
