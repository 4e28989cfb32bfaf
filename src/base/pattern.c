#include "base/pattern.h"

#include <fnmatch.h>
#include <string.h>

neap_status pattern_next(const char **list, struct pattern *pattern, bool *any) {
  const char *from = *list + strspn(*list, ", ");
  size_t length = strcspn(from, ",");
  *list = from + length;
  *any = length > 0;
  pattern->without = from[0] == '!';
  from += pattern->without, length -= pattern->without;
  while (length > 0 && from[length - 1] == ' ') length--;
  RETURN_IF(length >= PATTERN_LIMIT, NEAP_INVALID_ARGUMENT,
            "pattern '%.60s...': has %zu bytes; at most %d are possible", from, length, PATTERN_LIMIT - 1);
  RETURN_IF(*any && length == 0, NEAP_INVALID_ARGUMENT, "pattern '!': a pattern must follow");
  memcpy(pattern->text, from, length);
  pattern->text[length] = '\0';
  return NEAP_OK;
}

bool pattern_matches(const struct pattern *pattern, const char *name) {
  return fnmatch(pattern->text, name, 0) == 0;
}

bool pattern_list_has(const char *list, const char *name) {
  struct pattern pattern;
  bool any, has = false;
  while (pattern_next(&list, &pattern, &any) == NEAP_OK && any)
    if (pattern_matches(&pattern, name)) has = !pattern.without;
  return has;
}

/* ---- Maps ---- */

enum { WILDCARD_LIMIT = 16 };

static bool is_wildcard(char c) { return c == '*' || c == '?'; }

/* A row of a map: "FROM=TO". */
struct map_row {
  const char *from, *to; /* to: behind the = */
  size_t from_length, to_length;
};

static bool next_row(const char **map, struct map_row *row, const char **end) {
  row->from = *map + strspn(*map, ", ");
  *end = row->from + strcspn(row->from, ",");
  *map = *end;
  while (*end > row->from && (*end)[-1] == ' ') (*end)--;
  const char *equals = memchr(row->from, '=', (size_t)(*end - row->from));
  row->to = equals != NULL ? equals + 1 : NULL;
  row->from_length = equals != NULL ? (size_t)(equals - row->from) : (size_t)(*end - row->from);
  row->to_length = equals != NULL ? (size_t)(*end - row->to) : 0;
  return *end > row->from;
}

/* The wildcards of a pattern, in their order; how many, or more than WILDCARD_LIMIT. */
static size_t wildcards_of(const char *pattern, size_t length, char found[WILDCARD_LIMIT]) {
  size_t count = 0;
  for (size_t i = 0; i < length; i++)
    if (is_wildcard(pattern[i]) && count++ < WILDCARD_LIMIT) found[count - 1] = pattern[i];
  return count;
}

neap_status name_map_check(const char *map) {
  struct map_row row;
  const char *end;
  while (next_row(&map, &row, &end)) {
    char from[WILDCARD_LIMIT], to[WILDCARD_LIMIT];
    const int length = (int)(end - row.from);
    RETURN_IF(row.to == NULL || row.from_length == 0 || memchr(row.to, '=', row.to_length) != NULL,
              NEAP_INVALID_ARGUMENT, "map of names: '%.*s' is not a valid row; give PATTERN=PATTERN", length,
              row.from);
    const size_t count = wildcards_of(row.from, row.from_length, from);
    RETURN_IF(count > WILDCARD_LIMIT, NEAP_INVALID_ARGUMENT,
              "map of names: '%.*s' has %zu wildcards (* and ?) on one side; at most %d are possible", length,
              row.from, count, WILDCARD_LIMIT);
    RETURN_IF(count != wildcards_of(row.to, row.to_length, to) || memcmp(from, to, count) != 0,
              NEAP_INVALID_ARGUMENT,
              "map of names: '%.*s': both sides must have the same * and ? in the same order", length,
              row.from);
  }
  return NEAP_OK;
}

/* The text that each wildcard of a pattern matched. */
struct captures {
  const char *text[WILDCARD_LIMIT];
  size_t length[WILDCARD_LIMIT];
};

/* Goes back to the last * alone where a character does not match: that finds a match where there is one, and
 * the shortest text for each *. */
static bool match(const char *pattern, size_t length, const char *name, struct captures *c) {
  size_t p = 0, star = SIZE_MAX, wildcard = 0, star_wildcard = 0;
  const char *at = name, *star_end = name;
  for (;;) {
    if (p < length && pattern[p] == '*') {
      star = p++, star_wildcard = wildcard, star_end = at;
      c->text[wildcard] = at, c->length[wildcard++] = 0;
    } else if (*at != '\0' && p < length && (pattern[p] == '?' || pattern[p] == *at)) {
      if (pattern[p] == '?') c->text[wildcard] = at, c->length[wildcard++] = 1;
      p++, at++;
    } else if (*at == '\0' && p == length) {
      return true;
    } else {
      if (star == SIZE_MAX || *star_end == '\0') return false;
      at = ++star_end, p = star + 1, wildcard = star_wildcard + 1;
      c->length[star_wildcard]++;
    }
  }
}

static const char *replace(const struct map_row *row, const struct captures *c, struct region *region) {
  size_t length = 0, wildcard = 0;
  for (size_t i = 0; i < row->to_length; i++) length += is_wildcard(row->to[i]) ? c->length[wildcard++] : 1;
  char *text = region_alloc(region, length + 1, 1), *at = text;
  wildcard = 0;
  for (size_t i = 0; text != NULL && i < row->to_length; i++) {
    if (!is_wildcard(row->to[i])) {
      *at++ = row->to[i];
      continue;
    }
    memcpy(at, c->text[wildcard], c->length[wildcard]);
    at += c->length[wildcard++];
  }
  if (text != NULL) *at = '\0';
  return text;
}

neap_status name_map_apply(const char *map, const char *name, struct region *region, const char **renamed) {
  struct map_row row;
  const char *end;
  *renamed = name;
  while (map != NULL && next_row(&map, &row, &end)) {
    struct captures captures;
    if (!match(row.from, row.from_length, *renamed, &captures)) continue;
    *renamed = replace(&row, &captures, region);
    RETURN_IF(*renamed == NULL, NEAP_OUT_OF_MEMORY, "out of memory for the names of weights");
  }
  return NEAP_OK;
}
