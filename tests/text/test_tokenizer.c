/* Tokenizers: byte-pair codes are those that a plain re-count of all pairs gives, and a text that was encoded
 * and decoded is the text. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "effort.h"
#include "testing.h"
#include "text/tokenizer_file.h"
#include "text/words.h"

static const char english[] =
    "First Citizen:\nBefore we proceed any further, hear me speak.\n\n"
    "All:\nSpeak, speak.\n\nFirst Citizen:\nYou are all resolved rather to die than "
    "to famish?\n\nAll:\nResolved. resolved.\n";
static const char many_tongues[] =
    "zwei junge weiße männer sind im freien in der nähe vieler büsche .\n"
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich – „wirklich“!\n"
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.  Съешь же ещё этих мягких французских булок.\n"
    "我能吞下玻璃而不伤身体。いろはにほへと ちりぬるを\t1234 + 5678 = 6912 "
    "👩‍🚀🚀🚀 "
    "e\xCC\x81\n";

static struct text text_of(const char *bytes) {
  return (struct text){.bytes = bytes, .length = strlen(bytes), .name = "a.txt"};
}

static void assert_says(const char *what) {
  if (strstr(neap_error_message(), what) == NULL) fail_msg("'%s' is not in: %s", what, neap_error_message());
}

/* ---- UTF-8 ---- */

static void test_code_points(void **state) {
  (void)state;
  for (uint32_t code = 0; code < CODE_POINTS; code++) {
    char bytes[UTF8_MAX_BYTES];
    uint32_t again = UINT32_MAX;
    if (!utf8_is_code_point(code)) continue;
    const int size = utf8_write(code, bytes);
    assert_int_equal(utf8_decode(bytes, (size_t)size, &again), size);
    assert_int_equal(again, code);
    for (int less = 1; less < size; less++) assert_int_equal(utf8_decode(bytes, (size_t)less, &again), 0);
  }
  assert_false(utf8_is_code_point(0xD800) || utf8_is_code_point(0xDFFF) || utf8_is_code_point(0x110000));
}

static void test_not_utf8(void **state) {
  (void)state;
  static const struct {
    const char *bytes, *place;
  } cases[] = {
      {"\x80", "line 1, column 1: byte 0x80"},
      {"ab\xFF", "line 1, column 3: byte 0xFF"},
      {"ab\n\xC3\xA4\xC3", "line 2, column 2: byte 0xC3"},           /* cut short */
      {"\n\n\xE2\x82\xAC \xE2\x82 ", "line 3, column 3: byte 0xE2"}, /* the third byte is a space */
      {"\xC0\xAF", "line 1, column 1: byte 0xC0"},                   /* too long a form of / */
      {"\xE0\x80\xAF", "line 1, column 1: byte 0xE0"},               /* and another */
      {"\xF0\x82\x82\xAC", "line 1, column 1: byte 0xF0"},           /* too long a form of the euro sign */
      {"x\xED\xA0\x80", "line 1, column 2: byte 0xED"},              /* a surrogate */
      {"\xF0\x9F\x9A\x80\xF4\x90\x80\x80", "line 1, column 2: byte 0xF4"}, /* U+110000 */
      {"\xF8\x88\x80\x80\x80", "line 1, column 1: byte 0xF8"},             /* five bytes */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct text text = text_of(cases[i].bytes);
    assert_int_equal(utf8_check(&text), NEAP_BAD_FORMAT);
    assert_says("a.txt: ");
    assert_says(cases[i].place);
    struct tokenizer *tokenizer;
    assert_int_equal(tokenizer_characters(&text, 1, &tokenizer), NEAP_BAD_FORMAT);
    assert_says(cases[i].place);
  }
  const struct text good = text_of(many_tongues),
                    line = {.bytes = "x\xFF", .length = 2, .name = "b.txt", .line = 7};
  ASSERT_OK(utf8_check(&good));
  assert_int_equal(utf8_check(&line), NEAP_BAD_FORMAT);
  assert_says("b.txt: line 7, column 2: ");
}

