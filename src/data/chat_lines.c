#include "data/chat_lines.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/stop.h"
#include "text/text_file.h"

void chat_lines_close(struct chat_lines *lines) {
  text_file_close(&lines->file);
  json_decref(lines->root);
  lines->root = NULL;
  vector_free(&lines->window);
  vector_free(&lines->joined);
  vector_free(&lines->sample.messages);
}

/* The beginning of a message: "FILE: line L". */
#define PLACE       "%s: %s %lld"
#define PLACE_OF(l) (l)->file.name, (l)->unit, (long long)(l)->record

static neap_status bad(const struct chat_lines *lines, const char *message) {
  return neap_fail(NEAP_BAD_FORMAT, PLACE ": %s", PLACE_OF(lines), message);
}

static neap_status bad_field(const struct chat_lines *lines, const char *field, const char *message) {
  return neap_fail(NEAP_BAD_FORMAT, PLACE ": field '%s' %s", PLACE_OF(lines), field, message);
}

static neap_status too_long(const struct chat_lines *l) {
  return neap_fail(NEAP_TOO_LARGE, PLACE " has more than %zu bytes, the most that a %s may have", PLACE_OF(l),
                   l->limit, l->unit);
}

/* ---- Lines ---- */

enum { ARRAY_BEGINS = 4096 }; /* bytes of white space at most before the bracket of an array */

/* Reads one more piece of the file and appends it to the window. */
static neap_status read_on(struct chat_lines *l) {
  enum { PIECE = 1 << 16 };
  const size_t left = l->file.length - l->read, count = left < PIECE ? left : PIECE;
  TRY(vector_reserve(&l->window, l->window.count + count));
  TRY(file_need_at(l->file.name, l->file.descriptor, l->file.first + l->read,
                   l->window.data + l->window.count, count));
  l->window.count += count;
  l->read += count;
  return NEAP_OK;
}

/* Drops the bytes before the place from the window. */
static void drop_used(struct chat_lines *l) {
  if (l->at > 0) memmove(l->window.data, l->window.data + l->at, l->window.count - l->at);
  l->window.count -= l->at;
  l->at = 0;
}

/* Takes the next line without its end, and drops everything before it from the window. */
static neap_status take_line(struct chat_lines *l, struct text *line, bool *any) {
  size_t looked = 0;
  const char *end = NULL;
  drop_used(l);
  for (;;) {
    if (looked < l->window.count) end = memchr(l->window.data + looked, '\n', l->window.count - looked);
    looked = l->window.count;
    const size_t length = end != NULL ? (size_t)(end - l->window.data) : looked;
    if (length > l->limit) return too_long(l);
    if (end != NULL || l->read == l->file.length) break;
    TRY(read_on(l));
  }
  *any = l->window.count > 0;
  *line = (struct text){
      .bytes = l->window.data, .length = l->window.count, .name = l->file.name, .line = l->record};
  if (end != NULL) line->length = (size_t)(end - l->window.data);
  l->at = line->length + (end != NULL);
  return NEAP_OK;
}

/* ---- Arrays ---- */

/* Passes over white space; gives the byte that follows, or 0 at the end of the file. */
static neap_status skip_blank(struct chat_lines *l, char *next) {
  for (;; l->at++) {
    if (l->at == l->window.count) {
      *next = '\0';
      if (l->read == l->file.length) return NEAP_OK;
      drop_used(l);
      TRY(read_on(l));
    }
    *next = l->window.data[l->at];
    if (*next == '\0' || strchr(" \t\r\n", *next) == NULL) return NEAP_OK;
  }
}

/* Passes over the comma before a record that is not the first, or over the array's end. */
static neap_status pass_comma(struct chat_lines *l) {
  char next;
  TRY(skip_blank(l, &next));
  if (next == ']') {
    l->at++;
    l->ended = true;
    TRY(skip_blank(l, &next));
    return l->at == l->window.count ? NEAP_OK : bad(l, "it stands behind the array's end");
  }
  if (l->record == 1) return NEAP_OK;
  if (next != ',') return bad(l, "a comma, or the array's end, must come before it");
  l->at++;
  return skip_blank(l, &next);
}

