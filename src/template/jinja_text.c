#include "template/jinja_text.h"

#include <string.h>

#include "text/utf8.h"

/* ---- White space and sets ---- */

static bool is_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

/* Returns the bytes of the first or the last character; 0 at an end. */
static size_t first_character(const char *bytes, size_t length, uint32_t *code) {
  return length > 0 ? (size_t)utf8_decode(bytes, length, code) : 0;
}

static size_t last_character(const char *bytes, size_t length, uint32_t *code) {
  size_t at = length;
  if (length == 0) return 0;
  do at--;
  while (at > 0 && ((unsigned char)bytes[at] & 0xC0) == 0x80);
  utf8_decode(bytes + at, length - at, code);
  return length - at;
}

static bool contains(const struct jinja_string *set, uint32_t code) {
  uint32_t other;
  if (set == NULL) return is_space(code);
  for (size_t at = 0; at < set->length; at += first_character(set->bytes + at, set->length - at, &other)) {
    first_character(set->bytes + at, set->length - at, &other);
    if (other == code) return true;
  }
  return false;
}

static size_t set_at_begin(const struct jinja_string *set, const char *bytes, size_t length) {
  size_t at = 0, step;
  uint32_t code;
  while ((step = first_character(bytes + at, length - at, &code)) > 0 && contains(set, code)) at += step;
  return at;
}

static size_t set_at_end(const struct jinja_string *set, const char *bytes, size_t length) {
  size_t end = length, step;
  uint32_t code;
  while ((step = last_character(bytes, end, &code)) > 0 && contains(set, code)) end -= step;
  return length - end;
}

size_t jinja_space_at_begin(const char *bytes, size_t length) { return set_at_begin(NULL, bytes, length); }

size_t jinja_space_at_end(const char *bytes, size_t length) { return set_at_end(NULL, bytes, length); }

/* ---- Parts ---- */

neap_status jinja_part(struct jinja_run *run, const struct jinja_string *s, size_t begin, size_t end,
                       struct jinja_value *out) {
  struct jinja_builder b = {.run = run};
  if (begin == 0 && end == s->length) {
    *out = (struct jinja_value){.kind = JINJA_STRING, .string = s};
    return NEAP_OK;
  }
  if (s->mark_count == 0) return jinja_new_string(run, s->bytes + begin, end - begin, JINJA_UNMARKED, out);
  TRY(jinja_put_part(&b, s, begin, end));
  return jinja_built(&b, out);
}

neap_status jinja_strip(struct jinja_run *run, const struct jinja_string *s, const struct jinja_string *set,
                        int sides, struct jinja_value *out) {
  const size_t begin = sides & JINJA_LEFT ? set_at_begin(set, s->bytes, s->length) : 0;
  const size_t end =
      s->length - (sides & JINJA_RIGHT ? set_at_end(set, s->bytes + begin, s->length - begin) : 0);
  return jinja_part(run, s, begin, end, out);
}

static size_t find_from(const struct jinja_string *s, const struct jinja_string *part, size_t from) {
  if (part->length > s->length) return SIZE_MAX;
  for (size_t at = from; at <= s->length - part->length; at++) {
    if (part->length == 0) return at;
    const char *first = memchr(s->bytes + at, part->bytes[0], s->length - part->length - at + 1);
    if (first == NULL) return SIZE_MAX;
    at = (size_t)(first - s->bytes);
    if (memcmp(first, part->bytes, part->length) == 0) return at;
  }
  return SIZE_MAX;
}

static size_t find_before(const struct jinja_string *s, const struct jinja_string *part, size_t end) {
  if (part->length > end) return SIZE_MAX;
  for (size_t at = end - part->length + 1; at-- > 0;)
    if (memcmp(s->bytes + at, part->bytes, part->length) == 0) return at;
  return SIZE_MAX;
}

size_t jinja_find(const struct jinja_string *s, const struct jinja_string *part, int side) {
  return side == JINJA_LEFT ? find_from(s, part, 0) : find_before(s, part, s->length);
}

int64_t jinja_occurrences(const struct jinja_string *s, const struct jinja_string *part) {
  int64_t count = 0;
  if (part->length == 0) return jinja_length(s) + 1;
  for (size_t at = 0; (at = find_from(s, part, at)) != SIZE_MAX; at += part->length) count++;
  return count;
}

int64_t jinja_length(const struct jinja_string *s) {
  int64_t count = 0;
  for (size_t i = 0; i < s->length; i++) count += ((unsigned char)s->bytes[i] & 0xC0) != 0x80;
  return count;
}

size_t jinja_offset(const struct jinja_string *s, int64_t index) {
  size_t at = 0;
  for (; at < s->length; at++)
    if (((unsigned char)s->bytes[at] & 0xC0) != 0x80 && index-- == 0) break;
  return at;
}

