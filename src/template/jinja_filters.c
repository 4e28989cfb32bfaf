#include "template/jinja_filters.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "template/jinja_json.h"
#include "template/jinja_text.h"

/* ---- Tests ---- */

typedef neap_status test_function(struct jinja_run *run, struct jinja_value v, struct jinja_value other,
                                  bool *out);

#define TEST(name)                                                                                           \
  static neap_status name(struct jinja_run *run, struct jinja_value v, struct jinja_value other, bool *out)
#define TEST_OF(name, condition)                                                                             \
  TEST(name) {                                                                                               \
    (void)run, (void)other;                                                                                  \
    *out = (condition);                                                                                      \
    return NEAP_OK;                                                                                          \
  }

TEST_OF(is_defined, v.kind != JINJA_UNDEFINED)
TEST_OF(is_undefined, v.kind == JINJA_UNDEFINED)
TEST_OF(is_none, v.kind == JINJA_NONE)
TEST_OF(is_string, v.kind == JINJA_STRING)
TEST_OF(is_mapping, v.kind == JINJA_DICT)
TEST_OF(is_boolean, v.kind == JINJA_BOOL)
TEST_OF(is_true, v.kind == JINJA_BOOL && v.truth)
TEST_OF(is_false, v.kind == JINJA_BOOL && !v.truth)
TEST_OF(is_integer, v.kind == JINJA_INT)
TEST_OF(is_float, v.kind == JINJA_FLOAT)
TEST_OF(is_number, jinja_is_number(v))
TEST_OF(is_callable, v.kind == JINJA_FUNCTION || v.kind == JINJA_UNDEFINED)
TEST_OF(is_iterable, v.kind == JINJA_STRING || v.kind == JINJA_LIST || v.kind == JINJA_DICT ||
                         v.kind == JINJA_UNDEFINED ||
                         (v.kind == JINJA_FUNCTION && v.function->type == JINJA_A_LOOP))
TEST_OF(is_sequence, v.kind == JINJA_STRING || v.kind == JINJA_DICT || v.kind == JINJA_UNDEFINED ||
                         (v.kind == JINJA_LIST && v.list->form <= JINJA_IN_RANGE))

TEST(is_equal) { return jinja_equal(run, v, other, out); }
TEST(is_not_equal) {
  TRY(jinja_equal(run, v, other, out));
  *out = !*out;
  return NEAP_OK;
}
TEST(is_in) { return jinja_contains(run, other, v, out); }

static neap_status order(struct jinja_run *run, struct jinja_value a, struct jinja_value b, int *out) {
  return jinja_order(run, a, b, out);
}
TEST(is_less) {
  int o;
  TRY(order(run, v, other, &o));
  *out = o == -1;
  return NEAP_OK;
}
TEST(is_less_equal) {
  int o;
  TRY(order(run, v, other, &o));
  *out = o <= 0;
  return NEAP_OK;
}
TEST(is_greater) { return is_less(run, other, v, out); }
TEST(is_greater_equal) { return is_less_equal(run, other, v, out); }

static neap_status remainder_of(struct jinja_run *run, struct jinja_value v, int64_t by, int64_t *out) {
  int64_t number;
  TRY(jinja_take_int(run, v, 0, "remainder", &number));
  if (by == 0) return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "a number is divided by 0");
  *out = by == -1 ? 0 : number % by;
  return NEAP_OK;
}
TEST(is_odd) {
  int64_t left;
  (void)other;
  TRY(remainder_of(run, v, 2, &left));
  *out = left != 0;
  return NEAP_OK;
}
TEST(is_even) {
  TRY(is_odd(run, v, other, out));
  *out = !*out;
  return NEAP_OK;
}
TEST(is_divisible) {
  int64_t by, left;
  TRY(jinja_take_int(run, other, 0, "divisibleby", &by));
  TRY(remainder_of(run, v, by, &left));
  *out = left == 0;
  return NEAP_OK;
}

