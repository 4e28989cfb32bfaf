#include "template/jinja_value.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/utf8.h"

const struct jinja_limits jinja_usual_limits = {
    .steps = 20000000, .memory = (size_t)1 << 30, .output = (size_t)256 << 20};

neap_status jinja_alloc(struct jinja_run *run, size_t count, size_t size, void *out) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX;
  RETURN_IF(bytes > run->left.memory, NEAP_TOO_LARGE,
            "%s: line %d, column %d: its values take more memory than a template may", run->name, run->line,
            run->column);
  run->left.memory -= bytes;
  void *memory = region_alloc(&run->region, count, size);
  RETURN_IF_NULL(memory);
  memcpy(out, &memory, sizeof memory);
  return NEAP_OK;
}

neap_status jinja_enter(struct jinja_run *run) {
  if (run->left.steps == 0) return JINJA_FAIL(run, NEAP_TOO_LARGE, "it takes more steps than a template may");
  if (run->depth >= JINJA_DEPTH)
    return JINJA_FAIL(run, NEAP_TOO_LARGE, "it goes deeper than %d levels", JINJA_DEPTH);
  run->left.steps--;
  run->depth++;
  return NEAP_OK;
}

void jinja_leave(struct jinja_run *run) { run->depth--; }

/* ---- Making ---- */

neap_status jinja_new_string(struct jinja_run *run, const char *bytes, size_t length, int source,
                             struct jinja_value *out) {
  struct jinja_string *s;
  struct jinja_mark *mark;
  TRY(jinja_alloc(run, 1, sizeof *s, &s));
  *s = (struct jinja_string){.bytes = bytes, .length = length};
  if (source > JINJA_UNMARKED) {
    TRY(jinja_alloc(run, 1, sizeof *mark, &mark));
    *mark = (struct jinja_mark){source, 0, length};
    s->marks = mark;
    s->mark_count = 1;
  }
  *out = (struct jinja_value){.kind = JINJA_STRING, .string = s};
  return NEAP_OK;
}

neap_status jinja_new_list(struct jinja_run *run, enum jinja_form form, size_t count,
                           struct jinja_value *out) {
  struct jinja_list *list;
  TRY(jinja_alloc(run, 1, sizeof *list, &list));
  TRY(jinja_alloc(run, count, sizeof *list->items, &list->items));
  list->form = form;
  list->count = count;
  *out = (struct jinja_value){.kind = JINJA_LIST, .list = list};
  return NEAP_OK;
}

neap_status jinja_new_dict(struct jinja_run *run, enum jinja_kind kind, struct jinja_value *out) {
  *out = (struct jinja_value){.kind = kind};
  return jinja_alloc(run, 1, sizeof *out->dict, &out->dict);
}

neap_status jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict, struct jinja_value key,
                            struct jinja_value **out) {
  bool equal = false;
  *out = NULL;
  if (key.kind == JINJA_DICT || (key.kind == JINJA_LIST && key.list->form != JINJA_IN_TUPLE))
    return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "%s is no key of a dict", jinja_type_name(key));
  for (size_t i = 0; i < dict->count && !equal; i++) {
    TRY(jinja_equal(run, dict->pairs[i].key, key, &equal));
    if (equal) *out = &dict->pairs[i].value;
  }
  return NEAP_OK;
}

neap_status jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key,
                           struct jinja_value value) {
  struct jinja_value *field;
  TRY(jinja_dict_find(run, dict, key, &field));
  if (field != NULL) {
    *field = value;
    return NEAP_OK;
  }
  if (dict->count == dict->capacity) {
    struct jinja_pair *pairs;
    const size_t capacity = dict->capacity > 0 ? 2 * dict->capacity : 4;
    TRY(jinja_alloc(run, capacity, sizeof *pairs, &pairs));
    if (dict->count > 0) memcpy(pairs, dict->pairs, dict->count * sizeof *pairs);
    dict->pairs = pairs;
    dict->capacity = capacity;
  }
  dict->pairs[dict->count++] = (struct jinja_pair){key, value};
  return NEAP_OK;
}

