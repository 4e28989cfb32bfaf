#include "template/chat_template.h"

#include <stdio.h>
#include <string.h>

#include "template/chat_rows.h"
#include "template/jinja_eval.h"
#include "template/jinja_text.h"

const char *const chat_role_names[CHAT_ROLES] = {"system", "user", "assistant", "tool"};

/* Signs in texts that were found for tokens that are only known when a conversation is rendered. */
#define BOS "\1"
#define EOS "\2"

/* Bytes, borrowed. */
struct piece {
  const char *bytes;
  size_t length;
};

static struct piece piece_of(const char *text) { return (struct piece){text, strlen(text)}; }

static struct piece between(struct piece p, size_t begin, size_t end) {
  return (struct piece){p.bytes + begin, end > begin ? end - begin : 0};
}

static bool begins_with(struct piece p, struct piece with) {
  return with.length <= p.length && memcmp(p.bytes, with.bytes, with.length) == 0;
}

static size_t common(struct piece a, struct piece b) {
  size_t i = 0;
  while (i < a.length && i < b.length && a.bytes[i] == b.bytes[i]) i++;
  return i;
}

/* ---- Running the program ---- */

/* One rendering: the text, and where the messages' contents are in it. */
struct rendering {
  struct jinja_run run;
  const struct jinja_string *text;
};

static struct piece text_of(const struct rendering *r) {
  return (struct piece){r->text->bytes, r->text->length};
}

static neap_status new_text(struct jinja_run *run, const char *text, struct jinja_value *out) {
  return jinja_new_string(run, text, strlen(text), JINJA_UNMARKED, out);
}

static neap_status make_messages(struct jinja_run *run, const struct chat_message *messages, size_t count,
                                 struct jinja_value *out) {
  struct jinja_value names[2], fields[2];
  TRY(new_text(run, "role", &names[0]));
  TRY(new_text(run, "content", &names[1]));
  TRY(jinja_new_list(run, JINJA_IN_LIST, count, out));
  for (size_t i = 0; i < count; i++) {
    const struct chat_message *m = &messages[i];
    struct jinja_value *item = &out->list->items[i];
    TRY(new_text(run, chat_role_names[m->role], &fields[0]));
    TRY(jinja_new_string(run, m->length > 0 ? m->content : "", m->length, (int)i, &fields[1]));
    TRY(jinja_new_dict(run, JINJA_DICT, item));
    for (int f = 0; f < 2; f++) TRY(jinja_dict_set(run, item->dict, names[f], fields[f]));
  }
  return NEAP_OK;
}

/* Returns what a rendering may take, which grows with the contents. */
static struct jinja_limits limits_for(const struct chat_message *messages, size_t count) {
  struct jinja_limits limits = jinja_usual_limits;
  size_t bytes = 0;
  for (size_t i = 0; i < count; i++) bytes += messages[i].length;
  limits.output = ((size_t)4 << 20) + 16 * bytes;
  limits.memory = ((size_t)256 << 20) + 64 * bytes;
  return limits;
}

/* Free r->run.region whatever the status. */
static neap_status run_program(const struct chat_template *chat, const struct chat_message *messages,
                               size_t count, bool generate, struct chat_ends ends, struct rendering *r) {
  struct jinja_variable variables[6] = {{"messages", jinja_none()},
                                        {"add_generation_prompt", jinja_bool(generate)},
                                        {"tools", jinja_none()},
                                        {"documents", jinja_none()}};
  const char *const tokens[2][2] = {{"bos_token", ends.bos}, {"eos_token", ends.eos}};
  size_t known = 4;
  jinja_begin(chat->program, limits_for(messages, count), &r->run);
  TRY(make_messages(&r->run, messages, count, &variables[0].value));
  for (int i = 0; i < 2; i++) { /* a model without such a token has no name for it; a row takes no text */
    const char *text = tokens[i][1] == NULL && chat->named ? "" : tokens[i][1];
    if (text == NULL) continue;
    variables[known].name = tokens[i][0];
    TRY(new_text(&r->run, text, &variables[known++].value));
  }
  return jinja_render(chat->program, &r->run, variables, known, &r->text);
}

