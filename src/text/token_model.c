#include "text/token_model.h"

#include <stdio.h>
#include <string.h>

#include "text/step.h"
#include "text/utf8.h"

/* ---- Vocabulary ---- */

static neap_status blame(neap_status status, const struct json_place *place, const char *name) {
  if (status != NEAP_INVALID_ARGUMENT && status != NEAP_TOO_LARGE) return status;
  char message[300];
  snprintf(message, sizeof message, "is invalid: %.280s", neap_error_message());
  return json_bad_field(place, name, message);
}

static neap_status read_vocabulary(const json_t *object, const struct json_place *place,
                                   struct vocabulary *vocabulary) {
  json_t *pieces;
  TRY(json_need(object, "vocab", place, &pieces));
  if (!json_is_object(pieces)) return json_bad_field(place, "vocab", "must be an object of ids by pieces");
  for (void *at = json_object_iter(pieces); at != NULL; at = json_object_iter_next(pieces, at)) {
    const json_t *id = json_object_iter_value(at);
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= INT32_MAX)
      return json_bad_field(place, "vocab", "must have ids of 0 to 2^31 - 2");
    TRY(blame(vocabulary_add(vocabulary, json_object_iter_key(at), json_object_iter_key_len(at),
                             (int32_t)json_integer_value(id)),
              place, "vocab"));
  }
  return blame(vocabulary_finish(vocabulary), place, "vocab");
}

/* Finds the id of a token that the model names; -1 if it names none. */
static neap_status find_named(const json_t *object, const char *name, const struct json_place *place,
                              const struct vocabulary *vocabulary, int32_t *id) {
  const json_t *token = json_object_get(object, name);
  *id = -1;
  if (token == NULL || json_is_null(token)) return NEAP_OK;
  if (!json_is_string(token)) return json_bad_field(place, name, "must be a string or null");
  *id = vocabulary_find(vocabulary, json_string_value(token), json_string_length(token));
  if (*id < 0) return json_bad_field(place, name, "must be a piece of the vocabulary");
  return NEAP_OK;
}

/* ---- Merges ---- */

struct text_pair {
  const char *left, *right;
  size_t left_length, right_length;
};

/* Reads "a b" or ["a", "b"]; returns false for anything else. */
static bool read_pair(const json_t *merge, struct text_pair *pair) {
  const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
  if (json_is_string(merge)) {
    const char *text = json_string_value(merge);
    const size_t length = json_string_length(merge);
    const char *space = memchr(text, ' ', length);
    if (space == NULL) return false;
    *pair = (struct text_pair){text, space + 1, (size_t)(space - text), length - 1 - (size_t)(space - text)};
    return memchr(pair->right, ' ', pair->right_length) == NULL;
  }
  if (!json_is_string(left) || !json_is_string(right) || json_array_size(merge) != 2) return false;
  *pair = (struct text_pair){json_string_value(left), json_string_value(right), json_string_length(left),
                             json_string_length(right)};
  return true;
}

/* Stores the last character of the left side and the first of the right one. */
static neap_status add_joint(struct token_model *model, const struct text_pair *pair) {
  uint32_t left = 0, right = 0;
  int32_t number;
  size_t last = pair->left_length;
  while (last > 0 && ((unsigned char)pair->left[--last] & 0xC0) == 0x80) {}
  if (pair->left_length > 0) utf8_decode(pair->left + last, pair->left_length - last, &left);
  if (pair->right_length > 0) utf8_decode(pair->right, pair->right_length, &right);
  return pair_table_add(&model->joints, (struct pair){(int32_t)left, (int32_t)right}, &number);
}

