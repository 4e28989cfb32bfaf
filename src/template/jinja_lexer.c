#include "template/jinja_lexer.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "template/jinja_text.h"
#include "text/utf8.h"

struct lexer {
  struct jinja_run *run;
  struct jinja_tokens *tokens;
  const char *source; /* its line ends are \n; a 0 follows it */
  size_t length, at;
  size_t counted; /* the place of run->line and run->column */
  char open[JINJA_DEPTH];
  int open_count; /* brackets that are open in a tag */
};

/* Moves the place of messages to a byte of the source. */
static void place(struct lexer *l, size_t at) {
  if (at < l->counted) {
    l->counted = 0;
    l->run->line = l->run->column = 1;
  }
  for (; l->counted < at; l->counted++) {
    l->run->column++;
    if (l->source[l->counted] == '\n') l->run->line++, l->run->column = 1;
  }
}

static neap_status bad(struct lexer *l, size_t at, const char *what) {
  place(l, at);
  return JINJA_FAIL(l->run, NEAP_INVALID_ARGUMENT, "%s", what);
}

static neap_status add(struct lexer *l, enum jinja_token_type type, size_t at, const char *text,
                       struct jinja_value value) {
  place(l, at);
  return vector_push(&l->tokens->list, (struct jinja_token){type, l->run->line, l->run->column, text, value});
}

static neap_status copy(struct lexer *l, size_t begin, size_t end, char **out) {
  TRY(jinja_alloc(l->run, end - begin + 1, 1, out));
  memcpy(*out, l->source + begin, end - begin);
  return NEAP_OK;
}

/* Copies the source with \n for every line end, and without the last. */
static neap_status normalise(struct lexer *l, const char *source, size_t length) {
  char *text;
  TRY(jinja_alloc(l->run, length + 1, 1, &text));
  l->source = text;
  for (size_t i = 0; i < length; i++) {
    text[l->length++] = source[i] == '\r' ? '\n' : source[i];
    if (source[i] == '\r' && i + 1 < length && source[i + 1] == '\n') i++;
  }
  if (l->length > 0 && text[l->length - 1] == '\n') text[--l->length] = '\0';
  return NEAP_OK;
}

static bool is_at(const struct lexer *l, size_t at, const char *text) {
  const size_t length = strlen(text);
  return l->length - at >= length && memcmp(l->source + at, text, length) == 0;
}

static size_t skip_space(const struct lexer *l, size_t at) {
  return at + jinja_space_at_begin(l->source + at, l->length - at);
}

/* ---- Literals ---- */

/* Reads `digits` digits of base 16. */
static bool read_code(const char *at, const char *end, int digits, uint32_t *code) {
  *code = 0;
  if (end - at < digits) return false;
  for (int i = 0; i < digits; i++) {
    if (!isxdigit((unsigned char)at[i])) return false;
    *code = *code * 16 + (uint32_t)(isdigit((unsigned char)at[i]) ? at[i] - '0' : (at[i] | 32) - 'a' + 10);
  }
  return true;
}

/* Appends what a backslash and what follows it stand for in Python; gives the bytes that follow. */
static neap_status put_escape(struct lexer *l, struct jinja_builder *b, const char *at, const char *end,
                              size_t *used) {
  static const char letters[] = "abfnrtv'\"\\", meant[] = "\a\b\f\n\r\t\v'\"\\";
  char text[UTF8_MAX_BYTES];
  uint32_t code = 0;
  const char *found = *at != '\0' ? strchr(letters, *at) : NULL;
  *used = 1;
  if (found != NULL) return jinja_put(b, &meant[found - letters], 1);
  if (*at == '\n') return NEAP_OK;
  if (*at >= '0' && *at <= '7') {
    for (*used = 0; *used < 3 && at + *used < end && at[*used] >= '0' && at[*used] <= '7'; ++*used)
      code = code * 8 + (uint32_t)(at[*used] - '0');
    return jinja_put(b, text, (size_t)utf8_write(code, text));
  }
  const int digits = *at == 'x' ? 2 : *at == 'u' ? 4 : *at == 'U' ? 8 : 0;
  if (*at == 'N' || (digits > 0 && read_code(at + 1, end, digits, &code) && !utf8_is_code_point(code))) {
    place(l, (size_t)(l->at));
    return JINJA_FAIL(l->run, NEAP_UNSUPPORTED, "the escape \\%c in this string is not supported", *at);
  }
  if (digits == 0) { /* Python keeps what it does not know */
    TRY(jinja_put(b, "\\", 1));
    *used = 0;
    return NEAP_OK;
  }
  if (!read_code(at + 1, end, digits, &code))
    return bad(l, l->at, "an escape in this string is not complete");
  *used = 1 + (size_t)digits;
  return jinja_put(b, text, (size_t)utf8_write(code, text));
}

