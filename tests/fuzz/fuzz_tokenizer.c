/* Tokenizer files. What is taken is the same tokenizer after it was written and read again. Its tokens spell
 * what they mean: the file's own text becomes ids of the vocabulary, and those the text; one of
 * characters may refuse it, with a message. What is refused gives a message that names the file. */
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "text/tokenizer_file.h"

static void check_text(const struct tokenizer *tokenizer, const struct text *text) {
  struct token_ids ids = {0};
  char *again;
  size_t length;
  const bool has_unknown = tokenizer_special(tokenizer, TOKENIZER_UNKNOWN) >= 0;
  const neap_status status = tokenizer_encode(tokenizer, text, &ids);
  if (status != NEAP_OK) {
    CHECK(tokenizer->kind == TOKENIZER_CHARACTERS && !has_unknown && ids.count == 0);
    fuzz_check_refused(status, text->name);
    vector_free(&ids);
    return;
  }
  for (size_t i = 0; i < ids.count; i++) CHECK(ids.data[i] >= 0 && ids.data[i] < tokenizer_size(tokenizer));
  CHECK_OK(tokenizer_decode(tokenizer, ids.data, ids.count, &again, &length));
  if (tokenizer->kind == TOKENIZER_CHARACTERS && has_unknown)
    CHECK(length <= text->length);
  else
    CHECK(length == text->length && (length == 0 || memcmp(again, text->bytes, length) == 0));
  free(again);
  vector_free(&ids);
}

/* Every id at once, in rising order: the spelling of the whole vocabulary. */
static struct fuzz_bytes spell_all(const struct tokenizer *tokenizer) {
  const int32_t count = tokenizer_size(tokenizer);
  int32_t *ids = calloc((size_t)count, sizeof *ids);
  struct fuzz_bytes bytes;
  CHECK(ids != NULL);
  for (int32_t i = 0; i < count; i++) ids[i] = i;
  CHECK_OK(tokenizer_decode(tokenizer, ids, (size_t)count, &bytes.text, &bytes.size));
  free(ids);
  return bytes;
}

static void check_again(const struct tokenizer *tokenizer) {
  const char *first = fuzz_path("first.json"), *second = fuzz_path("second.json");
  struct tokenizer *again;
  CHECK_OK(tokenizer_save(tokenizer, first));
  CHECK_OK(tokenizer_read(first, &again));
  CHECK_OK(tokenizer_save(again, second));
  CHECK(fuzz_same_files(first, second));
  CHECK(again->kind == tokenizer->kind && tokenizer_size(again) == tokenizer_size(tokenizer));
  const struct fuzz_bytes was = spell_all(tokenizer), is = spell_all(again);
  CHECK(fuzz_same(was, is));
  free(was.text);
  free(is.text);
  tokenizer_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_path("tokenizer.json");
  struct tokenizer *tokenizer = NULL;
  fuzz_write(path, data, size);
  const neap_status status = tokenizer_read(path, &tokenizer);
  fuzz_taken = status == NEAP_OK;
  if (fuzz_taken) {
    const struct text text = {.bytes = (const char *)data, .length = size, .name = path};
    check_again(tokenizer);
    check_text(tokenizer, &text);
    tokenizer_free(tokenizer);
  } else {
    CHECK(status == NEAP_BAD_FORMAT && tokenizer == NULL);
    fuzz_check_refused(status, path);
  }
  return 0;
}