neap_status jinja_characters(struct jinja_run *run, const struct jinja_string *s, struct jinja_value *out) {
  uint32_t code;
  TRY(jinja_new_list(run, JINJA_IN_LIST, (size_t)jinja_length(s), out));
  for (size_t at = 0, i = 0; at < s->length; i++) {
    const size_t step = first_character(s->bytes + at, s->length - at, &code);
    TRY(jinja_part(run, s, at, at + step, &out->list->items[i]));
    at += step;
  }
  return NEAP_OK;
}

/* ---- Splitting ---- */

struct parts {
  struct jinja_run *run;
  const struct jinja_string *s;
  struct jinja_value list;
  size_t room;
};

static neap_status add_part(struct parts *p, size_t begin, size_t end) {
  struct jinja_list *list = p->list.list;
  if (list->count == p->room) {
    struct jinja_value *more;
    p->room = p->room > 0 ? 2 * p->room : 4;
    TRY(jinja_alloc(p->run, p->room, sizeof *more, &more));
    if (list->count > 0) memcpy(more, list->items, list->count * sizeof *more);
    list->items = more;
  }
  return jinja_part(p->run, p->s, begin, end, &list->items[list->count++]);
}

static neap_status split_at(struct parts *p, const struct jinja_string *at, int64_t most, int side) {
  size_t begin = 0, end = p->s->length, found;
  if (side == JINJA_LEFT) {
    while (most-- != 0 && (found = find_from(p->s, at, begin)) != SIZE_MAX) {
      TRY(add_part(p, begin, found));
      begin = found + at->length;
    }
    return add_part(p, begin, end);
  }
  while (most-- != 0 && (found = find_before(p->s, at, end)) != SIZE_MAX) {
    TRY(add_part(p, found + at->length, end));
    end = found;
  }
  return add_part(p, 0, end);
}

static neap_status split_at_space(struct parts *p, int64_t most, int side) {
  const struct jinja_string *s = p->s;
  size_t begin = 0, end = s->length;
  for (;;) {
    uint32_t code;
    size_t step;
    if (side == JINJA_LEFT)
      begin += jinja_space_at_begin(s->bytes + begin, end - begin);
    else
      end -= jinja_space_at_end(s->bytes, end);
    if (begin == end) return NEAP_OK;
    if (most-- == 0) break;
    size_t low = begin, high = end;
    if (side == JINJA_LEFT) {
      for (high = begin; (step = first_character(s->bytes + high, end - high, &code)) > 0 && !is_space(code);)
        high += step;
    } else {
      for (low = end; (step = last_character(s->bytes, low, &code)) > 0 && !is_space(code);) low -= step;
    }
    TRY(add_part(p, low, high));
    if (side == JINJA_LEFT)
      begin = high;
    else
      end = low;
  }
  return add_part(p, begin, end);
}

static void reverse(struct jinja_list *list) {
  for (size_t i = 0; i < list->count / 2; i++) {
    const struct jinja_value kept = list->items[i];
    list->items[i] = list->items[list->count - 1 - i];
    list->items[list->count - 1 - i] = kept;
  }
}

neap_status jinja_split(struct jinja_run *run, const struct jinja_string *s, const struct jinja_string *at,
                        int64_t most, int side, struct jinja_value *out) {
  struct parts p = {.run = run, .s = s};
  if (at != NULL && at->length == 0)
    return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "a text is split at an empty text");
  TRY(jinja_new_list(run, JINJA_IN_LIST, 0, &p.list));
  TRY(at != NULL ? split_at(&p, at, most, side) : split_at_space(&p, most, side));
  if (side == JINJA_RIGHT) reverse(p.list.list);
  *out = p.list;
  return NEAP_OK;
}

