/* The tokenizer and the chat template that come with a language model. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "formats/json.h"
#include "language/language_file.h"
#include "language/language_model.h"
#include "text/text_file.h"
#include "text/tokenizer_import.h"

static int32_t gguf_id(const struct gguf *g, const char *key) {
  int64_t id;
  return gguf_integer(g, key, &id) && id >= 0 && id <= INT32_MAX ? (int32_t)id : -1;
}

static int gguf_flag(const struct gguf *g, const char *key) {
  bool flag;
  return gguf_bool(g, key, &flag) ? flag : -1;
}

/* Reads the numbers of an array, one for each token; NULL: none exists. */
static neap_status token_numbers(struct language_model *m, const struct gguf_array *array, int64_t count,
                                 const char *key, bool real, void **numbers) {
  *numbers = NULL;
  if (array == NULL) return NEAP_OK;
  RETURN_IF(array->count != count, NEAP_BAD_FORMAT, "%s: '%s' has %lld numbers for %lld tokens", m->path, key,
            (long long)array->count, (long long)count);
  *numbers = region_alloc(&m->region, (size_t)count, 4);
  RETURN_IF(*numbers == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for its tokens", m->path);
  for (int64_t i = 0; i < count; i++)
    if (real)
      ((float *)*numbers)[i] = (float)gguf_real_at(array, i);
    else
      ((int32_t *)*numbers)[i] = (int32_t)gguf_integer_at(array, i);
  return NEAP_OK;
}

#define TOKENIZER_KEY "tokenizer.ggml."

/* Reads the map of characters of a SentencePiece model. */
static neap_status read_character_map(struct language_model *m, struct token_vocabulary *v) {
  const struct gguf_array *array = gguf_integers(&m->gguf, TOKENIZER_KEY "precompiled_charsmap");
  if (array == NULL || array->count == 0) return NEAP_OK;
  unsigned char *map = region_alloc(&m->region, (size_t)array->count, 1);
  RETURN_IF(map == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory for its tokens", m->path);
  for (int64_t i = 0; i < array->count; i++) map[i] = (unsigned char)gguf_integer_at(array, i);
  v->map = map;
  v->map_bytes = (size_t)array->count;
  return NEAP_OK;
}

neap_status language_file_vocabulary(struct language_model *m, struct token_vocabulary *v) {
  const struct gguf *g = &m->gguf;
  struct gguf_strings tokens, merges;
  void *scores, *types;
  *v = (struct token_vocabulary){.file = m->path};
  TRY(gguf_read_strings(g, TOKENIZER_KEY "tokens", &m->region, &tokens));
  TRY(gguf_read_strings(g, TOKENIZER_KEY "merges", &m->region, &merges));
  if (tokens.texts == NULL) return NEAP_OK;
  RETURN_IF(tokens.count > INT32_MAX || merges.count > INT32_MAX, NEAP_TOO_LARGE, "%s: more than 2^31 tokens",
            m->path);
  TRY(token_numbers(m, gguf_reals(g, TOKENIZER_KEY "scores"), tokens.count, TOKENIZER_KEY "scores", true,
                    &scores));
  TRY(token_numbers(m, gguf_integers(g, TOKENIZER_KEY "token_type"), tokens.count, TOKENIZER_KEY "token_type",
                    false, &types));
  *v = (struct token_vocabulary){.file = m->path,
                                 .model = gguf_text(g, TOKENIZER_KEY "model"),
                                 .pre = gguf_text(g, TOKENIZER_KEY "pre"),
                                 .count = (int32_t)tokens.count,
                                 .tokens = tokens.texts,
                                 .lengths = tokens.lengths,
                                 .scores = scores,
                                 .types = types,
                                 .merge_count = (int32_t)merges.count,
                                 .merges = merges.texts,
                                 .bos = gguf_id(g, TOKENIZER_KEY "bos_token_id"),
                                 .eos = gguf_id(g, TOKENIZER_KEY "eos_token_id"),
                                 .unknown = gguf_id(g, TOKENIZER_KEY "unknown_token_id"),
                                 .padding = gguf_id(g, TOKENIZER_KEY "padding_token_id"),
                                 .add_bos = gguf_flag(g, TOKENIZER_KEY "add_bos_token"),
                                 .add_eos = gguf_flag(g, TOKENIZER_KEY "add_eos_token"),
                                 .add_space_prefix = gguf_flag(g, TOKENIZER_KEY "add_space_prefix"),
                                 .remove_spaces = gguf_flag(g, TOKENIZER_KEY "remove_extra_whitespaces")};
  return read_character_map(m, v);
}

static neap_status vocabulary_tokenizer(struct language_model *m, struct tokenizer **out) {
  struct token_vocabulary v;
  TRY(language_file_vocabulary(m, &v));
  RETURN_IF(v.tokens == NULL || v.model == NULL, NEAP_BAD_FORMAT,
            "%s: has no tokenizer: '%stokens' or '%smodel' is missing", m->path, TOKENIZER_KEY,
            TOKENIZER_KEY);
  return tokenizer_from_vocabulary(&v, out);
}

neap_status language_model_tokenizer(const void *model, struct tokenizer **out) {
  struct language_model m = *(const struct language_model *)model;
  if (m.config != NULL) return tokenizer_import(m.path, out);
  m.region = (struct region){0}; /* the vocabulary's */
  TRY(language_file_check(&m));
  const neap_status status = vocabulary_tokenizer(&m, out);
  region_free(&m.region);
  return status;
}

/* ---- The chat template ---- */

/* Returns the program in tokenizer_config.json: a text or, in a list of several, the one called "default". */
static const char *find_template(const json_t *config) {
  const json_t *given = json_object_get(config, "chat_template"), *one;
  size_t i;
  json_array_foreach(given, i, one) {
    const char *name = json_string_value(json_object_get(one, "name"));
    if (name != NULL && strcmp(name, "default") == 0)
      return json_string_value(json_object_get(one, "template"));
  }
  return json_string_value(given);
}

neap_status language_folder_template(const char *folder, struct region *region, const char **file,
                                     const char **jinja) {
  struct text text;
  json_t *config = NULL;
  *jinja = NULL;
  *file = region_format(region, "%s/chat_template.jinja", folder);
  RETURN_IF(*file == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
  if (file_exists(*file)) {
    TRY(text_read(*file, true, region, &text));
    *jinja = region_format(region, "%.*s", (int)text.length, text.bytes);
    RETURN_IF(*jinja == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", *file);
    return NEAP_OK;
  }
  *file = region_format(region, "%s/tokenizer_config.json", folder);
  RETURN_IF(*file == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", folder);
  if (!file_exists(*file)) return NEAP_OK;
  TRY(json_read_as_reals(*file, &config));
  const char *found = find_template(config);
  *jinja = found != NULL ? region_string(region, found) : NULL;
  json_decref(config);
  RETURN_IF(found != NULL && *jinja == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", *file);
  return NEAP_OK;
}

neap_status language_model_chat_template(const void *model, struct chat_template **out) {
  const struct language_model *m = model;
  struct region region = {0};
  const char *file = m->path, *jinja = NULL;
  neap_status status = NEAP_OK;
  *out = NULL;
  if (m->config != NULL)
    status = language_folder_template(m->path, &region, &file, &jinja);
  else
    jinja = gguf_text(&m->gguf, "tokenizer.chat_template");
  if (status == NEAP_OK && jinja != NULL) status = chat_template_find(jinja, file, out);
  region_free(&region);
  return status;
}