/* ---- Words ---- */

static void test_words(void **state) {
  (void)state;
  static const char *const cases[][10] = {
      {"two  dogs, 12", "two", " ", " dogs", ",", " 12"},
      {"a b\tc", "a", " b", "\t", "c"},
      {"x.\n\n y", "x", ".", "\n\n", " y"},
      {"x \n", "x", " \n"},
      {"x   ", "x", "   "},
      {" ", " "},
      {"  x", " ", " x"},
      {"ab12cd", "ab", "12", "cd"},
      {"don't", "don", "'", "t"},
      {"...!? -", "...!?", " -"},
      {"wei\xC3\x9F \xE2\x80\x9Eja\xE2\x80\x9C", "wei\xC3\x9F", " \xE2\x80\x9E", "ja", "\xE2\x80\x9C"},
      {"\xE6\x88\x91\xE3\x80\x82\xE6\x88\x91", "\xE6\x88\x91", "\xE3\x80\x82", "\xE6\x88\x91"},
      {"go \xF0\x9F\x9A\x80\xF0\x9F\x9A\x80!", "go", " \xF0\x9F\x9A\x80\xF0\x9F\x9A\x80!"},
      {"a\xFF\xC3 \x80", "a\xFF\xC3", " \x80"}, /* not UTF-8 */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *at = cases[i][0];
    for (int k = 1; cases[i][k] != NULL; k++) {
      const size_t length = word_length(at, strlen(at));
      assert_int_equal(length, strlen(cases[i][k]));
      assert_memory_equal(at, cases[i][k], length);
      at += length;
    }
    assert_int_equal(*at, '\0');
  }
}

/* ---- Byte-pair codes, by counting all pairs anew for each merge ---- */

enum { PLAIN_MERGES = 60, PLAIN_TOKENS = BYTE_TOKENS + PLAIN_MERGES, PLAIN_BYTES = 4096 };

struct plain {
  int32_t tokens[PLAIN_BYTES]; /* of all words, one after the other */
  bool begins[PLAIN_BYTES];    /* whether one is the first of a word */
  size_t count;
  struct pair merges[PLAIN_MERGES];
  int merge_count;
};

static void plain_start(struct plain *plain, const char *text) {
  *plain = (struct plain){.count = strlen(text)};
  assert_true(plain->count <= PLAIN_BYTES);
  for (size_t at = 0; at < plain->count; at += word_length(text + at, plain->count - at))
    plain->begins[at] = true;
  for (size_t at = 0; at < plain->count; at++) plain->tokens[at] = (unsigned char)text[at];
}

static void plain_merge(struct plain *plain, struct pair pair, int32_t made) {
  size_t count = 0;
  for (size_t at = 0; at < plain->count; at++, count++) {
    const bool meets = at + 1 < plain->count && !plain->begins[at + 1] && plain->tokens[at] == pair.left &&
                       plain->tokens[at + 1] == pair.right;
    plain->tokens[count] = meets ? made : plain->tokens[at];
    plain->begins[count] = plain->begins[at];
    at += meets;
  }
  plain->count = count;
}

static void plain_learn(struct plain *plain, int merges) {
  static int counts[PLAIN_TOKENS][PLAIN_TOKENS];
  for (; plain->merge_count < merges; plain->merge_count++) {
    struct pair best = {0, 0};
    memset(counts, 0, sizeof counts);
    for (size_t at = 0; at + 1 < plain->count; at++)
      if (!plain->begins[at + 1]) counts[plain->tokens[at]][plain->tokens[at + 1]]++;
    for (int32_t left = 0; left < PLAIN_TOKENS; left++)
      for (int32_t right = 0; right < PLAIN_TOKENS; right++)
        if (counts[left][right] > counts[best.left][best.right]) best = (struct pair){left, right};
    if (counts[best.left][best.right] < 2) return;
    plain->merges[plain->merge_count] = best;
    plain_merge(plain, best, BYTE_TOKENS + plain->merge_count);
  }
}

