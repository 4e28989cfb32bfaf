#include "text/expression.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/vector.h"
#include "text/utf8.h"

struct expression {
  pcre2_code *code;
};

struct matcher {
  pcre2_match_data *data;
  pcre2_match_context *context;
  pcre2_jit_stack *stack;
};

/* The limit on the steps of a match: a constant and some for each byte of the text. */
enum { LEAST_STEPS = 1000000, STEPS_A_BYTE = 32, HEAP_KIB = 1 << 16 };
enum { JIT_STACK_LEAST = 1 << 15, JIT_STACK_MOST = 1 << 20 };

/* ---- From Oniguruma's syntax to PCRE2's ---- */

#define SPACE    "\\p{White_Space}"
#define NO_SPACE "\\P{White_Space}"
/* Oniguruma counts the fractions and raised digits of Latin-1 as word characters. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

/* Escapes with another meaning: outside of brackets, and inside (NULL: it cannot be written). */
static const struct {
  char letter;
  const char *outside, *within;
} escapes[] = {
    {'s', SPACE, SPACE},
    {'S', NO_SPACE, NO_SPACE},
    {'w', "[" WORD "]", WORD},
    {'W', "[^" WORD "]", NULL},
    {'b', "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))", "\\b"},
    {'B', "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))", NULL},
    {'h', "[0-9A-Fa-f]", "0-9A-Fa-f"},
    {'H', "[^0-9A-Fa-f]", NULL},
};

/* Long names of categories. */
static const char *const categories[][2] = {
    {"Letter", "L"},      {"Mark", "M"},   {"Number", "N"},
    {"Punctuation", "P"}, {"Symbol", "S"}, {"Separator", "Z"},
};

struct translation {
  const char *from;
  size_t length, at;
  VECTOR(char) to;
  bool within;       /* brackets */
  bool was_interval; /* the last thing was {n,m} */
};

static neap_status put(struct translation *t, const char *bytes, size_t length) {
  TRY(vector_reserve(&t->to, t->to.count + length));
  memcpy(t->to.data + t->to.count, bytes, length);
  t->to.count += length;
  return NEAP_OK;
}

static neap_status put_text(struct translation *t, const char *text) { return put(t, text, strlen(text)); }

static bool is_script(const char *name, size_t length) {
  char expression[64];
  int code;
  PCRE2_SIZE place;
  if (length > 40) return false;
  const int size = snprintf(expression, sizeof expression, "\\p{sc:%.*s}", (int)length, name);
  pcre2_code *compiled =
      pcre2_compile((PCRE2_SPTR)expression, (PCRE2_SIZE)size, PCRE2_UTF | PCRE2_UCP, &code, &place, NULL);
  pcre2_code_free(compiled);
  return compiled != NULL;
}

/* Writes \p{NAME}. A script is only the script, without the characters used with it that PCRE2 adds. */
static neap_status put_property(struct translation *t) {
  const char *name = t->from + t->at + 3;
  const char *end = memchr(name, '}', t->length - t->at - 3);
  RETURN_IF(end == NULL, NEAP_UNSUPPORTED, "\\p{ has no }");
  size_t length = (size_t)(end - name);
  TRY(put(t, t->from + t->at, 3));
  t->at += 4 + length;
  if (length > 0 && *name == '^') {
    TRY(put(t, name++, 1));
    length--;
  }
  for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
    if (strlen(categories[i][0]) == length && memcmp(categories[i][0], name, length) == 0) {
      TRY(put_text(t, categories[i][1]));
      return put_text(t, "}");
    }
  if (length > 2 && is_script(name, length)) TRY(put_text(t, "sc:"));
  TRY(put(t, name, length));
  return put_text(t, "}");
}

