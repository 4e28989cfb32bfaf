#include "template/jinja_access.h"

#include <ctype.h>
#include <string.h>

#include "template/jinja_text.h"

/* ---- Arguments ---- */

static const char missing[] = "(missing)";

bool jinja_is_missing(struct jinja_value value) {
  return value.kind == JINJA_UNDEFINED && value.name == missing;
}

/* Returns the index of a word in a list of words, or -1. */
static int find_word(const char *words, const char *word) {
  const size_t length = strlen(word);
  for (int i = 0; *words != '\0'; i++) {
    const size_t end = strcspn(words, " ");
    if (end == length && memcmp(words, word, length) == 0) return i;
    words += end + (words[end] == ' ');
  }
  return -1;
}

static int count_words(const char *words) {
  int count = *words != '\0';
  for (; *words != '\0'; words++) count += *words == ' ';
  return count;
}

neap_status jinja_bind(struct jinja_run *run, const char *what, struct jinja_arguments given,
                       const char *parameters, struct jinja_value bound[JINJA_PARAMETERS]) {
  const int count = count_words(parameters);
  for (int i = 0; i < JINJA_PARAMETERS; i++) bound[i] = jinja_undefined(missing);
  for (size_t i = 0; i < given.count; i++) {
    const struct jinja_argument *a = &given.list[i];
    const int place = a->name == NULL ? (i < (size_t)count ? (int)i : -1) : find_word(parameters, a->name);
    if (place < 0 || !jinja_is_missing(bound[place]))
      return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "'%s' does not take these arguments", what);
    bound[place] = a->value;
  }
  return NEAP_OK;
}

neap_status jinja_take_string(struct jinja_run *run, struct jinja_value value, const char *what,
                              const struct jinja_string **out) {
  if (value.kind != JINJA_STRING)
    return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "'%s' needs a string (got %s)", what,
                      jinja_type_name(value));
  *out = value.string;
  return NEAP_OK;
}

neap_status jinja_take_int(struct jinja_run *run, struct jinja_value value, int64_t usual, const char *what,
                           int64_t *out) {
  *out = value.kind == JINJA_BOOL ? value.truth : value.kind == JINJA_INT ? value.integer : usual;
  if (jinja_is_missing(value) || value.kind == JINJA_BOOL || value.kind == JINJA_INT) return NEAP_OK;
  return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "'%s' needs an integer (got %s)", what,
                    jinja_type_name(value));
}

/* ---- Items ---- */

neap_status jinja_iterate(struct jinja_run *run, struct jinja_value value, const struct jinja_list **out) {
  struct jinja_value list;
  switch (value.kind) {
  case JINJA_LIST:
    *out = value.list;
    if (value.list->form == JINJA_IN_STREAM) {
      TRY(jinja_new_list(run, JINJA_IN_LIST, 0, &list));
      list.list->items = value.list->items + value.list->at;
      list.list->count = value.list->count - value.list->at;
      value.list->at = value.list->count;
      *out = list.list;
    }
    return NEAP_OK;
  case JINJA_STRING:
    TRY(jinja_characters(run, value.string, &list));
    break;
  case JINJA_DICT:
    TRY(jinja_new_list(run, JINJA_IN_LIST, value.dict->count, &list));
    for (size_t i = 0; i < value.dict->count; i++) list.list->items[i] = value.dict->pairs[i].key;
    break;
  case JINJA_UNDEFINED:
    TRY(jinja_new_list(run, JINJA_IN_LIST, 0, &list));
    break;
  case JINJA_NONE:
  case JINJA_BOOL:
  case JINJA_INT:
  case JINJA_FLOAT:
  case JINJA_NAMESPACE:
  case JINJA_FUNCTION:
    return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "%s has no items", jinja_type_name(value));
  }
  *out = list.list;
  return NEAP_OK;
}

neap_status jinja_contains(struct jinja_run *run, struct jinja_value value, struct jinja_value item,
                           bool *out) {
  struct jinja_value *field;
  const struct jinja_list *list;
  *out = false;
  if (value.kind == JINJA_STRING) {
    const struct jinja_string *part;
    TRY(jinja_take_string(run, item, "in", &part));
    *out = jinja_find(value.string, part, JINJA_LEFT) != SIZE_MAX;
    return NEAP_OK;
  }
  if (value.kind == JINJA_DICT) {
    TRY(jinja_dict_find(run, value.dict, item, &field));
    *out = field != NULL;
    return NEAP_OK;
  }
  if (jinja_is_sequence(value, JINJA_IN_STREAM))
    return JINJA_FAIL(run, NEAP_UNSUPPORTED, "'in' a generator is not supported");
  TRY(jinja_iterate(run, value, &list));
  for (size_t i = 0; i < list->count && !*out; i++) TRY(jinja_equal(run, list->items[i], item, out));
  return NEAP_OK;
}

