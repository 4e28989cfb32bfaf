#include "text/folder_vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "text/base64.h"
#include "text/post_processor.h"
#include "text/tokenizer_import.h"
#include "text/vocabulary.h"

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER = 4, UNUSED = 5, BYTE = 6 }; /* token_vocabulary.h: types */

/* The lists that are being filled. */
struct filling {
  const char *folder;
  const json_t *tokenizer, *model;
  struct region *region;
  struct token_vocabulary *v;
  const char **tokens, **merges;
  size_t *lengths;
  int32_t *types;
  float *scores;
  struct vocabulary by_text;
};

static neap_status out_of_memory(const struct filling *f) {
  return neap_fail(NEAP_OUT_OF_MEMORY, "%s: out of memory for its tokens", f->folder);
}

static bool is_type(const json_t *object, const char *type) {
  const char *own = json_string_value(json_object_get(object, "type"));
  return own != NULL && strcmp(own, type) == 0;
}

/* ---- Tokens ---- */

static const char mark[] = "\xE2\x96\x81"; /* U+2581, which means a space */
enum { MARK_BYTES = 3 };

/* Returns true for a byte token such as "<0x0A>". */
static bool is_byte(const char *text, size_t length) {
  return length == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>';
}

/* Copies a token's text in the form of a GGUF file: a token that is found before anything else has spaces
 * instead of marks. */
static const char *copy_token(const struct filling *f, const char *text, size_t *length, int32_t type) {
  size_t marks = 0;
  while (*length >= (marks + 1) * MARK_BYTES && memcmp(text + marks * MARK_BYTES, mark, MARK_BYTES) == 0)
    marks++;
  char *copy = region_alloc(f->region, *length + 1, 1);
  if (copy == NULL) return NULL;
  if (type == USER && strcmp(f->v->model, "t5") != 0 && marks > 1 && marks * MARK_BYTES == *length) {
    memset(copy, ' ', marks);
    *length = marks;
  } else {
    memcpy(copy, text, *length);
  }
  return copy;
}

static neap_status add_token(struct filling *f, const char *text, size_t length, const json_t *id,
                             int32_t type) {
  const json_int_t at = json_integer_value(id);
  RETURN_IF(text == NULL || !json_is_integer(id) || at < 0, NEAP_BAD_FORMAT,
            "%s: its tokenizer has a token without a text or an id", f->folder);
  RETURN_IF(
      at >= f->v->count, NEAP_BAD_FORMAT,
      "%s: its tokenizer has the id %lld, but the embedding has %d rows; take the tokenizer that the model "
      "was saved with",
      f->folder, (long long)at, f->v->count);
  if (vocabulary_find(&f->by_text, text, length) < 0)
    TRY(vocabulary_add(&f->by_text, text, length, (int32_t)at));
  f->tokens[at] = copy_token(f, text, &length, type);
  if (f->tokens[at] == NULL) return out_of_memory(f);
  f->lengths[at] = length;
  f->types[at] = type;
  return NEAP_OK;
}

/* Returns the text of the unknown token; NULL: none exists. */
static const char *unknown_of(const struct filling *f) {
  const json_t *id = json_object_get(f->model, "unk_id"), *pieces = json_object_get(f->model, "vocab");
  if (json_is_array(pieces) && json_is_integer(id))
    return json_string_value(json_array_get(json_array_get(pieces, (size_t)json_integer_value(id)), 0));
  return json_string_value(json_object_get(f->model, "unk_token"));
}

/* Adds the pieces of Unigram with their scores; tokens beside them have the score 0. */
static neap_status add_scored_tokens(struct filling *f, const json_t *pieces) {
  const json_t *piece, *unknown = json_object_get(f->model, "unk_id");
  size_t i;
  f->scores = region_alloc(f->region, (size_t)f->v->count, sizeof *f->scores);
  if (f->scores == NULL) return out_of_memory(f);
  memset(f->scores, 0, (size_t)f->v->count * sizeof *f->scores);
  json_array_foreach(pieces, i, piece) {
    const json_t *content = json_array_get(piece, 0);
    const char *text = json_string_value(content);
    const size_t length = json_string_length(content);
    const bool is_unknown = json_is_integer(unknown) && (json_int_t)i == json_integer_value(unknown);
    json_t *id = json_integer((json_int_t)i);
    const neap_status status = add_token(f, text, length, id,
                                         is_unknown              ? UNKNOWN
                                         : is_byte(text, length) ? BYTE
                                                                 : NORMAL);
    json_decref(id);
    TRY(status);
    f->scores[i] = (float)json_number_value(json_array_get(piece, 1));
  }
  return NEAP_OK;
}