/* Takes the next record of an array: from its opening bracket to that which closes it. */
static neap_status take_element(struct chat_lines *l, struct text *record, bool *any) {
  bool string = false, escaped = false;
  size_t depth = 0, length = 0;
  char next;
  *any = false;
  if (!l->ended) TRY(pass_comma(l));
  if (l->ended) return NEAP_OK;
  TRY(skip_blank(l, &next));
  if (next != '{') return bad(l, next == '\0' ? "the array does not end" : "it must be a JSON object");
  drop_used(l);
  do {
    if (length > l->limit) return too_long(l);
    if (length == l->window.count) {
      if (l->read == l->file.length) return bad(l, "the file ends inside it");
      TRY(read_on(l));
    }
    const char c = l->window.data[length++];
    if (escaped || (string && c == '\\')) {
      escaped = !escaped;
    } else if (c == '"') {
      string = !string;
    } else if (!string) {
      depth += c == '{' || c == '[';
      depth -= c == '}' || c == ']';
    }
  } while (depth > 0);
  if (length > l->limit) return too_long(l);
  *record = (struct text){.bytes = l->window.data, .length = length, .name = l->file.name};
  l->at = length;
  *any = true;
  return NEAP_OK;
}

static neap_status take_record(struct chat_lines *l, struct text *record, bool *any) {
  l->record++;
  return l->array ? take_element(l, record, any) : take_line(l, record, any);
}

/* Looks whether the file begins as an array does. */
static neap_status find_form(struct chat_lines *l) {
  char next;
  const size_t piece = l->file.length < ARRAY_BEGINS ? l->file.length : ARRAY_BEGINS;
  TRY(vector_reserve(&l->window, piece + 1));
  TRY(file_need_at(l->file.name, l->file.descriptor, l->file.first, l->window.data, piece));
  size_t at = 0;
  while (at < piece && l->window.data[at] != '\0' && strchr(" \t\r\n", l->window.data[at]) != NULL) at++;
  if (at == piece || l->window.data[at] != '[') return NEAP_OK;
  l->array = true;
  l->unit = "record";
  TRY(skip_blank(l, &next));
  l->at++;
  return NEAP_OK;
}

neap_status chat_lines_open(const char *path, const char *input, struct chat_lines *lines) {
  *lines = (struct chat_lines){.input = input, .limit = CHAT_LINE_LIMIT, .unit = "line"};
  TRY(text_file_open(path, &lines->file));
  return find_form(lines);
}

/* ---- Records ---- */

static bool is_empty(const struct text *line) {
  for (size_t i = 0; i < line->length; i++)
    if (strchr(" \t\r", line->bytes[i]) == NULL || line->bytes[i] == '\0') return false;
  return true;
}

static neap_status parse(struct chat_lines *l, struct text *record) {
  json_error_t error;
  char name[512], line[32] = "";
  if (is_empty(record)) return bad(l, "it is empty; each line must be a JSON object");
  if (l->array) { /* places are the record's own */
    snprintf(name, sizeof name, PLACE, PLACE_OF(l));
    record->name = name;
  }
  TRY(utf8_check(record));
  /* Fields with numbers are not read, and their numbers may not fit into 64 bits. */
  const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL;
  l->root = json_loadb(record->bytes, record->length, flags, &error);
  RETURN_IF(l->root == NULL && json_error_code(&error) == json_error_out_of_memory, NEAP_OUT_OF_MEMORY,
            PLACE ": out of memory", PLACE_OF(l));
  if (l->array) snprintf(line, sizeof line, ": line %d", error.line);
  RETURN_IF(l->root == NULL, NEAP_BAD_FORMAT, PLACE "%s, column %d: it is not valid JSON: %s", PLACE_OF(l),
            line, error.column, error.text);
  return json_is_object(l->root) ? NEAP_OK : bad(l, "it must be a JSON object");
}