struct jinja_value *jinja_dict_field(const struct jinja_dict *dict, const char *key) {
  for (size_t i = 0; i < dict->count; i++)
    if (jinja_string_is(dict->pairs[i].key, key)) return &dict->pairs[i].value;
  return NULL;
}

/* ---- Comparing ---- */

bool jinja_string_is(struct jinja_value value, const char *text) {
  const size_t length = strlen(text);
  return value.kind == JINJA_STRING && value.string->length == length &&
         memcmp(value.string->bytes, text, length) == 0;
}

const char *jinja_type_name(struct jinja_value value) {
  static const char *const names[] = {"Undefined", "None", "bool", "int",       "float",
                                      "str",       "list", "dict", "namespace", "function"};
  static const char *const forms[] = {"list", "tuple", "range", "dict view", "generator"};
  return value.kind == JINJA_LIST ? forms[value.list->form] : names[value.kind];
}

bool jinja_truth(struct jinja_value value) {
  switch (value.kind) {
  case JINJA_UNDEFINED:
  case JINJA_NONE:
    return false;
  case JINJA_BOOL:
    return value.truth;
  case JINJA_INT:
    return value.integer != 0;
  case JINJA_FLOAT:
    return value.real != 0;
  case JINJA_STRING:
    return value.string->length > 0;
  case JINJA_LIST:
    return value.list->form == JINJA_IN_STREAM || value.list->count > 0;
  case JINJA_DICT:
    return value.dict->count > 0;
  case JINJA_NAMESPACE:
  case JINJA_FUNCTION:
    return true;
  }
  return true;
}

bool jinja_is_number(struct jinja_value value) {
  return value.kind == JINJA_BOOL || value.kind == JINJA_INT || value.kind == JINJA_FLOAT;
}

static int64_t integer_of(struct jinja_value v) { return v.kind == JINJA_BOOL ? v.truth : v.integer; }

double jinja_real(struct jinja_value number) {
  return number.kind == JINJA_FLOAT ? number.real : (double)integer_of(number);
}

/* Compares numbers as Python does: exactly. Gives 2 where one is NaN. */
static int order_numbers(struct jinja_value a, struct jinja_value b) {
  if (a.kind != JINJA_FLOAT && b.kind != JINJA_FLOAT) {
    const int64_t x = integer_of(a), y = integer_of(b);
    return x < y ? -1 : x > y;
  }
  const long double x = a.kind == JINJA_FLOAT ? (long double)a.real : (long double)integer_of(a),
                    y = b.kind == JINJA_FLOAT ? (long double)b.real : (long double)integer_of(b);
  return isnan(x) || isnan(y) ? 2 : x < y ? -1 : x > y;
}

static neap_status equal_lists(struct jinja_run *run, const struct jinja_list *a, const struct jinja_list *b,
                               bool *equal) {
  *equal = a == b;
  if (*equal || a->form != b->form || a->count != b->count) return NEAP_OK;
  if (a->form == JINJA_IN_STREAM) return NEAP_OK;
  if (a->form == JINJA_IN_VIEW) return JINJA_FAIL(run, NEAP_UNSUPPORTED, "views of dicts are not compared");
  *equal = true;
  for (size_t i = 0; i < a->count && *equal; i++) TRY(jinja_equal(run, a->items[i], b->items[i], equal));
  return NEAP_OK;
}

static neap_status equal_dicts(struct jinja_run *run, const struct jinja_dict *a, const struct jinja_dict *b,
                               bool *equal) {
  *equal = a->count == b->count;
  for (size_t i = 0; i < a->count && *equal; i++) {
    struct jinja_value *other;
    TRY(jinja_dict_find(run, b, a->pairs[i].key, &other));
    *equal = other != NULL;
    if (*equal) TRY(jinja_equal(run, a->pairs[i].value, *other, equal));
  }
  return NEAP_OK;
}

static neap_status equal_deep(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                              bool *equal) {
  if (a.kind == JINJA_LIST) return equal_lists(run, a.list, b.list, equal);
  if (a.kind == JINJA_DICT) return equal_dicts(run, a.dict, b.dict, equal);
  *equal = a.dict == b.dict; /* or a function */
  return NEAP_OK;
}

