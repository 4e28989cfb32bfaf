/* Chat templates: conversations are rendered as transformers renders them with the models' own programs
 * (tests/text/chat_cases.json, which python/tests/torch/test_chat_templates.py compares with it), found by
 * their marks and by name; and what no row renders is refused. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "testing.h"
#include "text/chat_jinja.h"
#include "text/chat_template.h"

static void assert_says(const char *what) {
  if (strstr(neap_error_message(), what) == NULL) fail_msg("'%s' is not in: %s", what, neap_error_message());
}

/* ---- Cases ---- */

static char *read_program(const char *name) {
  char path[512];
  snprintf(path, sizeof path, CHAT_FOLDER "/templates/%s", name);
  FILE *file = fopen(path, "rb");
  if (file == NULL) return NULL; /* it is not ours to keep */
  char *text = calloc(1, 1 << 16);
  assert_non_null(text);
  assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
  fclose(file);
  return text;
}

static size_t read_messages(const json_t *list, struct chat_message *messages) {
  const json_t *message;
  size_t i;
  json_array_foreach(list, i, message) {
    int role = 0;
    const json_t *content = json_object_get(message, "content");
    while (strcmp(chat_role_names[role], json_string_value(json_object_get(message, "role"))) != 0) role++;
    messages[i] = (struct chat_message){role, json_string_value(content), json_string_length(content)};
  }
  return i;
}

static void check_case(const json_t *one, const struct chat_template *chat) {
  struct chat_message messages[8];
  struct chat_text out = {0};
  const json_t *text = json_object_get(one, "text"), *loss = json_object_get(one, "loss");
  const size_t count = read_messages(json_object_get(one, "messages"), messages);
  ASSERT_OK(chat_render(chat, messages, count, json_is_true(json_object_get(one, "generate")),
                        (struct chat_ends){"<bos>", "</s>"}, &out));
  assert_int_equal(out.text.count, json_string_length(text));
  assert_memory_equal(out.text.data, json_string_value(text), out.text.count);
  assert_int_equal(out.spans.count, json_array_size(loss));
  for (size_t i = 0; i < out.spans.count; i++) {
    const struct chat_span span = out.spans.data[i];
    const json_t *part = json_array_get(loss, i);
    assert_int_equal(span.end - span.begin, json_string_length(part));
    assert_memory_equal(out.text.data + span.begin, json_string_value(part), span.end - span.begin);
  }
  chat_text_free(&out);
}

static void test_cases(void **state) {
  (void)state;
  const json_t *one;
  size_t i, found = 0, named = 0;
  json_t *cases = json_load_file(CHAT_FOLDER "/chat_cases.json", 0, NULL);
  assert_non_null(cases);
  json_array_foreach(cases, i, one) {
    struct chat_template *chat;
    const char *name = json_string_value(json_object_get(one, "name"));
    char *program = read_program(json_string_value(json_object_get(one, "template")));
    if (program != NULL) {
      ASSERT_OK(chat_template_find(program, "a.json", &chat));
      assert_string_equal(chat->name, name);
      check_case(one, chat);
      chat_template_free(chat);
      found++;
    }
    free(program);
    if (!json_is_true(json_object_get(one, "named"))) continue;
    ASSERT_OK(chat_template_named(name, &chat));
    check_case(one, chat);
    chat_template_free(chat);
    named++;
  }
  assert_true(found >= 20 && named >= 30);
  json_decref(cases);
}

/* ---- Finding ---- */

static void test_names(void **state) {
  (void)state;
  struct chat_template *chat;
  for (int i = 0; chat_template_name_at(i) != NULL; i++) {
    ASSERT_OK(chat_template_named(chat_template_name_at(i), &chat));
    assert_string_equal(chat->name, chat_template_name_at(i));
    chat_template_free(chat);
  }
  assert_null(chat_template_name_at(-1));
  assert_int_equal(chat_template_named("chatm", &chat), NEAP_INVALID_ARGUMENT);
  assert_null(chat);
  assert_says("the names are chatml, ");
  chat_template_free(NULL);
}

static void test_default_system(void **state) {
  (void)state;
  struct chat_template *chat;
  char *program = read_program("smollm2.jinja");
  ASSERT_OK(chat_template_find(program, "a.json", &chat));
  assert_string_equal(chat->system, "You are a helpful AI assistant named SmolLM, trained by Hugging Face");
  chat_template_free(chat);
  free(program);
  program = read_program("chatml.jinja");
  ASSERT_OK(chat_template_find(program, "a.json", &chat));
  assert_null(chat->system);
  chat_template_free(chat);
  free(program);
}

