/* Programs in Jinja: what they render of one conversation is what transformers renders
 * (tests/template/jinja_cases.json, which python/tests/torch/test_chat_templates.py compares with it); what
 * it refuses is refused, and so is what is not supported, with the place; and no program takes more than its
 * limits. */
#include <jansson.h>
#include <string.h>

#include "template/jinja_eval.h"
#include "testing.h"

static void assert_says(const char *what) {
  if (strstr(neap_error_message(), what) == NULL) fail_msg("'%s' is not in: %s", what, neap_error_message());
}

static struct jinja_value text_value(struct jinja_run *run, const char *text, int source) {
  struct jinja_value value;
  ASSERT_OK(jinja_new_string(run, text, strlen(text), source, &value));
  return value;
}

static const char *const contents[] = {" Be brief.\n", "How are \"you\"? é日本", "Fine.\n\nThanks "};

static struct jinja_value conversation(struct jinja_run *run) {
  static const char *const roles[] = {"system", "user", "assistant"};
  struct jinja_value list;
  ASSERT_OK(jinja_new_list(run, JINJA_IN_LIST, 3, &list));
  for (int i = 0; i < 3; i++) {
    struct jinja_value *message = &list.list->items[i];
    ASSERT_OK(jinja_new_dict(run, JINJA_DICT, message));
    ASSERT_OK(jinja_dict_set(run, message->dict, text_value(run, "role", JINJA_UNMARKED),
                             text_value(run, roles[i], JINJA_UNMARKED)));
    ASSERT_OK(jinja_dict_set(run, message->dict, text_value(run, "content", JINJA_UNMARKED),
                             text_value(run, contents[i], i)));
  }
  return list;
}

/* Renders the conversation; free the run's region. */
static neap_status render(const char *program, size_t length, struct jinja_limits limits,
                          struct jinja_run *run, const struct jinja_string **text) {
  struct jinja_program *p;
  *run = (struct jinja_run){0};
  const neap_status read = jinja_program_new(program, length, "a.jinja", &p);
  if (read != NEAP_OK) return read;
  jinja_begin(p, limits, run);
  const struct jinja_variable variables[] = {{"messages", conversation(run)},
                                             {"tools", jinja_none()},
                                             {"documents", jinja_none()},
                                             {"add_generation_prompt", jinja_bool(false)},
                                             {"bos_token", text_value(run, "<s>", JINJA_UNMARKED)},
                                             {"eos_token", text_value(run, "</s>", JINJA_UNMARKED)}};
  const neap_status status = jinja_render(p, run, variables, sizeof variables / sizeof *variables, text);
  jinja_program_free(p); /* its name is in what it said already */
  return status;
}

static void check_case(const json_t *one) {
  struct jinja_run run;
  const struct jinja_string *text;
  const json_t *program = json_object_get(one, "program"), *wanted = json_object_get(one, "text");
  const char *refused = json_string_value(json_object_get(one, "refused")),
             *unsupported = json_string_value(json_object_get(one, "unsupported"));
  const neap_status status =
      render(json_string_value(program), json_string_length(program), jinja_usual_limits, &run, &text);
  if (wanted != NULL) {
    if (status != NEAP_OK) fail_msg("%s: %s", json_string_value(program), neap_error_message());
    if (text->length != json_string_length(wanted) ||
        memcmp(text->bytes, json_string_value(wanted), text->length) != 0)
      fail_msg("%s: renders '%.*s'", json_string_value(program), (int)text->length, text->bytes);
  } else {
    assert_int_equal(status, refused != NULL ? NEAP_INVALID_ARGUMENT : NEAP_UNSUPPORTED);
    assert_says("a.jinja: line ");
    assert_says(refused != NULL ? refused : unsupported);
  }
  region_free(&run.region);
}

static void test_cases(void **state) {
  (void)state;
  const json_t *one;
  size_t i;
  json_t *cases = json_load_file(CHAT_FOLDER "/jinja_cases.json", JSON_ALLOW_NUL, NULL);
  assert_non_null(cases);
  assert_true(json_array_size(cases) > 200);
  json_array_foreach(cases, i, one) check_case(one);
  json_decref(cases);
}