neap_status jinja_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool *equal) {
  *equal = false;
  if (jinja_is_number(a) && jinja_is_number(b)) {
    *equal = order_numbers(a, b) == 0;
    return NEAP_OK;
  }
  if (a.kind != b.kind) return NEAP_OK;
  if (a.kind == JINJA_STRING) {
    *equal = a.string->length == b.string->length &&
             memcmp(a.string->bytes, b.string->bytes, a.string->length) == 0;
    return NEAP_OK;
  }
  if (a.kind <= JINJA_NONE) {
    *equal = true;
    return NEAP_OK;
  }
  TRY(jinja_enter(run));
  const neap_status status = equal_deep(run, a, b, equal);
  jinja_leave(run);
  return status;
}

neap_status jinja_order(struct jinja_run *run, struct jinja_value a, struct jinja_value b, int *order) {
  if (jinja_is_number(a) && jinja_is_number(b)) {
    *order = order_numbers(a, b);
    return NEAP_OK;
  }
  if (a.kind != JINJA_STRING || b.kind != JINJA_STRING)
    return JINJA_FAIL(run,
                      a.kind == JINJA_LIST && b.kind == JINJA_LIST ? NEAP_UNSUPPORTED : NEAP_INVALID_ARGUMENT,
                      "%s and %s have no order", jinja_type_name(a), jinja_type_name(b));
  /* The order of UTF-8 is that of code points. */
  const size_t least = a.string->length < b.string->length ? a.string->length : b.string->length;
  const int first = memcmp(a.string->bytes, b.string->bytes, least);
  *order = first != 0 ? (first > 0) - (first < 0)
                      : (a.string->length > b.string->length) - (a.string->length < b.string->length);
  return NEAP_OK;
}

/* ---- Building ---- */

static neap_status grow(struct jinja_run *run, void **data, size_t *capacity, size_t count, size_t wanted,
                        size_t size) {
  void *more;
  if (wanted <= *capacity) return NEAP_OK;
  size_t room = *capacity > 0 ? 2 * *capacity : 32;
  if (room < wanted) room = wanted;
  TRY(jinja_alloc(run, room, size, &more));
  if (count > 0) memcpy(more, *data, count * size);
  *data = more;
  *capacity = room;
  return NEAP_OK;
}

neap_status jinja_put(struct jinja_builder *b, const char *bytes, size_t length) {
  if (length == 0) return NEAP_OK;
  if (length > b->run->output || b->length > b->run->output - length)
    return JINJA_FAIL(b->run, NEAP_TOO_LARGE, "a text has more than %zu bytes", b->run->output);
  TRY(grow(b->run, (void **)&b->bytes, &b->capacity, b->length, b->length + length, 1));
  memcpy(b->bytes + b->length, bytes, length);
  b->length += length;
  return NEAP_OK;
}

static neap_status add_mark(struct jinja_builder *b, struct jinja_mark mark) {
  struct jinja_mark *last = b->mark_count > 0 ? &b->marks[b->mark_count - 1] : NULL;
  if (last != NULL && last->source == mark.source && last->end == mark.begin) {
    last->end = mark.end;
    return NEAP_OK;
  }
  TRY(grow(b->run, (void **)&b->marks, &b->mark_capacity, b->mark_count, b->mark_count + 1,
           sizeof *b->marks));
  b->marks[b->mark_count++] = mark;
  return NEAP_OK;
}

neap_status jinja_put_mark(struct jinja_builder *b, int source, size_t begin) {
  return add_mark(b, (struct jinja_mark){source, begin, b->length});
}

/* Gives the part of a mark that lies in a part of its string. An empty one stays where there was one, or
 * where the part is empty: a content of blanks that was stripped still has its place. */
static bool clip(const struct jinja_mark *mark, size_t begin, size_t end, size_t *low, size_t *high) {
  *low = mark->begin > begin ? mark->begin : begin;
  *high = mark->end < end ? mark->end : end;
  return *low < *high || (*low == *high && (mark->begin == mark->end || begin == end));
}