/* Adds the merge of a rank. NEAP_INVALID_ARGUMENT: a side or the result has no id. */
static neap_status add_merge(struct token_model *model, const struct text_pair *pair, int32_t rank,
                             char *room) {
  const struct vocabulary *v = &model->vocabulary;
  const size_t skip = model->prefix_length;
  const int32_t left = vocabulary_find(v, pair->left, pair->left_length);
  const int32_t right = vocabulary_find(v, pair->right, pair->right_length);
  int32_t whole = -1, number;
  if (left >= 0 && right >= 0 && pair->right_length >= skip) {
    memcpy(room, pair->left, pair->left_length);
    memcpy(room + pair->left_length, pair->right + skip, pair->right_length - skip);
    whole = vocabulary_find(v, room, pair->left_length + pair->right_length - skip);
  }
  RETURN_IF(whole < 0, NEAP_INVALID_ARGUMENT, "'%.*s' and '%.*s', or their merge, is not in the vocabulary",
            pair->left_length < 50 ? (int)pair->left_length : 50, pair->left,
            pair->right_length < 50 ? (int)pair->right_length : 50, pair->right);
  TRY(add_joint(model, pair));
  TRY(pair_table_add(&model->pairs, (struct pair){left, right}, &number));
  if ((size_t)number == model->merges.count) TRY(vector_push(&model->merges, (struct token_merge){0}));
  model->merges.data[number] = (struct token_merge){rank, whole};
  return NEAP_OK;
}

static neap_status read_merges(const json_t *object, const struct json_place *place,
                               struct token_model *model) {
  json_t *list, *merge;
  size_t i;
  struct text_pair pair;
  neap_status status = NEAP_OK;
  TRY(json_need_array(object, "merges", place, &list));
  char *room = malloc(2 * model->vocabulary.longest + 1);
  RETURN_IF_NULL(room);
  json_array_foreach(list, i, merge) {
    char name[40];
    snprintf(name, sizeof name, "merges[%zu]", i);
    if (i >= INT32_MAX || !read_pair(merge, &pair))
      status = json_bad_field(place, name, "must be two pieces, \"a b\" or [\"a\", \"b\"]");
    else
      status = blame(add_merge(model, &pair, (int32_t)i, room), place, name);
    if (status != NEAP_OK) break;
  }
  free(room);
  return status;
}

/* ---- Models ---- */

static void find_bytes(struct token_model *model) {
  char name[8];
  for (int i = 0; i < 256; i++) {
    snprintf(name, sizeof name, "<0x%02X>", (unsigned)i);
    model->bytes[i] = vocabulary_find(&model->vocabulary, name, 6);
  }
}

/* Reads a text that begins or ends pieces; if it is missing or null it is `usual`. */
static neap_status read_affix(const json_t *object, const char *name, const struct json_place *place,
                              const char *usual, char **text, size_t *length) {
  TRY(step_text(object, name, place, true, text, length));
  if (*text != NULL) return NEAP_OK;
  *length = strlen(usual);
  *text = strdup(usual);
  RETURN_IF_NULL(*text);
  return NEAP_OK;
}

static neap_status parse_bpe(const json_t *object, const struct json_place *place,
                             struct token_model *model) {
  const json_t *dropout = json_object_get(object, "dropout");
  model->kind = MODEL_BPE;
  if (dropout != NULL && !json_is_null(dropout) && json_number_value(dropout) != 0)
    return step_refuse(place, "dropout", "a random one", "set it to null");
  TRY(step_flag(object, "byte_fallback", place, &model->byte_fallback));
  TRY(step_flag(object, "fuse_unk", place, &model->fuse_unknown));
  TRY(step_flag(object, "ignore_merges", place, &model->ignore_merges));
  TRY(read_affix(object, "continuing_subword_prefix", place, "", &model->prefix, &model->prefix_length));
  TRY(read_affix(object, "end_of_word_suffix", place, "", &model->suffix, &model->suffix_length));
  TRY(read_vocabulary(object, place, &model->vocabulary));
  TRY(find_named(object, "unk_token", place, &model->vocabulary, &model->unknown));
  find_bytes(model);
  return read_merges(object, place, model);
}

static neap_status parse_word_piece(const json_t *object, const struct json_place *place,
                                    struct token_model *model) {
  model->kind = MODEL_WORD_PIECE;
  model->most_characters = 100;
  const json_t *most = json_object_get(object, "max_input_chars_per_word");
  if (most != NULL) TRY(json_need_size(object, "max_input_chars_per_word", place, &model->most_characters));
  TRY(read_affix(object, "continuing_subword_prefix", place, "##", &model->prefix, &model->prefix_length));
  TRY(read_vocabulary(object, place, &model->vocabulary));
  TRY(find_named(object, "unk_token", place, &model->vocabulary, &model->unknown));
  if (model->unknown < 0) return json_bad_field(place, "unk_token", "must be a piece of the vocabulary");
  return NEAP_OK;
}