/* ---- Methods ---- */

typedef neap_status method_function(struct jinja_run *run, struct jinja_value self,
                                    const struct jinja_value *a, struct jinja_value *out);

#define METHOD(name)                                                                                         \
  static neap_status name(struct jinja_run *run, struct jinja_value self, const struct jinja_value *a,       \
                          struct jinja_value *out)

static neap_status strip_sides(struct jinja_run *run, struct jinja_value self, const struct jinja_value *a,
                               int sides, struct jinja_value *out) {
  const struct jinja_string *set = NULL;
  if (!jinja_is_missing(a[0]) && a[0].kind != JINJA_NONE) TRY(jinja_take_string(run, a[0], "strip", &set));
  return jinja_strip(run, self.string, set, sides, out);
}

METHOD(string_strip) { return strip_sides(run, self, a, JINJA_BOTH, out); }
METHOD(string_lstrip) { return strip_sides(run, self, a, JINJA_LEFT, out); }
METHOD(string_rstrip) { return strip_sides(run, self, a, JINJA_RIGHT, out); }

static neap_status split_side(struct jinja_run *run, struct jinja_value self, const struct jinja_value *a,
                              int side, struct jinja_value *out) {
  const struct jinja_string *at = NULL;
  int64_t most;
  if (!jinja_is_missing(a[0]) && a[0].kind != JINJA_NONE) TRY(jinja_take_string(run, a[0], "split", &at));
  TRY(jinja_take_int(run, a[1], -1, "split", &most));
  return jinja_split(run, self.string, at, most, side, out);
}

METHOD(string_split) { return split_side(run, self, a, JINJA_LEFT, out); }
METHOD(string_rsplit) { return split_side(run, self, a, JINJA_RIGHT, out); }

METHOD(string_splitlines) {
  if (!jinja_is_missing(a[0]) && jinja_truth(a[0]))
    return JINJA_FAIL(run, NEAP_UNSUPPORTED, "splitlines that keeps line ends is not supported");
  return jinja_split_lines(run, self.string, out);
}

/* Tests for a text, or any of a tuple of texts, at the beginning or at the end. */
static neap_status at_side(struct jinja_run *run, const struct jinja_string *s, struct jinja_value part,
                           int side, bool *out) {
  const struct jinja_string *p;
  *out = false;
  if (jinja_is_sequence(part, JINJA_IN_TUPLE)) {
    for (size_t i = 0; i < part.list->count && !*out; i++) {
      TRY(jinja_take_string(run, part.list->items[i], side == JINJA_LEFT ? "startswith" : "endswith", &p));
      TRY(at_side(run, s, part.list->items[i], side, out));
    }
    return NEAP_OK;
  }
  TRY(jinja_take_string(run, part, side == JINJA_LEFT ? "startswith" : "endswith", &p));
  *out = p->length <= s->length &&
         memcmp(s->bytes + (side == JINJA_LEFT ? 0 : s->length - p->length), p->bytes, p->length) == 0;
  return NEAP_OK;
}

METHOD(string_startswith) {
  *out = jinja_bool(false);
  return at_side(run, self.string, a[0], JINJA_LEFT, &out->truth);
}
METHOD(string_endswith) {
  *out = jinja_bool(false);
  return at_side(run, self.string, a[0], JINJA_RIGHT, &out->truth);
}

static neap_status remove_side(struct jinja_run *run, struct jinja_value self, struct jinja_value part,
                               int side, struct jinja_value *out) {
  const struct jinja_string *p, *s = self.string;
  bool there;
  TRY(jinja_take_string(run, part, "removeprefix", &p));
  TRY(at_side(run, s, part, side, &there));
  *out = self;
  if (!there) return NEAP_OK;
  return side == JINJA_LEFT ? jinja_part(run, s, p->length, s->length, out)
                            : jinja_part(run, s, 0, s->length - p->length, out);
}