/* The merges are those of the plain count, and so are the tokens of the text that they were learned from. */
static void check_learning(const char *bytes, int merges) {
  static struct plain plain;
  const struct text text = text_of(bytes);
  struct tokenizer *tokenizer;
  struct token_ids ids = {0};
  plain_start(&plain, bytes);
  plain_learn(&plain, merges);
  ASSERT_OK(tokenizer_learn(&text, 1, BYTE_TOKENS + merges, &tokenizer));
  assert_int_equal(tokenizer_size(tokenizer), BYTE_TOKENS + plain.merge_count);
  for (int i = 0; i < plain.merge_count; i++) {
    assert_int_equal(tokenizer->bpe.merges.pairs.data[i].left, plain.merges[i].left);
    assert_int_equal(tokenizer->bpe.merges.pairs.data[i].right, plain.merges[i].right);
  }
  ASSERT_OK(tokenizer_encode(tokenizer, &text, &ids));
  assert_int_equal(ids.count, plain.count);
  for (size_t i = 0; i < ids.count; i++) assert_int_equal(ids.data[i], plain.tokens[i]);
  vector_free(&ids);
  tokenizer_free(tokenizer);
}

static void test_learning(void **state) {
  (void)state;
  static const char *const texts[] = {
      "",      "a",         "aa aa", "aaaaaaaa", "aaa aaa aaa", "abababab", "abcabcabc", "low lower lowest",
      english, many_tongues};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    check_learning(texts[i], 0);
    check_learning(texts[i], 7);
    check_learning(texts[i], PLAIN_MERGES);
  }
  uint32_t random = 5;
  for (int round = 0; round < shorten(100); round++) {
    char text[600];
    const size_t length = random_below(random_next(&random), sizeof text);
    const uint32_t letters = 1 + random_below(random_next(&random), 7);
    for (size_t i = 0; i < length; i++) text[i] = "ab c1\nd"[random_below(random_next(&random), letters)];
    text[length] = '\0';
    check_learning(text, 1 + (int)random_below(random_next(&random), PLAIN_MERGES));
  }
}

/* Texts that were not learned from, too: the merges that were made first first. */
static void test_encoding_of_other_texts(void **state) {
  (void)state;
  static struct plain plain;
  const struct text texts[] = {text_of(english), text_of(many_tongues)}, both[] = {texts[1], texts[0]};
  struct tokenizer *tokenizer, *turned;
  ASSERT_OK(tokenizer_learn(texts, 2, PLAIN_TOKENS, &tokenizer));
  ASSERT_OK(tokenizer_learn(both, 2, PLAIN_TOKENS, &turned));
  assert_int_equal(tokenizer_size(tokenizer), PLAIN_TOKENS);
  assert_memory_equal(turned->bpe.merges.pairs.data, tokenizer->bpe.merges.pairs.data,
                      PLAIN_MERGES * sizeof(struct pair));
  static const char other[] =
      "Resolve the others; 1212 büßer! citizens' \xFF\xC3 speakers speak speaking\n\n";
  struct text text = text_of(other);
  struct token_ids ids = {0};
  plain_start(&plain, other);
  for (int32_t i = 0; i < PLAIN_MERGES; i++)
    plain_merge(&plain, tokenizer->bpe.merges.pairs.data[i], BYTE_TOKENS + i);
  ASSERT_OK(tokenizer_encode(tokenizer, &text, &ids));
  ASSERT_OK(tokenizer_encode(tokenizer, &text, &ids)); /* appends */
  assert_int_equal(ids.count, 2 * plain.count);
  for (size_t i = 0; i < ids.count; i++) assert_int_equal(ids.data[i], plain.tokens[i % plain.count]);
  assert_true(plain.count < text.length);
  vector_free(&ids);
  tokenizer_free(tokenizer);
  tokenizer_free(turned);
}

