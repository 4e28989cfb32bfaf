/* Conversations as data: tokens are those of the rendered text, labels the tokens that follow where the
 * assistant writes, in one length, in buckets and in rows of several; what is too long is cut or left out;
 * parts are divided, and errors name file and line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/loader.h"
#include "template/chat_template.h"
#include "testing.h"
#include "text/tokenizer.h"

static void assert_says(const char *what) {
  if (strstr(neap_error_message(), what) == NULL) fail_msg("'%s' is not in: %s", what, neap_error_message());
}

static char folder[64];

static const char *path_of(const char *name) {
  static char paths[4][128];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static void write_lines(const char *name, const char *lines) {
  FILE *file = fopen(path_of(name), "wb");
  assert_non_null(file);
  fputs(lines, file);
  assert_int_equal(fclose(file), 0);
}

/* ---- Records as a model sees them ---- */

enum { MOST = 512 };

struct view {
  int64_t length;
  int32_t tokens[MOST], labels[MOST], places[MOST]; /* places: of packed rows, else 0 */
};

static struct task task_of(int64_t length, bool any_length) {
  return (struct task){.kind = NEAP_TASK_TOKENS, .length = length, .any_length = any_length};
}

static void prepare(struct loader *loader) {
  const int64_t length = loader_length(loader);
  const struct field inputs[] = {{"tokens", NEAP_I32, 1, {length}, false},
                                 {"label", NEAP_I32, 1, {length}, false},
                                 {"place", NEAP_I32, 1, {length}, false}};
  ASSERT_OK(loader_divide(loader, &(struct division){.batch = 1, .micro = 1}));
  ASSERT_OK(loader_prepare(loader, inputs, loader->source.task.chat.packed ? 3 : 2));
}

static int64_t count_of(const struct loader *loader, enum split split) {
  return loader->source.records[split];
}

/* The record that is at a place in the order of buckets. */
static struct view view(struct loader *loader, enum split split, int32_t place) {
  struct view seen = {0};
  int32_t *tokens, *labels;
  int bucket = 0;
  assert_true(place < count_of(loader, split));
  while (place >= loader->buckets[bucket].first[split] + loader->buckets[bucket].count[split]) bucket++;
  const int64_t micro = loader->buckets[bucket].micro;
  seen.length = loader->buckets[bucket].length;
  assert_true(seen.length <= MOST);
  tokens = calloc((size_t)(micro * seen.length), sizeof *tokens);
  labels = calloc((size_t)(micro * seen.length), sizeof *labels);
  int32_t *places = malloc((size_t)micro * sizeof *places);
  assert_true(tokens != NULL && labels != NULL && places != NULL);
  for (int64_t i = 0; i < micro; i++) places[i] = i == 0 ? place : -1;
  assert_true(loader_attach_input(loader, "tokens", tokens) && loader_attach_input(loader, "label", labels));
  assert_int_equal(loader_attach_input(loader, "place", seen.places), loader->source.task.chat.packed);
  ASSERT_OK(loader_fill_places(loader, split, bucket, places, &(struct draw){0}, false));
  memcpy(seen.tokens, tokens, (size_t)seen.length * sizeof *tokens);
  memcpy(seen.labels, labels, (size_t)seen.length * sizeof *labels);
  for (int64_t i = seen.length; i < micro * seen.length; i++) assert_true(tokens[i] == 0 && labels[i] == -1);
  free(tokens);
  free(labels);
  free(places);
  return seen;
}

/* What the record of a text of bytes must be, whose loss is in `parts`, in their order. */
static struct view wanted(const char *text, const char *const *parts, int64_t length) {
  const int64_t bytes = (int64_t)strlen(text);
  struct view w = {.length = length};
  for (int64_t i = 0; i < length; i++) {
    w.tokens[i] = i < bytes ? (unsigned char)text[i] : 0;
    w.labels[i] = -1;
  }
  const char *at = text;
  for (; *parts != NULL; parts++) {
    at = strstr(at, *parts);
    assert_non_null(at);
    for (size_t k = 0; k < strlen(*parts); k++, at++)
      if (at > text && at - text <= length) w.labels[at - text - 1] = (unsigned char)*at;
  }
  return w;
}

