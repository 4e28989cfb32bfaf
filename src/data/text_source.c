/* Text and ids of tokens as data: "text:FILE[,tokens=bytes|characters|N|FILE.json][,test=FILE]" and
 * "tokens:FILE[,type=u16|i32][,test=FILE]". Where no file is given to test with, the last tenth is kept for
 * it.
 *
 * A text is made tokens once, which go to a temporary file: the process holds neither. The tokenizer is
 * learned from the training part alone, but characters are those of both. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "data/readers.h"
#include "data/windows.h"
#include "text/text_file.h"
#include "text/token_file.h"
#include "text/tokenizer_file.h"

static const double training_share = 0.9;

/* ---- What stands in the name ---- */

struct words {
  const char *file, *test, *tokens, *type; /* NULL: not given */
};

/* ---- Tokens in files ---- */

/* The training tokens, then those to test with: in one file or in two. */
struct token_source {
  struct token_file files[2];
};

static neap_status read_tokens(const void *context, int64_t first, int64_t count, int32_t *tokens) {
  const struct token_source *source = context;
  const int64_t before = source->files[0].count;
  if (first >= before && source->files[1].descriptor >= 0)
    return token_file_read(&source->files[1], first - before, count, tokens);
  return token_file_read(&source->files[0], first, count, tokens);
}

static neap_status add_files(struct source *source, struct token_source **out) {
  static const struct token_source none = {{{.descriptor = -1}, {.descriptor = -1}}};
  *out = region_copy(&source->region, &none, 1, sizeof none);
  RETURN_IF_NULL(*out);
  return NEAP_OK;
}

