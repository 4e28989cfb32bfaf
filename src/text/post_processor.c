#include "text/post_processor.h"

#include <stdio.h>
#include <string.h>

#include "text/step.h"

enum { NESTED_MOST = 16 };

static neap_status take_id(const json_t *id, const struct json_place *place, const char *name, int32_t size,
                           struct token_ids *ids) {
  if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= size)
    return json_bad_field(place, name, "must have ids of the vocabulary");
  return vector_push(ids, (int32_t)json_integer_value(id));
}

/* Inserts ids before the existing ones. */
static neap_status put_before(struct token_ids *ids, const struct token_ids *added) {
  TRY(vector_reserve(ids, ids->count + added->count));
  if (ids->count > 0) memmove(ids->data + added->count, ids->data, ids->count * sizeof *ids->data);
  if (added->count > 0) memcpy(ids->data, added->data, added->count * sizeof *ids->data);
  ids->count += added->count;
  return NEAP_OK;
}

static neap_status put_behind(struct token_ids *ids, const struct token_ids *added) {
  for (size_t i = 0; i < added->count; i++) TRY(vector_push(ids, added->data[i]));
  return NEAP_OK;
}

/* Reads ["[SEP]", 102] for after the text and ["[CLS]", 101] for before it. */
static neap_status read_pair(const json_t *object, const struct json_place *place, int32_t size,
                             struct post_processor *added) {
  TRY(take_id(json_array_get(json_object_get(object, "cls"), 1), place, "cls", size, &added->before));
  return take_id(json_array_get(json_object_get(object, "sep"), 1), place, "sep", size, &added->behind);
}

static neap_status read_special(const json_t *object, const struct json_place *place, const json_t *token,
                                int32_t size, struct token_ids *ids) {
  const char *name = json_string_value(json_object_get(token, "id"));
  const json_t *list =
      json_object_get(json_object_get(json_object_get(object, "special_tokens"), name), "ids");
  const json_t *id;
  size_t i;
  if (name == NULL || !json_is_array(list))
    return json_bad_field(place, "special_tokens", "must have the tokens of the template");
  json_array_foreach(list, i, id) TRY(take_id(id, place, "special_tokens", size, ids));
  return NEAP_OK;
}

static neap_status read_template(const json_t *object, const struct json_place *place, int32_t size,
                                 struct post_processor *added) {
  json_t *list, *part;
  size_t i;
  int texts = 0;
  TRY(json_need_array(object, "single", place, &list));
  json_array_foreach(list, i, part) {
    const json_t *special = json_object_get(part, "SpecialToken");
    if (special == NULL) {
      const char *id = json_string_value(json_object_get(json_object_get(part, "Sequence"), "id"));
      if (id == NULL || strcmp(id, "A") != 0 || ++texts > 1)
        return step_refuse(place, "single", "no text A or several", "use a template with the text A once");
      continue;
    }
    TRY(read_special(object, place, special, size, texts == 0 ? &added->before : &added->behind));
  }
  if (texts == 0) return step_refuse(place, "single", "no text A", "use a template with the text A once");
  return NEAP_OK;
}

static neap_status parse(const json_t *object, const struct json_place *place, int32_t size, int depth,
                         struct post_processor *post);

static neap_status parse_sequence(const json_t *object, const struct json_place *place, int32_t size,
                                  int depth, struct post_processor *post) {
  json_t *list, *part;
  size_t i;
  if (depth == NESTED_MOST) return json_bad(place, "has too many nested sequences");
  TRY(json_need_array(object, "processors", place, &list));
  json_array_foreach(list, i, part) {
    char name[40];
    snprintf(name, sizeof name, "processors[%zu]", i);
    const struct json_place inner = step_place(place, name);
    TRY(parse(part, &inner, size, depth + 1, post));
  }
  return NEAP_OK;
}

static neap_status parse(const json_t *object, const struct json_place *place, int32_t size, int depth,
                         struct post_processor *post) {
  static const struct {
    const char *type;
    neap_status (*read)(const json_t *, const struct json_place *, int32_t, struct post_processor *);
  } rows[] = {{"TemplateProcessing", read_template},
              {"BertProcessing", read_pair},
              {"RobertaProcessing", read_pair},
              {"ByteLevel", NULL}};
  const char *type;
  if (object == NULL || json_is_null(object)) return NEAP_OK;
  if (!json_is_object(object)) return json_bad(place, "must be an object or null");
  TRY(json_need_string(object, "type", place, &type));
  if (strcmp(type, "Sequence") == 0) return parse_sequence(object, place, size, depth, post);
  size_t row = 0;
  while (row < sizeof rows / sizeof *rows && strcmp(rows[row].type, type) != 0) row++;
  if (row == sizeof rows / sizeof *rows)
    return step_refuse(place, "type", type, "use a tokenizer with another post-processor");
  if (rows[row].read == NULL) return NEAP_OK;
  struct post_processor added = {0};
  neap_status status = rows[row].read(object, place, size, &added);
  if (status == NEAP_OK) status = put_before(&post->before, &added.before);
  if (status == NEAP_OK) status = put_behind(&post->behind, &added.behind);
  post_processor_free(&added);
  return status;
}

neap_status post_processor_parse(const json_t *object, const struct json_place *place, int32_t size,
                                 struct post_processor *post) {
  *post = (struct post_processor){0};
  return parse(object, place, size, 0, post);
}

void post_processor_free(struct post_processor *post) {
  vector_free(&post->before);
  vector_free(&post->behind);
}