/* ---- Forms ---- */

struct role_name {
  const char *name;
  enum chat_role role;
};
static const struct role_name message_roles[] = {{"system", CHAT_SYSTEM},
                                                 {"user", CHAT_USER},
                                                 {"assistant", CHAT_ASSISTANT},
                                                 {"tool", CHAT_TOOL},
                                                 {NULL, 0}};
static const struct role_name conversation_roles[] = {{"system", CHAT_SYSTEM},
                                                      {"human", CHAT_USER},
                                                      {"user", CHAT_USER},
                                                      {"gpt", CHAT_ASSISTANT},
                                                      {"assistant", CHAT_ASSISTANT},
                                                      {"tool", CHAT_TOOL},
                                                      {NULL, 0}};

/* The words in which a list of messages is written. */
struct spelling {
  const char *role, *content;
  const struct role_name *roles;
};
static const struct spelling messages_spelling = {"role", "content", message_roles},
                             conversations_spelling = {"from", "value", conversation_roles};

static bool is_some(const json_t *value) {
  return value != NULL && !json_is_null(value) && !(json_is_array(value) && json_array_size(value) == 0);
}

static neap_status check_tools(const struct chat_lines *l, const json_t *object) {
  static const char *const fields[] = {"tools", "tool_calls", "function_call", "functions"};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    RETURN_IF(is_some(json_object_get(object, fields[i])), NEAP_UNSUPPORTED,
              PLACE ": field '%s': tools and tool calls are not supported; leave such conversations out",
              PLACE_OF(l), fields[i]);
  return NEAP_OK;
}

static neap_status add(struct chat_lines *l, enum chat_role role, const char *content, size_t length) {
  return vector_push(&l->sample.messages, (struct chat_message){role, content, length});
}

static neap_status add_text(struct chat_lines *l, enum chat_role role, const json_t *text,
                            const char *field) {
  if (!json_is_string(text)) return bad_field(l, field, "is missing or not a string");
  return add(l, role, json_string_value(text), json_string_length(text));
}

static neap_status find_role(const struct chat_lines *l, const json_t *message,
                             const struct spelling *spelling, const char *place, enum chat_role *role) {
  char known[128] = "";
  size_t at = 0;
  const char *name = json_string_value(json_object_get(message, spelling->role));
  if (name == NULL) return bad_field(l, place, "has no role, or one that is not a string");
  for (const struct role_name *r = spelling->roles; r->name != NULL; r++) {
    *role = r->role;
    if (strcmp(r->name, name) == 0) return NEAP_OK;
    at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", at > 0 ? ", " : "", r->name);
  }
  return neap_fail(NEAP_BAD_FORMAT, PLACE ": field '%s': unknown %s '%.100s'; known are %s", PLACE_OF(l),
                   place, spelling->role, name, known);
}

static neap_status add_list(struct chat_lines *l, const json_t *list, const char *field,
                            const struct spelling *spelling) {
  const json_t *message;
  size_t i;
  if (!json_is_array(list) || json_array_size(list) == 0)
    return bad_field(l, field, "must be a list of messages");
  json_array_foreach(list, i, message) {
    char place[64];
    enum chat_role role;
    snprintf(place, sizeof place, "%s[%zu]", field, i);
    if (!json_is_object(message)) return bad_field(l, place, "must be an object");
    TRY(check_tools(l, message));
    TRY(find_role(l, message, spelling, place, &role));
    snprintf(place, sizeof place, "%s[%zu].%s", field, i, spelling->content);
    TRY(add_text(l, role, json_object_get(message, spelling->content), place));
  }
  return NEAP_OK;
}