static const struct test {
  const char *names; /* with spaces between */
  bool argument;
  test_function *call;
} tests[] = {{"defined", false, is_defined},
             {"undefined", false, is_undefined},
             {"none", false, is_none},
             {"string", false, is_string},
             {"mapping", false, is_mapping},
             {"iterable", false, is_iterable},
             {"sequence", false, is_sequence},
             {"number", false, is_number},
             {"integer", false, is_integer},
             {"float", false, is_float},
             {"boolean", false, is_boolean},
             {"true", false, is_true},
             {"false", false, is_false},
             {"callable", false, is_callable},
             {"odd", false, is_odd},
             {"even", false, is_even},
             {"divisibleby", true, is_divisible},
             {"== eq equalto", true, is_equal},
             {"!= ne", true, is_not_equal},
             {"< lt lessthan", true, is_less},
             {"<= le", true, is_less_equal},
             {"> gt greaterthan", true, is_greater},
             {">= ge", true, is_greater_equal},
             {"in", true, is_in}};

static bool has_word(const char *words, const char *word) {
  const size_t length = strlen(word);
  for (const char *at = words; (at = strstr(at, word)) != NULL; at++)
    if ((at == words || at[-1] == ' ') && (at[length] == '\0' || at[length] == ' ')) return length > 0;
  return false;
}

neap_status jinja_test(struct jinja_run *run, const char *name, struct jinja_value value,
                       struct jinja_arguments given, bool *out) {
  struct jinja_value bound[JINJA_PARAMETERS];
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    const struct test *t = &tests[i];
    if (!has_word(t->names, name)) continue;
    TRY(jinja_bind(run, name, given, t->argument ? "other" : "", bound));
    if (t->argument && jinja_is_missing(bound[0]))
      return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "the test '%s' needs an argument", name);
    return t->call(run, value, bound[0], out);
  }
  return JINJA_FAIL(run, NEAP_UNSUPPORTED, "the test '%.60s' is not supported", name);
}

/* ---- Filters ---- */

typedef neap_status filter_function(struct jinja_run *run, struct jinja_value v, const struct jinja_value *a,
                                    struct jinja_value *out);

#define FILTER(name)                                                                                         \
  static neap_status name(struct jinja_run *run, struct jinja_value v, const struct jinja_value *a,          \
                          struct jinja_value *out)

static bool flag(struct jinja_value v, bool usual) { return jinja_is_missing(v) ? usual : jinja_truth(v); }

FILTER(filter_trim) {
  struct jinja_value text;
  const struct jinja_string *set = NULL;
  TRY(jinja_text_of(run, v, &text));
  if (!jinja_is_missing(a[0]) && a[0].kind != JINJA_NONE) TRY(jinja_take_string(run, a[0], "trim", &set));
  return jinja_strip(run, text.string, set, JINJA_BOTH, out);
}

FILTER(filter_length) {
  (void)a;
  *out = jinja_int(0);
  if (v.kind == JINJA_STRING)
    out->integer = jinja_length(v.string);
  else if (v.kind == JINJA_DICT)
    out->integer = (int64_t)v.dict->count;
  else if (v.kind == JINJA_LIST && v.list->form != JINJA_IN_STREAM)
    out->integer = (int64_t)v.list->count;
  else if (v.kind != JINJA_UNDEFINED)
    return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "%s has no length", jinja_type_name(v));
  return NEAP_OK;
}

static neap_status in_case(struct jinja_run *run, struct jinja_value v, enum jinja_case to,
                           struct jinja_value *out) {
  struct jinja_value text;
  TRY(jinja_text_of(run, v, &text));
  return jinja_change_case(run, text.string, to, true, out);
}
FILTER(filter_upper) {
  (void)a;
  return in_case(run, v, JINJA_UPPER, out);
}
FILTER(filter_lower) {
  (void)a;
  return in_case(run, v, JINJA_LOWER, out);
}
FILTER(filter_title) {
  (void)a;
  return in_case(run, v, JINJA_TITLE, out);
}
FILTER(filter_capitalize) {
  (void)a;
  return in_case(run, v, JINJA_CAPITALIZE, out);
}

FILTER(filter_replace) {
  struct jinja_value text, old, new;
  int64_t most;
  if (jinja_is_missing(a[0]) || jinja_is_missing(a[1]))
    return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "'replace' needs two arguments");
  TRY(jinja_text_of(run, v, &text));
  TRY(jinja_text_of(run, a[0], &old));
  TRY(jinja_text_of(run, a[1], &new));
  TRY(jinja_take_int(run, a[2].kind == JINJA_NONE ? a[5] : a[2], -1, "replace", &most));
  return jinja_replace(run, text.string, old.string, new.string, most, out);
}

