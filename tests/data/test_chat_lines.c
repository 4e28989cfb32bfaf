/* Conversations in JSON lines and in arrays: each form gives its messages, records come one after the other
 * whatever their length and layout, and errors name the file and the line, or the record. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "data/chat_lines.h"
#include "testing.h"

static char path[64];

static void write_file(const char *bytes, size_t length) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}

/* "system|user|assistant" as letters, each with its content: "sBe brief.;uHi;aYes;" */
static void spell(const struct chat_sample *sample, char *text) {
  *text = '\0';
  for (size_t i = 0; i < sample->messages.count; i++) {
    const struct chat_message *m = &sample->messages.data[i];
    text += sprintf(text, "%c%.*s;", "suat"[m->role], (int)m -> length, m -> content);
  }
  if (sample->messages.count == 0)
    text += sprintf(text, "=%.*s", (int)sample->text.length, sample->text.content);
  if (sample->answered > 0) sprintf(text, "%zu", sample->answered);
}

static void test_forms(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"{\"messages\": [{\"role\": \"system\", \"content\": \"B\"}, {\"role\": \"user\", \"content\": \"\"}, "
       "{\"role\": "
       "\"assistant\", \"content\": \"Y\\n\\u00e9\", \"tool_calls\": null}, {\"content\": \"t\", \"role\": "
       "\"tool\"}], "
       "\"tools\": []}",
       "sB;u;aY\n\xC3\xA9;tt;"},
      {"{\"id\": 98765432109876543210, \"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, "
       "{\"from\": \"gpt\", "
       "\"value\": \"b\"}, "
       "{\"from\": \"user\", \"value\": \"c\"}, {\"from\": \"assistant\", \"value\": \"d\"}, {\"from\": "
       "\"system\", "
       "\"value\": \"e\"}]}",
       "ua;ab;uc;ad;se;"},
      {"{\"prompt\": \"p\", \"completion\": \"c\"}", "up;ac;"},
      {"{\"prompt\": [{\"role\": \"user\", \"content\": \"p\"}, {\"role\": \"assistant\", \"content\": "
       "\"q\"}, {\"role\": "
       "\"user\", \"content\": \"r\"}], \"completion\": [{\"role\": \"assistant\", \"content\": \"c\"}]}",
       "up;aq;ur;ac;1"},
      {"{\"instruction\": \"i\", \"input\": \"\", \"output\": \"o\"}", "ui;ao;"},
      {"{\"instruction\": \"i\", \"output\": \"\"}", "ui;a;"},
      {"{\"instruction\": \"i\", \"input\": \"n\", \"output\": \"o\", \"system\": \"s\"}", "ss;ui<>n;ao;"},
      {"{\"instruction\": \"i\", \"input\": null, \"output\": \"o\", \"system\": \"\"}", "ui;ao;"},
      {"{\"system\": \"s\", \"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", "
       "\"value\": \"b\"}]}",
       "ss;ua;ab;"},
      {"{\"system\": \"s\", \"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", "
       "\"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}",
       "ss;ua;ab;"},
      {"{\"system\": \"s\", \"prompt\": \"p\", \"completion\": \"c\"}", "ss;up;ac;"},
      {"{\"instruction\": \"i\", \"output\": \"o\", \"history\": [[\"a\", \"b\"], [\"c\", \"d\"]]}",
       "ua;ab;uc;ad;ui;ao;"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": "
       "\"b\", "
       "\"weight\": 0}, {\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", \"content\": "
       "\"d\", "
       "\"weight\": 1}]}",
       "ua;ab;uc;ad;1"},
      {" {\"text\": \"all of \\ud83d\\ude42\"} \r", "=all of \xF0\x9F\x99\x82"},
  };
  enum { CASES = sizeof cases / sizeof *cases };
  struct chat_lines lines;
  char all[4096] = "", text[256];
  bool any;
  for (int i = 0; i < CASES; i++) strcat(strcat(all, cases[i][0]), "\n");
  for (int end = 0; end < 2; end++) { /* with the last line feed and without it */
    write_file(all, strlen(all) - (size_t)end);
    ASSERT_OK(chat_lines_open(path, "<>", &lines));
    for (int i = 0; i < CASES; i++) {
      ASSERT_OK(chat_lines_next(&lines, &any));
      assert_true(any);
      assert_int_equal(lines.record, i + 1);
      spell(&lines.sample, text);
      assert_string_equal(text, cases[i][1]);
    }
    ASSERT_OK(chat_lines_next(&lines, &any));
    assert_false(any);
    chat_lines_close(&lines);
  }
}

