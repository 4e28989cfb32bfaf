/* Tokenizers of others: ids and texts are what PyPI's tokenizers 0.23 printed for the same tokenizer.json.
 * python/tests/torch/test_tokenizers.py compares many more where that is installed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/json.h"
#include "testing.h"
#include "text/tokenizer_file.h"
#include "text/tokenizer_import.h"

static const char byte_level[] =
    "{\"added_tokens\":[{\"id\":15,\"content\":\"<|end|>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":"
    "true,\"normalized\":false,\"special\":true},{\"id\":16,\"content\":\"ol\\u00e9\",\"single_word\":true,\""
    "lstrip\":false,\"rstrip\":false,\"normalized\":true,\"special\":false}],\"normalizer\":{\"type\":\"NFC"
    "\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits"
    "\":true},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s)|\\\\p{N}{1,3}| "
    "?[^\\\\s\\\\p{N}]+|\\\\s+(?!\\\\S"
    ")|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":"
    "fals"
    "e,\"trim_offsets\":true,\"use_regex\":false}]},\"post_processor\":{\"type\":\"TemplateProcessing\",\""
    "single\":[{\"SpecialToken\":{\"id\":\"<|end|>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":"
    "0}}"
    "],\"pair\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}],"
    "\"specia"
    "l_tokens\":{\"<|end|>\":{\"id\":\"<|end|>\",\"ids\":[15],\"tokens\":[\"<|end|>\"]}}},\"decoder\":{"
    "\"type\":"
    "\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true},\"model\":{\"type\":"
    "\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,\"end_of_word_suffix"
    "\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":false,\"vocab\":{\"h\":0,\"e\":1,\""
    "l\":2,\"o\":3,\"\\u0120\":4,\"he\":5,\"ll\":6,\"hell\":7,\"hello\":8,\"\\u0120hello\":9,\"1\":10,"
    "\"\\u00c3\":11,"
    "\"\\u00a9\":12,\"'\":13,\"s\":14},\"merges\":[[\"h\",\"e\"],[\"l\",\"l\"],[\"he\",\"ll\"],[\"hell\","
    "\"o\"],[\"\\u0120"
    "\",\"hello\"]]}}";

static const char sentence_piece[] =
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":fal"
    "se,\"normalized\":false,\"special\":true},{\"id\":1,\"content\":\"<s>\",\"single_word\":false,\"lstrip\""
    ":false,\"rstrip\":false,\"normalized\":false,\"special\":true}],\"normalizer\":{\"type\":\"Sequence\","
    "\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\\u2581\"},{\"type\":\"Replace\",\"pattern\":{"
    "\"String\""
    ":\" "
    "\"},\"content\":\"\\u2581\"}]},\"pre_tokenizer\":null,\"post_processor\":null,\"decoder\":{\"type\":\""
    "Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\\u2581\"},\"content\":\" "
    "\"},{\"typ"
    "e\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" "
    "\",\"start\":1,\"stop\":0}]},\"mo"
    "del\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true,\"vocab\":{\"<"
    "unk"
    ">\":0,\"<s>\":1,\"<0xC3>\":2,\"<0xA9>\":3,\"\\u2581\":4,\"a\":5,\"b\":6,\"\\u2581a\":7,\"ab\":8,"
    "\"\\u2581ab\":9,"
    "\"ba\":10},\"merges\":[\"\\u2581 a\",\"a b\",\"\\u2581a b\",\"\\u2581 ab\",\"b a\"]}}";

static const char word_piece[] =
    "{\"added_tokens\":[{\"id\":0,\"content\":\"[UNK]\",\"single_word\":false,\"lstrip\":false,\"rstrip\":fal"
    "se,\"normalized\":false,\"special\":true},{\"id\":1,\"content\":\"[CLS]\",\"single_word\":false,\"lstri"
    "p\":false,\"rstrip\":false,\"normalized\":false,\"special\":true},{\"id\":2,\"content\":\"[SEP]\",\"sing"
    "le_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}],\"normaliz"
    "er\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_accents\""
    ":null,\"lowercase\":true},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"post_processor\":{\"typ"
    "e\":\"BertProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1]},\"decoder\":{\"type\":\"WordPiece\","
    "\"pr"
    "efix\":\"##\",\"cleanup\":true},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_"
    "sub"
    "word_prefix\":\"##\",\"max_input_chars_per_word\":10,\"vocab\":{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"un"
    "\":3,\"##able\":4,\"able\":5,\"cafe\":6,\",\":7,\"\\u6771\":8,\"##s\":9}}}";

static const struct {
  const char *json, *text;
  int32_t ids[8];
  size_t count;
  const char *decoded; /* NULL: the oracle shows bytes that are not UTF-8 as U+FFFD, we keep them */
} cases[] = {
    {byte_level, "hello hello", {15, 8, 9}, 3, "hello hello"},
    {byte_level, "hello<|end|>  hello", {15, 8, 15, 8}, 4, "hellohello"},
    {byte_level, "ole\314\201 hello", {15, 16, 9}, 3, NULL},
    {byte_level, "hell1 11 '\305\277", {15, 7, 10, 4, 10, 10, 4, 13}, 8, "hell1 11 '"},
    {byte_level, "h\303\251llo  hello", {15, 0, 11, 12, 6, 3, 4, 9}, 8, "h\303\251llo  hello"},
    {sentence_piece, "abab ba", {9, 8, 4, 10}, 4, "abab ba"},
    {sentence_piece, "\303\251a b", {4, 2, 3, 5, 4, 6}, 6, "\303\251a b"},
    {sentence_piece, "x y\342\230\203a", {4, 0, 4, 0, 5}, 5, " a"},
    {sentence_piece, "<s>ab <s>", {1, 9, 4, 1}, 4, "ab "},
    {sentence_piece, "  a", {4, 4, 7}, 3, "  a"},
    {word_piece, "Unable, CAF\303\211s", {1, 3, 4, 7, 6, 9, 2}, 7, "unable, cafes"},
    {word_piece, "\346\235\261\346\235\261able", {1, 8, 8, 5, 2}, 5, "\346\235\261 \346\235\261 able"},
    {word_piece, "unx un", {1, 0, 3, 2}, 4, "un"},
    {word_piece, "ununununun unununununun", {1, 0, 0, 2}, 4, ""},
    {word_piece, "[CLS] cafe\314\201", {1, 1, 6, 2}, 4, "cafe"},
};

