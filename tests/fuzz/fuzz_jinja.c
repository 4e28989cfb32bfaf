/* Programs in Jinja. One that is taken renders the same text every time, in UTF-8, with the contents' places
 * in it; else a message has the place. As a chat template it gives spans in order, or is refused. None takes
 * more than its limits. */
#include <string.h>

#include "support.h"
#include "template/chat_template.h"
#include "template/jinja_eval.h"
#include "text/utf8.h"

enum { MESSAGES = 4, QUICK = 20000 };
static const struct jinja_limits limits = {.steps = 100000, .memory = 8 << 20, .output = 1 << 18};

static struct jinja_value text_value(struct jinja_run *run, const char *text, int source) {
  struct jinja_value value;
  CHECK_OK(jinja_new_string(run, text, strlen(text), source, &value));
  return value;
}

static struct jinja_value conversation(struct jinja_run *run, const struct chat_message *messages) {
  struct jinja_value list;
  CHECK_OK(jinja_new_list(run, JINJA_IN_LIST, MESSAGES, &list));
  for (int i = 0; i < MESSAGES; i++) {
    struct jinja_value *message = &list.list->items[i];
    CHECK_OK(jinja_new_dict(run, JINJA_DICT, message));
    CHECK_OK(jinja_dict_set(run, message->dict, text_value(run, "role", JINJA_UNMARKED),
                            text_value(run, chat_role_names[messages[i].role], JINJA_UNMARKED)));
    CHECK_OK(jinja_dict_set(run, message->dict, text_value(run, "content", JINJA_UNMARKED),
                            text_value(run, messages[i].content, i)));
  }
  return list;
}

static neap_status render(const struct jinja_program *program, const struct chat_message *messages,
                          struct jinja_run *run, const struct jinja_string **text) {
  jinja_begin(program, limits, run);
  const struct jinja_variable variables[] = {{"messages", conversation(run, messages)},
                                             {"add_generation_prompt", jinja_bool(true)},
                                             {"tools", jinja_none()},
                                             {"bos_token", text_value(run, "<s>", JINJA_UNMARKED)},
                                             {"eos_token", text_value(run, "</s>", JINJA_UNMARKED)}};
  return jinja_render(program, run, variables, sizeof variables / sizeof *variables, text);
}

static void check_text(const struct jinja_string *text) {
  const struct text whole = {.bytes = text->bytes, .length = text->length, .name = "text"};
  CHECK_OK(utf8_check(&whole));
  CHECK(text->length <= limits.output);
  for (size_t i = 0; i < text->mark_count; i++) {
    const struct jinja_mark *m = &text->marks[i];
    CHECK(m->begin <= m->end && m->end <= text->length && m->source >= JINJA_GENERATED &&
          m->source < MESSAGES);
  }
}

static bool same(const struct jinja_string *a, const struct jinja_string *b) {
  bool equal =
      a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0 && a->mark_count == b->mark_count;
  for (size_t i = 0; i < a->mark_count && equal; i++) {
    const struct jinja_mark *x = &a->marks[i], *y = &b->marks[i];
    equal = x->source == y->source && x->begin == y->begin && x->end == y->end;
  }
  return equal;
}

static void check_template(const char *jinja, const struct chat_message *messages) {
  struct chat_template *chat;
  struct chat_text out = {0};
  size_t end = 0;
  neap_status status = chat_template_find(jinja, "a.jinja", &chat);
  if (status != NEAP_OK) {
    fuzz_check_refused(status, "a.jinja: ");
    return;
  }
  status = chat_render(chat, messages, MESSAGES, false, (struct chat_ends){"<s>", "</s>"}, &out);
  if (status != NEAP_OK) fuzz_check_refused(status, NULL);
  for (size_t i = 0; status == NEAP_OK && i < out.spans.count; i++) {
    CHECK(end <= out.spans.data[i].begin && out.spans.data[i].begin <= out.spans.data[i].end);
    end = out.spans.data[i].end;
  }
  CHECK(status != NEAP_OK || end <= out.text.count);
  chat_text_free(&out);
  chat_template_free(chat);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct chat_message messages[MESSAGES] = {
      {CHAT_SYSTEM, " Be brief.\n", 11},
      {CHAT_USER, "How are you? \xC3\xA9", 15},
      {CHAT_ASSISTANT, "<think>\nHm.\n</think>\n\nFine. ", 28},
      {CHAT_TOOL, "", 0}};
  struct jinja_program *program;
  struct jinja_run runs[2] = {0};
  const struct jinja_string *texts[2];
  neap_status status = jinja_program_new((const char *)data, size, "a.jinja", &program);
  for (int i = 0; i < 2 && status == NEAP_OK; i++) status = render(program, messages, &runs[i], &texts[i]);
  fuzz_taken = status == NEAP_OK;
  if (fuzz_taken) {
    check_text(texts[0]);
    CHECK(same(texts[0], texts[1]));
  } else {
    fuzz_check_refused(status, "a.jinja: line ");
  }
  if (fuzz_taken && limits.steps - runs[0].left.steps < QUICK) {
    char *jinja = calloc(1, size + 1);
    CHECK(jinja != NULL);
    if (size > 0) memcpy(jinja, data, size);
    check_template(jinja, messages);
    free(jinja);
  }
  if (program != NULL) jinja_program_free(program);
  for (int i = 0; i < 2; i++) region_free(&runs[i].region);
  return 0;
}