static neap_status add_tokens(struct filling *f) {
  const bool llama = strcmp(f->v->model, "gpt2") != 0;
  const char *unknown = unknown_of(f);
  json_t *tokens = json_object_get(f->model, "vocab"), *token;
  size_t i;
  if (json_is_array(tokens)) {
    TRY(add_scored_tokens(f, tokens));
    tokens = NULL;
  }
  RETURN_IF(tokens != NULL && !json_is_object(tokens), NEAP_BAD_FORMAT,
            "%s: its tokenizer has no object 'vocab'", f->folder);
  for (void *at = json_object_iter(tokens); at != NULL; at = json_object_iter_next(tokens, at)) {
    const char *text = json_object_iter_key(at);
    const size_t length = json_object_iter_key_len(at);
    TRY(add_token(f, text, length, json_object_iter_value(at),
                  llama && is_byte(text, length) ? BYTE : NORMAL));
  }
  json_array_foreach(json_object_get(f->tokenizer, "added_tokens"), i, token) {
    const json_t *content = json_object_get(token, "content");
    const char *text = json_string_value(content);
    const bool special = json_is_true(json_object_get(token, "special")),
               is_unknown = llama && unknown != NULL && text != NULL && strcmp(text, unknown) == 0;
    TRY(add_token(f, text, json_string_length(content), json_object_get(token, "id"),
                  is_unknown ? UNKNOWN
                  : special  ? CONTROL
                             : USER));
  }
  return NEAP_OK;
}

/* Fills ids without a token. */
static neap_status pad(struct filling *f) {
  for (int32_t i = 0; i < f->v->count; i++) {
    if (f->tokens[i] != NULL) continue;
    f->tokens[i] = region_format(f->region, "[PAD%d]", i);
    if (f->tokens[i] == NULL) return out_of_memory(f);
    f->lengths[i] = strlen(f->tokens[i]);
    f->types[i] = UNUSED;
  }
  return NEAP_OK;
}

/* ---- Merges ---- */

/* Adds a merge, which is "a b" or a list of the two. */
static neap_status add_merge(struct filling *f, const json_t *merge, int32_t i) {
  const char *text = json_string_value(merge);
  if (json_is_array(merge) && json_array_size(merge) == 2) {
    const char *left = json_string_value(json_array_get(merge, 0)),
               *right = json_string_value(json_array_get(merge, 1));
    const bool parts = left != NULL && right != NULL;
    RETURN_IF(parts && (strchr(left, ' ') != NULL || strchr(right, ' ') != NULL), NEAP_UNSUPPORTED,
              "%s: merge %d of its tokenizer has a space, which a GGUF file cannot hold", f->folder, i);
    text = parts ? region_format(f->region, "%s %s", left, right) : NULL;
    if (parts && text == NULL) return out_of_memory(f);
  } else if (text != NULL) {
    text = region_string(f->region, text);
    if (text == NULL) return out_of_memory(f);
  }
  RETURN_IF(text == NULL || strchr(text, ' ') == NULL, NEAP_BAD_FORMAT,
            "%s: merge %d of its tokenizer is not a pair of texts", f->folder, i);
  f->merges[i] = text;
  return NEAP_OK;
}

static neap_status add_merges(struct filling *f) {
  const json_t *list = json_object_get(f->model, "merges"), *merge;
  size_t i;
  RETURN_IF(json_array_size(list) > INT32_MAX, NEAP_TOO_LARGE, "%s: has more than 2^31 merges", f->folder);
  f->v->merge_count = (int32_t)json_array_size(list);
  f->merges = region_alloc(f->region, json_array_size(list), sizeof *f->merges);
  if (f->merges == NULL) return out_of_memory(f);
  json_array_foreach(list, i, merge) TRY(add_merge(f, merge, (int32_t)i));
  return NEAP_OK;
}

/* Adds scores. The token that is made first has the highest one, -1, the next one -2, and so on. A token that
 * is made of no others has the lowest score, and one that is not a piece of text 0. */
static neap_status add_scores(struct filling *f) {
  struct token_vocabulary *v = f->v;
  float next = 0;
  f->scores = region_alloc(f->region, (size_t)v->count, sizeof *f->scores);
  bool *made = calloc((size_t)v->count + 1, sizeof *made);
  char *joined = NULL;
  neap_status status = f->scores != NULL && made != NULL ? NEAP_OK : out_of_memory(f);
  for (int32_t i = 0; status == NEAP_OK && i < v->merge_count; i++) {
    const char *space = strchr(f->merges[i], ' ');
    const size_t left = (size_t)(space - f->merges[i]), right = strlen(space + 1);
    char *room = realloc(joined, left + right + 1);
    if (room == NULL) {
      status = out_of_memory(f);
      break;
    }
    joined = room;
    memcpy(joined, f->merges[i], left);
    memcpy(joined + left, space + 1, right);
    const int32_t id = vocabulary_find(&f->by_text, joined, left + right);
    if (id < 0 || made[id]) continue;
    made[id] = true;
    f->scores[id] = next -= 1;
  }
  for (int32_t i = 0; status == NEAP_OK && i < v->count; i++)
    if (!made[i]) f->scores[i] = v->types[i] == NORMAL || v->types[i] == UNUSED ? next - 1 : 0;
  free(joined);
  free(made);
  return status;
}

