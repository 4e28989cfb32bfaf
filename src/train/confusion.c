#include "train/confusion.h"

#include <stdlib.h>

neap_status confusion_create(int64_t classes, int64_t batch, struct confusion *c) {
  *c = (struct confusion){0};
  int64_t cells, logits;
  RETURN_IF(__builtin_mul_overflow(classes, classes, &cells) ||
                __builtin_mul_overflow(classes, batch, &logits),
            NEAP_TOO_LARGE, "confusions: %lld classes are too many to count", (long long)classes);
  c->counts = region_alloc(&c->region, (size_t)cells, sizeof *c->counts);
  c->logits = region_alloc(&c->region, (size_t)logits, sizeof *c->logits);
  RETURN_IF(c->counts == NULL || c->logits == NULL, NEAP_OUT_OF_MEMORY,
            "out of memory for the confusions of %lld classes", (long long)classes);
  c->classes = classes;
  return NEAP_OK;
}

void confusion_free(struct confusion *c) { region_free(&c->region); }

/* Returns the class of the largest logit; the first among equals. */
static int64_t answer(const float *logits, int64_t classes) {
  int64_t best = 0;
  for (int64_t k = 1; k < classes; k++)
    if (logits[k] > logits[best]) best = k;
  return best;
}

neap_status confusion_add(struct confusion *c, const neap_session *session, const int32_t *labels,
                          int64_t batch) {
  if (c->classes == 0) return NEAP_OK;
  const neap_status status = neap_session_output(session, "logits", NULL, c->logits);
  if (status == NEAP_OVER_BUDGET) c->classes = 0;
  if (status != NEAP_OK) return status == NEAP_OVER_BUDGET ? NEAP_OK : status;
  for (int64_t i = 0; i < batch; i++)
    if (labels[i] >= 0 && labels[i] < c->classes)
      c->counts[labels[i] * c->classes + answer(&c->logits[i * c->classes], c->classes)]++;
  return NEAP_OK;
}

static const char *name_of(const struct source *source, int64_t k, struct region *region) {
  const bool named = source->class_names != NULL && k < source->classes;
  return named ? region_string(region, source->class_names[k]) : region_format(region, "%lld", (long long)k);
}

neap_status confusion_give(struct confusion *c, const struct source *source, neap_evaluation *result) {
  if (c->classes == 0) return NEAP_OK;
  neap_class_scores *rows = region_alloc(&c->region, (size_t)c->classes, sizeof *rows);
  struct region *owned = malloc(sizeof *owned);
  bool named = rows != NULL && owned != NULL;
  for (int64_t k = 0; named && k < c->classes; k++) {
    rows[k].name = name_of(source, k, &c->region);
    rows[k].right = c->counts[k * c->classes + k];
    for (int64_t j = 0; j < c->classes; j++) {
      rows[k].records += c->counts[k * c->classes + j];
      rows[k].predicted += c->counts[j * c->classes + k];
    }
    named = rows[k].name != NULL;
  }
  if (!named) free(owned);
  RETURN_IF(!named, NEAP_OUT_OF_MEMORY, "out of memory for the figures of %lld classes",
            (long long)c->classes);
  *owned = c->region;
  result->classes = c->classes;
  result->class_rows = rows;
  result->confusion = c->counts;
  result->owned = owned;
  *c = (struct confusion){0};
  return NEAP_OK;
}

void neap_evaluation_free(neap_evaluation *result) {
  if (result == NULL || result->owned == NULL) return;
  region_free(result->owned);
  free(result->owned);
  result->owned = NULL;
  result->classes = 0;
  result->class_rows = NULL;
  result->confusion = NULL;
}