/* The prompt of a preference is next to the answers, or in whole conversations. */
#define MESSAGE(ROLE, CONTENT) "{\"role\": \"" ROLE "\", \"content\": \"" CONTENT "\"}"
#define ANSWERS(BEFORE)                                                                                      \
  "\"chosen\": [" BEFORE MESSAGE("assistant", "c") "], \"rejected\": [" BEFORE MESSAGE("assistant", "r") "]" \
                                                                                                         "}"

static void test_prompts_of_preferences(void **state) {
  (void)state;
  static const struct {
    const char *line, *chosen, *rejected; /* NULL: refused, with `chosen` in the message */
  } cases[] = {
      {"{\"prompt\": \"p\", \"chosen\": \"c\", \"rejected\": \"r\"}", "up;ac;", "up;ar;"},
      {"{\"prompt\": \"p\", " ANSWERS(""), "up;ac;", "up;ar;"},
      {"{\"prompt\": [" MESSAGE("user", "p") "], " ANSWERS(""), "up;ac;", "up;ar;"},
      {"{" ANSWERS(MESSAGE("user", "p") ", "), "up;ac;", "up;ar;"},
      {"{\"prompt\": \"p\", " ANSWERS(MESSAGE("user", "p") ", "), "up;ac;", "up;ar;"},
      {"{\"prompt\": [" MESSAGE("user", "p") "], " ANSWERS(MESSAGE("user", "p") ", "), "up;ac;", "up;ar;"},
      {"{\"prompt\": \"p\", " ANSWERS(MESSAGE("system", "s") ", " MESSAGE("user", "p") ", "), "ss;up;ac;",
       "ss;up;ar;"},
      {"{\"system\": \"s\", \"prompt\": \"p\", " ANSWERS(""), "ss;up;ac;", "ss;up;ar;"},
      {"{\"system\": \"s\", \"prompt\": [" MESSAGE("user", "p") ", " MESSAGE("assistant", "q") ", " MESSAGE(
           "user", "t") "], \"chosen\": \"c\", \"rejected\": \"r\"}",
       "ss;up;aq;ut;ac;1", "ss;up;aq;ut;ar;1"},
      {"{\"prompt\": \"other\", " ANSWERS(MESSAGE("user", "p") ", "),
       "field 'prompt' is another text than the user's turns", NULL},
      {"{\"prompt\": \"p\", " ANSWERS(MESSAGE("system", "s") ", "), "field 'prompt' has no place", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct chat_lines lines;
    char text[256];
    bool any;
    write_file(cases[i].line, strlen(cases[i].line));
    ASSERT_OK(chat_lines_open(path, "\n", &lines));
    lines.preference = true;
    const neap_status status = chat_lines_next(&lines, &any);
    if (cases[i].rejected == NULL) {
      assert_int_equal(status, NEAP_BAD_FORMAT);
      assert_non_null(strstr(neap_error_message(), cases[i].chosen));
    } else {
      assert_int_equal(status, NEAP_OK);
      spell(&lines.sample, text);
      assert_string_equal(text, cases[i].chosen);
      ASSERT_OK(chat_lines_rejected(&lines));
      spell(&lines.sample, text);
      assert_string_equal(text, cases[i].rejected);
    }
    chat_lines_close(&lines);
  }
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *line, *what;
    neap_status status;
  } cases[] = {
      {"", "it is empty", NEAP_BAD_FORMAT},
      {" \t\r", "it is empty", NEAP_BAD_FORMAT},
      {"{\"text\": \"a\"", "it is not valid JSON", NEAP_BAD_FORMAT},
      {"{\"text\": \"a\"} {}", "it is not valid JSON", NEAP_BAD_FORMAT},
      {"{\"text\": \"a\", \"text\": \"b\"}", "duplicate", NEAP_BAD_FORMAT},
      {"[]", "it must be a JSON object", NEAP_BAD_FORMAT},
      {"{}", "it has none of the fields 'messages'", NEAP_BAD_FORMAT},
      {"{\"text\": \"\xFF\"}", "column 11", NEAP_BAD_FORMAT},
      {"{\"text\": null}", "field 'text' must be a string", NEAP_BAD_FORMAT},
      {"{\"messages\": []}", "field 'messages' must be a list of messages", NEAP_BAD_FORMAT},
      {"{\"messages\": [1]}", "field 'messages[0]' must be an object", NEAP_BAD_FORMAT},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", "no assistant turn", NEAP_BAD_FORMAT},
      {"{\"messages\": [{\"role\": \"human\", \"content\": \"a\"}]}",
       "field 'messages[0]': unknown role 'human'; known are system, user, assistant, tool", NEAP_BAD_FORMAT},
      {"{\"conversations\": [{\"from\": \"bot\", \"value\": \"a\"}]}",
       "unknown from 'bot'; known are system, human", NEAP_BAD_FORMAT},
      {"{\"messages\": [{\"role\": \"assistant\", \"content\": null}]}",
       "field 'messages[0].content' is missing or not a string", NEAP_BAD_FORMAT},
      {"{\"messages\": [{\"role\": \"assistant\", \"content\": [{\"type\": \"text\"}]}]}",
       "field 'messages[0].content' is missing or not a string", NEAP_BAD_FORMAT},
      {"{\"messages\": [{\"content\": \"a\"}]}", "field 'messages[0]' has no role", NEAP_BAD_FORMAT},
      {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{}]}]}",
       "field 'tool_calls'", NEAP_UNSUPPORTED},
      {"{\"tools\": [{}], \"messages\": [{\"role\": \"assistant\", \"content\": \"\"}]}", "field 'tools'",
       NEAP_UNSUPPORTED},
      {"{\"system\": \"s\", \"messages\": [{\"role\": \"system\", \"content\": \"t\"}, {\"role\": "
       "\"assistant\", \"content\": \"b\"}]}",
       "field 'system' is another text than that of the first message", NEAP_BAD_FORMAT},
      {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"b\"}, {\"role\": \"assistant\", "
       "\"content\": "
       "\"b\", \"weight\": 0}]}",
       "field 'messages[1].weight' is 0 behind an answer that is learned", NEAP_BAD_FORMAT},
      {"{\"instruction\": \"i\", \"output\": \"o\", \"history\": [\"a\"]}", "field 'history[0]' must be",
       NEAP_BAD_FORMAT},
      {"{\"prompt\": \"a\"}", "field 'completion' is missing or not a string", NEAP_BAD_FORMAT},
      {"{\"prompt\": [{\"role\": \"assistant\", \"content\": \"a\"}], \"completion\": [{\"role\": \"user\", "
       "\"content\": "
       "\"b\"}]}",
       "no assistant turn", NEAP_BAD_FORMAT},
      {"{\"instruction\": \"a\"}", "field 'output' is missing or not a string", NEAP_BAD_FORMAT},
      {"{\"instruction\": \"a\", \"input\": 1, \"output\": \"\"}", "field 'input' must be a string",
       NEAP_BAD_FORMAT},
      {"{\"instruction\": \"a\", \"system\": 1, \"output\": \"\"}",
       "field 'system' is missing or not a string", NEAP_BAD_FORMAT},
  };
  static const char good[] = "{\"text\": \"a\"}\n";
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char all[1024], place[128];
    struct chat_lines lines;
    bool any;
    snprintf(all, sizeof all, "%s%s\n%s", good, cases[i].line, good);
    write_file(all, strlen(all));
    ASSERT_OK(chat_lines_open(path, "\n", &lines));
    ASSERT_OK(chat_lines_next(&lines, &any));
    assert_int_equal(chat_lines_next(&lines, &any), cases[i].status);
    snprintf(place, sizeof place, "%s: line 2", path);
    assert_memory_equal(neap_error_message(), place, strlen(place));
    if (strstr(neap_error_message(), cases[i].what) == NULL)
      fail_msg("'%s' is not in: %s", cases[i].what, neap_error_message());
    chat_lines_close(&lines);
  }
  struct chat_lines lines;
  assert_int_equal(chat_lines_open("/nowhere/x.jsonl", "\n", &lines), NEAP_IO_FAILED);
  chat_lines_close(&lines);
}

