#include "text/added_tokens.h"

#include <stdio.h>
#include <string.h>

#include "text/unicode.h"
#include "text/utf8.h"

const struct added_token *added_token_of_id(const struct added_tokens *added, int32_t id) {
  if (id < 0 || (size_t)id >= added->by_id.count || added->by_id.data[id] < 0) return NULL;
  return &added->list.data[added->by_id.data[id]];
}

const struct added_token *added_token_of_text(const struct added_tokens *added, const char *text,
                                              size_t length) {
  for (size_t i = 0; i < added->list.count; i++) {
    const struct added_token *token = &added->list.data[i];
    if (token->length == length && memcmp(token->text, text, length) == 0) return token;
  }
  return NULL;
}

/* ---- Texts to look for ---- */

static int compare(const void *a, const void *b) {
  const struct token_text *x = a, *y = b;
  const int order = memcmp(x->bytes, y->bytes, x->length < y->length ? x->length : y->length);
  if (order != 0) return order;
  if (x->length != y->length) return x->length < y->length ? -1 : 1;
  return (x->order > y->order) - (x->order < y->order);
}

static void sort_texts(struct token_texts *texts) {
  size_t kept = 0;
  if (texts->count > 0) qsort(texts->data, texts->count, sizeof *texts->data, compare);
  for (size_t i = 0; i < texts->count; i++) {
    const struct token_text *text = &texts->data[i], *last = kept > 0 ? &texts->data[kept - 1] : NULL;
    if (last != NULL && last->length == text->length && memcmp(last->bytes, text->bytes, text->length) == 0)
      continue;
    texts->begins[(unsigned char)text->bytes[0]] = true;
    texts->data[kept++] = *text;
  }
  texts->count = kept;
}

/* Returns the first of the texts [low, high), which share `depth` bytes, whose next byte is `byte` or
 * more. */