static char folder[] = "/tmp/neap-tokenizer-XXXXXX";

static const char *path_of(const char *name) {
  static char path[4][256];
  static int turn;
  char *made = path[turn = (turn + 1) % 4];
  snprintf(made, sizeof path[0], "%s/%s", folder, name);
  return made;
}

static const char *write_file(const char *name, const char *content) {
  const char *path = path_of(name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(content, 1, strlen(content), file), strlen(content));
  fclose(file);
  return path;
}

static struct tokenizer *import(const char *json) {
  struct tokenizer *tokenizer = NULL;
  ASSERT_OK(tokenizer_import(write_file("tokenizer.json", json), &tokenizer));
  return tokenizer;
}

/* Reads what is refused, and wants words in the message. */
static void refuse(const char *json, neap_status wanted, const char *said) {
  struct tokenizer *tokenizer = NULL;
  assert_int_equal(tokenizer_import(write_file("tokenizer.json", json), &tokenizer), wanted);
  assert_null(tokenizer);
  if (strstr(neap_error_message(), said) == NULL || strstr(neap_error_message(), folder) == NULL)
    fail_msg("'%s' or the file is not in: %s", said, neap_error_message());
}

static void check_case(const struct tokenizer *tokenizer, size_t i) {
  const struct text text = {.bytes = cases[i].text, .length = strlen(cases[i].text), .name = "a.txt"};
  struct token_ids ids = {0};
  struct places ends = {0};
  char *decoded;
  size_t length;
  ASSERT_OK(tokenizer_encode_places(tokenizer, &text, true, &ids, &ends));
  assert_int_equal(ids.count, cases[i].count);
  assert_memory_equal(ids.data, cases[i].ids, ids.count * sizeof *ids.data);
  assert_int_equal(ends.count, ids.count);
  for (size_t k = 1; k < ends.count; k++) assert_true(ends.data[k - 1] <= ends.data[k]);
  assert_true(ends.data[ends.count - 1] <= text.length);
  ASSERT_OK(tokenizer_decode(tokenizer, ids.data, ids.count, &decoded, &length));
  if (cases[i].decoded != NULL) assert_string_equal(decoded, cases[i].decoded);
  free(decoded);
  vector_free(&ids);
  vector_free(&ends);
}

