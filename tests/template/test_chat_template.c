/* Chat templates: conversations are rendered as transformers renders them with the models' own programs
 * (tests/template/chat_cases.json, which python/tests/torch/test_chat_templates.py compares with it) and by
 * name; a program has the name of the row that renders the same; and what cannot be rendered is refused. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "template/chat_template.h"
#include "testing.h"

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

static void assert_name(const struct chat_template *chat, const char *name) {
  if (name == NULL)
    assert_null(chat->name);
  else
    assert_string_equal(chat->name, name);
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
      assert_name(chat, name);
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

#define CHATML(turn, prompt)                                                                                 \
  "{% for message in messages %}" turn "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>"          \
  "assistant" prompt "' }}{% endif %}"
#define TURN "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"

/* Programs that look like a row's, and render other texts or the same. */
static void test_look_alikes(void **state) {
  (void)state;
  static const struct {
    const char *program, *name, *text; /* of one question, with a prompt for an answer */
  } cases[] = {
      {CHATML(TURN, "\n"), "chatml", "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"},
      {CHATML("<|im_start|>{{ message.role ~ '\n' }}{{ message.content }}<|im_end|>{{ '\n' }}", "\n"),
       "chatml", "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"},
      {CHATML(TURN "{{ '<|sep|>' }}", "\n"), NULL,
       "<|im_start|>user\na<|im_end|>\n<|sep|><|im_start|>assistant\n"},
      {CHATML("{% if loop.first and message.role != 'system' %}{{ '<|im_start|>system\nHi<|im_end|>\n' }}{% "
              "endif %}" TURN,
              "\n"),
       NULL, "<|im_start|>system\nHi<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"},
      {CHATML("{% if false %}{{ 'x' }}{% else %}" TURN "{% endif %}", "\n"), "chatml",
       "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"},
      {CHATML("{% if message.role == 'user' %}U{{ message.content }}{% else %}" TURN "{% endif %}", "\n"),
       NULL, "Ua<|im_start|>assistant\n"},
      {CHATML(TURN, "\n<think>\n"), NULL, "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>\n"}};
  const struct chat_message ask = {CHAT_USER, "a", 1};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct chat_template *chat;
    struct chat_text out = {0};
    ASSERT_OK(chat_template_find(cases[i].program, "a.json", &chat));
    assert_name(chat, cases[i].name);
    ASSERT_OK(chat_render(chat, &ask, 1, true, (struct chat_ends){0}, &out));
    assert_int_equal(out.text.count, strlen(cases[i].text));
    assert_memory_equal(out.text.data, cases[i].text, out.text.count);
    chat_text_free(&out);
    chat_template_free(chat);
  }
}

