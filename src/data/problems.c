#include "data/problems.h"

#include <stdio.h>
#include <string.h>

static neap_status keep(struct problems *problems, struct region *region, struct problem problem,
                        neap_status status) {
  RETURN_IF_NULL(problem.message = region_string(region, problem.message));
  if (problems->status == NEAP_OK) problems->status = status;
  return vector_push(&problems->list, problem);
}

neap_status problems_add(struct problems *problems, struct region *region, int64_t place,
                         neap_status status) {
  neap_status kept;
  if (status == NEAP_OK || status == NEAP_OUT_OF_MEMORY || status == NEAP_INTERRUPTED) return status;
#pragma omp critical(problems)
  kept = keep(problems, region, (struct problem){place, neap_error_message()}, status);
  return kept;
}

static int by_place(const void *a, const void *b) {
  const struct problem *x = a, *y = b;
  return (x->place > y->place) - (x->place < y->place);
}

neap_status problems_tell(struct problems *problems, const char *source) {
  enum { TOLD = 4 };
  const size_t count = problems->list.count;
  char text[800] = "";
  size_t length = 0;
  if (count == 0) return NEAP_OK;
  qsort(problems->list.data, count, sizeof *problems->list.data, by_place);
  if (count == 1) return neap_fail(problems->status, "%s", problems->list.data[0].message);
  for (size_t i = 0; i < count && i < TOLD && length < sizeof text; i++)
    length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", i > 0 ? "; " : "",
                               problems->list.data[i].message);
  return neap_fail(problems->status, "%s: %zu problems; `neap data` names each: %s", source, count, text);
}