static void test_ids(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct tokenizer *tokenizer = import(cases[i].json), *again;
    check_case(tokenizer, i);
    ASSERT_OK(tokenizer_save(tokenizer, path_of("kept.json")));
    ASSERT_OK(tokenizer_read(path_of("kept.json"), &again));
    check_case(again, i);
    tokenizer_free(again);
    ASSERT_OK(tokenizer_import(path_of("kept.json"), &again)); /* Neap's own files are taken too */
    check_case(again, i);
    tokenizer_free(again);
    tokenizer_free(tokenizer);
  }
}

/* Where tokens end: a byte of a character has a place of its own, and what takes white space ends behind it.
 */
static void test_places(void **state) {
  (void)state;
  struct tokenizer *tokenizer = import(byte_level);
  const char *bytes = "h\303\251<|end|>  hello";
  const struct text text = {.bytes = bytes, .length = strlen(bytes), .name = "a.txt"};
  const size_t wanted[] = {1, 2, 3, 12, 17};
  struct token_ids ids = {0};
  struct places ends = {0};
  ASSERT_OK(tokenizer_encode_places(tokenizer, &text, false, &ids, &ends));
  assert_int_equal(ends.count, 5);
  assert_memory_equal(ends.data, wanted, sizeof wanted);
  vector_free(&ids);
  vector_free(&ends);
  tokenizer_free(tokenizer);
}

static void test_names(void **state) {
  (void)state;
  write_file("tokenizer_config.json", "{\"bos_token\": {\"content\": \"hello\"}, \"eos_token\": \"<|end|>\","
                                      " \"model_max_length\": 1000000000000000019884624838656,"
                                      " \"added_tokens_decoder\": {\"20\": {\"content\": \"<more>\"}}}");
  struct tokenizer *tokenizer = import(byte_level);
  assert_int_equal(tokenizer_size(tokenizer), 21);
  assert_int_equal(tokenizer_bos(tokenizer), 8);
  assert_int_equal(tokenizer_eos(tokenizer), 15);
  assert_int_equal(tokenizer_find(tokenizer, "hell"), 7);
  assert_int_equal(tokenizer_find(tokenizer, "<more>"), 20);
  assert_int_equal(tokenizer_find(tokenizer, "helo"), -1);
  assert_int_equal(tokenizer_special(tokenizer, "<|end|>"), 15);
  assert_int_equal(tokenizer_special(tokenizer, "hello"), -1);
  int32_t id;
  ASSERT_OK(tokenizer_add_special(tokenizer, "<pad>", &id));
  assert_int_equal(id, 21);
  struct tokenizer *again;
  ASSERT_OK(tokenizer_save(tokenizer, path_of("kept.json")));
  ASSERT_OK(tokenizer_read(path_of("kept.json"), &again));
  assert_int_equal(tokenizer_special(again, "<pad>"), 21);
  assert_int_equal(tokenizer_bos(again), 8);
  assert_int_equal(tokenizer_eos(again), 15);
  tokenizer_free(again);
  tokenizer_free(tokenizer);
  unlink(path_of("tokenizer_config.json"));
}

