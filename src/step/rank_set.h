/* A set of integers in [0, limit) that finds the neighbours of any integer. The lowest level has a bit for
 * each integer; a bit of the next level says that a word below is not empty, and so on up. All calls take
 * O(log limit / log 64). */
#ifndef NEAP_STEP_RANK_SET_H
#define NEAP_STEP_RANK_SET_H

#include "base/status.h"

enum { RANK_SET_LEVELS = 6 }; /* 64^6 > INT32_MAX */

struct rank_set {
  uint64_t *words;                  /* all levels, the members' first; owned */
  uint64_t *level[RANK_SET_LEVELS]; /* in `words` */
  int level_count;
};

/* Makes an empty set. Free it with rank_set_free; on failure there is nothing to free. */
neap_status rank_set_create(int32_t limit, struct rank_set *set);
void rank_set_free(struct rank_set *set);

void rank_set_insert(struct rank_set *set, int32_t rank);
void rank_set_erase(struct rank_set *set, int32_t rank);

/* Return the largest member below `rank` and the smallest above it; -1 if none exists. */
int32_t rank_set_below(const struct rank_set *set, int32_t rank);
int32_t rank_set_above(const struct rank_set *set, int32_t rank);

#endif