/* Gives where the content of a message is in a text; false: it is nowhere. */
static bool find_content(const struct jinja_string *text, int message, struct chat_span *out) {
  bool found = false;
  for (size_t i = 0; i < text->mark_count; i++) {
    const struct jinja_mark *m = &text->marks[i];
    if (m->source != message) continue;
    if (!found || m->begin < out->begin) out->begin = m->begin;
    if (!found || m->end > out->end) out->end = m->end;
    found = true;
  }
  return found;
}

/* ---- What is around an answer ---- */

/* The conversations from which that is found, and by which programs are compared. */
#define MESSAGE(role, text)                                                                                  \
  { role, text, sizeof(text) - 1 }
#define SYSTEM    MESSAGE(CHAT_SYSTEM, " Be brief.\n")
#define ASK       MESSAGE(CHAT_USER, " How are \"you\"?\n")
#define ANSWER    MESSAGE(CHAT_ASSISTANT, "\n Fine. ")
#define THINK     MESSAGE(CHAT_ASSISTANT, "<think>\nHm.\n</think>\n\nYes.")
#define TOOL      MESSAGE(CHAT_TOOL, "{\"t\": 1}")
#define ASK_AGAIN MESSAGE(CHAT_USER, "And now?")

struct probe {
  size_t count;
  bool generate;
  struct chat_message messages[8];
};

static const struct chat_ends signs = {BOS, EOS};

static void free_renderings(struct rendering *list, int count) {
  for (int i = 0; i < count; i++) region_free(&list[i].run.region);
}

/* Returns the length of a text without a tag at its end that is open. */
static size_t without_open_tag(struct piece text) {
  for (size_t at = text.length; at-- > 0;) {
    if (strchr(">] \n", text.bytes[at]) != NULL) break;
    if (text.bytes[at] == '<' || text.bytes[at] == '[') return at;
  }
  return text.length;
}

/* Gives what a text begins with up to a blank, with the blanks before it. */
static struct piece first_word(struct piece text) {
  size_t end = jinja_space_at_begin(text.bytes, text.length);
  if (end == text.length) return between(text, 0, 0);
  while (end < text.length && jinja_space_at_begin(text.bytes + end, text.length - end) == 0) end++;
  return between(text, 0, end);
}

/* Finds how a turn ends, from the text behind its content where it is the last and where another follows. */
static struct piece find_end(struct piece last, struct piece followed) {
  size_t shared = common(last, followed);
  if (shared < last.length) shared = without_open_tag(between(last, 0, shared));
  const struct piece end = first_word(between(last, 0, shared));
  return end.length > 0 ? end : first_word(last);
}

static neap_status copy_piece(struct piece piece, char **out) {
  *out = calloc(1, piece.length + 1);
  RETURN_IF_NULL(*out);
  memcpy(*out, piece.bytes, piece.length);
  return NEAP_OK;
}

/* Takes the first token of a turn's end: a tag in its brackets, or all of it. */
static neap_status find_stop(struct chat_template *chat) {
  const char *begin = chat->end + jinja_space_at_begin(chat->end, strlen(chat->end));
  const char *end = *begin == '<' ? strchr(begin, '>') : *begin == '[' ? strchr(begin, ']') : NULL;
  const size_t length = end != NULL ? (size_t)(end - begin) + 1 : strlen(begin);
  if (length == 0 || *begin == *EOS) return NEAP_OK;
  return copy_piece((struct piece){begin, length}, &chat->stop);
}

/* Finds what is around an answer from a conversation whose last message asks: without a prompt for an answer,
 * with it, with an answer, and with a turn behind that. */
