/* Tokenizers of others: a tokenizer.json, or the files of a folder as parts. What is taken gives ids of its
 * vocabulary, whose ends rise within the text, and a text for all of them; kept as JSON and read again it
 * gives the same. What is refused gives a message that names the folder. The lists that a GGUF file would
 * hold have a text and a type for each id, and become a tokenizer.json, or are refused likewise. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "text/folder_vocabulary.h"
#include "text/tokenizer_file.h"
#include "text/tokenizer_import.h"

enum { TEXT_MOST = 600 };

static const char samples[] =
    "Hello  world's 123 [CLS] <s>\n\t e\xCC\x81\xC3\x89 \xE6\x9D\xB1\xE4\xBA\xAC \xF0\x9F\x9A\x80 ab-ab ";

/* Ids of a text; -1: a pattern takes too many steps on it. */
static long encode(const struct tokenizer *tokenizer, const struct text *text, struct token_ids *ids) {
  struct places ends = {0};
  const neap_status status = tokenizer_encode_places(tokenizer, text, true, ids, &ends);
  CHECK(status == NEAP_OK || (status == NEAP_UNSUPPORTED && ids->count == 0 && ends.count == 0));
  CHECK(ends.count == ids->count);
  for (size_t i = 0; i < ids->count; i++) {
    CHECK(ids->data[i] >= 0 && ids->data[i] < tokenizer_size(tokenizer));
    CHECK(ends.data[i] <= text->length && (i == 0 || ends.data[i - 1] <= ends.data[i]));
  }
  vector_free(&ends);
  return status == NEAP_OK ? (long)ids->count : -1;
}

static void check_text(const struct tokenizer *tokenizer, const struct tokenizer *again,
                       const struct text *text) {
  struct token_ids ids = {0}, same = {0};
  const long count = encode(tokenizer, text, &ids);
  CHECK(encode(again, text, &same) == count);
  CHECK(count <= 0 || memcmp(ids.data, same.data, ids.count * sizeof *ids.data) == 0);
  char *decoded;
  size_t length;
  if (tokenizer_decode(tokenizer, ids.data, ids.count, &decoded, &length) == NEAP_OK) {
    CHECK(decoded[length] == '\0');
    free(decoded);
  }
  vector_free(&ids);
  vector_free(&same);
}

static struct tokenizer *keep(const struct tokenizer *tokenizer) {
  json_t *object, *second;
  struct tokenizer *again = NULL;
  CHECK_OK(tokenizer_to_json(tokenizer, &object));
  CHECK_OK(tokenizer_from_json(object, "kept", &again));
  CHECK_OK(tokenizer_to_json(again, &second));
  CHECK(json_equal(object, second));
  CHECK(tokenizer_size(again) == tokenizer_size(tokenizer));
  CHECK(tokenizer_bos(again) == tokenizer_bos(tokenizer) && tokenizer_eos(again) == tokenizer_eos(tokenizer));
  json_decref(object);
  json_decref(second);
  return again;
}

static void check_lists(const char *folder) {
  enum { ROWS = 400 };
  struct region region = {0};
  struct token_vocabulary v;
  json_t *object;
  const neap_status status = folder_vocabulary_read(folder, NULL, ROWS, &region, &v);
  if (status != NEAP_OK) fuzz_check_refused(status, folder);
  CHECK(v.tokens == NULL || status == NEAP_OK);
  for (int32_t i = 0; v.tokens != NULL && i < ROWS; i++)
    CHECK(strlen(v.tokens[i]) <= v.lengths[i] && v.types[i] >= 1 && v.types[i] <= 6);
  if (v.tokens != NULL && token_vocabulary_to_json(&v, &object) == NEAP_OK) json_decref(object);
  region_free(&region);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const names[] = {"vocab.json", "merges.txt", "tokenizer_config.json",
                                      "special_tokens_map.json", "tokenizer.json"};
  const char *folder = fuzz_folder("folder");
  struct tokenizer *tokenizer = NULL;
  char path[4200];
  snprintf(path, sizeof path, "%s/tokenizer.json", folder);
  if (size >= 4 && memcmp(data, "=== ", 4) == 0)
    fuzz_unpack(data, size, folder, names, 5);
  else
    fuzz_write(path, data, size);
  check_lists(folder);
  const neap_status status = tokenizer_import(folder, &tokenizer);
  fuzz_taken = status == NEAP_OK;
  if (!fuzz_taken) {
    CHECK(tokenizer == NULL);
    fuzz_check_refused(status, folder);
    return 0;
  }
  struct tokenizer *again = keep(tokenizer);
  const struct text text = {.bytes = samples, .length = sizeof samples - 1, .name = "text"};
  const struct text own = {
      .bytes = (const char *)data, .length = size < TEXT_MOST ? size : TEXT_MOST, .name = "text"};
  check_text(tokenizer, again, &text);
  if (utf8_check(&own) == NEAP_OK) check_text(tokenizer, again, &own);
  tokenizer_free(again);
  tokenizer_free(tokenizer);
  return 0;
}
