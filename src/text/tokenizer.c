#include "text/tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "text/bpe_learn.h"
#include "text/pipeline.h"
#include "text/text_file.h"

/* ---- Making ---- */

/* Gives the tokenizer, or frees it if something failed. */
static neap_status finish(neap_status status, struct tokenizer *made, struct tokenizer **out) {
  if (status == NEAP_OK)
    *out = made;
  else
    tokenizer_free(made);
  return status;
}

static neap_status create(enum tokenizer_kind kind, struct tokenizer **out) {
  *out = calloc(1, sizeof **out);
  RETURN_IF_NULL(*out);
  (*out)->kind = kind;
  return NEAP_OK;
}

void tokenizer_free(struct tokenizer *tokenizer) {
  if (tokenizer == NULL) return;
  bpe_free(&tokenizer->bpe);
  vector_free(&tokenizer->characters);
  for (size_t i = 0; i < tokenizer->special.count; i++) free(tokenizer->special.data[i]);
  vector_free(&tokenizer->special);
  pipeline_free(tokenizer->pipeline);
  free(tokenizer);
}

neap_status tokenizer_bytes(struct tokenizer **out) {
  struct tokenizer *made;
  TRY(create(TOKENIZER_BYTES, &made));
  return finish(bpe_start(&made->bpe), made, out);
}

neap_status tokenizer_learn(const struct text *texts, size_t count, int32_t vocabulary,
                            struct tokenizer **out) {
  struct tokenizer *made;
  TRY(create(TOKENIZER_BYTE_PAIRS, &made));
  return finish(bpe_learn(texts, count, vocabulary, &made->bpe), made, out);
}

static neap_status merge_all(struct bpe *bpe, const struct pair *merges, size_t count, size_t *bad) {
  TRY(bpe_start(bpe));
  for (*bad = 0; *bad < count; ++*bad) TRY(bpe_merge(bpe, merges[*bad]));
  return NEAP_OK;
}

neap_status tokenizer_from_merges(const struct pair *merges, size_t count, size_t *bad,
                                  struct tokenizer **out) {
  struct tokenizer *made;
  TRY(create(TOKENIZER_BYTE_PAIRS, &made));
  return finish(merge_all(&made->bpe, merges, count, bad), made, out);
}

neap_status tokenizer_from_pipeline(struct pipeline *pipeline, struct tokenizer **out) {
  const neap_status status = create(TOKENIZER_PIPELINE, out);
  if (status == NEAP_OK)
    (*out)->pipeline = pipeline;
  else
    pipeline_free(pipeline);
  return status;
}

/* ---- Characters ---- */

/* Marks the code points that occur; `context`: bool [CODE_POINTS]. */
static neap_status mark_code_points(void *context, const struct text *window, bool last, size_t *used) {
  bool *occurs = context;
  struct text text = *window;
  /* A code point whose bytes may go on behind the window comes again. */
  const size_t most = last ? 0 : UTF8_MAX_BYTES - 1;
  text.length = window->length > most ? window->length - most : 0;
  while (!last && text.length > 0 && ((unsigned char)window->bytes[text.length] & 0xC0) == 0x80)
    text.length--;
  *used = text.length;
  TRY(utf8_check(&text));
  uint32_t code;
  for (size_t at = 0; at < text.length; occurs[code] = true)
    at += (size_t)utf8_decode(text.bytes + at, text.length - at, &code);
  return NEAP_OK;
}

static neap_status collect_characters(struct tokenizer *made, const struct text *texts, size_t count,
                                      bool occurs[CODE_POINTS]) {
  for (size_t i = 0; i < count; i++) TRY(text_walk(&texts[i], mark_code_points, occurs, NULL));
  for (uint32_t code = 0; code < CODE_POINTS; code++)
    if (occurs[code]) TRY(vector_push(&made->characters, code));
  RETURN_IF(made->characters.count == 0, NEAP_BAD_FORMAT, "%s: has no characters to make a vocabulary of",
            count > 0 ? texts[0].name : "the text");
  return NEAP_OK;
}

