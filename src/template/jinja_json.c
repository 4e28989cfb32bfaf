#include "template/jinja_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/utf8.h"

struct writer {
  struct jinja_builder b;
  const struct jinja_json_form *form;
  int level;
};

static neap_status put_text(struct writer *w, const char *text) {
  return jinja_put(&w->b, text, strlen(text));
}

static neap_status put_string(struct writer *w, const struct jinja_string *s) {
  static const char escaped[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
  TRY(put_text(w, "\""));
  for (size_t at = 0; at < s->length;) {
    char text[16];
    uint32_t code;
    const size_t step = (size_t)utf8_decode(s->bytes + at, s->length - at, &code);
    const char *found = code != 0 && code < 128 ? strchr(escaped, (int)code) : NULL;
    if (found != NULL)
      snprintf(text, sizeof text, "\\%c", letters[found - escaped]);
    else if (code < 0x20 || (w->form->ascii && code >= 0x80 && code < 0x10000))
      snprintf(text, sizeof text, "\\u%04x", (unsigned)code);
    else if (w->form->ascii && code >= 0x10000)
      snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD800U + ((code - 0x10000) >> 10),
               0xDC00U + ((code - 0x10000) & 0x3FF));
    else
      *text = '\0';
    TRY(*text != '\0' ? jinja_put_changed(&w->b, s, at, at + step, text, strlen(text))
                      : jinja_put_part(&w->b, s, at, at + step));
    at += step;
  }
  if (s->length == 0) TRY(jinja_put_string(&w->b, s));
  return put_text(w, "\"");
}

/* Begins item `index` of a list or a dict, or ends it (`index` below 0). */
static neap_status put_between(struct writer *w, int64_t index) {
  const struct jinja_string *indent = w->form->indent, *item = w->form->item;
  if (index > 0) TRY(item != NULL ? jinja_put_string(&w->b, item) : put_text(w, indent != NULL ? "," : ", "));
  if (indent == NULL) return NEAP_OK;
  TRY(put_text(w, "\n"));
  for (int i = 0; i < w->level; i++) TRY(jinja_put_string(&w->b, indent));
  return NEAP_OK;
}

static neap_status put_value(struct writer *w, struct jinja_value value);

static neap_status put_list(struct writer *w, const struct jinja_list *list) {
  if (list->form > JINJA_IN_TUPLE)
    return JINJA_FAIL(w->b.run, NEAP_INVALID_ARGUMENT, "a range, a view or a generator is no JSON");
  if (list->count == 0) return put_text(w, "[]");
  TRY(put_text(w, "["));
  w->level++;
  for (size_t i = 0; i < list->count; i++) {
    TRY(put_between(w, (int64_t)i));
    TRY(put_value(w, list->items[i]));
  }
  w->level--;
  TRY(put_between(w, -1));
  return put_text(w, "]");
}

static neap_status put_key(struct writer *w, struct jinja_value key) {
  if (key.kind == JINJA_STRING) {
    TRY(put_string(w, key.string));
  } else {
    TRY(put_text(w, "\""));
    TRY(put_value(w, key));
    TRY(put_text(w, "\""));
  }
  return w->form->pair != NULL ? jinja_put_string(&w->b, w->form->pair) : put_text(w, ": ");
}

static int compare_keys(const void *a, const void *b) {
  const struct jinja_string *x = ((const struct jinja_pair *)a)->key.string,
                            *y = ((const struct jinja_pair *)b)->key.string;
  const int first = memcmp(x->bytes, y->bytes, x->length < y->length ? x->length : y->length);
  return first != 0 ? first : (x->length > y->length) - (x->length < y->length);
}

static neap_status sort_pairs(struct writer *w, const struct jinja_dict *dict, struct jinja_pair **pairs) {
  TRY(jinja_alloc(w->b.run, dict->count, sizeof **pairs, pairs));
  memcpy(*pairs, dict->pairs, dict->count * sizeof **pairs);
  for (size_t i = 0; i < dict->count; i++)
    if (dict->pairs[i].key.kind != JINJA_STRING)
      return JINJA_FAIL(w->b.run, NEAP_UNSUPPORTED, "only keys that are strings are sorted");
  qsort(*pairs, dict->count, sizeof **pairs, compare_keys);
  return NEAP_OK;
}

static neap_status put_dict(struct writer *w, const struct jinja_dict *dict) {
  struct jinja_pair *pairs = dict->pairs;
  if (dict->count == 0) return put_text(w, "{}");
  if (w->form->sorted) TRY(sort_pairs(w, dict, &pairs));
  TRY(put_text(w, "{"));
  w->level++;
  for (size_t i = 0; i < dict->count; i++) {
    TRY(put_between(w, (int64_t)i));
    TRY(put_key(w, pairs[i].key));
    TRY(put_value(w, pairs[i].value));
  }
  w->level--;
  TRY(put_between(w, -1));
  return put_text(w, "}");
}

static neap_status put_deep(struct writer *w, struct jinja_value value) {
  TRY(jinja_enter(w->b.run));
  const neap_status status = value.kind == JINJA_LIST ? put_list(w, value.list) : put_dict(w, value.dict);
  jinja_leave(w->b.run);
  return status;
}

static neap_status put_value(struct writer *w, struct jinja_value value) {
  switch (value.kind) {
  case JINJA_NONE:
    return put_text(w, "null");
  case JINJA_BOOL:
    return put_text(w, value.truth ? "true" : "false");
  case JINJA_INT:
    return jinja_print(&w->b, value);
  case JINJA_FLOAT:
    if (isfinite(value.real)) return jinja_put_real(&w->b, value.real);
    return put_text(w, isnan(value.real) ? "NaN" : value.real > 0 ? "Infinity" : "-Infinity");
  case JINJA_STRING:
    return put_string(w, value.string);
  case JINJA_LIST:
  case JINJA_DICT:
    return put_deep(w, value);
  case JINJA_UNDEFINED:
  case JINJA_NAMESPACE:
  case JINJA_FUNCTION:
    break;
  }
  return JINJA_FAIL(w->b.run, NEAP_INVALID_ARGUMENT, "%s is no JSON", jinja_type_name(value));
}

neap_status jinja_json(struct jinja_run *run, struct jinja_value value, const struct jinja_json_form *form,
                       struct jinja_value *out) {
  struct writer w = {.b.run = run, .form = form};
  TRY(put_value(&w, value));
  return jinja_built(&w.b, out);
}