/* A word of one letter would become one token. */
static void test_long_tokens(void **state) {
  (void)state;
  static char bytes[10000];
  memset(bytes, 'a', sizeof bytes);
  const struct text text = {.bytes = bytes, .length = sizeof bytes, .name = "a.txt"};
  struct tokenizer *tokenizer;
  size_t longest = 0;
  ASSERT_OK(tokenizer_learn(&text, 1, 1000, &tokenizer));
  for (int32_t id = 0; id < tokenizer_size(tokenizer); id++) {
    size_t length;
    bpe_token(&tokenizer->bpe, id, &length);
    if (length > longest) longest = length;
  }
  assert_int_equal(longest, TOKEN_MAX_BYTES);
  tokenizer_free(tokenizer);
}

static void test_small_vocabulary(void **state) {
  (void)state;
  const struct text text = text_of(english);
  struct tokenizer *tokenizer;
  assert_int_equal(tokenizer_learn(&text, 1, 255, &tokenizer), NEAP_INVALID_ARGUMENT);
  assert_says("255");
}

/* ---- There and back ---- */

static void check_round_trip(const struct tokenizer *tokenizer, const char *bytes, size_t length) {
  const struct text text = {.bytes = bytes, .length = length, .name = "a.txt"};
  struct token_ids ids = {0};
  char *again;
  size_t again_length;
  ASSERT_OK(tokenizer_encode(tokenizer, &text, &ids));
  for (size_t i = 0; i < ids.count; i++) assert_in_range(ids.data[i], 0, tokenizer_size(tokenizer) - 1);
  ASSERT_OK(tokenizer_decode(tokenizer, ids.data, ids.count, &again, &again_length));
  assert_int_equal(again_length, length);
  assert_memory_equal(again, bytes, length);
  assert_int_equal(again[length], '\0');
  free(again);
  vector_free(&ids);
}

static void test_round_trip(void **state) {
  (void)state;
  const struct text texts[] = {text_of(english), text_of(many_tongues)};
  struct tokenizer *tokenizers[3];
  int32_t id;
  ASSERT_OK(tokenizer_bytes(&tokenizers[0]));
  ASSERT_OK(tokenizer_learn(texts, 2, 400, &tokenizers[1]));
  ASSERT_OK(tokenizer_characters(texts, 2, &tokenizers[2]));
  for (int i = 0; i < 3; i++) {
    ASSERT_OK(tokenizer_add_special(tokenizers[i], "<s>", &id));
    check_round_trip(tokenizers[i], english, sizeof english - 1);
    check_round_trip(tokenizers[i], many_tongues, sizeof many_tongues - 1);
    check_round_trip(tokenizers[i], "", 0);
  }
  uint32_t random = 77;
  for (int round = 0; round < shorten(400); round++) {
    char bytes[500];
    const size_t length = random_below(random_next(&random), sizeof bytes);
    const uint32_t bound = round % 2 == 0 ? 256 : 128;
    for (size_t i = 0; i < length; i++) bytes[i] = (char)random_below(random_next(&random), bound);
    check_round_trip(tokenizers[0], bytes, length);
    check_round_trip(tokenizers[1], bytes, length);
  }
  for (int i = 0; i < 3; i++) tokenizer_free(tokenizers[i]);
}