static neap_status lex_string(struct lexer *l) {
  struct jinja_builder b = {.run = l->run};
  struct jinja_value value;
  const char quote = l->source[l->at], *at = l->source + l->at + 1, *end = at;
  const char *const last = l->source + l->length;
  while (end < last && *end != quote) end += *end == '\\' && end + 1 < last ? 2 : 1;
  if (end >= last) return bad(l, l->at, "this string does not end");
  while (at < end) {
    size_t used;
    const char *slash = memchr(at, '\\', (size_t)(end - at));
    TRY(jinja_put(&b, at, (size_t)((slash != NULL ? slash : end) - at)));
    if (slash == NULL) break;
    TRY(put_escape(l, &b, slash + 1, end, &used));
    at = slash + 1 + used;
  }
  TRY(jinja_built(&b, &value));
  TRY(add(l, JINJA_LITERAL_TOKEN, l->at, NULL, value));
  l->at = (size_t)(end + 1 - l->source);
  return NEAP_OK;
}

/* Passes over digits with single underscores between them. */
static size_t skip_digits(const struct lexer *l, size_t at) {
  while (isdigit((unsigned char)l->source[at])) {
    at++;
    if (l->source[at] == '_' && isdigit((unsigned char)l->source[at + 1])) at++;
  }
  return at;
}

static neap_status lex_number(struct lexer *l) {
  char text[64];
  size_t end = skip_digits(l, l->at), count = 0;
  bool real = false;
  const char *const s = l->source;
  if (s[l->at] == '0' && s[l->at + 1] != '\0' && strchr("xXoObB", s[l->at + 1]) != NULL) {
    place(l, l->at);
    return JINJA_FAIL(l->run, NEAP_UNSUPPORTED, "numbers of other bases are not supported");
  }
  if (s[end] == '.' && isdigit((unsigned char)s[end + 1])) end = skip_digits(l, end + 1), real = true;
  if (s[end] == 'e' || s[end] == 'E') {
    const size_t sign = end + 1 + (s[end + 1] == '+' || s[end + 1] == '-');
    if (isdigit((unsigned char)s[sign])) end = skip_digits(l, sign), real = true;
  }
  for (size_t i = l->at; i < end && count < sizeof text - 1; i++)
    if (s[i] != '_') text[count++] = s[i];
  text[count] = '\0';
  if (!real && count > 1 && text[0] == '0' && strspn(text, "0") < count)
    return bad(l, l->at, "a number begins with 0");
  errno = 0;
  const struct jinja_value value =
      real ? jinja_float(strtod(text, NULL)) : jinja_int(strtoll(text, NULL, 10));
  if (count >= sizeof text - 1 || (!real && errno == ERANGE)) {
    place(l, l->at);
    return JINJA_FAIL(l->run, NEAP_UNSUPPORTED, "this number is larger than 64 bits hold");
  }
  TRY(add(l, JINJA_LITERAL_TOKEN, l->at, NULL, value));
  l->at = end;
  return NEAP_OK;
}

static neap_status lex_name(struct lexer *l) {
  char *text;
  size_t end = l->at;
  while (isalnum((unsigned char)l->source[end]) || l->source[end] == '_') end++;
  TRY(copy(l, l->at, end, &text));
  TRY(add(l, JINJA_NAME_TOKEN, l->at, text, jinja_none()));
  l->at = end;
  return NEAP_OK;
}

static neap_status lex_operator(struct lexer *l) {
  static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                          "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                          ">",  "<",  "=",  ".",  ":",  "|",  ",", ";", NULL};
  const char *const *o = operators;
  while (*o != NULL && !is_at(l, l->at, *o)) o++;
  if (*o == NULL) {
    place(l, l->at);
    const unsigned char c = (unsigned char)l->source[l->at];
    return JINJA_FAIL(
        l->run, c >= 0x80 ? NEAP_UNSUPPORTED : NEAP_INVALID_ARGUMENT,
        c > 0x20 && c < 0x7F ? "the character '%c' is not expected" : "this character is not expected", c);
  }
  const char *const opening = strchr("([{", **o), *const closing = strchr(")]}", **o);
  if (opening != NULL) {
    if (l->open_count == JINJA_DEPTH) {
      place(l, l->at);
      return JINJA_FAIL(l->run, NEAP_TOO_LARGE, "it goes deeper than %d levels", JINJA_DEPTH);
    }
    l->open[l->open_count++] = ")]}"[opening - "([{"];
  }
  if (closing != NULL && (l->open_count == 0 || l->open[--l->open_count] != **o))
    return bad(l, l->at, "this bracket closes none");
  TRY(add(l, JINJA_OPERATOR_TOKEN, l->at, *o, jinja_none()));
  l->at += strlen(*o);
  return NEAP_OK;
}

/* ---- Tags ---- */

/* Passes over the end of a tag at the place, if there is one: `close` is "%}", "}}" or "#}". */
static bool skip_end(struct lexer *l, const char *close) {
  const bool block = close[0] != '}';
  const char sign = l->source[l->at];
  const size_t begin = l->at + (sign == '-' || (block && sign == '+'));
  if (!is_at(l, begin, close)) return false;
  l->at = begin + 2;
  if (sign == '-')
    l->at = skip_space(l, l->at);
  else if (block && sign != '+' && l->source[l->at] == '\n')
    l->at++;
  return true;
}