/* Gives a field by a path as "a.b.0". */
static neap_status get_path(struct jinja_run *run, struct jinja_value v, struct jinja_value path,
                            struct jinja_value *out) {
  struct jinja_value parts;
  static const struct jinja_string dot = {.bytes = ".", .length = 1};
  if (path.kind == JINJA_INT) return jinja_index(run, v, path, out);
  const struct jinja_string *text;
  TRY(jinja_take_string(run, path, "attribute", &text));
  TRY(jinja_split(run, text, &dot, -1, JINJA_LEFT, &parts));
  *out = v;
  for (size_t i = 0; i < parts.list->count; i++) {
    const struct jinja_string *part = parts.list->items[i].string;
    struct jinja_value key = parts.list->items[i];
    int64_t number = 0;
    size_t digits = 0;
    for (; digits < part->length && part->bytes[digits] >= '0' && part->bytes[digits] <= '9' && digits < 10;
         digits++)
      number = number * 10 + part->bytes[digits] - '0';
    if (digits == part->length && digits > 0) key = jinja_int(number);
    TRY(jinja_index(run, *out, key, out));
  }
  return NEAP_OK;
}

FILTER(filter_join) {
  struct jinja_value between, items;
  const struct jinja_list *list;
  TRY(jinja_new_string(run, "", 0, JINJA_UNMARKED, &between));
  if (!jinja_is_missing(a[0])) TRY(jinja_text_of(run, a[0], &between));
  TRY(jinja_iterate(run, v, &list));
  if (!jinja_is_missing(a[1]) && a[1].kind != JINJA_NONE) {
    TRY(jinja_new_list(run, JINJA_IN_LIST, list->count, &items));
    for (size_t i = 0; i < list->count; i++) TRY(get_path(run, list->items[i], a[1], &items.list->items[i]));
    list = items.list;
  }
  return jinja_join(run, between.string, list, out);
}

FILTER(filter_first) {
  const struct jinja_list *list;
  (void)a;
  if (jinja_is_sequence(v, JINJA_IN_STREAM)) { /* takes one item of it */
    *out = v.list->at < v.list->count ? v.list->items[v.list->at++] : jinja_undefined("the first item");
    return NEAP_OK;
  }
  TRY(jinja_iterate(run, v, &list));
  *out = list->count > 0 ? list->items[0] : jinja_undefined("the first item");
  return NEAP_OK;
}

FILTER(filter_last) {
  const struct jinja_list *list;
  (void)a;
  if (jinja_is_sequence(v, JINJA_IN_STREAM))
    return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "a generator has no last item");
  TRY(jinja_iterate(run, v, &list));
  *out = list->count > 0 ? list->items[list->count - 1] : jinja_undefined("the last item");
  return NEAP_OK;
}

FILTER(filter_default) {
  *out = v;
  if (v.kind != JINJA_UNDEFINED && (!flag(a[1], false) || jinja_truth(v))) return NEAP_OK;
  *out = a[0];
  return jinja_is_missing(a[0]) ? jinja_new_string(run, "", 0, JINJA_UNMARKED, out) : NEAP_OK;
}

/* Gives a new sequence of the items of another. */
static neap_status copy_items(struct jinja_run *run, struct jinja_value v, enum jinja_form form,
                              struct jinja_value *out) {
  const struct jinja_list *list;
  TRY(jinja_iterate(run, v, &list));
  TRY(jinja_new_list(run, form, list->count, out));
  if (list->count > 0) memcpy(out->list->items, list->items, list->count * sizeof *list->items);
  return NEAP_OK;
}
FILTER(filter_list) {
  (void)a;
  return copy_items(run, v, JINJA_IN_LIST, out);
}

