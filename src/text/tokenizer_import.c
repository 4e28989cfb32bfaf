#include "text/tokenizer_import.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "formats/json.h"
#include "text/pipeline.h"
#include "text/text_file.h"
#include "text/tokenizer_file.h"

/* A folder, the content of its files, and the result. */
struct source {
  char folder[4096];
  json_t *config, *map; /* tokenizer_config.json and special_tokens_map.json; NULL: none exists */
  json_t *made;         /* a tokenizer.json */
};

/* ---- Files ---- */

static neap_status join(const struct source *s, const char *name, char path[4200]) {
  snprintf(path, 4200, "%s/%s", s->folder, name);
  return NEAP_OK;
}

static bool exists(const struct source *s, const char *name) {
  char path[4200];
  join(s, name, path);
  return file_exists(path);
}

static neap_status read_object(const struct source *s, const char *name,
                               neap_status (*read)(const char *, json_t **), json_t **out) {
  char path[4200];
  join(s, name, path);
  TRY(read(path, out));
  if (json_is_object(*out)) return NEAP_OK;
  json_decref(*out);
  *out = NULL;
  return neap_fail(NEAP_BAD_FORMAT, "%s: must be a JSON object", path);
}

static neap_status read_settings(struct source *s) {
  if (exists(s, "tokenizer_config.json"))
    TRY(read_object(s, "tokenizer_config.json", json_read_as_reals, &s->config));
  if (exists(s, "special_tokens_map.json"))
    TRY(read_object(s, "special_tokens_map.json", json_read_as_reals, &s->map));
  return NEAP_OK;
}

/* ---- Special tokens ---- */

static const char *const special_names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                            "pad_token", "cls_token", "mask_token"};

/* Returns a special token by its name: a text, or an object with "content"; NULL: none exists. */
static const json_t *find_special(const struct source *s, const char *name) {
  const json_t *const files[] = {s->config, s->map};
  for (int i = 0; i < 2; i++) {
    const json_t *token = json_object_get(files[i], name);
    if (json_is_string(token) || json_is_string(json_object_get(token, "content"))) return token;
  }
  return NULL;
}

static const char *text_of(const json_t *token) {
  return json_is_string(token) ? json_string_value(token)
                               : json_string_value(json_object_get(token, "content"));
}

static bool has_token(const json_t *added, const char *text) {
  size_t i;
  const json_t *token;
  json_array_foreach(added, i, token) {
    const char *content = json_string_value(json_object_get(token, "content"));
    if (content != NULL && strcmp(content, text) == 0) return true;
  }
  return false;
}

/* Appends a token with its flags, unless one with its text exists. */
static bool add_token(json_t *added, const json_t *token, json_int_t id) {
  static const char *const flags[] = {"single_word", "lstrip", "rstrip", "normalized", "special"};
  const char *text = text_of(token);
  if (text == NULL || *text == '\0' || has_token(added, text)) return true;
  json_t *content = json_string(text), *made = added_token_to_json(content, 0, true);
  json_decref(content);
  bool good = made != NULL && json_object_set_new(made, "id", json_integer(id)) == 0;
  for (int i = 0; i < 5 && good; i++) {
    json_t *flag = json_object_get(token, flags[i]);
    if (json_is_boolean(flag)) good = json_object_set(made, flags[i], flag) == 0;
  }
  if (good) return json_array_append_new(added, made) == 0;
  json_decref(made);
  return false;
}

/* Adds the tokens, by id, of "added_tokens_decoder" in tokenizer_config.json. */
static neap_status add_from_config(struct source *s) {
  json_t *added = json_object_get(s->made, "added_tokens");
  const char *id;
  json_t *token, *tokens = json_object_get(s->config, "added_tokens_decoder");
  if (!json_is_array(added)) {
    added = json_array();
    RETURN_IF(json_object_set_new(s->made, "added_tokens", added) != 0, NEAP_OUT_OF_MEMORY,
              "%s: out of memory", s->folder);
  }
  json_object_foreach(tokens, id, token) {
    char *end;
    const long long number = strtoll(id, &end, 10);
    RETURN_IF(*end != '\0' || end == id || number < 0 || !json_is_object(token), NEAP_BAD_FORMAT,
              "%s/tokenizer_config.json: field 'added_tokens_decoder': must have tokens by their ids",
              s->folder);
    RETURN_IF(!add_token(added, token, number), NEAP_OUT_OF_MEMORY, "%s: out of memory", s->folder);
  }
  return NEAP_OK;
}