neap_status tokenizer_characters(const struct text *texts, size_t count, struct tokenizer **out) {
  struct tokenizer *made;
  TRY(create(TOKENIZER_CHARACTERS, &made));
  bool *occurs = calloc(CODE_POINTS, sizeof *occurs);
  const neap_status status = occurs != NULL
                                 ? collect_characters(made, texts, count, occurs)
                                 : neap_fail(NEAP_OUT_OF_MEMORY, "out of memory for a set of characters");
  free(occurs);
  return finish(status, made, out);
}

static neap_status add_code_points(struct tokenizer *made, const int32_t *codes, size_t count, size_t *bad) {
  for (*bad = 0; *bad < count; ++*bad) {
    const int32_t code = codes[*bad];
    RETURN_IF(code < 0 || !utf8_is_code_point((uint64_t)code), NEAP_INVALID_ARGUMENT,
              "%d is not a Unicode code point", code);
    RETURN_IF(*bad > 0 && code <= codes[*bad - 1], NEAP_INVALID_ARGUMENT,
              "code point %d comes after %d; code points must rise", code, codes[*bad - 1]);
    TRY(vector_push(&made->characters, (uint32_t)code));
  }
  RETURN_IF(count == 0, NEAP_INVALID_ARGUMENT, "a vocabulary needs at least one character");
  return NEAP_OK;
}

neap_status tokenizer_from_code_points(const int32_t *codes, size_t count, size_t *bad,
                                       struct tokenizer **out) {
  struct tokenizer *made;
  TRY(create(TOKENIZER_CHARACTERS, &made));
  return finish(add_code_points(made, codes, count, bad), made, out);
}

/* Returns the id of a code point, or -1. */
static int32_t find_character(const struct tokenizer *tokenizer, uint32_t code) {
  const uint32_t *characters = tokenizer->characters.data;
  size_t low = 0, high = tokenizer->characters.count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (characters[middle] < code)
      low = middle + 1;
    else
      high = middle;
  }
  return low < tokenizer->characters.count && characters[low] == code ? (int32_t)low : -1;
}

static neap_status encode_characters(const struct tokenizer *tokenizer, const struct text *text,
                                     struct token_ids *ids) {
  const int32_t unknown = tokenizer_special(tokenizer, TOKENIZER_UNKNOWN);
  uint32_t code;
  TRY(utf8_check(text));
  for (size_t at = 0, size; at < text->length; at += size) {
    size = (size_t)utf8_decode(text->bytes + at, text->length - at, &code);
    int32_t id = find_character(tokenizer, code);
    if (id < 0 && (id = unknown) < 0) {
      char message[96];
      snprintf(message, sizeof message,
               "U+%04X is not among the vocabulary's %zu characters, and it has no %s", code,
               tokenizer->characters.count, TOKENIZER_UNKNOWN);
      return text_bad(text, at, message);
    }
    TRY(vector_push(ids, id));
  }
  return NEAP_OK;
}

/* ---- Ids ---- */

/* Returns the number of ids without the special tokens that were added here, which follow. */
static size_t size_without_special(const struct tokenizer *tokenizer) {
  switch (tokenizer->kind) {
  case TOKENIZER_CHARACTERS:
    return tokenizer->characters.count;
  case TOKENIZER_PIPELINE:
    return (size_t)tokenizer->pipeline->size;
  default:
    return (size_t)bpe_size(&tokenizer->bpe);
  }
}

int32_t tokenizer_size(const struct tokenizer *tokenizer) {
  return (int32_t)(size_without_special(tokenizer) + tokenizer->special.count);
}

int32_t tokenizer_special(const struct tokenizer *tokenizer, const char *name) {
  if (tokenizer->kind == TOKENIZER_PIPELINE) {
    const struct added_token *token = added_token_of_text(&tokenizer->pipeline->added, name, strlen(name));
    if (token != NULL && token->special) return token->id;
  }
  for (size_t i = 0; i < tokenizer->special.count; i++)
    if (strcmp(tokenizer->special.data[i], name) == 0) return (int32_t)(size_without_special(tokenizer) + i);
  return -1;
}

