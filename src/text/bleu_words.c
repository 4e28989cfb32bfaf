#include "text/bleu_words.h"

#include <string.h>

#include "base/vector.h"
#include "text/utf8.h"

/* ---- White space ---- */

static bool is_white_space(uint32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

size_t bleu_word(const char *bytes, size_t length, size_t *at) {
  bool inside = false;
  size_t first = *at;
  for (size_t end = *at, size;; end += size) {
    uint32_t code = ' ';
    size = end < length ? (size_t)utf8_decode(bytes + end, length - end, &code) : 0;
    const bool white = is_white_space(code);
    if (white && inside) {
      *at = first;
      return end - first;
    }
    if (size == 0) return 0;
    if (!white && !inside) inside = true, first = end;
  }
}

/* Returns the length without white space at the end. */
static size_t stripped(const char *bytes, size_t length) {
  size_t end = 0;
  for (size_t at = 0, word; (word = bleu_word(bytes, length, &at)) > 0; at = end) end = at + word;
  return end;
}

/* ---- 13a ---- */

static neap_status append(struct characters *out, const char *bytes, size_t length) {
  TRY(vector_reserve(out, out->count + length));
  if (length > 0) memcpy(out->data + out->count, bytes, length);
  out->count += length;
  return NEAP_OK;
}

static void swap(struct characters *a, struct characters *b) {
  const struct characters kept = *a;
  *a = *b;
  *b = kept;
}

/* Replaces every `from` by `to`, left to right. */
static neap_status replace(struct characters *text, struct characters *spare, const char *from,
                           const char *to) {
  const size_t length = strlen(from);
  spare->count = 0;
  for (size_t at = 0; at < text->count;) {
    const bool here = text->count - at >= length && memcmp(text->data + at, from, length) == 0;
    TRY(here ? append(spare, to, strlen(to)) : append(spare, text->data + at, 1));
    at += here ? length : 1;
  }
  swap(text, spare);
  return NEAP_OK;
}

/* Returns true for ASCII punctuation except ' , - . which have rules below. */
static bool is_apart(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
         (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_no_digit(char c) { return !is_digit(c); }
static bool is_point(char c) { return c == '.' || c == ','; }
static bool is_dash(char c) { return c == '-'; }

static neap_status set_apart(struct characters *text, struct characters *spare) {
  spare->count = 0;
  for (size_t at = 0; at < text->count; at++) {
    const char c = text->data[at], blanks[] = {' ', c, ' '};
    TRY(is_apart(c) ? append(spare, blanks, sizeof blanks) : append(spare, &c, 1));
  }
  swap(text, spare);
  return NEAP_OK;
}

/* A rule for two characters in a row: blanks go before, between or after them. Each character is in at most
 * one pair, left to right. For a character beyond ASCII that is the byte next to the point. */
struct rule {
  bool (*left)(char), (*right)(char);
  const char *before, *behind; /* and a blank between */
};

static const struct rule rules[] = {
    {is_no_digit, is_point, "", " "}, /* a point is a word unless a digit stands before, */
    {is_point, is_no_digit, " ", ""}, /* or behind it */
    {is_digit, is_dash, "", " "},     /* so is a dash behind a digit */
};

static neap_status apply(const struct rule *rule, struct characters *text, struct characters *spare) {
  spare->count = 0;
  for (size_t at = 0; at < text->count;) {
    const char *c = text->data + at;
    if (at + 1 == text->count || !rule->left(c[0]) || !rule->right(c[1])) {
      TRY(append(spare, c, 1));
      at++;
      continue;
    }
    TRY(append(spare, rule->before, strlen(rule->before)));
    TRY(append(spare, (const char[]){c[0], ' ', c[1]}, 3));
    TRY(append(spare, rule->behind, strlen(rule->behind)));
    at += 2;
  }
  swap(text, spare);
  return NEAP_OK;
}

neap_status bleu_split_13a(const char *bytes, size_t length, struct characters *out,
                           struct characters *spare) {
  static const struct {
    const char *from, *to;
  } replaced[] = {{"<skipped>", ""}, {"-\n", ""},   {"\n", " "},  {"&quot;", "\""},
                  {"&amp;", "&"},    {"&lt;", "<"}, {"&gt;", ">"}};
  out->count = 0;
  TRY(append(out, bytes, stripped(bytes, length)));
  for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++)
    TRY(replace(out, spare, replaced[i].from, replaced[i].to));
  /* The rules want a neighbour at both ends. */
  spare->count = 0;
  TRY(append(spare, " ", 1));
  TRY(append(spare, out->data, out->count));
  TRY(append(spare, " ", 1));
  swap(out, spare);
  TRY(set_apart(out, spare));
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) TRY(apply(&rules[i], out, spare));
  return NEAP_OK;
}