/* ---- vocab.json and merges.txt ---- */

/* The tokenizer classes and their ways of splitting text (token_vocabulary.h). */
static const struct class_row {
  const char *name, *pre;
  bool ends; /* <s> and </s> are set around a text */
} class_rows[] = {
    {"GPT2Tokenizer", "gpt-2", false},      {"GPTNeoXTokenizer", "gpt-2", false},
    {"RobertaTokenizer", "gpt-2", true},    {"BartTokenizer", "gpt-2", true},
    {"LongformerTokenizer", "gpt-2", true}, {"Qwen2Tokenizer", "qwen2", false},
};

static neap_status find_class(const struct source *s, const struct class_row **row) {
  const json_t *given = json_object_get(s->config, "tokenizer_class");
  const char *name = json_is_string(given) ? json_string_value(given) : class_rows[0].name;
  size_t length = strlen(name);
  if (length > 4 && strcmp(name + length - 4, "Fast") == 0) length -= 4;
  for (size_t i = 0; i < sizeof class_rows / sizeof *class_rows; i++)
    if (strlen(class_rows[i].name) == length && memcmp(class_rows[i].name, name, length) == 0) {
      *row = &class_rows[i];
      return NEAP_OK;
    }
  return neap_fail(
      NEAP_UNSUPPORTED,
      "%s/tokenizer_config.json: field 'tokenizer_class': is not supported (got %.60s); save the "
      "tokenizer with a tokenizer.json",
      s->folder, name);
}

static neap_status read_merges(const struct source *s, json_t *merges) {
  char path[4200];
  struct region region = {0};
  struct text text;
  join(s, "merges.txt", path);
  neap_status status = text_read(path, true, &region, &text);
  for (size_t at = 0; status == NEAP_OK && at < text.length;) {
    const char *line = text.bytes + at, *end = memchr(line, '\n', text.length - at);
    size_t length = end != NULL ? (size_t)(end - line) : text.length - at;
    at += length + 1;
    if (length > 0 && line[length - 1] == '\r') length--;
    if (length == 0 || (length >= 8 && memcmp(line, "#version", 8) == 0)) continue;
    if (json_array_append_new(merges, json_stringn(line, length)) != 0)
      status = neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", path);
  }
  region_free(&region);
  return status;
}

/* Adds the special tokens that the settings name. Those that are not in the vocabulary get the next ids. */
static neap_status add_special_tokens(struct source *s, const json_t *vocabulary) {
  json_t *added = json_object_get(s->made, "added_tokens");
  json_int_t next = (json_int_t)json_object_size(vocabulary);
  bool good = true;
  size_t i;
  const json_t *token;
  json_array_foreach(added, i, token) {
    const json_int_t id = json_integer_value(json_object_get(token, "id"));
    if (id >= next) next = id + 1;
  }
  for (i = 0; i < sizeof special_names / sizeof *special_names && good; i++) {
    token = find_special(s, special_names[i]);
    if (token == NULL || has_token(added, text_of(token))) continue;
    const json_t *id = json_object_get(vocabulary, text_of(token));
    good = add_token(added, token, json_is_integer(id) ? json_integer_value(id) : next++);
  }
  json_t *end = json_string("<|endoftext|>"), *id = json_object_get(vocabulary, "<|endoftext|>");
  if (json_is_integer(id)) good = good && add_token(added, end, json_integer_value(id));
  json_decref(end);
  RETURN_IF(!good, NEAP_OUT_OF_MEMORY, "%s: out of memory", s->folder);
  return NEAP_OK;
}