static neap_status look_around(struct chat_template *chat, const struct rendering r[4], int asked) {
  const struct piece without = text_of(&r[0]), with = text_of(&r[1]), answered = text_of(&r[2]),
                     followed = text_of(&r[3]);
  struct chat_span ask = {0}, answer = {0}, again = {0};
  find_content(r[2].text, asked, &ask);
  if (!find_content(r[2].text, asked + 1, &answer) || !find_content(r[3].text, asked + 1, &again))
    return neap_fail(NEAP_UNSUPPORTED, "it leaves out what the assistant says");
  const size_t head = common(without, with), agreed = common(with, answered);
  const struct piece prompt = between(with, head, with.length);
  size_t begin = agreed < answer.begin ? agreed : answer.begin;
  if (begin < with.length) begin = without_open_tag(between(with, 0, begin));
  struct piece before = between(answered, head < begin ? head : begin, begin);
  for (size_t at = answer.begin + 1; prompt.length > 0 && at-- > ask.end;) /* whatever was before it */
    if (begins_with(between(answered, at, answer.begin), prompt)) {
      begin = at + prompt.length;
      before = prompt;
      break;
    }
  if (begin < ask.end) begin = answer.begin, before.length = 0; /* earlier turns change with an answer */
  const struct piece rest = between(answered, answer.end, answered.length);
  static const char instruction[] = "### Instruction:\n";
  const size_t length = sizeof instruction - 1;
  chat->instructs =
      ask.begin >= length && memcmp(answered.bytes + ask.begin - length, instruction, length) == 0;
  TRY(copy_piece(before, &chat->before));
  TRY(copy_piece(between(answered, begin, answer.begin), &chat->lead));
  TRY(copy_piece(find_end(rest, between(followed, again.end, followed.length)), &chat->end));
  return find_stop(chat);
}

static neap_status probe(struct chat_template *chat) {
  static const struct chat_message conversation[] = {SYSTEM, ASK, ANSWER, ASK_AGAIN};
  static const int beyond[4] = {0, 0, 1, 2}; /* messages after the one that asks */
  neap_status status = NEAP_OK;
  for (int system = 0; system < 2; system++) { /* without a system, or else with one */
    struct rendering r[4] = {0};
    status = NEAP_OK;
    for (int i = 0; i < 4 && status == NEAP_OK; i++)
      status = run_program(chat, conversation + 1 - system, (size_t)(1 + system + beyond[i]), i == 1, signs,
                           &r[i]);
    if (status == NEAP_OK) status = look_around(chat, r, system);
    free_renderings(r, 4);
    if (status == NEAP_OK || status == NEAP_OUT_OF_MEMORY) break;
  }
  return status;
}

/* ---- Finding ---- */

const char *chat_template_name_at(int index) {
  return index >= 0 && index < CHAT_ROWS ? chat_rows[index].name : NULL;
}

const char *chat_template_input(const struct chat_template *chat) {
  return chat->instructs ? "\n\n### Input:\n" : "\n";
}

struct chat_answer chat_template_answer(const struct chat_template *chat) {
  return (struct chat_answer){chat->lead, chat->stop};
}

static const char *list_names(char *text, size_t size) {
  size_t length = 0;
  *text = '\0';
  for (int i = 0; i < CHAT_ROWS && length < size; i++)
    length += (size_t)snprintf(text + length, size - length, "%s%s", i > 0 ? ", " : "", chat_rows[i].name);
  return text;
}

/* Makes the template of a program; *out is NULL after a failure. */
static neap_status make(const char *jinja, const char *file, const char *name, struct chat_template **out) {
  *out = calloc(1, sizeof **out);
  RETURN_IF_NULL(*out);
  **out = (struct chat_template){.name = name, .named = name != NULL};
  neap_status status = jinja_program_new(jinja, strlen(jinja), file, &(*out)->program);
  if (status == NEAP_OK) status = probe(*out);
  if (status == NEAP_OK) return NEAP_OK;
  chat_template_free(*out);
  *out = NULL;
  return status;
}

neap_status chat_template_named(const char *name, struct chat_template **out) {
  char names[512], place[64];
  *out = NULL;
  for (const struct chat_row *row = chat_rows; row < chat_rows + CHAT_ROWS; row++) {
    snprintf(place, sizeof place, "template '%s'", row->name);
    if (strcmp(row->name, name) == 0) return make(row->program, place, row->name, out);
  }
  return neap_fail(NEAP_INVALID_ARGUMENT,
                   "template '%s': this chat template does not exist; the names are %s", name,
                   list_names(names, sizeof names));
}

