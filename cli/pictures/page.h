/* A page that shows plans: memory over the step and the place of every tensor, which answer to the pointer.
 * It has either a curve, from which the plans on its front can be opened, or one plan. It is one file that
 * needs no other. */
#ifndef NEAP_CLI_PAGE_H
#define NEAP_CLI_PAGE_H

#include "pictures/svg.h"

struct page {
  const neap_step *step;             /* of all plans but those that have their own */
  const struct curve_picture *curve; /* NULL: the page has the one plan */
  const neap_plan *plan;
  uint64_t budget; /* a line in that plan's picture; 0: none */
};

/* Gives the text, which the caller frees. */
neap_status draw_page(const struct page *page, char **text, size_t *length);

#endif