/* Lines of all lengths around those of the pieces that are read, passed over or read. */
static void test_lengths(void **state) {
  (void)state;
  static const char head[] = "{\"text\": \"", tail[] = "\"}\n";
  enum { LENGTHS = 5, MOST = 200000 };
  static const size_t lengths[LENGTHS] = {0, (1 << 16) - sizeof head - sizeof tail, 1 << 16, MOST, 3};
  char *all = calloc(1, 5 * MOST), *to = all;
  assert_non_null(all);
  for (int i = 0; i < LENGTHS; i++) {
    to = stpcpy(to, head);
    memset(to, 'a' + i, lengths[i]);
    to = stpcpy(to + lengths[i], tail);
  }
  write_file(all, (size_t)(to - all));
  free(all);
  for (unsigned skipped = 0; skipped < 1U << LENGTHS; skipped++) {
    struct chat_lines lines;
    bool any;
    ASSERT_OK(chat_lines_open(path, "\n", &lines));
    for (int i = 0; i < LENGTHS; i++) {
      ASSERT_OK(skipped >> i & 1 ? chat_lines_skip(&lines, &any) : chat_lines_next(&lines, &any));
      assert_true(any && lines.record == i + 1);
      if (skipped >> i & 1) continue;
      assert_int_equal(lines.sample.text.length, lengths[i]);
      for (size_t k = 0; k < lengths[i]; k++) assert_int_equal(lines.sample.text.content[k], 'a' + i);
    }
    ASSERT_OK(chat_lines_skip(&lines, &any));
    assert_false(any);
    chat_lines_close(&lines);
  }
}

