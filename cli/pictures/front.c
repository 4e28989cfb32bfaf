/* Chooses the points of several planners that count. */
#include <stdlib.h>

#include "pictures/front.h"

struct ranked {
  const struct curve_point *point;
  int64_t index;
};

static int by_bytes(const void *a, const void *b) {
  const struct ranked *x = a, *y = b;
  if (x->point->bytes != y->point->bytes) return x->point->bytes < y->point->bytes ? -1 : 1;
  if (x->point->overhead != y->point->overhead) return x->point->overhead < y->point->overhead ? -1 : 1;
  return x->index < y->index ? -1 : 1;
}

int64_t *curve_front(const struct curve_picture *picture, int64_t *count) {
  struct ranked *ranked = malloc(((size_t)picture->count + 1) * sizeof *ranked);
  int64_t *front = malloc(((size_t)picture->count + 1) * sizeof *front);
  *count = 0;
  if (ranked != NULL && front != NULL) {
    for (int64_t i = 0; i < picture->count; i++) ranked[i] = (struct ranked){&picture->points[i], i};
    qsort(ranked, (size_t)picture->count, sizeof *ranked, by_bytes);
    for (int64_t i = 0; i < picture->count; i++)
      if (*count == 0 || ranked[i].point->overhead < picture->points[front[*count - 1]].overhead)
        front[(*count)++] = ranked[i].index;
  } else {
    free(front);
    front = NULL;
  }
  free(ranked);
  return front;
}
