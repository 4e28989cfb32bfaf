/* Right and wrong answers by class. */
#ifndef NEAP_TRAIN_CONFUSION_H
#define NEAP_TRAIN_CONFUSION_H

#include "base/region.h"
#include "data/source.h"

struct confusion {
  struct region region;
  int64_t classes; /* 0: they are not counted, and confusion_add does nothing */
  int64_t *counts; /* [classes, classes]: by label, then by answer */
  float *logits;   /* room for a batch */
};

/* Begins to count batches of at most `batch` records. Free with confusion_free, whatever the status. */
neap_status confusion_create(int64_t classes, int64_t batch, struct confusion *confusion);
void confusion_free(struct confusion *confusion);

/* Adds a batch whose logits [batch, classes] the session has just computed. Labels outside the classes do not
 * count. If logits do not fit into the session's memory, counting ends: classes becomes 0. */
neap_status confusion_add(struct confusion *confusion, const neap_session *session, const int32_t *labels,
                          int64_t batch);

/* Moves the counts into the result, which then owns them. */
neap_status confusion_give(struct confusion *confusion, const struct source *source, neap_evaluation *result);

#endif