FILTER(filter_tojson) {
  struct jinja_json_form form = {.ascii = flag(a[0], false), .sorted = flag(a[3], false)};
  struct jinja_value by;
  if (!jinja_is_missing(a[1]) && a[1].kind != JINJA_NONE) {
    static const struct jinja_string blank = {.bytes = " ", .length = 1};
    by = a[1];
    int64_t width;
    if (by.kind != JINJA_STRING) {
      TRY(jinja_take_int(run, by, 0, "tojson", &width));
      TRY(jinja_repeat(run, &blank, width, &by));
    }
    form.indent = by.string;
  }
  if (!jinja_is_missing(a[2]) && a[2].kind != JINJA_NONE) {
    if (a[2].kind != JINJA_LIST || a[2].list->count != 2)
      return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "the separators of 'tojson' are two strings");
    TRY(jinja_take_string(run, a[2].list->items[0], "tojson", &form.item));
    TRY(jinja_take_string(run, a[2].list->items[1], "tojson", &form.pair));
  }
  return jinja_json(run, v, &form, out);
}

FILTER(filter_items) {
  struct jinja_value method;
  (void)a;
  if (v.kind == JINJA_UNDEFINED) return jinja_new_list(run, JINJA_IN_STREAM, 0, out);
  if (v.kind != JINJA_DICT) return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "'items' needs a dict");
  TRY(jinja_attribute(run, v, "items", &method));
  TRY(jinja_call_method(run, method.function, (struct jinja_arguments){0}, out));
  out->list->form = JINJA_IN_STREAM;
  return NEAP_OK;
}

FILTER(filter_string) {
  (void)a;
  return jinja_text_of(run, v, out);
}

/* Reads all of a text as a number. */
static bool read_number(const struct jinja_string *s, bool real, struct jinja_value *out) {
  char text[64];
  const size_t first = jinja_space_at_begin(s->bytes, s->length);
  const size_t length = s->length - first - jinja_space_at_end(s->bytes + first, s->length - first);
  if (length == 0 || length >= sizeof text || memchr(s->bytes + first, '_', length) != NULL) return false;
  memcpy(text, s->bytes + first, length);
  text[length] = '\0';
  if (text[strspn(text, real ? "+-.eE0123456789" : "+-0123456789")] != '\0') return false;
  char *end;
  errno = 0;
  *out = real ? jinja_float(strtod(text, &end)) : jinja_int(strtoll(text, &end, 10));
  return *end == '\0' && end != text && (real || errno == 0);
}

FILTER(filter_int) {
  if (!jinja_is_missing(a[1]))
    return JINJA_FAIL(run, NEAP_UNSUPPORTED, "'int' of another base is not supported");
  if (v.kind == JINJA_UNDEFINED) return jinja_attribute(run, v, "", out);
  *out = jinja_is_missing(a[0]) ? jinja_int(0) : a[0];
  if (v.kind == JINJA_INT) *out = v;
  if (v.kind == JINJA_BOOL) *out = jinja_int(v.truth);
  struct jinja_value number = v;
  if (v.kind == JINJA_STRING && read_number(v.string, false, &number))
    *out = number;
  else if (v.kind == JINJA_STRING && !read_number(v.string, true, &number))
    return NEAP_OK;
  if (number.kind != JINJA_FLOAT || isnan(number.real)) return NEAP_OK;
  if (fabs(number.real) >= 9e18)
    return JINJA_FAIL(run, NEAP_UNSUPPORTED, "a number is larger than 64 bits hold");
  *out = jinja_int((int64_t)number.real);
  return NEAP_OK;
}

FILTER(filter_float) {
  if (v.kind == JINJA_UNDEFINED) return jinja_attribute(run, v, "", out);
  *out = jinja_is_missing(a[0]) ? jinja_float(0) : a[0];
  struct jinja_value number;
  if (jinja_is_number(v)) *out = jinja_float(jinja_real(v));
  if (v.kind == JINJA_STRING && read_number(v.string, true, &number)) *out = number;
  return NEAP_OK;
}

FILTER(filter_abs) {
  (void)a;
  *out = v;
  if (!jinja_is_number(v) || (v.kind == JINJA_INT && v.integer == INT64_MIN))
    return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "'abs' needs a number (got %s)", jinja_type_name(v));
  if (v.kind == JINJA_FLOAT)
    out->real = fabs(v.real);
  else
    *out = jinja_int(llabs(v.kind == JINJA_BOOL ? v.truth : v.integer));
  return NEAP_OK;
}