static void assert_view(struct view seen, const char *text, const char *const *parts) {
  const struct view w = wanted(text, parts, seen.length);
  for (int64_t i = 0; i < seen.length; i++)
    if (seen.tokens[i] != w.tokens[i] || seen.labels[i] != w.labels[i])
      fail_msg("place %d: token %d and label %d, but %d and %d are wanted", (int)i, seen.tokens[i],
               seen.labels[i], w.tokens[i], w.labels[i]);
}

/* ---- Tokens and labels ---- */

#define ME(text)  "<|im_start|>user\n" text "<|im_end|>\n"
#define YOU(text) "<|im_start|>assistant\n" text "<|im_end|>\n"

static const char four_lines[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": "
    "\"Yes\"}, {\"role\": "
    "\"user\", \"content\": \"So\"}, {\"role\": \"assistant\", \"content\": \"\"}]}\n"
    "{\"prompt\": [{\"role\": \"user\", \"content\": \"p\"}, {\"role\": \"assistant\", \"content\": "
    "\"old\"}, {\"role\": "
    "\"user\", \"content\": \"q\"}], \"completion\": [{\"role\": \"assistant\", \"content\": \"new\"}]}\n"
    "{\"text\": \"ab\"}\n"
    "{\"prompt\": \"a\", \"completion\": \"\\u00e9\"}\n";
static const struct {
  const char *text, *parts[4];
} four[] = {{ME("Hi") YOU("Yes") ME("So") YOU(""), {"Yes<|im_end|>", &"assistant\n<|im_end|>"[10], NULL}},
            {ME("p") YOU("old") ME("q") YOU("new"), {"new<|im_end|>", NULL}},
            {"ab", {"ab", NULL}},
            {ME("a") YOU("\xC3\xA9"), {"\xC3\xA9<|im_end|>", NULL}}};

/* The second answer of the first is empty: its token is the third of its text. */
static void assert_four(struct view seen, int i) {
  if (i > 0) {
    assert_view(seen, four[i].text, four[i].parts);
    return;
  }
  static const char last[] = "assistant\n<|im_end|>\n";
  struct view w = wanted(four[0].text, (const char *const[]){"Yes<|im_end|>", NULL}, seen.length);
  const size_t begin = strlen(four[0].text) - strlen(last) + strlen("assistant\n");
  for (size_t k = begin; k < begin + strlen("<|im_end|>"); k++) w.labels[k - 1] = four[0].text[k];
  assert_memory_equal(seen.tokens, w.tokens, (size_t)seen.length * sizeof *w.tokens);
  assert_memory_equal(seen.labels, w.labels, (size_t)seen.length * sizeof *w.labels);
}

static void test_labels(void **state) {
  (void)state;
  write_lines("four.jsonl", four_lines);
  char name[400];
  snprintf(name, sizeof name, "%s,test=%s", path_of("four.jsonl"), path_of("four.jsonl"));
  for (int chat = 0; chat < 2; chat++) { /* "chat:FILE" is "FILE.jsonl" */
    char text[420];
    struct loader loader;
    const struct task task = task_of(200, false);
    snprintf(text, sizeof text, "%s%s", chat ? "chat:" : "", name);
    ASSERT_OK(loader_open(&loader, text, &task));
    assert_true(loader.source.kind == NEAP_TASK_TOKENS && loader.source.classes == 256 &&
                loader_length(&loader) == 200);
    assert_true(count_of(&loader, SPLIT_TRAIN) == 4 && count_of(&loader, SPLIT_TEST) == 4);
    assert_true(loader.source.skipped == 0 && loader.source.cut == 0);
    prepare(&loader);
    for (int i = 0; i < 4; i++) {
      assert_four(view(&loader, SPLIT_TRAIN, i), i);
      assert_four(view(&loader, SPLIT_TEST, i), i);
    }
    loader_close(&loader);
  }
}

static void test_on_prompt(void **state) {
  (void)state;
  char name[400];
  struct loader loader;
  struct task task = task_of(200, false);
  task.chat.train_on_prompt = true;
  snprintf(name, sizeof name, "chat:%s,test=%s", path_of("four.jsonl"), path_of("four.jsonl"));
  ASSERT_OK(loader_open(&loader, name, &task));
  prepare(&loader);
  for (int i = 0; i < 4; i++)
    assert_view(view(&loader, SPLIT_TRAIN, i), four[i].text, (const char *const[]){four[i].text, NULL});
  loader_close(&loader);
}

/* In buckets each record is what it is in one length, cut where nothing but padding follows. */
static void test_buckets(void **state) {
  (void)state;
  char name[400];
  struct loader loader;
  const struct task task = task_of(200, true);
  bool found[4] = {false};
  snprintf(name, sizeof name, "chat:%s,test=%s", path_of("four.jsonl"), path_of("four.jsonl"));
  ASSERT_OK(loader_open(&loader, name, &task));
  assert_int_equal(loader_length(&loader), strlen(four[1].text) - 1);
  assert_true(loader.bucket_count > 1);
  prepare(&loader);
  for (int place = 0; place < 4; place++) {
    const struct view seen = view(&loader, SPLIT_TRAIN, place);
    int i = 0;
    while (i < 4 && seen.tokens[17] != (i == 2 ? 0 : four[i].text[17])) i++;
    assert_true(i < 4 && !found[i] && seen.length >= (int64_t)strlen(four[i].text) - 1);
    found[i] = true;
    assert_four(seen, i);
  }
  loader_close(&loader);
}

/* ---- Rows of several ---- */

/* Whether `count` tokens of a row from `first` on are a record, behind which nothing is left to learn. */
static bool is_record(const struct view *row, int64_t first, int64_t count, const struct view *record) {
  if (memcmp(row->tokens + first, record->tokens, (size_t)count * sizeof *row->tokens) != 0) return false;
  for (int64_t i = 0; i < record->length; i++)
    if (record->labels[i] != (i < count ? row->labels[first + i] : -1)) return false;
  return true;
}

/* Marks the records that are in a row: between places of 0. */
static void find_records(const struct view *row, const struct view *records, bool *found, int count) {
  for (int64_t first = 0, next; first < row->length; first = next) {
    bool any = false;
    int i = 0;
    for (next = first; next < row->length && row->places[next] == next - first; next++)
      any |= row->labels[next] >= 0;
    assert_true(next > first);
    while (any && i < count && !is_record(row, first, next - first, &records[i])) i++;
    if (!any) assert_true(next == row->length && row->tokens[first] == 0); /* what fills the row up */
    if (any) assert_true(i < count && !found[i]);
    if (any) found[i] = true;
  }
}

static void test_rows(void **state) {
  (void)state;
  enum { COUNT = 26 };
  static struct view records[COUNT];
  char name[400], lines[COUNT * 120] = "", *to = lines;
  for (int i = 0; i < COUNT; i++)
    to += sprintf(to, "{\"prompt\": \"%c%.*s\", \"completion\": \"%.*s\"}\n", 'A' + i, i * 7 % 23,
                  "abcdefghijklmnopqrstuvwxyz", 1 + i * 5 % 19, "zyxwvutsrqponmlkjihgfedcba");
  write_lines("rows.jsonl", lines);
  snprintf(name, sizeof name, "chat:%s,test=%s", path_of("rows.jsonl"), path_of("four.jsonl"));
  for (int any = 0; any < 2; any++) {
    struct loader apart, packed;
    struct task task = task_of(300, false);
    bool found[COUNT] = {false};
    ASSERT_OK(loader_open(&apart, name, &task));
    prepare(&apart);
    for (int i = 0; i < COUNT; i++) records[i] = view(&apart, SPLIT_TRAIN, i);
    task.any_length = any; /* rows of the longest record; else of all places */
    task.chat.packed = true;
    ASSERT_OK(loader_open(&packed, name, &task));
    assert_int_equal(packed.source.conversations, COUNT);
    assert_true(packed.bucket_count == 1 &&
                (any ? loader_length(&packed) < 300 : loader_length(&packed) == 300));
    assert_true(count_of(&packed, SPLIT_TRAIN) < COUNT / (any ? 1 : 2));
    prepare(&packed);
    for (int32_t row = 0; row < count_of(&packed, SPLIT_TRAIN); row++) {
      const struct view seen = view(&packed, SPLIT_TRAIN, row);
      find_records(&seen, records, found, COUNT);
    }
    for (int i = 0; i < COUNT; i++) assert_true(found[i]);
    loader_close(&apart);
    loader_close(&packed);
  }
}

/* ---- Long ones ---- */

static void test_long(void **state) {
  (void)state;
  char name[400];
  struct loader loader;
  const int64_t whole = (int64_t)strlen(four[1].text) - 1, few = (int64_t)strlen(four[3].text) - 1;
  snprintf(name, sizeof name, "chat:%s,test=%s", path_of("four.jsonl"), path_of("four.jsonl"));
  struct task task = task_of(whole - 5, false); /* in the token that ends the answer of the second */
  ASSERT_OK(loader_open(&loader, name, &task));
  assert_true(loader.source.cut == 4 && loader.source.skipped == 0 && count_of(&loader, SPLIT_TRAIN) == 4);
  prepare(&loader);
  assert_view(view(&loader, SPLIT_TRAIN, 1), four[1].text, four[1].parts);
  loader_close(&loader);
  task = task_of(few, false); /* the answer of the second is behind the end: nothing is left to learn */
  ASSERT_OK(loader_open(&loader, name, &task));
  assert_true(loader.source.cut == 2 && loader.source.skipped == 2 && count_of(&loader, SPLIT_TEST) == 3);
  loader_close(&loader);
  task.chat.skip_long = true;
  ASSERT_OK(loader_open(&loader, name, &task));
  assert_true(loader.source.cut == 0 && loader.source.skipped == 4 && count_of(&loader, SPLIT_TRAIN) == 2);
  prepare(&loader);
  assert_view(view(&loader, SPLIT_TRAIN, 1), four[3].text, four[3].parts);
  loader_close(&loader);
  write_lines("one.jsonl", "{\"prompt\": \"abcdefgh\", \"completion\": \"i\"}\n");
  snprintf(name, sizeof name, "chat:%s,test=%s", path_of("one.jsonl"), path_of("four.jsonl"));
  task = task_of(8, false);
  assert_int_equal(loader_open(&loader, name, &task), NEAP_INVALID_ARGUMENT);
  assert_says("one.jsonl: no conversation is left to train with");
  assert_says("`length`");
  loader_close(&loader);
}

/* ---- Parts ---- */

enum { LINES = 40 };

/* Writes texts, as lines or as an array. */
static void write_texts(const char *name, int count, bool array) {
  char lines[LINES * 32] = "", *to = stpcpy(lines, array ? "[\n" : "");
  for (int i = 0; i < count; i++)
    to += sprintf(to, "{\"text\": \"n%c\"}%s\n", '0' + i, array && i + 1 < count ? "," : "");
  stpcpy(to, array ? "]\n" : "");
  write_lines(name, lines);
}

static void write_numbered(const char *name, int count) { write_texts(name, count, false); }

static unsigned long long held_out(const char *words, int count) {
  char name[400];
  struct loader loader;
  const struct task task = task_of(4, false);
  unsigned long long parts[SPLITS] = {0};
  snprintf(name, sizeof name, "chat:%s%s", path_of("numbered.jsonl"), words);
  ASSERT_OK(loader_open(&loader, name, &task));
  assert_int_equal(count_of(&loader, SPLIT_TEST), count);
  prepare(&loader);
  for (int s = 0; s < SPLITS; s++)
    for (int32_t i = 0; i < count_of(&loader, (enum split)s); i++)
      parts[s] |= 1ULL << (view(&loader, (enum split)s, i).tokens[1] - '0');
  assert_true((parts[0] & parts[1]) == 0 && (parts[0] | parts[1]) == (1ULL << LINES) - 1);
  loader_close(&loader);
  return parts[SPLIT_TEST];
}

static void test_holdout(void **state) {
  (void)state;
  write_numbered("numbered.jsonl", LINES);
  const unsigned long long usual = held_out("", 4);
  assert_true(usual == held_out(",holdout=0.1,seed=0", 4));
  assert_true(usual != held_out(",seed=1", 4));
  held_out(",holdout=0.5", 20);
  write_texts("numbered.jsonl", LINES, true);
  assert_true(usual == held_out("", 4));
}

static void test_folder(void **state) {
  (void)state;
  struct loader loader;
  char name[400];
  const struct task task = task_of(4, false);
  snprintf(name, sizeof name, "chat:%s", folder);
  assert_int_equal(loader_open(&loader, name, &task), NEAP_IO_FAILED);
  assert_says("has no train.jsonl");
  loader_close(&loader);
  static const struct {
    const char *file;
    int lines, train, test;
  } steps[] = {{"train.jsonl", 10, 9, 1}, {"test.jsonl", 3, 10, 3}, {"valid.jsonl", 5, 10, 5}};
  for (int i = 0; i < 3; i++) {
    write_numbered(steps[i].file, steps[i].lines);
    ASSERT_OK(loader_open(&loader, name, &task));
    assert_int_equal(count_of(&loader, SPLIT_TRAIN), steps[i].train);
    assert_int_equal(count_of(&loader, SPLIT_TEST), steps[i].test);
    loader_close(&loader);
  }
  snprintf(name, sizeof name, "chat:%s,test=%s", folder, path_of("test.jsonl"));
  ASSERT_OK(loader_open(&loader, name, &task));
  assert_int_equal(count_of(&loader, SPLIT_TEST), 3);
  loader_close(&loader);
  snprintf(name, sizeof name, "chat:%s,holdout=0.2", folder);
  assert_int_equal(loader_open(&loader, name, &task), NEAP_INVALID_ARGUMENT);
  assert_says("valid.jsonl provides the test part; leave holdout= out");
  loader_close(&loader);
}

/* ---- Tokenizers and templates ---- */

/* Learned tokens spell the rendered text, and labels are those that begin in what the assistant writes. */
static void test_learned(void **state) {
  (void)state;
  static const char *const kinds[] = {"characters", "270"};
  for (int k = 0; k < 2; k++) {
    char name[400], *text;
    struct loader loader;
    size_t length, before;
    const struct task task = task_of(200, false);
    snprintf(name, sizeof name, "chat:%s,test=%s,tokens=%s", path_of("four.jsonl"), path_of("four.jsonl"),
             kinds[k]);
    ASSERT_OK(loader_open(&loader, name, &task));
    assert_int_equal(loader.source.classes, tokenizer_size(loader.source.tokenizer));
    prepare(&loader);
    const struct view seen = view(&loader, SPLIT_TRAIN, 1);
    const char *whole = four[1].text;
    const size_t begin = (size_t)(strstr(whole, "new") - whole), end = begin + strlen("new<|im_end|>");
    size_t count = 0, labels = 0;
    for (before = 0; before < strlen(whole); before += length) {
      const int32_t id = seen.tokens[count];
      ASSERT_OK(tokenizer_decode(loader.source.tokenizer, &id, 1, &text, &length));
      assert_memory_equal(text, whole + before, length);
      free(text);
      const bool counts = before >= begin && before < end;
      if (count > 0) assert_int_equal(seen.labels[count - 1], counts ? id : -1);
      labels += counts;
      count++;
    }
    assert_true(labels > 3 && (k == 0 ? count == strlen(whole) : count < strlen(whole)));
    loader_close(&loader);
  }
}

static neap_model *bringing; /* the model that is asked */

static neap_status bring_bytes(const neap_model *model, struct tokenizer **tokenizer) {
  assert_ptr_equal(model, bringing);
  return tokenizer_bytes(tokenizer);
}

static neap_status bring_llama(const neap_model *model, struct chat_template **chat) {
  assert_ptr_equal(model, bringing);
  return chat_template_named("llama3", chat);
}

/* A model brings its tokenizer and its template; what the user asks for comes first. Bytes have no tokens
 * that begin and end a text. */
static void test_of_model(void **state) {
  static const struct task_texts texts = {bring_bytes, bring_llama, NULL};
  (void)state;
  char name[400];
  struct loader loader;
  struct task task = task_of(400, false);
  ASSERT_OK(neap_model_open("gpt-1x32x2", &bringing));
  task.model = bringing;
  task.texts = &texts;
  snprintf(name, sizeof name, "chat:%s,test=%s", path_of("four.jsonl"), path_of("four.jsonl"));
  ASSERT_OK(loader_open(&loader, name, &task));
  assert_int_equal(loader.source.tokenizer->kind, TOKENIZER_BYTES);
  prepare(&loader);
  assert_view(view(&loader, SPLIT_TRAIN, 3),
              "<|start_header_id|>user<|end_header_id|>\n\na<|eot_id|><|start_header_id|>assistant<|end_"
              "header_id|>\n\n"
              "\xC3\xA9<|eot_id|>",
              (const char *const[]){"\xC3\xA9<|eot_id|>", NULL});
  assert_view(view(&loader, SPLIT_TRAIN, 2), "ab", (const char *const[]){"ab", NULL});
  loader_close(&loader);
  task.chat.template_name = "plain";
  ASSERT_OK(loader_open(&loader, name, &task));
  prepare(&loader);
  assert_view(view(&loader, SPLIT_TRAIN, 3), "a\xC3\xA9", (const char *const[]){"\xC3\xA9", NULL});
  loader_close(&loader);
  snprintf(name, sizeof name, "chat:%s,test=%s,tokens=characters", path_of("four.jsonl"),
           path_of("four.jsonl"));
  ASSERT_OK(loader_open(&loader, name, &task));
  assert_int_equal(loader.source.tokenizer->kind, TOKENIZER_CHARACTERS);
  loader_close(&loader);
  neap_model_close(bringing);
}

static void expect_refused(const char *words, struct task task, neap_status status, const char *what) {
  char name[400];
  struct loader loader;
  snprintf(name, sizeof name, "chat:%s%s", path_of("refused.jsonl"), words);
  assert_int_equal(loader_open(&loader, name, &task), status);
  assert_says(what);
  loader_close(&loader);
}

static void test_refused(void **state) {
  (void)state;
  struct task task = task_of(64, false), masked = task, gemma = task, unknown = task;
  masked.kind = NEAP_TASK_MASKED;
  gemma.chat.template_name = "gemma";
  unknown.chat.template_name = "chatlm";
  write_lines("refused.jsonl",
              "{\"text\": \"a\"}\n{\"messages\": [{\"role\": \"system\", \"content\": \"b\"}, {\"role\": "
              "\"user\", \"content\": "
              "\"c\"}, {\"role\": \"assistant\", \"content\": \"d\"}]}\n{\"text\": \"e\"}\n");
  expect_refused("", gemma, NEAP_INVALID_ARGUMENT, "refused.jsonl: line 2: template 'gemma': line 1");
  expect_refused("", unknown, NEAP_INVALID_ARGUMENT,
                 "this chat template does not exist; the names are chatml");
  expect_refused("", masked, NEAP_INVALID_ARGUMENT, "not models of masked tokens");
  expect_refused(",tokens=many", task, NEAP_INVALID_ARGUMENT, "tokens=many must be bytes");
  expect_refused(",holdout=2", task, NEAP_INVALID_ARGUMENT, "holdout must be between 0 and 1 (got 2)");
  write_lines("refused.jsonl", "{\"text\": \"abc\"}\n{\"text\": \"a\"\n");
  expect_refused("", task, NEAP_BAD_FORMAT, "refused.jsonl: line 2, column");
  write_lines("refused.jsonl", "[{\"text\": \"abc\"},\n {\"messages\": []}]");
  expect_refused("", task, NEAP_BAD_FORMAT, "refused.jsonl: record 2: field 'messages'");
  write_lines("refused.jsonl", "[]");
  expect_refused("", task, NEAP_BAD_FORMAT, "the file has no conversations");
  write_lines("refused.jsonl", "");
  expect_refused("", task, NEAP_BAD_FORMAT, "the file has no conversations");
}

int run_test_chat_source(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_labels),   cmocka_unit_test(test_on_prompt),
                                     cmocka_unit_test(test_buckets),  cmocka_unit_test(test_rows),
                                     cmocka_unit_test(test_long),     cmocka_unit_test(test_holdout),
                                     cmocka_unit_test(test_folder),   cmocka_unit_test(test_learned),
                                     cmocka_unit_test(test_of_model), cmocka_unit_test(test_refused)};
  static const char *const names[] = {"four.jsonl", "one.jsonl",   "numbered.jsonl", "train.jsonl",
                                      "test.jsonl", "valid.jsonl", "refused.jsonl"};
  snprintf(folder, sizeof folder, "/tmp/neap-chat-source-%d", (int)getpid());
  mkdir(folder, 0700);
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(path_of(names[i]));
  rmdir(folder);
  return failed;
}