static size_t first_with(const struct token_texts *texts, size_t low, size_t high, size_t depth, int byte) {
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const struct token_text *text = &texts->data[middle];
    if (text->length <= depth || (unsigned char)text->bytes[depth] < byte)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Returns the longest text that the bytes begin with; NULL: none. */
static const struct token_text *find_longest(const struct token_texts *texts, const char *bytes,
                                             size_t length) {
  const struct token_text *best = NULL;
  size_t low = 0, high = texts->count;
  for (size_t depth = 0; low < high && depth < length; depth++) {
    const int byte = (unsigned char)bytes[depth];
    low = first_with(texts, low, high, depth, byte);
    high = first_with(texts, low, high, depth, byte + 1);
    if (low < high && texts->data[low].length == depth + 1) best = &texts->data[low];
  }
  return best;
}

/* ---- Making ---- */

static neap_status read_token(const json_t *object, const struct json_place *place, size_t most,
                              const struct vocabulary *vocabulary, struct added_token *token) {
  uint64_t id;
  if (!json_is_object(object)) return json_bad(place, "must be an object");
  token->normalized = true;
  TRY(json_need_size(object, "id", place, &id));
  TRY(step_flag(object, "single_word", place, &token->single_word));
  TRY(step_flag(object, "lstrip", place, &token->left));
  TRY(step_flag(object, "rstrip", place, &token->right));
  TRY(step_flag(object, "special", place, &token->special));
  token->normalized = !token->special;
  TRY(step_flag(object, "normalized", place, &token->normalized));
  if (id > most) return json_bad_field(place, "id", "must not be far above the vocabulary");
  TRY(step_text(object, "content", place, false, &token->text, &token->length));
  token->id = vocabulary_find(vocabulary, token->text, token->length);
  if (token->id < 0) token->id = (int32_t)id;
  return NEAP_OK;
}

static neap_status read_list(const json_t *list, const struct json_place *place,
                             const struct vocabulary *vocabulary, struct added_tokens *added) {
  const json_t *object;
  size_t i;
  const size_t most =
      (size_t)vocabulary_size(vocabulary) + 2 * json_array_size(list) + (size_t)VOCABULARY_GAPS;
  if (list == NULL || json_is_null(list)) return NEAP_OK;
  if (!json_is_array(list) || most >= INT32_MAX)
    return json_bad_field(place, "added_tokens", "must be a list");
  json_array_foreach(list, i, object) {
    char name[40];
    struct added_token token = {0};
    snprintf(name, sizeof name, "added_tokens[%zu]", i);
    const struct json_place inner = step_place(place, name);
    TRY(read_token(object, &inner, most, vocabulary, &token));
    const struct added_token *same = added_token_of_text(added, token.text, token.length);
    if (same != NULL) token.id = same->id;
    const neap_status status = vector_push(&added->list, token);
    if (status != NEAP_OK) free(token.text);
    TRY(status);
  }
  return NEAP_OK;
}

static neap_status index_ids(struct added_tokens *added) {
  for (size_t i = 0; i < added->list.count; i++) {
    const size_t id = (size_t)added->list.data[i].id;
    TRY(vector_reserve(&added->by_id, id + 1));
    while (added->by_id.count <= id) added->by_id.data[added->by_id.count++] = -1;
    if (added->list.data[i].length > 0) added->by_id.data[id] = (int32_t)i;
  }
  return NEAP_OK;
}

/* Stores the normalized form of a token. */
static neap_status normalise_token(struct added_token *token, const struct steps *normalizer,
                                   struct matcher *matcher) {
  struct passage_buffer buffers[2] = {{.placed = false}, {.placed = false}};
  const struct passage in = {.bytes = token->text, .length = token->length, .first = true};
  struct passage made;
  neap_status status = normalise(normalizer, matcher, &in, buffers, &made);
  if (status == NEAP_OK) token->normal = malloc(made.length + 1);
  if (token->normal != NULL) {
    if (made.length > 0) memcpy(token->normal, made.bytes, made.length);
    token->normal[made.length] = '\0';
    token->normal_length = made.length;
  } else if (status == NEAP_OK) {
    status = neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a token");
  }
  passage_free(&buffers[0]);
  passage_free(&buffers[1]);
  return status;
}

static neap_status add_texts(struct added_tokens *added, const struct steps *normalizer,
                             struct matcher *matcher) {
  const size_t count = added->list.count;
  for (size_t i = 0; i < count; i++) {
    struct added_token *token = &added->list.data[i];
    const size_t order = token->special ? i : count + i; /* of equal texts that of a special token counts */
    if (token->length == 0) continue;
    if (token->normalized) TRY(normalise_token(token, normalizer, matcher));
    const char *text = token->normalized ? token->normal : token->text;
    const size_t length = token->normalized ? token->normal_length : token->length;
    if (length == 0) continue;
    TRY(vector_push(token->normalized ? &added->normalized : &added->plain,
                    (struct token_text){text, length, token->id, order}));
  }
  return NEAP_OK;
}

neap_status added_tokens_parse(const json_t *list, const struct json_place *place,
                               const struct vocabulary *vocabulary, const struct steps *normalizer,
                               struct added_tokens *added) {
  static const char word[] = "\\A[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]";
  struct matcher *matcher = NULL;
  *added = (struct added_tokens){0};
  neap_status status;
  TRY_DONE(read_list(list, place, vocabulary, added));
  TRY_DONE(index_ids(added));
  TRY_DONE(expression_compile(word, strlen(word), false, &added->word));
  TRY_DONE(matcher_create(&matcher));
  status = add_texts(added, normalizer, matcher);
  sort_texts(&added->plain);
  sort_texts(&added->normalized);
done:
  matcher_free(matcher);
  return status;
}

void added_tokens_free(struct added_tokens *added) {
  vector_free(&added->plain);
  vector_free(&added->normalized);
  for (size_t i = 0; i < added->list.count; i++) {
    free(added->list.data[i].text);
    free(added->list.data[i].normal);
  }
  vector_free(&added->list);
  vector_free(&added->by_id);
  expression_free(added->word);
}

/* ---- Splitting ---- */

/* Returns the start of the character that ends at `end`, which is not 0. */
static size_t character_before(const struct passage *text, size_t end) {
  do end--;
  while (end > 0 && ((unsigned char)text->bytes[end] & 0xC0) == 0x80);
  return end;
}

static neap_status is_word(const struct added_tokens *added, struct matcher *matcher,
                           const struct passage *text, size_t at, bool *word) {
  uint32_t code;
  const size_t size = (size_t)utf8_decode(text->bytes + at, text->length - at, &code);
  struct expression_walk walk = {
      .pattern = added->word, .matcher = matcher, .bytes = text->bytes + at, .length = size};
  size_t start, end;
  return expression_next(&walk, &start, &end, word);
}

/* Finds out whether a token may be at [from, to). */
static neap_status is_allowed(const struct added_tokens *added, struct matcher *matcher,
                              const struct passage *text, const struct added_token *token, size_t from,
                              size_t to, bool *allowed) {
  bool before = false, behind = false;
  if (token->single_word && from > 0)
    TRY(is_word(added, matcher, text, character_before(text, from), &before));
  if (token->single_word && to < text->length) TRY(is_word(added, matcher, text, to, &behind));
  *allowed = !before && !behind;
  return NEAP_OK;
}

/* Adds the white space on the sides where the token takes it, but none before `done`, which was taken. */
static void widen(const struct passage *text, const struct added_token *token, size_t done, size_t *from,
                  size_t *to) {
  uint32_t code;
  if (token->left && *from < done) *from = done;
  while (token->left && *from > done) {
    const size_t at = character_before(text, *from);
    utf8_decode(text->bytes + at, text->length - at, &code);
    if (!unicode_is_space(code)) break;
    *from = at;
  }
  while (token->right && *to < text->length) {
    const size_t size = (size_t)utf8_decode(text->bytes + *to, text->length - *to, &code);
    if (!unicode_is_space(code)) break;
    *to += size;
  }
}

static neap_status give(const struct passage *text, size_t from, size_t to, int32_t id, added_taker *take,
                        void *context) {
  const struct passage part = passage_part(text, from, to);
  return take(context, &part, id);
}

neap_status added_tokens_split(const struct added_tokens *added, bool normalized, struct matcher *matcher,
                               const struct passage *text, added_taker *take, void *context) {
  const struct token_texts *texts = normalized ? &added->normalized : &added->plain;
  size_t done = 0;
  for (size_t at = 0; at < text->length && texts->count > 0;) {
    if (!texts->begins[(unsigned char)text->bytes[at]]) {
      at++;
      continue;
    }
    const struct token_text *found = find_longest(texts, text->bytes + at, text->length - at);
    if (found == NULL) {
      at++;
      continue;
    }
    const struct added_token *token = added_token_of_id(added, found->id);
    size_t from = at, to = at + found->length;
    bool allowed = true;
    at = to;
    if (token != NULL) TRY(is_allowed(added, matcher, text, token, from, to, &allowed));
    if (!allowed) continue;
    if (token != NULL) widen(text, token, done, &from, &to);
    if (done < from) TRY(give(text, done, from, -1, take, context));
    if (from < to) TRY(give(text, from, to, found->id, take, context)); /* else the one before it took it */
    done = to;
  }
  return done < text->length ? give(text, done, text->length, -1, take, context) : NEAP_OK;
}
