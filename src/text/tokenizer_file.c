#include "text/tokenizer_file.h"

#include <string.h>

#include "formats/json.h"
#include "text/pipeline.h"

static const char format[] = "neap-tokenizer";
static const char *const kinds[] = {[TOKENIZER_BYTES] = "bytes",
                                    [TOKENIZER_BYTE_PAIRS] = "byte-pairs",
                                    [TOKENIZER_CHARACTERS] = "characters",
                                    [TOKENIZER_PIPELINE] = "tokenizer.json"};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- Writing ---- */

/* Adds a new array to an object; frees it if that fails. */
static bool add_array(json_t *object, const char *name, json_t **array) {
  *array = json_array();
  return *array != NULL && json_object_set_new(object, name, *array) == 0;
}

static bool add_content(const struct tokenizer *tokenizer, json_t *object) {
  json_t *list;
  bool good = json_object_set_new(object, "kind", json_string(kinds[tokenizer->kind])) == 0;
  if (tokenizer->kind == TOKENIZER_BYTE_PAIRS) {
    good = good && add_array(object, "merges", &list);
    for (size_t i = 0; good && i < tokenizer->bpe.merges.pairs.count; i++) {
      const struct pair pair = tokenizer->bpe.merges.pairs.data[i];
      good = json_array_append_new(list, json_integer(pair.left)) == 0 &&
             json_array_append_new(list, json_integer(pair.right)) == 0;
    }
  }
  if (tokenizer->kind == TOKENIZER_CHARACTERS) {
    good = good && add_array(object, "characters", &list);
    for (size_t i = 0; good && i < tokenizer->characters.count; i++)
      good = json_array_append_new(list, json_integer(tokenizer->characters.data[i])) == 0;
  }
  good = good && add_array(object, "special", &list);
  for (size_t i = 0; good && i < tokenizer->special.count; i++)
    good = json_array_append_new(list, json_string(tokenizer->special.data[i])) == 0;
  return good;
}

/* Adds the content of a tokenizer of others, and the tokens that begin and end a text. */
static neap_status add_pipeline(const struct pipeline *pipeline, json_t *object) {
  json_t *content;
  TRY(pipeline_to_json(pipeline, &content));
  bool good = json_object_set_new(object, "content", content) == 0;
  if (pipeline->bos >= 0) good = good && json_object_set_new(object, "bos", json_integer(pipeline->bos)) == 0;
  if (pipeline->eos >= 0) good = good && json_object_set_new(object, "eos", json_integer(pipeline->eos)) == 0;
  RETURN_IF(!good, NEAP_OUT_OF_MEMORY, "out of memory for a tokenizer");
  return NEAP_OK;
}

neap_status tokenizer_to_json(const struct tokenizer *tokenizer, json_t **out) {
  json_t *object = json_object();
  const bool good = object != NULL && add_content(tokenizer, object);
  if (good && (tokenizer->pipeline == NULL || add_pipeline(tokenizer->pipeline, object) == NEAP_OK)) {
    *out = object;
    return NEAP_OK;
  }
  json_decref(object);
  return neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a tokenizer of %d tokens",
                   tokenizer_size(tokenizer));
}

neap_status tokenizer_save(const struct tokenizer *tokenizer, const char *path) {
  json_t *content;
  TRY(tokenizer_to_json(tokenizer, &content));
  json_t *object = json_pack("{s:s, s:i}", "format", format, "version", 1);
  const bool good = object != NULL && json_object_update(object, content) == 0;
  const neap_status status =
      good ? json_write(object, path) : neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  json_decref(content);
  json_decref(object);
  return status;
}

/* ---- Reading ---- */

/* Reads the numbers of a list, for the caller to free, and their count. */
static neap_status read_numbers(const json_t *object, const char *name, const struct json_place *place,
                                int32_t **numbers, size_t *count) {
  json_t *list;
  TRY(json_need_array(object, name, place, &list));
  *count = json_array_size(list);
  *numbers = calloc(*count + 1, sizeof **numbers);
  RETURN_IF_NULL(*numbers);
  return json_to_ids(list, name, place, 0, *numbers);
}

/* Names the element that is wrong, with the last message's reason, unless memory is out. */
static neap_status blame(neap_status status, const struct json_place *place, const char *name, size_t i) {
  if (status != NEAP_INVALID_ARGUMENT) return status;
  char field[80];
  snprintf(field, sizeof field, "%.40s[%zu]", name, i);
  return json_bad_field(place, field, neap_error_message());
}