/* Contents keep their places: what is cut from one, or made of it, is still its. */
static void test_marks(void **state) {
  (void)state;
  static const struct {
    const char *program, *marked; /* each part of message 2 and then of message 0, in brackets */
  } cases[] = {
      {"a{{ messages[2].content }}b", "[Fine.\n\nThanks ]"},
      {"{{ 'x' ~ messages[2].content.strip() + 'y' }}", "[Fine.\n\nThanks]"},
      {"{{ messages[2].content.split('\n\n')[-1] | upper }}", "[THANKS ]"},
      {"{{ messages[2].content[:4] }}-{{ messages[2].content[-3:] }}", "[Fine][ks ]"},
      {"{{ messages[2].content | replace('Fine', 'Good') }}", "[Good.\n\nThanks ]"},
      {"{{ messages[2] | tojson }}", "[Fine.\\n\\nThanks ]"},
      {"{{ messages | map(attribute='content') | join('|') }}", "[Fine.\n\nThanks ][ Be brief.\n]"},
      {"{% set x %}<{{ messages[2].content.strip() }}>{% endset %}{{ x | indent }}", "[Fine.][][Thanks]"},
      {"{% macro f(m) %}({{ m.content | trim }}){% endmacro %}{{ f(messages[0]) | length }}{{ f(messages[0]) "
       "}}",
       "[Be brief.]"},
      {"a{{ messages[2].content[:0] }}b{{ messages[0].content.strip('.\n Bebrif') }}", "[][]"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char marked[128] = "";
    struct jinja_run run;
    const struct jinja_string *text;
    ASSERT_OK(render(cases[i].program, strlen(cases[i].program), jinja_usual_limits, &run, &text));
    for (int source = 2; source >= 0; source -= 2)
      for (size_t k = 0; k < text->mark_count; k++) {
        const struct jinja_mark *m = &text->marks[k];
        if (m->source == source)
          snprintf(marked + strlen(marked), sizeof marked - strlen(marked), "[%.*s]",
                   (int)(m->end - m->begin), text->bytes + m->begin);
      }
    assert_string_equal(marked, cases[i].marked);
    region_free(&run.region);
  }
}

static void expect_limit(const char *program, const char *what) {
  struct jinja_run run;
  const struct jinja_string *text;
  const struct jinja_limits limits = {.steps = 50000, .memory = 32 << 20, .output = 1 << 20};
  assert_int_equal(render(program, strlen(program), limits, &run, &text), NEAP_TOO_LARGE);
  assert_says("a.jinja: line 1, column ");
  assert_says(what);
  region_free(&run.region);
}

#define R100(text) R10(R10(text))
#define R10(text)  text text text text text text text text text text

static void test_limits(void **state) {
  (void)state;
  expect_limit("{% for a in range(10000) %}{% if a %}{{ a }}{{ a }}{{ a }}{% endif %}{% endfor %}",
               "more steps");
  expect_limit("{% for a in range(9999) %}{{ 'a' * 200 }}{% endfor %}", "more than 1048576 bytes");
  expect_limit("{{ 'aaaaaaaaaa' * 999999999 }}", "more than 1048576 bytes");
  expect_limit(
      "{% set ns = namespace(l=[1]) %}{% for a in range(40) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "more memory");
  expect_limit(
      "{% set ns = namespace(l=[1]) %}{% for a in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l "
      "}}",
      "deeper");
  expect_limit(
      "{% set ns = namespace(l=[1]) %}{% for a in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l "
      "== [ns.l] }}{{ ns.l | tojson }}",
      "deeper");
  expect_limit("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deeper");
  expect_limit("{{ " R100("(((") "1" R100(")))") " }}", "deeper");
  expect_limit("{{ " R100("not not not ") "1 }}", "deeper");
  expect_limit("{{ " R100("- - - ") "1 }}", "deeper");
  expect_limit(R100("{% if 1 %}{% for a in [1] %}") R100("{% endfor %}{% endif %}"), "deeper");
  expect_limit("{{ 1" R100(" + 1 + 1 + 1") " }}", "deeper");
  expect_limit("{{ 1" R100(" | abs | abs | abs") " }}", "deeper");
}

/* Every beginning of a program is read or refused, and the place is inside it. */
static void test_beginnings(void **state) {
  (void)state;
  static const char program[] =
      "{%- macro f(a, b='x') -%}\n{{ a ~ b }}{%- endmacro %}{# c #}{% raw %}{{ }}{% endraw %}\n"
      "{% for m in messages[::-1] if m.role != 'tool' -%}{% if loop.first and not m is none %}{{ f(m.content "
      "| trim, "
      "b=\"\\n\") }}{% elif m['role'] in ['a', {'b': (1, 2.5)}] %}{% set ns = namespace(x=1) %}{% set ns.x = "
      "2 "
      "%}{% else %}{% generation %}{{ m.content[1:] if m.content else '' }}{% endgeneration %}{% endif %}{% "
      "endfor %}";
  for (size_t length = 0; length < sizeof program; length++) {
    struct jinja_run run;
    const struct jinja_string *text;
    const neap_status status = render(program, length, jinja_usual_limits, &run, &text);
    if (length == sizeof program - 1) assert_int_equal(status, NEAP_OK);
    if (status != NEAP_OK) {
      assert_true(status == NEAP_INVALID_ARGUMENT || status == NEAP_UNSUPPORTED);
      assert_says("a.jinja: line ");
    }
    region_free(&run.region);
  }
}

int run_test_jinja(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_marks),
                                     cmocka_unit_test(test_limits), cmocka_unit_test(test_beginnings)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
