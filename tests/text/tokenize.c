/* Encodes texts by a tokenizer of others, for python/tests/tokenizers: tokenize PATH (a tokenizer.json or a
 * folder) or tokenize --vocabulary FILE (JSON that has the fields of struct token_vocabulary). Standard input
 * has a text a line, as JSON strings. A line of JSON answers each: {"ids", "ends", "whole", "text"}: ids
 * without and with what is set around a text, where they end, and what the ids of "whole" spell, a byte as
 * U+0000 to U+00FF. The first line has {"size", "bos", "eos"}. Exit status 3: the tokenizer is refused, by
 * the message on standard error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "text/tokenizer_file.h"
#include "text/tokenizer_import.h"

static json_t *list_of(const int32_t *ids, size_t count) {
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++) json_array_append_new(list, json_integer(ids[i]));
  return list;
}

static json_t *spell(const struct tokenizer *tokenizer, const struct token_ids *ids) {
  char *text;
  size_t length;
  if (tokenizer_decode(tokenizer, ids->data, ids->count, &text, &length) != NEAP_OK) return json_null();
  char *latin = malloc(2 * length + UTF8_MAX_BYTES), *to = latin;
  for (size_t i = 0; latin != NULL && i < length; i++) to += utf8_write((unsigned char)text[i], to);
  json_t *made = json_stringn(latin, (size_t)(to - latin));
  free(latin);
  free(text);
  return made;
}

static neap_status answer(const struct tokenizer *tokenizer, const char *bytes, size_t length, json_t **out) {
  const struct text text = {.bytes = bytes, .length = length, .name = "line"};
  struct token_ids ids = {0}, plain = {0}, whole = {0};
  struct places ends = {0};
  neap_status status = tokenizer_encode_places(tokenizer, &text, false, &ids, &ends);
  if (status == NEAP_OK) status = tokenizer_encode(tokenizer, &text, &plain);
  if (status == NEAP_OK) status = tokenizer_encode_places(tokenizer, &text, true, &whole, NULL);
  const size_t bytes_of_ids = ids.count * sizeof *ids.data;
  if (status == NEAP_OK && (ids.count != plain.count || ids.count != ends.count ||
                            (ids.count > 0 && memcmp(ids.data, plain.data, bytes_of_ids) != 0)))
    status = neap_fail(NEAP_BAD_FORMAT, "places change ids");
  if (status == NEAP_OK) {
    json_t *places = json_array();
    for (size_t i = 0; i < ends.count; i++)
      json_array_append_new(places, json_integer((json_int_t)ends.data[i]));
    *out = json_pack("{s:o, s:o, s:o, s:o}", "ids", list_of(ids.data, ids.count), "ends", places, "whole",
                     list_of(whole.data, whole.count), "text", spell(tokenizer, &whole));
  }
  vector_free(&ids);
  vector_free(&plain);
  vector_free(&whole);
  vector_free(&ends);
  return status;
}

/* ---- Vocabularies ---- */

static int32_t number(const json_t *object, const char *name) {
  const json_t *value = json_object_get(object, name);
  return json_is_integer(value) ? (int32_t)json_integer_value(value) : -1;
}