FILTER(filter_round) {
  int64_t digits;
  char text[400];
  TRY(jinja_take_int(run, a[0], 0, "round", &digits));
  if (!jinja_is_number(v)) return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "'round' needs a number");
  if (digits < 0 || digits > 20 || !jinja_is_missing(a[1]))
    return JINJA_FAIL(run, NEAP_UNSUPPORTED,
                      "only 'round' to 0 to 20 digits, by the usual method, is supported");
  *out = v.kind == JINJA_BOOL ? jinja_int(v.truth) : v;
  if (v.kind != JINJA_FLOAT || !isfinite(v.real)) return NEAP_OK;
  snprintf(text, sizeof text, "%.*f", (int)digits, v.real);
  out->real = strtod(text, NULL);
  return NEAP_OK;
}

FILTER(filter_indent) {
  static const struct jinja_string blank = {.bytes = " ", .length = 1};
  struct jinja_value by = a[0];
  const struct jinja_string *text;
  int64_t width;
  TRY(jinja_take_string(run, v, "indent", &text));
  if (by.kind != JINJA_STRING) {
    TRY(jinja_take_int(run, by, 4, "indent", &width));
    TRY(jinja_repeat(run, &blank, width, &by));
  }
  return jinja_indent(run, text, by.string, flag(a[1], false), flag(a[2], false), out);
}

FILTER(filter_reverse) {
  const struct jinja_list *list;
  struct jinja_builder b = {.run = run};
  (void)a;
  if (v.kind == JINJA_LIST && v.list->form == JINJA_IN_STREAM)
    return JINJA_FAIL(run, NEAP_UNSUPPORTED, "'reverse' of a generator is not supported");
  TRY(jinja_iterate(run, v, &list));
  if (v.kind == JINJA_STRING) {
    for (size_t i = list->count; i-- > 0;) TRY(jinja_put_string(&b, list->items[i].string));
    return jinja_built(&b, out);
  }
  TRY(jinja_new_list(run, JINJA_IN_STREAM, list->count, out));
  for (size_t i = 0; i < list->count; i++) out->list->items[i] = list->items[list->count - 1 - i];
  return NEAP_OK;
}

/* Gives what a value is compared by: a field of it, in lower case where cases are one. */
static neap_status key_of(struct jinja_run *run, struct jinja_value v, struct jinja_value path, bool cases,
                          struct jinja_value *out) {
  *out = v;
  if (!jinja_is_missing(path) && path.kind != JINJA_NONE) TRY(get_path(run, v, path, out));
  return cases || out->kind != JINJA_STRING ? NEAP_OK
                                            : jinja_change_case(run, out->string, JINJA_LOWER, false, out);
}

/* Gives the order of two keys. Equal ones need none where Python compares lists of one of them. */
static neap_status order_keys(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool lists,
                              int *result) {
  bool equal = false;
  *result = 0;
  TRY(jinja_enter(run));
  jinja_leave(run);
  if (lists) TRY(jinja_equal(run, a, b, &equal));
  return equal ? NEAP_OK : jinja_order(run, a, b, result);
}

/* Sorts items by keys, equal ones in the order in which they are. */
static neap_status sort_by(struct jinja_run *run, struct jinja_list *list, struct jinja_value *keys,
                           bool lists, bool down) {
  for (size_t i = 1; i < list->count; i++) {
    const struct jinja_value item = list->items[i], key = keys[i];
    size_t to = i;
    for (; to > 0; to--) {
      int o;
      TRY(order_keys(run, down ? keys[to - 1] : key, down ? key : keys[to - 1], lists, &o));
      if (o != -1) break;
      list->items[to] = list->items[to - 1];
      keys[to] = keys[to - 1];
    }
    list->items[to] = item;
    keys[to] = key;
  }
  return NEAP_OK;
}

FILTER(filter_sort) {
  struct jinja_value *keys;
  TRY(copy_items(run, v, JINJA_IN_LIST, out));
  TRY(jinja_alloc(run, out->list->count, sizeof *keys, &keys));
  for (size_t i = 0; i < out->list->count; i++)
    TRY(key_of(run, out->list->items[i], a[2], flag(a[1], false), &keys[i]));
  return sort_by(run, out->list, keys, true, flag(a[0], false));
}

