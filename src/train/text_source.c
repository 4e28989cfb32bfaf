/* Text and ids of tokens as data: "text:FILE[,tokens=bytes|characters|N|FILE.json][,test=FILE]" and
 * "tokens:FILE[,type=u16|i32][,test=FILE]". Where no file is given to test with, the last tenth is kept for
 * it.
 *
 * A text is made tokens once, which go to a temporary file: the process holds neither. The tokenizer is
 * learned from the training part alone, but characters are those of both. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/text_file.h"
#include "text/token_file.h"
#include "text/tokenizer_file.h"
#include "train/sequences.h"

static const double training_share = 0.9;

/* ---- What stands in the name ---- */

struct words {
  const char *file, *test, *tokens, *type; /* NULL: it is not there */
};

/* ---- Tokens in files ---- */

/* The training tokens, then those to test with: in one file or in two. */
struct token_source {
  struct token_file files[2];
};

static neap_status read_tokens(const struct data_set *set, int64_t first, int64_t count, int32_t *tokens) {
  const struct token_source *source = set->source;
  const int64_t before = source->files[0].count;
  if (first >= before && source->files[1].descriptor >= 0)
    return token_file_read(&source->files[1], first - before, count, tokens);
  return token_file_read(&source->files[0], first, count, tokens);
}

static neap_status add_source(struct data_set *set, struct token_source **out) {
  static const struct token_source none = {{{.descriptor = -1}, {.descriptor = -1}}};
  struct token_source *source = region_copy(&set->region, &none, 1, sizeof none);
  RETURN_IF_NULL(source);
  set->source = source;
  set->read_tokens = read_tokens;
  set->length = set->wish.length > 0 ? set->wish.length : 1;
  *out = source;
  return NEAP_OK;
}

/* ---- Text ---- */

/* Where the training part of a text ends: at the beginning of a character. */
static size_t training_end(const struct text *text) {
  size_t end = (size_t)((double)text->length * training_share);
  while (end > 0 && ((unsigned char)text->bytes[end] & 0xC0) == 0x80) end--;
  return end;
}

/* The line of a text that byte `at` is in, counted from the text's own. */
static int64_t line_at(const struct text *text, size_t at) {
  int64_t line = text->line > 0 ? text->line : 1;
  for (size_t i = 0; i < at; i++) line += text->bytes[i] == '\n';
  return line;
}

static neap_status make_tokenizer(struct data_set *set, const struct words *words, const struct text *texts) {
  const char *kind = words->tokens != NULL ? words->tokens : "bytes";
  if (strcmp(kind, "bytes") == 0) return tokenizer_bytes(&set->tokenizer);
  if (data_is_tokenizer(kind)) return tokenizer_read(kind, &set->tokenizer);
  if (strcmp(kind, "characters") == 0) return tokenizer_characters(texts, 2, &set->tokenizer);
  char *end;
  errno = 0;
  const long size = strtol(kind, &end, 10);
  RETURN_IF(
      end == kind || *end != '\0' || errno != 0 || size < BYTE_TOKENS || size > 1 << 20,
      NEAP_INVALID_ARGUMENT,
      "data set 'text:%s': tokens=%s is none of bytes, characters, a tokenizer's .json file and a number "
      "of byte-pair codes from %d to %d",
      words->file, kind, BYTE_TOKENS, 1 << 20);
  return tokenizer_learn(texts, 1, (int32_t)size, &set->tokenizer);
}

/* Makes a text tokens, behind those that are in the file. Piece by piece, each of some whole lines. */
static neap_status write_tokens(const struct data_set *set, const struct text *text, int descriptor,
                                int64_t *count) {
  static const size_t piece_bytes = 1 << 20;
  struct token_ids ids = {0};
  neap_status status = NEAP_OK;
  *count = 0;
  for (size_t begin = 0; begin < text->length && status == NEAP_OK;) {
    size_t end = begin + piece_bytes < text->length ? begin + piece_bytes : text->length;
    while (end < text->length && text->bytes[end - 1] != '\n') end++;
    const struct text piece = {text->bytes + begin, end - begin, text->name, line_at(text, begin)};
    ids.count = 0;
    status = tokenizer_encode(set->tokenizer, &piece, &ids);
    if (status == NEAP_OK)
      status = data_write_file(text->name, descriptor, ids.data, ids.count * sizeof *ids.data);
    *count += (int64_t)ids.count;
    begin = end;
  }
  vector_free(&ids);
  return status;
}