neap_status jinja_put_part(struct jinja_builder *b, const struct jinja_string *s, size_t begin, size_t end) {
  const size_t to = b->length;
  size_t low, high;
  TRY(jinja_put(b, s->bytes + begin, end - begin));
  for (size_t i = 0; i < s->mark_count; i++)
    if (clip(&s->marks[i], begin, end, &low, &high))
      TRY(add_mark(b, (struct jinja_mark){s->marks[i].source, to + low - begin, to + high - begin}));
  return NEAP_OK;
}

neap_status jinja_put_string(struct jinja_builder *b, const struct jinja_string *s) {
  return jinja_put_part(b, s, 0, s->length);
}

neap_status jinja_put_changed(struct jinja_builder *b, const struct jinja_string *s, size_t begin, size_t end,
                              const char *bytes, size_t length) {
  const size_t to = b->length;
  size_t low, high;
  TRY(jinja_put(b, bytes, length));
  for (size_t i = 0; i < s->mark_count; i++)
    if (clip(&s->marks[i], begin, end, &low, &high))
      TRY(add_mark(b, (struct jinja_mark){s->marks[i].source, to, b->length}));
  return NEAP_OK;
}

neap_status jinja_built(struct jinja_builder *b, struct jinja_value *out) {
  struct jinja_string *s;
  TRY(jinja_alloc(b->run, 1, sizeof *s, &s));
  *s = (struct jinja_string){b->bytes != NULL ? b->bytes : "", b->length, b->marks, b->mark_count};
  *out = (struct jinja_value){.kind = JINJA_STRING, .string = s};
  return NEAP_OK;
}

/* ---- Printing ---- */