/* Takes the weights of answers: from those of 0 nothing is learned, and they must come first. */
static neap_status take_weights(struct chat_lines *l, const json_t *messages) {
  const json_t *message;
  bool learned = false;
  size_t i;
  json_array_foreach(messages, i, message) {
    const json_t *weight = json_object_get(message, "weight");
    char place[64];
    snprintf(place, sizeof place, "messages[%zu].weight", i);
    if (is_some(weight) &&
        (!json_is_number(weight) || (json_number_value(weight) != 0 && json_number_value(weight) != 1)))
      return bad_field(l, place, "must be 0 or 1");
    if (l->sample.messages.data[l->sample.messages.count - json_array_size(messages) + i].role !=
        CHAT_ASSISTANT)
      continue;
    if (is_some(weight) && json_number_value(weight) == 0) {
      if (learned) return bad_field(l, place, "is 0 behind an answer that is learned; only the first may be");
      l->sample.answered++;
    } else {
      learned = true;
    }
  }
  return NEAP_OK;
}

static neap_status take_messages(struct chat_lines *l, const json_t *messages) {
  TRY(add_list(l, messages, "messages", &messages_spelling));
  return take_weights(l, messages);
}

static neap_status take_conversations(struct chat_lines *l, const json_t *conversations) {
  return add_list(l, conversations, "conversations", &conversations_spelling);
}

/* Takes the turns of a prompt, from which nothing is learned. */
static neap_status take_prompt(struct chat_lines *l, const json_t *prompt) {
  const json_t *completion = json_object_get(l->root, "completion");
  if (json_is_string(prompt)) {
    TRY(add_text(l, CHAT_USER, prompt, "prompt"));
    return add_text(l, CHAT_ASSISTANT, completion, "completion");
  }
  TRY(add_list(l, prompt, "prompt", &messages_spelling));
  for (size_t i = 0; i < l->sample.messages.count; i++)
    l->sample.answered += l->sample.messages.data[i].role == CHAT_ASSISTANT;
  return add_list(l, completion, "completion", &messages_spelling);
}

static neap_status append(struct chat_lines *l, const char *bytes, size_t count) {
  TRY(vector_reserve(&l->joined, l->joined.count + count));
  memcpy(l->joined.data + l->joined.count, bytes, count);
  l->joined.count += count;
  return NEAP_OK;
}

/* Takes earlier turns, as pairs of the user's text and the answer. */
static neap_status take_history(struct chat_lines *l, const json_t *history) {
  const json_t *pair;
  size_t i;
  if (!is_some(history)) return NEAP_OK;
  if (!json_is_array(history)) return bad_field(l, "history", "must be a list of pairs of texts");
  json_array_foreach(history, i, pair) {
    char place[64];
    snprintf(place, sizeof place, "history[%zu]", i);
    if (!json_is_array(pair) || json_array_size(pair) != 2)
      return bad_field(l, place, "must be the user's text and the answer");
    TRY(add_text(l, CHAT_USER, json_array_get(pair, 0), place));
    TRY(add_text(l, CHAT_ASSISTANT, json_array_get(pair, 1), place));
  }
  return NEAP_OK;
}

static neap_status take_instruction(struct chat_lines *l, const json_t *instruction) {
  const json_t *input = json_object_get(l->root, "input");
  if (!json_is_string(instruction)) return bad_field(l, "instruction", "must be a string");
  if (is_some(input) && !json_is_string(input)) return bad_field(l, "input", "must be a string");
  TRY(take_history(l, json_object_get(l->root, "history")));
  if (json_string_length(input) == 0) {
    TRY(add_text(l, CHAT_USER, instruction, "instruction"));
  } else {
    l->joined.count = 0;
    TRY(append(l, json_string_value(instruction), json_string_length(instruction)));
    TRY(append(l, l->input, strlen(l->input)));
    TRY(append(l, json_string_value(input), json_string_length(input)));
    TRY(add(l, CHAT_USER, l->joined.data, l->joined.count));
  }
  return add_text(l, CHAT_ASSISTANT, json_object_get(l->root, "output"), "output");
}