/* What is around an answer: before its content, and the token that ends it. */
static void test_answers(void **state) {
  (void)state;
  static const struct {
    const char *program, *lead, *end;
  } cases[] = {
      {CHATML(TURN, "\n"), "", "<|im_end|>"},
      {"{% for m in messages %}{{ m.role }}: {{ m.content }}{% if m.role == 'assistant' %}{{ eos_token }}{% "
       "endif "
       "%}{{ '\n' }}{% endfor %}{{ 'assistant:' if add_generation_prompt }}",
       " ", NULL},
      {"{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{{ '<|assistant|>' if "
       "add_generation_prompt else '<|endoftext|>' }}",
       "", "<|end|>"},
      {"{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}{{ '<|return|>' if loop.last "
       "else "
       "'<|end|>' }}{% endfor %}{{ '<|start|>assistant' if add_generation_prompt }}",
       "<|message|>", "<|return|>"},
      {"{% for m in messages %}[{{ m.role }}]{{ m.content }}[/]{% endfor %}", "[assistant]", "[/]"},
      {"{% for m in messages %}\n{{ m.role }}\n{{ m.content }}\n{% endfor %}", "assistant\n", NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct chat_template *chat;
    ASSERT_OK(chat_template_find(cases[i].program, "a.json", &chat));
    const struct chat_answer answer = chat_template_answer(chat);
    assert_string_equal(answer.lead, cases[i].lead);
    assert_true((answer.end == NULL) == (cases[i].end == NULL));
    if (answer.end != NULL) assert_string_equal(answer.end, cases[i].end);
    chat_template_free(chat);
  }
}

/* A program that says what the model writes: that carries loss, whatever is around it. */
static void test_generation_marks(void **state) {
  (void)state;
  static const char program[] =
      "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %} {{ m.content }};\n"
      "{% endgeneration %}{% else %}{{ m.content }};{% endif %}{% endfor %}";
  static const struct chat_message messages[] = {
      {CHAT_USER, "a", 1}, {CHAT_ASSISTANT, "", 0}, {CHAT_ASSISTANT, "b", 1}, {CHAT_USER, "c", 1}};
  static const char text[] = "user:a;assistant: ;\nassistant: b;\nuser:c;";
  static const struct chat_span spans[] = {{17, 20, 0}, {30, 34, 1}};
  struct chat_template *chat;
  struct chat_text out = {0};
  ASSERT_OK(chat_template_find(program, "a.json", &chat));
  ASSERT_OK(chat_render(chat, messages, 4, false, (struct chat_ends){0}, &out));
  assert_int_equal(out.text.count, sizeof text - 1);
  assert_memory_equal(out.text.data, text, sizeof text - 1);
  assert_int_equal(out.spans.count, 2);
  assert_memory_equal(out.spans.data, spans, sizeof spans);
  chat_text_free(&out);
  chat_template_free(chat);
}

static void test_input(void **state) {
  (void)state;
  struct chat_template *chat;
  char *program = read_program("alpaca.jinja");
  ASSERT_OK(chat_template_find(program, "a.json", &chat));
  assert_string_equal(chat_template_input(chat), "\n\n### Input:\n");
  chat_template_free(chat);
  free(program);
  ASSERT_OK(chat_template_named("chatml", &chat));
  assert_string_equal(chat_template_input(chat), "\n");
  chat_template_free(chat);
}

static void test_unknown(void **state) {
  (void)state;
  static const struct {
    const char *program, *what;
    neap_status status;
  } cases[] = {
      {"", "it leaves out what the assistant says", NEAP_UNSUPPORTED},
      {"{{", "line 1, column 1: this tag does not end", NEAP_INVALID_ARGUMENT},
      {"{{'", "line 1, column 3: this string does not end", NEAP_INVALID_ARGUMENT},
      {"{% for message in messages %}\n{{ message['content'] | magic }}{% endfor %}",
       "line 2, column 25: the filter 'magic' is not supported", NEAP_UNSUPPORTED},
      {"{% import 'x' as y %}", "line 1, column 4: the tag 'import' is not supported", NEAP_UNSUPPORTED},
      {"{{ raise_exception('Never') }}", "the template refuses the conversation: Never",
       NEAP_INVALID_ARGUMENT},
      {"\xFF", "line 1, column 1", NEAP_BAD_FORMAT}};
  struct chat_template *chat;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(chat_template_find(cases[i].program, "model/tokenizer_config.json", &chat),
                     cases[i].status);
    assert_null(chat);
    assert_says("model/tokenizer_config.json: ");
    assert_says(cases[i].what);
    assert_says("`template` NAME: chatml, ");
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
  expect_refused("gemma", system_text, user, NEAP_INVALID_ARGUMENT, "template 'gemma': line 1, column ");
  expect_refused("gemma", system_text, user, NEAP_INVALID_ARGUMENT, "System role not supported");
  expect_refused("gemma3", user, user, NEAP_INVALID_ARGUMENT, "roles must alternate");
  expect_refused("llama2", assistant, user, NEAP_INVALID_ARGUMENT, "roles must alternate");
  expect_refused("mistral-v3", system_text, assistant, NEAP_INVALID_ARGUMENT, "roles must alternate");
  expect_refused("zephyr", user, (struct chat_message){CHAT_TOOL, "t", 1}, NEAP_UNSUPPORTED,
                 "message 2: the chat template zephyr leaves out what 'tool' says");
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases),
                                     cmocka_unit_test(test_names),
                                     cmocka_unit_test(test_look_alikes),
                                     cmocka_unit_test(test_answers),
                                     cmocka_unit_test(test_generation_marks),
                                     cmocka_unit_test(test_input),
                                     cmocka_unit_test(test_unknown),
                                     cmocka_unit_test(test_refused_conversations),
                                     cmocka_unit_test(test_again)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