/* ---- Special tokens ---- */

/* Returns the id of a text or else the one in config.json: a number, or the first of a list. */
static int32_t special_id(const struct filling *f, const char *text, const json_t *config, const char *key) {
  const int32_t id = text != NULL ? vocabulary_find(&f->by_text, text, strlen(text)) : -1;
  if (id >= 0) return id;
  const json_t *value = json_object_get(config, key);
  if (json_is_array(value)) value = json_array_get(value, 0);
  const json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
  return number >= 0 && number < f->v->count ? (int32_t)number : -1;
}

/* Takes the bos or eos token: at most one may be added before a text and one after it. */
static neap_status take_end(const struct filling *f, const struct token_ids *ids, const char *where,
                            int *flag, int32_t *id) {
  RETURN_IF(ids->count > 1, NEAP_UNSUPPORTED,
            "%s: its tokenizer adds %zu tokens %s a text; a GGUF file can have one", f->folder, ids->count,
            where);
  *flag = ids->count == 1;
  if (*flag) *id = ids->data[0];
  return NEAP_OK;
}

static neap_status add_specials(struct filling *f, const struct special_texts *texts, const json_t *config) {
  struct token_vocabulary *v = f->v;
  const struct json_place place = {.file = f->folder, .path = "post_processor"};
  struct post_processor post = {0};
  const char *unknown = unknown_of(f);
  v->bos = special_id(f, texts->bos, config, "bos_token_id");
  v->eos = special_id(f, texts->eos, config, "eos_token_id");
  v->unknown = special_id(f, unknown != NULL ? unknown : texts->unknown, NULL, "");
  v->padding = special_id(f, texts->padding, config, "pad_token_id");
  const json_t *object = json_object_get(f->tokenizer, "post_processor");
  neap_status status = object != NULL ? post_processor_parse(object, &place, v->count, &post) : NEAP_OK;
  if (status == NEAP_OK) status = take_end(f, &post.before, "before", &v->add_bos, &v->bos);
  if (status == NEAP_OK) status = take_end(f, &post.behind, "behind", &v->add_eos, &v->eos);
  post_processor_free(&post);
  return status;
}

/* ---- The kind of the tokenizer ---- */

/* Returns true if a space is added before a text, by a normalizer or by a pre-tokenizer. */
static bool has_space_prefix(const json_t *step, const char *list) {
  const json_t *one, *steps = json_object_get(step, list);
  const char *scheme = json_string_value(json_object_get(step, "prepend_scheme"));
  size_t i;
  if (is_type(step, "Prepend")) return true;
  if (is_type(step, "Metaspace"))
    return scheme != NULL ? strcmp(scheme, "never") != 0
                          : !json_is_false(json_object_get(step, "add_prefix_space"));
  json_array_foreach(steps, i, one) if (has_space_prefix(one, list)) return true;
  return false;
}

/* Returns true for a Replace of a regular expression, or of a text, by a text. */
static bool replaces(const json_t *step, const char *kind, const char *pattern, const char *content) {
  const char *own = json_string_value(json_object_get(json_object_get(step, "pattern"), kind)),
             *by = json_string_value(json_object_get(step, "content"));
  return is_type(step, "Replace") && own != NULL && strcmp(own, pattern) == 0 && by != NULL &&
         strcmp(by, content) == 0;
}

static neap_status take_character_map(struct filling *f, const json_t *step) {
  const json_t *text = json_object_get(step, "precompiled_charsmap");
  const size_t length = json_string_length(text);
  unsigned char *map = region_alloc(f->region, length + 1, 1);
  if (map == NULL) return out_of_memory(f);
  RETURN_IF(!json_is_string(text) || f->v->map != NULL ||
                !base64_decode(json_string_value(text), length, map, &f->v->map_bytes),
            NEAP_BAD_FORMAT, "%s: its tokenizer has a map of characters that is not base64, or two of them",
            f->folder);
  f->v->map = map;
  return NEAP_OK;
}

/* Takes one step of Unigram's normalizer. What GGUF says with one flag may be several steps: spaces at the
 * ends are removed, several are one, and a space becomes the mark. */