static neap_status open_texts(struct data_set *set, const struct words *words, struct region *region) {
  struct token_source *source;
  struct text texts[2];
  int descriptor;
  TRY(text_read(words->file, false, region, &texts[0]));
  if (words->test != NULL) {
    TRY(text_read(words->test, false, region, &texts[1]));
  } else {
    const size_t end = training_end(&texts[0]);
    texts[1] =
        (struct text){texts[0].bytes + end, texts[0].length - end, texts[0].name, line_at(&texts[0], end)};
    texts[0].length = end;
  }
  TRY(make_tokenizer(set, words, texts));
  int32_t mask = -1;
  if (set->wish.kind == MODEL_MASKED) TRY(tokenizer_add_special(set->tokenizer, "<mask>", &mask));
  TRY(add_source(set, &source));
  TRY(data_temporary_file(set, words->file, &descriptor));
  TRY(write_tokens(set, &texts[0], descriptor, &set->train.tokens));
  TRY(write_tokens(set, &texts[1], descriptor, &set->test.tokens));
  source->files[0] = (struct token_file){.path = words->file,
                                         .descriptor = descriptor,
                                         .type = TOKEN_I32,
                                         .count = set->train.tokens + set->test.tokens};
  set->test.first = set->train.tokens;
  set->train.bytes = (int64_t)texts[0].length;
  set->test.bytes = (int64_t)texts[1].length;
  set->classes = tokenizer_size(set->tokenizer);
  return sequences_of_tokens(set, words->file, set->wish.kind, mask);
}

/* A set of tokens that is opened for another model is refused by who asked for it, not here. */
static void settle_kind(struct data_set *set) {
  if (set->wish.kind != MODEL_MASKED) set->wish.kind = MODEL_TOKENS;
}

neap_status text_open(const char *argument, struct data_set *set) {
  static const char *const keys[] = {"", "test", "tokens", NULL};
  struct words words = {0};
  struct region region = {0}; /* of the texts, which are tokens when it goes */
  settle_kind(set);
  TRY(data_parse(set, argument, keys, (const char **const[]){&words.file, &words.test, &words.tokens}));
  const neap_status status = open_texts(set, &words, &region);
  region_free(&region);
  return status;
}

/* ---- Ids ---- */

static neap_status check_ids(const struct data_set *set, const struct token_file *file, int64_t *classes) {
  int32_t largest;
  int64_t place;
  TRY(token_file_largest(file, &largest, &place));
  RETURN_IF(set->wish.asked > 0 && largest >= set->wish.asked, NEAP_BAD_FORMAT,
            "%s: token %lld is %d, but the vocabulary has %lld", file->path, (long long)place, largest,
            (long long)set->wish.asked);
  if (largest >= *classes) *classes = (int64_t)largest + 1;
  return NEAP_OK;
}

static neap_status open_ids(struct data_set *set, const char *path, enum token_type type,
                            struct token_file *file) {
  const neap_status status = token_file_open(path, type, file);
  if (status != NEAP_OK) {
    token_file_close(file);
    return status;
  }
  TRY(data_keep_file(set, path, file->descriptor));
  return check_ids(set, file, &set->classes);
}

neap_status tokens_open(const char *argument, struct data_set *set) {
  static const char *const keys[] = {"", "test", "type", NULL};
  struct words words = {0};
  struct token_source *source;
  settle_kind(set);
  TRY(data_parse(set, argument, keys, (const char **const[]){&words.file, &words.test, &words.type}));
  const bool wide = words.type != NULL && strcmp(words.type, "i32") == 0;
  RETURN_IF(words.type != NULL && !wide && strcmp(words.type, "u16") != 0, NEAP_INVALID_ARGUMENT,
            "data set 'tokens:%s': type=%s is neither u16 nor i32", words.file, words.type);
  TRY(add_source(set, &source));
  TRY(open_ids(set, words.file, wide ? TOKEN_I32 : TOKEN_U16, &source->files[0]));
  set->train.tokens = source->files[0].count;
  if (words.test != NULL) {
    TRY(open_ids(set, words.test, wide ? TOKEN_I32 : TOKEN_U16, &source->files[1]));
    set->test.tokens = source->files[1].count;
  } else {
    set->train.tokens = (int64_t)((double)source->files[0].count * training_share);
    set->test.tokens = source->files[0].count - set->train.tokens;
  }
  set->test.first = set->train.tokens;
  const int32_t mask = (int32_t)set->classes; /* one more than there are */
  if (set->wish.kind == MODEL_MASKED) set->classes++;
  return sequences_of_tokens(set, words.file, set->wish.kind, mask);
}
