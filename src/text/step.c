#include "text/step.h"

#include <stdio.h>
#include <string.h>

enum { NESTED_MOST = 16 };

struct json_place step_place(const struct json_place *place, const char *name) {
  struct json_place inner = {.file = place->file};
  snprintf(inner.path, sizeof inner.path, "%.60s%s%.60s", place->path,
           place->path[0] != '\0' && name[0] != '[' ? "." : "", name);
  return inner;
}

neap_status step_refuse(const struct json_place *place, const char *name, const char *got,
                        const char *remedy) {
  const struct json_place inner = step_place(place, name);
  return neap_fail(NEAP_UNSUPPORTED, "%s: field '%s': is not supported (got %.100s); %s", place->file,
                   inner.path, got, remedy);
}

neap_status step_flag(const json_t *object, const char *name, const struct json_place *place, bool *out) {
  const json_t *value = json_object_get(object, name);
  if (value == NULL || json_is_null(value)) return NEAP_OK;
  if (!json_is_boolean(value)) return json_bad_field(place, name, "must be true or false");
  *out = json_is_true(value);
  return NEAP_OK;
}

neap_status step_text(const json_t *object, const char *name, const struct json_place *place, bool optional,
                      char **text, size_t *length) {
  const json_t *value = json_object_get(object, name);
  *text = NULL;
  *length = 0;
  if (optional && (value == NULL || json_is_null(value))) return NEAP_OK;
  if (!json_is_string(value)) return json_bad_field(place, name, "must be a string");
  const size_t bytes = json_string_length(value);
  char *copy = malloc(bytes + 1);
  RETURN_IF_NULL(copy);
  memcpy(copy, json_string_value(value), bytes + 1);
  *text = copy;
  *length = bytes;
  return NEAP_OK;
}

neap_status step_pattern(const json_t *object, const struct json_place *place, struct expression **out) {
  const json_t *value = json_object_get(object, "pattern");
  const json_t *regex = json_object_get(value, "Regex"), *string = json_object_get(value, "String");
  if (json_is_string(value)) string = value;
  const json_t *given = string != NULL ? string : regex;
  if (!json_is_string(given))
    return json_bad_field(place, "pattern", "must be {\"Regex\": text} or {\"String\": text}");
  const neap_status status =
      expression_compile(json_string_value(given), json_string_length(given), given == string, out);
  if (status == NEAP_OK || status == NEAP_OUT_OF_MEMORY) return status;
  char reason[200];
  snprintf(reason, sizeof reason, "it needs a pattern that PCRE2 takes: %.150s", neap_error_message());
  return step_refuse(place, "pattern", json_string_value(given), reason);
}

neap_status steps_add(struct steps *steps, struct step step) {
  const neap_status status = vector_push(&steps->list, step);
  if (status == NEAP_OK) return status;
  expression_free(step.pattern);
  free(step.text);
  return status;
}

void steps_free(struct steps *steps) {
  for (size_t i = 0; i < steps->list.count; i++) {
    expression_free(steps->list.data[i].pattern);
    free(steps->list.data[i].text);
  }
  vector_free(&steps->list);
}

static neap_status parse(const struct step_family *family, const json_t *object,
                         const struct json_place *place, int depth, struct steps *steps) {
  const char *type;
  if (object == NULL || json_is_null(object)) return NEAP_OK;
  if (!json_is_object(object)) return json_bad(place, "must be an object or null");
  TRY(json_need_string(object, "type", place, &type));
  for (size_t i = 0; i < family->count; i++)
    if (strcmp(family->rows[i].type, type) == 0) return family->rows[i].parse(object, place, steps);
  if (strcmp(type, "Sequence") != 0)
    return step_refuse(place, "type", type, "use a tokenizer with other components");
  if (depth == NESTED_MOST) return json_bad(place, "has too many nested sequences");
  json_t *list, *part;
  size_t i;
  TRY(json_need_array(object, family->sequence, place, &list));
  json_array_foreach(list, i, part) {
    char name[80];
    snprintf(name, sizeof name, "%s[%zu]", family->sequence, i);
    const struct json_place inner = step_place(place, name);
    TRY(parse(family, part, &inner, depth + 1, steps));
  }
  return NEAP_OK;
}

neap_status steps_parse(const struct step_family *family, const json_t *object,
                        const struct json_place *place, struct steps *steps) {
  return parse(family, object, place, 0, steps);
}