static neap_status put_escape(struct translation *t) {
  RETURN_IF(t->at + 1 == t->length, NEAP_UNSUPPORTED, "it ends in \\");
  const char letter = t->from[t->at + 1];
  if ((letter == 'p' || letter == 'P') && t->at + 2 < t->length && t->from[t->at + 2] == '{')
    return put_property(t);
  if (letter == 'u') {
    RETURN_IF(t->length - t->at < 6, NEAP_UNSUPPORTED, "\\u must be followed by four digits");
    TRY(put_text(t, "\\x{"));
    TRY(put(t, t->from + t->at + 2, 4));
    t->at += 6;
    return put_text(t, "}");
  }
  for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
    if (escapes[i].letter == letter) {
      const char *text = t->within ? escapes[i].within : escapes[i].outside;
      RETURN_IF(text == NULL, NEAP_UNSUPPORTED, "\\%c is not supported inside brackets", letter);
      t->at += 2;
      return put_text(t, text);
    }
  t->at += 2;
  return put(t, t->from + t->at - 2, 2);
}

/* Writes the flags of "(?im-x:" or "(?m)": m is PCRE2's s. Otherwise writes only "(". */
static neap_status put_group(struct translation *t) {
  size_t end = t->at + 1;
  if (end < t->length && t->from[end] == '?') end++;
  while (end < t->length && strchr("imx-", t->from[end]) != NULL && t->from[end] != '\0') end++;
  if (end == t->length || end < t->at + 3 || (t->from[end] != ':' && t->from[end] != ')')) end = t->at + 1;
  for (; t->at < end; t->at++) TRY(put(t, t->from[t->at] == 'm' ? "s" : t->from + t->at, 1));
  return NEAP_OK;
}

static neap_status put_within(struct translation *t) {
  const char c = t->from[t->at], next = t->at + 1 < t->length ? t->from[t->at + 1] : '\0';
  RETURN_IF(c == '[' && next != ':', NEAP_UNSUPPORTED, "brackets inside brackets are not supported");
  RETURN_IF(c == '&' && next == '&', NEAP_UNSUPPORTED, "&& inside brackets is not supported");
  if (c == '[') { /* [:alpha:] */
    const char *end = memchr(t->from + t->at, ']', t->length - t->at);
    const size_t length = end != NULL ? (size_t)(end - t->from) - t->at + 1 : 1;
    t->at += length;
    return put(t, t->from + t->at - length, length);
  }
  t->within = c != ']';
  t->at++;
  return put(t, &c, 1);
}

static neap_status put_bracket(struct translation *t) {
  const size_t start = t->at++;
  t->within = true;
  if (t->at < t->length && t->from[t->at] == '^') t->at++;
  if (t->at < t->length && t->from[t->at] == ']') t->at++;
  return put(t, t->from + start, t->at - start);
}

/* Writes {n}, {n,m}, {n,}, {,m}; other braces are themselves. */
static neap_status put_interval(struct translation *t, bool *interval) {
  size_t end = t->at + 1;
  while (end < t->length && ((t->from[end] >= '0' && t->from[end] <= '9') || t->from[end] == ',')) end++;
  *interval = end < t->length && end > t->at + 1 && t->from[end] == '}';
  if (!*interval) {
    t->at++;
    return put_text(t, "{");
  }
  TRY(put_text(t, t->from[t->at + 1] == ',' ? "{0" : "{"));
  TRY(put(t, t->from + t->at + 1, end - t->at));
  t->at = end + 1;
  return NEAP_OK;
}

static neap_status translate(struct translation *t) {
  while (t->at < t->length) {
    const char c = t->from[t->at];
    bool interval = false;
    RETURN_IF(t->was_interval && c == '+', NEAP_UNSUPPORTED, "+ after {n,m} is not supported");
    if (c == '\\')
      TRY(put_escape(t));
    else if (t->within)
      TRY(put_within(t));
    else if (c == '[')
      TRY(put_bracket(t));
    else if (c == '(')
      TRY(put_group(t));
    else if (c == '{')
      TRY(put_interval(t, &interval));
    else
      TRY(put(t, t->from + t->at++, 1));
    t->was_interval = interval;
  }
  return NEAP_OK;
}

/* ---- Compiling ---- */

static neap_status compile(const char *expression, size_t length, uint32_t flags, struct expression **out) {
  int code;
  PCRE2_SIZE place;
  PCRE2_UCHAR reason[160];
  struct expression *made = calloc(1, sizeof *made);
  RETURN_IF_NULL(made);
  made->code = pcre2_compile((PCRE2_SPTR)expression, length, PCRE2_UTF | flags, &code, &place, NULL);
  if (made->code != NULL) {
    pcre2_jit_compile(made->code, PCRE2_JIT_COMPLETE); /* where that fails it is interpreted */
    *out = made;
    return NEAP_OK;
  }
  free(made);
  pcre2_get_error_message(code, reason, sizeof reason);
  return neap_fail(code == PCRE2_ERROR_NOMEMORY ? NEAP_OUT_OF_MEMORY : NEAP_UNSUPPORTED, "%s (PCRE2)",
                   (const char *)reason);
}