static void test_characters(void **state) {
  (void)state;
  const struct text texts[] = {text_of("b\xC3\xA4"
                                       "a\n"),
                               text_of("\xF0\x9F\x9A\x80"
                                       "a")};
  const struct text other = text_of("aab\nb\xC3\xA4\xC3\xB6!");
  struct tokenizer *tokenizer;
  struct token_ids ids = {0};
  int32_t pad, unknown;
  ASSERT_OK(tokenizer_characters(texts, 2, &tokenizer));
  static const uint32_t characters[] = {'\n', 'a', 'b', 0xE4, 0x1F680};
  assert_int_equal(tokenizer->characters.count, 5);
  assert_memory_equal(tokenizer->characters.data, characters, sizeof characters);
  ASSERT_OK(tokenizer_add_special(tokenizer, "<pad>", &pad));
  ASSERT_OK(vector_push(&ids, 1));
  assert_int_equal(tokenizer_encode(tokenizer, &other, &ids), NEAP_BAD_FORMAT);
  assert_says("a.txt: line 2, column 3: U+00F6 ");
  assert_int_equal(ids.count, 1);
  ASSERT_OK(tokenizer_add_special(tokenizer, TOKENIZER_UNKNOWN, &unknown));
  ASSERT_OK(tokenizer_encode(tokenizer, &other, &ids));
  static const int32_t wanted[] = {1, 1, 1, 2, 0, 2, 3, 6, 6};
  assert_int_equal(ids.count, 9);
  assert_memory_equal(ids.data, wanted, sizeof wanted);
  vector_free(&ids);
  tokenizer_free(tokenizer);
  const struct text nothing = text_of("");
  assert_int_equal(tokenizer_characters(&nothing, 1, &tokenizer), NEAP_BAD_FORMAT);
  assert_says("a.txt");
}

/* The text before the end of a token is that of the ids up to it. */
static void check_places(const struct tokenizer *tokenizer, const char *bytes) {
  const struct text text = text_of(bytes);
  struct token_ids ids = {0}, plain = {0};
  struct places ends = {0};
  ASSERT_OK(tokenizer_encode(tokenizer, &text, &plain));
  for (int twice = 0; twice < 2; twice++)
    ASSERT_OK(tokenizer_encode_places(tokenizer, &text, false, &ids, &ends));
  assert_int_equal(ids.count, 2 * plain.count);
  assert_int_equal(ends.count, ids.count);
  for (size_t i = 0; i < plain.count; i++) {
    char *before;
    size_t length;
    ASSERT_OK(tokenizer_decode(tokenizer, ids.data, i + 1, &before, &length));
    assert_int_equal(ends.data[i], length);
    assert_memory_equal(before, bytes, length);
    assert_int_equal(ends.data[plain.count + i], length);
    assert_int_equal(ids.data[plain.count + i], plain.data[i]);
    free(before);
  }
  vector_free(&ids);
  vector_free(&plain);
  vector_free(&ends);
}

static void test_places(void **state) {
  (void)state;
  const struct text texts[] = {text_of(english), text_of(many_tongues)};
  struct tokenizer *tokenizers[3], *few;
  int32_t unknown;
  ASSERT_OK(tokenizer_bytes(&tokenizers[0]));
  ASSERT_OK(tokenizer_learn(texts, 2, 300, &tokenizers[1]));
  ASSERT_OK(tokenizer_characters(texts, 2, &tokenizers[2]));
  for (int i = 0; i < 3; i++) {
    check_places(tokenizers[i], english);
    check_places(tokenizers[i], many_tongues);
    check_places(tokenizers[i], "");
    tokenizer_free(tokenizers[i]);
  }
  const struct text letters = text_of("ab"), other = text_of("a\xC3\xA9z");
  struct token_ids ids = {0};
  struct places ends = {0};
  ASSERT_OK(tokenizer_characters(&letters, 1, &few));
  assert_int_equal(tokenizer_encode_places(few, &other, false, &ids, &ends), NEAP_BAD_FORMAT);
  assert_true(ids.count == 0 && ends.count == 0);
  ASSERT_OK(tokenizer_add_special(few, TOKENIZER_UNKNOWN, &unknown));
  ASSERT_OK(tokenizer_encode_places(few, &other, false, &ids, &ends));
  assert_int_equal(ends.count, 3);
  assert_true(ends.data[0] == 1 && ends.data[1] == 3 && ends.data[2] == 4);
  vector_free(&ids);
  vector_free(&ends);
  tokenizer_free(few);
}