neap_status jinja_put_real(struct jinja_builder *b, double real) {
  char text[40], digits[32], sign = 0;
  int exponent, count = 0;
  if (isnan(real)) return jinja_put(b, "nan", 3);
  if (isinf(real)) return jinja_put(b, real < 0 ? "-inf" : "inf", real < 0 ? 4 : 3);
  for (int precision = 0; precision < 17; precision++) { /* the fewest digits that give it back */
    snprintf(text, sizeof text, "%.*e", precision, real);
    if (strtod(text, NULL) == real) break;
  }
  char *at = text;
  if (*at == '-') sign = *at++;
  for (; *at != 'e'; at++)
    if (*at != '.') digits[count++] = *at;
  exponent = atoi(at + 1);
  while (count > 1 && digits[count - 1] == '0') count--;
  if (sign != 0) TRY(jinja_put(b, "-", 1));
  if (exponent < -4 || exponent >= 16) {
    TRY(jinja_put(b, digits, 1));
    if (count > 1) TRY(jinja_put(b, ".", 1));
    if (count > 1) TRY(jinja_put(b, digits + 1, (size_t)count - 1));
    const int length = snprintf(text, sizeof text, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    return jinja_put(b, text, (size_t)length);
  }
  if (exponent < 0) TRY(jinja_put(b, "0.", 2));
  for (int i = exponent; i < -1; i++) TRY(jinja_put(b, "0", 1));
  for (int i = 0; i < count || i <= exponent; i++) {
    TRY(jinja_put(b, i < count ? &digits[i] : "0", 1));
    if (i == exponent) TRY(jinja_put(b, ".", 1));
  }
  return exponent >= 0 && count <= exponent + 1 ? jinja_put(b, "0", 1) : NEAP_OK;
}

/* Tests for characters of which every Unicode says that they print. */
static bool surely_prints(uint32_t c) {
  return (c >= 0xA1 && c <= 0x17F && c != 0xAD) || (c >= 0x400 && c <= 0x481) ||
         (c >= 0x3041 && c <= 0x3096) || (c >= 0x30A1 && c <= 0x30FA) || (c >= 0x4E00 && c <= 0x9FA5) ||
         (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0x1F600 && c <= 0x1F64F);
}

static neap_status print_quoted(struct jinja_builder *b, const struct jinja_string *s) {
  const bool single = memchr(s->bytes, '\'', s->length) != NULL,
             both = memchr(s->bytes, '"', s->length) != NULL;
  const char quote = single && !both ? '"' : '\'';
  TRY(jinja_put(b, &quote, 1));
  for (size_t i = 0; i < s->length;) {
    uint32_t code;
    char text[8];
    const size_t bytes = (size_t)utf8_decode(s->bytes + i, s->length - i, &code);
    const char *escaped = code != 0 && code < 128 ? strchr("\n\r\t\\", (int)code) : NULL;
    if (code >= 0x80 && !surely_prints(code))
      return JINJA_FAIL(b->run, NEAP_UNSUPPORTED, "a list with the character U+%04X is not printed",
                        (unsigned)code);
    if (escaped != NULL || code == (uint32_t)quote) {
      snprintf(text, sizeof text, "\\%c",
               code == '\n'   ? 'n'
               : code == '\r' ? 'r'
               : code == '\t' ? 't'
                              : (char)code);
      TRY(jinja_put_changed(b, s, i, i + bytes, text, 2));
    } else if (code < 0x20 || code == 0x7F) {
      snprintf(text, sizeof text, "\\x%02x", (unsigned)code);
      TRY(jinja_put_changed(b, s, i, i + bytes, text, 4));
    } else {
      TRY(jinja_put_part(b, s, i, i + bytes));
    }
    i += bytes;
  }
  if (s->length == 0) TRY(jinja_put_string(b, s));
  return jinja_put(b, &quote, 1);
}

static neap_status print_inside(struct jinja_builder *b, struct jinja_value value) {
  if (value.kind == JINJA_STRING) return print_quoted(b, value.string);
  return value.kind == JINJA_UNDEFINED ? jinja_put(b, "Undefined", 9) : jinja_print(b, value);
}

static neap_status print_list(struct jinja_builder *b, const struct jinja_list *list) {
  const bool tuple = list->form == JINJA_IN_TUPLE;
  if (list->form > JINJA_IN_TUPLE)
    return JINJA_FAIL(b->run, NEAP_UNSUPPORTED, "a range, a view or a generator is not printed");
  TRY(jinja_put(b, tuple ? "(" : "[", 1));
  for (size_t i = 0; i < list->count; i++) {
    if (i > 0) TRY(jinja_put(b, ", ", 2));
    TRY(print_inside(b, list->items[i]));
  }
  if (tuple && list->count == 1) TRY(jinja_put(b, ",", 1));
  return jinja_put(b, tuple ? ")" : "]", 1);
}

static neap_status print_dict(struct jinja_builder *b, const struct jinja_dict *dict) {
  TRY(jinja_put(b, "{", 1));
  for (size_t i = 0; i < dict->count; i++) {
    if (i > 0) TRY(jinja_put(b, ", ", 2));
    TRY(print_inside(b, dict->pairs[i].key));
    TRY(jinja_put(b, ": ", 2));
    TRY(print_inside(b, dict->pairs[i].value));
  }
  return jinja_put(b, "}", 1);
}

neap_status jinja_print(struct jinja_builder *b, struct jinja_value value) {
  char text[32];
  neap_status status;
  switch (value.kind) {
  case JINJA_UNDEFINED:
    return NEAP_OK;
  case JINJA_NONE:
    return jinja_put(b, "None", 4);
  case JINJA_BOOL:
    return value.truth ? jinja_put(b, "True", 4) : jinja_put(b, "False", 5);
  case JINJA_INT:
    return jinja_put(b, text, (size_t)snprintf(text, sizeof text, "%" PRId64, value.integer));
  case JINJA_FLOAT:
    return jinja_put_real(b, value.real);
  case JINJA_STRING:
    return jinja_put_string(b, value.string);
  case JINJA_LIST:
  case JINJA_DICT:
    TRY(jinja_enter(b->run));
    status = value.kind == JINJA_LIST ? print_list(b, value.list) : print_dict(b, value.dict);
    jinja_leave(b->run);
    return status;
  case JINJA_NAMESPACE:
  case JINJA_FUNCTION:
    break;
  }
  return JINJA_FAIL(b->run, NEAP_UNSUPPORTED, "a %s is not printed", jinja_type_name(value));
}

neap_status jinja_text_of(struct jinja_run *run, struct jinja_value value, struct jinja_value *out) {
  struct jinja_builder b = {.run = run};
  *out = value;
  if (value.kind == JINJA_STRING) return NEAP_OK;
  TRY(jinja_print(&b, value));
  return jinja_built(&b, out);
}