static neap_status take_text(struct chat_lines *l, const json_t *text) {
  if (!json_is_string(text)) return bad_field(l, "text", "must be a string");
  l->sample.text = (struct chat_message){CHAT_ASSISTANT, json_string_value(text), json_string_length(text)};
  return NEAP_OK;
}

/* Forms of a record, each told by its field. */
static const struct form {
  const char *field;
  neap_status (*take)(struct chat_lines *lines, const json_t *value);
} forms[] = {{"messages", take_messages},
             {"conversations", take_conversations},
             {"prompt", take_prompt},
             {"instruction", take_instruction},
             {"text", take_text}};

/* Adds the record's own text of the system, which comes first. `*any`: it has one. */
static neap_status take_system(struct chat_lines *l, bool *any) {
  const json_t *system = json_object_get(l->root, "system");
  *any = is_some(system) && !(json_is_string(system) && json_string_length(system) == 0);
  return *any ? add_text(l, CHAT_SYSTEM, system, "system") : NEAP_OK;
}

/* Removes the record's text of the system where the messages begin with the same. */
static neap_status settle_system(struct chat_lines *l) {
  const struct chat_message *first = l->sample.messages.data;
  const size_t count = l->sample.messages.count;
  if (count < 2 || first[1].role != CHAT_SYSTEM) return NEAP_OK;
  if (first[0].length != first[1].length || memcmp(first[0].content, first[1].content, first[0].length) != 0)
    return bad_field(l, "system",
                     "is another text than that of the first message, whose role is system, too");
  memmove(l->sample.messages.data, l->sample.messages.data + 1, (count - 1) * sizeof *first);
  l->sample.messages.count--;
  return NEAP_OK;
}

static neap_status take_form(struct chat_lines *l, const struct form **form) {
  bool system;
  TRY(check_tools(l, l->root));
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    const json_t *value = json_object_get(l->root, forms[i].field);
    if (value == NULL) continue;
    *form = &forms[i];
    if (forms[i].take == take_text) return take_text(l, value);
    TRY(take_system(l, &system));
    TRY(forms[i].take(l, value));
    return system ? settle_system(l) : NEAP_OK;
  }
  return bad(l, "it has none of the fields 'messages', 'conversations', 'prompt' (and 'completion'), "
                "'instruction' (and "
                "'output') and 'text'");
}

/* Returns the messages that both answers begin with, but not all of either. */
static size_t common_messages(const json_t *a, const json_t *b) {
  size_t count = 0;
  while (count + 1 < json_array_size(a) && count + 1 < json_array_size(b) &&
         json_equal(json_array_get(a, count), json_array_get(b, count)))
    count++;
  return count;
}

/* Returns true if the user writes one of the first messages, this text where one is given. */
static bool user_asks(const json_t *messages, size_t count, const json_t *text) {
  for (size_t i = 0; i < count; i++) {
    const json_t *message = json_array_get(messages, i),
                 *role = json_object_get(message, messages_spelling.role),
                 *content = json_object_get(message, messages_spelling.content);
    if (json_is_string(role) && strcmp(json_string_value(role), "user") == 0 &&
        (text == NULL || json_equal(content, text)))
      return true;
  }
  return false;
}

/* Returns true if a list begins with all messages of another. */
static bool begins_with(const json_t *list, const json_t *beginning) {
  const size_t count = json_array_size(beginning);
  bool same = count > 0 && json_array_size(list) > count;
  for (size_t i = 0; same && i < count; i++)
    same = json_equal(json_array_get(list, i), json_array_get(beginning, i));
  return same;
}

/* Adds what is asked before lists of messages: nothing where they are whole conversations. `*asked`: the
 * number of messages that are no answer. */