static void test_special(void **state) {
  (void)state;
  struct tokenizer *tokenizer;
  struct token_ids ids = {0};
  int32_t id;
  ASSERT_OK(tokenizer_bytes(&tokenizer));
  assert_int_equal(tokenizer_size(tokenizer), 256);
  ASSERT_OK(tokenizer_add_special(tokenizer, "<s>", &id));
  assert_int_equal(id, 256);
  ASSERT_OK(tokenizer_add_special(tokenizer, "</s>", &id));
  assert_int_equal(id, 257);
  assert_int_equal(tokenizer_add_special(tokenizer, "<s>", &id), NEAP_INVALID_ARGUMENT);
  assert_says("'<s>'");
  assert_int_equal(tokenizer_add_special(tokenizer, "", &id), NEAP_INVALID_ARGUMENT);
  assert_int_equal(tokenizer_add_special(tokenizer, "\xFF", &id), NEAP_INVALID_ARGUMENT);
  assert_int_equal(tokenizer_size(tokenizer), 258);
  assert_int_equal(tokenizer_special(tokenizer, "</s>"), 257);
  assert_int_equal(tokenizer_special(tokenizer, "</"), -1);
  const struct text text = text_of("<s>");
  ASSERT_OK(tokenizer_encode(tokenizer, &text, &ids));
  assert_int_equal(ids.count, 3);
  char *again;
  size_t length;
  const int32_t mixed[] = {256, 'h', 'i', 257, 257}, bad[] = {'h', 258}, negative[] = {-1};
  ASSERT_OK(tokenizer_decode(tokenizer, mixed, 5, &again, &length));
  assert_string_equal(again, "hi");
  assert_int_equal(length, 2);
  free(again);
  assert_int_equal(tokenizer_decode(tokenizer, bad, 2, &again, &length), NEAP_INVALID_ARGUMENT);
  assert_says("258 at place 1");
  assert_int_equal(tokenizer_decode(tokenizer, negative, 1, &again, &length), NEAP_INVALID_ARGUMENT);
  vector_free(&ids);
  tokenizer_free(tokenizer);
}

/* ---- Files ---- */

static char path[] = "/tmp/neap-tokenizer-XXXXXX";

static void check_file(const struct tokenizer *tokenizer) {
  struct tokenizer *again;
  struct token_ids ids = {0}, again_ids = {0};
  ASSERT_OK(tokenizer_save(tokenizer, path));
  ASSERT_OK(tokenizer_read(path, &again));
  assert_int_equal(again->kind, tokenizer->kind);
  assert_int_equal(tokenizer_size(again), tokenizer_size(tokenizer));
  for (size_t i = 0; i < tokenizer->special.count; i++)
    assert_string_equal(again->special.data[i], tokenizer->special.data[i]);
  const struct text text = text_of(many_tongues);
  ASSERT_OK(tokenizer_encode(tokenizer, &text, &ids));
  ASSERT_OK(tokenizer_encode(again, &text, &again_ids));
  assert_int_equal(again_ids.count, ids.count);
  assert_memory_equal(again_ids.data, ids.data, ids.count * sizeof *ids.data);
  vector_free(&ids);
  vector_free(&again_ids);
  tokenizer_free(again);
}

static void test_files(void **state) {
  (void)state;
  const struct text texts[] = {text_of(english), text_of(many_tongues)};
  struct tokenizer *tokenizers[3];
  int32_t id;
  ASSERT_OK(tokenizer_bytes(&tokenizers[0]));
  ASSERT_OK(tokenizer_learn(texts, 2, 300, &tokenizers[1]));
  ASSERT_OK(tokenizer_characters(texts, 2, &tokenizers[2]));
  for (int i = 0; i < 3; i++) {
    check_file(tokenizers[i]);
    ASSERT_OK(tokenizer_add_special(tokenizers[i], "<\xC3\xA4 \"quoted\">", &id));
    ASSERT_OK(tokenizer_add_special(tokenizers[i], TOKENIZER_UNKNOWN, &id));
    check_file(tokenizers[i]);
    tokenizer_free(tokenizers[i]);
  }
}

