#include "base/attention_pattern.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

bool attention_hides(const struct attention_heads *heads) {
  bool hides = false;
  for (int i = 0; i < ATTENTION_PATTERNS; i++)
    hides = hides || heads->of[i].step > 1 || heads->of[i].reach > 0 || heads->of[i].block > 0;
  return hides;
}

/* ---- Text ---- */

enum { NUMBERS = 2, NUMBER_LIMIT = 1 << 30, SHOWN = 60 };

static const struct word {
  const char *name;
  size_t member[NUMBERS]; /* of struct attention_pattern, by the order of the numbers */
  int numbers;
} words[] = {
    {"dense", {0}, 0},
    {"window", {offsetof(struct attention_pattern, reach)}, 1},
    {"strided", {offsetof(struct attention_pattern, step)}, 1},
    {"fixed", {offsetof(struct attention_pattern, block), offsetof(struct attention_pattern, columns)}, 2},
    {"dilated", {offsetof(struct attention_pattern, reach), offsetof(struct attention_pattern, step)}, 2},
};
enum { WORDS = sizeof words / sizeof *words };

/* A part of a text. */
struct part {
  const char *text;
  size_t length;
};

static neap_status refuse(struct part part) {
  return neap_fail(
      NEAP_INVALID_ARGUMENT,
      "attention '%.*s': is no pattern; give dense, window:W, strided:L, fixed:L,C (C at most L) "
      "or dilated:W,G, with numbers from 1 to %d, or several in brackets, [P;P], for the heads",
      (int)(part.length < SHOWN ? part.length : SHOWN), part.text, NUMBER_LIMIT);
}

static neap_status read_numbers(struct part part, const struct word *word, const char *at,
                                struct attention_pattern *p) {
  for (int i = 0; i < word->numbers; i++) {
    if (*at++ != (i == 0 ? ':' : ',') || *at < '0' || *at > '9') return refuse(part);
    char *end;
    const unsigned long long number = strtoull(at, &end, 10);
    if (number < 1 || number > NUMBER_LIMIT) return refuse(part);
    *(int64_t *)(void *)((char *)p + word->member[i]) = (int64_t)number;
    at = end;
  }
  return at == part.text + part.length && p->columns <= p->block ? NEAP_OK : refuse(part);
}

static bool has_global(struct part part) {
  static const char name[] = "global=";
  for (size_t i = 0; i + sizeof name - 1 <= part.length; i++)
    if (strncmp(part.text + i, name, sizeof name - 1) == 0) return true;
  return false;
}

static neap_status read_pattern(struct part part, struct attention_pattern *p) {
  *p = (struct attention_pattern){0};
  RETURN_IF(has_global(part), NEAP_UNSUPPORTED,
            "attention '%.*s': global tokens are not supported; leave global=... out",
            (int)(part.length < SHOWN ? part.length : SHOWN), part.text);
  for (int i = 0; i < WORDS; i++) {
    const size_t length = strlen(words[i].name);
    if (length <= part.length && strncmp(part.text, words[i].name, length) == 0)
      return read_numbers(part, &words[i], part.text + length, p);
  }
  return refuse(part);
}

/* Takes the text up to the next ; that is outside of brackets. */
static struct part next_part(const char **list, const char *end) {
  const struct part part = {*list, 0};
  int depth = 0;
  while (*list < end && (depth > 0 || **list != ';')) {
    depth += (**list == '[') - (**list == ']');
    ++*list;
  }
  return (struct part){part.text, (size_t)(*list - part.text)};
}

static neap_status read_entry(struct part entry, struct attention_heads *heads) {
  const bool several = entry.length > 1 && entry.text[0] == '[' && entry.text[entry.length - 1] == ']';
  const char *at = entry.text + several, *end = entry.text + entry.length - several;
  *heads = (struct attention_heads){0};
  for (bool more = true; more;) {
    RETURN_IF(heads->count == ATTENTION_PATTERNS, NEAP_INVALID_ARGUMENT,
              "attention '%.*s': has more than %d patterns in brackets; the heads take them in turn",
              (int)(entry.length < SHOWN ? entry.length : SHOWN), entry.text, ATTENTION_PATTERNS);
    TRY(read_pattern(next_part(&at, end), &heads->of[heads->count++]));
    more = at < end;
    at += more;
    if (more && at == end) return refuse(entry);
  }
  return NEAP_OK;
}