/* ---- Arrays ---- */

/* An array is read as the lines of its records, however it is laid out and whatever is passed over. */
static void test_arrays(void **state) {
  (void)state;
  enum { RECORDS = 4 };
  static const char *const records[RECORDS] = {
      "{\"instruction\": \"i\",\n  \"input\": \"\", \"output\": \"o ]}, [{ \\\" \\\\\"}",
      "{\"text\": \"a\\\\\"}",
      "{\n\t\"messages\": [\n {\"role\": \"user\", \"content\": \"{\"},\n {\"role\": \"assistant\", "
      "\"content\": "
      "\"]\\\\\\\"\"}\n]\n}",
      "{\"conversations\": [{\"from\": \"human\", \"value\": \"\xC3\xA9\"}, {\"from\": \"gpt\", \"value\": "
      "\"b\"}], "
      "\"more\": [[], {\"a\": [\"}\"]}]}"};
  static const char *const wanted[RECORDS] = {"ui;ao ]}, [{ \" \\;", "=a\\", "u{;a]\\\";", "u\xC3\xA9;ab;"};
  static const char *const layouts[][4] = {{"[", ",", "]", ""},
                                           {"[\n  ", ",\n  ", "\n]\n", ""},
                                           {" \r\n\t[ ", " \n, ", " ]", " \n\n"},
                                           {"\xEF\xBB\xBF[\n", "\n,\n", "\n]", "\n"}};
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    char all[2048] = "", text[256];
    strcat(all, layouts[i][0]);
    for (int r = 0; r < RECORDS; r++) strcat(strcat(all, r > 0 ? layouts[i][1] : ""), records[r]);
    strcat(strcat(all, layouts[i][2]), layouts[i][3]);
    write_file(all, strlen(all));
    for (unsigned skipped = 0; skipped < 1U << RECORDS; skipped++) {
      struct chat_lines lines;
      bool any;
      ASSERT_OK(chat_lines_open(path, "\n", &lines));
      assert_string_equal(lines.unit, "record");
      for (int r = 0; r < RECORDS; r++) {
        ASSERT_OK(skipped >> r & 1 ? chat_lines_skip(&lines, &any) : chat_lines_next(&lines, &any));
        assert_true(any && lines.record == r + 1);
        if (skipped >> r & 1) continue;
        spell(&lines.sample, text);
        assert_string_equal(text, wanted[r]);
      }
      for (int again = 0; again < 2; again++) {
        ASSERT_OK(chat_lines_next(&lines, &any));
        assert_false(any);
      }
      chat_lines_close(&lines);
    }
  }
}

/* Records longer than the pieces that are read, after which the window holds no more than one of them. */
static void test_long_array(void **state) {
  (void)state;
  enum { RECORDS = 40, LENGTH = 90000 };
  struct chat_lines lines;
  bool any;
  char *all = calloc(1, RECORDS * (LENGTH + 32) + 8), *to = all;
  assert_non_null(all);
  to = stpcpy(to, "[");
  for (int i = 0; i < RECORDS; i++) {
    to = stpcpy(to, i > 0 ? ",\n{\"text\": \"" : "\n{\"text\": \"");
    memset(to, 'a' + i % 26, LENGTH);
    to = stpcpy(to + LENGTH, "\"}");
  }
  to = stpcpy(to, "\n]\n");
  write_file(all, (size_t)(to - all));
  free(all);
  ASSERT_OK(chat_lines_open(path, "\n", &lines));
  for (int i = 0; i < RECORDS; i++) {
    ASSERT_OK(chat_lines_next(&lines, &any));
    assert_true(any);
    assert_int_equal(lines.sample.text.length, LENGTH);
    for (size_t k = 0; k < LENGTH; k++) assert_int_equal(lines.sample.text.content[k], 'a' + i % 26);
    assert_true(lines.window.capacity < 4 * LENGTH);
  }
  ASSERT_OK(chat_lines_next(&lines, &any));
  assert_false(any);
  chat_lines_close(&lines);
}