/* Returns the id of an added token; -1: none exists. */
static int32_t id_of(const struct source *s, const char *name, const char **text) {
  size_t i;
  const json_t *token;
  *text = text_of(find_special(s, name));
  if (*text == NULL) return -1;
  json_array_foreach(json_object_get(s->made, "added_tokens"), i, token) {
    const char *content = json_string_value(json_object_get(token, "content"));
    if (content != NULL && strcmp(content, *text) == 0)
      return (int32_t)json_integer_value(json_object_get(token, "id"));
  }
  *text = NULL;
  return -1;
}

static neap_status add_template(struct source *s, const struct class_row *row) {
  const char *before = NULL, *behind = NULL;
  int32_t first = -1, last = -1;
  if (row->ends) {
    first = id_of(s, "cls_token", &before);
    last = id_of(s, "sep_token", &behind);
  } else if (json_is_true(json_object_get(s->config, "add_bos_token"))) {
    first = id_of(s, "bos_token", &before);
  }
  json_t *post = template_to_json(before, first, behind, last);
  RETURN_IF(post == NULL || json_object_set_new(s->made, "post_processor", post) != 0, NEAP_OUT_OF_MEMORY,
            "%s: out of memory", s->folder);
  return NEAP_OK;
}

static neap_status make_of_lists(struct source *s) {
  const struct class_row *row;
  json_t *vocabulary = NULL, *merges = json_array();
  neap_status status;
  RETURN_IF_NULL(merges);
  TRY_DONE(find_class(s, &row));
  TRY_DONE(byte_pairs_to_json(row->pre, json_is_true(json_object_get(s->config, "add_prefix_space")),
                              s->folder, &s->made));
  TRY_DONE(read_object(s, "vocab.json", json_read_any, &vocabulary));
  TRY_DONE(read_merges(s, merges));
  json_t *model = json_object_get(s->made, "model");
  if (json_object_set(model, "vocab", vocabulary) != 0 || json_object_set(model, "merges", merges) != 0)
    TRY_DONE(neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory", s->folder));
  TRY_DONE(add_from_config(s));
  TRY_DONE(add_special_tokens(s, vocabulary));
  status = add_template(s, row);
done:
  json_decref(vocabulary);
  json_decref(merges);
  return status;
}

/* ---- Making ---- */

static neap_status wrap(const json_t *object, const char *file, struct pipeline **pipeline,
                        struct tokenizer **out) {
  TRY(pipeline_create(object, file, pipeline));
  return tokenizer_from_pipeline(*pipeline, out);
}

/* Finds the tokens that begin and end a text. */
static void find_ends(const struct source *s, struct pipeline *pipeline) {
  const char *bos = text_of(find_special(s, "bos_token")), *eos = text_of(find_special(s, "eos_token"));
  const int32_t end = pipeline_find(pipeline, "<|endoftext|>");
  if (bos != NULL) pipeline->bos = pipeline_find(pipeline, bos);
  if (eos != NULL) pipeline->eos = pipeline_find(pipeline, eos);
  if (s->config == NULL && s->map == NULL) { /* then GPT-2's, where there is one */
    pipeline->bos = end;
    pipeline->eos = end;
  }
}

static neap_status make(struct source *s, const char *path, struct tokenizer **out) {
  struct pipeline *pipeline;
  TRY(wrap(s->made, path, &pipeline, out));
  find_ends(s, pipeline);
  return NEAP_OK;
}

/* Finds the folder of a path, and whether the path is the folder itself. */
static neap_status find_folder(const char *path, struct source *s, bool *is_folder) {
  struct stat info;
  RETURN_IF(strlen(path) >= sizeof s->folder, NEAP_INVALID_ARGUMENT, "the path of a tokenizer is too long");
  RETURN_IF(stat(path, &info) != 0, NEAP_IO_FAILED, "%s: cannot be read: %m", path);
  *is_folder = S_ISDIR(info.st_mode);
  strcpy(s->folder, path);
  if (*is_folder) return NEAP_OK;
  char *slash = strrchr(s->folder, '/');
  if (slash == NULL)
    strcpy(s->folder, ".");
  else
    slash[slash == s->folder] = '\0';
  return NEAP_OK;
}

/* Sets `s->made` to the content of the folder's files, or of those next to the file. `own`: it is a tokenizer
 * of Neap's, and is not read. */
static neap_status read_source(const char *path, const char *file, bool is_folder, struct source *s,
                               bool *own) {
  *own = false;
  if (is_folder && !exists(s, "tokenizer.json")) {
    RETURN_IF(!exists(s, "vocab.json") || !exists(s, "merges.txt"), NEAP_IO_FAILED,
              "%s: has no tokenizer; it needs tokenizer.json, or vocab.json and merges.txt", path);
    TRY(read_settings(s));
    return make_of_lists(s);
  }
  TRY(json_read_any(file, &s->made));
  RETURN_IF(!json_is_object(s->made), NEAP_BAD_FORMAT, "%s: must be a JSON object", file);
  *own = json_object_get(s->made, "format") != NULL;
  if (*own) return NEAP_OK;
  TRY(read_settings(s));
  return add_from_config(s);
}

static neap_status import(const char *path, struct source *s, struct tokenizer **out) {
  char file[4200];
  bool is_folder, own;
  TRY(find_folder(path, s, &is_folder));
  if (is_folder && exists(s, "tokenizer.json"))
    join(s, "tokenizer.json", file);
  else
    snprintf(file, sizeof file, "%s", path);
  TRY(read_source(path, file, is_folder, s, &own));
  return own ? tokenizer_read(file, out) : make(s, file, out);
}

static neap_status copy_text(struct region *region, const struct source *s, const char *name,
                             const char **copy) {
  const char *text = text_of(find_special(s, name));
  *copy = text != NULL ? region_string(region, text) : NULL;
  RETURN_IF(text != NULL && *copy == NULL, NEAP_OUT_OF_MEMORY, "%s: out of memory", s->folder);
  return NEAP_OK;
}

static neap_status to_json(const char *folder, struct region *region, struct source *s,
                           struct special_texts *t) {
  char file[4200];
  bool is_folder, own;
  TRY(find_folder(folder, s, &is_folder));
  if (!exists(s, "tokenizer.json") && !exists(s, "vocab.json")) return NEAP_OK;
  join(s, "tokenizer.json", file);
  TRY(read_source(folder, file, true, s, &own));
  RETURN_IF(own, NEAP_UNSUPPORTED, "%s: is a tokenizer of Neap's own; one of Hugging Face's is needed", file);
  TRY(copy_text(region, s, "bos_token", &t->bos));
  TRY(copy_text(region, s, "eos_token", &t->eos));
  TRY(copy_text(region, s, "unk_token", &t->unknown));
  return copy_text(region, s, "pad_token", &t->padding);
}

static void source_free(struct source *s) {
  json_decref(s->config);
  json_decref(s->map);
  json_decref(s->made);
}

neap_status tokenizer_folder_to_json(const char *folder, struct region *region, json_t **out,
                                     struct special_texts *special) {
  struct source s = {0};
  *special = (struct special_texts){0};
  const neap_status status = to_json(folder, region, &s, special);
  *out = status == NEAP_OK ? json_incref(s.made) : NULL;
  source_free(&s);
  return status;
}

neap_status tokenizer_import(const char *path, struct tokenizer **out) {
  struct source s = {0};
  const neap_status status = import(path, &s, out);
  source_free(&s);
  return status;
}

neap_status tokenizer_from_vocabulary(const struct token_vocabulary *v, struct tokenizer **out) {
  json_t *object;
  struct pipeline *pipeline;
  TRY(token_vocabulary_to_json(v, &object));
  const neap_status status = wrap(object, v->file, &pipeline, out);
  json_decref(object);
  if (status != NEAP_OK) return status;
  pipeline->bos = v->bos >= 0 && v->bos < pipeline->size ? v->bos : -1;
  pipeline->eos = v->eos >= 0 && v->eos < pipeline->size ? v->eos : -1;
  return NEAP_OK;
}
