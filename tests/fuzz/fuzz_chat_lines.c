/* Conversations in JSON lines, and preferences. Conversations of a file, written anew as messages, are read
 * as the same; each is rendered by every template that takes its roles, and what the assistant has to write
 * lies inside that text.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/chat_lines.h"
#include "support.h"

static json_t *message_of(const struct chat_message *m) {
  json_t *message = json_object();
  json_object_set_new(message, "role", json_string(chat_role_names[m->role]));
  json_object_set_new(message, "content", json_stringn(m->content, m->length));
  CHECK(json_object_size(message) == 2);
  return message;
}

/* A sample as one line: with a prompt where nothing is learned from its turns. */
static json_t *line_of(const struct chat_sample *sample) {
  json_t *line = json_object(), *prompt = json_array(), *rest = json_array();
  size_t answered = sample->answered;
  if (sample->messages.count == 0) {
    json_object_set_new(line, "text", json_stringn(sample->text.content, sample->text.length));
    json_decref(prompt);
    json_decref(rest);
    return line;
  }
  for (size_t i = 0; i < sample->messages.count; i++) {
    json_array_append_new(answered > 0 ? prompt : rest, message_of(&sample->messages.data[i]));
    answered -= answered > 0 && sample->messages.data[i].role == CHAT_ASSISTANT;
  }
  json_object_set_new(line, sample->answered > 0 ? "completion" : "messages", rest);
  if (sample->answered > 0)
    json_object_set_new(line, "prompt", prompt);
  else
    json_decref(prompt);
  return line;
}

static void check_rendering(const struct chat_sample *sample) {
  struct chat_text out = {0};
  for (int i = 0; chat_template_name_at(i) != NULL; i++) {
    struct chat_template *chat;
    size_t answers = 0, end = 0;
    CHECK_OK(chat_template_named(chat_template_name_at(i), &chat));
    const neap_status status = chat_render(chat, sample->messages.data, sample->messages.count, false,
                                           (struct chat_ends){"<s>", "</s>"}, &out);
    chat_template_free(chat);
    if (status != NEAP_OK) {
      fuzz_check_refused(status, "template");
      continue;
    }
    for (size_t k = 0; k < sample->messages.count; k++)
      answers += sample->messages.data[k].role == CHAT_ASSISTANT;
    CHECK(out.spans.count == answers);
    for (size_t k = 0; k < out.spans.count; k++) {
      CHECK(end <= out.spans.data[k].begin && out.spans.data[k].begin <= out.spans.data[k].end);
      end = out.spans.data[k].end;
    }
    CHECK(end <= out.text.count);
  }
  chat_text_free(&out);
}

/* Writes the samples of a file anew; whether all could be read. */
static bool write_again(const char *path, const char *copy) {
  struct chat_lines lines;
  bool any = true, good = chat_lines_open(path, "\n", &lines) == NEAP_OK;
  FILE *file = fopen(copy, "wb");
  CHECK(file != NULL && good);
  while (good && any) {
    const neap_status status = chat_lines_next(&lines, &any);
    if (status != NEAP_OK) fuzz_check_refused(status, path);
    good = status == NEAP_OK;
    if (!good || !any) break;
    json_t *line = line_of(&lines.sample);
    CHECK(json_dumpf(line, file, JSON_COMPACT) == 0 && putc('\n', file) == '\n');
    json_decref(line);
    if (lines.sample.messages.count > 0) check_rendering(&lines.sample);
  }
  chat_lines_close(&lines);
  CHECK(fclose(file) == 0);
  return good;
}

static void check_same(const char *path, const char *copy) {
  struct chat_lines a, b;
  bool any = true, other;
  CHECK_OK(chat_lines_open(path, "\n", &a));
  CHECK_OK(chat_lines_open(copy, "\n", &b));
  while (any) {
    CHECK_OK(chat_lines_next(&a, &any));
    CHECK_OK(chat_lines_next(&b, &other));
    CHECK(any == other);
    if (!any) break;
    json_t *x = line_of(&a.sample), *y = line_of(&b.sample);
    CHECK(json_equal(x, y));
    json_decref(x);
    json_decref(y);
  }
  chat_lines_close(&a);
  chat_lines_close(&b);
}

/* Reads the file as preferences: both answers of a record are read, or one is refused. */
static void check_preferences(const char *path) {
  struct chat_lines lines;
  bool any = true;
  CHECK_OK(chat_lines_open(path, "\n", &lines));
  lines.preference = true;
  while (any) {
    neap_status status = chat_lines_next(&lines, &any);
    if (status == NEAP_OK && any) {
      CHECK(lines.sample.messages.count > 0 && lines.sample.answered < lines.sample.messages.count);
      status = chat_lines_rejected(&lines);
    }
    if (status == NEAP_OK) continue;
    fuzz_check_refused(status, path);
    any = false;
  }
  chat_lines_close(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_path("chat.jsonl"), *copy = fuzz_path("copy.jsonl");
  fuzz_write(path, data, size);
  fuzz_taken = write_again(path, copy);
  if (fuzz_taken) check_same(path, copy);
  check_preferences(path);
  return 0;
}