static void test_refused_arrays(void **state) {
  (void)state;
  static const struct {
    const char *rest, *what; /* of the file, behind the first record */
    neap_status status;
  } cases[] = {
      {"", "record 2: a comma, or the array's end, must come before it", NEAP_BAD_FORMAT},
      {",", "record 2: the array does not end", NEAP_BAD_FORMAT},
      {", ]", "record 2: it must be a JSON object", NEAP_BAD_FORMAT},
      {", 7]", "record 2: it must be a JSON object", NEAP_BAD_FORMAT},
      {", [{\"text\": \"a\"}]]", "record 2: it must be a JSON object", NEAP_BAD_FORMAT},
      {" {\"text\": \"a\"}]", "record 2: a comma", NEAP_BAD_FORMAT},
      {", {\"text\": \"a\"", "record 2: the file ends inside it", NEAP_BAD_FORMAT},
      {", {\"text\": \"a]}", "record 2: the file ends inside it", NEAP_BAD_FORMAT},
      {", {\"text\":\n \"a\" \"b\"}]", "record 2: line 2, column", NEAP_BAD_FORMAT},
      {", {\"text\": 1]}", "record 2: line 1, column", NEAP_BAD_FORMAT},
      {", {\n\"text\": \"\xFF\"}]", "record 2: line 2, column 10: byte 0xFF is not UTF-8", NEAP_BAD_FORMAT},
      {", {}]", "record 2: it has none of the fields", NEAP_BAD_FORMAT},
      {", {\"tools\": [1]}]", "record 2: field 'tools'", NEAP_UNSUPPORTED},
      {"] x", "record 2: it stands behind the array's end", NEAP_BAD_FORMAT},
      {"]\n{\"text\": \"a\"}", "record 2: it stands behind the array's end", NEAP_BAD_FORMAT},
      {", {\"text\": \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}]", "record 2 has more than 40 bytes",
       NEAP_TOO_LARGE}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char all[256];
    struct chat_lines lines;
    bool any;
    snprintf(all, sizeof all, "[{\"text\": \"a\"}%s", cases[i].rest);
    write_file(all, strlen(all));
    ASSERT_OK(chat_lines_open(path, "\n", &lines));
    lines.limit = 40;
    ASSERT_OK(chat_lines_next(&lines, &any));
    assert_int_equal(chat_lines_next(&lines, &any), cases[i].status);
    assert_memory_equal(neap_error_message(), path, strlen(path));
    if (strstr(neap_error_message(), cases[i].what) == NULL)
      fail_msg("'%s' is not in: %s", cases[i].what, neap_error_message());
    chat_lines_close(&lines);
  }
}

static void test_limit(void **state) {
  (void)state;
  struct chat_lines lines;
  bool any;
  static const char two[] = "{\"text\": \"a\"}\n{\"text\": \"ab\"}\n";
  write_file(two, sizeof two - 1);
  ASSERT_OK(chat_lines_open(path, "\n", &lines));
  lines.limit = 13;
  ASSERT_OK(chat_lines_next(&lines, &any));
  assert_int_equal(chat_lines_next(&lines, &any), NEAP_TOO_LARGE);
  assert_non_null(strstr(neap_error_message(), "line 2 has more than 13 bytes"));
  chat_lines_close(&lines);
}

static void test_mark(void **state) {
  (void)state;
  struct chat_lines lines;
  bool any;
  static const char marked[] = "\xEF\xBB\xBF{\"text\": \"a\"}";
  write_file(marked, sizeof marked - 1);
  ASSERT_OK(chat_lines_open(path, "\n", &lines));
  assert_true(lines.file.marked);
  ASSERT_OK(chat_lines_next(&lines, &any));
  assert_true(any);
  chat_lines_close(&lines);
  write_file("", 0);
  ASSERT_OK(chat_lines_open(path, "\n", &lines));
  ASSERT_OK(chat_lines_next(&lines, &any));
  assert_false(any || lines.file.marked);
  chat_lines_close(&lines);
}

int run_test_chat_lines(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_forms),         cmocka_unit_test(test_prompts_of_preferences),
      cmocka_unit_test(test_refused),       cmocka_unit_test(test_lengths),
      cmocka_unit_test(test_limit),         cmocka_unit_test(test_mark),
      cmocka_unit_test(test_arrays),        cmocka_unit_test(test_long_array),
      cmocka_unit_test(test_refused_arrays)};
  snprintf(path, sizeof path, "/tmp/neap-chat-lines-%d.jsonl", (int)getpid());
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(path);
  return failed;
}