/* Takes the rows out that render another text than `chat`; a refusal is a text of its own. */
static neap_status compare_rows(const struct chat_template *chat, const struct probe *p,
                                struct chat_template *rows, int count) {
  struct rendering own = {0};
  const neap_status wanted = run_program(chat, p->messages, p->count, p->generate, signs, &own);
  neap_status status = wanted == NEAP_OUT_OF_MEMORY ? wanted : NEAP_OK;
  for (int i = 0; i < count && status == NEAP_OK; i++) {
    struct rendering r = {0};
    if (rows[i].program == NULL) continue;
    const neap_status got = run_program(&rows[i], p->messages, p->count, p->generate, signs, &r);
    const bool same =
        got == wanted &&
        (got != NEAP_OK || (r.text->length == own.text->length && begins_with(text_of(&r), text_of(&own))));
    if (got == NEAP_OUT_OF_MEMORY) status = got;
    region_free(&r.run.region);
    if (same) continue;
    jinja_program_free(rows[i].program);
    rows[i].program = NULL;
  }
  region_free(&own.run.region);
  return status;
}

/* Names a model's own template after the row that renders the same. */
static neap_status find_name(struct chat_template *chat) {
  static const struct probe probes[] = {{1, true, {ASK}},
                                        {2, false, {ASK, ANSWER}},
                                        {3, true, {ASK, ANSWER, ASK_AGAIN}},
                                        {2, true, {SYSTEM, ASK}},
                                        {4, false, {SYSTEM, ASK, ANSWER, ASK_AGAIN}},
                                        {5, false, {SYSTEM, ASK, THINK, ASK_AGAIN, THINK}},
                                        {2, false, {MESSAGE(CHAT_SYSTEM, ""), ASK}},
                                        {2, false, {ASK, MESSAGE(CHAT_ASSISTANT, "")}},
                                        {2, false, {ASK, ASK_AGAIN}},
                                        {3, false, {ASK, SYSTEM, ANSWER}},
                                        {7, true, {ASK, THINK, TOOL, TOOL, THINK, ASK_AGAIN, ANSWER}},
                                        {5, false, {ASK, THINK, TOOL, ANSWER, THINK}}};
  struct chat_template rows[CHAT_ROWS] = {0};
  neap_status status = NEAP_OK;
  for (int i = 0; i < CHAT_ROWS && status == NEAP_OK; i++)
    status = jinja_program_new(chat_rows[i].program, strlen(chat_rows[i].program), chat_rows[i].name,
                               &rows[i].program);
  for (size_t i = 0; i < sizeof probes / sizeof *probes && status == NEAP_OK; i++)
    status = compare_rows(chat, &probes[i], rows, CHAT_ROWS);
  for (int i = CHAT_ROWS; i-- > 0;) {
    if (rows[i].program != NULL) chat->name = chat_rows[i].name;
    jinja_program_free(rows[i].program);
  }
  return status;
}

neap_status chat_template_find(const char *jinja, const char *file, struct chat_template **out) {
  char names[512];
  struct ending ending;
  neap_status status = make(jinja, file, NULL, out);
  if (status == NEAP_OK) status = find_name(*out);
  if (status == NEAP_OK) return NEAP_OK;
  chat_template_free(*out);
  *out = NULL;
  ending_keep(&ending, status);
  if (status == NEAP_OUT_OF_MEMORY) return ending_tell(&ending);
  const bool placed = strncmp(ending.message, file, strlen(file)) == 0;
  return neap_fail(status, "%s%s%.600s; choose a chat template with `template` NAME: %s", placed ? "" : file,
                   placed ? "" : ": ", ending.message, list_names(names, sizeof names));
}

void chat_template_free(struct chat_template *chat) {
  if (chat == NULL) return;
  jinja_program_free(chat->program);
  free(chat->before);
  free(chat->lead);
  free(chat->end);
  free(chat->stop);
  free(chat);
}

void chat_text_free(struct chat_text *text) {
  vector_free(&text->text);
  vector_free(&text->spans);
}

/* ---- Rendering ---- */

/* Returns the length of `text` with its signs replaced, if `p` begins with that; else SIZE_MAX. */
static size_t match(struct piece p, const char *text, struct chat_ends ends) {
  size_t at = 0;
  for (; *text != '\0'; text++) {
    const struct piece part = *text == *BOS   ? piece_of(ends.bos != NULL ? ends.bos : "")
                              : *text == *EOS ? piece_of(ends.eos != NULL ? ends.eos : "")
                                              : (struct piece){text, 1};
    if (!begins_with(between(p, at, p.length), part)) return SIZE_MAX;
    at += part.length;
  }
  return at;
}