METHOD(string_removeprefix) { return remove_side(run, self, a[0], JINJA_LEFT, out); }
METHOD(string_removesuffix) { return remove_side(run, self, a[0], JINJA_RIGHT, out); }

METHOD(string_replace) {
  const struct jinja_string *old, *new;
  int64_t most;
  TRY(jinja_take_string(run, a[0], "replace", &old));
  TRY(jinja_take_string(run, a[1], "replace", &new));
  TRY(jinja_take_int(run, a[2], -1, "replace", &most));
  return jinja_replace(run, self.string, old, new, most, out);
}

METHOD(string_join) {
  const struct jinja_list *list;
  TRY(jinja_iterate(run, a[0], &list));
  for (size_t i = 0; i < list->count; i++) {
    const struct jinja_string *item;
    TRY(jinja_take_string(run, list->items[i], "join", &item));
  }
  return jinja_join(run, self.string, list, out);
}

static neap_status find_side(struct jinja_run *run, struct jinja_value self, const struct jinja_value *a,
                             int side, struct jinja_value *out) {
  const struct jinja_string *part;
  TRY(jinja_take_string(run, a[0], "find", &part));
  const size_t at = jinja_find(self.string, part, side);
  const struct jinja_string before = {.bytes = self.string->bytes, .length = at != SIZE_MAX ? at : 0};
  *out = jinja_int(at != SIZE_MAX ? jinja_length(&before) : -1);
  return NEAP_OK;
}

METHOD(string_find) { return find_side(run, self, a, JINJA_LEFT, out); }
METHOD(string_rfind) { return find_side(run, self, a, JINJA_RIGHT, out); }

METHOD(string_count) {
  const struct jinja_string *part;
  TRY(jinja_take_string(run, a[0], "count", &part));
  *out = jinja_int(jinja_occurrences(self.string, part));
  return NEAP_OK;
}

METHOD(string_upper) {
  (void)a;
  return jinja_change_case(run, self.string, JINJA_UPPER, false, out);
}
METHOD(string_lower) {
  (void)a;
  return jinja_change_case(run, self.string, JINJA_LOWER, false, out);
}
METHOD(string_title) {
  (void)a;
  return jinja_change_case(run, self.string, JINJA_TITLE, false, out);
}
METHOD(string_capitalize) {
  (void)a;
  return jinja_change_case(run, self.string, JINJA_CAPITALIZE, false, out);
}

/* Test all characters of a string that has some; of ASCII. */
static neap_status all_are(struct jinja_run *run, struct jinja_value self, int (*is)(int),
                           struct jinja_value *out) {
  const struct jinja_string *s = self.string;
  *out = jinja_bool(s->length > 0);
  for (size_t i = 0; i < s->length; i++) {
    if ((unsigned char)s->bytes[i] >= 0x80)
      return JINJA_FAIL(run, NEAP_UNSUPPORTED, "the class of characters beyond ASCII is not known");
    out->truth = out->truth && is((unsigned char)s->bytes[i]);
  }
  return NEAP_OK;
}

METHOD(string_isdigit) {
  (void)a;
  return all_are(run, self, isdigit, out);
}
METHOD(string_isalpha) {
  (void)a;
  return all_are(run, self, isalpha, out);
}
METHOD(string_isalnum) {
  (void)a;
  return all_are(run, self, isalnum, out);
}
METHOD(string_isspace) {
  (void)a, (void)run;
  const size_t length = self.string->length;
  *out = jinja_bool(length > 0 && jinja_space_at_begin(self.string->bytes, length) == length);
  return NEAP_OK;
}

static neap_status list_fields(struct jinja_run *run, const struct jinja_dict *dict, bool keys, bool values,
                               struct jinja_value *out) {
  TRY(jinja_new_list(run, JINJA_IN_VIEW, dict->count, out));
  for (size_t i = 0; i < dict->count; i++) {
    struct jinja_value *item = &out->list->items[i];
    *item = keys ? dict->pairs[i].key : dict->pairs[i].value;
    if (!keys || !values) continue;
    TRY(jinja_new_list(run, JINJA_IN_TUPLE, 2, item));
    item->list->items[0] = dict->pairs[i].key;
    item->list->items[1] = dict->pairs[i].value;
  }
  return NEAP_OK;
}

METHOD(dict_items) {
  (void)a;
  return list_fields(run, self.dict, true, true, out);
}
METHOD(dict_keys) {
  (void)a;
  return list_fields(run, self.dict, true, false, out);
}
METHOD(dict_values) {
  (void)a;
  return list_fields(run, self.dict, false, true, out);
}