/* Makes them records. */
static neap_status open_windows(struct source *source, const char *path, const struct token_source *files,
                                int32_t mask) {
  const struct token_row row = {
      .path = path, .first = {0, source->tokens[SPLIT_TRAIN]}, .read = read_tokens, .context = files};
  return windows_open(source, &row, source->task.kind, mask);
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

static neap_status make_tokenizer(struct source *source, const struct words *words,
                                  const struct text *texts) {
  const char *kind = words->tokens != NULL ? words->tokens : "bytes";
  if (strcmp(kind, "bytes") == 0) return tokenizer_bytes(&source->tokenizer);
  if (source_is_tokenizer(kind)) return tokenizer_read(kind, &source->tokenizer);
  if (strcmp(kind, "characters") == 0) return tokenizer_characters(texts, 2, &source->tokenizer);
  char *end;
  errno = 0;
  const long size = strtol(kind, &end, 10);
  RETURN_IF(
      end == kind || *end != '\0' || errno != 0 || size < BYTE_TOKENS || size > 1 << 20,
      NEAP_INVALID_ARGUMENT,
      "data set 'text:%s': tokens=%s is none of bytes, characters, a tokenizer's .json file and a number "
      "of byte-pair codes from %d to %d",
      words->file, kind, BYTE_TOKENS, 1 << 20);
  return tokenizer_learn(texts, 1, (int32_t)size, &source->tokenizer);
}

/* Makes a text tokens, behind those that are in the file. Piece by piece, each of some whole lines. */
static neap_status write_tokens(const struct source *source, const struct text *text, int descriptor,
                                int64_t *count) {
  static const size_t piece_bytes = 1 << 20;
  struct token_ids ids = {0};
  neap_status status = NEAP_OK;
  *count = 0;
  for (size_t begin = 0; begin < text->length && status == NEAP_OK;) {
    size_t end = begin + piece_bytes < text->length ? begin + piece_bytes : text->length;
    while (end < text->length && text->bytes[end - 1] != '\n') end++;
    const struct text piece = {.bytes = text->bytes + begin,
                               .length = end - begin,
                               .name = text->name,
                               .line = line_at(text, begin)};
    ids.count = 0;
    status = tokenizer_encode(source->tokenizer, &piece, &ids);
    if (status == NEAP_OK)
      status = source_write_file(text->name, descriptor, ids.data, ids.count * sizeof *ids.data);
    *count += (int64_t)ids.count;
    begin = end;
  }
  vector_free(&ids);
  return status;
}

static neap_status open_texts(struct source *source, const struct words *words, struct region *region) {
  struct token_source *files;
  struct text texts[2];
  int descriptor;
  TRY(text_read(words->file, false, region, &texts[0]));
  if (words->test != NULL) {
    TRY(text_read(words->test, false, region, &texts[1]));
  } else {
    const size_t end = training_end(&texts[0]);
    texts[1] = (struct text){.bytes = texts[0].bytes + end,
                             .length = texts[0].length - end,
                             .name = texts[0].name,
                             .line = line_at(&texts[0], end)};
    texts[0].length = end;
  }
  for (int i = 0; i < 2; i++)
    if (texts[i].marked) {
      source->marked_file = region_string(&source->region, texts[i].name);
      RETURN_IF_NULL(source->marked_file);
    }
  TRY(make_tokenizer(source, words, texts));
  int32_t mask = -1;
  if (source->task.kind == TASK_MASKED) TRY(tokenizer_add_special(source->tokenizer, "<mask>", &mask));
  TRY(add_files(source, &files));
  TRY(source_temporary_file(source, words->file, &descriptor));
  TRY(write_tokens(source, &texts[0], descriptor, &source->tokens[SPLIT_TRAIN]));
  TRY(write_tokens(source, &texts[1], descriptor, &source->tokens[SPLIT_TEST]));
  files->files[0] = (struct token_file){.path = words->file,
                                        .descriptor = descriptor,
                                        .type = TOKEN_I32,
                                        .count = source->tokens[SPLIT_TRAIN] + source->tokens[SPLIT_TEST]};
  for (int i = 0; i < SPLITS; i++) source->bytes[i] = (int64_t)texts[i].length;
  source->classes = tokenizer_size(source->tokenizer);
  return open_windows(source, words->file, files, mask);
}

/* Tokens that are opened for another task are refused by the caller, not here. */
static void settle_kind(struct source *source) {
  if (source->task.kind != TASK_MASKED) source->task.kind = TASK_TOKENS;
}

neap_status text_open(const char *argument, struct source *source) {
  static const char *const keys[] = {"", "test", "tokens", NULL};
  struct words words = {0};
  struct region region = {0}; /* of the texts, which are tokens when it goes */
  settle_kind(source);
  TRY(source_parse(source, argument, keys, (const char **const[]){&words.file, &words.test, &words.tokens}));
  const neap_status status = open_texts(source, &words, &region);
  region_free(&region);
  return status;
}

/* ---- Ids ---- */

static neap_status check_ids(const struct source *source, const struct token_file *file, int64_t *classes) {
  int32_t largest;
  int64_t place;
  TRY(token_file_largest(file, &largest, &place));
  RETURN_IF(source->task.asked_classes > 0 && largest >= source->task.asked_classes, NEAP_BAD_FORMAT,
            "%s: token %lld is %d, but the vocabulary has %lld", file->path, (long long)place, largest,
            (long long)source->task.asked_classes);
  if (largest >= *classes) *classes = (int64_t)largest + 1;
  return NEAP_OK;
}

static neap_status open_ids(struct source *source, const char *path, enum token_type type,
                            struct token_file *file) {
  const neap_status status = token_file_open(path, type, file);
  if (status != NEAP_OK) {
    token_file_close(file);
    return status;
  }
  TRY(source_keep_file(source, path, file->descriptor));
  return check_ids(source, file, &source->classes);
}

neap_status tokens_open(const char *argument, struct source *source) {
  static const char *const keys[] = {"", "test", "type", NULL};
  struct words words = {0};
  struct token_source *files;
  settle_kind(source);
  TRY(source_parse(source, argument, keys, (const char **const[]){&words.file, &words.test, &words.type}));
  const bool wide = words.type != NULL && strcmp(words.type, "i32") == 0;
  RETURN_IF(words.type != NULL && !wide && strcmp(words.type, "u16") != 0, NEAP_INVALID_ARGUMENT,
            "data set 'tokens:%s': type=%s is neither u16 nor i32", words.file, words.type);
  TRY(add_files(source, &files));
  TRY(open_ids(source, words.file, wide ? TOKEN_I32 : TOKEN_U16, &files->files[0]));
  const int64_t count = files->files[0].count;
  source->tokens[SPLIT_TRAIN] = words.test != NULL ? count : (int64_t)((double)count * training_share);
  source->tokens[SPLIT_TEST] = count - source->tokens[SPLIT_TRAIN];
  if (words.test != NULL) {
    TRY(open_ids(source, words.test, wide ? TOKEN_I32 : TOKEN_U16, &files->files[1]));
    source->tokens[SPLIT_TEST] = files->files[1].count;
  }
  const int32_t mask = (int32_t)source->classes; /* one more than there are */
  if (source->task.kind == TASK_MASKED) source->classes++;
  return open_windows(source, words.file, files, mask);
}
