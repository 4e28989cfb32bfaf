/* Renders conversations, for python/tests/torch: an object of JSON a line on the standard input, one on the
 * output.
 *
 * {"jinja" or "name", "messages": [{"role", "content"}], "generate", "bos", "eos"} gives
 * {"name", "text", "spans": [[begin, end]]} with places in bytes, or {"error", "status"}. {"program",
 * "messages"} gives {"text"} of a program in Jinja that is no template. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "template/chat_template.h"
#include "template/jinja_eval.h"

enum { MESSAGE_LIMIT = 64 };

static const char *text_of(const json_t *object, const char *key) {
  return json_string_value(json_object_get(object, key));
}

static size_t read_messages(const json_t *list, struct chat_message *messages) {
  size_t count = 0;
  for (; count < json_array_size(list) && count < MESSAGE_LIMIT; count++) {
    const json_t *message = json_array_get(list, count), *content = json_object_get(message, "content");
    int role = 0;
    while (role < CHAT_ROLES && strcmp(chat_role_names[role], text_of(message, "role")) != 0) role++;
    if (role == CHAT_ROLES) return 0;
    messages[count] = (struct chat_message){role, json_string_value(content), json_string_length(content)};
  }
  return count;
}

static json_t *answer(const char *name, const struct chat_text *out) {
  json_t *spans = json_array(), *object = json_object();
  for (size_t i = 0; i < out->spans.count; i++)
    json_array_append_new(
        spans, json_pack("[II]", (json_int_t)out->spans.data[i].begin, (json_int_t)out->spans.data[i].end));
  json_object_set_new(object, "name", name != NULL ? json_string(name) : json_null());
  json_object_set_new(object, "text",
                      json_stringn(out->text.count > 0 ? out->text.data : "", out->text.count));
  json_object_set_new(object, "spans", spans);
  return object;
}

static neap_status make_text(struct jinja_run *run, const char *text, struct jinja_value *out) {
  return jinja_new_string(run, text, strlen(text), JINJA_UNMARKED, out);
}

static neap_status make_list(struct jinja_run *run, const json_t *list, struct jinja_value *out) {
  static const char *const fields[] = {"role", "content"};
  const size_t count = json_array_size(list);
  neap_status status = jinja_new_list(run, JINJA_IN_LIST, count, out);
  for (size_t i = 0; i < count && status == NEAP_OK; i++) {
    struct jinja_value *message = &out->list->items[i], name, value;
    status = jinja_new_dict(run, JINJA_DICT, message);
    for (int f = 0; f < 2 && status == NEAP_OK; f++) {
      status = make_text(run, fields[f], &name);
      if (status == NEAP_OK) status = make_text(run, text_of(json_array_get(list, i), fields[f]), &value);
      if (status == NEAP_OK) status = jinja_dict_set(run, message->dict, name, value);
    }
  }
  return status;
}

static json_t *run_program(const json_t *job, const char *source) {
  struct jinja_program *program;
  struct jinja_run run = {0};
  struct jinja_variable variables[] = {{"messages", jinja_none()}, {"tools", jinja_none()}};
  const struct jinja_string *text = NULL;
  neap_status status = jinja_program_new(source, strlen(source), "program", &program);
  if (status == NEAP_OK) jinja_begin(program, jinja_usual_limits, &run);
  if (status == NEAP_OK) status = make_list(&run, json_object_get(job, "messages"), &variables[0].value);
  if (status == NEAP_OK) status = jinja_render(program, &run, variables, 2, &text);
  json_t *object = status == NEAP_OK
                       ? json_pack("{ss%}", "text", text->bytes, text->length)
                       : json_pack("{sssi}", "error", neap_error_message(), "status", (int)status);
  region_free(&run.region);
  jinja_program_free(program);
  return object;
}

static json_t *render(const json_t *job) {
  const char *source = text_of(job, "program");
  if (source != NULL) return run_program(job, source);
  struct chat_template *chat;
  struct chat_message messages[MESSAGE_LIMIT];
  struct chat_text out = {0};
  const char *jinja = text_of(job, "jinja");
  neap_status status = jinja != NULL ? chat_template_find(jinja, "template", &chat)
                                     : chat_template_named(text_of(job, "name"), &chat);
  if (status == NEAP_OK)
    status = chat_render(chat, messages, read_messages(json_object_get(job, "messages"), messages),
                         json_is_true(json_object_get(job, "generate")),
                         (struct chat_ends){text_of(job, "bos"), text_of(job, "eos")}, &out);
  json_t *object = status == NEAP_OK
                       ? answer(chat->name, &out)
                       : json_pack("{sssi}", "error", neap_error_message(), "status", (int)status);
  chat_text_free(&out);
  chat_template_free(chat);
  return object;
}

int main(void) {
  json_error_t error;
  for (json_t *job; (job = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, &error)) != NULL; json_decref(job)) {
    json_t *object = render(job);
    json_dumpf(object, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(object);
  }
  return 0;
}