METHOD(dict_get) {
  struct jinja_value *field;
  TRY(jinja_dict_find(run, self.dict, a[0], &field));
  *out = field != NULL ? *field : jinja_is_missing(a[1]) ? jinja_none() : a[1];
  return NEAP_OK;
}

METHOD(list_count) {
  int64_t count = 0;
  for (size_t i = 0; i < self.list->count; i++) {
    bool equal;
    TRY(jinja_equal(run, self.list->items[i], a[0], &equal));
    count += equal;
  }
  *out = jinja_int(count);
  return NEAP_OK;
}

METHOD(list_index) {
  for (size_t i = 0; i < self.list->count; i++) {
    bool equal;
    TRY(jinja_equal(run, self.list->items[i], a[0], &equal));
    *out = jinja_int((int64_t)i);
    if (equal) return NEAP_OK;
  }
  return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "the list does not have what is looked for");
}

static const struct method {
  enum jinja_kind of;
  const char *name, *parameters;
  int least; /* arguments that are needed */
  method_function *call;
} methods[] = {{JINJA_STRING, "strip", "chars", 0, string_strip},
               {JINJA_STRING, "lstrip", "chars", 0, string_lstrip},
               {JINJA_STRING, "rstrip", "chars", 0, string_rstrip},
               {JINJA_STRING, "split", "sep maxsplit", 0, string_split},
               {JINJA_STRING, "rsplit", "sep maxsplit", 0, string_rsplit},
               {JINJA_STRING, "splitlines", "keepends", 0, string_splitlines},
               {JINJA_STRING, "startswith", "prefix", 1, string_startswith},
               {JINJA_STRING, "endswith", "suffix", 1, string_endswith},
               {JINJA_STRING, "removeprefix", "prefix", 1, string_removeprefix},
               {JINJA_STRING, "removesuffix", "suffix", 1, string_removesuffix},
               {JINJA_STRING, "replace", "old new count", 2, string_replace},
               {JINJA_STRING, "join", "iterable", 1, string_join},
               {JINJA_STRING, "find", "sub", 1, string_find},
               {JINJA_STRING, "rfind", "sub", 1, string_rfind},
               {JINJA_STRING, "count", "sub", 1, string_count},
               {JINJA_STRING, "upper", "", 0, string_upper},
               {JINJA_STRING, "lower", "", 0, string_lower},
               {JINJA_STRING, "title", "", 0, string_title},
               {JINJA_STRING, "capitalize", "", 0, string_capitalize},
               {JINJA_STRING, "isdigit", "", 0, string_isdigit},
               {JINJA_STRING, "isalpha", "", 0, string_isalpha},
               {JINJA_STRING, "isalnum", "", 0, string_isalnum},
               {JINJA_STRING, "isspace", "", 0, string_isspace},
               {JINJA_DICT, "items", "", 0, dict_items},
               {JINJA_DICT, "keys", "", 0, dict_keys},
               {JINJA_DICT, "values", "", 0, dict_values},
               {JINJA_DICT, "get", "key default", 1, dict_get},
               {JINJA_LIST, "count", "value", 1, list_count},
               {JINJA_LIST, "index", "value", 1, list_index}};
enum { METHODS = sizeof methods / sizeof *methods };

/* Other names that Python's values have: their use is refused, and not taken for undefined. */
static const char *const others[] = {
    [JINJA_BOOL] = "as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag is_integer "
                   "numerator real "
                   "to_bytes",
    [JINJA_INT] = "as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag is_integer "
                  "numerator real "
                  "to_bytes",
    [JINJA_FLOAT] = "as_integer_ratio conjugate fromhex hex imag is_integer real",
    [JINJA_STRING] =
        "casefold center encode expandtabs format format_map index isascii isdecimal isidentifier islower "
        "isnumeric isprintable istitle isupper ljust maketrans partition rindex rjust rpartition swapcase "
        "translate zfill",
    [JINJA_LIST] =
        "append clear copy extend insert pop remove reverse sort start stop step isdisjoint mapping close "
        "send throw gi_code gi_frame gi_running gi_suspended gi_yieldfrom",
    [JINJA_DICT] = "clear copy fromkeys pop popitem setdefault update",
    [JINJA_FUNCTION] = "",
};