static neap_status ask_before_lists(struct chat_lines *l, const json_t *prompt, const json_t *answer,
                                    const json_t *other, size_t *asked) {
  *asked = common_messages(answer, other);
  if (json_is_array(prompt)) {
    *asked = json_array_size(prompt);
    return begins_with(answer, prompt) && begins_with(other, prompt)
               ? NEAP_OK
               : add_list(l, prompt, "prompt", &messages_spelling);
  }
  if (!json_is_string(prompt) || user_asks(answer, *asked, prompt)) return NEAP_OK;
  if (*asked > 0 && (user_asks(answer, *asked, NULL) || user_asks(other, *asked, NULL)))
    return bad_field(l, "prompt", "is another text than the user's turns that both answers begin with");
  if (*asked > 0) return bad_field(l, "prompt", "has no place in what both answers begin with");
  *asked = 1;
  return add_text(l, CHAT_USER, prompt, "prompt");
}

/* Takes one of the two answers of a preference, behind its prompt. */
static neap_status take_preference(struct chat_lines *l) {
  static const char *const names[] = {"chosen", "rejected"};
  const char *name = names[l->second];
  const json_t *prompt = json_object_get(l->root, "prompt"), *answer = json_object_get(l->root, name),
               *other = json_object_get(l->root, names[!l->second]);
  size_t asked = 0;
  bool system;
  TRY(check_tools(l, l->root));
  l->sample.messages.count = l->sample.answered = 0;
  l->sample.text = (struct chat_message){0};
  TRY(take_system(l, &system));
  for (int i = 0; i < 2; i++) {
    const json_t *one = json_object_get(l->root, names[i]);
    if (!json_is_string(one) && !json_is_array(one))
      return bad_field(l, names[i], "is missing, or neither a text nor a list of messages");
  }
  if (json_is_array(answer) != json_is_array(other))
    return bad_field(l, name, "must be what the other answer is: a text, or a list of messages");
  if (json_is_array(answer)) {
    TRY(ask_before_lists(l, prompt, answer, other, &asked));
  } else if (json_is_array(prompt)) {
    TRY(add_list(l, prompt, "prompt", &messages_spelling));
    asked = json_array_size(prompt);
  } else {
    TRY(add_text(l, CHAT_USER, prompt, "prompt"));
  }
  TRY(json_is_array(answer) ? add_list(l, answer, name, &messages_spelling)
                            : add_text(l, CHAT_ASSISTANT, answer, name));
  const size_t all = l->sample.messages.count;
  if (system) TRY(settle_system(l));
  if (system && l->sample.messages.count == all) asked++;
  for (size_t i = 0; i < asked; i++) l->sample.answered += l->sample.messages.data[i].role == CHAT_ASSISTANT;
  return NEAP_OK;
}

static neap_status check_answers(const struct chat_lines *l) {
  size_t answers = 0;
  for (size_t i = 0; i < l->sample.messages.count; i++)
    answers += l->sample.messages.data[i].role == CHAT_ASSISTANT;
  return answers > l->sample.answered ? NEAP_OK : bad(l, "it has no assistant turn to learn from");
}

neap_status chat_lines_next(struct chat_lines *l, bool *any) {
  struct text record;
  const struct form *form;
  TRY(stop_check());
  json_decref(l->root);
  l->root = NULL;
  l->sample.messages.count = l->sample.answered = 0;
  l->sample.text = (struct chat_message){0};
  TRY(take_record(l, &record, any));
  if (!*any) return NEAP_OK;
  TRY(parse(l, &record));
  l->second = false;
  if (l->preference) {
    TRY(take_preference(l));
    return check_answers(l);
  }
  TRY(take_form(l, &form));
  return form->take == take_text ? NEAP_OK : check_answers(l);
}

neap_status chat_lines_rejected(struct chat_lines *l) {
  l->second = true;
  TRY(take_preference(l));
  return check_answers(l);
}

neap_status chat_lines_skip(struct chat_lines *l, bool *any) {
  struct text record;
  return take_record(l, &record, any);
}