static void test_refusals(void **state) {
  (void)state;
  refuse("{\"model\": {\"type\": \"WordLevel\", \"vocab\": []}}", NEAP_UNSUPPORTED,
         "field 'model.type': is not supported (got WordLevel)");
  refuse("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]}}", NEAP_BAD_FORMAT,
         "field 'model.merges[0]'");
  refuse("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}}", NEAP_BAD_FORMAT,
         "two pieces have id 0");
  refuse("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 2000000000}, \"merges\": []}}", NEAP_BAD_FORMAT,
         "far above");
  refuse("{\"model\": {\"type\": \"BPE\", \"dropout\": 0.5, \"vocab\": {\"a\": 0}, \"merges\": []}}",
         NEAP_UNSUPPORTED, "dropout");
#define WITH(part) "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}, " part "}"
  refuse(WITH("\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Upper\"}]}"),
         NEAP_UNSUPPORTED, "field 'normalizer.normalizers[0].type': is not supported (got Upper)");
  refuse(WITH("\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"[a[b]]\"}}"),
         NEAP_UNSUPPORTED, "brackets inside brackets are not supported");
  refuse(WITH("\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(a\"}}"), NEAP_UNSUPPORTED,
         "missing closing parenthesis");
  refuse(WITH("\"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"x\", 9], \"cls\": [\"x\", 0]}"),
         NEAP_BAD_FORMAT, "field 'post_processor.sep'");
}

/* A pattern that takes steps without end is given up, and what was there before is not changed. */
static void test_steps_are_limited(void **state) {
  (void)state;
  struct tokenizer *tokenizer =
      import(WITH("\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(a|a|aa)+$\"}}"));
  const char *bytes = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!";
  const struct text text = {.bytes = bytes, .length = strlen(bytes), .name = "a.txt"};
  struct token_ids ids = {0};
  ASSERT_OK(vector_push(&ids, 7));
  assert_int_equal(tokenizer_encode(tokenizer, &text, &ids), NEAP_UNSUPPORTED);
  assert_int_equal(ids.count, 1);
  const struct text bad = {.bytes = "a\xFF", .length = 2, .name = "a.txt"};
  assert_int_equal(tokenizer_encode(tokenizer, &bad, &ids), NEAP_BAD_FORMAT);
  vector_free(&ids);
  tokenizer_free(tokenizer);
}

#define LONGER "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aaaaaaaaaa\"}"
#define FOUR   LONGER "," LONGER "," LONGER "," LONGER

/* Replacements that feed each other make no more than a bound, whoever wrote the file. */
static void test_texts_are_bounded(void **state) {
  (void)state;
  struct tokenizer *tokenizer =
      import(WITH("\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [" FOUR "," FOUR "," FOUR "]}"));
  const struct text text = {.bytes = "aa", .length = 2, .name = "a.txt"};
  struct token_ids ids = {0};
  char *decoded = NULL;
  size_t length;
  assert_int_equal(tokenizer_encode(tokenizer, &text, &ids), NEAP_TOO_LARGE);
  assert_non_null(strstr(neap_error_message(), "its steps make more than 65664 bytes"));
  assert_int_equal(ids.count, 0);
  tokenizer_free(tokenizer);
  tokenizer =
      import(WITH("\"decoder\": {\"type\": \"Sequence\", \"decoders\": [" FOUR "," FOUR "," FOUR "]}"));
  ASSERT_OK(tokenizer_encode(tokenizer, &text, &ids));
  assert_int_equal(tokenizer_decode(tokenizer, ids.data, ids.count, &decoded, &length), NEAP_TOO_LARGE);
  vector_free(&ids);
  tokenizer_free(tokenizer);
}

static struct tokenizer *of_vocabulary(const struct token_vocabulary *v) {
  struct tokenizer *tokenizer = NULL;
  ASSERT_OK(tokenizer_from_vocabulary(v, &tokenizer));
  return tokenizer;
}

