/* Conversations with a language model: feeds the conversation, rendered by a template, to a generation. */
#include <string.h>

#include "model/model.h"
#include "train/generation.h"
#include "weights/variables.h"

enum { USUAL_LENGTH = 2048, USUAL_TOKENS = 512 };

struct neap_chat {
  neap_chat_options options;
  neap_generate_options generate; /* of the generation */
  struct generation generation;
  struct chat_template *chat;
  struct chat_ends ends;
  const char *lead;                     /* the text that the assistant writes before its content */
  int64_t length;                       /* tokens of a conversation at most */
  VECTOR(struct chat_message) messages; /* their contents are owned, but for the system's */
  struct chat_text rendered;
  struct token_ids ids;
  VECTOR(char) answer;
};

/* ---- Opening ---- */

static neap_status find_template(neap_chat *c) {
  const char *name = c->options.template_name;
  if (name != NULL) return chat_template_named(name, &c->chat);
  TRY(model_chat_template(c->generation.model, &c->chat));
  if (c->chat == NULL && c->options.usual_template != NULL)
    return chat_template_named(c->options.usual_template, &c->chat);
  RETURN_IF(
      c->chat == NULL, NEAP_INVALID_ARGUMENT,
      "model '%s' has no chat template; name the one that it was trained with (`template` NAME: chatml, "
      "llama3, plain, ...)",
      c->generate.model);
  return NEAP_OK;
}

static neap_status find_ends(neap_chat *c) {
  const struct tokenizer *t = c->generation.tokenizer;
  const struct chat_answer answer = chat_template_answer(c->chat);
  c->ends = (struct chat_ends){.bos = tokenizer_added_text(t, tokenizer_bos(t)),
                               .eos = tokenizer_added_text(t, tokenizer_eos(t))};
  c->lead = answer.lead;
  if (answer.end == NULL) return NEAP_OK;
  c->generation.end_token = tokenizer_find(t, answer.end);
  if (c->generation.end_token < 0) c->generation.end_text = answer.end;
  return NEAP_OK;
}

static neap_status settle_length(neap_chat *c) {
  int64_t places;
  TRY(generation_places(&c->generation, &places));
  c->length = c->options.length;
  RETURN_IF(c->length < 0 || c->length == 1 || c->length > INT32_MAX, NEAP_INVALID_ARGUMENT,
            "chat: a conversation of %lld tokens is not possible; the length must be 2 to 2147483647",
            (long long)c->length);
  RETURN_IF(places > 0 && c->length > places, NEAP_INVALID_ARGUMENT,
            "chat: a conversation of %lld tokens is too long: the model has positions for %lld; give a "
            "`length` up to that",
            (long long)c->length, (long long)places);
  if (c->length == 0) c->length = places > 0 && places < USUAL_LENGTH ? places : USUAL_LENGTH;
  return NEAP_OK;
}

static int take_text(void *context, const char *bytes, size_t length);
static int ask_stop(void *context);

static neap_status chat_open(neap_chat *c, uint64_t *smallest_budget) {
  TRY(generation_open(&c->generation, &c->generate));
  TRY(find_template(c));
  TRY(find_ends(c));
  TRY(settle_length(c));
  const char *system = c->options.system;
  if (system != NULL)
    TRY(vector_push(&c->messages, (struct chat_message){CHAT_SYSTEM, system, strlen(system)}));
  return generation_start(&c->generation, c->length, smallest_budget);
}

neap_status neap_chat_open(const neap_chat_options *options, uint64_t *smallest_budget, neap_chat **chat) {
  uint64_t smallest = 0;
  NEED(options);
  NEED(chat);
  *chat = NULL;
  neap_chat *c = calloc(1, sizeof *c);
  RETURN_IF_NULL(c);
  c->options = *options;
  c->generate = options->generate;
  c->generate.text = take_text;
  c->generate.context = c;
  if (c->generate.tokens == 0) c->generate.tokens = USUAL_TOKENS;
  const neap_status status = chat_open(c, &smallest);
  if (smallest_budget != NULL) *smallest_budget = smallest;
  c->generation.stop = ask_stop;
  if (status == NEAP_OK)
    *chat = c;
  else
    neap_chat_close(c);
  return status;
}

static size_t first_turn(const neap_chat *c) { return c->options.system != NULL ? 1 : 0; }

void neap_chat_close(neap_chat *c) {
  if (c == NULL) return;
  generation_close(&c->generation);
  chat_template_free(c->chat);
  for (size_t i = first_turn(c); i < c->messages.count; i++) free((char *)c->messages.data[i].content);
  vector_free(&c->messages);
  chat_text_free(&c->rendered);
  vector_free(&c->ids);
  vector_free(&c->answer);
  free(c);
}

/* ---- A turn ---- */

static int ask_stop(void *context) {
  const neap_chat_options *o = &((neap_chat *)context)->options;
  return o->stop != NULL ? o->stop(o->generate.context) : 0;
}