static void test_unknown(void **state) {
  (void)state;
  static const char *const programs[] = {
      "",
      "{{",
      "{%",
      "{#",
      "{{'",
      "{{'\\",
      "{{ messages }}",
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] | trim + "
      "'<|im_end|>' + "
      "'\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"};
  struct chat_template *chat;
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    assert_int_equal(chat_template_find(programs[i], "model/tokenizer_config.json", &chat), NEAP_UNSUPPORTED);
    assert_null(chat);
    assert_says("model/tokenizer_config.json: ");
    assert_says("--template NAME: chatml, ");
  }
}

static void test_spelling(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"{%- if  a -%} x {{- \"a'b\" + 'c\nd\\n' + e -}}", "{%ifa%}x{{'a\\'bc\\nd\\n'+e}}"},
      {"{# no {{ 'x' }} #}{{ m.role + m.content + m.roles }}", "{{m['role']+m['content']+m.roles}}"},
      {"it's {{ 'a' }} - {{ 'b' }}", "it's{{'a'}}-{{'b'}}"},
      {"{{ x[1:-1] }}{{ 'a\\\"b' }}", "{{x[1:-1]}}{{'a\"b'}}"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    char *program, *again;
    ASSERT_OK(chat_jinja_normalise(pairs[i][0], &program));
    assert_string_equal(program, pairs[i][1]);
    ASSERT_OK(chat_jinja_normalise(program, &again));
    assert_string_equal(again, program);
    free(program);
    free(again);
  }
}

/* ---- Errors ---- */

static const struct chat_message user = {CHAT_USER, "a", 1}, assistant = {CHAT_ASSISTANT, "b", 1},
                                 system_text = {CHAT_SYSTEM, "c", 1};

static void expect_refused(const char *name, struct chat_message first, struct chat_message second,
                           neap_status status, const char *what) {
  struct chat_template *chat;
  struct chat_text out = {0};
  ASSERT_OK(chat_template_named(name, &chat));
  assert_int_equal(
      chat_render(chat, (const struct chat_message[]){first, second}, 2, false, (struct chat_ends){0}, &out),
      status);
  assert_says(what);
  assert_int_equal(chat_render(chat, NULL, 0, false, (struct chat_ends){0}, &out), NEAP_INVALID_ARGUMENT);
  assert_says("no messages");
  chat_text_free(&out);
  chat_template_free(chat);
}

static void test_refused_conversations(void **state) {
  (void)state;
  expect_refused("gemma", system_text, user, NEAP_UNSUPPORTED,
                 "message 1: the chat template 'gemma' has no turn for 'system'");
  expect_refused("gemma3", user, user, NEAP_INVALID_ARGUMENT, "message 2: its role is 'user'");
  expect_refused("llama2", assistant, user, NEAP_INVALID_ARGUMENT, "message 1: its role is 'assistant'");
  expect_refused("mistral-v3", system_text, assistant, NEAP_INVALID_ARGUMENT,
                 "message 2: its role is 'assistant'");
  expect_refused("zephyr", user, (struct chat_message){CHAT_TOOL, "t", 1}, NEAP_UNSUPPORTED,
                 "no turn for 'tool'");
}

/* A text is rendered in place of the one before, and tokens that a model does not have are no text. */
static void test_again(void **state) {
  (void)state;
  struct chat_template *chat;
  struct chat_text out = {0};
  ASSERT_OK(chat_template_named("plain", &chat));
  for (int i = 0; i < 2; i++) {
    ASSERT_OK(chat_render(chat, (const struct chat_message[]){user, assistant}, 2, false,
                          (struct chat_ends){0}, &out));
    assert_int_equal(out.text.count, 2);
    assert_memory_equal(out.text.data, "ab", 2);
    assert_int_equal(out.spans.count, 1);
    assert_int_equal(out.spans.data[0].begin, 1);
    assert_int_equal(out.spans.data[0].end, 2);
  }
  chat_text_free(&out);
  chat_template_free(chat);
}

int run_test_chat_template(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cases),          cmocka_unit_test(test_names),
      cmocka_unit_test(test_default_system), cmocka_unit_test(test_unknown),
      cmocka_unit_test(test_spelling),       cmocka_unit_test(test_refused_conversations),
      cmocka_unit_test(test_again)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