FILTER(filter_dictsort) {
  struct jinja_value *keys;
  const bool by_value = jinja_string_is(a[1], "value");
  if (v.kind != JINJA_DICT || (!jinja_is_missing(a[1]) && !by_value && !jinja_string_is(a[1], "key")))
    return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "'dictsort' needs a dict, and 'key' or 'value'");
  TRY(filter_items(run, v, a, out));
  out->list->form = JINJA_IN_LIST;
  TRY(jinja_alloc(run, out->list->count, sizeof *keys, &keys));
  for (size_t i = 0; i < out->list->count; i++)
    TRY(key_of(run, out->list->items[i].list->items[by_value], jinja_none(), flag(a[0], false), &keys[i]));
  return sort_by(run, out->list, keys, false, flag(a[2], false));
}

/* Tests whether Python has a hash of a value. */
static bool has_hash(struct jinja_value v) {
  bool has =
      v.kind != JINJA_DICT && !jinja_is_sequence(v, JINJA_IN_LIST) && !jinja_is_sequence(v, JINJA_IN_VIEW);
  for (size_t i = 0; jinja_is_sequence(v, JINJA_IN_TUPLE) && i < v.list->count && has; i++)
    has = v.list->items[i].kind != JINJA_LIST && v.list->items[i].kind != JINJA_DICT;
  return has;
}

FILTER(filter_unique) {
  const struct jinja_list *list;
  struct jinja_value *keys;
  size_t count = 0;
  TRY(jinja_iterate(run, v, &list));
  TRY(jinja_new_list(run, JINJA_IN_STREAM, list->count, out));
  TRY(jinja_alloc(run, list->count, sizeof *keys, &keys));
  for (size_t i = 0; i < list->count; i++) {
    bool known = false;
    TRY(key_of(run, list->items[i], a[1], flag(a[0], false), &keys[count]));
    if (!has_hash(keys[count]))
      return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "'unique' needs values with a hash (got %s)",
                        jinja_type_name(keys[count]));
    for (size_t k = 0; k < count && !known; k++) {
      TRY(jinja_enter(run));
      jinja_leave(run);
      TRY(jinja_equal(run, keys[k], keys[count], &known));
    }
    if (!known) out->list->items[count++] = list->items[i];
  }
  out->list->count = count;
  return NEAP_OK;
}

/* Written as text, its characters of HTML for what they stand. */
FILTER(filter_escape) {
  static const char *const pairs[][2] = {
      {"&", "&amp;"}, {">", "&gt;"}, {"<", "&lt;"}, {"'", "&#39;"}, {"\"", "&#34;"}};
  (void)a;
  TRY(jinja_text_of(run, v, out));
  for (int i = 0; i < 5; i++) {
    const struct jinja_string old = {.bytes = pairs[i][0], .length = 1},
                              new = {.bytes = pairs[i][1], .length = strlen(pairs[i][1])};
    TRY(jinja_replace(run, out->string, &old, &new, -1, out));
  }
  return NEAP_OK;
}

static const struct filter {
  const char *names, *parameters;
  filter_function *call;
} filters[] = {{"trim", "chars", filter_trim},
               {"length count", "", filter_length},
               {"upper", "", filter_upper},
               {"lower", "", filter_lower},
               {"title", "", filter_title},
               {"capitalize", "", filter_capitalize},
               {"replace", "old new count", filter_replace},
               {"join", "d attribute", filter_join},
               {"first", "", filter_first},
               {"last", "", filter_last},
               {"default d", "default_value boolean", filter_default},
               {"list", "", filter_list},
               {"tojson", "ensure_ascii indent separators sort_keys", filter_tojson},
               {"items", "", filter_items},
               {"dictsort", "case_sensitive by reverse", filter_dictsort},
               {"string safe", "", filter_string},
               {"escape e", "", filter_escape},
               {"int", "default base", filter_int},
               {"float", "default", filter_float},
               {"abs", "", filter_abs},
               {"round", "precision method", filter_round},
               {"indent", "width first blank", filter_indent},
               {"reverse", "", filter_reverse},
               {"sort", "reverse case_sensitive attribute", filter_sort},
               {"unique", "case_sensitive attribute", filter_unique}};

/* ---- Filters that take the name of a filter or a test ---- */

