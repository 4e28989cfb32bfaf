#include "base/attention_pattern.h"

#include <stddef.h>
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

static const char global[] = "global=";
enum { GLOBAL = sizeof global - 1 };

static bool begins(struct part part, const char *text, size_t length) {
  return length <= part.length && strncmp(part.text, text, length) == 0;
}

static bool is(struct part part, const char *text) {
  return part.length == strlen(text) && begins(part, text, part.length);
}

static int shown(struct part part) { return (int)(part.length < SHOWN ? part.length : SHOWN); }

static neap_status refuse(struct part part) {
  return neap_fail(
      NEAP_INVALID_ARGUMENT,
      "attention '%.*s': is no pattern; give dense, window:W, strided:L, fixed:L,C (C at most L) "
      "or dilated:W,G, with numbers from 1 to %d, each with ,global=N or ,global=first behind it where "
      "tokens "
      "are global, or several in brackets, [P;P], for the heads",
      shown(part), part.text, NUMBER_LIMIT);
}

/* Reads a number of [least, NUMBER_LIMIT] from the front of a text. */
static bool take_number(struct part *text, unsigned least, int64_t *number) {
  unsigned long long read = 0;
  size_t digits = 0;
  for (; digits < text->length && text->text[digits] >= '0' && text->text[digits] <= '9'; digits++)
    if (read <= NUMBER_LIMIT) read = 10 * read + (unsigned long long)(text->text[digits] - '0');
  *text = (struct part){text->text + digits, text->length - digits};
  *number = (int64_t)read;
  return digits > 0 && read >= least && read <= NUMBER_LIMIT;
}

/* Cuts global tokens off the end of a pattern, with the comma between the two. */
static neap_status take_global(struct part *part, struct attention_pattern *p) {
  const struct part whole = *part;
  struct part tokens = {whole.text, 0};
  for (size_t i = 0; i + GLOBAL <= whole.length && tokens.length == 0; i++)
    if (strncmp(whole.text + i, global, GLOBAL) == 0)
      tokens = (struct part){whole.text + i, whole.length - i};
  if (tokens.length == 0) return NEAP_OK;
  part->length = (size_t)(tokens.text - whole.text);
  if (part->length == 1 || (part->length > 1 && part->text[--part->length] != ',')) return refuse(whole);
  tokens = (struct part){tokens.text + GLOBAL, tokens.length - GLOBAL};
  RETURN_IF(
      is(tokens, "tokens"), NEAP_UNSUPPORTED,
      "attention '%.*s': no source of data marks tokens as global; give global=first, or global=N for the "
      "first N",
      shown(whole), whole.text);
  p->global = 1;
  if (is(tokens, "first")) return NEAP_OK;
  return take_number(&tokens, 0, &p->global) && tokens.length == 0 ? NEAP_OK : refuse(whole);
}

static neap_status read_pattern(struct part part, int64_t window, struct attention_pattern *p) {
  struct part text = part;
  *p = (struct attention_pattern){0};
  TRY(take_global(&text, p));
  if (text.length == 0 && part.length > 0) {
    p->reach = window;
    return NEAP_OK;
  }
  for (int i = 0; i < WORDS; i++) {
    const struct word *word = &words[i];
    const size_t length = strlen(word->name);
    if (!begins(text, word->name, length)) continue;
    text = (struct part){text.text + length, text.length - length};
    for (int n = 0; n < word->numbers; n++) {
      if (!begins(text, n == 0 ? ":" : ",", 1)) return refuse(part);
      text = (struct part){text.text + 1, text.length - 1};
      if (!take_number(&text, 1, (int64_t *)(void *)((char *)p + word->member[n]))) return refuse(part);
    }
    return text.length == 0 && p->columns <= p->block ? NEAP_OK : refuse(part);
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

static neap_status read_entry(struct part entry, int64_t window, struct attention_heads *heads) {
  const bool several = entry.length > 1 && entry.text[0] == '[' && entry.text[entry.length - 1] == ']';
  const char *at = entry.text + several, *end = entry.text + entry.length - several;
  *heads = (struct attention_heads){0};
  for (bool more = true; more;) {
    RETURN_IF(heads->count == ATTENTION_PATTERNS, NEAP_INVALID_ARGUMENT,
              "attention '%.*s': has more than %d patterns in brackets; the heads take them in turn",
              shown(entry), entry.text, ATTENTION_PATTERNS);
    struct attention_pattern *p = &heads->of[heads->count++];
    TRY(read_pattern(next_part(&at, end), window, p));
    RETURN_IF(
        p->global != heads->of[0].global, NEAP_INVALID_ARGUMENT,
        "attention '%.*s': has heads with %lld and with %lld global tokens; they are those of all heads "
        "of a layer, so give each pattern the same",
        shown(entry), entry.text, (long long)heads->of[0].global, (long long)p->global);
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

neap_status attention_read(const char *list, int64_t layer, int64_t window, struct attention_heads *heads) {
  const char *at = list, *end = list + strlen(list);
  const int64_t count = attention_entries(list);
  for (int64_t i = 0; i < count; i++, at++) {
    struct attention_heads read;
    const struct part entry = next_part(&at, end);
    TRY(read_entry(entry, window, &read));
    if (i != layer % count) continue;
    RETURN_IF(window != 0 && !begins(entry, global, GLOBAL), NEAP_INVALID_ARGUMENT,
              "attention '%.*s': the layer has a window of %lld tokens, too; give one of them", shown(entry),
              entry.text, (long long)window);
    *heads = read;
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
                          int64_t begin, int64_t end, struct attention_rows *keys) {
  const int64_t block = p->block, last = places->first + places->count - 1, first = places->first / block,
                behind = last / block + 1, column = block - p->columns;
  const struct attention_rows all[] = {
      {column, block, p->columns, 0, first * p->columns},
      {first * block, 1, 1, 0, (causal ? last + 1 : behind * block) - first * block},
      {behind * block + column, block, p->columns, 0,
       causal ? 0 : most(0, up(end, block) - behind) * p->columns}};
  int count = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    keys[count] = all[i];
    keys[count].from = count_below(&all[i], begin);
    keys[count].count = count_below(&all[i], end) - keys[count].from;
    count += keys[count].count > 0;
  }
  return count;
}

static int keys_of_steps(const struct attention_pattern *p, bool causal, const struct attention_rows *places,
                         int64_t begin, int64_t end, struct attention_rows *keys) {
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

int attention_keys(const struct attention_pattern *p, bool causal, const struct attention_rows *places,
                   int64_t begin, int64_t end, struct attention_rows keys[ATTENTION_RUNS]) {
  int count = 0;
  if (p->global > 0) {
    const int64_t last = places->first + (places->count - 1) * places->stride,
                  behind = least(p->global, causal ? least(end, last + 1) : end);
    keys[0] = (struct attention_rows){begin, 1, 1, 0, behind - begin};
    count = behind > begin;
    begin = most(begin, p->global);
  }
  return count + (p->block > 0 ? keys_of_blocks : keys_of_steps)(p, causal, places, begin, end, keys + count);
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