neap_status expression_compile(const char *expression, size_t length, bool literal, struct expression **out) {
  const struct text text = {.bytes = expression, .length = length, .name = "pattern"};
  TRY(utf8_check(&text));
  if (literal) return compile(expression, length, PCRE2_LITERAL, out);
  struct translation t = {.from = expression, .length = length};
  neap_status status = translate(&t);
  if (status == NEAP_OK)
    status = compile(t.to.data != NULL ? t.to.data : "", t.to.count,
                     PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, out);
  vector_free(&t.to);
  return status;
}

void expression_free(struct expression *pattern) {
  if (pattern == NULL) return;
  pcre2_code_free(pattern->code);
  free(pattern);
}

/* ---- Finding ---- */

neap_status matcher_create(struct matcher **out) {
  struct matcher *made = calloc(1, sizeof *made);
  RETURN_IF_NULL(made);
  made->data = pcre2_match_data_create(1, NULL);
  made->context = pcre2_match_context_create(NULL);
  made->stack = pcre2_jit_stack_create(JIT_STACK_LEAST, JIT_STACK_MOST, NULL); /* may be missing */
  if (made->data == NULL || made->context == NULL) {
    matcher_free(made);
    return neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a search");
  }
  pcre2_set_heap_limit(made->context, HEAP_KIB);
  pcre2_jit_stack_assign(made->context, NULL, made->stack);
  *out = made;
  return NEAP_OK;
}

void matcher_free(struct matcher *matcher) {
  if (matcher == NULL) return;
  pcre2_match_data_free(matcher->data);
  pcre2_match_context_free(matcher->context);
  pcre2_jit_stack_free(matcher->stack);
  free(matcher);
}

/* Finds the next match from `walk->from` on, empty or not. */
static neap_status find(struct expression_walk *walk, size_t *start, size_t *end, bool *found) {
  struct matcher *m = walk->matcher;
  const size_t bytes = walk->length < UINT32_MAX / 64 ? walk->length : UINT32_MAX / 64;
  pcre2_set_match_limit(m->context, LEAST_STEPS + STEPS_A_BYTE * (uint32_t)bytes);
  const int code = pcre2_match(walk->pattern->code, (PCRE2_SPTR)walk->bytes, walk->length, walk->from,
                               PCRE2_NO_UTF_CHECK, m->data, m->context);
  *found = code >= 0;
  if (code == PCRE2_ERROR_NOMATCH) return NEAP_OK;
  if (code < 0) {
    PCRE2_UCHAR reason[160];
    pcre2_get_error_message(code, reason, sizeof reason);
    return neap_fail(code == PCRE2_ERROR_NOMEMORY ? NEAP_OUT_OF_MEMORY : NEAP_UNSUPPORTED,
                     "the search for the tokenizer's pattern in this text failed: %s (PCRE2)",
                     (char *)reason);
  }
  const PCRE2_SIZE *place = pcre2_get_ovector_pointer(m->data);
  *start = place[0];
  *end = place[1];
  RETURN_IF(*start > *end || *start < walk->from, NEAP_UNSUPPORTED,
            "the tokenizer's pattern ends a match before it begins");
  return NEAP_OK;
}

neap_status expression_next(struct expression_walk *walk, size_t *start, size_t *end, bool *found) {
  for (*found = false; walk->from <= walk->length;) {
    TRY(find(walk, start, end, found));
    if (!*found) return NEAP_OK;
    walk->from = *end;
    if (*start < *end || walk->last != *end + 1) {
      walk->last = *end + 1;
      return NEAP_OK;
    }
    /* Goes on behind the next character. */
    do walk->from++;
    while (walk->from < walk->length && ((unsigned char)walk->bytes[walk->from] & 0xC0) == 0x80);
    *found = false;
  }
  return NEAP_OK;
}