static void test_vocabulary(void **state) {
  (void)state;
  const char *tokens[] = {"<unk>", "<s>", "</s>", "\342\226\201", "a", "b", "\342\226\201a", "ab"};
  const size_t lengths[] = {5, 3, 4, 3, 1, 1, 4, 2};
  const float scores[] = {0, 0, 0, -5, -6, -7, -2, -1};
  const int32_t types[] = {2, 3, 3, 1, 1, 1, 1, 1};
  struct token_vocabulary v = {.file = "a.gguf",
                               .model = "llama",
                               .count = 8,
                               .tokens = tokens,
                               .lengths = lengths,
                               .scores = scores,
                               .types = types,
                               .bos = 1,
                               .eos = 2,
                               .unknown = 0,
                               .padding = -1,
                               .add_bos = -1,
                               .add_eos = 1,
                               .add_space_prefix = -1};
  struct tokenizer *tokenizer = of_vocabulary(&v);
  const struct text text = {.bytes = "ab aa", .length = 5, .name = "a.txt"};
  const int32_t wanted[] = {1, 3, 7, 6, 4, 2}; /* the token of the highest score is merged first: ab */
  struct token_ids ids = {0};
  ASSERT_OK(tokenizer_encode_places(tokenizer, &text, true, &ids, NULL));
  assert_int_equal(ids.count, 6);
  assert_memory_equal(ids.data, wanted, sizeof wanted);
  assert_int_equal(tokenizer_bos(tokenizer), 1);
  vector_free(&ids);
  tokenizer_free(tokenizer);

  v.model = "gpt2";
  v.pre = "of-tomorrow";
  assert_int_equal(tokenizer_from_vocabulary(&v, &tokenizer), NEAP_UNSUPPORTED);
  assert_non_null(strstr(neap_error_message(),
                         "a.gguf: the tokenizer splits text in a way that is not supported "
                         "(got pre 'of-tomorrow')"));
  v.model = "rwkv";
  assert_int_equal(tokenizer_from_vocabulary(&v, &tokenizer), NEAP_UNSUPPORTED);
  assert_non_null(strstr(neap_error_message(), "(got model 'rwkv')"));
  v.model = "llama";
  tokens[4] = "\xFF";
  assert_int_equal(tokenizer_from_vocabulary(&v, &tokenizer), NEAP_BAD_FORMAT);
  assert_non_null(strstr(neap_error_message(), "a.gguf: token 4 is not UTF-8"));
}

static void test_folder_of_lists(void **state) {
  (void)state;
  char inner[64];
  struct tokenizer *tokenizer = NULL;
  snprintf(inner, sizeof inner, "%s/lists", folder);
  assert_int_equal(mkdir(inner, 0777), 0);
  assert_int_equal(tokenizer_import(inner, &tokenizer), NEAP_IO_FAILED);
  write_file("lists/vocab.json", "{\"<s>\": 0, \"</s>\": 1, \"h\": 2, \"i\": 3, \"hi\": 4}");
  write_file("lists/merges.txt", "#version: 0.2\nh i\n");
  write_file("lists/tokenizer_config.json",
             "{\"tokenizer_class\": \"GPT2Tokenizer\", \"bos_token\": \"<s>\", \"eos_token\": \"</s>\","
             " \"add_bos_token\": true}");
  ASSERT_OK(tokenizer_import(inner, &tokenizer));
  const struct text text = {.bytes = "hi</s>h", .length = 7, .name = "a.txt"};
  const int32_t wanted[] = {0, 4, 1, 2};
  struct token_ids ids = {0};
  ASSERT_OK(tokenizer_encode_places(tokenizer, &text, true, &ids, NULL));
  assert_int_equal(ids.count, 4);
  assert_memory_equal(ids.data, wanted, sizeof wanted);
  vector_free(&ids);
  tokenizer_free(tokenizer);
  write_file("lists/tokenizer_config.json", "{\"tokenizer_class\": \"CLIPTokenizer\"}");
  assert_int_equal(tokenizer_import(inner, &tokenizer), NEAP_UNSUPPORTED);
  assert_non_null(strstr(neap_error_message(), "CLIPTokenizer"));
}

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
  (void)state;
  const char *const names[] = {"lists/vocab.json", "lists/merges.txt", "lists/tokenizer_config.json", "lists",
                               "tokenizer.json",   "kept.json"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) remove(path_of(names[i]));
  return rmdir(folder);
}

int run_test_tokenizer_import(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ids),
      cmocka_unit_test(test_places),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_vocabulary),
      cmocka_unit_test(test_steps_are_limited),
      cmocka_unit_test(test_texts_are_bounded),
      cmocka_unit_test(test_folder_of_lists),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
