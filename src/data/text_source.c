/* Reads text and token ids as data: "text:FILE[,tokens=bytes|characters|N|FILE.json][,test=FILE]" and
 * "tokens:FILE[,type=u16|i32][,test=FILE]". Without a file to test with, the last tenth is kept for that.
 *
 * A text is converted to tokens once; they go to a temporary file, and the process holds neither. The
 * tokenizer is learned from the training part alone, but characters are those of both parts. */
#include <stdlib.h>
#include <string.h>

#include "data/readers.h"
#include "data/source_tokenizer.h"
#include "data/windows.h"
#include "text/text_file.h"
#include "text/token_file.h"
#include "text/tokenizer.h"

static const double training_share = 0.9;

/* ---- Words of the name ---- */

struct words {
  const char *file, *test, *tokens, *type; /* NULL: not given */
};

/* ---- Tokens in files ---- */

/* The training tokens, followed by those to test with: in one file or in two. */
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

/* Makes records of the tokens. */
static neap_status open_windows(struct source *source, const struct words *words,
                                const struct token_source *files, int32_t mask) {
  const struct token_row row = {.paths = {words->file, words->test != NULL ? words->test : words->file},
                                .first = {0, source->tokens[SPLIT_TRAIN]},
                                .read = read_tokens,
                                .context = files};
  return windows_open(source, &row, source->task.kind, mask);
}

/* ---- Text ---- */

static neap_status take_all(void *context, const struct text *window, bool last, size_t *used) {
  (void)context, (void)last;
  *used = window->length;
  return NEAP_OK;
}

/* Divides a text at the beginning of a character into the training part and the test part. */
static neap_status divide_text(struct text *train, struct text *test) {
  size_t end = (size_t)((double)train->length * training_share);
  for (unsigned char byte; end > 0; end--) {
    TRY(text_byte(train, end, &byte));
    if ((byte & 0xC0) != 0x80) break;
  }
  *test = *train;
  test->marked = false;
  test->first += end;
  test->length -= end;
  train->length = end;
  return text_walk(train, take_all, NULL, &test->line);
}

/* State while a text is written as tokens. It is encoded in separate pieces; each ends with the first line
 * that makes it a MiB or more. */
struct encoder {
  const struct tokenizer *tokenizer;
  int descriptor;
  int64_t count; /* tokens */
  size_t done;   /* bytes of the present piece that are tokens already: it is longer than a window */
  struct token_ids ids;
};

enum { PIECE_BYTES = 1 << 20 };

/* Returns the end of the current piece in the window; 0: it is past the window. */
static size_t piece_end(const struct encoder *e, const struct text *window) {
  const size_t from = e->done < PIECE_BYTES ? PIECE_BYTES - e->done : 1;
  const char *line =
      from <= window->length ? memchr(window->bytes + from - 1, '\n', window->length - from + 1) : NULL;
  return line != NULL ? (size_t)(line - window->bytes) + 1 : 0;
}

static neap_status encode(void *context, const struct text *window, bool last, size_t *used) {
  struct encoder *e = context;
  for (*used = 0; *used < window->length;) {
    struct text rest = *window;
    text_skip(&rest, *used);
    const size_t end = piece_end(e, &rest);
    if (end == 0 && !last && rest.length < 2 * PIECE_BYTES) return NEAP_OK;
    if (end > 0)
      rest.length = end;
    else if (e->tokenizer->kind != TOKENIZER_BYTES) /* which are tokens wherever they are cut */
      rest.length = text_whole_words(&rest, last);
    if (rest.length == 0) return NEAP_OK;
    e->ids.count = 0;
    TRY(tokenizer_encode(e->tokenizer, &rest, &e->ids));
    TRY(source_write_file(window->name, e->descriptor, e->ids.data, e->ids.count * sizeof *e->ids.data));
    e->count += (int64_t)e->ids.count;
    e->done = end > 0 ? 0 : e->done + rest.length;
    *used += rest.length;
  }
  return NEAP_OK;
}

/* Converts a text to tokens and appends them to the file. */
static neap_status write_tokens(const struct source *source, const struct text *text, int descriptor,
                                int64_t *count) {
  struct encoder encoder = {.tokenizer = source->tokenizer, .descriptor = descriptor};
  const neap_status status = text_walk(text, encode, &encoder, NULL);
  vector_free(&encoder.ids);
  *count = encoder.count;
  return status;
}

/* Finds the token that masks others: one that the imported tokenizer has, or a new one. */
static neap_status find_mask(struct tokenizer *tokenizer, int32_t *mask) {
  static const char *const names[] = {"[MASK]", "<mask>"};
  for (int i = 0; i < 2 && tokenizer->kind == TOKENIZER_PIPELINE; i++) {
    *mask = tokenizer_find(tokenizer, names[i]);
    if (*mask >= 0) return NEAP_OK;
  }
  return tokenizer_add_special(tokenizer, "<mask>", mask);
}

static neap_status open_texts(struct source *source, const struct words *words, struct text texts[2]) {
  struct token_source *files;
  int descriptor;
  TRY(text_file_open(words->file, &texts[0]));
  TRY(words->test != NULL ? text_file_open(words->test, &texts[1]) : divide_text(&texts[0], &texts[1]));
  for (int i = 0; i < 2; i++)
    if (texts[i].marked) {
      source->marked_file = region_string(&source->region, texts[i].name);
      RETURN_IF_NULL(source->marked_file);
    }
  TRY(source_tokenizer_make(source, words->file, words->tokens, texts));
  int32_t mask = -1;
  if (source->task.kind == NEAP_TASK_MASKED) TRY(find_mask(source->tokenizer, &mask));
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
  return open_windows(source, words, files, mask);
}

/* Settles the kind of task. The caller, not this function, refuses tokens that are opened for another
 * task. */
static void settle_kind(struct source *source) {
  if (source->task.kind != NEAP_TASK_MASKED) source->task.kind = NEAP_TASK_TOKENS;
}

neap_status text_open(const char *argument, struct source *source) {
  static const char *const keys[] = {"", "test", "tokens", NULL};
  struct words words = {0};
  struct text texts[2] = {{.descriptor = -1}, {.descriptor = -1}};
  settle_kind(source);
  TRY(source_parse(source, argument, keys, (const char **const[]){&words.file, &words.test, &words.tokens}));
  const neap_status status = open_texts(source, &words, texts);
  text_file_close(&texts[0]);
  if (words.test != NULL) text_file_close(&texts[1]); /* else it has the first one's descriptor */
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
            "data set 'tokens:%s': type must be u16 or i32 (got %s)", words.file, words.type);
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
  if (source->task.kind == NEAP_TASK_MASKED) source->classes++;
  return open_windows(source, &words, files, mask);
}