static const struct method *find_method(struct jinja_value self, const char *name) {
  if (self.kind == JINJA_LIST && self.list->form > JINJA_IN_RANGE) return NULL;
  for (int i = 0; i < METHODS; i++)
    if (methods[i].of == self.kind && strcmp(methods[i].name, name) == 0) return &methods[i];
  return NULL;
}

neap_status jinja_call_method(struct jinja_run *run, const struct jinja_function *f,
                              struct jinja_arguments given, struct jinja_value *out) {
  struct jinja_value bound[JINJA_PARAMETERS];
  const struct method *m = find_method(f->self, f->name);
  TRY(jinja_bind(run, m->name, given, m->parameters, bound));
  for (int i = 0; i < m->least; i++)
    if (jinja_is_missing(bound[i]))
      return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "'%s' needs an argument", m->name);
  return m->call(run, f->self, bound, out);
}

/* ---- Fields ---- */

/* Gives a field of `loop`. */
static neap_status loop_attribute(struct jinja_run *run, struct jinja_value value, const char *name,
                                  struct jinja_value *out) {
  static const char *const names[] = {"index",  "index0", "revindex", "revindex0",
                                      "length", "depth",  "depth0"};
  const struct jinja_function *f = value.function;
  const size_t count = f->items->count;
  const int64_t at = (int64_t)f->index, left = (int64_t)(count - f->index);
  const int64_t numbers[] = {at + 1, at, left, left - 1, (int64_t)count, 1, 0};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) {
      *out = jinja_int(numbers[i]);
      return NEAP_OK;
    }
  if (strcmp(name, "first") == 0 || strcmp(name, "last") == 0) {
    *out = jinja_bool(*name == 'f' ? at == 0 : left == 1);
    return NEAP_OK;
  }
  if (strcmp(name, "previtem") == 0 || strcmp(name, "nextitem") == 0) {
    const bool previous = *name == 'p';
    *out = previous   ? at > 0 ? f->items->items[at - 1] : jinja_undefined("there is no previous item")
             : left > 1 ? f->items->items[at + 1]
                      : jinja_undefined("there is no next item");
    return NEAP_OK;
  }
  if (strcmp(name, "cycle") != 0)
    return JINJA_FAIL(run, NEAP_UNSUPPORTED, "'loop.%.60s' is not supported", name);
  struct jinja_function *cycle;
  TRY(jinja_alloc(run, 1, sizeof *cycle, &cycle));
  *cycle = *f;
  cycle->name = "cycle";
  cycle->type = JINJA_A_METHOD;
  *out = (struct jinja_value){.kind = JINJA_FUNCTION, .function = cycle};
  return NEAP_OK;
}

neap_status jinja_attribute(struct jinja_run *run, struct jinja_value value, const char *name,
                            struct jinja_value *out) {
  const bool function = value.kind == JINJA_FUNCTION;
  if (value.kind == JINJA_UNDEFINED)
    return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "'%.100s' is undefined",
                      value.name != NULL ? value.name : "this");
  if (function && value.function->type == JINJA_A_LOOP) return loop_attribute(run, value, name, out);
  if (find_method(value, name) != NULL) {
    struct jinja_function *f;
    TRY(jinja_alloc(run, 1, sizeof *f, &f));
    *f = (struct jinja_function){.type = JINJA_A_METHOD, .name = name, .self = value};
    *out = (struct jinja_value){.kind = JINJA_FUNCTION, .function = f};
    return NEAP_OK;
  }
  const bool known = function || strncmp(name, "__", 2) == 0 ||
                     ((size_t)value.kind < sizeof others / sizeof *others && others[value.kind] != NULL &&
                      find_word(others[value.kind], name) >= 0);
  if (known)
    return JINJA_FAIL(run, NEAP_UNSUPPORTED, "'%.60s' of a %s is not supported", name,
                      jinja_type_name(value));
  *out = jinja_undefined(name);
  if (value.kind == JINJA_DICT || value.kind == JINJA_NAMESPACE) {
    const struct jinja_value *field = jinja_dict_field(value.dict, name);
    if (field != NULL) *out = *field;
  }
  return NEAP_OK;
}