#define HEAD "{\"format\": \"neap-tokenizer\", \"version\": 1, "

static void test_bad_files(void **state) {
  (void)state;
  static const struct {
    const char *json, *says;
  } cases[] = {
      {"[]", "must be a JSON object"},
      {"{\"format\": \"neap-graph\", \"version\": 1}", "'format'"},
      {"{\"format\": \"neap-tokenizer\", \"version\": 2}", "'version'"},
      {HEAD "\"special\": []}", "'kind': is missing"},
      {HEAD "\"kind\": \"words\", \"special\": []}", "'kind': must be"},
      {HEAD "\"kind\": \"bytes\"}", "'special': is missing"},
      {HEAD "\"kind\": \"bytes\", \"special\": [1]}", "'special[0]': must be a string"},
      {HEAD "\"kind\": \"bytes\", \"special\": [\"a\", \"\"]}", "'special[1]'"},
      {HEAD "\"kind\": \"bytes\", \"special\": [\"a\", \"b\", \"a\"]}", "'special[2]'"},
      {HEAD "\"kind\": \"byte-pairs\", \"special\": []}", "'merges': is missing"},
      {HEAD "\"kind\": \"byte-pairs\", \"merges\": [1], \"special\": []}", "'merges': must be pairs"},
      {HEAD "\"kind\": \"byte-pairs\", \"merges\": [1, -1], \"special\": []}", "'merges[1]'"},
      {HEAD "\"kind\": \"byte-pairs\", \"merges\": [1, 2, 1, 257], \"special\": []}", "'merges[2]'"},
      {HEAD "\"kind\": \"byte-pairs\", \"merges\": [1, 2, 1, 256, 1, 2], \"special\": []}", "'merges[4]'"},
      {HEAD "\"kind\": \"byte-pairs\", \"merges\": [1, 1, 256, 256, 257, 257, 258, 258, 259, 259, 260, 260, "
            "261, 261, 262, 262, 263, 263], \"special\": []}",
       "'merges[16]'"}, /* 512 bytes */
      {HEAD "\"kind\": \"characters\", \"characters\": [], \"special\": []}", "'characters[0]'"},
      {HEAD "\"kind\": \"characters\", \"characters\": [5, 5], \"special\": []}", "'characters[1]'"},
      {HEAD "\"kind\": \"characters\", \"characters\": [5, 55296], \"special\": []}", "'characters[1]'"},
      {HEAD "\"kind\": \"characters\", \"characters\": [1114112], \"special\": []}", "'characters[0]'"},
      {HEAD "\"kind\": \"characters\", \"characters\": \"ab\", \"special\": []}", "'characters': must be"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct tokenizer *tokenizer;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(cases[i].json, file);
    fclose(file);
    assert_int_equal(tokenizer_read(path, &tokenizer), NEAP_BAD_FORMAT);
    assert_says(path);
    assert_says(cases[i].says);
  }
}

static int make_file(void **state) {
  (void)state;
  const int file = mkstemp(path);
  return file < 0 ? 1 : close(file);
}

static int remove_file(void **state) {
  (void)state;
  unlink(path);
  return 0;
}

int run_test_tokenizer(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_code_points),
      cmocka_unit_test(test_not_utf8),
      cmocka_unit_test(test_words),
      cmocka_unit_test(test_learning),
      cmocka_unit_test(test_encoding_of_other_texts),
      cmocka_unit_test(test_long_tokens),
      cmocka_unit_test(test_small_vocabulary),
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_characters),
      cmocka_unit_test(test_places),
      cmocka_unit_test(test_special),
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_bad_files),
  };
  return cmocka_run_group_tests(tests, make_file, remove_file);
}
