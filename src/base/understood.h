/* A reader's report of its input: a row for each column, part of a folder, kind of file, token or key. A
 * source, tokenizer, template or model fills in rows as it reads; the command prints them in brief, and all
 * of them with --json. Whatever is left out or changed has a row that says why. */
#ifndef NEAP_BASE_UNDERSTOOD_H
#define NEAP_BASE_UNDERSTOOD_H

#include "base/region.h"
#include "base/vector.h"
#include "neap.h"

struct understood {
  VECTOR(neap_understood)
  rows; /* rows with one `became` are printed as one line, where the first of them stands */
};

/* Adds a row, whose texts are copied to the region. The same `became` for all objects of one fate, in words
 * that stand in front of a list of them: "numbers", "left out". */
neap_status understood_add(struct understood *understood, struct region *region, neap_understood row);

/* Frees the rows, not their texts. */
void understood_free(struct understood *understood);

/* Copies the rows and their texts to a region. */
neap_status understood_copy(const struct understood *understood, struct region *region,
                            const neap_understood **rows, int64_t *count);

#endif