static struct jinja_arguments rest_of(struct jinja_arguments given, size_t count) {
  return (struct jinja_arguments){given.list + count, given.count - count};
}

static neap_status name_of(struct jinja_run *run, struct jinja_arguments given, size_t at,
                           const char **name) {
  const struct jinja_string *s;
  if (given.count <= at || given.list[at].name != NULL)
    return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "the name of a field, a test or a filter is missing");
  TRY(jinja_take_string(run, given.list[at].value, "name", &s));
  *name = region_format(&run->region, "%.*s", (int)s->length, s->bytes);
  RETURN_IF_NULL(*name);
  return NEAP_OK;
}

static neap_status filter_map(struct jinja_run *run, struct jinja_value v, struct jinja_arguments given,
                              struct jinja_value *out) {
  const struct jinja_list *list;
  struct jinja_value bound[JINJA_PARAMETERS];
  const char *name = NULL;
  const bool fields = given.count > 0 && given.list[0].name != NULL;
  if (fields)
    TRY(jinja_bind(run, "map", given, "attribute default", bound));
  else
    TRY(name_of(run, given, 0, &name));
  if (!jinja_truth(v)) return jinja_new_list(run, JINJA_IN_STREAM, 0, out); /* none has no items, too */
  TRY(jinja_iterate(run, v, &list));
  TRY(jinja_new_list(run, JINJA_IN_STREAM, list->count, out));
  for (size_t i = 0; i < list->count; i++) {
    struct jinja_value *item = &out->list->items[i];
    TRY(fields ? get_path(run, list->items[i], bound[0], item)
               : jinja_filter(run, name, list->items[i], rest_of(given, 1), item));
    if (fields && item->kind == JINJA_UNDEFINED && !jinja_is_missing(bound[1])) *item = bound[1];
  }
  return NEAP_OK;
}

/* Keeps the items of which a test says `wanted`; `fields`: a test of a field of theirs. */
static neap_status filter_select(struct jinja_run *run, struct jinja_value v, struct jinja_arguments given,
                                 bool fields, bool wanted, struct jinja_value *out) {
  const struct jinja_list *list;
  const char *name = NULL;
  size_t count = 0;
  if (fields && given.count == 0) TRY(name_of(run, given, 0, &name));
  const size_t first = fields;
  if (given.count > first) TRY(name_of(run, given, first, &name));
  if (!jinja_truth(v)) return jinja_new_list(run, JINJA_IN_STREAM, 0, out); /* none has no items, too */
  TRY(jinja_iterate(run, v, &list));
  TRY(jinja_new_list(run, JINJA_IN_STREAM, list->count, out));
  for (size_t i = 0; i < list->count; i++) {
    struct jinja_value tested = list->items[i];
    bool is;
    if (fields) TRY(get_path(run, tested, given.list[0].value, &tested));
    is = jinja_truth(tested);
    if (name != NULL) TRY(jinja_test(run, name, tested, rest_of(given, first + 1), &is));
    if (is == wanted) out->list->items[count++] = list->items[i];
  }
  out->list->count = count;
  return NEAP_OK;
}

static neap_status apply(struct jinja_run *run, const char *name, struct jinja_value value,
                         struct jinja_arguments given, struct jinja_value *out) {
  static const char *const selects[] = {"select", "reject", "selectattr", "rejectattr"};
  struct jinja_value bound[JINJA_PARAMETERS];
  if (strcmp(name, "map") == 0) return filter_map(run, value, given, out);
  for (int i = 0; i < 4; i++)
    if (strcmp(name, selects[i]) == 0) return filter_select(run, value, given, i >= 2, i % 2 == 0, out);
  for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
    if (!has_word(filters[i].names, name)) continue;
    TRY(jinja_bind(run, name, given, filters[i].parameters, bound));
    return filters[i].call(run, value, bound, out);
  }
  return JINJA_FAIL(run, NEAP_UNSUPPORTED, "the filter '%.60s' is not supported", name);
}

neap_status jinja_filter(struct jinja_run *run, const char *name, struct jinja_value value,
                         struct jinja_arguments given, struct jinja_value *out) {
  TRY(jinja_enter(run));
  const neap_status status = apply(run, name, value, given, out);
  jinja_leave(run);
  return status;
}