/* Returns where the answer begins that has its content from `content` on, in what the program wrote between
 * `after` and that: behind the last prompt for an answer, or else before its lead. */
static size_t find_begin(const struct chat_template *chat, struct piece text, size_t after, size_t content,
                         struct chat_ends ends) {
  for (size_t at = content + 1; *chat->before != '\0' && at-- > after;) {
    const size_t length = match(between(text, at, content), chat->before, ends);
    if (length != SIZE_MAX) return at + length;
  }
  for (size_t at = content; at >= after && content - at <= 4 * strlen(chat->lead) + 64; at--) {
    if (match(between(text, at, content), chat->lead, ends) == content - at) return at;
    if (at == 0) break;
  }
  return content;
}

static bool is_blank(const struct chat_message *m) {
  return jinja_space_at_begin(m->content, m->length) == m->length;
}

/* Adds a span; parts that an earlier one has are left out. */
static neap_status add_span(struct chat_text *out, size_t begin, size_t end, size_t turn) {
  const size_t last = out->spans.count > 0 ? out->spans.data[out->spans.count - 1].end : 0;
  if (begin < last) begin = last;
  return vector_push(&out->spans, (struct chat_span){begin, end > begin ? end : begin, turn});
}

/* Adds what the program marks as the model's before a place. */
static neap_status add_marked(const struct jinja_string *s, size_t *mark, size_t until, size_t turn,
                              struct chat_text *out) {
  for (; *mark < s->mark_count; ++*mark) {
    const struct jinja_mark *m = &s->marks[*mark];
    if (m->source != JINJA_GENERATED) continue;
    if (m->end < until) TRY(add_span(out, m->begin, m->end, turn));
    if (m->end >= until) return NEAP_OK;
  }
  return NEAP_OK;
}

static neap_status find_spans(const struct chat_template *chat, const struct chat_message *messages,
                              size_t count, struct chat_ends ends, const struct jinja_string *s,
                              struct chat_text *out) {
  const struct piece text = {s->bytes, s->length};
  const bool marked = jinja_program_marks(chat->program);
  size_t after = 0, turns = 0, mark = 0; /* `after`: the end of the content before */
  for (size_t i = 0; i < count; i++) {
    struct chat_span content = {after, after, 0};
    const bool found = find_content(s, (int)i, &content), head = i == 0 && messages[i].role == CHAT_SYSTEM;
    RETURN_IF(!found && !head && !is_blank(&messages[i]), NEAP_UNSUPPORTED,
              "message %zu: the chat template%s%s leaves out what '%s' says", i + 1,
              chat->name != NULL ? " " : "", chat->name != NULL ? chat->name : "",
              chat_role_names[messages[i].role]);
    if (messages[i].role == CHAT_ASSISTANT && marked) {
      if (turns > 0) TRY(add_marked(s, &mark, content.begin, turns - 1, out));
      turns++;
    } else if (messages[i].role == CHAT_ASSISTANT) {
      const size_t low = after < content.begin ? after : content.begin,
                   end = match(between(text, content.end, text.length), chat->end, ends);
      TRY(add_span(out, found ? find_begin(chat, text, low, content.begin, ends) : content.begin,
                   content.end + (found && end != SIZE_MAX ? end : 0), turns++));
    }
    after = content.end;
  }
  return marked && turns > 0 ? add_marked(s, &mark, SIZE_MAX, turns - 1, out) : NEAP_OK;
}

neap_status chat_render(const struct chat_template *chat, const struct chat_message *messages, size_t count,
                        bool generate, struct chat_ends ends, struct chat_text *out) {
  struct rendering r = {0};
  RETURN_IF(count == 0, NEAP_INVALID_ARGUMENT, "conversation: it has no messages");
  out->text.count = out->spans.count = 0;
  neap_status status = run_program(chat, messages, count, generate, ends, &r);
  if (status == NEAP_OK) status = vector_reserve(&out->text, r.text->length + 1);
  if (status == NEAP_OK) {
    memcpy(out->text.data, r.text->bytes, r.text->length);
    out->text.count = r.text->length;
    status = find_spans(chat, messages, count, ends, r.text, out);
  }
  region_free(&r.run.region);
  return status;
}