neap_status token_model_parse(const json_t *object, const struct json_place *place,
                              struct token_model *model) {
  *model = (struct token_model){.unknown = -1};
  if (!json_is_object(object)) return json_bad(place, "must be an object");
  const json_t *given = json_object_get(object, "type");
  /* Older files do not say it. */
  const char *type = json_is_string(given)                       ? json_string_value(given)
                     : json_object_get(object, "merges") != NULL ? "BPE"
                     : json_is_object(json_object_get(object, "vocab")) &&
                             json_object_get(object, "max_input_chars_per_word") != NULL
                         ? "WordPiece"
                         : "one without a type";
  if (strcmp(type, "BPE") == 0) return parse_bpe(object, place, model);
  if (strcmp(type, "WordPiece") == 0) return parse_word_piece(object, place, model);
  return step_refuse(place, "type", type, "use a tokenizer whose model is BPE or WordPiece");
}

void token_model_free(struct token_model *model) {
  vocabulary_free(&model->vocabulary);
  pair_table_free(&model->pairs);
  pair_table_free(&model->joints);
  vector_free(&model->merges);
  free(model->prefix);
  free(model->suffix);
}

/* ---- Writing ---- */

static json_t *write_vocabulary(const struct vocabulary *vocabulary) {
  json_t *pieces = json_object();
  for (size_t i = 0, length; i < vocabulary->ids.count && pieces != NULL; i++) {
    const char *piece = vocabulary_piece(vocabulary, i, &length);
    if (json_object_setn_new_nocheck(pieces, piece, length, json_integer(vocabulary->ids.data[i])) != 0) {
      json_decref(pieces);
      return NULL;
    }
  }
  return pieces;
}

static int by_rank(const void *a, const void *b) {
  const struct token_merge *x = a, *y = b;
  return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Sorts merges; `id` becomes the number of the pair. */
static struct token_merge *sort_merges(const struct token_model *model) {
  struct token_merge *sorted = malloc((model->merges.count + 1) * sizeof *sorted);
  if (sorted == NULL) return NULL;
  for (size_t i = 0; i < model->merges.count; i++)
    sorted[i] = (struct token_merge){model->merges.data[i].rank, (int32_t)i};
  qsort(sorted, model->merges.count, sizeof *sorted, by_rank);
  return sorted;
}

static json_t *write_piece(const struct token_model *model, int32_t id) {
  size_t length;
  const char *piece = vocabulary_of_id(&model->vocabulary, id, &length);
  return json_stringn_nocheck(piece, length);
}

static json_t *write_merges(const struct token_model *model) {
  json_t *list = json_array();
  struct token_merge *sorted = sort_merges(model);
  bool good = list != NULL && sorted != NULL;
  for (size_t i = 0; good && i < model->merges.count; i++) {
    const struct pair pair = model->pairs.pairs.data[sorted[i].id];
    json_t *merge = json_array();
    good = merge != NULL && json_array_append_new(merge, write_piece(model, pair.left)) == 0 &&
           json_array_append_new(merge, write_piece(model, pair.right)) == 0;
    good = good ? json_array_append_new(list, merge) == 0 : (json_decref(merge), false);
  }
  free(sorted);
  if (good) return list;
  json_decref(list);
  return NULL;
}

neap_status token_model_write(const struct token_model *model, json_t *object) {
  const bool good =
      json_object_set_new(object, "vocab", write_vocabulary(&model->vocabulary)) == 0 &&
      (model->kind != MODEL_BPE || json_object_set_new(object, "merges", write_merges(model)) == 0);
  RETURN_IF(!good, NEAP_OUT_OF_MEMORY, "out of memory for the vocabulary of a tokenizer");
  return NEAP_OK;
}