int64_t attention_entries(const char *list) {
  const char *end = list + strlen(list);
  int64_t count = 1;
  for (const char *at = list; next_part(&at, end), at < end; at++) count++;
  return count;
}

neap_status attention_read(const char *list, int64_t layer, struct attention_heads *heads) {
  const char *at = list, *end = list + strlen(list);
  const int64_t count = attention_entries(list);
  for (int64_t i = 0; i < count; i++, at++) {
    struct attention_heads read;
    TRY(read_entry(next_part(&at, end), &read));
    if (i == layer % count) *heads = read;
  }
  return NEAP_OK;
}

/* ---- Tiles ---- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t up(int64_t a, int64_t b) { return a <= 0 ? 0 : (a - 1) / b + 1; } /* a / b, rounded up */
static int64_t step_of(const struct attention_pattern *p) { return p->step > 1 ? p->step : 1; }

int64_t attention_tiles(const struct attention_pattern *p, int64_t queries, int64_t size) {
  const int64_t step = least(step_of(p), queries);
  return step == 0 ? 0 : step * up(up(queries, step), size);
}

struct attention_rows attention_tile(const struct attention_pattern *p, int64_t queries, int64_t size,
                                     int64_t index) {
  const int64_t step = step_of(p), tiles = up(up(queries, step), size), phase = index / tiles,
                first = phase + index % tiles * size * step;
  return (struct attention_rows){first, step, 1, 0,
                                 phase < step ? least(size, up(queries - first, step)) : 0};
}

/* Returns how many of the rows are less than `end`; `from` is 0. */
static int64_t count_below(const struct attention_rows *r, int64_t end) {
  if (end <= r->first) return 0;
  const int64_t distance = end - r->first;
  return least(r->count, distance / r->stride * r->run + least(distance % r->stride, r->run));
}

/* The keys of blocks: columns of those before the tile, its own, columns of those behind it. */
static int keys_of_blocks(const struct attention_pattern *p, bool causal, const struct attention_rows *places,
                          int64_t end, struct attention_rows keys[ATTENTION_RUNS]) {
  const int64_t block = p->block, last = places->first + places->count - 1, first = places->first / block,
                behind = last / block + 1, column = block - p->columns;
  const struct attention_rows all[] = {
      {column, block, p->columns, 0, first * p->columns},
      {first * block, 1, 1, 0, (causal ? last + 1 : behind * block) - first * block},
      {behind * block + column, block, p->columns, 0,
       causal ? 0 : most(0, up(end, block) - behind) * p->columns}};
  int count = 0;
  for (int i = 0; i < ATTENTION_RUNS; i++) {
    keys[count] = all[i];
    keys[count].count = count_below(&all[i], end);
    count += keys[count].count > 0;
  }
  return count;
}

int attention_keys(const struct attention_pattern *p, bool causal, const struct attention_rows *places,
                   int64_t begin, int64_t end, struct attention_rows keys[ATTENTION_RUNS]) {
  if (p->block > 0) return keys_of_blocks(p, causal, places, end, keys);
  const int64_t step = step_of(p), phase = step > 1 ? places->first % step : 0,
                at = (places->first - phase) / step, last = at + places->count - 1;
  int64_t first = up(begin - phase, step), behind = up(end - phase, step);
  if (p->reach > 0) {
    first = most(first, at - attention_reach(p) + 1);
    behind = least(behind, last + attention_reach(p));
  }
  if (causal) behind = least(behind, last + 1);
  keys[0] = (struct attention_rows){phase + first * step, step, 1, 0, behind - first};
  return behind > first;
}

double attention_pairs(const struct attention_pattern *p, bool causal, int64_t queries, int64_t keys) {
  double pairs = 0;
  for (int64_t i = 0; i < queries; i++) {
    const struct attention_rows place = {i + keys - queries, step_of(p), 1, 0, 1};
    struct attention_rows seen[ATTENTION_RUNS];
    for (int n = attention_keys(p, causal, &place, 0, keys, seen); n > 0; n--)
      pairs += (double)seen[n - 1].count;
  }
  return pairs;
}