int32_t tokenizer_find(const struct tokenizer *tokenizer, const char *piece) {
  const size_t length = strlen(piece);
  const int32_t special = tokenizer_special(tokenizer, piece);
  uint32_t code;
  if (special >= 0 || length == 0) return special;
  switch (tokenizer->kind) {
  case TOKENIZER_PIPELINE:
    return pipeline_find(tokenizer->pipeline, piece);
  case TOKENIZER_CHARACTERS:
    return (size_t)utf8_decode(piece, length, &code) == length ? find_character(tokenizer, code) : -1;
  default:
    for (int32_t id = 0; id < bpe_size(&tokenizer->bpe); id++) {
      size_t size;
      const char *bytes = bpe_token(&tokenizer->bpe, id, &size);
      if (size == length && memcmp(bytes, piece, length) == 0) return id;
    }
    return -1;
  }
}

int32_t tokenizer_bos(const struct tokenizer *tokenizer) {
  return tokenizer->kind == TOKENIZER_PIPELINE ? tokenizer->pipeline->bos : -1;
}

int32_t tokenizer_eos(const struct tokenizer *tokenizer) {
  return tokenizer->kind == TOKENIZER_PIPELINE ? tokenizer->pipeline->eos : -1;
}

int32_t tokenizer_behind(const struct tokenizer *tokenizer) {
  return tokenizer->kind == TOKENIZER_PIPELINE ? (int32_t)tokenizer->pipeline->post.behind.count : 0;
}

const char *tokenizer_added_text(const struct tokenizer *tokenizer, int32_t id) {
  if (tokenizer->kind != TOKENIZER_PIPELINE || id < 0) return NULL;
  const struct added_token *token = added_token_of_id(&tokenizer->pipeline->added, id);
  return token != NULL ? token->text : NULL;
}

neap_status tokenizer_add_special(struct tokenizer *tokenizer, const char *name, int32_t *id) {
  const struct text text = {.bytes = name, .length = strlen(name), .name = name};
  RETURN_IF(text.length == 0 || utf8_check(&text) != NEAP_OK, NEAP_INVALID_ARGUMENT,
            "the name of a special token is %s", text.length == 0 ? "empty" : "not UTF-8");
  RETURN_IF(tokenizer_special(tokenizer, name) >= 0, NEAP_INVALID_ARGUMENT,
            "special token '%s' exists already", name);
  const int32_t next = tokenizer_size(tokenizer);
  RETURN_IF(next == INT32_MAX, NEAP_TOO_LARGE, "special token '%s' exceeds the number of ids", name);
  char *copy = malloc(text.length + 1);
  RETURN_IF_NULL(copy);
  memcpy(copy, name, text.length + 1);
  const neap_status status = vector_push(&tokenizer->special, copy);
  if (status != NEAP_OK)
    free(copy);
  else
    *id = next;
  return status;
}

static neap_status encode_bytes(const struct text *text, struct token_ids *ids) {
  size_t count;
  RETURN_IF(__builtin_add_overflow(ids->count, text->length, &count), NEAP_OUT_OF_MEMORY,
            "out of memory for %zu ids", text->length);
  TRY(vector_reserve(ids, count));
  for (size_t i = 0; i < text->length; i++) ids->data[ids->count + i] = (unsigned char)text->bytes[i];
  ids->count = count;
  return NEAP_OK;
}

