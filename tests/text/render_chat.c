/* Renders conversations, for python/tests/torch: an object of JSON a line on the standard input, one on the
 * output.
 *
 * {"jinja" or "name", "messages": [{"role", "content"}], "generate", "bos", "eos"} gives
 * {"name", "text", "spans": [[begin, end]]} with places in bytes, or {"error", "status"}. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "text/chat_template.h"

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

static json_t *render(const json_t *job) {
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