static bool ends_line(uint32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

neap_status jinja_split_lines(struct jinja_run *run, const struct jinja_string *s, struct jinja_value *out) {
  struct parts p = {.run = run, .s = s};
  size_t begin = 0;
  uint32_t code;
  TRY(jinja_new_list(run, JINJA_IN_LIST, 0, &p.list));
  for (size_t at = 0; at < s->length;) {
    const size_t end = at;
    at += first_character(s->bytes + at, s->length - at, &code);
    if (!ends_line(code)) continue;
    if (code == '\r' && at < s->length && s->bytes[at] == '\n') at++;
    TRY(add_part(&p, begin, end));
    begin = at;
  }
  if (begin < s->length) TRY(add_part(&p, begin, s->length));
  *out = p.list;
  return NEAP_OK;
}

/* ---- Making new ones ---- */

neap_status jinja_replace(struct jinja_run *run, const struct jinja_string *s, const struct jinja_string *old,
                          const struct jinja_string *new, int64_t most, struct jinja_value *out) {
  struct jinja_builder b = {.run = run};
  size_t at = 0, found;
  uint32_t code;
  while (most-- != 0 && (found = find_from(s, old, at)) != SIZE_MAX) {
    TRY(jinja_put_part(&b, s, at, found));
    TRY(old->length > 0 && new->mark_count == 0
            ? jinja_put_changed(&b, s, found, found + old->length, new->bytes, new->length)
            : jinja_put_string(&b, new));
    at = found + old->length;
    if (old->length > 0) continue;
    const size_t step = first_character(s->bytes + at, s->length - at, &code);
    TRY(jinja_put_part(&b, s, at, at + step));
    at += step;
    if (step == 0) return jinja_built(&b, out);
  }
  TRY(jinja_put_part(&b, s, at, s->length));
  return jinja_built(&b, out);
}

neap_status jinja_join(struct jinja_run *run, const struct jinja_string *between,
                       const struct jinja_list *list, struct jinja_value *out) {
  struct jinja_builder b = {.run = run};
  for (size_t i = list->at; i < list->count; i++) {
    if (i > list->at) TRY(jinja_put_string(&b, between));
    TRY(jinja_print(&b, list->items[i]));
  }
  return jinja_built(&b, out);
}

neap_status jinja_repeat(struct jinja_run *run, const struct jinja_string *s, int64_t times,
                         struct jinja_value *out) {
  struct jinja_builder b = {.run = run};
  for (int64_t i = 0; i < times && s->length > 0; i++) TRY(jinja_put_string(&b, s));
  return jinja_built(&b, out);
}

neap_status jinja_indent(struct jinja_run *run, const struct jinja_string *s, const struct jinja_string *by,
                         bool first, bool blank, struct jinja_value *out) {
  struct jinja_builder b = {.run = run};
  struct jinja_value with_end, lines;
  TRY(jinja_put_string(&b, s));
  TRY(jinja_put(&b, "\n", 1));
  TRY(jinja_built(&b, &with_end));
  TRY(jinja_split_lines(run, with_end.string, &lines));
  b = (struct jinja_builder){.run = run};
  if (first) TRY(jinja_put_string(&b, by));
  for (size_t i = 0; i < lines.list->count; i++) {
    const struct jinja_string *line = lines.list->items[i].string;
    if (i > 0) TRY(jinja_put(&b, "\n", 1));
    if (i > 0 && (blank || line->length > 0)) TRY(jinja_put_string(&b, by));
    TRY(jinja_put_string(&b, line));
  }
  return jinja_built(&b, out);
}

/* ---- Case ---- */

/* Tests for characters of scripts without cases. */
static bool has_no_case(uint32_t c) {
  return (c >= 0x80 && c < 0xC0 && c != 0xAA && c != 0xB5 && c != 0xBA) || c == 0xD7 || c == 0xF7 ||
         (c >= 0x0590 && c < 0x0E80) || (c >= 0x2000 && c < 0x2070) || (c >= 0x20A0 && c < 0x20C0) ||
         (c >= 0x2E80 && c < 0xA4D0) || (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0x1F300 && c < 0x1FB00);
}

/* Gives a character in another case; false: it is not known here. */
static bool in_case(uint32_t c, bool upper, uint32_t *out) {
  *out = c;
  if (c < 0x80) {
    if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z') *out = c ^ 32;
    return true;
  }
  if (has_no_case(c)) return true;
  if (c == 0xDF || c == 0xFF) return !upper;
  if (c >= 0xC0 && c < 0xFF) {
    *out = upper ? c & ~32U : c | 32U;
    return true;
  }
  if (c < 0x400 || c >= 0x460) return false;
  const bool small = c >= 0x430;
  const uint32_t between = c < 0x410 || c >= 0x450 ? 80 : 32;
  if (small == upper) *out = upper ? c - between : c + between;
  return true;
}

/* Tests for characters behind which a word begins, for the filter and for the method. */
static bool is_between_words(uint32_t c, bool filter) {
  if (filter) return is_space(c) || (c < 128 && c != 0 && strchr("-({[<", (int)c) != NULL);
  return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'));
}

neap_status jinja_change_case(struct jinja_run *run, const struct jinja_string *s, enum jinja_case to,
                              bool filter, struct jinja_value *out) {
  struct jinja_builder b = {.run = run};
  bool first = true;
  for (size_t at = 0; at < s->length;) {
    char text[UTF8_MAX_BYTES];
    uint32_t code, changed;
    const size_t step = first_character(s->bytes + at, s->length - at, &code);
    const bool upper = to == JINJA_UPPER || (to >= JINJA_TITLE && first);
    /* Refuses characters whose other case is not known; str.title() and str.capitalize() use another table of
     * letters. */
    if (!in_case(code, upper, &changed) || (code >= 0x80 && to == JINJA_TITLE && !filter))
      return JINJA_FAIL(run, NEAP_UNSUPPORTED, "the other case of the character U+%04X is not known",
                        (unsigned)code);
    TRY(jinja_put_changed(&b, s, at, at + step, text, (size_t)utf8_write(changed, text)));
    first = to == JINJA_TITLE && is_between_words(code, filter);
    at += step;
  }
  if (s->length == 0) TRY(jinja_put_string(&b, s));
  return jinja_built(&b, out);
}