static neap_status take_unigram_step(struct filling *f, const json_t *step) {
  const json_t *one;
  size_t i;
  if (step == NULL || json_is_null(step)) return NEAP_OK;
  json_array_foreach(json_object_get(step, "normalizers"), i, one) TRY(take_unigram_step(f, one));
  if (is_type(step, "Sequence") || is_type(step, "Prepend") || replaces(step, "String", " ", mark))
    return NEAP_OK;
  if (is_type(step, "Precompiled")) return take_character_map(f, step);
  const bool several = replaces(step, "Regex", " {2,}", " ") || replaces(step, "Regex", " {2,}", mark),
             ends = is_type(step, "Strip") || replaces(step, "Regex", "\\A +| +\\z", "");
  if (several) f->v->remove_spaces = 1;
  RETURN_IF(
      !several && !ends, NEAP_UNSUPPORTED,
      "%s: its tokenizer changes text in a way that a GGUF file cannot store (%.60s); write the model as "
      "a folder",
      f->folder, json_string_value(json_object_get(step, "type")));
  return NEAP_OK;
}

static neap_status find_unigram(struct filling *f) {
  const json_t *pre = json_object_get(f->tokenizer, "pre_tokenizer");
  f->v->model = "t5";
  f->v->pre = "default";
  f->v->remove_spaces = 0;
  f->v->add_space_prefix = has_space_prefix(json_object_get(f->tokenizer, "normalizer"), "normalizers") ||
                           has_space_prefix(pre, "pretokenizers");
  return take_unigram_step(f, json_object_get(f->tokenizer, "normalizer"));
}

static neap_status find_kind(struct filling *f) {
  struct token_vocabulary *v = f->v;
  const char *type = json_string_value(json_object_get(f->model, "type"));
  bool prefix;
  if (json_is_array(json_object_get(f->model, "vocab"))) return find_unigram(f);
  RETURN_IF(type != NULL && strcmp(type, "BPE") != 0, NEAP_UNSUPPORTED,
            "%s: its tokenizer is a %s; only BPE and Unigram can be written to a GGUF file", f->folder, type);
  if (json_is_true(json_object_get(f->model, "byte_fallback"))) {
    v->model = "llama";
    v->pre = "default";
    v->add_space_prefix = has_space_prefix(json_object_get(f->tokenizer, "normalizer"), "normalizers") ||
                          has_space_prefix(json_object_get(f->tokenizer, "pre_tokenizer"), "pretokenizers");
    return NEAP_OK;
  }
  v->model = "gpt2";
  v->pre = byte_pairs_pre(f->tokenizer, &prefix);
  v->add_space_prefix = prefix;
  RETURN_IF(
      v->pre == NULL, NEAP_UNSUPPORTED,
      "%s: its tokenizer splits text in a way that has no name in a GGUF file ('tokenizer.ggml.pre'); write "
      "the model as a folder",
      f->folder);
  return NEAP_OK;
}

static neap_status fill(struct filling *f, const struct special_texts *texts, const json_t *config) {
  const size_t count = (size_t)f->v->count;
  TRY(find_kind(f));
  f->tokens = region_alloc(f->region, count, sizeof *f->tokens);
  f->lengths = region_alloc(f->region, count, sizeof *f->lengths);
  f->types = region_alloc(f->region, count, sizeof *f->types);
  if (f->tokens == NULL || f->lengths == NULL || f->types == NULL) return out_of_memory(f);
  TRY(add_tokens(f));
  TRY(pad(f));
  if (f->scores == NULL) TRY(add_merges(f));
  f->v->types = f->types;
  if (strcmp(f->v->model, "llama") == 0) TRY(add_scores(f));
  TRY(add_specials(f, texts, config));
  f->v->tokens = f->tokens;
  f->v->lengths = f->lengths;
  f->v->scores = f->scores;
  f->v->merges = f->merges;
  return NEAP_OK;
}

neap_status folder_vocabulary_read(const char *folder, const json_t *config, int64_t rows,
                                   struct region *region, struct token_vocabulary *v) {
  struct special_texts texts;
  json_t *tokenizer;
  *v = (struct token_vocabulary){.file = folder, .count = (int32_t)rows, .remove_spaces = -1};
  RETURN_IF(rows < 1 || rows > INT32_MAX, NEAP_TOO_LARGE,
            "%s: got %lld tokens; the count must be 1 to 2^31 - 1", folder, (long long)rows);
  TRY(tokenizer_folder_to_json(folder, region, &tokenizer, &texts));
  if (tokenizer == NULL) return NEAP_OK;
  struct filling f = {.folder = folder,
                      .tokenizer = tokenizer,
                      .model = json_object_get(tokenizer, "model"),
                      .region = region,
                      .v = v};
  const neap_status status = fill(&f, &texts, config);
  vocabulary_free(&f.by_text);
  json_decref(tokenizer);
  if (status != NEAP_OK) v->tokens = NULL;
  return status;
}