neap_status tokenizer_encode(const struct tokenizer *tokenizer, const struct text *text,
                             struct token_ids *ids) {
  const size_t before = ids->count;
  neap_status status = NEAP_OK;
  switch (tokenizer->kind) {
  case TOKENIZER_BYTES:
    return encode_bytes(text, ids);
  case TOKENIZER_BYTE_PAIRS:
    return bpe_encode(&tokenizer->bpe, text->bytes, text->length, ids);
  case TOKENIZER_CHARACTERS:
    status = encode_characters(tokenizer, text, ids);
    break;
  case TOKENIZER_PIPELINE:
    status = pipeline_encode(tokenizer->pipeline, text, false, ids, NULL);
  }
  if (status != NEAP_OK) ids->count = before;
  return status;
}

/* Returns the bytes of a valid id, and their number; `character` has room for one. */
static const char *spell(const struct tokenizer *tokenizer, int32_t id, char character[UTF8_MAX_BYTES],
                         size_t *length) {
  *length = 0;
  if ((size_t)id >= size_without_special(tokenizer)) return character;
  if (tokenizer->kind != TOKENIZER_CHARACTERS) return bpe_token(&tokenizer->bpe, id, length);
  *length = (size_t)utf8_write(tokenizer->characters.data[id], character);
  return character;
}

/* Finds where tokens end in a text, for tokenizers of our own: together the tokens spell the text. */
static neap_status find_places(const struct tokenizer *tokenizer, const struct text *text, const int32_t *ids,
                               size_t count, struct places *ends) {
  char character[UTF8_MAX_BYTES];
  uint32_t code;
  for (size_t i = 0, at = 0, size; i < count; i++, at += size) {
    if (tokenizer->kind == TOKENIZER_CHARACTERS) /* some may be unknown */
      size = (size_t)utf8_decode(text->bytes + at, text->length - at, &code);
    else
      spell(tokenizer, ids[i], character, &size);
    TRY(vector_push(ends, at + size));
  }
  return NEAP_OK;
}

neap_status tokenizer_encode_places(const struct tokenizer *tokenizer, const struct text *text, bool whole,
                                    struct token_ids *ids, struct places *ends) {
  const size_t count = ids->count, places = ends != NULL ? ends->count : 0;
  neap_status status;
  if (tokenizer->kind == TOKENIZER_PIPELINE) {
    status = pipeline_encode(tokenizer->pipeline, text, whole, ids, ends);
  } else {
    status = tokenizer_encode(tokenizer, text, ids);
    if (status == NEAP_OK && ends != NULL)
      status = find_places(tokenizer, text, ids->data + count, ids->count - count, ends);
  }
  if (status == NEAP_OK) return NEAP_OK;
  ids->count = count;
  if (ends != NULL) ends->count = places;
  return status;
}

static neap_status check_ids(const struct tokenizer *tokenizer, const int32_t *ids, size_t count) {
  const int32_t size = tokenizer_size(tokenizer);
  for (size_t i = 0; i < count; i++)
    RETURN_IF(ids[i] < 0 || ids[i] >= size, NEAP_INVALID_ARGUMENT,
              "%d at place %zu is not an id of a vocabulary of %d", ids[i], i, size);
  return NEAP_OK;
}

neap_status tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t count, char **text,
                             size_t *length) {
  char character[UTF8_MAX_BYTES];
  size_t size, total = 1;
  TRY(check_ids(tokenizer, ids, count));
  if (tokenizer->kind == TOKENIZER_PIPELINE)
    return pipeline_decode(tokenizer->pipeline, ids, count, text, length);
  for (size_t i = 0; i < count; i++) {
    spell(tokenizer, ids[i], character, &size);
    RETURN_IF(__builtin_add_overflow(total, size, &total), NEAP_TOO_LARGE, "the text of %zu ids is too long",
              count);
  }
  char *made = malloc(total), *at = made;
  RETURN_IF(made == NULL, NEAP_OUT_OF_MEMORY, "out of memory for a text of %zu bytes", total);
  for (size_t i = 0; i < count; i++, at += size) {
    const char *bytes = spell(tokenizer, ids[i], character, &size);
    memcpy(at, bytes, size);
  }
  *at = '\0';
  *text = made;
  *length = total - 1;
  return NEAP_OK;
}