static neap_status read_merges(const json_t *object, const struct json_place *place, struct tokenizer **out) {
  int32_t *ids = NULL;
  struct pair *merges = NULL;
  size_t count, bad = 0;
  neap_status status;
  TRY_DONE(read_numbers(object, "merges", place, &ids, &count));
  if (count % 2 != 0) TRY_DONE(json_bad_field(place, "merges", "must be pairs of ids, one after the other"));
  merges = calloc(count / 2 + 1, sizeof *merges);
  if (merges == NULL) TRY_DONE(neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", place->file));
  for (size_t i = 0; i < count / 2; i++) merges[i] = (struct pair){ids[2 * i], ids[2 * i + 1]};
  status = tokenizer_from_merges(merges, count / 2, &bad, out);
  status = blame(status, place, "merges", 2 * bad);
done:
  free(merges);
  free(ids);
  return status;
}

static neap_status read_characters(const json_t *object, const struct json_place *place,
                                   struct tokenizer **out) {
  int32_t *codes = NULL;
  size_t count, bad = 0;
  neap_status status;
  TRY_DONE(read_numbers(object, "characters", place, &codes, &count));
  status = tokenizer_from_code_points(codes, count, &bad, out);
  status = blame(status, place, "characters", bad);
done:
  free(codes);
  return status;
}

static neap_status read_end(const json_t *object, const char *name, const struct json_place *place,
                            int32_t size, int32_t *id) {
  uint64_t number;
  if (json_object_get(object, name) == NULL) return NEAP_OK;
  TRY(json_need_size(object, name, place, &number));
  if (number >= (uint64_t)size) return json_bad_field(place, name, "must be an id of the vocabulary");
  *id = (int32_t)number;
  return NEAP_OK;
}

static neap_status read_pipeline(const json_t *object, const struct json_place *place,
                                 struct tokenizer **out) {
  json_t *content;
  struct pipeline *pipeline;
  TRY(json_need(object, "content", place, &content));
  TRY(pipeline_create(content, place->file, &pipeline));
  neap_status status = read_end(object, "bos", place, pipeline->size, &pipeline->bos);
  if (status == NEAP_OK) status = read_end(object, "eos", place, pipeline->size, &pipeline->eos);
  if (status == NEAP_OK) return tokenizer_from_pipeline(pipeline, out);
  pipeline_free(pipeline);
  return status;
}

static neap_status read_special(const json_t *object, const struct json_place *place,
                                struct tokenizer *tokenizer) {
  json_t *list, *name;
  size_t i;
  int32_t id;
  TRY(json_need_array(object, "special", place, &list));
  json_array_foreach(list, i, name) {
    const char *text = json_string_value(name);
    const neap_status status = text != NULL ? tokenizer_add_special(tokenizer, text, &id)
                                            : neap_fail(NEAP_INVALID_ARGUMENT, "must be a string");
    TRY(blame(status, place, "special", i));
  }
  return NEAP_OK;
}

neap_status tokenizer_from_json(const json_t *object, const char *file, struct tokenizer **out) {
  const struct json_place place = {.file = file};
  const char *word;
  int kind = 0;
  RETURN_IF(!json_is_object(object), NEAP_BAD_FORMAT, "%s: a tokenizer must be a JSON object", file);
  TRY(json_need_string(object, "kind", &place, &word));
  while (kind < KINDS && strcmp(kinds[kind], word) != 0) kind++;
  if (kind == KINDS)
    return json_bad_field(&place, "kind", "must be bytes, byte-pairs, characters or tokenizer.json");
  struct tokenizer *made;
  if (kind == TOKENIZER_BYTES)
    TRY(tokenizer_bytes(&made));
  else if (kind == TOKENIZER_BYTE_PAIRS)
    TRY(read_merges(object, &place, &made));
  else if (kind == TOKENIZER_CHARACTERS)
    TRY(read_characters(object, &place, &made));
  else
    TRY(read_pipeline(object, &place, &made));
  const neap_status status = read_special(object, &place, made);
  if (status == NEAP_OK)
    *out = made;
  else
    tokenizer_free(made);
  return status;
}

neap_status tokenizer_read(const char *path, struct tokenizer **out) {
  json_t *object;
  TRY(json_read(path, format, &object));
  const neap_status status = tokenizer_from_json(object, path, out);
  json_decref(object);
  return status;
}
