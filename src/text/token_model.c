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

/* ---- Unigram ---- */

/* The distance of an unknown character's score below the least score, as in SentencePiece. */
static const double unknown_penalty = 10;

static neap_status add_scored(const json_t *entry, const struct json_place *place, const char *name,
                              int32_t id, struct token_model *model) {
  const json_t *piece = json_array_get(entry, 0), *score = json_array_get(entry, 1);
  if (json_array_size(entry) != 2 || !json_is_string(piece) || !json_is_number(score))
    return json_bad_field(place, name, "must be a piece and its score");
  TRY(blame(vocabulary_add(&model->vocabulary, json_string_value(piece), json_string_length(piece), id),
            place, name));
  return vector_push(&model->scores, json_number_value(score));
}

static _Thread_local const struct vocabulary *sorting; /* qsort has no context */

static int by_bytes(const void *a, const void *b) {
  size_t x_length, y_length;
  const char *x = vocabulary_piece(sorting, (size_t) * (const int32_t *)a, &x_length),
             *y = vocabulary_piece(sorting, (size_t) * (const int32_t *)b, &y_length);
  const int order = memcmp(x, y, x_length < y_length ? x_length : y_length);
  return order != 0 ? order : (x_length > y_length) - (x_length < y_length);
}

static neap_status sort_pieces(struct token_model *model) {
  const size_t count = model->vocabulary.ids.count;
  TRY(vector_reserve(&model->sorted, count + 1));
  for (size_t i = 0; i < count; i++) model->sorted.data[i] = (int32_t)i;
  model->sorted.count = count;
  sorting = &model->vocabulary;
  if (count > 0) qsort(model->sorted.data, count, sizeof *model->sorted.data, by_bytes);
  return NEAP_OK;
}

/* Returns the byte of a sorted piece, or -1 behind its end. */
static int byte_at(const struct token_model *model, size_t place, size_t depth) {
  size_t length;
  const char *piece = vocabulary_piece(&model->vocabulary, (size_t)model->sorted.data[place], &length);
  return depth < length ? (unsigned char)piece[depth] : -1;
}

/* Returns the first place in the range whose byte is at least this one. */
static size_t first_from(const struct token_model *model, struct piece_range range, size_t depth, int byte) {
  while (range.low < range.high) {
    const size_t middle = range.low + (range.high - range.low) / 2;
    if (byte_at(model, middle, depth) < byte)
      range.low = middle + 1;
    else
      range.high = middle;
  }
  return range.low;
}

int32_t token_model_narrow(const struct token_model *model, size_t depth, char byte,
                           struct piece_range *range) {
  const int wanted = (unsigned char)byte;
  range->low = first_from(model, *range, depth, wanted);
  range->high = first_from(model, *range, depth, wanted + 1);
  if (range->low == range->high || byte_at(model, range->low, depth + 1) >= 0) return -1;
  return model->vocabulary.ids.data[model->sorted.data[range->low]];
}

static neap_status parse_unigram(const json_t *object, const struct json_place *place,
                                 struct token_model *model) {
  const json_t *unknown = json_object_get(object, "unk_id"), *entry;
  json_t *list;
  size_t i;
  model->kind = MODEL_UNIGRAM;
  TRY(step_flag(object, "byte_fallback", place, &model->byte_fallback));
  TRY(json_need_array(object, "vocab", place, &list));
  json_array_foreach(list, i, entry) {
    char name[40];
    snprintf(name, sizeof name, "vocab[%zu]", i);
    if (i >= INT32_MAX) return json_bad_field(place, "vocab", "must have less than 2^31 pieces");
    TRY(add_scored(entry, place, name, (int32_t)i, model));
    if (i == 0 || model->scores.data[i] < model->unknown_score) model->unknown_score = model->scores.data[i];
  }
  model->unknown_score -= unknown_penalty;
  TRY(blame(vocabulary_finish(&model->vocabulary), place, "vocab"));
  if (unknown != NULL && !json_is_null(unknown)) {
    if (!json_is_integer(unknown) || json_integer_value(unknown) < 0 ||
        (size_t)json_integer_value(unknown) >= model->scores.count)
      return json_bad_field(place, "unk_id", "must be the place of a piece in the vocabulary, or null");
    model->unknown = (int32_t)json_integer_value(unknown);
  }
  find_bytes(model);
  return sort_pieces(model);
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
                     : json_is_array(json_object_get(object, "vocab")) ? "Unigram"
                                                                       : "one without a type";
  if (strcmp(type, "BPE") == 0) return parse_bpe(object, place, model);
  if (strcmp(type, "WordPiece") == 0) return parse_word_piece(object, place, model);
  if (strcmp(type, "Unigram") == 0) return parse_unigram(object, place, model);
  return step_refuse(place, "type", type, "use a tokenizer whose model is BPE, WordPiece or Unigram");
}

void token_model_free(struct token_model *model) {
  vocabulary_free(&model->vocabulary);
  pair_table_free(&model->pairs);
  pair_table_free(&model->joints);
  vector_free(&model->merges);
  vector_free(&model->scores);
  vector_free(&model->sorted);
  free(model->prefix);
  free(model->suffix);
}

/* ---- Writing ---- */

/* Returns the pieces of Unigram, whose places are their ids. */
static json_t *write_scored(const struct token_model *model) {
  json_t *list = json_array();
  bool good = list != NULL;
  for (size_t i = 0, length; good && i < model->scores.count; i++) {
    const char *piece = vocabulary_piece(&model->vocabulary, i, &length);
    json_t *entry = json_array();
    good = entry != NULL && json_array_append_new(entry, json_stringn_nocheck(piece, length)) == 0 &&
           json_array_append_new(entry, json_real(model->scores.data[i])) == 0;
    good = good ? json_array_append_new(list, entry) == 0 : (json_decref(entry), false);
  }
  if (good) return list;
  json_decref(list);
  return NULL;
}

static json_t *write_vocabulary(const struct token_model *model) {
  if (model->kind == MODEL_UNIGRAM) return write_scored(model);
  const struct vocabulary *vocabulary = &model->vocabulary;
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
      json_object_set_new(object, "vocab", write_vocabulary(model)) == 0 &&
      (model->kind != MODEL_BPE || json_object_set_new(object, "merges", write_merges(model)) == 0);
  RETURN_IF(!good, NEAP_OUT_OF_MEMORY, "out of memory for the vocabulary of a tokenizer");
  return NEAP_OK;
}