static neap_status read_vocabulary(const char *path, struct tokenizer **out) {
  json_t *object;
  TRY(json_read_any(path, &object));
  const json_t *tokens = json_object_get(object, "tokens"), *merges = json_object_get(object, "merges");
  const json_t *scores = json_object_get(object, "scores"), *types = json_object_get(object, "types");
  const size_t count = json_array_size(tokens), merge_count = json_array_size(merges);
  const char **texts = calloc(count + 1, sizeof *texts), **pairs = calloc(merge_count + 1, sizeof *pairs);
  size_t *lengths = calloc(count + 1, sizeof *lengths);
  float *score = calloc(count + 1, sizeof *score);
  int32_t *type = calloc(count + 1, sizeof *type);
  for (size_t i = 0; i < count; i++) {
    texts[i] = json_string_value(json_array_get(tokens, i));
    lengths[i] = json_string_length(json_array_get(tokens, i));
    score[i] = (float)json_number_value(json_array_get(scores, i));
    type[i] = (int32_t)json_integer_value(json_array_get(types, i));
  }
  const json_t *bytes = json_object_get(object, "map");
  unsigned char *map = calloc(json_array_size(bytes) + 1, 1);
  for (size_t i = 0; i < json_array_size(bytes); i++)
    map[i] = (unsigned char)json_integer_value(json_array_get(bytes, i));
  for (size_t i = 0; i < merge_count; i++) pairs[i] = json_string_value(json_array_get(merges, i));
  const struct token_vocabulary v = {.file = path,
                                     .model = json_string_value(json_object_get(object, "model")),
                                     .pre = json_string_value(json_object_get(object, "pre")),
                                     .count = (int32_t)count,
                                     .tokens = texts,
                                     .lengths = lengths,
                                     .scores = scores != NULL ? score : NULL,
                                     .types = types != NULL ? type : NULL,
                                     .merge_count = (int32_t)merge_count,
                                     .merges = pairs,
                                     .bos = number(object, "bos"),
                                     .eos = number(object, "eos"),
                                     .unknown = number(object, "unknown"),
                                     .padding = number(object, "padding"),
                                     .add_bos = number(object, "add_bos"),
                                     .add_eos = number(object, "add_eos"),
                                     .add_space_prefix = number(object, "add_space_prefix"),
                                     .remove_spaces = number(object, "remove_spaces"),
                                     .map = bytes != NULL ? map : NULL,
                                     .map_bytes = json_array_size(bytes)};
  const neap_status status = tokenizer_from_vocabulary(&v, out);
  json_decref(object);
  free(texts);
  free(pairs);
  free(map);
  free(lengths);
  free(score);
  free(type);
  return status;
}

/* The tokenizer after it was kept as JSON. */
static neap_status keep(struct tokenizer **tokenizer) {
  json_t *object;
  struct tokenizer *again;
  TRY(tokenizer_to_json(*tokenizer, &object));
  const neap_status status = tokenizer_from_json(object, "kept", &again);
  json_decref(object);
  if (status != NEAP_OK) return status;
  tokenizer_free(*tokenizer);
  *tokenizer = again;
  return NEAP_OK;
}

static int fail(int code) {
  fprintf(stderr, "%s\n", neap_error_message());
  return code;
}

static neap_status answer_line(const struct tokenizer *tokenizer, const char *line) {
  json_t *string = json_loads(line, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL), *made = NULL;
  if (!json_is_string(string)) return neap_fail(NEAP_BAD_FORMAT, "a line is no JSON string");
  const neap_status status = answer(tokenizer, json_string_value(string), json_string_length(string), &made);
  json_decref(string);
  if (status != NEAP_OK) return status;
  json_dumpf(made, stdout, JSON_COMPACT);
  putchar('\n');
  json_decref(made);
  return NEAP_OK;
}

int main(int count, char **arguments) {
  struct tokenizer *tokenizer;
  const bool listed = count == 3 && strcmp(arguments[1], "--vocabulary") == 0;
  if (count != 2 && !listed) return 2;
  neap_status status =
      listed ? read_vocabulary(arguments[2], &tokenizer) : tokenizer_import(arguments[1], &tokenizer);
  if (status != NEAP_OK) return fail(3);
  if (keep(&tokenizer) != NEAP_OK) return fail(1);
  printf("{\"size\": %d, \"bos\": %d, \"eos\": %d}\n", tokenizer_size(tokenizer), tokenizer_bos(tokenizer),
         tokenizer_eos(tokenizer));
  char *line = NULL;
  size_t room = 0;
  while (status == NEAP_OK && getline(&line, &room, stdin) > 0) status = answer_line(tokenizer, line);
  free(line);
  tokenizer_free(tokenizer);
  return status == NEAP_OK ? 0 : fail(1);
}