/* Gives an item by its place; `at` may count from the end. */
static neap_status item_at(struct jinja_run *run, struct jinja_value value, int64_t at,
                           struct jinja_value *out) {
  if (value.kind == JINJA_STRING) {
    const int64_t length = jinja_length(value.string);
    if (at < 0) at += length;
    if (at < 0 || at >= length) return NEAP_OK;
    return jinja_part(run, value.string, jinja_offset(value.string, at), jinja_offset(value.string, at + 1),
                      out);
  }
  if (value.kind != JINJA_LIST || value.list->form > JINJA_IN_RANGE) return NEAP_OK;
  const int64_t length = (int64_t)value.list->count;
  if (at < 0) at += length;
  if (at >= 0 && at < length) *out = value.list->items[at];
  return NEAP_OK;
}

neap_status jinja_index(struct jinja_run *run, struct jinja_value value, struct jinja_value key,
                        struct jinja_value *out) {
  struct jinja_value *field = NULL;
  if (value.kind == JINJA_UNDEFINED) return jinja_attribute(run, value, "", out);
  if (value.kind == JINJA_DICT && key.kind != JINJA_LIST && key.kind < JINJA_DICT) {
    TRY(jinja_dict_find(run, value.dict, key, &field));
    if (field != NULL) *out = *field;
    if (field != NULL) return NEAP_OK;
  }
  if (key.kind == JINJA_STRING) {
    const char *name = region_format(&run->region, "%.*s", (int)key.string->length, key.string->bytes);
    RETURN_IF_NULL(name);
    return jinja_attribute(run, value, name, out);
  }
  *out = jinja_undefined("this item");
  if (key.kind == JINJA_INT) return item_at(run, value, key.integer, out);
  return key.kind == JINJA_BOOL ? item_at(run, value, key.truth, out) : NEAP_OK;
}

/* Settles a slice of `length` items as Python does. */
static neap_status settle_slice(struct jinja_run *run, const struct jinja_value bounds[3], int64_t length,
                                int64_t *start, int64_t *stop, int64_t *step) {
  int64_t at[3];
  for (int i = 0; i < 3; i++)
    if (bounds[i].kind != JINJA_NONE) TRY(jinja_take_int(run, bounds[i], 0, "slice", &at[i]));
  *step = bounds[2].kind != JINJA_NONE ? at[2] : 1;
  if (*step == 0) return JINJA_FAIL(run, NEAP_INVALID_ARGUMENT, "the step of a slice is 0");
  const int64_t least = *step > 0 ? 0 : -1, most = *step > 0 ? length : length - 1;
  for (int i = 0; i < 2; i++) {
    if (bounds[i].kind == JINJA_NONE)
      at[i] = (i == 0) == (*step > 0) ? least : most;
    else if (at[i] < 0)
      at[i] = at[i] < -length + least ? least : at[i] + length;
    if (at[i] < least) at[i] = least;
    if (at[i] > most) at[i] = most;
  }
  *start = at[0];
  *stop = at[1];
  return NEAP_OK;
}

static neap_status slice_string(struct jinja_run *run, const struct jinja_string *s, int64_t start,
                                int64_t stop, int64_t step, struct jinja_value *out) {
  struct jinja_builder b = {.run = run};
  struct jinja_value all;
  if (step == 1) {
    const size_t begin = jinja_offset(s, start);
    return jinja_part(run, s, begin, stop > start ? jinja_offset(s, stop) : begin, out);
  }
  TRY(jinja_characters(run, s, &all));
  for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step)
    TRY(jinja_put_string(&b, all.list->items[i].string));
  return jinja_built(&b, out);
}

neap_status jinja_slice(struct jinja_run *run, struct jinja_value value, const struct jinja_value bounds[3],
                        struct jinja_value *out) {
  int64_t start, stop, step, count = 0;
  const bool string = value.kind == JINJA_STRING;
  if (!string && (value.kind != JINJA_LIST || value.list->form > JINJA_IN_RANGE))
    return JINJA_FAIL(run, NEAP_UNSUPPORTED, "%s has no slices", jinja_type_name(value));
  TRY(settle_slice(run, bounds, string ? jinja_length(value.string) : (int64_t)value.list->count, &start,
                   &stop, &step));
  /* No place is that far away, and sums stay within 64 bits. */
  if (step > INT32_MAX) step = INT32_MAX;
  if (step < -INT32_MAX) step = -INT32_MAX;
  if (string) return slice_string(run, value.string, start, stop, step, out);
  for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) count++;
  TRY(jinja_new_list(run, value.list->form, (size_t)count, out));
  for (int64_t i = 0; i < count; i++) out->list->items[i] = value.list->items[start + i * step];
  return NEAP_OK;
}