/* Reads a tag from behind its beginning to its end. */
static neap_status lex_tag(struct lexer *l, bool output) {
  const size_t begin = l->at;
  const char *const close = output ? "}}" : "%}";
  TRY(add(l, output ? JINJA_OUTPUT_BEGIN : JINJA_BLOCK_BEGIN, begin - 2, NULL, jinja_none()));
  l->open_count = 0;
  for (;;) {
    const size_t at = l->at;
    if (l->open_count == 0 && skip_end(l, close))
      return add(l, output ? JINJA_OUTPUT_END : JINJA_BLOCK_END, at, NULL, jinja_none());
    l->at = skip_space(l, l->at);
    if (l->at > at) continue;
    if (at >= l->length) return bad(l, begin - 2, "this tag does not end");
    const unsigned char c = (unsigned char)l->source[at];
    if (c == '\'' || c == '"')
      TRY(lex_string(l));
    else if (isdigit(c))
      TRY(lex_number(l));
    else if (isalpha(c) || c == '_')
      TRY(lex_name(l));
    else
      TRY(lex_operator(l));
  }
}

/* Returns the next tag's place from `at` on, or the end. */
static size_t find_tag(const struct lexer *l, size_t at) {
  for (; at + 1 < l->length; at++)
    if (l->source[at] == '{' && strchr("{%#", l->source[at + 1]) != NULL && l->source[at + 1] != '\0')
      return at;
  return l->length;
}

/* Adds the text from `begin` to a tag at `end`, whose second character and sign decide what is cut from it.
 */
static neap_status add_text(struct lexer *l, size_t begin, size_t end) {
  char *text;
  struct jinja_value value;
  const size_t tag = end;
  if (tag < l->length) {
    const char kind = l->source[tag + 1], sign = l->source[tag + 2];
    if (sign == '-') {
      end -= jinja_space_at_end(l->source + begin, end - begin);
    } else if (sign != '+' && kind != '{') {
      size_t line = end;
      while (line > begin && l->source[line - 1] != '\n') line--;
      const bool starts = line > 0 ? l->source[line - 1] == '\n' : true;
      if (starts && line + jinja_space_at_begin(l->source + line, end - line) == end) end = line;
    }
  }
  if (end == begin) return NEAP_OK;
  TRY(copy(l, begin, end, &text));
  TRY(jinja_new_string(l->run, text, end - begin, JINJA_UNMARKED, &value));
  return add(l, JINJA_TEXT_TOKEN, begin, NULL, value);
}

/* Returns the place behind {% WORD %} and its signs if that is at `at`; 0: it is not. A block's end takes the
 * line feed behind it with it; that of raw does not. */
static size_t skip_word_tag(struct lexer *l, size_t at, const char *word, bool ends) {
  if (!is_at(l, at, "{%")) return 0;
  at += 2 + (l->source[at + 2] == '-' || l->source[at + 2] == '+');
  at = skip_space(l, at);
  if (!is_at(l, at, word)) return 0;
  at = skip_space(l, at + strlen(word));
  if (is_at(l, at, "-%}")) return skip_space(l, at + 3);
  if (ends && is_at(l, at, "+%}")) return at + 3;
  if (!is_at(l, at, "%}")) return 0;
  return at + 2 + (ends && l->source[at + 2] == '\n');
}

/* Adds what stands between raw and endraw. */
static neap_status lex_raw(struct lexer *l, size_t tag) {
  size_t end = l->at, after = 0;
  while (end < l->length && (after = skip_word_tag(l, end, "endraw", true)) == 0) end++;
  if (after == 0) return bad(l, tag, "this raw block does not end");
  TRY(add_text(l, l->at, end));
  l->at = after;
  return NEAP_OK;
}

static neap_status lex_comment(struct lexer *l, size_t tag) {
  for (; l->at < l->length; l->at++)
    if (skip_end(l, "#}")) return NEAP_OK;
  return bad(l, tag, "this comment does not end");
}

static neap_status lex_all(struct lexer *l) {
  while (l->at < l->length) {
    const size_t tag = find_tag(l, l->at);
    TRY(add_text(l, l->at, tag));
    l->at = tag;
    if (tag == l->length) break;
    const size_t raw = skip_word_tag(l, tag, "raw", false);
    const char kind = l->source[tag + 1];
    l->at = tag + 2 + (l->source[tag + 2] == '-' || l->source[tag + 2] == '+');
    if (raw > 0) {
      l->at = raw;
      TRY(lex_raw(l, tag));
    } else if (kind == '#') {
      TRY(lex_comment(l, tag));
    } else {
      TRY(lex_tag(l, kind == '{'));
    }
  }
  return add(l, JINJA_END_TOKEN, l->length, NULL, jinja_none());
}

neap_status jinja_lex(struct jinja_run *run, const char *source, size_t length, struct jinja_tokens *tokens) {
  struct lexer l = {.run = run, .tokens = tokens};
  const struct text text = {.bytes = source, .length = length, .name = run->name};
  run->line = run->column = 1;
  TRY(utf8_check(&text));
  TRY(normalise(&l, source, length));
  return lex_all(&l);
}