/* Keeps the answer, and passes it on without the text that the template puts before its content. */
static int take_text(void *context, const char *bytes, size_t length) {
  neap_chat *c = context;
  const neap_generate_options *o = &c->options.generate;
  const size_t lead = strlen(c->lead);
  if (c->answer.count == 0 && lead > 0 && length >= lead && memcmp(bytes, c->lead, lead) == 0) {
    bytes += lead;
    length -= lead;
  }
  if (length == 0) return 0;
  if (vector_reserve(&c->answer, c->answer.count + length) != NEAP_OK) return 1;
  memcpy(c->answer.data + c->answer.count, bytes, length);
  c->answer.count += length;
  return o->text != NULL ? o->text(o->context, bytes, length) : 0;
}

static neap_status add_message(neap_chat *c, enum chat_role role, const char *text, size_t length) {
  char *copy = malloc(length + 1);
  RETURN_IF_NULL(copy);
  memcpy(copy, length > 0 ? text : "", length);
  copy[length] = '\0';
  const neap_status status = vector_push(&c->messages, (struct chat_message){role, copy, length});
  if (status != NEAP_OK) free(copy);
  return status;
}

static void remove_messages(neap_chat *c, size_t first, size_t count) {
  struct chat_message *at = c->messages.data + first;
  for (size_t i = 0; i < count; i++) free((char *)at[i].content);
  memmove(at, at + count, (c->messages.count - first - count) * sizeof *at);
  c->messages.count -= count;
}

/* Encodes the conversation without the first `left_out` messages after the system's. */
static neap_status encode(neap_chat *c, size_t left_out) {
  const size_t first = first_turn(c), count = c->messages.count - left_out;
  VECTOR(struct chat_message) kept = {0};
  TRY(vector_reserve(&kept, count));
  memcpy(kept.data, c->messages.data, first * sizeof *kept.data);
  memcpy(kept.data + first, c->messages.data + first + left_out, (count - first) * sizeof *kept.data);
  neap_status status = chat_render(c->chat, kept.data, count, true, c->ends, &c->rendered);
  vector_free(&kept);
  const struct text text = {
      .bytes = c->rendered.text.data, .length = c->rendered.text.count, .name = "conversation"};
  c->ids.count = 0;
  TRY(status);
  status = tokenizer_encode(c->generation.tokenizer, &text, &c->ids);
  RETURN_IF(status == NEAP_OK && c->ids.count == 0, NEAP_INVALID_ARGUMENT,
            "chat: the conversation has no tokens; write a message");
  return status;
}

/* Leaves out the oldest turns, a question with its answer, until there is room for an answer. */
static neap_status fit(neap_chat *c, neap_chat_turn *turn, size_t *left_out) {
  const int64_t tokens = c->generate.tokens, room = tokens < c->length / 4 ? tokens : c->length / 4;
  for (*left_out = 0;; *left_out += 2) {
    TRY(encode(c, *left_out));
    if ((int64_t)c->ids.count + room <= c->length) break;
    if (*left_out + 2 >= c->messages.count - first_turn(c)) break;
  }
  RETURN_IF((int64_t)c->ids.count >= c->length, NEAP_INVALID_ARGUMENT,
            "chat: the message and the text before it have %zu tokens, which leaves no room for an answer in "
            "a conversation of %lld; shorten it, or give a larger `length`",
            c->ids.count, (long long)c->length);
  turn->dropped = (int64_t)(*left_out / 2);
  return NEAP_OK;
}

/* Answers. The text may end inside a character if the limit on tokens ended it. */
static neap_status answer(neap_chat *c, neap_chat_turn *turn) {
  struct generation *g = &c->generation;
  c->answer.count = 0;
  TRY(generation_feed(g, c->ids.data, c->ids.count));
  const int64_t room = c->length - (int64_t)c->ids.count, tokens = c->generate.tokens;
  turn->prompt_tokens = (int64_t)c->ids.count;
  turn->kept_tokens = (int64_t)g->read;
  neap_status status = generation_make(g, tokens < room ? tokens : room, &turn->seconds);
  turn->tokens = (int64_t)(g->ids.count - g->made);
  turn->ended = g->ended;
  turn->stopped = status == NEAP_INTERRUPTED;
  neap_session_memory(g->session, &turn->memory);
  if (turn->stopped) status = NEAP_OK;
  TRY(status);
  return add_message(c, CHAT_ASSISTANT, c->answer.data, c->answer.count);
}

neap_status neap_chat_say(neap_chat *chat, const char *text, neap_chat_turn *turn) {
  size_t left_out = 0;
  NEED(chat);
  NEED(text);
  NEED(turn);
  *turn = (neap_chat_turn){0};
  TRY(add_message(chat, CHAT_USER, text, strlen(text)));
  neap_status status = fit(chat, turn, &left_out);
  if (status == NEAP_OK) status = answer(chat, turn);
  if (status != NEAP_OK) {
    remove_messages(chat, chat->messages.count - 1, 1);
    return status;
  }
  remove_messages(chat, first_turn(chat), left_out);
  const struct chat_message *last = &chat->messages.data[chat->messages.count - 1];
  turn->text = last->content;
  turn->length = last->length;
  return NEAP_OK;
}
