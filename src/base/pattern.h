/* Patterns of names: * means any text, ? for one character. */
#ifndef NEAP_BASE_PATTERN_H
#define NEAP_BASE_PATTERN_H

#include "base/region.h"
#include "base/status.h"

enum { PATTERN_LIMIT = 256 }; /* bytes of a pattern, its 0 included */

/* A pattern of a list, whose patterns stand with commas between them. */
struct pattern {
  char text[PATTERN_LIMIT]; /* without the ! */
  bool without;             /* it began with a !: it takes out what it matches */
};

/* Takes the first pattern off a list; `*any` is false where none is left. NEAP_INVALID_ARGUMENT: it is too
 * long. */
neap_status pattern_next(const char **list, struct pattern *pattern, bool *any);

/* Returns true if a name matches, as by fnmatch. */
bool pattern_matches(const struct pattern *pattern, const char *name);

/* Returns true if a name is in a list: the last pattern that matches decides. pattern_next has read the list
 * before without a failure. */
bool pattern_list_has(const char *list, const char *name);

/* A list of FROM=TO: what a * or ? of FROM matched is put where TO has its own, in their order. A * takes as
 * little as it can. The rows are applied one after the other, each to the name that the former gave.
 *
 * NEAP_INVALID_ARGUMENT: a row has no = or several, FROM is empty, or the two do not have the same * and ? in
 * the same order. The message names the row. */
neap_status name_map_check(const char *map);

/* The name that a map, which was checked, makes of `name`; in the region. */
neap_status name_map_apply(const char *map, const char *name, struct region *region, const char **renamed);

#endif
